//! Which keys are hot, and how many replicas they deserve.

use evenkeel_types::Instant;

use super::config::replicated_max;
use super::{
    Entry, HOT_KEY_LEN_MAX, PlainHotKey, PlainHotKeys, PlainMode, READS_PER_LEASE_MIN, copies_at,
};
use crate::config::{gamma_for, sampling_for};
use crate::popularity::SLOT;
use evenkeel_placement::pool::Placement;
use evenkeel_placement::renaming::plain_shadows;

impl PlainHotKeys {
    /// Tells that the deadline has passed: keys become hot, or cool.
    pub fn handle_timeout(&mut self, now: Instant, placement: &Placement) {
        if now < self.next_slot {
            return;
        }
        // A worker that was held up for several slots has counted nothing meanwhile.
        self.next_slot = now + SLOT;
        self.sketch.decay();
        let sampling = sampling_for(self.config.sampling, self.sketch.total());
        for sampler in &mut self.samplers {
            sampler.set_probability(sampling);
        }
        if self.config.mode == PlainMode::On {
            self.judge(now, placement);
        }
    }

    /// Every key that has a counter, the most read first. O(n log n); for statistics.
    pub fn list(&self, now: Instant) -> Vec<PlainHotKey> {
        let total = self.sketch.total().max(f64::MIN_POSITIVE);
        let seconds = self.seconds_counted(now);
        let top = self.sketch.top().into_iter();
        let list = top.map(|top| PlainHotKey {
            reads_per_second: top.reads / seconds,
            writes_per_second: top.writes / seconds,
            share: top.reads / total,
            gamma: self
                .position(top.hash, &top.key)
                .map_or(0, |at| self.entries[at].copies.len() as u8),
            key: top.key,
        });
        list.collect()
    }

    /// How long what is counted took to count: one slot when one has just ended, growing until the next
    /// one has.
    pub(super) fn seconds_counted(&self, now: Instant) -> f64 {
        let left = self.next_slot.since(now).min(SLOT).as_secs_f64();
        2.0 * SLOT.as_secs_f64() - left
    }

    /// Compares every counted key with what a server should carry.
    fn judge(&mut self, now: Instant, placement: &Placement) {
        let fair = self.sketch.total() / placement.len() as f64;
        // By the halves of the slots before, what is counted is that of one slot.
        let least = READS_PER_LEASE_MIN * SLOT.as_secs_f64() / self.config.lease.as_secs_f64();
        let write_weight = self.config.write_weight;
        let sketch = &self.sketch;
        // Of a key that is read enough here: its part of a server's fair share.
        let heat = |hash, key: &[u8], part: f64| {
            let (reads, writes) = sketch.count(hash, key);
            let is_enough = fair > 0.0 && reads >= part * least;
            is_enough.then_some((reads - write_weight * writes) / fair)
        };
        let before = self.entries.len();
        let cold = self.config.cold_share;
        let stays = |entry: &Entry| heat(entry.hash, &entry.key, 0.5).is_some_and(|h| h >= cold);
        self.entries.retain(stays);
        self.stats.cooled += (before - self.entries.len()) as u64;
        let hot = sketch.top().into_iter().filter_map(|top| {
            let heat = heat(top.hash, &top.key, 1.0)?;
            (heat >= self.config.hot_share).then_some((top, heat))
        });
        let hot: Vec<_> = hot.collect();
        let replicated_max = replicated_max(placement.len());
        for (top, heat) in hot {
            let (share, max) = (self.config.copy_share, self.config.gamma_max);
            let gamma = gamma_for(heat, share, placement.len() - 1, max);
            match self.at(top.hash) {
                Some(at) => grow(&mut self.entries[at], placement, gamma),
                None if gamma == 0 => {}
                None if top.key.len() > HOT_KEY_LEN_MAX => self.stats.unpromoted_long += 1,
                None if self.entries.len() >= replicated_max => self.stats.unpromoted_full += 1,
                None => {
                    self.stats.promoted += 1;
                    let at = self.entries.partition_point(|entry| entry.hash < top.hash);
                    let copies = copies_at(plain_shadows(placement, &top.key, gamma));
                    self.entries
                        .insert(at, Entry::new(now, top.hash, top.key, copies));
                }
            }
        }
        self.rebuild_filter();
    }
}

/// Adapts the number of copies, if it is to differ by a quarter or more: those that go are no longer
/// read and expire.
fn grow(entry: &mut Entry, placement: &Placement, gamma: u8) {
    let now = entry.copies.len();
    if usize::from(gamma).abs_diff(now) * 4 < now.max(4) {
        return;
    }
    let servers = plain_shadows(placement, &entry.key, gamma);
    let more = servers.get(now..).unwrap_or_default();
    entry.copies.truncate(servers.len());
    entry.copies.extend(copies_at(more.to_vec()));
}
