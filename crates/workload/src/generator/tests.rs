use super::*;
use crate::statistics::{assert_fits, seed};
use std::collections::{HashMap, HashSet};

const SECOND: u64 = 1_000_000_000;

fn workload(text: &str) -> Workload {
    text.parse::<WorkloadSpec>().unwrap().build().unwrap()
}

fn drawn(text: &str, count: usize) -> Vec<(Operation, Vec<u64>)> {
    let mut stream = workload(text).stream(0, 1);
    (0..count).map(|_| draw(&mut stream, 0)).collect()
}

fn draw(stream: &mut WorkloadStream, now_ns: u64) -> (Operation, Vec<u64>) {
    let mut ids = Vec::new();
    (stream.draw(now_ns, &mut ids), ids)
}

fn hottest(stream: &mut WorkloadStream, now_ns: u64) -> u64 {
    let mut seen: HashMap<u64, u32> = HashMap::new();
    for _ in 0..20_000 {
        *seen.entry(draw(stream, now_ns).1[0]).or_default() += 1;
    }
    seen.into_iter()
        .max_by_key(|&(_, count)| count)
        .map(|(id, _)| id)
        .unwrap()
}

/// A workload of last year must be the workload of today: the generator, every law and the order of
/// draws are part of what a seed means.
#[test]
fn workloads_are_pinned() {
    let mut drawn = Vec::new();
    for (text, _) in GOLDEN {
        let workload = workload(text);
        let mut stream = workload.stream(1, 3);
        let mut request = Request::default();
        let mut lines = Vec::new();
        for n in 0..3 {
            stream.next(n * SECOND, &mut request);
            let keys: Vec<_> = request.keys.iter().map(String::from_utf8_lossy).collect();
            lines.push(format!(
                "{} {} {} {}",
                request.operation.name(),
                keys.join("+"),
                request.value_len,
                request.ttl_s
            ));
        }
        let mut due = workload.schedule(1, 3).unwrap();
        due.advance();
        lines.push(due.next_ns().to_string());
        drawn.push((text, lines));
    }
    let golden = GOLDEN.map(|(text, lines)| (text, lines.map(str::to_owned).to_vec()));
    assert_eq!(drawn, golden, "{drawn:#?}");
}

#[test]
fn one_seed_is_one_workload() {
    let draws = |seed: u64, index| {
        let mut stream = workload(&format!("keys=1000 seed={seed}")).stream(index, 2);
        (0..100).map(|_| draw(&mut stream, 0)).collect::<Vec<_>>()
    };
    assert_eq!(draws(11, 0), draws(11, 0));
    assert_ne!(draws(11, 0), draws(11, 1));
    assert_ne!(draws(11, 0), draws(12, 0));
}

#[test]
fn streams_share_their_hot_keys_and_switch_them_together() {
    for popularity in ["zipf(1)", "scrambled-zipf(1.3)"] {
        let workload = workload(&format!("keys=1000 popularity={popularity} seed=11"));
        let (mut one, mut two) = (workload.stream(0, 2), workload.stream(1, 2));
        let before = hottest(&mut one, 0);
        assert_eq!(before, hottest(&mut two, 0));
        one.switch_to(1);
        two.switch_to(1);
        let after = hottest(&mut one, 0);
        assert_eq!(after, hottest(&mut two, 0));
        assert_ne!(before, after);
        one.switch_to(0);
        assert_eq!(before, hottest(&mut one, 0));
    }
}

#[test]
fn hot_keys_change_when_their_time_is_over() {
    let workload = workload("keys=1000 popularity=zipf(1) reshuffle=60s");
    let (mut one, mut two) = (workload.stream(0, 2), workload.stream(1, 2));
    let first = hottest(&mut one, 0);
    assert_eq!(first, hottest(&mut one, 59 * SECOND));
    let second = hottest(&mut one, 60 * SECOND);
    assert_ne!(first, second);
    let fifth = hottest(&mut one, 299 * SECOND);
    assert_ne!(second, fifth);
    // A stream that slept finds the same keys hot.
    assert_eq!(fifth, hottest(&mut two, 250 * SECOND));
}

/// The permuted law against the law over ranks: every key has the probability of its rank.
#[test]
fn keys_are_as_popular_as_their_ranks() {
    let seed = seed();
    let workload = workload(&format!(
        "keys=500 popularity=zipf(0.9) mix=mix(get=1) seed={seed}"
    ));
    let order = workload.stream(0, 1).order;
    let mut exact = vec![0.0; 500];
    for rank in 0..500 {
        exact[order.apply(rank) as usize] = workload.ranks().probability(rank);
    }
    let mut stream = workload.stream(0, 1);
    assert_fits(
        "permuted",
        500,
        |id| exact[id as usize],
        300_000,
        || draw(&mut stream, 0).1[0],
    );
}

/// Twin: YCSB's hash of each of the first four million ranks; the rest falls evenly.
#[test]
fn scrambled_zipf_puts_ranks_on_keys_by_their_hash() {
    let seed = seed();
    let keys = 1000u64;
    let workload = workload(&format!("ycsb-c keys={keys} seed={seed}"));
    let mut exact = vec![0.0; keys as usize];
    let mut rest = 1.0;
    for rank in 0..4_000_000 {
        let probability = workload.ranks().probability(rank);
        exact[(ycsb_hash(rank) % keys) as usize] += probability;
        rest -= probability;
    }
    exact
        .iter_mut()
        .for_each(|share| *share += rest / keys as f64);
    let mut stream = workload.stream(0, 1);
    assert_fits(
        "scrambled",
        keys,
        |id| exact[id as usize],
        300_000,
        || draw(&mut stream, 0).1[0],
    );
}

#[test]
fn latest_asks_for_what_was_inserted_last() {
    let workload = workload("ycsb-d keys=1000");
    let mut streams = [workload.stream(0, 2), workload.stream(1, 2)];
    let mut inserted = HashSet::new();
    let (mut recent, mut gets) = (0, 0);
    for _ in 0..50_000 {
        for stream in &mut streams {
            let newest = 1000 + stream.inserted * 2;
            let (operation, ids) = draw(stream, 0);
            if operation == Operation::Set {
                assert!(
                    ids[0] >= 1000 && inserted.insert(ids[0]),
                    "{} twice",
                    ids[0]
                );
            } else {
                assert!(ids[0] < newest);
                gets += 1;
                recent += u64::from(newest - ids[0] <= 10);
            }
        }
    }
    // Without a gap, but for the one stream that may be ahead of the other.
    let count = inserted.len() as u64;
    let newest = inserted.iter().max().unwrap() - 999;
    assert!(
        newest - count <= count / 20,
        "{count} inserts up to {newest}"
    );
    let exact: f64 = (0..10).map(|rank| workload.ranks().probability(rank)).sum();
    let share = recent as f64 / f64::from(gets);
    assert!(
        (share - exact).abs() < 6.0 * (exact / f64::from(gets)).sqrt(),
        "{share} {exact}"
    );
}

#[test]
fn a_flash_crowd_takes_its_share_while_it_lasts() {
    let text = "keys=10k popularity=uniform mix=mix(get=1) \
                flash=flash(at=10s, for=10s, share=0.3, keys=2)";
    let mut stream = workload(text).stream(0, 1);
    let mut share = |now_ns| {
        let mut seen: HashMap<u64, u32> = HashMap::new();
        (0..100_000).for_each(|_| *seen.entry(draw(&mut stream, now_ns).1[0]).or_default() += 1);
        let mut counts: Vec<u32> = seen.into_values().collect();
        counts.sort_unstable_by_key(|&count| core::cmp::Reverse(count));
        counts[..2].to_vec()
    };
    assert!(share(5 * SECOND)[0] < 50);
    for count in share(15 * SECOND) {
        // 15 % each, six standard deviations.
        assert!((14_320..15_680).contains(&count), "{count}");
    }
    assert!(share(20 * SECOND)[0] < 50);
}

#[test]
fn lone_keys_are_asked_for_once() {
    let workload = workload("keys=1000 mix=mix(get=1) lone-gets=0.2 multiget=3");
    let mut lone = HashSet::new();
    for index in 0..2 {
        let mut stream = workload.stream(index, 2);
        for _ in 0..10_000 {
            for id in draw(&mut stream, 0).1 {
                assert!(id < 1000 || lone.insert(id), "{id} twice");
            }
        }
    }
    // 60,000 keys, six standard deviations.
    assert!((11_412..12_588).contains(&lone.len()), "{}", lone.len());
}

#[test]
fn read_only_keys_are_never_written_and_the_others_keep_their_shares() {
    let workload = workload(
        "keys=1000 popularity=zipf(1) mix=mix(get=0.5, set=0.5) read-only=read-only(5, among=500)",
    );
    let mut stream = workload.stream(0, 1);
    let order = stream.order.clone();
    let read_only: HashSet<u64> = (0..500).step_by(5).map(|rank| order.apply(rank)).collect();
    let (mut reads, mut writes, mut of_read_only) = (0u32, 0u32, 0u32);
    for _ in 0..100_000 {
        let (operation, ids) = draw(&mut stream, 0);
        if read_only.contains(&ids[0]) {
            assert_eq!(operation, Operation::Get);
            of_read_only += 1;
        } else if operation == Operation::Get {
            reads += 1;
        } else {
            writes += 1;
        }
    }
    assert!(of_read_only > 20_000, "the hottest key is one of them");
    let share = f64::from(reads) / f64::from(reads + writes);
    assert!((share - 0.5).abs() < 0.012, "{share}");
}

#[test]
fn gets_have_the_asked_number_of_keys_and_writes_have_one() {
    for (operation, ids) in drawn("multiget=7 mix=mix(get=1, set=1, delete=1)", 1000) {
        assert_eq!(ids.len(), if operation == Operation::Get { 7 } else { 1 });
    }
    let seed = seed();
    let p = 0.382f64;
    let mut gets = drawn(
        &format!("keys=10 multiget=geometric(0.382, 12) mix=mix(get=1) seed={seed}"),
        100_000,
    )
    .into_iter();
    let exact = |n: u64| {
        let k = n as i32 + 1;
        if k < 12 {
            p * (1.0 - p).powi(k - 1)
        } else {
            (1.0 - p).powi(11)
        }
    };
    assert_fits("geometric", 12, exact, 100_000, || {
        gets.next().unwrap().1.len() as u64 - 1
    });
}

#[test]
fn a_request_for_friends_has_all_of_them() {
    let graph = Arc::new(Graph::of_edges(
        5,
        &[(0, 1), (0, 2), (3, 0), (3, 3), (3, 4)],
    ));
    let mut spec: WorkloadSpec = "popularity=uniform mix=mix(get=0.5, set=0.5)"
        .parse()
        .unwrap();
    spec.multiget = MultiGet::Friends(crate::GraphSource::Loaded(Arc::clone(&graph)));
    let workload = spec.build().unwrap();
    assert_eq!((workload.keys(), workload.fill(0, 1)), (5, 0..5));
    let mut stream = workload.stream(0, 1);
    let mut seen = HashMap::new();
    for _ in 0..4000 {
        *seen.entry(draw(&mut stream, 0)).or_insert(0u32) += 1;
    }
    let expected = [
        (Operation::Get, vec![1, 2]),
        (Operation::Get, vec![0, 3, 4]),
        (Operation::Set, vec![0]),
        (Operation::Set, vec![3]),
    ];
    assert_eq!(seen.len(), 4);
    assert!(
        expected
            .iter()
            .all(|request| (850..1150).contains(&seen[request])),
        "{seen:?}"
    );
    spec.keys = Some(7);
    assert!(spec.build().is_err());
}

#[test]
fn sizes_and_times_to_live_stay_with_their_key() {
    let workload = workload("keys=100 value-size=etc ttl=1s..1h key-size=10..40 multiget=3");
    let mut known: HashMap<Vec<u8>, (u32, u32)> = HashMap::new();
    let mut request = Request::default();
    for index in 0..2 {
        let mut stream = workload.stream(index, 2);
        for _ in 0..2000 {
            stream.next(0, &mut request);
            let key = request.keys.get(0);
            let hash = KeyHash::of(key);
            let has = (request.value_len, request.ttl_s);
            assert_eq!(has, (workload.value_len(hash), workload.ttl_s(hash)));
            assert_eq!(*known.entry(key.to_vec()).or_insert(has), has);
            for (id, key) in request.ids.iter().zip(request.keys.iter()) {
                let mut name = Vec::new();
                workload.write_key(*id, &mut name);
                assert_eq!(name, key);
            }
        }
    }
    assert_eq!(known.len(), 100);
}

#[test]
fn counters_are_apart_from_values() {
    let workload = workload("keys=10 mix=mix(incr=1, get=1) key-size=8");
    let mut stream = workload.stream(0, 1);
    let mut request = Request::default();
    for _ in 0..100 {
        stream.next(0, &mut request);
        let is_counter = request.keys.get(0).ends_with(b"~n");
        assert_eq!(is_counter, request.operation == Operation::Incr);
    }
}

#[test]
fn a_fill_covers_every_key_once_over_all_streams() {
    let workload = workload("keys=100");
    let all: Vec<u64> = (0..7).flat_map(|index| workload.fill(index, 7)).collect();
    assert!(all.into_iter().eq(0..100));
}

#[test]
fn fields_that_do_not_go_together_are_refused() {
    for (text, expected) in [
        ("mix=mix(insert=1)", "insert goes with latest"),
        (
            "popularity=latest reshuffle=1s",
            "no graph, reshuffle or read-only",
        ),
        (
            "popularity=scrambled-zipf read-only=read-only(5)",
            "goes with zipf",
        ),
        (
            "flash=flash(1s, 1s, keys=11) keys=10",
            "not within 1 and 10",
        ),
        ("keys=0", "number of keys is 0"),
        ("keys=2G", "number of keys is 2000000000"),
        ("reshuffle=0s", "every 0 s"),
        (
            "multiget=friends(power-law(100)) keys=50",
            "graph of 100 users",
        ),
        ("multiget=friends(/no/such/graph)", "/no/such/graph"),
    ] {
        let error = text.parse::<WorkloadSpec>().unwrap().build().unwrap_err();
        assert!(error.to_string().contains(expected), "{text}: {error}");
    }
}

/// What the first requests of stream 1 of 3 are, and when its second is due. Made by this program once;
/// any change of them changes what seeds mean, and published measurements with them.
const GOLDEN: [(&str, [&str; 4]); 6] = [
    (
        "keys=1M arrivals=poisson(1000)",
        [
            "get key:00000000000000417946 100 0",
            "get key:00000000000000553870 100 0",
            "get key:00000000000000146272 100 0",
            "9956926",
        ],
    ),
    (
        "keys=1G popularity=zipf(1.2) reshuffle=1s arrivals=fixed(10) multiget=2 key-size=etc",
        [
            "get key:0000000000000000000000000000000000000284424324+key:00000000000111625898 100 0",
            "get key:00000000000000000000334887380+key:00000000455646514 100 0",
            "get key:0000000000000000000000828881310+key:000000000000000000000321483120 100 0",
            "400000000",
        ],
    ),
    (
        "ycsb-f keys=1M arrivals=etc",
        [
            "rmw user0000000000000922617 1000 0",
            "get user0000000000000377211 1000 0",
            "get user0000000000000397550 1000 0",
            "68980",
        ],
    ),
    (
        "ycsb-d arrivals=poisson(10..1000, period=1min)",
        [
            "get user0000000000000048763 1000 0",
            "get user0000000000000199963 1000 0",
            "get user0000000000000193006 1000 0",
            "924287535",
        ],
    ),
    (
        "twitter(23) arrivals=poisson(1k)",
        [
            "incr key:0000000000000000000000000023535~n 5 120",
            "set key:0000000000000000000000000099459 280 120",
            "set key:0000000000000000000000000145531 173 120",
            "9956926",
        ],
    ),
    (
        "meta(kvcache_reg) arrivals=poisson(1k)",
        [
            "get key:000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000006172977 159 0",
            "get key:0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000003362609 159 0",
            "get key:000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000010349933 127 0",
            "9956926",
        ],
    ),
];
