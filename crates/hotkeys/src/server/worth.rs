//! When replicas of a key are worth what they cost.
//!
//! Replicas cost stores, leases, and memory of servers and clients, and each moves work to workers that did not ask for
//! it. They are worth that where two things hold:
//!
//! - *The key is hot, and not by chance.* How popular it is, is told from a sample. Where a worker serves 350 requests a
//!   second, 1 % of them are one read in a quarter of a second, give or take one; so of a hundred keys that are all
//!   lukewarm some always look hot, and a moment later cold. A key is hot if it is above [`hot_share`] by more
//!   than the error of the estimate, and it has cooled once it is below [`cold_share`] by more than that. Where samples
//!   are many the errors vanish, and the two shares alone decide.
//! - *The worker needs it.* It serves more than workers do on average, even with what its present replicas take away. A
//!   worker that is busy with many lukewarm keys gives away what it has too much of, not all of them.
//!
//! [`hot_share`]: crate::config::HotKeysConfig::hot_share
//! [`cold_share`]: crate::config::HotKeysConfig::cold_share

use super::HotKeys;
use crate::popularity::SLOT;
use crate::ssm::Slot;

impl HotKeys {
    /// Whether a key without replicas is hot, and not by chance.
    pub(super) fn is_hot(&self, slot: Slot) -> bool {
        let popularity = &self.table[slot].popularity;
        let doubt = self.doubt(slot);
        let load = self.load() * SLOT.as_secs_f64();
        (popularity.per_slot() - doubt) * popularity.cost() >= self.config.hot_share * load
    }

    /// Whether a key with replicas, or one that would have some, is not hot any more, and not by chance.
    pub(super) fn has_cooled(&self, slot: Slot) -> bool {
        let popularity = &self.table[slot].popularity;
        let doubt = self.doubt(slot);
        let load = self.load() * SLOT.as_secs_f64();
        (popularity.per_slot() + doubt) * popularity.cost() < self.config.cold_share * load
    }

    /// How far from the truth the requests per slot of a key are taken to be at most.
    pub(super) fn doubt(&self, slot: Slot) -> f64 {
        let entry = &self.table[slot];
        let counted_as = match &entry.replication {
            Some(_) => 1.0,
            None => 1.0 / self.sampler.probability(),
        };
        self.config.certainty * entry.popularity.error(counted_as)
    }

    /// Whether this worker serves more than it should, with what its replicas take away, or would if they were not only
    /// observed. By averages of the load and not by what is served at the moment, so that it holds as soon as a key is
    /// promoted.
    pub(super) fn needs_relief(&self) -> bool {
        let of_others = self.served.per_second() - self.own.per_second();
        let served = (self.load() - self.taken_away + of_others).max(0.0);
        served >= self.trigger.relieved_at(self.mean_worker_load)
    }

    /// Sums up what all replicas take away.
    pub(super) fn sum_taken_away(&mut self) {
        let slots = self.replicated.iter().chain(self.proposed.keys());
        self.taken_away = slots.map(|&slot| self.taken_away_of(slot)).sum();
    }

    /// What the replicas of a key take away from this worker, or would: their equal parts of its load, per second.
    pub(super) fn taken_away_of(&self, slot: Slot) -> f64 {
        let entry = &self.table[slot];
        let replicas = match &entry.replication {
            Some(replication) => usize::from(replication.gamma()),
            None => self.proposed.get(&slot).map_or(0, Vec::len),
        };
        let load = entry.popularity.load_per_slot().max(0.0) / SLOT.as_secs_f64();
        load * replicas as f64 / (replicas as f64 + 1.0)
    }
}
