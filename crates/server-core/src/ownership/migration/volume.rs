//! How much a migration has sent, and whether it still stands.

use crate::shard::engine::Engine;
use evenkeel_types::map::{ClusterMap, Migration};
use evenkeel_types::{CacheletId, Epoch};

/// Items and their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Volume {
    pub items: u64,
    pub bytes: u64,
}

/// Whether the map still has this very migration.
pub(crate) fn stands(map: &ClusterMap, cachelet: CacheletId, began: Epoch) -> Option<&Migration> {
    map.migration(cachelet)
        .filter(|migration| migration.began == began)
}

impl Volume {
    /// An item was sent that takes this many bytes.
    pub(crate) fn add(&mut self, engine: &mut Engine, bytes: usize) {
        self.items += 1;
        self.bytes += bytes as u64;
        engine.counters.migration_items_sent += 1;
        engine.counters.migration_bytes_sent += bytes as u64;
    }
}
