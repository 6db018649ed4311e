//! Cachelets that are split and merged while everything else goes on.

use super::World;
use evenkeel_policy::placement::map::ClusterMap;
use evenkeel_types::{CacheletId, WorkerRef};

impl World {
    /// Some cachelets are split, or merged with others of their workers.
    pub(super) fn split_or_merge(&mut self) -> bool {
        (0..2).filter(|_| self.recut_one()).count() > 0
    }

    fn recut_one(&mut self) -> bool {
        let Some((map, one, owner)) = self.some_cachelet() else {
            return false;
        };
        match self.random.chance(1, 2) {
            true => self.split_one(one, owner),
            false => self.merge_one(&map, one, owner),
        }
    }

    /// False when that is not possible.
    pub(super) fn split_one(&mut self, one: CacheletId, owner: WorkerRef) -> bool {
        let now = self.coordinator.process.now(self.time);
        let half = self.coordinator.core.split_cachelet(now, one);
        self.report.tell("cachelets split", u64::from(half.is_ok()));
        self.narrate(&[], || {
            format!("cachelet {one} of {owner} is split: {half:?}")
        });
        self.note_new_maps();
        half.is_ok()
    }

    /// A cachelet and any other one of its worker become one. False when that is not possible.
    pub(super) fn merge_one(
        &mut self,
        map: &ClusterMap,
        one: CacheletId,
        owner: WorkerRef,
    ) -> bool {
        let others: Vec<CacheletId> = map.cachelets_of(owner).filter(|id| *id != one).collect();
        if others.is_empty() {
            return false;
        }
        let other = others[self.random.index(others.len())];
        let pair = match self.random.chance(1, 2) {
            true => [one, other],
            false => [other, one],
        };
        let now = self.coordinator.process.now(self.time);
        let merged = self.coordinator.core.merge_cachelets(now, pair);
        self.report
            .tell("cachelets merged", u64::from(merged.is_ok()));
        self.narrate(&[], || {
            format!("cachelets {pair:?} of {owner} are merged: {merged:?}")
        });
        self.note_new_maps();
        merged.is_ok()
    }
}
