//! Draining: a server is emptied before it is taken away.
//!
//! Its cachelets go to the other servers at a chosen rate, with their contents where that is possible; the others
//! have to be filled again there, which is not to come at once. It serves what it still owns meanwhile, and gets nothing new. A
//! drain outlives the coordinator, and the server: under its name a server stays drained until an operator says otherwise.
//!
//! That a server owns nothing is not enough to stop it: who works by an older map goes on asking it, and is told there
//! where to go. So a drain is over only when every member that is up has confirmed a map that gives the server nothing
//! ([`CoordinatorCore::drains`](crate::CoordinatorCore::drains)). From the beginning of a drain on maps say that the server is
//! [leaving](evenkeel_types::map::ServerEntry::leaving), so that no replicas of hot keys are there, either. Who is
//! not heard of is not waited for, but named.

use evenkeel_types::{Epoch, Instant};
use serde::{Deserialize, Serialize};

use crate::limits;

/// An operator's wish to empty a server, or to stop that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// The server's name.
    pub server: String,
    /// Whether it is to be emptied; false lets it take part again.
    pub drain: bool,
    /// Cachelets that it gives up in a second, 1 to [`limits::DRAIN_RATE_MAX`].
    #[serde(default = "default_rate")]
    pub cachelets_per_second: u32,
}

fn default_rate() -> u32 {
    limits::DRAIN_RATE
}

/// How far a drain has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainView {
    /// The server's name.
    pub server: String,
    /// Whether it is drained.
    pub draining: bool,
    /// Cachelets that it still owns, has given up and nobody has yet, or that were on their way to it and may yet come.
    pub cachelets: usize,
    /// Members that are up and may still ask it, because they have not confirmed a map that gives it nothing. Of a server
    /// that owns something, none are told.
    #[serde(default)]
    pub awaited: Vec<String>,
    /// Proxies of which the same is true, and which have not been heard of for so long that they count as down.
    #[serde(default)]
    pub unheard: Vec<String>,
    /// Whether it can be stopped and nobody that is up will ask it for anything.
    #[serde(default)]
    pub may_stop: bool,
}

/// All drains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainsView {
    /// Epoch of the newest map.
    pub epoch: Epoch,
    /// Servers that are drained, by id.
    pub drains: Vec<DrainView>,
}

/// Why a server is not drained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrainRefusal {
    /// No server of that name is known.
    #[error("no server is named {name:?}")]
    UnknownServer {
        /// The name.
        name: String,
    },
    /// Nobody else could take its cachelets.
    #[error(
        "server {name:?} is the only one that is up and not drained: nobody could take its cachelets"
    )]
    NobodyElse {
        /// The name.
        name: String,
    },
    /// Not a rate.
    #[error(
        "{rate} cachelets per second is no rate: use 1 to {}",
        limits::DRAIN_RATE_MAX
    )]
    BadRate {
        /// What was asked for.
        rate: u32,
    },
}

/// A drain in this coordinator's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drain {
    /// From when on its rate counts.
    since: Instant,
    /// Cachelets a second.
    rate: u32,
    /// Cachelets taken from the server since then.
    taken: usize,
    /// First map that this coordinator knows to give the server nothing, and in which nothing is on its way to it.
    empty_from: Option<Epoch>,
    /// The server's process was told to end; the drain is over with it.
    is_of_its_end: bool,
    /// Everybody was seen to have confirmed such a map, so that nobody need hurry.
    is_followed: bool,
}

impl Drain {
    /// Begins, or goes on after the coordinator was started again: the state does not say how fast.
    pub(crate) fn new(since: Instant, rate: u32) -> Self {
        Drain {
            since,
            rate,
            taken: 0,
            empty_from: None,
            is_of_its_end: false,
            is_followed: false,
        }
    }

    /// Begins, or goes on, because the server's process was told to end: as fast as others take its cachelets.
    pub(crate) fn of_its_end(since: Instant) -> Self {
        Drain {
            is_of_its_end: true,
            ..Drain::new(since, limits::DRAIN_RATE_MAX)
        }
    }

    /// Whether it is over when the server's process is.
    pub(crate) fn is_of_its_end(&self) -> bool {
        self.is_of_its_end
    }

    /// From now on as fast as others take its cachelets.
    pub(crate) fn hurry(&mut self, now: Instant) {
        if self.rate < limits::DRAIN_RATE_MAX {
            (self.since, self.rate, self.taken) = (now, limits::DRAIN_RATE_MAX, 0);
        }
    }

    /// How many cachelets may be taken now.
    pub(crate) fn allowed(&self, now: Instant) -> usize {
        let seconds = now.since(self.since).as_secs_f64();
        let due = (seconds * f64::from(self.rate)) as usize + 1;
        due.saturating_sub(self.taken)
    }

    pub(crate) fn awaits_members(&self) -> bool {
        self.empty_from.is_some() && !self.is_followed
    }

    /// First map that is known to give the server nothing.
    pub(crate) fn empty_from(&self) -> Option<Epoch> {
        self.empty_from
    }

    /// Notes whether the newest map, which is of that epoch, gives the server nothing.
    pub(crate) fn note_newest(&mut self, epoch: Epoch, is_empty: bool) {
        self.empty_from = is_empty.then(|| self.empty_from.unwrap_or(epoch));
        self.is_followed &= is_empty;
    }

    /// Notes whether everybody was seen to have confirmed that the server owns nothing.
    pub(crate) fn note_followed(&mut self, is_followed: bool) {
        self.is_followed = is_followed;
    }

    /// This many were taken.
    pub(crate) fn take(&mut self, cachelets: usize) {
        self.taken += cachelets;
    }
}
