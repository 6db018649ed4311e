//! What copies of its items would save a pool (Replicate and Bundle): its multi-gets are covered as if each item had copies, and counted. Nothing is
//! copied, and everybody is asked as ever.

use crate::bundles::Bundles;
use crate::server_list::ServerList;
use crate::stats::counters::BundleCounts;
use evenkeel_placement::cover::Cover;
use std::sync::Arc;

/// What is counted of a pool.
#[derive(Debug)]
pub(crate) struct Observed {
    pub by: Arc<Bundles>,
    pub counts: BundleCounts,
}

impl Observed {
    /// A multi-get is about to be asked. `homes` is memory that is used again.
    pub fn see<'k>(
        &mut self,
        (cover, homes): (&mut Cover, &mut Vec<u32>),
        list: &ServerList,
        keys: impl Iterator<Item = &'k [u8]>,
    ) {
        cover.clear();
        homes.clear();
        homes.extend(keys.map(|key| self.by.add(cover, list, key)));
        cover.choose(self.by.seeds(), homes.len());
        let keys = cover.distinct();
        // A single key never goes to a copy.
        if keys < 2 {
            return;
        }
        homes.sort_unstable();
        homes.dedup();
        let counts = &mut self.counts;
        counts.requests += 1;
        counts.keys += keys as u64;
        counts.transactions += homes.len() as u64;
        counts.transactions_covered += cover.transactions() as u64;
    }

    /// Something is written, so that all copies but one would be deleted.
    pub fn see_write(&mut self) {
        self.counts.deletes += self.by.copies() as u64 - 1;
    }
}
