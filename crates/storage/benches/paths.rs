//! Time of the get and set paths.
//!
//! `cargo bench -p evenkeel-storage --bench paths`. The default is small, so that it never rots;
//! `EVENKEEL_BENCH_ITEMS=4000000` makes a store that no processor cache holds, which is where
//! prefetching counts.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use evenkeel_storage::{Hint, NEVER, NewItem, PoolConfig, SegmentPool, Store};
use evenkeel_types::{CacheletId, KeyHash, Version};
use std::hint::black_box;
use std::time::Duration;

const ITEMS_DEFAULT: u64 = 20_000;
const CACHELETS: u64 = 16;
const VALUE: [u8; 64] = [b'v'; 64];
/// Keys of one batch: about what a read buffer of pipelined gets holds.
const BATCH: usize = 64;
/// A step that visits all keys in no order that hardware could foresee.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

type Key = [u8; 24];

fn key(number: u64) -> (CacheletId, Key) {
    let mut key = [b'k'; 24];
    for (at, byte) in key.iter_mut().rev().enumerate().take(16) {
        *byte = b"0123456789abcdef"[(number >> (4 * at)) as usize & 15];
    }
    (CacheletId((KeyHash::of(&key).0 % CACHELETS) as u16), key)
}

fn new_item(key: &Key, version: u64) -> NewItem<'_> {
    NewItem {
        key,
        value: [&VALUE, &[]],
        flags: 0,
        expires_at: NEVER,
        version: Version(version),
    }
}

/// A store with room for all items, or for half of them.
fn filled(items: u64, room_for_all: bool) -> Store {
    let bytes_per_item = if room_for_all { 128 } else { 54 };
    let pool = SegmentPool::new(PoolConfig {
        limit_bytes: (items * bytes_per_item) as usize + (4 << 20) * usize::from(room_for_all),
        item_size_max: 64 << 10,
        cachelets_expected: CACHELETS as usize,
    });
    let mut store = Store::new(pool, 0x5eed);
    for id in 0..CACHELETS {
        store.create_cachelet(CacheletId(id as u16));
    }
    for number in 0..items {
        let (id, key) = key(number);
        store
            .insert(id, new_item(&key, number), 1)
            .expect("room or eviction");
    }
    store
}

/// Keys in a pseudo-random order, ready-made so that making them is not measured.
fn keys(items: u64) -> impl FnMut() -> Vec<(CacheletId, Key)> {
    let mut at = 0u64;
    move || {
        let mut next = || {
            at = at.wrapping_add(STRIDE);
            key(at % items)
        };
        (0..BATCH).map(|_| next()).collect()
    }
}

fn paths(criterion: &mut Criterion) {
    let items = std::env::var("EVENKEEL_BENCH_ITEMS").map_or(ITEMS_DEFAULT, |items| {
        items.parse().expect("EVENKEEL_BENCH_ITEMS is a number")
    });
    let mut group = criterion.benchmark_group("get");
    group.throughput(Throughput::Elements(BATCH as u64));
    let mut store = filled(items, true);
    let mut batch = keys(items);
    group.bench_function("one_by_one", |bencher| {
        bencher.iter_batched_ref(
            &mut batch,
            |keys| {
                for (id, key) in keys {
                    let mut item = store.get(*id, key, 2).expect("there is room for all");
                    item.touch_access(2);
                    black_box(item.value()[0]);
                }
            },
            BatchSize::SmallInput,
        );
    });
    group.bench_function("batch", |bencher| {
        bencher.iter_batched_ref(
            &mut batch,
            |keys| {
                let mut batch = [(store.hash(b""), Hint::NONE); BATCH];
                for ((hash, _), (id, key)) in batch.iter_mut().zip(keys.iter()) {
                    *hash = store.hash(key);
                    store.prefetch(*id, *hash);
                }
                for ((hash, hint), (id, _)) in batch.iter_mut().zip(keys.iter()) {
                    *hint = store.prefetch_item(*id, *hash);
                }
                for ((hash, hint), (id, key)) in batch.iter().zip(keys) {
                    let item = store.read_hinted(*id, key, *hash, *hint, 2);
                    black_box(item.expect("there is room for all").value()[0]);
                }
            },
            BatchSize::SmallInput,
        );
    });
    let mut miss = keys(items);
    group.bench_function("miss", |bencher| {
        bencher.iter_batched_ref(
            || {
                let mut keys = miss();
                keys.iter_mut().for_each(|(_, key)| key[0] = b'm');
                keys
            },
            |keys| {
                for (id, key) in keys {
                    assert!(store.get(*id, key, 2).is_none());
                }
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();

    let mut group = criterion.benchmark_group("set");
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function("overwrite", |bencher| {
        bencher.iter_batched_ref(
            &mut batch,
            |keys| {
                for (id, key) in keys {
                    black_box(store.insert(*id, new_item(key, 7), 2)).expect("there is room");
                }
            },
            BatchSize::SmallInput,
        );
    });
    drop(store);
    let mut store = filled(items, false);
    let mut number = items;
    group.bench_function("evicting", |bencher| {
        bencher.iter_batched_ref(
            || {
                number += BATCH as u64;
                (number - BATCH as u64..number).map(key).collect::<Vec<_>>()
            },
            |keys| {
                for (id, key) in keys {
                    black_box(store.insert(*id, new_item(key, 7), 2)).expect("eviction");
                }
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1_000));
    targets = paths
}
criterion_main!(benches);
