//! Names that come and go: how many may be new, when one is forgotten, and who gets its id.
//!
//! A server's id is a position in every map, so it is never taken out of one. When a name is forgotten, its id is kept for
//! the next new name. That one gets it only when nothing that is remembered means the former holder by it: it is down,
//! no cachelet is concerned with it, and it is in no list of those who were up by a map that somebody may still work
//! by (see `fence`, where a vote of the former holder must not be taken for one of the new).
//!
//! A name is forgotten once its server has owned nothing for long enough while it was down, or when an operator says that it is gone. The second
//! is believed in all: a server of which half or more of the others are down, too, keeps its cachelets because it may
//! only be cut off, and an operator is who can know that it is not.
//!
//! Anyone who can send heartbeats could fill the table of names, so that only this many new ones are taken a minute
//! once the initial servers are there. At that pace names are forgotten before the table is full.

use std::collections::VecDeque;

use evenkeel_types::Instant;
use evenkeel_types::map::SERVERS_MAX;
use serde::{Deserialize, Serialize};

use crate::limits::{FORGET_AFTER, JOINS_PER_MINUTE, MINUTE};

const _: () = assert!(
    JOINS_PER_MINUTE * (FORGET_AFTER.as_secs() / MINUTE.as_secs()) as usize <= SERVERS_MAX / 2,
    "new names that are gone again leave room for others"
);

/// When new names were taken.
#[derive(Debug, Default)]
pub(crate) struct Joins(VecDeque<Instant>);

impl Joins {
    /// Takes a new name now, if there were not too many lately.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        while self
            .0
            .front()
            .is_some_and(|then| now.since(*then) >= MINUTE)
        {
            self.0.pop_front();
        }
        let is_taken = self.0.len() < JOINS_PER_MINUTE;
        if is_taken {
            self.0.push_back(now);
        }
        is_taken
    }
}

/// A server that was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedView {
    /// Its name.
    pub server: String,
    /// Cachelets that it still owned, and that go to others. Their contents are lost.
    pub cachelets: usize,
}

/// Why a server is not removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoveRefusal {
    /// No server of that name is known.
    #[error("no server is named {name:?}")]
    UnknownServer {
        /// The name.
        name: String,
    },
    /// It is alive.
    #[error("server {name:?} is up: end its process first, which hands over what it has")]
    StillUp {
        /// The name.
        name: String,
    },
    /// Nobody could take its cachelets.
    #[error("no server is up that could take the {cachelets} cachelets of {name:?}")]
    NobodyElse {
        /// The name.
        name: String,
        /// How many it owns.
        cachelets: usize,
    },
}
