//! Pools of plain servers that are led to other ones while applications work, run from seeds.
//!
//! `EVENKEEL_SEED=n` runs one seed alone; `evenkeel sim replay n --led` tells its story. An ordinary run takes a share of the seeds, from
//! `EVENKEEL_SEEDS_FROM` on; `EVENKEEL_NIGHTLY=1` takes all, and `EVENKEEL_SIM_SEEDS=n` so many.

mod common;
#[path = "common/pins.rs"]
mod pins;

use common::from_environment;
use evenkeel_sim::many;
use evenkeel_sim::world::{Fault, Plan, Report, World};

/// Seeds of the nightly run.
const SEEDS: u64 = 500;

/// Those of an ordinary run.
const SEEDS_SHARE: u64 = 40;

/// Seeds in which a fault built in on purpose must be noticed.
const FAULT_SEEDS: u64 = 400;

/// How long a run lasts, in virtual nanoseconds.
const LENGTH: u64 = 21_000_000_000;

/// The first seed in which each fault is noticed, as far as is known.
const PINS: [(Fault, u64); 9] = [
    (Fault::AcknowledgedEarly, 15),
    (Fault::StageKept, 0),
    (Fault::StepsRushed, 17),
    (Fault::FillsUnguarded, 48),
    (Fault::MarksShown, 0),
    (Fault::FormerKept, 3),
    (Fault::GenerationsReused, 0),
    (Fault::MasksLeftOut, 0),
    (Fault::OldRingKept, 0),
];

fn plan(seed: u64) -> Plan {
    Plan::led(seed).lasting(LENGTH)
}

#[test]
fn pools_that_are_led_to_other_servers_show_nothing_old_whatever_goes_wrong() {
    let seeds = match from_environment("EVENKEEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let usual = match from_environment("EVENKEEL_NIGHTLY") {
                Some(1) => SEEDS,
                _ => SEEDS_SHARE,
            };
            let count = from_environment("EVENKEEL_SIM_SEEDS").unwrap_or(usual);
            let from = from_environment("EVENKEEL_SEEDS_FROM").unwrap_or(0);
            from..from.checked_add(count).expect("seeds are 64 bits wide")
        }
    };
    println!("seeds {seeds:?}");
    let count = seeds.end - seeds.start;
    let mut total = Report::default();
    let mut broken = Vec::new();
    many::run(seeds, many::cores(), plan, |seed, outcome| {
        total.add(&outcome.report);
        let first = outcome.violations.first();
        broken.extend(first.map(|first| format!("seed {seed}: {first}")));
        true
    });
    println!("{total}");
    let failed = broken.len();
    assert!(
        broken.is_empty(),
        "{failed} of {count} seeds; `evenkeel sim replay --led --seconds 21` tells the story of one:\n{}",
        broken.join("\n")
    );
    if count < SEEDS {
        return;
    }
    let never: Vec<_> = total.led.never().collect();
    assert!(never.is_empty(), "never: {never:?}");
    let idle: Vec<_> = total.led.idle().collect();
    assert!(idle.is_empty(), "never: {idle:?}");
}

#[test]
fn the_same_seed_gives_the_same_events_while_a_pool_is_led() {
    for seed in 0..3 {
        let [a, b] = [0, 1].map(|_| World::new(plan(seed)).run().report);
        assert_eq!(a, b, "seed {seed}");
    }
}

fn noticed(fault: Fault, seed: u64) -> Option<String> {
    let outcome = World::new(plan(seed).with_fault(fault)).run();
    outcome.violations.into_iter().next()
}

/// The first seed in which something is noticed, and what.
fn search(fault: Fault) -> Option<(u64, String)> {
    let mut first = None;
    let plan = |seed| plan(seed).with_fault(fault);
    many::run(0..FAULT_SEEDS, many::cores(), plan, |seed, outcome| {
        let violation = outcome.violations.into_iter().next();
        first = violation.map(|words| (seed, words));
        first.is_none()
    });
    first
}

#[test]
fn faults_built_in_on_purpose_are_noticed_in_pools_that_are_led() {
    pins::are_noticed(Fault::LED, &PINS, noticed, search);
}
