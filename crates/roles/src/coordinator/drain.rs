//! Draining: a server is emptied before it is taken away.
//!
//! Its cachelets go to the other servers at a chosen rate, with their contents where that is possible; the others
//! have to be filled again there, which is not to come at once. It serves what it still owns meanwhile, and gets nothing new; when it owns nothing it can be
//! stopped and nobody asks for it. A drain outlives the coordinator, and the server: under its name a
//! server stays drained until an operator says otherwise.

use std::collections::BTreeMap;

use evenkeel_types::{CacheletId, Instant, ServerId};
use serde::{Deserialize, Serialize};

use super::placing::Slot;
use super::{CoordinatorCore, limits};

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
    /// Cachelets that it still owns, or has given up and nobody has yet.
    pub cachelets: usize,
}

/// Why a server is not drained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrainRefusal {
    /// No server of that name has ever registered.
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
pub(super) struct Drain {
    /// From when on its rate counts.
    since: Instant,
    /// Cachelets a second.
    rate: u32,
    /// Cachelets taken from the server since then.
    taken: usize,
}

impl Drain {
    /// Begins, or goes on after the coordinator was started again: the state does not say how fast.
    pub(super) fn new(since: Instant, rate: u32) -> Self {
        Drain {
            since,
            rate,
            taken: 0,
        }
    }

    /// How many cachelets may be taken now.
    pub(super) fn allowed(&self, now: Instant) -> usize {
        let seconds = now.since(self.since).as_secs_f64();
        let due = (seconds * f64::from(self.rate)) as usize + 1;
        due.saturating_sub(self.taken)
    }

    /// So many were taken.
    pub(super) fn take(&mut self, cachelets: usize) {
        self.taken += cachelets;
    }
}

impl CoordinatorCore {
    /// Begins or ends the drain of a server. Saying it again changes the rate.
    ///
    /// # Errors
    ///
    /// See [`DrainRefusal`]; then nothing has changed.
    pub fn handle_drain(
        &mut self,
        now: Instant,
        request: &DrainRequest,
    ) -> Result<DrainView, DrainRefusal> {
        let rate = request.cachelets_per_second;
        if !(1..=limits::DRAIN_RATE_MAX).contains(&rate) {
            return Err(DrainRefusal::BadRate { rate });
        }
        let name = request.server.clone();
        let found = self.servers.iter().position(|s| s.entry.name == name);
        let Some(position) = found else {
            return Err(DrainRefusal::UnknownServer { name });
        };
        let others = self.servers.iter().enumerate();
        let has_other = others
            .filter(|(other, _)| *other != position)
            .any(|(_, server)| server.entry.up && server.drain.is_none());
        if request.drain && !has_other {
            return Err(DrainRefusal::NobodyElse { name });
        }
        let server = &mut self.servers[position];
        let was_drained = server.drain.is_some();
        server.drain = request.drain.then(|| Drain::new(now, rate));
        if was_drained != request.drain {
            self.revision += 1;
            self.has_wishes = true;
        }
        let id = self.servers[position].entry.id;
        Ok(DrainView {
            server: name,
            draining: request.drain,
            cachelets: self.cachelets_of(id),
        })
    }

    /// Loads of the cachelets of drained servers that are up, as far as told. Empty at once where there are none.
    pub(super) fn loads_of_drained(&self, now: Instant) -> BTreeMap<CacheletId, f64> {
        let drained = |id: ServerId| self.servers[usize::from(id.0)].drain.is_some();
        if !self.servers.iter().any(|server| server.drain.is_some()) {
            return BTreeMap::new();
        }
        let loads = self.server_loads(now).into_iter();
        let workers = loads
            .filter(|load| drained(load.server))
            .flat_map(|load| load.workers);
        let cachelets = workers.flat_map(|(worker, _)| worker.cachelets);
        cachelets.map(|load| (load.cachelet, load.load)).collect()
    }

    /// Cachelets that a server owns, or has given up and nobody has yet.
    fn cachelets_of(&self, server: ServerId) -> usize {
        let are_its = |slot: &&Slot| match slot {
            Slot::Owned(owner) => owner.server == server,
            Slot::Moving(moving) => moving.from.server == server,
            Slot::Released { by, .. } => *by == server,
            Slot::Merged => false,
        };
        self.slots.iter().filter(are_its).count()
    }
}
