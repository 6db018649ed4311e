//! How many items fit: `cargo run --release -p evenkeel-storage --example density [MiB [cachelets]]`.
//!
//! Fills a store with items of the sizes that MBal's evaluation uses, until it evicts steadily, and
//! prints how many it holds and what an item takes beyond its key and value, index included.

use evenkeel_storage::{NEVER, NewItem, PoolConfig, SegmentPool, Store};
use evenkeel_types::{CacheletId, KeyHash, Version};

/// Key and value lengths in bytes.
const SIZES: [(usize, usize); 4] = [(10, 20), (24, 64), (30, 230), (16, 4096)];
const SEED: u64 = 0x5eed;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|argument| argument.parse().expect("a number"));
    let mib: usize = numbers.next().unwrap_or(256);
    let cachelets: u16 = numbers
        .next()
        .map_or(16, |count: usize| count.clamp(1, 4096) as u16);
    println!("{mib} MiB, {cachelets} cachelets");
    println!(
        "{:>5} {:>6} {:>10} {:>11} {:>15} {:>12} {:>11}",
        "key_B", "val_B", "items", "B_per_item", "overhead_B", "index_B", "unused_pct"
    );
    for (key_len, value_len) in SIZES {
        let stats = fill(mib << 20, cachelets, key_len, value_len);
        let per_item = |bytes: u64| bytes as f64 / stats.items as f64;
        println!(
            "{key_len:>5} {value_len:>6} {:>10} {:>11.2} {:>15.2} {:>12.2} {:>11.2}",
            stats.items,
            per_item((mib << 20) as u64),
            per_item((mib << 20) as u64) - (key_len + value_len) as f64,
            per_item(stats.index_bytes),
            stats.dead_bytes as f64 / (mib << 20) as f64 * 100.0,
        );
    }
}

fn fill(
    limit: usize,
    cachelets: u16,
    key_len: usize,
    value_len: usize,
) -> evenkeel_storage::StoreStats {
    let pool = SegmentPool::new(PoolConfig {
        limit_bytes: limit,
        item_size_max: 1 << 20,
        cachelets_expected: usize::from(cachelets),
    });
    let mut store = Store::new(pool, SEED);
    for id in 0..cachelets {
        store.create_cachelet(CacheletId(id));
    }
    let value = vec![b'v'; value_len];
    // Enough to go round one and a half times.
    let items = limit * 3 / 2 / (key_len + value_len + 16);
    for number in 0..items {
        let key = format!("{number:0key_len$}").into_bytes();
        let id = CacheletId((KeyHash::of(&key).0 % u64::from(cachelets)) as u16);
        let new = NewItem {
            key: &key,
            value: [&value, &[]],
            flags: 0,
            expires_at: NEVER,
            version: Version(number as u64),
        };
        store
            .insert(id, new, 1)
            .expect("a store that evicts takes a small item");
    }
    store.stats()
}
