//! The generator against a real memcached.

mod common;

use common::{PATIENCE, args, report};
use evenkeel_bench::{BadUsage, Driver, LoadPlan, Protocol, Source, Target, run};
use evenkeel_testkit::{Memcached, Process, poll_until, require_program};
use std::io::Write;

#[test]
fn what_the_generator_counts_is_what_memcached_counts() {
    for protocol in ["classic", "meta"] {
        let memcached = Memcached::spawn(&["-t", "1"]);
        let report = report(&format!(
            "--target {} --threads 2 --connections 3 --pipeline 5 --requests 5001 --keys 1000 \
             --value-size 0..3000 --get-share 0.8 --protocol {protocol}",
            memcached.address()
        ));
        let round = &report.targets[0].rounds[0];
        let counters = round.counters;
        assert_eq!(counters.requests, 5001);
        assert_eq!(
            (counters.errors, counters.wrong_values, counters.misses),
            (0, 0, 0)
        );
        assert_eq!(counters.hits, counters.gets);
        assert_eq!(counters.gets + counters.sets, 5001);
        assert!(
            (3700..4300).contains(&counters.gets),
            "80 % of gets: {}",
            counters.gets
        );
        assert_eq!(report.exit_code(), 0);
        assert!(round.latency.latency_us_p50 > 0.0);
        assert!(round.latency.latency_us_p50 <= round.latency.latency_us_p99);
        let stats = memcached.client().stats("");
        assert_eq!(stats["cmd_get"], counters.gets.to_string());
        assert_eq!(stats["get_hits"], counters.hits.to_string());
        assert_eq!(
            stats["cmd_set"],
            (counters.sets + 1000).to_string(),
            "1000 by the preload"
        );
        assert_eq!(stats["curr_items"], "1000");
    }
}

#[test]
fn a_multiget_is_one_request_of_many_keys() {
    for protocol in ["classic", "meta"] {
        let memcached = Memcached::spawn(&["-t", "1"]);
        let report = report(&format!(
            "--target {} --multiget 50 --requests 200 --keys 100 --get-share 1 --pipeline 3 \
             --protocol {protocol}",
            memcached.address()
        ));
        let counters = report.targets[0].rounds[0].counters;
        assert_eq!(
            (counters.requests, counters.gets, counters.hits),
            (200, 10_000, 10_000)
        );
        assert_eq!(memcached.client().stats("")["cmd_get"], "10000");
        assert_eq!(report.exit_code(), 0);
    }
}

#[test]
fn a_multiget_refills_each_miss() {
    let memcached = Memcached::spawn(&["-t", "1"]);
    let report = report(&format!(
        "--target {} --connections 1 --multiget 10 --requests 100 --keys 40 --get-share 1 \
         --no-preload --cache-aside --popularity uniform",
        memcached.address()
    ));
    let counters = report.targets[0].rounds[0].counters;
    assert_eq!(counters.requests, 100 + counters.refills);
    assert_eq!(counters.misses, counters.refills);
    assert_eq!(counters.hits + counters.misses, 1000);
    assert_eq!(memcached.client().stats("")["curr_items"], "40");
    assert_eq!(report.exit_code(), 0);
}

#[test]
fn a_trace_is_replayed_as_a_cache_aside_application_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.txt.gz");
    let file = std::fs::File::create(&path).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    for n in 0..1000 {
        writeln!(encoder, "path/{}", n * 7 % 100).unwrap();
    }
    encoder.finish().unwrap();
    let memcached = Memcached::spawn(&["-t", "1"]);
    let line = format!(
        "--target {} --connections 1 --trace {}",
        memcached.address(),
        path.display()
    );
    // One connection, one request at a time: the first of each key misses and is stored.
    let once = report(&line).targets[0].rounds[0].counters;
    assert_eq!(
        (once.gets, once.hits, once.misses, once.refills),
        (1000, 900, 100, 100)
    );
    assert_eq!(memcached.client().stats("")["cmd_set"], "100");
    // With a number of requests it starts again at its end; everything hits now.
    let again = report(&format!("{line} --requests 2500")).targets[0].rounds[0].counters;
    assert_eq!((again.gets, again.hits), (2500, 2500));
}

#[test]
fn a_unix_socket_is_a_target() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memcached.sock");
    let socket = path.to_str().unwrap();
    let _memcached = Process::command("memcached", require_program("memcached"))
        .args(["-u", "root", "-t", "1", "-s", socket])
        .spawn();
    poll_until(PATIENCE, "the socket", || {
        std::os::unix::net::UnixStream::connect(&path).ok()
    });
    let report = report(&format!(
        "--target {socket} --requests 1000 --keys 100 --pipeline 8"
    ));
    let counters = report.targets[0].rounds[0].counters;
    assert_eq!(
        (counters.requests, counters.errors, counters.misses),
        (1000, 0, 0)
    );
}

#[test]
fn targets_are_measured_in_turn_and_compared() {
    let (one, two) = (
        Memcached::spawn(&["-t", "1"]),
        Memcached::spawn(&["-t", "1"]),
    );
    let report = report(&format!(
        "--target {} --target {} --rounds 2 --requests 500 --keys 50 --pin 0",
        one.address(),
        two.address()
    ));
    assert_eq!(report.targets.len(), 2);
    let requests = |target: usize| -> Vec<u64> {
        report.targets[target]
            .rounds
            .iter()
            .map(|round| round.counters.requests)
            .collect()
    };
    assert_eq!((requests(0), requests(1)), (vec![500, 500], vec![500, 500]));
    let ratio = report.ratios[0].requests_per_second;
    let medians: Vec<f64> = report
        .targets
        .iter()
        .map(|target| target.medians.requests_per_second)
        .collect();
    assert!((ratio - medians[1] / medians[0]).abs() < 1e-9);
    let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    let round = &json["targets"][1]["rounds"][0];
    for name in [
        "latency_us_p99",
        "latency_us_p99_99",
        "requests_per_second",
        "hit_ratio",
    ] {
        assert!(round[name].is_number(), "{name} in {round}");
    }
    assert!(round["get"]["latency_us_p50"].is_number());
    assert_eq!(round["wrong_values"], 0);
    assert_eq!(json["ratios"][0]["baseline"], one.address().to_string());
    let table = report.to_table();
    let widest = table.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{table}");
    assert!(
        table.contains(&format!("{} / {} (medians)", two.address(), one.address())),
        "{table}"
    );
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let memcached = Memcached::spawn(&["-t", "1"]);
    for arrivals in ["fixed", "poisson"] {
        let report = report(&format!(
            "--target {} --rate 4000 --arrivals {arrivals} --requests 2000 --keys 100 --threads 2",
            memcached.address()
        ));
        let round = &report.targets[0].rounds[0];
        assert_eq!(round.counters.requests, 2000);
        // 0.5 s are due; a busy machine may take longer, never less.
        assert!((0.4..60.0).contains(&round.seconds), "{}", round.seconds);
    }
}

#[test]
fn a_warm_up_is_not_measured() {
    let memcached = Memcached::spawn(&["-t", "1"]);
    let report = report(&format!(
        "--target {} --warm-up 500ms --duration 1s --rate 500 --get-share 1 --keys 100",
        memcached.address()
    ));
    let round = &report.targets[0].rounds[0];
    let served: u64 = memcached.client().stats("")["cmd_get"].parse().unwrap();
    // 750 are due, two thirds of them after the warm-up; how many exactly is the machine's affair.
    assert!(
        round.counters.requests < served,
        "{} of {served}",
        round.counters.requests
    );
    assert!(round.counters.requests > 0);
}

#[test]
fn a_fill_sets_every_key_and_ends_by_itself() {
    let memcached = Memcached::spawn(&["-t", "1"]);
    let keys = "keys=777 prefix=fill key-size=10".parse().unwrap();
    let plan = LoadPlan {
        threads: 2,
        connections_per_thread: 3,
        pipeline: 16,
        ..LoadPlan::new(Target::from(memcached.address()), Source::Fill(keys))
    };
    let stats = Driver::start(plan).unwrap().wait().unwrap();
    assert_eq!((stats.counters.sets, stats.counters.errors), (777, 0));
    assert_eq!(memcached.client().stats("")["curr_items"], "777");
}

#[test]
fn a_live_load_is_watched_switched_and_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.txt");
    std::fs::write(&path, "a\nb\nc\n").unwrap();
    let memcached = Memcached::spawn(&["-t", "1"]);
    for protocol in [Protocol::Classic, Protocol::Meta] {
        assert_eq!(memcached.client().command("flush_all"), "OK");
        let source = Source::Trace {
            path: path.clone(),
            format: None,
            repeat: true,
        };
        let mut handle = Driver::start(LoadPlan {
            protocol,
            cache_aside: true,
            ..LoadPlan::new(Target::from(memcached.address()), source)
        })
        .unwrap();
        let mut misses = 0;
        let mut watch = |handle: &mut evenkeel_bench::LoadHandle| {
            poll_until(PATIENCE, "a sample with requests", || {
                let sample = handle.poll();
                misses += sample.counters.misses;
                (sample.counters.hits > 0 && sample.latency_us(0.5) > 0.0).then_some(())
            });
            misses
        };
        assert_eq!(watch(&mut handle), 3, "one miss for each key of the trace");
        assert_eq!(watch(&mut handle), 3, "and none after");
        handle.switch_hot_keys();
        poll_until(PATIENCE, "misses of the new keys", || {
            (watch(&mut handle) == 6).then_some(())
        });
        let stats = handle.stop().unwrap();
        assert_eq!((stats.counters.misses, stats.counters.refills), (6, 6));
        assert_eq!((stats.counters.errors, stats.counters.wrong_values), (0, 0));
        assert_eq!(
            stats.counters.hits + stats.counters.misses,
            stats.counters.gets
        );
        let mut client = memcached.client();
        assert!(client.get("a").is_some() && client.get("a~1").is_some());
    }
}

#[test]
fn a_switch_of_generated_keys_asks_for_others() {
    let memcached = Memcached::spawn(&["-t", "1"]);
    let workload = "keys=1G popularity=zipf(2) mix=mix(get=1) seed=8";
    let mut handle = Driver::start(LoadPlan {
        cache_aside: true,
        connections_per_thread: 4,
        threads: 2,
        ..LoadPlan::new(
            Target::from(memcached.address()),
            Source::Generated(workload.parse().unwrap()),
        )
    })
    .unwrap();
    let mut hot_ratio = |what: &str, wanted: fn(f64) -> bool| {
        let (mut gets, mut hits) = (0, 0);
        poll_until(PATIENCE, what, || {
            let counters = handle.poll().counters;
            gets += counters.gets;
            hits += counters.hits;
            if gets <= 100 {
                return None;
            }
            let ratio = hits as f64 / gets as f64;
            (gets, hits) = (0, 0);
            wanted(ratio).then_some(())
        });
        handle.switch_hot_keys();
    };
    // Rank 1 alone has 61 %: it hits once it is cached, under every permutation.
    hot_ratio("hits of the first hot keys", |ratio| ratio > 0.9);
    hot_ratio("hits of the second hot keys", |ratio| ratio > 0.9);
    let stats = handle.stop().unwrap();
    assert_eq!(stats.counters.wrong_values, 0);
    assert_eq!(
        stats.counters.requests,
        stats.counters.gets + stats.counters.refills
    );
}

#[test]
fn what_cannot_start_says_so() {
    // A port that no ordinary program gets.
    let nobody = "127.0.0.1:1";
    let error = run(&args(&format!("--target {nobody}"))).unwrap_err();
    assert!(
        format!("{error:#}").starts_with(&format!("connecting to {nobody}: ")),
        "{error:#}"
    );
    assert!(!error.is::<BadUsage>());

    let memcached = Memcached::spawn(&["-t", "1"]);
    let target = memcached.address();
    let error = run(&args(&format!("--target {target} --trace /no/such/trace"))).unwrap_err();
    assert!(
        error.to_string().starts_with("trace /no/such/trace: "),
        "{error}"
    );
    assert!(error.is::<BadUsage>(), "exit code 2");

    for bad in [
        "--rounds 0",
        "--threads 0",
        "--keys 2000000000",
        "--get-share 2",
    ] {
        let error = run(&args(&format!("--target {target} {bad} --no-preload"))).unwrap_err();
        assert!(error.is::<BadUsage>(), "{bad}: {error}");
    }
}

#[test]
fn a_trace_that_breaks_on_the_way_ends_the_run_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.be32");
    std::fs::write(&path, [7u8; 4 * 500 + 1]).unwrap();
    let memcached = Memcached::spawn(&["-t", "1"]);
    let line = format!(
        "--target {} --trace {}",
        memcached.address(),
        path.display()
    );
    let error = run(&args(&line)).unwrap_err();
    assert!(
        error.to_string().contains("byte 2000: 1 bytes at the end"),
        "{error}"
    );
    assert!(error.is::<BadUsage>(), "exit code 2");
}

#[test]
fn a_fault_of_one_thread_ends_the_load_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.txt");
    // The second line is at fault; anyone who reads on finds keys for ever.
    std::fs::write(&path, "a\n\nb\n").unwrap();
    let memcached = Memcached::spawn(&["-t", "1"]);
    let source = Source::Trace {
        path,
        format: None,
        repeat: true,
    };
    let plan = LoadPlan {
        threads: 3,
        ..LoadPlan::new(Target::from(memcached.address()), source)
    };
    let error = Driver::start(plan).unwrap().wait().unwrap_err();
    assert!(
        error.to_string().contains("line 2: an empty line"),
        "{error}"
    );
}
