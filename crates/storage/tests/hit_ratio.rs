//! What stays when memory is used up: hit ratios beside an exact LRU of the same size.
//!
//! The LRU twin is the dumb one: a list ordered by last use, one item out at a time, charged for each
//! item what the store's own layout takes at its best (header, alignment, index entry) and two links
//! of four bytes, the least that an LRU order needs; it wastes nothing on half-filled segments.
//! Popularity is Zipf's; a miss is followed by a set, as an
//! application does. Seeds are fixed and printed.

use evenkeel_storage::{NEVER, NewItem, PoolConfig, SegmentPool, Store};
use evenkeel_types::{CacheletId, KeyHash, Version};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, HashMap};

/// Header and index entry of an item, in bytes: what `examples/density.rs` measures at best.
const ITEM_OVERHEAD: usize = 12 + 6;
/// Links of an LRU order, in bytes.
const LRU_LINKS: usize = 2 * 4;
/// Where nearly every key fits, both miss little but what is asked for first, and the twin, which wastes
/// no byte, may be ahead by up to this much.
const MARGIN: f64 = 0.0005;
const CACHELETS: u16 = 8;

/// Draws ranks from Zipf's law by its cumulated weights.
struct Zipf {
    cumulated: Vec<f64>,
}

impl Zipf {
    fn new(items: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=items).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Zipf {
            cumulated: weights.collect(),
        }
    }

    fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        let total = self.cumulated[self.cumulated.len() - 1];
        let point = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * total;
        self.cumulated.partition_point(|&sum| sum < point) as u64
    }
}

/// The exact LRU.
#[derive(Default)]
struct Lru {
    bytes: usize,
    clock: u64,
    last_use: HashMap<u64, (u64, usize)>,
    order: BTreeMap<u64, u64>,
}

impl Lru {
    /// Uses a key, storing it if it is absent; true when it was there.
    fn use_key(&mut self, key: u64, size: usize, limit: usize) -> bool {
        self.clock += 1;
        let old = self.last_use.insert(key, (self.clock, size));
        self.order.insert(self.clock, key);
        match old {
            Some((clock, _)) => drop(self.order.remove(&clock)),
            None => self.bytes += size,
        }
        while self.bytes > limit {
            let (_, victim) = self.order.pop_first().expect("bytes belong to items");
            let (_, size) = self.last_use.remove(&victim).expect("ordered items exist");
            self.bytes -= size;
        }
        old.is_some()
    }
}

struct Trial {
    keys: usize,
    exponent: f64,
    /// One of this many requests asks for a key that nobody asks for again.
    one_hit_in: Option<u64>,
    limit_bytes: usize,
    requests: usize,
}

/// Runs both with Zipf's popularity; returns the hit ratios (store, LRU) of the second half.
fn run(trial: &Trial, seed: u64) -> (f64, f64) {
    let zipf = Zipf::new(trial.keys, trial.exponent);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let next = |request: usize| {
        let once = trial
            .one_hit_in
            .is_some_and(|every| rng.next_u64() % every == 0);
        if once {
            1 << 40 | request as u64
        } else {
            zipf.draw(&mut rng)
        }
    };
    replay(trial.limit_bytes, trial.requests, seed, next)
}

/// Asks both for the keys that `next` gives; returns the hit ratios (store, LRU) of the second half of
/// the requests.
fn replay(
    limit_bytes: usize,
    requests: usize,
    seed: u64,
    mut next: impl FnMut(usize) -> u64,
) -> (f64, f64) {
    let pool = SegmentPool::new(PoolConfig {
        limit_bytes,
        item_size_max: 1 << 20,
        cachelets_expected: usize::from(CACHELETS),
    });
    let mut store = Store::new(pool, seed);
    for id in 0..CACHELETS {
        store.create_cachelet(CacheletId(id));
    }
    let mut lru = Lru::default();
    let (mut store_hits, mut lru_hits) = (0u32, 0u32);
    let value = vec![b'v'; 1024];
    for request in 0..requests {
        let number = next(request);
        let key = format!("key:{number:016x}");
        let id = CacheletId((KeyHash::of(key.as_bytes()).0 % u64::from(CACHELETS)) as u16);
        let value = &value[..50 + (KeyHash::of(key.as_bytes()).0 >> 32) as usize % 400];
        let now = request as u32 / 1000 + 1;
        let hit = match store.get(id, key.as_bytes(), now) {
            Some(mut item) => {
                assert_eq!(item.value(), value);
                item.touch_access(now);
                true
            }
            None => false,
        };
        if !hit {
            let new = NewItem {
                key: key.as_bytes(),
                value: [value, &[]],
                flags: 0,
                expires_at: NEVER,
                version: Version(request as u64),
            };
            store
                .insert(id, new, now)
                .expect("a store that evicts takes a small item");
        }
        let size = (key.len() + value.len()).next_multiple_of(4) + ITEM_OVERHEAD + LRU_LINKS;
        let lru_hit = lru.use_key(number, size, limit_bytes);
        if request >= requests / 2 {
            store_hits += u32::from(hit);
            lru_hits += u32::from(lru_hit);
        }
    }
    store.assert_invariants();
    let counted = (requests - requests / 2) as f64;
    (
        f64::from(store_hits) / counted,
        f64::from(lru_hits) / counted,
    )
}

#[test]
fn hot_items_survive_better_than_under_an_exact_lru() {
    println!(
        "{:>8} {:>9} {:>9} {:>7} {:>7}",
        "exponent", "one-hits", "MiB", "store", "LRU"
    );
    for exponent in [0.7, 0.9, 0.99, 1.2] {
        for one_hit_in in [None, Some(4)] {
            for limit_mib in [2, 8] {
                let trial = Trial {
                    keys: 100_000,
                    exponent,
                    one_hit_in,
                    limit_bytes: limit_mib << 20,
                    requests: 600_000,
                };
                let (store, lru) = run(&trial, 7);
                let one_hits = if one_hit_in.is_some() {
                    "1 in 4"
                } else {
                    "none"
                };
                println!("{exponent:>8} {one_hits:>9} {limit_mib:>9} {store:>7.4} {lru:>7.4}");
                assert!(store + MARGIN >= lru, "seed 7: {store} is less than {lru}");
            }
        }
    }
}

/// A generated stand-in for the recorded traces on which plain queues lose: keys that come back after
/// longer than the small queue remembers, between keys that never do.
#[test]
fn what_comes_back_late_stays_among_what_never_comes_back() {
    const LIMIT: usize = 4 << 20;
    // About 300 bytes an item: a third of the memory, so each comes back after two thirds of it.
    let keys = LIMIT as u64 / 300 / 3;
    let next = |request: usize| match request as u64 {
        even if even.is_multiple_of(2) => even / 2 % keys,
        odd => 1 << 40 | odd,
    };
    let (store, lru) = replay(LIMIT, 200_000, 7, next);
    println!("store {store:.4}, LRU {lru:.4}");
    assert!(lru > 0.499, "the LRU just holds them: {lru}");
    assert!(store > 0.48, "{store}");
}

/// The hot keys change altogether: what was hot before must not stay for its past. While it goes, the
/// store is behind an LRU, which forgets at once (`docs/performance.md`); once it has gone, it leads.
#[test]
fn a_change_of_the_hot_keys_is_followed() {
    const REQUESTS: usize = 800_000;
    let zipf = Zipf::new(100_000, 0.9);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let next = |request: usize| {
        let generation = u64::from(request >= REQUESTS / 4) << 32;
        generation | zipf.draw(&mut rng)
    };
    // Counted is the second half, so there is a quarter to relearn in.
    let (store, lru) = replay(4 << 20, REQUESTS, 7, next);
    println!("store {store:.4}, LRU {lru:.4}");
    assert!(store >= lru, "{store} is less than {lru}");
}

/// A loop over three times as many keys as fit: an LRU evicts each just before it is read.
#[test]
fn a_part_of_a_loop_stays() {
    const LIMIT: usize = 4 << 20;
    let keys = LIMIT as u64 / 300 * 3;
    let (store, lru) = replay(LIMIT, keys as usize * 24, 7, |request| {
        request as u64 % keys
    });
    println!("store {store:.4}, LRU {lru:.4}");
    assert!(lru < 0.001 && store > 0.2, "{store} of {lru}");
}
