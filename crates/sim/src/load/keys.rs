//! What is known of every key: its place, and whether its server holds it, without holding it.
//!
//! Memory is a queue of items: what is stored goes to its end; what comes to its front has another
//! turn if it was read since, up to three, and is evicted otherwise. So do the segments of the real
//! store, which keep what was read when they are merged. How many items fit is not modelled but asked:
//! a real store of the same memory is filled until it evicts.

use super::names::KeyNames;
use super::{KEY_LEN, LoadPlan};
use evenkeel_storage::{NewItem, PoolConfig, SegmentPool, Store};
use evenkeel_types::{CacheletId, Version};
use std::collections::VecDeque;

/// Reads that are counted between two turns of an item.
const READS_MAX: u8 = 3;

/// An item is there.
const PRESENT: u8 = 0x80;

/// Memory of the store that is asked, at most; what a larger one holds is in proportion.
const ASKED_BYTES_MAX: usize = 32 << 20;

/// A key. Everything about it is in one place of memory: with many keys, that is what a request
/// waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    /// What it belongs to: its cachelet, or its server where there are none.
    pub place: u16,
    /// Whether it is there, and how often it was read since its last turn.
    item: u8,
    /// Whether a lease was ever granted for it: others need no look at any lease.
    pub lent: bool,
}

const _: () = assert!(size_of::<Key>() == 4);

impl Key {
    /// Whether it is there. It is read.
    #[inline]
    pub fn read(&mut self) -> bool {
        if self.item & PRESENT == 0 {
            return false;
        }
        if self.item & !PRESENT < READS_MAX {
            self.item += 1;
        }
        true
    }
}

/// All keys, and what every server holds of them.
#[derive(Debug)]
pub(super) struct Keys {
    keys: Vec<Key>,
    /// Those that each server holds, in the order of their turns.
    queues: Vec<VecDeque<u32>>,
    items_max: usize,
    /// Items of each place.
    items: Vec<u32>,
}

impl Keys {
    /// Keys of these places, of which there are this many; none of the keys is there.
    pub fn new(plan: &LoadPlan, places: usize, of_keys: impl Iterator<Item = u16>) -> Self {
        let key = |place| Key {
            place,
            item: 0,
            lent: false,
        };
        Keys {
            keys: of_keys.map(key).collect(),
            queues: vec![VecDeque::new(); plan.servers],
            items_max: items_held(plan),
            items: vec![0; places],
        }
    }

    /// Items of a place.
    pub fn items(&self, place: usize) -> u64 {
        u64::from(self.items[place])
    }

    /// How many items fit a server.
    pub fn items_max(&self) -> usize {
        self.items_max
    }

    /// All keys of a place pass from one server to another, behind those that are there. O(keys of both).
    pub fn pass(&mut self, place: u16, from: usize, to: usize) {
        let keys = &self.keys;
        let (passing, staying): (VecDeque<u32>, VecDeque<u32>) = self.queues[from]
            .drain(..)
            .partition(|&key| keys[key as usize].place == place);
        self.queues[from] = staying;
        self.queues[to].extend(passing);
        self.evict(to);
    }

    /// A key.
    #[inline]
    pub fn of(&mut self, key: u32) -> &mut Key {
        &mut self.keys[key as usize]
    }

    /// A key is stored at a server.
    pub fn store(&mut self, server: usize, key: u32) {
        let Key { place, item, .. } = &mut self.keys[key as usize];
        if *item & PRESENT != 0 {
            return;
        }
        *item = PRESENT;
        self.items[usize::from(*place)] += 1;
        self.queues[server].push_back(key);
        self.evict(server);
    }

    /// Evicts from a server what does not fit.
    fn evict(&mut self, server: usize) {
        let queue = &mut self.queues[server];
        while queue.len() > self.items_max {
            let Some(first) = queue.pop_front() else {
                return;
            };
            let Key { place, item, .. } = &mut self.keys[first as usize];
            if *item == PRESENT {
                *item = 0;
                self.items[usize::from(*place)] -= 1;
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
    let cachelets = plan.cachelets_per_server().max(1);
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
    let names = KeyNames::of_seed(plan.seed);
    // Twice what fits without any overhead: the store has been evicting for a while.
    let fit = asked / (KEY_LEN + plan.value_bytes);
    // More keys than there are need not fit.
    let most = plan.keys as usize;
    for key in 0..most.min(2 * fit) {
        let name = names.of(key as u32);
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
    (scaled as usize).clamp(1, most)
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
        let mut keys = Keys::new(&plan, 1, std::iter::repeat_n(0, plan.keys as usize));
        let fits = keys.items_max as u32;
        // 116 bytes of key and value; an item has a header and an index entry besides.
        assert!((10_000..36_000).contains(&fits), "{fits}");
        assert!(!keys.of(0).read());
        for key in 0..fits {
            keys.store(0, key);
        }
        assert!(keys.of(0).read(), "all fit");
        for key in fits..2 * fits {
            keys.store(0, key);
        }
        assert!(keys.of(0).read(), "it was read");
        assert!(!keys.of(1).read(), "nobody read it");
        assert!(keys.of(2 * fits - 1).read());
    }
}
