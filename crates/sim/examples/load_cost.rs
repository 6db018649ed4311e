//! What it costs to simulate a request, in both fidelities:
//! `cargo run --release -p evenkeel-sim --example load_cost [PART OF A NAME] [TIMES AS LONG]`.
//!
//! Prints nanoseconds of processor time for a request, and millions of them a second and core: the
//! difference between a run and one that is three times as long, by that of their requests, so that what
//! it takes to set a cluster up does not count. Each is the fastest of three runs, since other load on
//! the machine takes no processor time from this one, but cache and clock.

use evenkeel_hotkeys::config::{HotKeysConfig, Mode};
use evenkeel_placement::config::Distribution;
use evenkeel_sim::load::{Arrivals, KeyPlacement, LoadPlan, LoadReport, ServiceModel, fast, whole};
use evenkeel_workload::Popularity;

const RUNS: usize = 3;
const SECOND: u64 = 1_000_000_000;

type Run = fn(&LoadPlan) -> Result<LoadReport, String>;

fn main() {
    let mut args = std::env::args().skip(1);
    let part = args.next().unwrap_or_default();
    let times: f64 = args.next().map_or(1.0, |n| n.parse().expect("a number"));
    println!(
        "{:<48} {:>11} {:>8} {:>7}",
        "", "requests", "ns each", "M/s"
    );
    for (name, run, plan) in plans() {
        if !name.contains(&part) {
            continue;
        }
        let cost = |times: f64| {
            let plan = LoadPlan {
                length: (plan.length as f64 * times) as u64,
                ..plan.clone()
            };
            let run = |_| {
                let before = processor_ns();
                let report = run(&plan).expect("a sound plan");
                (processor_ns() - before, report.requests_simulated)
            };
            (0..RUNS).map(run).min().expect("there are some")
        };
        let [short, long] = [cost(times), cost(3.0 * times)];
        let requests = long.1 - short.1;
        let ns = (long.0 as f64 - short.0 as f64) / requests as f64;
        println!("{name:<48} {requests:>11} {ns:>8.1} {:>7.2}", 1e3 / ns);
    }
}

fn plans() -> Vec<(&'static str, Run, LoadPlan)> {
    let all = LoadPlan {
        prefill: true,
        warm_up: SECOND / 100,
        length: SECOND,
        ..LoadPlan::default()
    };
    // A worker of some 380,000 requests a second one by one, and of four times that in batches.
    let service = ServiceModel {
        operation_ns: 600.0,
        byte_ns: 0.5,
        batch_ns: 2_000.0,
    };
    let open = |rate| LoadPlan {
        arrivals: Arrivals::Open { rate },
        ..all.clone()
    };
    let closed = |pipeline| LoadPlan {
        arrivals: Arrivals::Closed { pipeline },
        length: SECOND / 20,
        ..all.clone()
    };
    let hot = |exponent, plan: LoadPlan| LoadPlan {
        popularity: Popularity::Zipf { exponent },
        hot_keys: HotKeysConfig {
            mode: Mode::On,
            ..HotKeysConfig::default()
        },
        // Hot keys are found, and leases are held, in most of the time that counts.
        length: 2 * SECOND,
        ..plan
    };
    let many = |servers, workers_per_server, plan: LoadPlan| LoadPlan {
        servers,
        workers_per_server,
        cachelets_per_worker: 6,
        keys: 1_000_000,
        clients: 1_000,
        ..plan
    };
    let served = |plan| LoadPlan { service, ..plan };
    let plain = |plan| LoadPlan {
        placement: KeyPlacement::Plain(Distribution::KetamaWeighted),
        ..plan
    };
    let (whole, fast): (Run, Run) = (whole::run, fast::run);
    let rate = 500_000.0;
    let high = 5_000_000.0;
    vec![
        ("whole, pipeline 16", whole, closed(16)),
        (
            "whole, pipeline 16, plain servers",
            whole,
            plain(closed(16)),
        ),
        ("whole, pipeline 1", whole, closed(1)),
        ("whole, 500k/s", whole, open(rate)),
        (
            "whole, 500k/s, servers take time",
            whole,
            served(open(rate)),
        ),
        (
            "whole, 500k/s, hot keys, zipf(1.2)",
            whole,
            hot(1.2, open(rate)),
        ),
        ("fast", fast, open(high)),
        (
            "fast, 1M/s, servers take time",
            fast,
            served(open(2.0 * rate)),
        ),
        ("fast, hot keys, zipf(0.99)", fast, hot(0.99, open(high))),
        ("fast, hot keys, zipf(1.2)", fast, hot(1.2, open(high))),
        (
            "fast, 1,000 servers, 1M keys",
            fast,
            many(1_000, 1, open(high)),
        ),
        (
            "fast, 10,000 workers, 1M keys",
            fast,
            many(2_500, 4, open(high)),
        ),
    ]
}

/// Processor time of this thread so far, in nanoseconds.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let first = text.split_whitespace().next();
    first.and_then(|ns| ns.parse().ok()).expect("a number")
}
