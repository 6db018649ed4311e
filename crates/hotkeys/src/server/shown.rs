//! What is shown of a worker's hot keys and its load.

use super::{HotKeys, HotKeysStats};
use crate::config::HotKeysConfig;
use crate::log::{Loads, Log};
use crate::popularity::SLOT;
use crate::replication::Replication;
use crate::ssm::Slot;
use crate::state::{State, Transitions};
use evenkeel_balance::load::TriggerConfig;
use evenkeel_types::{Instant, KeyHash, WorkerRef};

/// A tracked key, for statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKeyInfo {
    /// The key.
    pub key: Vec<u8>,
    /// Its state.
    pub state: State,
    /// When it entered that state.
    pub since: Instant,
    /// Estimated reads per second of all its copies, less the weight of its writes.
    pub requests_per_second: f64,
    /// What they add to the load, in small requests per second; see [`cost_of`](evenkeel_balance::load::cost_of).
    pub load: f64,
    /// Where its replicas are, by suffix from 1; γ is their number.
    pub shadows: Vec<WorkerRef>,
    /// In [`Mode::Observe`](crate::config::Mode::Observe): where they would be. Empty unless they would.
    pub proposed: Vec<WorkerRef>,
}

impl HotKeys {
    /// What this worker would serve without replicas, in small requests per second; an average. See
    /// [`cost_of`](evenkeel_balance::load::cost_of).
    pub fn load(&self) -> f64 {
        self.load.per_second()
    }

    /// The part of [`load`](Self::load) that replicas elsewhere are estimated to serve; an average.
    pub fn diverted_load(&self) -> f64 {
        (self.load() - self.own.per_second()).max(0.0)
    }

    /// What the replicas that this worker holds for other homes cost it, reads and stores, in small requests per second;
    /// an average.
    pub fn replica_load(&self) -> f64 {
        let read = (self.served.per_second() - self.own.per_second()).max(0.0);
        read + self.told.per_second()
    }

    /// Part of its time that this worker has something to do; an average. 0 until that was measured once.
    pub fn busy(&self) -> f64 {
        let busy = |slept_ns: f64| (1.0 - slept_ns / 1e9).clamp(0.0, 1.0);
        self.slept.measured().map_or(0.0, busy)
    }

    /// How many keys may have replicas.
    pub fn replicated_count(&self) -> usize {
        self.replicated.len()
    }

    /// Whether a key has replicas, or would have some if it were not only observed.
    pub fn has_replicas(&self, hash: KeyHash, key: &[u8]) -> bool {
        let slot = self.table.find(hash, key);
        slot.is_some_and(|slot| {
            self.table[slot].replication.is_some() || self.proposed.contains_key(&slot)
        })
    }

    /// By what it decides; when it looks for hot keys at all, [`trigger`](Self::trigger) says.
    pub fn config(&self) -> &HotKeysConfig {
        &self.config
    }

    /// When this worker looks for hot keys, as was chosen last.
    pub fn trigger(&self) -> &TriggerConfig {
        self.trigger.config()
    }

    /// How many keys would have replicas if they were not only observed.
    pub fn proposed_count(&self) -> usize {
        self.proposed.len()
    }

    /// How many keys are tracked.
    pub fn tracked_count(&self) -> usize {
        self.table.len()
    }

    /// What this worker carries and compares it with.
    pub fn loads(&self) -> Loads {
        Loads {
            undiverted: self.load(),
            served: self.served.per_second(),
            mean: self.mean_worker_load,
            busy: self.busy(),
        }
    }

    /// What was done, why, and what came of it.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The keys that have replicas, or would have them, the greatest load first. For reports.
    pub fn list_spread(&self) -> Vec<HotKeyInfo> {
        let slots = self.replicated.iter().chain(self.proposed.keys());
        by_load(slots.map(|&slot| self.describe(slot)).collect())
    }

    /// Every tracked key, the greatest load first. O(n log n); for statistics.
    pub fn list(&self) -> Vec<HotKeyInfo> {
        let slots = self.table.slots().into_iter();
        by_load(slots.map(|slot| self.describe(slot)).collect())
    }

    /// How often each move between states was made.
    pub fn transitions(&self) -> &Transitions {
        &self.transitions
    }

    /// Counters.
    pub fn stats(&self) -> HotKeysStats {
        self.stats
    }

    /// Bytes that the SSM cache takes, without the lists of shadow workers.
    pub fn ssm_bytes(&self) -> usize {
        self.table.bytes()
    }

    fn describe(&self, slot: Slot) -> HotKeyInfo {
        let entry = &self.table[slot];
        let targets = |r: &Replication| r.targets().collect();
        HotKeyInfo {
            key: entry.key.clone(),
            state: entry.state,
            since: entry.since,
            requests_per_second: entry.popularity.per_slot() / SLOT.as_secs_f64(),
            load: entry.popularity.load_per_slot() / SLOT.as_secs_f64(),
            shadows: entry
                .replication
                .as_deref()
                .map(targets)
                .unwrap_or_default(),
            proposed: self.proposed.get(&slot).cloned().unwrap_or_default(),
        }
    }
}

/// The greatest load first.
fn by_load(mut list: Vec<HotKeyInfo>) -> Vec<HotKeyInfo> {
    list.sort_by(|a, b| {
        let order = b.load.total_cmp(&a.load);
        order.then_with(|| a.key.cmp(&b.key))
    });
    list
}
