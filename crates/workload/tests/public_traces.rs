//! The public traces beside the repository, against the counts that their description states.
//! They are not part of the repository: each test prints a notice and passes where its file is
//! absent.

use evenkeel_workload::trace::{TraceReader, TraceRequest};
use evenkeel_workload::{Graph, Operation, ValueSizes, WorkloadSpec};
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

/// The path of a file, or nothing and a notice where it is not there.
fn public(file: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data")
        .join(file);
    if !path.exists() {
        println!("skipped: ../shared/data/{file} is absent");
        return None;
    }
    Some(path)
}

fn count(file: &str) -> Option<Counts> {
    let path = public(file)?;
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
    if let Some(counts) = holds(
        "wikipedia-edits/wikipedia-edits-2015-09-12-sampled.tsv.gz",
        39_199,
        35_235,
    ) {
        assert_eq!(counts.gets, 0, "edits delete");
    }
}

#[test]
fn nasa_http() {
    holds("nasa-http/nasa-http-19950701-sample.tsv.gz", 9_999, 1_165);
}

#[test]
fn meta_sample() {
    let Some(counts) = count("meta-cachelib/kvcache-202401-sample.csv.gz") else {
        return;
    };
    // 99 rows: 88 of reads and 11 of writes and deletes, each standing for one operation or more.
    assert!(counts.requests >= 99, "{counts:?}");
    let path = public("meta-cachelib/kvcache-202401-sample.csv.gz").unwrap();
    let mut reader = TraceReader::open(&path, None).unwrap();
    let mut request = TraceRequest::default();
    let mut seen: HashMap<Operation, u64> = HashMap::new();
    while reader.next_request(&mut request).unwrap() {
        *seen.entry(request.operation).or_default() += 1;
    }
    assert_eq!(seen.values().sum::<u64>(), counts.requests);
    assert!(seen[&Operation::Get] >= 51 + 37);
    assert!(seen[&Operation::Set] >= 7 + 2 && seen[&Operation::Delete] >= 2);
}

#[test]
fn higgs_activity() {
    let Some(path) = public("higgs-activity/higgs-activity-0701-0703.txt.gz") else {
        return;
    };
    let mut reader = TraceReader::open(&path, None).unwrap();
    let mut request = TraceRequest::default();
    let (mut first, mut last) = (u64::MAX, 0);
    while reader.next_request(&mut request).unwrap() {
        let time = request.time_ns.unwrap();
        (first, last) = (first.min(time), last.max(time));
    }
    let second = 1_000_000_000;
    assert_eq!(reader.requests(), 53_746);
    assert_eq!(
        (first, last),
        (1_341_100_972 * second, 1_341_359_995 * second)
    );
    // As a graph of who acts on whom.
    assert_eq!(Graph::read(&path).unwrap().users(), 35_593);
}

/// Nodes, edges, nodes with an out-edge and the largest out-degree; then requests for all friends of a
/// user chosen uniformly, whose mean number of keys follows from them.
fn graph(file: &str, users: u64, edges: u64, readers: usize, degree_max: u64) {
    let Some(path) = public(file) else { return };
    let graph = Graph::read(&path).unwrap();
    assert_eq!((graph.users(), graph.edges()), (users, edges), "{file}");
    assert_eq!(
        (graph.readers().len(), graph.degree_max()),
        (readers, degree_max),
        "{file}"
    );
    let text = format!(
        "popularity=uniform mix=mix(get=1) multiget=friends({})",
        path.display()
    );
    let workload = text.parse::<WorkloadSpec>().unwrap().build().unwrap();
    let mut stream = workload.stream(0, 1);
    let (mut ids, mut keys) = (Vec::new(), 0);
    for _ in 0..100_000 {
        ids.clear();
        stream.draw(0, &mut ids);
        keys += ids.len();
    }
    let mean = edges as f64 / readers as f64;
    // Six standard deviations of the mean, the deviation of degrees being below 50.
    assert!(
        (keys as f64 / 1e5 - mean).abs() < 6.0 * 50.0 / 100_000f64.sqrt(),
        "{file}: {keys}"
    );
}

#[test]
fn slashdot() {
    graph(
        "snap-slashdot0902/soc-Slashdot0902.txt.gz",
        82_168,
        948_464,
        78_441,
        2_511,
    );
}

#[test]
fn epinions() {
    graph(
        "snap-epinions1/soc-Epinions1.txt.gz",
        75_879,
        508_837,
        60_341,
        1_801,
    );
}

#[test]
fn linkbench_and_wikipedia_histograms() {
    if let Some(path) = public("linkbench/Distribution.dat.gz") {
        let text = format!("file({}, nlinks)", path.display());
        let sizes: ValueSizes = text.parse().unwrap();
        // 45.3 % of the nodes have no link.
        let none = (0..100_000).filter(|&hash| sizes.of(hash) == 0).count();
        assert!((44_380..46_280).contains(&none), "{none}");
        let message = format!("file({}, links)", path.display());
        let message = message.parse::<ValueSizes>().unwrap_err().to_string();
        assert!(
            message.ends_with(
                "no section 'links': nlinks, link_nreads, link_nwrites, node_nreads, node_nwrites"
            ),
            "{message}"
        );
    }
    if let Some(path) = public("wikipedia-histograms/wikipedia-histograms.tsv.gz") {
        for section in ["text.TEXT_LENGTH", "page.TITLE_LENGTH"] {
            let text = format!("file({}, {section})", path.display());
            let sizes: ValueSizes = text.parse().unwrap();
            assert!((0..1000).map(|hash| sizes.of(hash)).max().unwrap() > 50);
        }
    }
}
