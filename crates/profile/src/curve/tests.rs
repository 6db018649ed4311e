//! Miniature simulations beside full ones, of a generated trace and of recorded ones.

use super::*;
use crate::record::{NO_LATENCY, NO_RACK};
use evenkeel_testkit::seed;
use evenkeel_types::KeyHash;
use evenkeel_types::random::SplitMix64;
use evenkeel_workload::trace::{TraceReader, TraceRequest};
use evenkeel_workload::{Operation, Popularity, RankSampler, rng};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// A request of a trace.
#[derive(Clone, Copy)]
struct Asked {
    key: u64,
    operation: Operation,
    bytes: u32,
    seconds: Option<u32>,
}

/// Requests from the beginning of a recorded trace: what full simulations take a few seconds for.
const REQUESTS_MAX: usize = 600_000;

/// Gets of one page.
const PAGE: usize = 16;

/// What a proxy would record before a cache that holds everything until its end: a get that finds nothing is followed by a store.
fn records(trace: &[Asked], gap_us: u64) -> Vec<Record> {
    let mut ends: HashMap<u64, u64> = HashMap::new();
    let mut records = Vec::new();
    for (number, asked) in trace.iter().enumerate() {
        let now = 1_700_000_000_000_000 + number as u64 * gap_us;
        let is_there = ends.get(&asked.key).is_some_and(|end| *end > now);
        let lifetime = asked
            .seconds
            .map_or(Lifetime::FOREVER, Lifetime::of_seconds);
        let of = |outcome, bytes: (u32, u32), lifetime| Record {
            unix_us: now,
            lifetime,
            key: asked.key,
            session: 0,
            page: (number / PAGE) as u32,
            client: 0,
            pool: 0,
            request_bytes: bytes.0,
            answer_bytes: bytes.1,
            latency_us: NO_LATENCY,
            own_rack: NO_RACK,
            answering_rack: NO_RACK,
            outcome,
            flags: Flags::default(),
        };
        let store = of(Outcome::SetHit, (asked.bytes, 8), lifetime);
        match asked.operation {
            Operation::Delete => {
                let was_there = ends.remove(&asked.key).is_some() && is_there;
                let outcome = match was_there {
                    true => Outcome::DeleteHit,
                    false => Outcome::DeleteMiss,
                };
                records.push(of(outcome, (20, 10), Lifetime::FOREVER));
                continue;
            }
            Operation::Get if is_there => {
                records.push(of(Outcome::GetHit, (20, asked.bytes), Lifetime::FOREVER));
                continue;
            }
            Operation::Get => records.push(of(Outcome::GetMiss, (20, 5), Lifetime::FOREVER)),
            _ => {}
        }
        let end = lifetime.seconds();
        let end = end.map_or(NEVER, |seconds| now + u64::from(seconds) * 1_000_000);
        ends.insert(asked.key, end);
        records.push(store);
    }
    records
}

fn curve(records: &[Record], sampling: Sampling, memory: u64, keys_max: usize) -> Curve {
    let head = Head {
        sampling,
        pools: vec!["main".to_owned()],
        ..crate::report::tests::head()
    };
    let mut curves = Curves::bounded(&head, |_| Some(memory), keys_max);
    for record in records {
        let of_pages = sampling.picks_page(record.session, record.page);
        let of_keys = sampling.picks_key(record.key);
        curves.add(&Record {
            flags: Flags::OF_PAGES
                .when(of_pages)
                .and(Flags::OF_KEYS.when(of_keys)),
            ..*record
        });
    }
    let mut all = curves.curves();
    all.pop().expect("there are gets")
}

/// How far the shares of a sample are from those of all, and how far they say that they may be.
fn differences(full: &Curve, some: &Curve) -> Vec<(f64, f64)> {
    let hits = |curve: &Curve| {
        let hits = curve.points.clone().into_iter();
        hits.flat_map(|point| [point.lru, point.segmented, point.s3_fifo])
    };
    let pairs = hits(full).zip(hits(some));
    let pairs = pairs.map(|(full, some)| ((full.share - some.share).abs(), some.error));
    pairs.collect()
}

/// Samples of a trace, so many that their mean error says little of which they are: of one alone it may be four times that.
const SAMPLES: usize = 60;

/// Samples of one page and one key in a hundred beside all: their mean absolute error over all sizes and policies, and the curve of
/// all.
fn at_one_percent(what: &str, records: &[Record], memory: u64, seed: u64) -> (f64, Curve) {
    let full = curve(records, Sampling::FULL, memory, usize::MAX);
    let mut random = SplitMix64::new(seed);
    let samples = (0..SAMPLES).map(|_| {
        let sampling = Sampling {
            seed: random.next_u64(),
            pages: 100,
            keys: 100,
        };
        differences(&full, &curve(records, sampling, memory, usize::MAX))
    });
    let samples: Vec<Vec<(f64, f64)>> = samples.collect();
    let mean_of = |differences: &Vec<(f64, f64)>| {
        differences.iter().map(|(off, _)| off).sum::<f64>() / differences.len() as f64
    };
    let means = samples.iter().map(mean_of);
    let mean = means.clone().sum::<f64>() / SAMPLES as f64;
    let worst = means.fold(0.0, f64::max);
    let all: Vec<&(f64, f64)> = samples.iter().flatten().collect();
    let within = all.iter().filter(|(off, error)| off <= error);
    let within = within.count() as f64 / all.len() as f64;
    println!(
        "{what}: off by {mean:.4}, the worst sample by {worst:.4}, {within:.2} within their error"
    );
    for point in &full.points {
        println!(
            "{:>10} bytes: lru {:.3}, segmented {:.3}, s3-fifo {:.3}",
            point.bytes, point.lru.share, point.segmented.share, point.s3_fifo.share
        );
    }
    assert!(within > 0.8, "{what}: {within}");
    (mean, full)
}

/// Zipf's law, sizes from a hundred bytes to some thousands, half of the items with an end, one write and deletes.
fn generated(seed: u64, requests: usize, keys: u64) -> Vec<Asked> {
    let ranks = RankSampler::new(keys, Popularity::Zipf { exponent: 0.9 });
    let ranks = ranks.expect("a law");
    let mut random = rng::stream(seed, 0);
    let mut other = SplitMix64::new(seed);
    let mut asked = || {
        let key = rng::mix64(ranks.sample(&mut random) ^ seed);
        let mut of_key = SplitMix64::new(key);
        Asked {
            key,
            bytes: (100.0 / of_key.unit().powf(0.7)).min(8000.0) as u32,
            seconds: (of_key.below(2) == 0).then(|| 20 + of_key.below(200) as u32),
            operation: match other.below(50) {
                0 => Operation::Delete,
                1 => Operation::Set,
                _ => Operation::Get,
            },
        }
    };
    (0..requests).map(|_| asked()).collect()
}

#[test]
fn one_key_in_a_hundred_says_what_all_say_of_a_generated_trace() {
    let seed = seed(0x61);
    let records = records(&generated(seed, 400_000, 400_000), 1000);
    let memory = 10 << 20;
    let (mean, full) = at_one_percent("generated", &records, memory, seed);
    assert!(mean < 0.02, "{mean}");
    let lru: Vec<f64> = full.points.iter().map(|point| point.lru.share).collect();
    assert!(lru.is_sorted() && lru[4] - lru[0] > 0.1, "{lru:?}");

    // Of all records, a part of the keys is followed from some time on.
    let some = curve(&records, Sampling::FULL, memory, 10_000);
    let off = differences(&full, &some).into_iter();
    assert!(
        off.clone().all(|(off, error)| off < 0.02 && error > 0.0),
        "{off:?}"
    );
}

#[test]
fn one_key_in_a_hundred_says_what_all_say_of_recorded_traces() {
    let seed = seed(0x62);
    let mut means = Vec::new();
    for file in [
        "scarab/scarab-recs.be64.gz",
        "arc/OLTP.lis.gz",
        "arc/P6.lis.gz",
        "ibm-docker-registry/ibm-docker-725k.txt.gz",
    ] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../../../shared/data")
            .join(file);
        if !path.exists() {
            println!("skipped: ../shared/data/{file} is absent");
            continue;
        }
        let mut reader = TraceReader::open(&path, None).expect("it is there");
        let mut request = TraceRequest::default();
        let mut trace = Vec::new();
        while trace.len() < REQUESTS_MAX && reader.next_request(&mut request).expect("it is whole")
        {
            trace.push(Asked {
                key: KeyHash::of(&request.key).0,
                operation: request.operation,
                bytes: request.value_len.unwrap_or(1000),
                seconds: None,
            });
        }
        let keys: HashSet<u64> = trace.iter().map(|asked| asked.key).collect();
        println!("{file}: {} keys", keys.len());
        let records = records(&trace, 1000);
        // A tenth of all now, so that a curve goes from a fortieth to two fifths.
        let memory = keys.len() as u64 * 1032 / 10;
        means.push(at_one_percent(file, &records, memory, seed).0);
    }
    let mean = means.iter().sum::<f64>() / means.len().max(1) as f64;
    println!("{means:.4?}, {mean:.4} on average");
    // On average over the traces: of P6 alone, in which next to nothing is asked for twice soon, it is 0.018 to 0.021.
    assert!(mean < 0.02, "{means:?}");
}

#[test]
fn ends_of_items_and_deletes_are_misses_whatever_the_memory() {
    let asked = |key, operation| Asked {
        key,
        operation,
        bytes: 100,
        seconds: Some(10),
    };
    // A get each two seconds: of each six one finds that the item has ended.
    let trace: Vec<Asked> = (0..600).map(|_| asked(5, Operation::Get)).collect();
    let of = |records: &[Record]| curve(records, Sampling::FULL, 1 << 20, 1000);
    let ended = of(&records(&trace, 2_000_000));
    let expected = 4.0 / 5.0;
    assert!(
        (ended.points[0].lru.share - expected).abs() < 0.01,
        "{ended:?}"
    );
    assert_eq!(ended.points[4].lru.share, ended.points[0].s3_fifo.share);
    let deleted: Vec<Asked> = (0..600u64)
        .map(|number| match number % 3 {
            0 => asked(5, Operation::Delete),
            _ => asked(5, Operation::Get),
        })
        .collect();
    let deleted = of(&records(&deleted, 1000));
    assert!(
        (deleted.points[2].segmented.share - 0.5).abs() < 0.01,
        "{deleted:?}"
    );
    assert_eq!(deleted.unknown, 0.0);
}

#[test]
fn what_was_there_before_the_recording_is_counted_apart() {
    let trace: Vec<Asked> = (0..200u64)
        .map(|number| Asked {
            key: number % 100,
            operation: Operation::Get,
            bytes: 100,
            seconds: None,
        })
        .collect();
    let mut records = records(&trace, 1000);
    // As if each had been stored before.
    records.retain(|record| record.outcome.is_read());
    for record in &mut records {
        (record.outcome, record.answer_bytes) = (Outcome::GetHit, 100);
    }
    let curve = curve(&records, Sampling::FULL, 1 << 20, 1000);
    assert_eq!((curve.gets, curve.unknown), (100, 0.5));
    assert_eq!(curve.points[4].lru.share, 1.0);
}
