use super::*;
use crate::stats::counters::BackendCounters;
use crate::stats::hot_keys::{HotKeyReport, HottestReport, HottestReports};
use crate::stats::latency::Latency;
use evenkeel_control::times::Spot;

fn now(second: u32) -> Now {
    Now {
        monotonic: Instant::from_millis(1_000 * u64::from(second)),
        unix: 1_000_000 + second,
    }
}

/// A worker's connection to a server that has answered this much, each after this long.
fn backend(name: &str, state: &'static str, answers: u64, us: u64) -> BackendStats {
    let mut latency = Latency::default();
    latency.answer.record(Spot::of(us), answers);
    BackendStats {
        name: name.to_owned(),
        pool: "main".to_owned(),
        host: "h".to_owned(),
        port: 1,
        state,
        cause: (state == DOWN).then(|| "refused".to_owned()),
        counters: BackendCounters {
            answers,
            sent_bytes: 10 * answers,
            received_bytes: 100 * answers,
            ..BackendCounters::default()
        },
        latency,
        round_trip_us: None,
        rack: String::new(),
        distance_us: None,
    }
}

fn process(backends: Vec<BackendStats>, get_hits: u64) -> ProcessStats {
    ProcessStats {
        backends,
        totals: ProxyStats {
            get_hits,
            get_misses: get_hits / 4,
            cmd_set: 2 * get_hits,
            ..ProxyStats::default()
        },
        ..ProcessStats::default()
    }
}

fn load() -> LoadReport {
    LoadReport {
        requests_per_second: vec![20.0, 22.0],
        measured: None,
        served: Some(Served {
            times: Histogram::default().counted(),
            shed: 6,
        }),
    }
}

#[test]
fn what_was_counted_more_is_shown_a_second() {
    let mut dashboard = Dashboard::default();
    assert_eq!(dashboard.view().servers, []);
    let first = vec![
        backend("a", "up", 100, 900_000),
        backend("a", "up", 50, 900_000),
        backend("b", "up", 7, 5),
    ];
    dashboard.note(now(1), &process(first, 40), &load());
    assert_eq!(
        (
            dashboard.view().unix_s,
            dashboard.view().heat[0].columns.len()
        ),
        (0, 0)
    );
    let mut fast = backend("a", "up", 100, 900_000);
    fast.latency.answer.record(Spot::of(100), 60);
    fast.counters.answers = 160;
    // A server that has come meanwhile is shown once it has been told twice.
    let second = vec![
        fast,
        backend("a", "connecting", 50, 900_000),
        backend("b", "up", 1, 5),
        backend("c", "up", 1, 5),
    ];
    dashboard.note(now(3), &process(second, 140), &load());
    let view = dashboard.view();
    assert_eq!(view.unix_s, 1_000_003);
    assert_eq!(
        (view.requests_per_s, view.hits_per_s, view.reads_per_s),
        (42.0, 50.0, 62.5)
    );
    assert_eq!(
        (view.writes_per_s, view.shed_per_s, view.p99_us),
        (100.0, 3.0, None)
    );
    let [a, b] = &view.servers[..] else {
        panic!("{:?}", view.servers);
    };
    assert_eq!((&*a.name, a.state, a.load), ("a", "connecting", 30.0));
    // What took long was before.
    let p99 = a.p99_us.expect("there were answers");
    assert!((100..150).contains(&p99), "{p99}");
    // Its count was taken back.
    assert_eq!((&*b.name, b.load, b.p99_us), ("b", 0.0, None));
    let [of_load, of_bytes] = &view.heat[..] else {
        panic!("{:?}", view.heat);
    };
    assert_eq!(of_load.columns[0].workers, [Some(30), Some(0)]);
    assert_eq!(of_bytes.of, HeatMeasure::Bytes);
    assert_eq!(dashboard.heat(HeatMeasure::Load, 60), *of_load);
}

#[test]
fn servers_that_go_and_come_back_are_events() {
    let mut dashboard = Dashboard::default();
    for (second, state) in (1..).zip(["up", "up", DOWN, DOWN, "connecting", "up"]) {
        let told = process(vec![backend("a", state, 1, 1)], 0);
        dashboard.note(now(second), &told, &load());
    }
    let events = dashboard.view().events;
    let told: Vec<_> = events
        .iter()
        .map(|it| (it.unix_s, it.is_up, &*it.cause))
        .collect();
    assert_eq!(told, [(1_000_003, false, "refused"), (1_000_005, true, "")]);
    for second in 0..2 * DASHBOARD_EVENTS_MAX as u32 {
        let state = [DOWN, "up"][second as usize % 2];
        let told = process(vec![backend("a", state, 1, 1)], 0);
        dashboard.note(now(10 + second), &told, &load());
    }
    assert_eq!(dashboard.view().events.len(), DASHBOARD_EVENTS_MAX);
}

#[test]
fn the_hottest_keys_are_those_of_all_workers() {
    let report = |key: &str, gets| HottestReport {
        pool: "main".into(),
        key: key.into(),
        home: Some("a".to_owned()),
        gets_per_second: gets,
        sets_per_second: 1.0,
        bytes_per_second: 5.0,
        load: gets,
        why: "it is small",
    };
    let mut told = process(Vec::new(), 0);
    told.hottest = HottestReports {
        requests_per_second: 100.0,
        keys: vec![
            report("k", 9.0),
            report("hot\u{1}", 20.0),
            report("k", 14.0),
        ],
    };
    told.hot_keys = vec![HotKeyReport {
        pool: "main".into(),
        key: b"hot\x01".to_vec(),
        reads_per_second: 20.0,
        writes_per_second: 1.0,
        gamma: 2,
    }];
    let mut dashboard = Dashboard::default();
    dashboard.note(now(1), &told, &load());
    dashboard.note(now(2), &told, &load());
    let shown = dashboard.view().hottest;
    let shown: Vec<_> = shown
        .iter()
        .map(|it| (&*it.key, it.share, it.copies, it.why))
        .collect();
    assert_eq!(
        shown,
        [("k", 0.25, 0, "it is small"), ("hot%01", 0.21, 2, "")]
    );
}
