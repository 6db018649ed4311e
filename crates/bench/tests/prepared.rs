//! Loads whose requests are made beforehand, beside loads that draw them.

mod common;

use common::{PATIENCE, report};
use evenkeel_bench::{Counters, Driver, LoadPlan, Source, Target};
use evenkeel_testkit::{Memcached, poll_until};
use std::time::Duration;

/// The counters of a load on an empty memcached.
fn counters(line: &str, pipeline: usize, extra: &str) -> Counters {
    let memcached = Memcached::spawn(&["-t", "1"]);
    let report = report(&format!(
        "--target {} --connections 1 --pipeline {pipeline} --no-preload {line} {extra}",
        memcached.address()
    ));
    let round = &report.targets[0].rounds[0];
    assert_eq!(report.exit_code(), 0, "{:?}", round.first_error);
    let latency = &round.latency;
    assert!(latency.latency_us_p50 > 0.0);
    assert!(latency.latency_us_p50 <= latency.latency_us_p99_9);
    assert_eq!(
        round.set.latency_us_max > 0.0,
        round.counters.sets > 0,
        "latencies of gets and of sets are apart"
    );
    round.counters
}

/// One connection sends the very same requests either way, so that everything counted is the same, bytes too.
#[test]
fn prepared_requests_count_as_drawn_ones() {
    for protocol in ["classic", "meta"] {
        for (load, pipeline) in [
            (
                "--get-share 0.7 --keys 500 --value-size 0..3000 --requests 3001",
                1,
            ),
            (
                "--get-share 0.5 --keys 500 --value-size 0..3000 --requests 5000",
                64,
            ),
            (
                "--get-share 0.8 --keys 900 --multiget 30 --requests 2000",
                5,
            ),
            // Longer than what is read at a time.
            (
                "--get-share 0.7 --keys 20 --value-size 100000..600000 --requests 100",
                3,
            ),
        ] {
            let line = format!("{load} --protocol {protocol}");
            let drawn = counters(&line, pipeline, "");
            assert!(
                drawn.hits > 0 && drawn.misses > 0 && drawn.sets > 0,
                "{drawn:?}"
            );
            assert_eq!(counters(&line, pipeline, "--prepared"), drawn, "{line}");
        }
    }
}

#[test]
fn every_operation_that_needs_no_answer_can_be_prepared() {
    let workload = "keys=200 value-size=0..500 ttl=900s multiget=geometric(0.5, 7) mix=mix(get=6, set=2, \
                    delete=1, touch=1, add=1, replace=1, append=1, prepend=1)";
    for protocol in [
        evenkeel_bench::Protocol::Classic,
        evenkeel_bench::Protocol::Meta,
    ] {
        let counters = |prepared| {
            let memcached = Memcached::spawn(&["-t", "1"]);
            let source = Source::Generated(workload.parse().unwrap());
            let mut plan = LoadPlan {
                prepared,
                protocol,
                pipeline: 16,
                ..LoadPlan::new(Target::from(memcached.address()), source)
            };
            plan.stop.requests = Some(4000);
            let stats = Driver::start(plan).unwrap().wait().unwrap();
            assert_eq!(stats.counters.requests, 4000);
            assert_eq!(stats.latency().len(), 4000);
            stats.counters
        };
        let drawn = counters(false);
        assert!(drawn.others > 100 && drawn.misses > 100, "{drawn:?}");
        assert_eq!((drawn.errors, drawn.wrong_values), (0, 0));
        assert_eq!(counters(true), drawn);
    }
}

#[test]
fn threads_go_round_and_round_for_a_time() {
    let memcached = Memcached::spawn(&["-t", "1"]);
    let report = report(&format!(
        "--target {} --prepared --threads 2 --connections 3 --pipeline 32 --keys 1000 --warm-up 100ms \
         --get-share 0.9 --duration 700ms --value-size 20000",
        memcached.address()
    ));
    let round = &report.targets[0].rounds[0];
    let counters = round.counters;
    assert!(report.settings.prepared);
    assert_eq!((counters.errors, counters.misses), (0, 0));
    assert_eq!((counters.wrong_values, counters.reconnects), (0, 0));
    assert_eq!(counters.hits, counters.gets);
    assert_eq!(counters.requests, counters.gets + counters.sets);
    assert!(round.seconds >= 0.65, "{}", round.seconds);
    assert!(!round.series.is_empty(), "it is told how it went on");
    let served: u64 = memcached.client().stats("")["cmd_get"].parse().unwrap();
    assert!(served > counters.gets, "the warm-up is not measured");
}

#[test]
fn a_prepared_load_is_watched_and_stopped() {
    let memcached = Memcached::spawn(&["-t", "1"]);
    let source = Source::Generated("keys=100 mix=mix(get=1)".parse().unwrap());
    let mut handle = Driver::start(LoadPlan {
        prepared: true,
        pipeline: 8,
        connections_per_thread: 2,
        ..LoadPlan::new(Target::from(memcached.address()), source)
    })
    .unwrap();
    for _ in 0..2 {
        poll_until(PATIENCE, "a sample with requests", || {
            let sample = handle.poll();
            let seen = sample.counters.misses > 0 && sample.latency_us(0.5) > 0.0;
            (seen && sample.seconds > 0.0).then_some(())
        });
    }
    let stats = handle.stop().unwrap();
    assert_eq!(stats.counters.misses, stats.counters.gets);
    assert_eq!((stats.counters.errors, stats.counters.unanswered), (0, 0));
    assert_eq!(stats.counters.requests, stats.get_latency.len());
    assert!(stats.get_latency.max() < Duration::from_secs(60).as_nanos() as u64);
}
