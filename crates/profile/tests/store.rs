//! What is simulated as S3-FIFO beside the store of Evenkeel's servers, asked for the same.

use evenkeel_profile::{
    Curves, Flags, Head, Lifetime, NO_LATENCY, NO_RACK, RECORD_LEN, Record, Sampling,
};
use evenkeel_schemes::locality::Outcome;
use evenkeel_storage::{NEVER, NewItem, PoolConfig, SegmentPool, Store};
use evenkeel_testkit::seed;
use evenkeel_types::{CacheletId, KeyHash, Version};
use evenkeel_workload::{Popularity, RankSampler, rng};

const CACHELETS: u16 = 8;
const REQUESTS: u64 = 250_000;
/// What the store has besides key and value, and what the simulation has besides bytes on the wire.
const STORE_ITEM_BYTES: u32 = 18;
const SIMULATED_ITEM_BYTES: u32 = 32;

fn record(number: u64, hash: u64, outcome: Outcome, bytes: u32) -> Record {
    Record {
        unix_us: 1_700_000_000_000_000 + number,
        lifetime: Lifetime::FOREVER,
        key: hash,
        session: 0,
        page: 0,
        client: 0,
        pool: 0,
        request_bytes: bytes,
        answer_bytes: bytes,
        latency_us: NO_LATENCY,
        own_rack: NO_RACK,
        answering_rack: NO_RACK,
        outcome,
        flags: Flags::OF_PAGES.and(Flags::OF_KEYS),
    }
}

/// Shares of hits: of the store, and of the simulation of as much memory.
fn run(exponent: f64, limit_bytes: usize, seed: u64) -> (f64, f64) {
    let pool = SegmentPool::new(PoolConfig {
        limit_bytes,
        item_size_max: 1 << 20,
        cachelets_expected: usize::from(CACHELETS),
    });
    let mut store = Store::new(pool, seed);
    for id in 0..CACHELETS {
        store.create_cachelet(CacheletId(id));
    }
    let head = Head {
        record_len: RECORD_LEN,
        proxy: String::new(),
        sampling: Sampling::FULL,
        racks: Vec::new(),
        own_rack: None,
        pools: vec!["main".to_owned()],
    };
    let mut curves = Curves::new(&head, |_| Some(limit_bytes as u64));
    let ranks = RankSampler::new(60_000, Popularity::Zipf { exponent }).expect("a law");
    let mut random = rng::stream(seed, 0);
    let value = [b'v'; 4096];
    let mut hits = 0;
    for number in 0..REQUESTS {
        let key = format!("key:{:016x}", ranks.sample(&mut random));
        let hash = KeyHash::of(key.as_bytes()).0;
        // From 50 bytes to some thousands, most of them short.
        let len = 50.0 / (rng::unit_of(rng::mix64(hash)) + 0.02);
        let value = &value[..len as usize];
        let id = CacheletId((hash % u64::from(CACHELETS)) as u16);
        let now = number as u32 / 1000 + 1;
        let bytes = (key.len() + value.len()) as u32 + STORE_ITEM_BYTES - SIMULATED_ITEM_BYTES;
        if let Some(mut item) = store.get(id, key.as_bytes(), now) {
            item.touch_access(now);
            hits += 1;
            curves.add(&record(number, hash, Outcome::GetHit, bytes));
            continue;
        }
        let new = NewItem {
            key: key.as_bytes(),
            value: [value, &[]],
            flags: 0,
            expires_at: NEVER,
            version: Version(number + 1),
        };
        let stored = store.insert(id, new, now);
        stored.expect("a store that evicts takes a small item");
        curves.add(&record(number, hash, Outcome::GetMiss, 5));
        curves.add(&record(number, hash, Outcome::SetHit, bytes));
    }
    let curve = &curves.curves()[0];
    (hits as f64 / REQUESTS as f64, curve.points[2].s3_fifo.share)
}

#[test]
fn the_simulated_s3_fifo_finds_about_what_the_store_finds() {
    let seed = seed(0x81);
    for (exponent, limit_bytes) in [
        (0.7, 2 << 20),
        (0.9, 2 << 20),
        (0.9, 4 << 20),
        (1.1, 1 << 20),
    ] {
        let (store, simulated) = run(exponent, limit_bytes, seed);
        println!(
            "zipf({exponent}), {limit_bytes} bytes: store {store:.4}, simulated {simulated:.4}"
        );
        assert!((store - simulated).abs() < 0.02, "{store}, {simulated}");
    }
}
