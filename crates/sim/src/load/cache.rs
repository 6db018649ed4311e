//! Which keys a server holds, without holding them.
//!
//! Memory is a queue of items: what is stored goes to its end; what comes to its front has another
//! turn if it was read since, up to three, and is evicted otherwise. So do the segments of the real
//! store, which keep what was read when they are merged. How many items fit is not modelled but asked:
//! a real store of the same memory is filled until it evicts.

use super::{KEY_LEN, LoadPlan, key_name};
use evenkeel_storage::{NewItem, PoolConfig, SegmentPool, Store};
use evenkeel_types::{CacheletId, Version};
use std::collections::VecDeque;

/// Reads that are counted between two turns of an item.
const READS_MAX: u8 = 3;

/// An item is there.
const PRESENT: u8 = 0x80;

/// Memory of the store that is asked, at most; what a larger one holds is in proportion.
const ASKED_BYTES_MAX: usize = 32 << 20;

/// What every server holds.
#[derive(Debug)]
pub(super) struct Caches {
    /// For each key, whether it is there and how often it was read since its last turn.
    items: Vec<u8>,
    queues: Vec<VecDeque<u32>>,
    items_max: usize,
}

impl Caches {
    pub fn new(plan: &LoadPlan) -> Self {
        Caches {
            items: vec![0; plan.keys as usize],
            queues: vec![VecDeque::new(); plan.servers],
            items_max: items_held(plan),
        }
    }

    /// Whether a key is there. It is read.
    #[inline]
    pub fn read(&mut self, key: u64) -> bool {
        let item = &mut self.items[key as usize];
        if *item & PRESENT == 0 {
            return false;
        }
        if *item & !PRESENT < READS_MAX {
            *item += 1;
        }
        true
    }

    /// A key is stored at a server.
    pub fn store(&mut self, server: usize, key: u64) {
        let item = &mut self.items[key as usize];
        if *item & PRESENT != 0 {
            return;
        }
        *item = PRESENT;
        let queue = &mut self.queues[server];
        queue.push_back(key as u32);
        while queue.len() > self.items_max {
            let Some(first) = queue.pop_front() else {
                return;
            };
            let item = &mut self.items[first as usize];
            if *item == PRESENT {
                *item = 0;
            } else {
                *item -= 1;
                queue.push_back(first);
            }
        }
    }
}

/// How many items of the plan's size a server holds.
fn items_held(plan: &LoadPlan) -> usize {
    let asked = plan.memory_bytes.min(ASKED_BYTES_MAX);
    let cachelets = (plan.cachelets_per_worker * usize::from(plan.workers_per_server)).max(1);
    // More keys than there are need not fit.
    let most = plan.keys as usize;
    let pool = SegmentPool::new(PoolConfig {
        limit_bytes: asked,
        item_size_max: plan.value_bytes.max(64 << 10),
        cachelets_expected: cachelets,
    });
    let mut store = Store::new(pool, plan.seed);
    for cachelet in 0..cachelets {
        store.create_cachelet(CacheletId(cachelet as u16));
    }
    let value = vec![b'v'; plan.value_bytes];
    // Twice what fits without any overhead: the store has been evicting for a while.
    let fit = asked / (KEY_LEN + plan.value_bytes);
    for key in 0..2 * fit {
        let name = key_name(key as u64);
        let item = NewItem {
            key: &name,
            value: [&value, b""],
            flags: 0,
            expires_at: 0,
            version: Version(key as u64 + 1),
        };
        // What does not fit is what is asked for.
        let _ = store.insert(CacheletId((key % cachelets) as u16), item, 1);
    }
    let held = store.stats().items as usize;
    let scaled = held as f64 * plan.memory_bytes as f64 / asked as f64;
    (scaled as usize).clamp(1, most.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_server_forgets_what_is_not_read() {
        let plan = LoadPlan {
            servers: 1,
            keys: 1_000_000,
            memory_bytes: 4 << 20,
            ..LoadPlan::default()
        };
        let mut caches = Caches::new(&plan);
        let fits = caches.items_max as u64;
        // 116 bytes of key and value; an item has a header and an index entry besides.
        assert!((10_000..36_000).contains(&fits), "{fits}");
        assert!(!caches.read(0));
        for key in 0..fits {
            caches.store(0, key);
        }
        assert!(caches.read(0), "all fit");
        for key in fits..2 * fits {
            caches.store(0, key);
        }
        assert!(caches.read(0), "it was read");
        assert!(!caches.read(1), "nobody read it");
        assert!(caches.read(2 * fits - 1));
    }
}
