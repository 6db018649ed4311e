//! The public traces beside the repository, against the counts that their description states.
//! They are not part of the repository: each test prints a notice and passes where its file is
//! absent.

use evenkeel_workload::Operation;
use evenkeel_workload::trace::{TraceReader, TraceRequest};
use std::collections::HashMap;
use std::path::PathBuf;

/// What a trace holds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    requests: u64,
    keys: usize,
    gets: u64,
    hottest: u64,
    key_len_min: usize,
    key_len_max: usize,
    value_len_min: u32,
    value_len_max: u32,
    once: usize,
}

fn count(file: &str) -> Option<Counts> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data")
        .join(file);
    if !path.exists() {
        println!("skipped: ../shared/data/{file} is absent");
        return None;
    }
    let mut reader = TraceReader::open(&path, None).unwrap();
    let mut request = TraceRequest::default();
    let mut seen: HashMap<Vec<u8>, u64> = HashMap::new();
    let mut counts = Counts {
        key_len_min: usize::MAX,
        value_len_min: u32::MAX,
        ..Counts::default()
    };
    while reader.next_request(&mut request).unwrap() {
        match seen.get_mut(&request.key) {
            Some(count) => *count += 1,
            None => {
                seen.insert(request.key.clone(), 1);
            }
        }
        counts.gets += u64::from(request.operation == Operation::Get);
        counts.key_len_min = counts.key_len_min.min(request.key.len());
        counts.key_len_max = counts.key_len_max.max(request.key.len());
        if let Some(len) = request.value_len {
            counts.value_len_min = counts.value_len_min.min(len);
            counts.value_len_max = counts.value_len_max.max(len);
        }
    }
    counts.requests = reader.requests();
    counts.keys = seen.len();
    counts.hottest = seen.values().copied().max().unwrap_or(0);
    counts.once = seen.values().filter(|&&count| count == 1).count();
    Some(counts)
}

/// Requests, keys.
fn holds(file: &str, requests: u64, keys: usize) -> Option<Counts> {
    let counts = count(file)?;
    assert_eq!((counts.requests, counts.keys), (requests, keys), "{file}");
    Some(counts)
}

#[test]
fn ibm_docker_registry() {
    if let Some(counts) = holds(
        "ibm-docker-registry/ibm-docker-725k.txt.gz",
        725_242,
        121_314,
    ) {
        assert_eq!(counts.hottest, 333_358);
        assert_eq!((counts.key_len_min, counts.key_len_max), (2, 57));
        assert_eq!(counts.gets, counts.requests);
    }
}

#[test]
fn cache2k() {
    if let Some(counts) = holds("cache2k/web12.be32.gz", 95_607, 13_756) {
        assert_eq!((counts.once, counts.hottest), (6_207, 914));
    }
    if let Some(counts) = holds("cache2k/orm-busy.be32.gz", 5_000_000, 76_349) {
        assert_eq!((counts.once, counts.hottest), (8_763, 27_210));
    }
}

#[test]
fn scarab() {
    if let Some(counts) = holds("scarab/scarab-recs.be64.gz", 1_245_184, 258_368) {
        assert_eq!((counts.once, counts.hottest), (123_512, 12_620));
    }
}

#[test]
fn lirs() {
    holds("lirs/2_pools.txt.gz", 100_000, 9_939);
    holds("lirs/loop.txt.gz", 505_500, 1_011);
    holds("lirs/multi2.txt.gz", 26_311, 5_684);
    holds("lirs/sprite.txt.gz", 133_996, 7_075);
}

#[test]
fn arc() {
    holds("arc/OLTP.lis.gz", 914_145, 186_880);
    holds("arc/P3.lis.gz", 3_912_296, 762_543);
    holds("arc/P6.lis.gz", 12_672_123, 773_770);
}

#[test]
fn cloudphysics() {
    if let Some(counts) = holds("cloudphysics/cloudPhysicsIO.csv.gz", 113_872, 48_974) {
        assert_eq!(counts.gets, 46_974);
        assert_eq!((counts.value_len_min, counts.value_len_max), (512, 69_632));
    }
}

#[test]
fn wikipedia_edits() {
    holds(
        "wikipedia-edits/wikipedia-edits-2015-09-12-sampled.tsv.gz",
        39_199,
        35_235,
    );
}

#[test]
fn nasa_http() {
    holds("nasa-http/nasa-http-19950701-sample.tsv.gz", 9_999, 1_165);
}
