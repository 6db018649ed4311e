//! What a store says about sizes, and about what it evicts.

use evenkeel_storage::{
    NEVER, NewItem, PoolConfig, SIZE_BANDS, SegmentPool, Store, band_bytes_max, size_band,
};
use evenkeel_types::{CacheletId, Version};

const ID: CacheletId = CacheletId(0);

fn store(limit_bytes: usize) -> Store {
    let pool = SegmentPool::new(PoolConfig {
        limit_bytes,
        item_size_max: 1 << 20,
        cachelets_expected: 1,
    });
    let mut store = Store::new(pool, 1);
    store.create_cachelet(ID);
    store
}

fn set(store: &mut Store, key: &str, value: &[u8], expires_at: u32, now: u32) {
    let item = NewItem {
        key: key.as_bytes(),
        value: [value, &[]],
        flags: 0,
        expires_at,
        version: Version(1),
    };
    store.insert(ID, item, now).expect("there is room");
}

#[test]
fn items_are_counted_by_size_wherever_they_come_and_go() {
    let mut store = store(1 << 20);
    set(&mut store, "small", b"v", NEVER, 1);
    set(&mut store, "large", &[b'v'; 1000], 5, 1);
    set(&mut store, "larger", &[b'v'; 50_000], NEVER, 1);
    let sizes: Vec<usize> = store.items(ID, 1).map(|item| item.size()).collect();
    let bands = store.band_stats(4);
    for size in sizes {
        let band = &bands[size_band(size)];
        assert_eq!((band.items, band.bytes), (1, size as u64));
        assert_eq!(band.oldest_age_s, 3);
        assert!(size <= band_bytes_max(size_band(size)));
    }
    // Another size under the same key, an expiry found by a read, and a delete.
    set(&mut store, "small", &[b'v'; 500], NEVER, 4);
    assert!(store.get(ID, b"large", 6).is_none());
    assert!(store.delete(ID, b"larger", 6));
    store.assert_invariants();
    let bands = store.band_stats(6);
    let held: u64 = bands.iter().map(|band| band.items).sum();
    assert_eq!((held, bands[size_band(1024)].items), (1, 1));
    store.flush();
    let bands = store.band_stats(6);
    assert!(bands.iter().all(|band| band.items == 0));
    assert_eq!(bands.len(), SIZE_BANDS);
}

#[test]
fn evictions_are_counted_by_size_and_logged_while_somebody_watches() {
    let mut store = store(1 << 20);
    let fill = |store: &mut Store, from: u32, expires_at| {
        for number in from..from + 20_000 {
            set(
                store,
                &format!("key-{number}"),
                &[b'v'; 100],
                expires_at,
                10,
            );
        }
    };
    fill(&mut store, 0, NEVER);
    let total = |store: &Store| -> u64 {
        let bands = store.band_stats(10);
        bands.iter().map(|band| band.evicted).sum()
    };
    let before = total(&store);
    assert_eq!(before, store.stats().evictions);
    assert!(before > 0 && store.take_evictions().evicted.is_empty());

    store.log_evictions(true);
    fill(&mut store, 20_000, 100);
    let log = store.take_evictions();
    assert_eq!(
        log.evicted.len() as u64 + log.dropped,
        total(&store) - before,
        "each eviction is in the log or counted as dropped"
    );
    let evicted = &log.evicted[0];
    assert!(evicted.key.starts_with(b"key-") && !evicted.fetched);
    assert_eq!((evicted.expires_at, evicted.age_s), (NEVER, 0));
    store.assert_invariants();

    store.log_evictions(false);
    fill(&mut store, 40_000, NEVER);
    assert!(store.take_evictions().evicted.is_empty());
}
