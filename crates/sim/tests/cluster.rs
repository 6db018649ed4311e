//! Whole clusters of the cores that ship, run from seeds.
//!
//! `EVENKEEL_TEST_SEED=n` runs one seed and prints every event; `EVENKEEL_SIM_SEEDS=n` runs more of
//! them than usual.

use evenkeel_sim::world::{Fault, Plan, Report, World};

/// Seeds of the ordinary run: all turmoils by turns.
const SEEDS: u64 = 280;

/// Seeds in which a fault built in on purpose must be noticed.
const FAULT_SEEDS: u64 = 400;

fn from_environment(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name}={value} is not a number")),
    )
}

fn run_or_tell(plan: Plan) -> Report {
    let outcome = World::new(plan).run();
    assert!(
        outcome.violations.is_empty(),
        "{plan:?}\n{}\nEVENKEEL_TEST_SEED={} shows every event",
        outcome.violations.join("\n"),
        plan.seed
    );
    outcome.report
}

/// What has to happen at times, or the runs prove nothing.
const SOMETIMES: [&str; 36] = [
    "applications gone",
    "connections reset",
    "coordinator restarted",
    "coordinator stopped",
    "hot keys switched",
    "links made",
    "maps",
    "maps wanted",
    "misses shown",
    "older links ended",
    "outcomes unknown",
    "partitions",
    "proxies stopped",
    "proxy: errors",
    "proxy: leases taken",
    "proxy: reads asked again",
    "proxy: reads unavailable",
    "proxy: replica hits",
    "proxy: replica reads",
    "proxy: requests moved",
    "proxy: requests parked",
    "proxy: requests sent again",
    "server: leases granted",
    "server: links lost",
    "server: propagations",
    "server: replica hits",
    "server: replica misses",
    "server: replicas removed",
    "server: replicas stored",
    "server: requests pointed elsewhere",
    "servers joined",
    "servers killed",
    "servers stopped",
    "values shown",
    "values stale within the bound",
    "writes confirmed",
];

#[test]
fn no_client_sees_what_it_must_not_whatever_goes_wrong() {
    if let Some(seed) = from_environment("EVENKEEL_TEST_SEED") {
        let report = run_or_tell(Plan {
            aloud: true,
            ..Plan::new(seed)
        });
        return println!("{report}");
    }
    let seeds = from_environment("EVENKEEL_SIM_SEEDS").unwrap_or(SEEDS);
    println!("seeds 0 to {}", seeds - 1);
    let mut total = Report::default();
    let mut broken = Vec::new();
    for seed in 0..seeds {
        let outcome = World::new(Plan::new(seed)).run();
        total.add(&outcome.report);
        broken.extend(
            outcome
                .violations
                .first()
                .map(|first| format!("seed {seed}: {first}")),
        );
    }
    let count = broken.len();
    assert!(
        broken.is_empty(),
        "{count} of {seeds} seeds; EVENKEEL_TEST_SEED=n shows every event of one:\n{}",
        broken.join("\n")
    );
    println!("{total}");
    for name in SOMETIMES {
        assert!(total.count(name) > 0, "never: {name}");
    }
}

#[test]
fn the_same_seed_gives_the_same_events() {
    for seed in 0..14 {
        let [a, b] = [0, 1].map(|_| World::new(Plan::new(seed)).run().report);
        assert_eq!(a, b, "seed {seed}");
        assert_ne!(a.event_hash, run_or_tell(Plan::new(seed + 1)).event_hash);
    }
}

#[test]
fn faults_built_in_on_purpose_are_noticed() {
    for fault in Fault::ALL {
        let caught = (0..FAULT_SEEDS).find_map(|seed| {
            let outcome = World::new(Plan::new(seed).with_fault(fault)).run();
            Some((seed, outcome.violations.into_iter().next()?))
        });
        match caught {
            Some((seed, violation)) => println!("{fault:?}: seed {seed}: {violation}"),
            None => panic!("{fault:?} was not noticed in {FAULT_SEEDS} seeds"),
        }
    }
}
