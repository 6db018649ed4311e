//! Hit ratios beside a real memcached with the same memory, on recorded traces.
//!
//! `cargo run --release -p evenkeel-storage --example hit_ratio [--data DIR] [--traces a,b] [--shares
//! 10,30] [--json FILE]`; `make bench-hit-ratio` does that. It takes the memcached that comes first in
//! `PATH`.
//!
//! A trace is replayed as an application uses a cache: a get, and a set where it missed. Sizes of values
//! are drawn per key from the hash of the key (`sizes.rs`). For each trace, memory is a share of what
//! all its keys would take. Equal memory means what memcached has taken for items in the end (`stats
//! slabs`, `total_malloced`: at least its `-m`, and more where sizes are many, since each size class has a
//! page of 1 MiB in any case) and our pool's limit, which includes the index, as memcached's does not. Both are asked in the same small windows of different keys, gets first
//! and then the sets of those that missed, so that memcached can be asked over a socket in a pipeline.
//!
//! At the end, a change of sizes: the same keys come back with values ten times as large, and the misses
//! of both are shown as time goes on.

mod engines;
mod report;
mod sizes;
mod traces;

use engines::{Cache, Memcached, Ours};
use report::{Drift, Row};
use std::path::PathBuf;
use std::process::ExitCode;
use traces::{Request, Trace};

/// Requests that are asked at once, and those of a trace with few keys, where a window should not be a
/// notable part of what fits.
const WINDOW: usize = 16;
const WINDOW_FEW_KEYS: usize = 4;
const FEW_KEYS: usize = 20_000;

struct Options {
    data: PathBuf,
    traces: Vec<String>,
    shares_percent: Vec<u32>,
    json: Option<PathBuf>,
}

const USAGE: &str =
    "hit_ratio [--data DIR] [--traces NAME,...] [--shares PER_CENT,...] [--json FILE]";

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            data: PathBuf::from("../shared/data"),
            traces: Vec::new(),
            shares_percent: vec![10, 30],
            json: None,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let missing = || format!("The option {argument} needs a value.");
                arguments.next().ok_or_else(missing)
            };
            match argument.as_str() {
                "--data" => options.data = value()?.into(),
                "--traces" => options.traces = traces_of(&value()?)?,
                "--shares" => options.shares_percent = shares_of(&value()?)?,
                "--json" => options.json = Some(value()?.into()),
                other => return Err(format!("There is no option {other}.")),
            }
        }
        Ok(options)
    }
}

fn traces_of(list: &str) -> Result<Vec<String>, String> {
    let known = || traces::TRACES.iter().map(|(name, _)| *name);
    let check = |name: &str| match known().find(|other| *other == name) {
        Some(name) => Ok(name.to_owned()),
        None => {
            let known: Vec<&str> = known().collect();
            let known = known.join(", ");
            Err(format!("There is no trace {name:?}; there are {known}."))
        }
    };
    list.split(',').map(check).collect()
}

fn shares_of(list: &str) -> Result<Vec<u32>, String> {
    let check = |share: &str| match share.parse() {
        Ok(share @ 1..=100) => Ok(share),
        _ => Err(format!(
            "{share:?} is not a share in per cent, from 1 to 100."
        )),
    };
    list.split(',').map(check).collect()
}

/// Replays a trace; returns the misses of its gets.
fn replay(trace: &Trace, cache: &mut dyn Cache) -> u64 {
    let size = if trace.keys.len() < FEW_KEYS {
        WINDOW_FEW_KEYS
    } else {
        WINDOW
    };
    let mut misses = 0;
    let mut window: Vec<Request> = Vec::new();
    let mut flush = |window: &mut Vec<Request>| {
        let gets = window.iter().filter(|request| !request.set);
        let gets: Vec<u32> = gets.map(|request| request.key).collect();
        let missed = cache.get(trace, &gets);
        misses += missed.len() as u64;
        let sets = window.iter().filter(|request| request.set);
        let sets: Vec<u32> = missed.into_iter().chain(sets.map(|r| r.key)).collect();
        cache.set(trace, &sets);
        window.clear();
    };
    for request in &trace.requests {
        let again = window.iter().any(|other| other.key == request.key);
        if window.len() == size || again {
            flush(&mut window);
        }
        window.push(*request);
    }
    flush(&mut window);
    misses
}

fn compare(trace: &Trace, share_percent: u32) -> Row {
    let mib = (trace.footprint() * u64::from(share_percent) / 100).div_ceil(1 << 20);
    let gets = trace.requests.iter().filter(|request| !request.set).count() as u64;
    let mut reference = Memcached::start(mib);
    let memcached = replay(trace, &mut reference);
    // What it took in the end, where its first pages go beyond what it was given.
    let bytes = reference.bytes_taken().max(mib << 20);
    drop(reference);
    let ours = replay(trace, &mut Ours::new(bytes));
    Row {
        trace: trace.name.clone(),
        gets,
        keys: trace.keys.len(),
        item_bytes: trace.footprint() / trace.keys.len() as u64,
        share_percent,
        memcached_mib: mib,
        mib: bytes.div_ceil(1 << 20),
        memcached: memcached as f64 / gets as f64,
        ours: ours as f64 / gets as f64,
    }
}

/// Misses in each part of a load whose values become ten times as large after a third of it.
fn drift() -> Drift {
    const PARTS: usize = 30;
    let (before, after) = traces::change_of_sizes();
    let mib = 64;
    let mut caches: [Box<dyn Cache>; 2] = [
        Box::new(Memcached::start(mib)),
        Box::new(Ours::new(mib << 20)),
    ];
    let mut misses: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for part in 0..PARTS {
        let trace = if part < PARTS / 3 { &before } else { &after };
        let len = trace.requests.len() / PARTS;
        let piece = trace.part(part * len..(part + 1) * len);
        for (cache, misses) in caches.iter_mut().zip(&mut misses) {
            misses.push(replay(&piece, cache.as_mut()) as f64 / len as f64);
        }
    }
    let [memcached, ours] = misses;
    Drift {
        mib,
        memcached,
        ours,
    }
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(sentence) => {
            eprintln!("{sentence}\nUsage: {USAGE}");
            return ExitCode::from(2);
        }
    };
    println!("{}", engines::memcached_version());
    println!("{}", report::HEADER);
    let mut rows = Vec::new();
    for (name, path) in traces::TRACES {
        if !options.traces.is_empty() && !options.traces.iter().any(|wanted| wanted == name) {
            continue;
        }
        let trace = Trace::read(name, &options.data.join(path));
        for share in &options.shares_percent {
            let row = compare(&trace, *share);
            println!("{row}");
            rows.push(row);
        }
    }
    println!("{}", report::summary(&rows));
    let drift = drift();
    println!("{drift}");
    if let Some(path) = options.json {
        let json = report::json(&engines::memcached_version(), &rows, &drift);
        std::fs::write(&path, json).expect("the JSON file can be written");
    }
    ExitCode::SUCCESS
}
