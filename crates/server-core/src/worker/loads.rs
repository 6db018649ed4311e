//! How much the cachelets of a worker add to its load, told once in an interval to whoever balances.

use crate::worker::core::WorkerCore;
use evenkeel_balance::cachelet_load::{CacheletCounts, CacheletLoad, CacheletMeter, WorkerLoad};
use evenkeel_storage::{CacheletStats, Store};
use evenkeel_types::{CacheletId, Instant};

impl WorkerCore {
    /// The load of this worker and of its cachelets, of which rates are as the last interval left them.
    /// Takes time in proportion to the cachelets.
    pub fn cachelet_loads(&self) -> WorkerLoad {
        let (hot, store) = (&self.engine.hot, &self.engine.store);
        let mut cachelets = Vec::new();
        for id in store.cachelet_ids() {
            let load = self.meter.load_of(id);
            let stats = store.cachelet_stats(id).unwrap_or_default();
            cachelets.push(CacheletLoad {
                memory_bytes: stats.held_bytes,
                items: stats.items,
                ..load
            });
        }
        cachelets.sort_by_key(|load| load.cachelet);
        let mut worker = WorkerLoad {
            worker: self.config.index,
            intervals: self.meter.intervals(),
            load: cachelets.iter().map(|load| load.load).sum(),
            replica_load: hot.replica_load(),
            diverted_load: hot.diverted_load(),
            busy: hot.busy(),
            replicated_keys: hot.replicated_count() as u64,
            memory_bytes: store.held_bytes() + self.engine.replicas.held_bytes(),
            cachelets,
        };
        worker.divide_busy();
        worker
    }

    /// What is known of the load of a cachelet that goes to another worker.
    pub fn release_meter(&mut self, id: CacheletId) -> Option<CacheletMeter> {
        self.meter.release(id)
    }

    /// What the former worker knew of the load of a cachelet that comes.
    pub fn admit_meter(&mut self, id: CacheletId, meter: CacheletMeter) {
        self.meter.admit(id, meter);
    }

    /// Measures the cachelets that have come since from now on, and those that have gone no more.
    pub(crate) fn settle_meters(&mut self, now: Instant) {
        self.meter.settle(now, counts(&self.engine.store));
    }

    /// Ends an interval of measuring, if it is over.
    pub(crate) fn measure(&mut self, now: Instant) {
        if self.meter.is_due(now) {
            self.meter.roll(now, counts(&self.engine.store));
        }
    }
}

/// What the cachelets of a store have counted.
fn counts(store: &Store) -> impl Iterator<Item = (CacheletId, CacheletCounts)> + '_ {
    store.cachelet_ids().map(|id| {
        let stats: CacheletStats = store.cachelet_stats(id).unwrap_or_default();
        let counts = CacheletCounts {
            reads: stats.reads,
            hits: stats.hits,
            writes: stats.writes,
            bytes_in: stats.bytes_in,
            bytes_out: stats.bytes_out,
        };
        (id, counts)
    })
}
