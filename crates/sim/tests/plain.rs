//! Proxies that replicate hot keys themselves, in front of servers that know nothing of it, run from seeds.
//!
//! `EVENKEEL_SIM_SEEDS=n` runs more of them than usual; `evenkeel sim replay n --plain` tells the story of one.

mod common;

use common::from_environment;
use evenkeel_sim::world::{Cluster, Fault, Plan, Report, World};

/// Seeds of the ordinary run: all turmoils by turns.
const SEEDS: u64 = 60;

/// Seeds in which a fault built in on purpose must be noticed.
const FAULT_SEEDS: u64 = 200;

/// How long a run lasts, in virtual nanoseconds.
const LENGTH: u64 = 21_000_000_000;

fn plan(seed: u64) -> Plan {
    Plan::plain(seed).lasting(LENGTH)
}

/// What has to happen at times, or the runs prove nothing.
const SOMETIMES: [&str; 16] = [
    "applications gone",
    "connections reset",
    "misses shown",
    "outcomes unknown",
    "partitions",
    "proxies stopped",
    "proxy: errors",
    "proxy: reads asked again",
    "proxy: replica hits",
    "proxy: replica reads",
    "proxy: requests sent again",
    "servers killed",
    "servers stopped",
    "values shown",
    "values stale within the bound",
    "writes confirmed",
];

#[test]
fn copies_of_hot_keys_in_plain_servers_keep_what_is_promised_whatever_goes_wrong() {
    let seeds = from_environment("EVENKEEL_SIM_SEEDS").unwrap_or(SEEDS);
    println!("seeds 0 to {}", seeds - 1);
    let mut total = Report::default();
    let mut broken = Vec::new();
    for seed in 0..seeds {
        let outcome = World::new(plan(seed)).run();
        total.add(&outcome.report);
        let first = outcome.violations.first();
        broken.extend(first.map(|first| format!("seed {seed}: {first}")));
    }
    let count = broken.len();
    assert!(
        broken.is_empty(),
        "{count} of {seeds} seeds; `evenkeel sim replay --plain --seconds 21` tells the story of one:\n{}",
        broken.join("\n")
    );
    println!("{total}");
    for name in SOMETIMES {
        assert!(total.count(name) > 0, "never: {name}");
    }
    let hits = total.count("proxy: replica hits");
    assert!(hits > 100 * seeds, "{hits} answers of copies alone");
}

#[test]
fn the_same_seed_gives_the_same_events_in_front_of_plain_servers() {
    for seed in 0..6 {
        let [a, b] = [0, 1].map(|_| World::new(plan(seed)).run().report);
        assert_eq!(a, b, "seed {seed}");
        assert_eq!(a.count("maps wanted"), 0);
        let evenkeel = Plan {
            cluster: Cluster::Evenkeel,
            ..plan(seed)
        };
        assert_ne!(a.event_hash, World::new(evenkeel).run().report.event_hash);
    }
}

#[test]
fn faults_built_in_on_purpose_are_noticed_in_front_of_plain_servers() {
    for fault in Fault::PLAIN {
        let caught = (0..FAULT_SEEDS).find_map(|seed| {
            let outcome = World::new(plan(seed).with_fault(fault)).run();
            Some((seed, outcome.violations.into_iter().next()?))
        });
        match caught {
            Some((seed, violation)) => println!("{fault:?}: seed {seed}: {violation}"),
            None => panic!("{fault:?} was not noticed in {FAULT_SEEDS} seeds"),
        }
    }
}
