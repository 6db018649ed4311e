//! Instructions of the get and set paths, counted under valgrind.
//!
//! `cargo bench -p evenkeel-storage --bench instructions`. Needs valgrind and `gungraun-runner` of
//! the library's version. Counts do not depend on the machine's load, so a change of some per cent
//! shows. Each function works on [`OPERATIONS`] keys, `growing` on [`ITEMS`]; divide by that.

#![expect(
    missing_docs,
    reason = "the benchmark macros make items that they do not document"
)]

use evenkeel_storage::{Hint, NEVER, NewItem, PoolConfig, SegmentPool, Store};
use evenkeel_types::{CacheletId, Version};
use gungraun::{library_benchmark, library_benchmark_group, main};
use std::hint::black_box;

/// Operations of each measured function.
const OPERATIONS: u64 = 1_000;
const ITEMS: u64 = 20_000;
/// Keys of a batch.
const BATCH: usize = 16;
const ID: CacheletId = CacheletId(0);
const VALUE: [u8; 64] = [b'v'; 64];

type Key = [u8; 24];

fn key(number: u64) -> Key {
    let mut key = [b'k'; 24];
    key[..8].copy_from_slice(&number.to_le_bytes());
    key
}

fn new_item(key: &Key) -> NewItem<'_> {
    NewItem {
        key,
        value: [&VALUE, &[]],
        flags: 0,
        expires_at: NEVER,
        version: Version(7),
    }
}

/// A store with all items, and the keys that are worked on.
fn store(limit_bytes: usize, first_key: u64) -> (Store, Vec<Key>) {
    let pool = SegmentPool::new(PoolConfig {
        limit_bytes,
        item_size_max: 64 << 10,
        cachelets_expected: 1,
    });
    let mut store = Store::new(pool, 0x5eed);
    store.create_cachelet(ID);
    for number in 0..ITEMS {
        store
            .insert(ID, new_item(&key(number)), 1)
            .expect("room or eviction");
    }
    (
        store,
        (first_key..first_key + OPERATIONS).map(key).collect(),
    )
}

/// A store without items, and keys for [`ITEMS`]: the index grows from nothing, which costs more at some
/// moments than at others, so that only the whole way says what an insert costs.
fn empty() -> (Store, Vec<Key>) {
    let pool = SegmentPool::new(PoolConfig {
        limit_bytes: 64 << 20,
        item_size_max: 64 << 10,
        cachelets_expected: 1,
    });
    let mut store = Store::new(pool, 0x5eed);
    store.create_cachelet(ID);
    (store, (0..ITEMS).map(key).collect())
}

#[library_benchmark]
#[bench::hit(store(64 << 20, 0))]
#[bench::miss(store(64 << 20, ITEMS))]
fn read((mut store, keys): (Store, Vec<Key>)) -> Store {
    for key in &keys {
        if let Some(item) = black_box(&mut store).read(ID, key, 2) {
            black_box(item.value());
        }
    }
    store
}

// As the server reads what has come together: memory asked for ahead, then read with the hints.
#[library_benchmark]
#[bench::hit(store(64 << 20, 0))]
#[bench::miss(store(64 << 20, ITEMS))]
fn read_batch((mut store, keys): (Store, Vec<Key>)) -> Store {
    let mut batch = [(store.hash(b""), Hint::NONE); BATCH];
    for keys in keys.chunks(BATCH) {
        let store = black_box(&mut store);
        let batch = &mut batch[..keys.len()];
        for ((hash, _), key) in batch.iter_mut().zip(keys) {
            *hash = store.hash(key);
            store.prefetch(ID, *hash);
        }
        for (hash, hint) in batch.iter_mut() {
            *hint = store.prefetch_item(ID, *hash);
        }
        for (key, (hash, hint)) in keys.iter().zip(batch) {
            if let Some(item) = store.read_hinted(ID, key, *hash, *hint, 2) {
                black_box(item.value());
            }
        }
    }
    store
}

#[library_benchmark]
#[bench::hit(store(64 << 20, 0))]
fn get((mut store, keys): (Store, Vec<Key>)) -> Store {
    for key in &keys {
        if let Some(mut item) = black_box(&mut store).get(ID, key, 2) {
            item.touch_access(2);
            black_box(item.value());
        }
    }
    store
}

#[library_benchmark]
#[bench::overwrite(store(64 << 20, 0))]
#[bench::growing(empty())]
#[bench::evicting(store(1 << 20, ITEMS))]
fn set((mut store, keys): (Store, Vec<Key>)) -> Store {
    for key in &keys {
        black_box(black_box(&mut store).insert(ID, new_item(key), 2)).expect("room or eviction");
    }
    store
}

library_benchmark_group!(name = paths; benchmarks = read, read_batch, get, set);
main!(library_benchmark_groups = paths);
