//! Whole clusters of the cores that ship, run from seeds.
//!
//! `EVENKEEL_SEED=n` runs one seed alone; `evenkeel sim replay n` tells its story. An ordinary run takes a share of the
//! seeds, from `EVENKEEL_SEEDS_FROM` on, so that each change can be tried with others; `EVENKEEL_NIGHTLY=1` takes all,
//! and `EVENKEEL_SIM_SEEDS=n` this many.

mod common;
#[path = "common/pins.rs"]
mod pins;

use common::from_environment;
use evenkeel_sim::many;
use evenkeel_sim::world::{
    Fault, Habit, Hazard, Hazards, Line, Outcome, Plan, Report, Swarm, World,
};
use std::ops::Range;

/// Seeds of the nightly run, of 60 virtual seconds each: so many that all happens that has to at times.
const SEEDS: u64 = 500;

/// Those of an ordinary run.
const SEEDS_SHARE: u64 = 50;

/// Seeds with atomic writes, of as long.
const ATOMIC_SEEDS: u64 = 120;

/// Those of an ordinary run.
const ATOMIC_SEEDS_SHARE: u64 = 12;

/// Seeds that are run twice.
const SAME_SEEDS: u64 = 20;

/// Those of an ordinary run.
const SAME_SEEDS_SHARE: u64 = 2;

/// What has to happen at times with these.
const SOMETIMES_ATOMIC: [&str; 10] = [
    "cachelets given to other servers",
    "cachelets given to other workers",
    "operations put in order",
    "outcomes unknown",
    "proxy: replica hits",
    "server: answers held",
    "server: held by lease",
    "server: held until confirmed",
    "server: replica hits",
    "servers killed for good",
];

/// Seeds in which a fault built in on purpose must be noticed.
const FAULT_SEEDS: u64 = 400;

/// How long those last, in virtual nanoseconds.
const FAULT_LENGTH: u64 = 21_000_000_000;

/// The first seed in which each fault is noticed, as far as is known.
const PINS: [(Fault, u64); 27] = [
    (Fault::ReplicaStoresDropped, 0),
    (Fault::GrantsAlways, 1),
    (Fault::CopiesBoast, 0),
    (Fault::HomesLookOld, 1),
    (Fault::LeasesTooLong, 4),
    (Fault::OldFillsTaken, 0),
    (Fault::MissesInvented, 38),
    (Fault::WritesDropped, 0),
    (Fault::WritesRepeated, 0),
    (Fault::SwapsAlways, 0),
    (Fault::VersionsRepeated, 1),
    (Fault::ExpiryForgotten, 2),
    (Fault::FlushIgnored, 0),
    (Fault::TwoHomes, 0),
    (Fault::ConnectionsLeaked, 2),
    (Fault::AnswersLost, 1),
    (Fault::MapsLost, 1),
    (Fault::MigrationsLoseItems, 2),
    (Fault::MigrationsKeepDeleted, 23),
    (Fault::FlipsEarly, 3),
    (Fault::MapsConfirmedEarly, 2),
    (Fault::LeasesOutlived, 2),
    (Fault::Undetermined, 0),
    (Fault::AnswersNotHeld, 2),
    (Fault::NewHomesAnswer, 17),
    (Fault::ShadowsServeOn, 0),
    (Fault::GrantsWhileHeld, 1),
];

/// What has to happen at times besides every kind of fault, or the runs prove nothing.
const SOMETIMES: [&str; 47] = [
    "cachelets given to other servers",
    "cachelets given to other workers",
    "cachelets quarantined",
    "commands to servers without a lease",
    "deliveries overtaken",
    "deliveries slowed",
    "expiries seen",
    "heartbeats cut off",
    "heartbeats duplicated",
    "heartbeats lost",
    "heartbeats refused",
    "links made",
    "maps",
    "maps wanted",
    "migrations begun",
    "misses shown",
    "older links ended",
    "outcomes unknown",
    "packets lost",
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
    "server: answers too late",
    "server: serving leases by votes",
    "server: serving leases lost",
    "server: votes given",
    "server: votes refused",
    "servers given up",
    "servers killed for good",
    "turns stopped",
    "values shown",
    "values stale within the bound",
    "writes confirmed",
];

/// The seeds of a test, printed: one alone, as many as somebody wants, all in the nightly run, or a share of them.
fn seeds(all: u64, share: u64) -> Range<u64> {
    let seeds = match from_environment("EVENKEEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let usual = match from_environment("EVENKEEL_NIGHTLY") {
                Some(1) => all,
                _ => share,
            };
            let count = from_environment("EVENKEEL_SIM_SEEDS").unwrap_or(usual);
            let from = from_environment("EVENKEEL_SEEDS_FROM").unwrap_or(0);
            let end = from.checked_add(count).expect("seeds are 64 bits wide");
            from..end
        }
    };
    println!("seeds {seeds:?}");
    seeds
}

#[test]
fn no_client_sees_what_it_must_not_whatever_goes_wrong() {
    let seeds = seeds(SEEDS, SEEDS_SHARE);
    let count = seeds.end - seeds.start;
    let mut total = Report::default();
    let mut broken = Vec::new();
    many::run(seeds, many::cores(), Plan::new, |seed, outcome| {
        total.add(&outcome.report);
        let first = outcome.violations.first();
        broken.extend(first.map(|first| format!("seed {seed}: {first}")));
        true
    });
    println!("{total}");
    let failed = broken.len();
    assert!(
        broken.is_empty(),
        "{failed} of {count} seeds; `evenkeel sim replay` tells the story of one:\n{}",
        broken.join("\n")
    );
    if count < SEEDS {
        return;
    }
    let hazards = Hazard::ALL.iter().map(|hazard| hazard.name());
    let habits = Habit::ALL.iter().map(|habit| habit.name());
    let never: Vec<_> = SOMETIMES
        .into_iter()
        .chain(hazards)
        .chain(habits)
        .filter(|name| total.count(name) == 0)
        .collect();
    assert!(never.is_empty(), "never: {never:?}");
    let unstruck: Vec<String> = total
        .fault_coverage
        .never()
        .map(|s| s.to_string())
        .collect();
    assert!(unstruck.is_empty(), "never struck: {unstruck:?}");
}

#[test]
fn the_same_seed_gives_the_same_events() {
    for seed in seeds(SAME_SEEDS, SAME_SEEDS_SHARE) {
        let plan = Plan::new(seed).lasting(FAULT_LENGTH);
        let [a, b] = [0, 1].map(|_| World::new(plan).run().report);
        assert_eq!(a, b, "seed {seed}");
        let other = World::new(Plan {
            seed: seed + 1,
            ..plan
        })
        .run()
        .report;
        assert_ne!(a.event_hash, other.event_hash, "seeds {seed} and the next");
    }
}

#[test]
fn with_atomic_writes_every_history_is_linearizable() {
    let seeds = seeds(ATOMIC_SEEDS, ATOMIC_SEEDS_SHARE);
    let count = seeds.end - seeds.start;
    let mut total = Report::default();
    let mut broken = Vec::new();
    many::run(seeds, many::cores(), Plan::atomic, |seed, outcome| {
        total.add(&outcome.report);
        let first = outcome.violations.first();
        broken.extend(first.map(|first| format!("seed {seed}: {first}")));
        true
    });
    println!("{total}");
    assert!(
        broken.is_empty(),
        "of {count} seeds:\n{}",
        broken.join("\n")
    );
    if count < ATOMIC_SEEDS {
        return;
    }
    let never = SOMETIMES_ATOMIC
        .into_iter()
        .filter(|name| total.count(name) == 0);
    assert_eq!(never.collect::<Vec<_>>(), [""; 0]);
}

/// Among all other hazards too few migrations come to their ends.
fn swarm_for(fault: Fault, swarm: Swarm) -> Swarm {
    let hazards: &[Hazard] = match fault {
        Fault::MigrationsLoseItems | Fault::MigrationsKeepDeleted | Fault::FlipsEarly => {
            &[Hazard::Migrate]
        }
        Fault::MapsConfirmedEarly => &[Hazard::Join, Hazard::Drain],
        // It is writes of hot keys that tell.
        Fault::GrantsWhileHeld => &[],
        _ => return swarm,
    };
    let set = hazards.iter().copied();
    Swarm {
        hazards: set.fold(Hazards::default(), Hazards::with),
        // What migrates is never without an owner.
        has_old_servers: fault == Fault::MapsConfirmedEarly,
        step_faults: false,
        write_share: match fault {
            Fault::GrantsWhileHeld => 200,
            _ => swarm.write_share,
        },
        ..swarm
    }
}

/// What is noticed of a fault in a run.
fn noticed(fault: Fault, seed: u64) -> Option<String> {
    if fault == Fault::Undetermined {
        // Each run is sound by itself.
        let [a, b] = [0, 1].map(|_| World::new(fault_plan(fault, seed)).run().report.event_hash);
        return (a != b).then(|| "two runs of the same seed differ".into());
    }
    first_violation(World::new(fault_plan(fault, seed)).run())
}

fn first_violation(outcome: Outcome) -> Option<String> {
    outcome.violations.into_iter().next()
}

fn fault_plan(fault: Fault, seed: u64) -> Plan {
    let made = match Fault::ATOMIC.contains(&fault) {
        true => Plan::atomic,
        false => Plan::new,
    };
    let plan = made(seed).lasting(FAULT_LENGTH).with_fault(fault);
    Plan {
        swarm: swarm_for(fault, plan.swarm),
        ..plan
    }
}

/// The first seed in which something is noticed, and what.
fn search(fault: Fault) -> Option<(u64, String)> {
    if fault == Fault::Undetermined {
        return (0..FAULT_SEEDS).find_map(|seed| Some((seed, noticed(fault, seed)?)));
    }
    let mut first = None;
    let plan = |seed| fault_plan(fault, seed);
    many::run(0..FAULT_SEEDS, many::cores(), plan, |seed, outcome| {
        first = first_violation(outcome).map(|words| (seed, words));
        first.is_none()
    });
    first
}

#[test]
fn faults_built_in_on_purpose_are_noticed() {
    pins::are_noticed(
        Fault::ALL.into_iter().chain(Fault::ATOMIC),
        &PINS,
        noticed,
        search,
    );
}

#[test]
fn a_story_is_told_line_by_line_and_changes_nothing() {
    let swarm = Swarm {
        hazards: Hazards::default().with(Hazard::Crash).with(Hazard::Reset),
        ..Swarm::of(3)
    };
    let plan = Plan {
        swarm,
        ..Plan::new(3).lasting(FAULT_LENGTH)
    };
    let lines = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let heard = lines.clone();
    let told = World::new(plan)
        .told_to(Box::new(move |line| heard.borrow_mut().push(line.clone())))
        .run();
    assert_eq!(told.report, World::new(plan).run().report);
    let lines = lines.borrow();
    assert!(lines.is_sorted_by_key(|line| line.at));
    let has = |node: &str, text: &str| {
        let found = lines
            .iter()
            .any(|line| line.nodes.iter().any(|n| n == node) && line.text.contains(text));
        assert!(found, "no line of {node} with {text:?}");
    };
    has("app0", "get alpha");
    has("app0", "learns of alpha");
    has("p0", "is told of map");
    let is_home = |line: &Line| line.nodes.len() == 1 && line.text.starts_with("home: alpha");
    assert!(lines.iter().any(is_home), "no home tells of alpha");
    let of_any = |text: &str| {
        let of_server = |line: &&Line| line.nodes.iter().any(|node| node.starts_with('s'));
        let mut of_servers = lines.iter().filter(of_server);
        let found = of_servers.any(|line| line.text.contains(text));
        assert!(found, "no line of a server with {text:?}");
    };
    of_any("is killed");
    of_any("lose connection");
}
