//! What a store does, told as short stories.

use evenkeel_storage::{
    CacheletStats, NEVER, NewItem, PoolConfig, SegmentPool, Store, StoreConfig, StoreError,
    WalkCursor,
};
use evenkeel_types::{CacheletId, Version};
use std::sync::Arc;

const ID: CacheletId = CacheletId(0);
const MIB: usize = 1 << 20;

fn pool(limit_bytes: usize, cachelets_expected: usize) -> Arc<SegmentPool> {
    SegmentPool::new(PoolConfig {
        limit_bytes,
        item_size_max: MIB,
        cachelets_expected,
    })
}

fn store_on(pool: &Arc<SegmentPool>, cachelets: u16) -> Store {
    let mut store = Store::new(pool.clone(), 1);
    for id in 0..cachelets {
        assert!(store.create_cachelet(CacheletId(id)));
    }
    store
}

fn item<'a>(key: &'a [u8], value: &'a [u8], expires_at: u32) -> NewItem<'a> {
    NewItem {
        key,
        value: [value, &[]],
        flags: 0,
        expires_at,
        version: Version(1),
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

#[test]
fn an_item_expires_at_its_second_and_a_read_counts_it() {
    let mut store = store_on(&pool(MIB, 1), 1);
    store.insert(ID, item(b"k", b"v", 10), 5).unwrap();
    assert_eq!(store.peek(ID, b"k", 9).unwrap().value(), b"v");
    assert!(store.peek(ID, b"k", 10).is_none());
    assert!(store.get(ID, b"k", 10).is_none());
    let stats = store.stats();
    assert_eq!((stats.items, stats.reclaimed, stats.get_expired), (0, 1, 1));
    assert_eq!((stats.expired_unfetched, stats.evictions), (1, 0));
}

#[test]
fn expired_items_give_their_memory_back_without_being_asked_for() {
    let mut store = store_on(&pool(16 * MIB, 1), 1);
    for number in 0..20_000 {
        let expires_at = if number % 10 == 0 {
            NEVER
        } else {
            100 + number % 30
        };
        store
            .insert(ID, item(&key(number), &[7; 100], expires_at), 1)
            .unwrap();
    }
    let before = store.stats();
    while store.maintain(50, 64) {}
    assert_eq!(store.stats().items, before.items);
    while store.maintain(200, 64) {}
    let after = store.stats();
    assert_eq!((after.items, after.reclaimed), (2_000, 18_000));
    assert!(after.segments < before.segments / 4, "{after:?}");
    // The index follows a step at a time.
    for _ in 0..100 {
        store.maintain(200, 64);
    }
    let after = store.stats();
    assert!(
        after.index_bytes < before.index_bytes / 5,
        "{before:?} {after:?}"
    );
    assert!(
        after.held_bytes < before.held_bytes / 2,
        "{before:?} {after:?}"
    );
    store.assert_invariants();
}

#[test]
fn a_read_shows_the_state_before_it() {
    let mut store = store_on(&pool(MIB, 1), 1);
    store.insert(ID, item(b"k", b"v", NEVER), 5).unwrap();
    let mut found = store.get(ID, b"k", 8).unwrap();
    assert_eq!((found.fetched(), found.last_access()), (false, 5));
    found.touch_access(8);
    let found = store.get(ID, b"k", 9).unwrap();
    assert_eq!((found.fetched(), found.last_access()), (true, 8));
}

#[test]
fn sixteen_mebibytes_and_several_workers_take_items_of_one() {
    let pool = pool(16 * MIB, 64);
    let mut workers: Vec<Store> = (0..4).map(|_| store_on(&pool, 16)).collect();
    // 1,048,576 minus what memcached counts besides key and value.
    let value = vec![b'x'; MIB - 59 - 6];
    for round in 0..40u32 {
        for (number, worker) in workers.iter_mut().enumerate() {
            let id = CacheletId((round % 16) as u16);
            let key = format!("{round:03}-{number:02}");
            worker
                .insert(id, item(key.as_bytes(), &value, NEVER), round)
                .unwrap();
            assert_eq!(
                worker.get(id, key.as_bytes(), round).unwrap().value(),
                value
            );
            worker.maintain(round, 64);
            assert!(pool.used_bytes() <= pool.limit_bytes());
        }
    }
    workers.iter().for_each(Store::assert_invariants);
    let items: u64 = workers.iter().map(|worker| worker.stats().items).sum();
    println!("{items} items of 1 MiB in 16 MiB");
    assert!(items >= 12, "{items}");
    let one_more = vec![b'x'; value.len() + 2];
    let refused = workers[0].insert(ID, item(b"000-00", &one_more, NEVER), 50);
    assert_eq!(refused, Err(StoreError::TooLarge));
}

#[test]
fn a_late_worker_gets_its_share_of_a_full_pool() {
    let pool = pool(8 * MIB, 2);
    let mut early = store_on(&pool, 1);
    let mut late = store_on(&pool, 1);
    for number in 0..100_000 {
        early
            .insert(ID, item(&key(number), &[1; 100], NEVER), 1)
            .unwrap();
    }
    let before = late.stats().held_bytes;
    for number in 0..100_000 {
        late.insert(ID, item(&key(number), &[2; 100], NEVER), 1)
            .unwrap();
        if number % 100 == 0 {
            early.maintain(1, 16);
        }
    }
    let after = late.stats().held_bytes;
    println!(
        "the late worker held {before}, then {after} of {}",
        pool.limit_bytes()
    );
    assert!(after >= 7 * MIB as u64 / 4, "{before} {after}");
    assert!(pool.used_bytes() <= pool.limit_bytes());
}

#[test]
fn a_lowered_limit_is_reached_in_small_steps_and_a_raised_one_counts_at_once() {
    let pool = pool(32 * MIB, 8);
    let mut workers: Vec<Store> = (0..2).map(|_| store_on(&pool, 4)).collect();
    // The first worker holds most of the memory.
    for number in 0..400_000u32 {
        let worker = usize::from(number % 8 == 0);
        let id = CacheletId((number % 4) as u16);
        workers[worker]
            .insert(id, item(&key(number), &[1; 100], NEVER), 1)
            .unwrap();
    }
    assert!(pool.used_bytes() > 31 * MIB);
    pool.set_limit_bytes(8 * MIB);
    let (mut steps, mut largest) = (0, 0);
    while pool.used_bytes() > pool.limit_bytes() {
        for worker in &mut workers {
            let before = pool.used_bytes();
            worker.maintain(1, 1);
            largest = largest.max(before - pool.used_bytes());
        }
        // Meanwhile requests are served, and memory does not grow.
        let before = pool.used_bytes();
        workers[steps % 2]
            .insert(ID, item(b"new", &[2; 100], NEVER), 1)
            .unwrap();
        assert!(pool.used_bytes() <= before);
        steps += 1;
        assert!(steps < 1_000, "{} still lent", pool.used_bytes());
    }
    println!("{steps} steps, at most {largest} bytes each");
    assert!(largest <= MIB && steps > 20);
    workers.iter().for_each(Store::assert_invariants);
    let items = |workers: &[Store]| -> u64 { workers.iter().map(|w| w.stats().items).sum() };
    let few = items(&workers);
    assert!(few > 40_000 && workers.iter().all(|w| w.stats().items > 5_000));

    pool.set_limit_bytes(32 * MIB);
    for number in 0..400_000u32 {
        workers[(number % 2) as usize]
            .insert(ID, item(&key(number), &[1; 100], NEVER), 1)
            .unwrap();
    }
    assert!(items(&workers) > 3 * few && pool.used_bytes() > 31 * MIB);
    workers.iter().for_each(Store::assert_invariants);
}

#[test]
fn without_eviction_a_lowered_limit_takes_nothing_and_lends_nothing() {
    let pool = pool(4 * MIB, 1);
    let mut store = Store::with_config(
        pool.clone(),
        StoreConfig {
            evict: false,
            ..StoreConfig::default()
        },
    );
    store.create_cachelet(ID);
    for number in 0..10_000 {
        store
            .insert(ID, item(&key(number), &[1; 100], NEVER), 1)
            .unwrap();
    }
    pool.set_limit_bytes(MIB / 2);
    // What is at hand is given back, and then there is nothing more to do.
    store.maintain(1, 1_000);
    assert!(!store.maintain(1, 1_000));
    assert_eq!(store.stats().items, 10_000);
    let refused = (10_000..12_000u32).any(|number| {
        let stored = store.insert(ID, item(&key(number), &[1; 100], NEVER), 1);
        stored == Err(StoreError::OutOfMemory)
    });
    assert!(refused && pool.used_bytes() > pool.limit_bytes());
    for number in 0..12_000 {
        store.delete(ID, &key(number), 1);
    }
    for _ in 0..10_000 {
        store.maintain(1, 100);
    }
    assert!(pool.used_bytes() <= pool.limit_bytes());
    store.assert_invariants();
}

#[test]
fn a_cachelet_takes_memory_from_its_neighbours() {
    let mut store = store_on(&pool(4 * MIB, 4), 4);
    for number in 0..60_000 {
        store
            .insert(CacheletId(1), item(&key(number), &[1; 100], NEVER), 1)
            .unwrap();
    }
    for number in 0..60_000 {
        store
            .insert(CacheletId(2), item(&key(number), &[1; 100], NEVER), 1)
            .unwrap();
    }
    let held = |id| store.cachelet_stats(CacheletId(id)).unwrap().held_bytes;
    assert!(held(2) > 10 * held(1), "{} {}", held(1), held(2));
    store.assert_invariants();
}

#[test]
fn sizes_may_drift_without_calcification() {
    let mut store = store_on(&pool(8 * MIB, 8), 8);
    let mut number = 0;
    // From many small items to few large ones and back; after each change all memory serves.
    for (value_len, at_least) in [
        (20, 150_000),
        (200, 31_000),
        (6_000, 1_250),
        (60_000, 120),
        (20, 150_000),
    ] {
        let value = vec![3; value_len];
        for _ in 0..(24 * MIB / (value_len + 30)) {
            number += 1;
            let id = CacheletId((number % 8) as u16);
            store
                .insert(id, item(&key(number), &value, NEVER), 1)
                .unwrap();
        }
        let items = store.stats().items;
        println!("values of {value_len} bytes: {items} items");
        assert!(
            items >= at_least,
            "{items} items of {value_len}: {:?}",
            store.stats()
        );
        store.assert_invariants();
    }
}

#[test]
fn overwriting_with_other_sizes_does_not_evict_what_is_left_alone() {
    let mut store = store_on(&pool(4 * MIB, 1), 1);
    for number in 0..10_000 {
        store
            .insert(ID, item(&key(number), &[1; 100], NEVER), 1)
            .unwrap();
    }
    for round in 0..50usize {
        for number in 0..1_000 {
            let value = vec![2; 50 + (round * 37 + number as usize * 11) % 200];
            store
                .insert(ID, item(&key(number), &value, NEVER), 2)
                .unwrap();
        }
    }
    assert_eq!((store.stats().items, store.stats().evictions), (10_000, 0));
    store.assert_invariants();
}

#[test]
fn tiny_budgets_refuse_or_evict_and_never_exceed() {
    for limit_bytes in [0, 100, 8 << 10, 9 << 10, 20 << 10, 50 << 10, MIB] {
        let pool = pool(limit_bytes, 4);
        let mut store = store_on(&pool, 4);
        for number in 0..6_000 {
            let id = CacheletId((number % 4) as u16);
            let stored = store.insert(id, item(&key(number), &[9; 300], NEVER), 1);
            assert!(matches!(stored, Ok(()) | Err(StoreError::OutOfMemory)));
            assert_eq!(store.peek(id, &key(number), 1).is_some(), stored.is_ok());
            assert!(pool.used_bytes() <= limit_bytes);
        }
        store.assert_invariants();
        let items = store.stats().items;
        println!("{limit_bytes} bytes: {items} items");
        // With less than a segment for each cachelet they take it from one another in turn.
        assert_eq!(items > 0, limit_bytes > 8 << 10);
        let used = items as usize * 300;
        assert!(limit_bytes < MIB || used > limit_bytes * 3 / 4, "{items}");
    }
}

#[test]
fn the_longest_keys_and_empty_values_are_stored() {
    let mut store = store_on(&pool(MIB, 1), 1);
    let long = [b'k'; 255];
    store.insert(ID, item(&long, b"", NEVER), 1).unwrap();
    assert_eq!(store.get(ID, &long, 1).unwrap().value(), b"");
    let longer = [b'k'; 256];
    assert_eq!(
        store.insert(ID, item(&longer, b"", NEVER), 1),
        Err(StoreError::TooLarge)
    );
    assert!(!store.delete(ID, &longer, 1));
}

#[test]
fn without_eviction_a_full_store_refuses_until_something_is_deleted() {
    let config = StoreConfig {
        evict: false,
        ..StoreConfig::default()
    };
    let mut store = Store::with_config(pool(MIB, 1), config);
    store.create_cachelet(ID);
    let mut stored = 0;
    while store
        .insert(ID, item(&key(stored), &[1; 200], NEVER), 1)
        .is_ok()
    {
        stored += 1;
    }
    assert!(stored > 4_000, "{stored}");
    assert_eq!(
        (store.stats().items, store.stats().out_of_memory),
        (u64::from(stored), 1)
    );
    // Every third item goes, so that no segment is empty: the memory must be gathered.
    (0..stored)
        .step_by(3)
        .for_each(|number| assert!(store.delete(ID, &key(number), 1)));
    let freed = stored.div_ceil(3);
    let again = (0..freed)
        .take_while(|number| {
            store
                .insert(ID, item(&key(stored + number), &[1; 200], NEVER), 1)
                .is_ok()
        })
        .count();
    assert!(again as u32 > freed * 9 / 10, "{again} of {freed}");
    assert_eq!(store.stats().evictions, 0);
    store.assert_invariants();
}

#[test]
fn a_capped_store_stays_below_its_cap() {
    let pool = pool(16 * MIB, 2);
    let config = StoreConfig {
        bytes_max: Some(MIB),
        ..StoreConfig::default()
    };
    let mut replicas = Store::with_config(pool.clone(), config);
    replicas.create_cachelet(ID);
    for number in 0..50_000 {
        replicas
            .insert(ID, item(&key(number), &[1; 100], NEVER), 1)
            .unwrap();
        assert!(replicas.stats().held_bytes <= MIB as u64);
    }
    assert!(replicas.stats().evictions > 0);
    drop(replicas);
    assert_eq!(pool.used_bytes(), 0);
}

#[test]
fn a_cachelet_moves_between_threads_with_its_memory() {
    let pool = pool(4 * MIB, 2);
    let mut from = store_on(&pool, 1);
    for number in 0..1_000 {
        from.insert(ID, item(&key(number), b"value", NEVER), 1)
            .unwrap();
    }
    let used = pool.used_bytes();
    let cachelet = from.detach(ID).unwrap();
    assert!(!from.has(ID) && from.get(ID, &key(1), 1).is_none());
    let missing = from.insert(ID, item(b"k", b"v", NEVER), 1);
    assert_eq!(missing, Err(StoreError::NoCachelet));
    assert_eq!(pool.used_bytes(), used);
    let pool_there = pool.clone();
    let there = std::thread::spawn(move || {
        let mut to = Store::new(pool_there, 1);
        assert!(to.attach(cachelet).is_none());
        to.assert_invariants();
        to.items(ID, 1).count()
    });
    assert_eq!(there.join().unwrap(), 1_000);
    from.assert_invariants();
}

#[test]
fn a_walk_goes_on_while_items_come_and_go() {
    let mut store = store_on(&pool(16 * MIB, 1), 1);
    for number in 0..5_000 {
        store
            .insert(ID, item(&key(number), b"stays", NEVER), 1)
            .unwrap();
    }
    let mut met = std::collections::HashMap::new();
    let (mut cursor, mut fresh) = (Some(WalkCursor::default()), 100_000);
    while let Some(at) = cursor {
        cursor = store.walk(ID, at, 1, |item| {
            *met.entry(item.key().to_vec()).or_insert(0) += 1;
        });
        for _ in 0..2_000 {
            store
                .insert(ID, item(&key(fresh), b"comes", NEVER), 1)
                .unwrap();
            fresh += 1;
        }
    }
    assert!((0..5_000).all(|number| met.get(&key(number)) == Some(&1)));
}

#[test]
fn a_cachelet_counts_requests_and_bytes_of_values_and_keeps_them_on_its_way() {
    let pool = pool(4 * MIB, 4);
    let mut store = store_on(&pool, 2);
    let id = CacheletId(1);
    let counted = |store: &Store| {
        let stats = store.cachelet_stats(id).unwrap();
        let CacheletStats { reads, hits, .. } = stats;
        (reads, hits, stats.writes, stats.bytes_in, stats.bytes_out)
    };
    store.insert(id, item(b"a", &[1; 100], NEVER), 1).unwrap();
    store.insert(id, item(b"b", &[1; 7], 5), 1).unwrap();
    assert_eq!(counted(&store), (0, 0, 2, 107, 0));
    assert!(store.get(id, b"a", 1).is_some());
    assert!(store.read(id, b"b", 1).is_some());
    assert!(store.read(id, b"c", 1).is_none());
    assert_eq!(counted(&store), (3, 2, 2, 107, 107));
    assert!(store.read(id, b"b", 5).is_none(), "expired");
    assert_eq!(counted(&store), (4, 2, 2, 107, 107));

    // A command that changes an item is one write, whatever it finds.
    let find = |store: &mut Store, key: &[u8]| {
        let hash = store.hash(key);
        let mut found = store.find_hashed(id, key, hash, 6);
        found.as_mut().map(|item| item.set_expires_at(9)).is_some()
    };
    assert!(find(&mut store, b"a"));
    assert!(!find(&mut store, b"b"));
    assert!(store.delete(id, b"a", 6));
    assert!(!store.delete(id, b"a", 6));
    assert_eq!(counted(&store), (4, 2, 6, 107, 107));

    // What was too large has come in all the same.
    let large = vec![0; 2 * MIB];
    let refused = store.insert(id, item(b"d", &large, NEVER), 6);
    assert_eq!(refused, Err(StoreError::TooLarge));
    let before = counted(&store);
    assert_eq!(before.3, 107 + 2 * MIB as u64);
    let mut other = Store::new(pool.clone(), 1);
    let cachelet = store.detach(id).unwrap();
    other.attach(cachelet);
    assert_eq!(counted(&other), before);
}
