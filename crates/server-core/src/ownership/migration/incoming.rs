//! A cachelet on its way from another server: stored apart until the source has decided.

use crate::ownership::migration::volume::Volume;
use crate::session::ConnectionId;
use crate::shard::engine::Engine;
use evenkeel_types::{CacheletId, Epoch};

/// A cachelet that comes from another server.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub began: Epoch,
    pub(crate) since: Epoch,
    pub(crate) connection: ConnectionId,
    pub staged: Staged,
    pub taken: Volume,
}

/// How much of an incoming cachelet is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staged {
    /// Nothing, and nothing more will come of it: the connection was lost, or a `flush_all` came between.
    Not,
    /// Some of it.
    Partly,
    /// All of it. Whether the source has decided is not known here.
    Active,
    /// All of it, and it is served.
    Live,
}

impl Incoming {
    /// Whether there are contents.
    pub fn has_contents(&self) -> bool {
        self.staged != Staged::Not
    }

    /// What has come so far is of no use. What is whole stays: the source may have decided.
    pub(crate) fn forget_part(&mut self, cachelet: CacheletId, engine: &mut Engine) {
        if self.staged == Staged::Partly {
            self.staged = Staged::Not;
            engine.store.drop_cachelet(cachelet);
            engine.counters.migrations_dropped += 1;
        }
    }
}
