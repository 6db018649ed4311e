//! Splitting a cachelet and merging two, a step at a time between commands, agrees with plain maps.
//!
//! Each test prints its seed; `EVENKEEL_SEED=n` replays one.

use evenkeel_storage::{NEVER, NewItem, PoolConfig, SegmentPool, Store, StoreConfig};
use evenkeel_types::{CacheletId, Version};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;

const WHOLE: CacheletId = CacheletId(0);
const HALF: CacheletId = CacheletId(1);
const KEYS: u64 = 3000;
const NOW: u32 = 100;

fn seed() -> u64 {
    let given = std::env::var("EVENKEEL_SEED").ok();
    let seed = given.and_then(|text| text.parse().ok()).unwrap_or(20);
    println!("seed: EVENKEEL_SEED={seed}");
    seed
}

fn key(number: u64) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

fn is_half(key: &[u8]) -> bool {
    key.last().is_some_and(|byte| byte % 2 == 0)
}

struct Run {
    rng: Xoshiro256PlusPlus,
    store: Store,
    model: BTreeMap<Vec<u8>, (Vec<u8>, u64)>,
    /// Whether every second key is in a cachelet of its own.
    is_split: bool,
    version: u64,
}

impl Run {
    fn new(seed: u64, limit_bytes: usize) -> Self {
        let pool = SegmentPool::new(PoolConfig {
            limit_bytes,
            item_size_max: 64 << 10,
            cachelets_expected: 2,
        });
        let mut store = Store::with_config(pool, StoreConfig::default());
        assert!(store.create_cachelet(WHOLE));
        Run {
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            store,
            model: BTreeMap::new(),
            is_split: false,
            version: 0,
        }
    }

    fn cachelet(&self, key: &[u8]) -> CacheletId {
        match self.is_split && is_half(key) {
            true => HALF,
            false => WHOLE,
        }
    }

    /// `may_forget` says whether the store may be short of memory.
    fn command(&mut self, may_forget: bool) {
        let key = key(self.rng.next_u64() % KEYS);
        let id = self.cachelet(&key);
        let known = self.model.get(&key).cloned();
        match self.rng.next_u64() % 8 {
            0..3 => {
                self.version += 1;
                let value = vec![self.version as u8; (self.rng.next_u64() % 300) as usize];
                let item = NewItem {
                    key: &key,
                    value: [&value, &[]],
                    flags: 0,
                    expires_at: NEVER,
                    version: Version(self.version),
                };
                self.store.insert(id, item, NOW).expect("there is room");
                self.model.insert(key, (value, self.version));
            }
            3 => {
                let was_there = self.store.delete(id, &key, NOW);
                assert!(was_there == known.is_some() || may_forget);
                assert!(!was_there || known.is_some(), "nothing rises again");
                self.model.remove(&key);
            }
            4 => {
                let found = self.store.peek(id, &key, NOW);
                let found = found.map(|item| (item.value().to_vec(), item.version().0));
                assert!(found == known || (may_forget && found.is_none()));
            }
            _ => {
                let found = self.store.read(id, &key, NOW);
                let found = found.map(|item| (item.value().to_vec(), item.version().0));
                assert!(found == known || (may_forget && found.is_none()));
            }
        }
    }

    /// Splits what is whole, or makes it whole, with commands between the steps.
    fn turn(&mut self, may_forget: bool) {
        let (into, from) = match self.is_split {
            true => (WHOLE, HALF),
            false => (HALF, WHOLE),
        };
        self.store.create_cachelet(into);
        assert!(self.store.begin_join(into, from));
        assert!(!self.store.begin_join(from, into), "one at a time");
        self.is_split = !self.is_split;
        loop {
            (0..self.rng.next_u64() % 200).for_each(|_| self.command(may_forget));
            if !self.store.step_join(into, NOW, 4000, is_half) {
                break;
            }
        }
        assert!(!self.store.is_joining(into) && !self.store.is_joining(from));
        let has_part = |id| (self.store.items(id, NOW)).filter(|item| is_half(item.key()));
        assert_eq!(has_part(from).count(), 0, "all was brought");
        if from == HALF {
            assert_eq!(self.store.items(HALF, NOW).count(), 0);
            assert!(self.store.drop_cachelet(HALF));
        }
        self.store.assert_invariants();
    }
}

#[test]
fn splitting_and_merging_lose_nothing_and_bring_nothing_back() {
    let mut run = Run::new(seed(), 64 << 20);
    (0..20_000).for_each(|_| run.command(false));
    for _ in 0..12 {
        run.turn(false);
        (0..500).for_each(|_| run.command(false));
    }
    assert!(run.model.len() > 500);
}

#[test]
fn a_full_store_forgets_and_never_shows_anything_older() {
    let mut run = Run::new(seed(), 400 << 10);
    (0..20_000).for_each(|_| run.command(true));
    for _ in 0..12 {
        run.turn(true);
        (0..500).for_each(|_| run.command(true));
    }
    assert!(run.store.stats().evictions > 0);
}

#[test]
fn a_join_that_cannot_be_ended_leaves_nothing_behind() {
    let mut run = Run::new(seed(), 64 << 20);
    (0..5000).for_each(|_| run.command(false));
    run.store.create_cachelet(HALF);
    assert!(run.store.begin_join(HALF, WHOLE));
    let half = run.store.detach(HALF).expect("it is there");
    assert_eq!(run.store.items(WHOLE, NOW).count(), 0);
    run.store.attach(half);
    assert!(!run.store.is_joining(WHOLE));

    let mut run = Run::new(seed(), 64 << 20);
    (0..5000).for_each(|_| run.command(false));
    run.store.create_cachelet(HALF);
    assert!(run.store.begin_join(HALF, WHOLE));
    assert!(run.store.drop_cachelet(WHOLE));
    assert!(!run.store.step_join(HALF, NOW, 4000, is_half), "it is over");
    assert_eq!(run.store.items(HALF, NOW).count(), 0);
}
