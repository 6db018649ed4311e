//! The traces, read into memory with a size for each key.

use crate::sizes::etc_value_bytes;
use evenkeel_types::KeyHash;
use evenkeel_workload::rng::{mix64, stream};
use evenkeel_workload::trace::{TraceReader, TraceRequest};
use evenkeel_workload::{Operation, Popularity, RankSampler};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

/// Every trace of the evaluation data that has requests in an order.
pub const TRACES: [(&str, &str); 14] = [
    ("arc OLTP", "arc/OLTP.lis.gz"),
    ("arc P3", "arc/P3.lis.gz"),
    ("arc P6", "arc/P6.lis.gz"),
    ("cache2k orm-busy", "cache2k/orm-busy.be32.gz"),
    ("cache2k web12", "cache2k/web12.be32.gz"),
    ("scarab", "scarab/scarab-recs.be64.gz"),
    ("cloudphysics", "cloudphysics/cloudPhysicsIO.csv.gz"),
    (
        "docker registry",
        "ibm-docker-registry/ibm-docker-725k.txt.gz",
    ),
    ("lirs 2_pools", "lirs/2_pools.txt.gz"),
    ("lirs loop", "lirs/loop.txt.gz"),
    ("lirs multi2", "lirs/multi2.txt.gz"),
    ("lirs sprite", "lirs/sprite.txt.gz"),
    ("nasa", "nasa-http/nasa-http-19950701-sample.tsv.gz"),
    (
        "wikipedia edits",
        "wikipedia-edits/wikipedia-edits-2015-09-12-sampled.tsv.gz",
    ),
];

/// All items of a trace together should take this much, or a tenth of it would be less memory than
/// memcached can be held to: each of its size classes takes a page of 1 MiB whatever `-m` says. Values
/// of traces with few keys are scaled up to it.
const FOOTPRINT_MIN: f64 = (320 << 20) as f64;
/// Largest value after scaling: what memcached keeps in one chunk.
const VALUE_BYTES_MAX: f64 = (500 << 10) as f64;
/// What an item is taken to cost besides key and value where memory is chosen: memcached's header.
const ITEM_OVERHEAD: u64 = 56;
/// A trace of few keys, so of large values, ends when this many bytes were asked for and each key came
/// a dozen times.
const BYTES_ASKED_MAX: f64 = (8u64 << 30) as f64;
const ROUNDS_MIN: usize = 12;

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Which of the trace's keys.
    pub key: u32,
    /// Whether it is a write.
    pub set: bool,
}

/// A trace in memory.
pub struct Trace {
    pub name: String,
    pub requests: Vec<Request>,
    pub keys: Vec<Box<[u8]>>,
    /// Bytes of each key's value.
    pub value_bytes: Vec<u32>,
}

impl Trace {
    pub fn read(name: &str, path: &Path) -> Trace {
        let mut reader = TraceReader::open(path, None).unwrap_or_else(|error| panic!("{error}"));
        let mut numbers: HashMap<Box<[u8]>, u32> = HashMap::new();
        let (mut requests, mut request) = (Vec::new(), TraceRequest::default());
        while reader
            .next_request(&mut request)
            .unwrap_or_else(|error| panic!("{error}"))
        {
            let next = numbers.len() as u32;
            let key = match numbers.get(request.key.as_slice()) {
                Some(key) => *key,
                None => *numbers.entry(request.key.as_slice().into()).or_insert(next),
            };
            let set = request.operation == Operation::Set;
            requests.push(Request { key, set });
        }
        let mut keys = vec![Box::default(); numbers.len()];
        for (key, number) in numbers {
            keys[number as usize] = key;
        }
        let value_bytes = sizes(&keys);
        let mean = value_bytes
            .iter()
            .map(|&bytes| f64::from(bytes))
            .sum::<f64>()
            / keys.len() as f64;
        let most = ((BYTES_ASKED_MAX / mean) as usize).max(ROUNDS_MIN * keys.len());
        requests.truncate(most);
        Trace {
            name: name.to_owned(),
            requests,
            keys,
            value_bytes,
        }
    }

    /// Bytes that all items take together.
    pub fn footprint(&self) -> u64 {
        let keys = self.keys.iter().map(|key| key.len() as u64).sum::<u64>();
        let values = self.value_bytes.iter().map(|&bytes| u64::from(bytes));
        keys + values.sum::<u64>() + self.keys.len() as u64 * ITEM_OVERHEAD
    }

    /// The same trace with some of its requests.
    pub fn part(&self, range: Range<usize>) -> Trace {
        Trace {
            name: self.name.clone(),
            requests: self.requests[range].to_vec(),
            keys: self.keys.clone(),
            value_bytes: self.value_bytes.clone(),
        }
    }
}

fn sizes(keys: &[Box<[u8]>]) -> Vec<u32> {
    let natural: Vec<f64> = keys
        .iter()
        .map(|key| etc_value_bytes(mix64(KeyHash::of(key).0)))
        .collect();
    let scale = (FOOTPRINT_MIN / natural.iter().sum::<f64>()).max(1.0);
    let scaled = natural
        .iter()
        .map(|bytes| (bytes * scale).min(VALUE_BYTES_MAX));
    scaled.map(|bytes| bytes as u32).collect()
}

/// Requests by Zipf's law for the same keys, with values of 50 to 149 bytes and ten times as many.
pub fn change_of_sizes() -> (Trace, Trace) {
    const KEYS: u64 = 500_000;
    const REQUESTS: usize = 6_000_000;
    let sampler =
        RankSampler::new(KEYS, Popularity::Zipf { exponent: 0.9 }).expect("a law that exists");
    let mut rng = stream(7, 0);
    let requests: Vec<Request> = (0..REQUESTS)
        .map(|_| Request {
            key: sampler.sample(&mut rng) as u32,
            set: false,
        })
        .collect();
    // Keys of the second load are others, as those of a new release are.
    let load = |version: u32, factor: u32| Trace {
        name: format!("values of {}..{} bytes", 50 * factor, 150 * factor),
        requests: requests.clone(),
        keys: (0..KEYS)
            .map(|n| format!("v{version}:{n:08}").into_bytes().into())
            .collect(),
        value_bytes: (0..KEYS)
            .map(|n| (50 + (mix64(n) % 100) as u32) * factor)
            .collect(),
    };
    (load(1, 1), load(2, 10))
}
