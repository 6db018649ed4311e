//! Cachelets that are split and merged while everything else goes on.

use super::World;
use evenkeel_types::{CacheletId, KeyHash};

impl World {
    /// The cachelet of a key, often of the hottest, is split or merged with another one of its worker.
    pub(super) fn split_or_merge(&mut self) -> bool {
        (0..2).filter(|_| self.recut_one()).count() > 0
    }

    fn recut_one(&mut self) -> bool {
        let Some(map) = self.coordinator.core.map().cloned() else {
            return false;
        };
        let key = match self.random.below(2) {
            0 => 0,
            _ => self.random.index(self.keys.len()),
        };
        let place = map.locate(KeyHash::of(&self.keys[key]));
        let Some(owner) = place.worker else {
            return false;
        };
        let now = self.coordinator.process.now(self.time);
        let one = place.cachelet;
        if self.random.chance(1, 2) {
            let half = self.coordinator.core.split_cachelet(now, one);
            self.report.tell("cachelets split", u64::from(half.is_ok()));
            self.narrate(&[], || {
                format!("cachelet {one} of {owner} is split: {half:?}")
            });
            return half.is_ok();
        }
        let others: Vec<CacheletId> = map.cachelets_of(owner).filter(|id| *id != one).collect();
        if others.is_empty() {
            return false;
        }
        let other = others[self.random.index(others.len())];
        let pair = match self.random.chance(1, 2) {
            true => [one, other],
            false => [other, one],
        };
        let merged = self.coordinator.core.merge_cachelets(now, pair);
        self.report
            .tell("cachelets merged", u64::from(merged.is_ok()));
        self.narrate(&[], || {
            format!("cachelets {pair:?} of {owner} are merged: {merged:?}")
        });
        merged.is_ok()
    }
}
