//! Stores whose memory the process has chosen: they use it, do without when it has none, and say nothing else than others.

use evenkeel_storage::{IndexLine, Memory, NEVER, NewItem, PoolConfig, SegmentPool, Store};
use evenkeel_storage::{StoreConfig, StoreError};
use evenkeel_types::{CacheletId, Version};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ID: CacheletId = CacheletId(3);
const LIMIT_BYTES: usize = 4 << 20;

/// Memory that gives what it is asked for, but for each `refuses_each`th time; 0 for never.
#[derive(Debug, Default)]
struct Chosen {
    refuses_each: u64,
    asked: AtomicU64,
    bytes: AtomicU64,
    lines: AtomicU64,
}

impl Chosen {
    fn refuses(&self) -> bool {
        let asked = 1 + self.asked.fetch_add(1, Ordering::Relaxed);
        self.refuses_each > 0 && asked.is_multiple_of(self.refuses_each)
    }

    fn given(&self) -> (u64, u64) {
        (
            self.bytes.load(Ordering::Relaxed),
            self.lines.load(Ordering::Relaxed),
        )
    }
}

impl Memory for Chosen {
    fn bytes(&self, count: usize) -> Option<Box<[u8]>> {
        if self.refuses() {
            return None;
        }
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        // Of any contents: nothing may rely on zeros.
        Some(vec![0xa5; count].into_boxed_slice())
    }

    fn lines(&self, count: usize) -> Option<Box<[IndexLine]>> {
        if self.refuses() {
            return None;
        }
        self.lines.fetch_add(count as u64, Ordering::Relaxed);
        Some(vec![IndexLine::default(); count].into_boxed_slice())
    }
}

fn pool(memory: Vec<Option<Arc<dyn Memory>>>) -> Arc<SegmentPool> {
    let config = PoolConfig {
        limit_bytes: LIMIT_BYTES,
        item_size_max: 64 << 10,
        cachelets_expected: 2,
    };
    SegmentPool::with_memory(config, memory)
}

fn store(pool: &Arc<SegmentPool>, memory: usize) -> Store {
    let config = StoreConfig {
        hash_seed: 7,
        memory,
        ..StoreConfig::default()
    };
    Store::with_config(pool.clone(), config)
}

fn insert(store: &mut Store, number: u64, len: usize) -> Result<(), StoreError> {
    let key = format!("key-{number}");
    let value = vec![number as u8; len];
    let item = NewItem {
        key: key.as_bytes(),
        value: [&value, &[]],
        flags: 0,
        expires_at: NEVER,
        version: Version(number + 1),
    };
    store.insert(ID, item, 1)
}

#[test]
fn a_store_takes_segments_and_index_from_the_memory_at_its_place() {
    let memory = [0; 2].map(|_| Arc::new(Chosen::default()));
    let [first, second] = memory.clone().map(|memory| Some(memory as Arc<dyn Memory>));
    let pool = pool(vec![first, None, second]);
    for (place, used) in [(0, Some(0)), (1, None), (2, Some(1)), (3, None)] {
        let before = [0, 1].map(|at: usize| memory[at].given());
        let mut store = store(&pool, place);
        store.create_cachelet(ID);
        for number in 0..2_000 {
            insert(&mut store, number, 100).expect("room");
        }
        for at in 0..2 {
            let ((bytes, lines), (bytes_before, lines_before)) = (memory[at].given(), before[at]);
            let is_used = used == Some(at);
            assert_eq!(bytes - bytes_before >= 200_000, is_used, "{place}: {at}");
            assert_eq!(lines - lines_before >= 2_000 / 12, is_used, "{place}: {at}");
            assert!(is_used || (bytes, lines) == (bytes_before, lines_before));
        }
        store.assert_invariants();
    }
    assert_eq!(pool.used_bytes(), 0);
}

#[test]
fn a_cachelet_keeps_its_memory_when_it_moves_and_grows_in_that_of_its_new_store() {
    let memory = [0; 2].map(|_| Arc::new(Chosen::default()));
    let pool = pool(
        memory
            .iter()
            .map(|memory| Some(memory.clone() as _))
            .collect(),
    );
    let mut stores = [store(&pool, 0), store(&pool, 1)];
    stores[0].create_cachelet(ID);
    for number in 0..1_000 {
        insert(&mut stores[0], number, 100).expect("room");
    }
    let at_home = memory[0].given();
    let cachelet = stores[0].detach(ID).expect("it is there");
    stores[1].attach(cachelet);
    assert_eq!((memory[0].given(), memory[1].given()), (at_home, (0, 0)));
    for number in 1_000..3_000 {
        insert(&mut stores[1], number, 100).expect("room");
    }
    assert_eq!(memory[0].given(), at_home, "it grows elsewhere now");
    let (bytes, lines) = memory[1].given();
    assert!(bytes >= 200_000 && lines >= 2_000 / 12, "{bytes} {lines}");
    for number in 0..3_000u64 {
        let key = format!("key-{number}");
        let item = stores[1].read(ID, key.as_bytes(), 2).expect("room for all");
        assert_eq!(item.value(), [number as u8; 100]);
    }
    stores[1].assert_invariants();
}

/// Whether memory is chosen, scarce or the allocator's: stores say the same of the same.
#[test]
fn stores_agree_whatever_their_memory_is() {
    let seed = match std::env::var("EVENKEEL_SEED") {
        Ok(seed) => seed.parse().expect("a number"),
        Err(_) => 19,
    };
    println!("seed {seed}");
    let ample = || Arc::new(Chosen::default());
    let scarce = Arc::new(Chosen {
        refuses_each: 3,
        ..Chosen::default()
    });
    let memory: [Option<Arc<dyn Memory>>; 3] = [None, Some(ample()), Some(scarce.clone())];
    let pools = memory.map(|memory| pool(vec![memory]));
    let mut stores = pools.clone().map(|pool| store(&pool, 0));
    for store in &mut stores {
        store.create_cachelet(ID);
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut below = |bound: u64| rng.next_u64() % bound;
    let mut found = 0;
    for step in 0..60_000 {
        let (number, magnitude) = (below(20_000), below(14));
        let len = below(1 << magnitude) as usize;
        match below(4) {
            0 | 1 => {
                let said = stores.each_mut().map(|store| insert(store, number, len));
                assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
            }
            2 => {
                let key = format!("key-{number}");
                let seen = stores.each_mut().map(|store| {
                    let item = store.read(ID, key.as_bytes(), 3);
                    item.map(|item| item.value().to_vec())
                });
                assert!(seen.iter().all(|one| *one == seen[0]), "{key}");
                let right = |value: &Vec<u8>| value.iter().all(|byte| *byte == number as u8);
                assert!(seen[0].as_ref().is_none_or(right), "{key}");
                found += u32::from(seen[0].is_some());
            }
            _ => {
                for store in &mut stores {
                    store.maintain(3, 16);
                }
            }
        }
        if step % 10_000 == 0 {
            stores.iter().for_each(Store::assert_invariants);
        }
    }
    let [stats, others @ ..] = stores.each_ref().map(Store::stats);
    assert!(stats.evictions > 0 && found > 1_000, "{stats:?}");
    assert!(others.iter().all(|other| *other == stats), "{others:?}");
    assert!(scarce.asked.load(Ordering::Relaxed) > 1_000);
    drop(stores);
    assert!(pools.iter().all(|pool| pool.used_bytes() == 0));
}
