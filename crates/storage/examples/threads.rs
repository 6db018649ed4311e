//! Threads with a store each beside threads that share one cache under locks: MBal's Figures 5 and 6 in
//! one process.
//!
//! `cargo run --release -p evenkeel-storage --example threads [--threads N] [--keys N] [--json FILE]`;
//! `make bench-storage` does that. Each thread makes its own load, without a network: keys of 10 bytes,
//! values of 20, all keys equally likely. Compared are
//!
//! - *own store*: each thread has a [`Store`] and the keys that belong to it; all draw on one pool;
//! - *sharded*: `lru` caches behind `parking_lot` mutexes, 64 for each thread, chosen by the key's hash;
//! - *one lock*: one such cache behind one mutex.
//!
//! Three loads: gets only of keys that are all there; sets only with memory for all; and gets with a set
//! on a miss, with memory for a quarter of the keys. The paper has 32 million operations on 40 million
//! keys in 5 GB on 8 cores; the numbers here are smaller and can be raised. Designs take turns, round by
//! round, and medians are shown.

use evenkeel_storage::{NEVER, NewItem, PoolConfig, SegmentPool, Store};
use evenkeel_types::{CacheletId, KeyHash, Version};
use lru::LruCache;
use parking_lot::Mutex;
use serde_json::json;
use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::time::Instant;

const VALUE: [u8; 20] = [b'v'; 20];
const KEY_LEN: usize = 10;
type Key = [u8; KEY_LEN];
/// What an entry of the compared designs is charged: key and value, their two boxes' allocations
/// (16 bytes at least beyond a multiple of 16), the list's links and the table's slot.
const LRU_ENTRY_BYTES: usize = 112;
/// What an item of ours takes, with index and room for growth.
const OUR_ITEM_BYTES: usize = 56;
const SHARDS_PER_THREAD: usize = 64;
const ROUNDS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Load {
    Get,
    Set,
    Replacing,
}

const LOADS: [(Load, &str); 3] = [
    (Load::Get, "get only"),
    (Load::Set, "set only"),
    (Load::Replacing, "memory for a quarter"),
];
const DESIGNS: [&str; 3] = ["own store", "sharded", "one lock"];

/// One thread's way to a cache.
trait Cache {
    fn get(&mut self, key: &Key) -> bool;
    fn set(&mut self, key: &Key);
}

struct Own(Store);

const ID: CacheletId = CacheletId(0);

impl Cache for Own {
    fn get(&mut self, key: &Key) -> bool {
        let item = self.0.read(ID, key, 1);
        item.is_some_and(|item| std::hint::black_box(item.value()).len() == VALUE.len())
    }

    fn set(&mut self, key: &Key) {
        let item = NewItem {
            key,
            value: [&VALUE, &[]],
            flags: 0,
            expires_at: NEVER,
            version: Version(1),
        };
        let stored = self.0.insert(ID, item, 1);
        stored.expect("a store that evicts takes a small item");
    }
}

type Shard = Mutex<LruCache<Box<[u8]>, Box<[u8]>>>;

#[derive(Clone)]
struct Shared {
    shards: Arc<[Shard]>,
}

impl Shared {
    fn new(shards: usize, bytes: usize) -> Shared {
        let entries = (bytes / LRU_ENTRY_BYTES / shards).max(1);
        let entries = entries.try_into().expect("at least one");
        let shards = (0..shards).map(|_| Mutex::new(LruCache::new(entries)));
        Shared {
            shards: shards.collect(),
        }
    }

    fn shard(&self, key: &Key) -> &Shard {
        let hash = KeyHash::of(key).0;
        &self.shards[(hash % self.shards.len() as u64) as usize]
    }
}

impl Cache for Shared {
    fn get(&mut self, key: &Key) -> bool {
        let mut shard = self.shard(key).lock();
        let value = shard.get(key.as_slice());
        value.is_some_and(|value| std::hint::black_box(value).len() == VALUE.len())
    }

    fn set(&mut self, key: &Key) {
        let mut shard = self.shard(key).lock();
        shard.put(Box::from(key.as_slice()), Box::from(VALUE.as_slice()));
    }
}

struct Plan {
    load: Load,
    threads: usize,
    keys: u64,
    operations: u64,
}

/// Key `number` of a thread. Threads have different keys, as workers do.
fn key(thread: usize, number: u64) -> Key {
    let mut key = [b'a' + thread as u8; KEY_LEN];
    let mut left = number;
    for digit in key.iter_mut().skip(1) {
        *digit = b'0' + (left & 31) as u8;
        left >>= 5;
    }
    key
}

impl Plan {
    fn memory(&self, item_bytes: usize) -> usize {
        let all = self.keys as usize * item_bytes + (8 << 20);
        if self.load == Load::Replacing {
            all / 4
        } else {
            all
        }
    }

    fn cache(&self, design: &str) -> Box<dyn Fn() -> Box<dyn Cache> + Send + Sync> {
        let threads = self.threads;
        match design {
            "own store" => {
                let pool = SegmentPool::new(PoolConfig {
                    limit_bytes: self.memory(OUR_ITEM_BYTES),
                    item_size_max: 1 << 20,
                    cachelets_expected: threads,
                });
                Box::new(move || {
                    let mut store = Store::new(pool.clone(), 0x5eed);
                    store.create_cachelet(ID);
                    Box::new(Own(store))
                })
            }
            design => {
                let shards = if design == "sharded" {
                    threads * SHARDS_PER_THREAD
                } else {
                    1
                };
                let shared = Shared::new(shards, self.memory(LRU_ENTRY_BYTES));
                Box::new(move || Box::new(shared.clone()))
            }
        }
    }

    /// One thread's part: its cache is filled before the start, where the load wants that.
    fn work(&self, thread: usize, cache: &mut dyn Cache, start: &Barrier) -> (Instant, Instant) {
        let keys = self.keys / self.threads as u64;
        let step = |at: u64| at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if self.load != Load::Set {
            (0..keys).for_each(|number| cache.set(&key(thread, number)));
        }
        let mut state = thread as u64 + 1;
        start.wait();
        let begun = Instant::now();
        let mut hits = 0u64;
        for _ in 0..self.operations / self.threads as u64 {
            state = step(state);
            let key = key(
                thread,
                ((u128::from(state) * u128::from(keys)) >> 64) as u64,
            );
            match self.load {
                Load::Set => cache.set(&key),
                Load::Get | Load::Replacing => {
                    let hit = cache.get(&key);
                    hits += u64::from(hit);
                    if !hit && self.load == Load::Replacing {
                        cache.set(&key);
                    }
                }
            }
        }
        if self.load == Load::Get {
            assert_eq!(
                hits,
                self.operations / self.threads as u64,
                "every key is there"
            );
        }
        (begun, Instant::now())
    }

    /// Million operations a second of all threads together.
    fn measure(&self, design: &str) -> f64 {
        let cache = self.cache(design);
        let start = Barrier::new(self.threads);
        let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let (start, cache) = (&start, &cache);
                    scope.spawn(move || self.work(thread, cache().as_mut(), start))
                })
                .collect();
            let times = threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"));
            times.collect()
        });
        let begun = times.iter().map(|(begun, _)| *begun).min();
        let ended = times.iter().map(|(_, ended)| *ended).max();
        let seconds = begun
            .zip(ended)
            .map(|(begun, ended)| (ended - begun).as_secs_f64());
        self.operations as f64 / 1e6 / seconds.expect("there is a thread")
    }
}

fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

struct Options {
    threads_max: usize,
    keys: u64,
    json: Option<String>,
}

const USAGE: &str = "threads [--threads N] [--keys N] [--json FILE]";

impl Options {
    fn parse(cores: usize, mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            threads_max: cores,
            keys: 1_000_000,
            json: None,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let missing = || format!("The option {argument} needs a value.");
                arguments.next().ok_or_else(missing)
            };
            let number = |value: String| match value.parse::<u64>() {
                Ok(number @ 1..) => Ok(number),
                _ => Err(format!("{value:?} is not a number of at least one.")),
            };
            match argument.as_str() {
                "--threads" => options.threads_max = number(value()?)? as usize,
                "--keys" => options.keys = number(value()?)?,
                "--json" => options.json = Some(value()?),
                other => return Err(format!("There is no option {other}.")),
            }
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = match Options::parse(cores, std::env::args().skip(1)) {
        Ok(options) => options,
        Err(sentence) => {
            eprintln!("{sentence}\nUsage: {USAGE}");
            return ExitCode::from(2);
        }
    };
    let Options {
        threads_max,
        keys,
        json: file,
    } = options;
    println!(
        "{cores} cores, {keys} keys of {KEY_LEN} bytes, values of {} bytes; million operations a second",
        VALUE.len()
    );
    println!(
        "{:<22} {:>7} {:>10} {:>10} {:>10} {:>16}",
        "load", "threads", DESIGNS[0], DESIGNS[1], DESIGNS[2], "own/sharded"
    );
    let mut rows = Vec::new();
    for (load, name) in LOADS {
        let mut threads = 1;
        while threads <= threads_max {
            let plan = Plan {
                load,
                threads,
                keys,
                operations: 4 * keys,
            };
            let mut rounds: [Vec<f64>; 3] = Default::default();
            for _ in 0..ROUNDS {
                for (design, rounds) in DESIGNS.iter().zip(&mut rounds) {
                    rounds.push(plan.measure(design));
                }
            }
            let [own, sharded, one_lock] = rounds.map(median);
            println!(
                "{name:<22} {threads:>7} {own:>10.2} {sharded:>10.2} {one_lock:>10.2} {:>16.2}",
                own / sharded
            );
            rows.push(json!({
                "load": name,
                "threads": threads,
                "own_store_mops": own,
                "sharded_mops": sharded,
                "one_lock_mops": one_lock,
            }));
            threads *= 2;
        }
    }
    println!(
        "MBal's paper, 8 cores, for comparison: six threads get 2.3 times as much as with fine-grained"
    );
    println!("locks (Figure 5a), eight threads set 12 times as much (Figure 5b).");
    if let Some(file) = file {
        let report = json!({"cores": cores, "keys": keys, "rows": rows});
        std::fs::write(file, format!("{report:#}\n")).expect("the JSON file can be written");
    }
    ExitCode::SUCCESS
}
