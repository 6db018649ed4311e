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
//! Whoever can send heartbeats could fill the table of names, so that only so many new ones are taken a minute
//! once the initial servers are there. At that pace names are forgotten before the table is full.

use std::collections::VecDeque;

use evenkeel_types::map::SERVERS_MAX;
use evenkeel_types::{Instant, Now, ServerId};
use serde::{Deserialize, Serialize};

use super::event::Cause;
use super::limits::{FORGET_AFTER, JOINS_PER_MINUTE, MINUTE};
use super::{Change, CoordinatorCore};

const _: () = assert!(
    JOINS_PER_MINUTE * (FORGET_AFTER.as_secs() / MINUTE.as_secs()) as usize <= SERVERS_MAX / 2,
    "new names that are gone again leave room for others"
);

/// When new names were taken.
#[derive(Debug, Default)]
pub(super) struct Joins(VecDeque<Instant>);

impl Joins {
    /// Takes a new name now, if there were not too many lately.
    pub(super) fn take(&mut self, now: Instant) -> bool {
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

impl CoordinatorCore {
    /// Forgets a server for an operator, who knows that its process has ended. What it owns goes to others at once.
    ///
    /// # Errors
    ///
    /// See [`RemoveRefusal`]; then nothing has changed.
    pub fn remove_server(&mut self, now: Now, name: &str) -> Result<RemovedView, RemoveRefusal> {
        let known = self.position_of(name);
        let position = known.ok_or_else(|| RemoveRefusal::UnknownServer { name: name.into() })?;
        let id = self.servers[position].entry.id;
        if self.servers[position].entry.up {
            return Err(RemoveRefusal::StillUp { name: name.into() });
        }
        let cachelets = self.cachelets_of(id);
        if cachelets > 0 && self.takers().next().is_none() {
            let name = name.into();
            return Err(RemoveRefusal::NobodyElse { name, cachelets });
        }
        self.notice_pause(now.monotonic);
        self.servers[position].fence.end();
        let mut changes = Vec::new();
        self.forget(id, &mut changes);
        self.finish(now, changes);
        Ok(RemovedView {
            server: name.to_owned(),
            cachelets,
        })
    }

    /// Forgets those who have been gone for long and own nothing. O(servers), and O(cachelets) for each of those.
    pub(super) fn forget_gone(&mut self, now: Instant, changes: &mut Vec<Change>) {
        for position in 0..self.servers.len() {
            let server = &self.servers[position];
            let id = server.entry.id;
            let is_gone = !server.entry.up
                && !server.is_forgotten
                && now.since(server.last_heard) >= FORGET_AFTER;
            if is_gone && self.cachelets_of(id) == 0 {
                self.forget(id, changes);
            }
        }
    }

    fn forget(&mut self, id: ServerId, changes: &mut Vec<Change>) {
        let server = &mut self.servers[usize::from(id.0)];
        server.is_forgotten = true;
        server.drain = None;
        changes.push(Change::of_server(Cause::ServerForgotten, id));
    }

    /// Where a server stands that has a name and was not forgotten.
    pub(super) fn position_of(&self, name: &str) -> Option<usize> {
        let mut servers = self.servers.iter();
        servers.position(|server| !server.is_forgotten && server.entry.name == name)
    }

    /// An id of a forgotten name that nothing means any more: its holder may come back and have it until then. O(servers), and O(cachelets + electorates) for each of those.
    pub(super) fn free_id(&self) -> Option<usize> {
        let forgotten = self.servers.iter().filter(|server| server.is_forgotten);
        let mut ids = forgotten.map(|server| server.entry.id);
        let is_free = |id: &ServerId| {
            let is_named = self.electorates.name(*id) || self.remembers_death_of(*id);
            !is_named && self.cachelets_of(*id) == 0
        };
        ids.find(is_free).map(|id| usize::from(id.0))
    }
}
