//! Copies of items that stand elsewhere take what other items leave, and nothing else.

use evenkeel_storage::{NEVER, NewItem, PoolConfig, SegmentPool, Store, StoreConfig, StoreError};
use evenkeel_types::{CacheletId, Version};
use std::sync::Arc;

const ID: CacheletId = CacheletId(0);
const MIB: usize = 1 << 20;

fn pool(limit_bytes: usize) -> Arc<SegmentPool> {
    SegmentPool::new(PoolConfig {
        limit_bytes,
        item_size_max: MIB,
        cachelets_expected: 1,
    })
}

fn store(pool: &Arc<SegmentPool>, evict: bool) -> Store {
    let config = StoreConfig {
        evict,
        is_copy: |key| key.starts_with(b"copy"),
        ..StoreConfig::default()
    };
    let mut store = Store::with_config(pool.clone(), config);
    store.create_cachelet(ID);
    store
}

fn insert(store: &mut Store, kind: &str, number: u32) -> Result<(), StoreError> {
    let key = format!("{kind}-{number}");
    let item = NewItem {
        key: key.as_bytes(),
        value: [&[1; 100], &[]],
        flags: 0,
        expires_at: NEVER,
        version: Version(1),
    };
    store.insert(ID, item, 1)
}

fn has(store: &Store, kind: &str, number: u32) -> bool {
    let key = format!("{kind}-{number}");
    store.peek(ID, key.as_bytes(), 1).is_some()
}

#[test]
fn no_item_is_evicted_for_a_copy_and_copies_that_are_read_stay() {
    let mut store = store(&pool(4 * MIB), true);
    (0..10_000).for_each(|number| insert(&mut store, "item", number).expect("there is room"));
    for number in 0..100_000 {
        insert(&mut store, "copy", number).expect("other copies go");
        if number % 100 == 0 {
            assert!(store.read(ID, b"copy-0", 1).is_some(), "by {number}");
        }
    }
    let stats = store.stats();
    assert_eq!((stats.evictions, stats.copies_refused), (0, 0));
    assert_eq!(stats.items - stats.copies, 10_000);
    assert!(stats.copies > 10_000, "{stats:?}");
    assert_eq!(stats.copies + stats.copies_evicted, 100_000);
    assert!((0..10_000).all(|number| has(&store, "item", number)));
    store.assert_invariants();
}

#[test]
fn copies_go_before_any_item_does_and_are_refused_where_items_need_all() {
    for evict in [true, false] {
        let mut store = store(&pool(2 * MIB), evict);
        (0..20_000).for_each(|number| insert(&mut store, "copy", number).expect("copies go"));
        let mut items = 0;
        while store.stats().copies > 0 {
            insert(&mut store, "item", items).expect("copies go");
            assert_eq!(store.stats().evictions, 0, "{items}");
            items += 1;
        }
        assert!(items > 10_000, "{items}");
        // Somewhat more, so that a copy finds no room that was left over.
        (items..2 * items).for_each(|number| _ = insert(&mut store, "item", number));
        let before = store.stats();
        assert_eq!(before.evictions > 0, evict);
        let refused = (0..1_000).filter(|&number| insert(&mut store, "copy", number).is_err());
        let refused = refused.count() as u64;
        let after = store.stats();
        assert!(refused > 0 && refused == after.copies_refused, "{after:?}");
        assert_eq!(after.evictions, before.evictions);
        assert_eq!(after.out_of_memory, before.out_of_memory);
        assert_eq!(after.items - after.copies, before.items);
        store.assert_invariants();
    }
}

#[test]
fn no_other_store_is_asked_for_the_memory_of_a_copy() {
    let pool = pool(8 * MIB);
    let (mut full, mut late) = (store(&pool, true), store(&pool, true));
    (0..100_000).for_each(|number| insert(&mut full, "item", number).expect("others go"));
    let before = full.stats();
    // Its reserve is for copies, too, which then make room for each other.
    for number in 0..50_000 {
        insert(&mut late, "copy", number).expect("other copies go");
        full.maintain(1, 16);
    }
    assert_eq!(full.stats().items, before.items);
    assert!(late.stats().held_bytes < 2 * MIB as u64);
    for number in 0..50_000 {
        insert(&mut late, "item", number).expect("others go");
        full.maintain(1, 16);
    }
    assert!(full.stats().items < before.items, "an item is worth asking");
}

#[test]
fn an_item_stays_a_copy_however_it_is_changed() {
    let mut store = store(&pool(MIB), true);
    insert(&mut store, "copy", 0).expect("there is room");
    insert(&mut store, "item", 0).expect("there is room");
    for key in [&b"copy-0"[..], b"item-0"] {
        for expires_at in [100, NEVER, 5_000] {
            let mut item = store.get(ID, key, 1).expect("it is there");
            item.set_expires_at(expires_at).expect("there is room");
            item.set_version(Version(u64::MAX >> 1))
                .expect("there is room");
            store.assert_invariants();
        }
        let longer = NewItem {
            key,
            value: [&[2; 1000], &[]],
            flags: 7,
            expires_at: 9,
            version: Version(2),
        };
        store.insert(ID, longer, 1).expect("there is room");
        // Once it has expired, it comes anew.
        store.insert(ID, longer, 20).expect("there is room");
        store.assert_invariants();
    }
    assert_eq!((store.stats().items, store.stats().copies), (2, 1));
    store.flush();
    assert_eq!((store.stats().copies, store.stats().copies_bytes), (0, 0));
    store.assert_invariants();
}
