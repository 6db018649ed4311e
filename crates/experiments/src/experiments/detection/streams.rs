//! The reads that detectors are shown: generated ones, and traces where they are.

use super::{Key, READS_PER_SECOND};
use crate::experiments::REGISTRY_TRACE;
use crate::run::Run;
use evenkeel_workload::trace::{TraceReader, TraceRequest};
use evenkeel_workload::{Operation, ValueSizes, WorkloadSpec};
use std::collections::HashMap;
use std::path::Path;

/// Generated streams, by their names and in words (docs/workloads.md). Keys have 24 bytes, and values sizes as of a cache
/// at Facebook.
const GENERATED: [(&str, &str); 4] = [
    (
        "Zipf 0.99",
        "default keys=1M popularity=zipf(0.99) mix=mix(get=1) value-size=etc",
    ),
    (
        "Zipf 1.2",
        "default keys=1M popularity=zipf(1.2) mix=mix(get=1) value-size=etc",
    ),
    (
        "Zipf 0.99, other keys hot every 5 s",
        "default keys=1M popularity=zipf(0.99) mix=mix(get=1) value-size=etc reshuffle=5s",
    ),
    ("Twitter's cluster 4, by its statistics", "twitter(4)"),
];

/// Traces: name, and file in the folder of data.
const TRACES: [(&str, &str); 2] = [
    ("IBM Docker registry", REGISTRY_TRACE),
    ("e-commerce objects (cache2k)", "cache2k/orm-busy.be32.gz"),
];

/// A read: the number of its key, and what it moves: key and value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub key: usize,
    pub bytes: u32,
}

/// Reads in their order, of keys by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub name: String,
    pub keys: Vec<Key>,
    pub reads: Vec<Read>,
}

impl Stream {
    /// The mean size of what is read.
    pub fn mean_bytes(&self) -> f64 {
        let sum: f64 = self.reads.iter().map(|read| f64::from(read.bytes)).sum();
        (sum / self.reads.len().max(1) as f64).max(1.0)
    }

    /// The mean length of the keys.
    pub fn key_len(&self) -> usize {
        let sum: usize = self.keys.iter().map(|key| key.name.len()).sum();
        sum / self.keys.len().max(1)
    }
}

/// Gives keys their numbers.
#[derive(Default)]
struct Numbered {
    stream: Stream,
    numbers: HashMap<Vec<u8>, usize>,
}

impl Numbered {
    fn read(&mut self, name: &[u8], value_len: impl FnOnce(&Key) -> u32) {
        let key = match self.numbers.get(name) {
            Some(&number) => number,
            None => {
                self.stream.keys.push(Key::new(name));
                let number = self.stream.keys.len() - 1;
                self.numbers.insert(name.to_vec(), number);
                number
            }
        };
        let bytes = value_len(&self.stream.keys[key]) + name.len() as u32;
        self.stream.reads.push(Read { key, bytes });
    }
}

/// All streams, each of at most so many reads, and what is to be said about them.
pub(super) fn streams(run: &Run, most: usize) -> anyhow::Result<(Vec<Stream>, Vec<String>)> {
    let mut streams = Vec::new();
    for (name, words) in GENERATED {
        run.progress.say(format!("drawing {name}"));
        streams.push(generated(name, words, run.seed, most)?);
    }
    let mut notes = Vec::new();
    for (name, file) in TRACES {
        let path = run.data.as_ref().map(|folder| folder.join(file));
        match path.filter(|path| path.exists()) {
            Some(path) => streams.push(trace(name, &path, most)?),
            None => notes.push(format!(
                "{name} was left out: no {file} in the folder of --data."
            )),
        }
    }
    Ok((streams, notes))
}

fn generated(name: &str, words: &str, seed: u64, most: usize) -> anyhow::Result<Stream> {
    let mut spec: WorkloadSpec = words.parse()?;
    spec.seed = seed;
    let workload = spec.build()?;
    let mut requests = workload.stream(0, 1);
    let mut request = evenkeel_workload::Request::default();
    let mut numbered = Numbered::default();
    let mut time = 0;
    while numbered.stream.reads.len() < most {
        requests.next(time, &mut request);
        if request.operation != Operation::Get {
            continue;
        }
        for key in request.keys.iter() {
            numbered.read(key, |_| request.value_len);
        }
        time += 1_000_000_000 / READS_PER_SECOND;
    }
    numbered.stream.name = name.to_owned();
    Ok(numbered.stream)
}

/// The first reads of a trace. Where it tells no sizes they are as of a cache at Facebook, by the key.
fn trace(name: &str, path: &Path, most: usize) -> anyhow::Result<Stream> {
    let sizes: ValueSizes = "etc".parse()?;
    let mut reader = TraceReader::open(path, None)?;
    let mut request = TraceRequest::default();
    let mut numbered = Numbered::default();
    while numbered.stream.reads.len() < most && reader.next_request(&mut request)? {
        if request.operation == Operation::Get {
            let told = request.value_len;
            numbered.read(&request.key, |key| {
                told.unwrap_or_else(|| sizes.of(key.hash.0))
            });
        }
    }
    numbered.stream.name = name.to_owned();
    Ok(numbered.stream)
}
