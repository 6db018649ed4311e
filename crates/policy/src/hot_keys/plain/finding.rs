//! Which keys are hot, and how many replicas they deserve.

use evenkeel_types::Instant;

use super::{
    Entry, HOT_KEY_LEN_MAX, PlainHotKey, PlainHotKeys, PlainMode, REPLICATED_MAX, copies_at,
};
use crate::hot_keys::config::gamma_for;
use crate::hot_keys::popularity::SLOT;
use crate::placement::pool::Placement;
use crate::placement::renaming::plain_shadows;

impl PlainHotKeys {
    /// Tells that the deadline has passed: keys become hot, or cool.
    pub fn handle_timeout(&mut self, now: Instant, placement: &Placement) {
        if now < self.next_slot {
            return;
        }
        // A worker that was held up for several slots has counted nothing meanwhile.
        self.next_slot = now + SLOT;
        self.sketch.decay();
        if self.config.mode == PlainMode::On {
            self.judge(now, placement);
        }
    }

    /// Every key that has a counter, the most read first. O(n log n); for statistics.
    pub fn list(&self, now: Instant) -> Vec<PlainHotKey> {
        let total = self.sketch.total().max(f64::MIN_POSITIVE);
        // Counts are of one slot when one has just ended, and grow until the next one has.
        let left = self.next_slot.since(now).min(SLOT).as_secs_f64();
        let seconds = 2.0 * SLOT.as_secs_f64() - left;
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

    /// Compares every counted key with what a server should carry.
    fn judge(&mut self, now: Instant, placement: &Placement) {
        let fair = self.sketch.total() / placement.len() as f64;
        // By the halves of the slots before, what is counted is that of one slot.
        let least = self.config.hot_rps_min * SLOT.as_secs_f64();
        let heat = |reads: f64, writes: f64, least: f64| {
            let is_enough = fair > 0.0 && reads >= least;
            let worth = reads - self.config.write_weight * writes;
            is_enough.then_some(worth / fair)
        };
        let cold = self.config.cold_share;
        let before = self.entries.len();
        let sketch = &self.sketch;
        self.entries.retain(|entry| {
            let (reads, writes) = sketch.count(entry.hash, &entry.key);
            heat(reads, writes, least / 2.0).is_some_and(|heat| heat >= cold)
        });
        self.stats.cooled += (before - self.entries.len()) as u64;
        for top in self.sketch.top() {
            let Some(heat) = heat(top.reads, top.writes, least) else {
                break;
            };
            if heat < self.config.hot_share {
                // One behind it may be read less and written not at all.
                continue;
            }
            let (share, max) = (self.config.copy_share, self.config.gamma_max);
            let gamma = gamma_for(heat, share, placement.len(), max);
            match self.at(top.hash) {
                Some(at) => grow(&mut self.entries[at], placement, gamma),
                None if gamma == 0 => {}
                None if top.key.len() > HOT_KEY_LEN_MAX => self.stats.unpromoted_long += 1,
                None if self.entries.len() >= REPLICATED_MAX => self.stats.unpromoted_full += 1,
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
