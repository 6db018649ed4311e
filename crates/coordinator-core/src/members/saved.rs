//! A server as it is saved.

use evenkeel_types::map::ServerEntry;
use evenkeel_types::{BootId, Epoch, Instant};
use serde::{Deserialize, Serialize};

use super::drain::Drain;
use super::fence::Fence;
use super::server::Server;
use crate::limits::DRAIN_RATE;

/// A server that has registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedServer {
    /// As in the map, but for whether it is [leaving](ServerEntry::leaving).
    pub entry: ServerEntry,
    /// Its former lives, oldest first, at most [`FORMER_LIVES_MAX`](crate::limits::FORMER_LIVES_MAX).
    pub former: Vec<BootId>,
    /// Whether it is to be emptied.
    #[serde(default)]
    pub draining: bool,
    /// Whether it is so because its process was told to end.
    #[serde(default)]
    pub ending: bool,
    /// Oldest map that its present life may work by.
    #[serde(default)]
    pub works_by_at_least: Epoch,
    /// Oldest map by which other servers may let it serve.
    #[serde(default)]
    pub votes_from: Epoch,
    /// See [`Heartbeat::leased`](crate::Heartbeat::leased).
    #[serde(default)]
    pub leased: bool,
    /// Whether its process is known to have ended as it should.
    #[serde(default)]
    pub over: bool,
    /// Whether its name is forgotten, and its id waits for another.
    #[serde(default)]
    pub forgotten: bool,
    /// Whether it can pass cachelets on with their contents.
    #[serde(default)]
    pub migrates: bool,
}

impl SavedServer {
    fn fence(&self) -> Fence {
        let mut fence = Fence::restore(self.works_by_at_least, self.votes_from, self.leased);
        if self.forgotten || self.over {
            // It or an operator has said so, or there is nothing that it could serve.
            fence.end();
        }
        fence
    }

    /// It is taken to be as it was, and gets a whole silence to report again.
    pub(crate) fn restore(self, now: Instant) -> Server {
        Server {
            fence: self.fence(),
            entry: self.entry,
            former: self.former,
            drain: self.draining.then(|| match self.ending {
                true => Drain::of_its_end(now),
                false => Drain::new(now, DRAIN_RATE),
            }),
            applied: Epoch(0),
            migrates: self.migrates,
            asks_for_moves: false,
            last_heard: now,
            last_reached: None,
            is_forgotten: self.forgotten,
            load: Vec::new(),
        }
    }

    /// What the map says of it.
    pub(crate) fn in_map(&self) -> ServerEntry {
        ServerEntry {
            leaving: self.draining,
            ..self.entry.clone()
        }
    }
}

impl From<&Server> for SavedServer {
    fn from(server: &Server) -> Self {
        SavedServer {
            entry: server.entry.clone(),
            former: server.former.clone(),
            draining: server.drain.is_some(),
            ending: server.drain.is_some_and(|drain| drain.is_of_its_end()),
            works_by_at_least: server.fence.works_by_at_least,
            votes_from: server.fence.votes_from,
            leased: server.fence.leased,
            over: server.fence.is_over(),
            forgotten: server.is_forgotten,
            migrates: server.migrates,
        }
    }
}
