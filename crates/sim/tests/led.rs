//! Pools of plain servers that are led to other ones, have a ring whose parts change hands, or keep copies that are switched on and off, while applications
//! work, run from seeds.
//!
//! `EVENKEEL_SEED=n` runs one seed alone; `evenkeel sim replay n --led` tells its story. An ordinary run takes a share of the seeds, from
//! `EVENKEEL_SEEDS_FROM` on; `EVENKEEL_NIGHTLY=1` takes all, and `EVENKEEL_SIM_SEEDS=n` this many.

mod common;
#[path = "common/pins.rs"]
mod pins;

use common::from_environment;
use evenkeel_sim::many;
use evenkeel_sim::world::{Fault, LedKind, Plan, Report, Tally, World};

/// Seeds of the nightly run, of each kind about a fifth.
const SEEDS: u64 = 1_500;

/// Those of an ordinary run.
const SEEDS_SHARE: u64 = 110;

/// Seeds in which a fault built in on purpose must be noticed.
const FAULT_SEEDS: u64 = 1_000;

/// How long a run lasts, in virtual nanoseconds.
const LENGTH: u64 = 21_000_000_000;

/// The first seed in which each fault is noticed where pools pass to other servers, as far as is known.
const PINS: [(Fault, u64); 6] = [
    (Fault::AcknowledgedEarly, 126),
    (Fault::StageKept, 0),
    (Fault::StepsRushed, 136),
    (Fault::FillsUnguarded, 90),
    (Fault::MarksShown, 0),
    (Fault::FormerKept, 3),
];

/// The same where each has one.
const PINS_OF_RINGS: [(Fault, u64); 9] = [
    (Fault::AcknowledgedEarly, 43),
    (Fault::StageKept, 0),
    (Fault::StepsRushed, 110),
    (Fault::FillsUnguarded, 215),
    (Fault::MarksShown, 0),
    (Fault::FormerKept, 3),
    (Fault::GenerationsReused, 87),
    (Fault::MasksLeftOut, 5),
    (Fault::OldRingKept, 11),
];

/// The same where each keeps copies.
const PINS_OF_COPIES: [(Fault, u64); 5] = [
    (Fault::StageKept, 0),
    (Fault::StepsRushed, 20),
    (Fault::FillsUnguarded, 5),
    (Fault::CopiesLeft, 0),
    (Fault::TokensReused, 0),
];

/// The same in racks, by notes and by a directory.
const PINS_OF_NOTES: [(Fault, u64); 2] = [(Fault::MarksShown, 0), (Fault::HoldersKept, 0)];
const PINS_OF_DIRECTORIES: [(Fault, u64); 2] = [(Fault::MarksShown, 0), (Fault::HoldersKept, 0)];

fn plan(seed: u64) -> Plan {
    Plan::led(seed).lasting(LENGTH)
}

#[test]
fn pools_that_are_led_show_nothing_old_whatever_goes_wrong() {
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
    if count < SEEDS_SHARE {
        return;
    }
    for tally in [Tally::CopiesHit, Tally::CopiesFilled, Tally::CopiesDeleted] {
        let times = total.led.tally(LedKind::Copies, tally);
        assert!(times > 0, "never: {tally:?}");
    }
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
    for (seed, leads) in (0..).zip([LedKind::ALL, LedKind::ALL].concat()) {
        let [a, b] = [0, 1].map(|_| World::new(chosen(seed, leads)).run().report);
        assert_eq!(a, b, "seed {seed}");
    }
}

/// A seed with a pool of this kind, whichever it draws.
fn chosen(seed: u64, leads: LedKind) -> Plan {
    plan(seed).of(leads)
}

fn noticed(plan: Plan) -> Option<String> {
    World::new(plan).run().violations.into_iter().next()
}

/// The first seed in which something is noticed, and what.
fn search(plan: impl Fn(u64) -> Plan + Sync) -> Option<(u64, String)> {
    let mut first = None;
    many::run(0..FAULT_SEEDS, many::cores(), plan, |seed, outcome| {
        let violation = outcome.violations.into_iter().next();
        first = violation.map(|words| (seed, words));
        first.is_none()
    });
    first
}

fn are_noticed(faults: impl IntoIterator<Item = Fault>, pins: &[(Fault, u64)], leads: LedKind) {
    let plan = |fault| move |seed| chosen(seed, leads).with_fault(fault);
    let noticed = |fault, seed| noticed(plan(fault)(seed));
    pins::are_noticed(faults, pins, noticed, |fault| search(plan(fault)));
}

#[test]
fn faults_built_in_on_purpose_are_noticed_in_pools_that_are_led() {
    are_noticed(Fault::LED, &PINS, LedKind::Pool);
}

#[test]
fn faults_built_in_on_purpose_are_noticed_in_rings() {
    are_noticed(
        Fault::LED.into_iter().chain(Fault::RING),
        &PINS_OF_RINGS,
        LedKind::Ring,
    );
}

#[test]
fn faults_built_in_on_purpose_are_noticed_in_pools_that_keep_copies() {
    are_noticed(Fault::COPIES, &PINS_OF_COPIES, LedKind::Copies);
}

#[test]
fn faults_built_in_on_purpose_are_noticed_in_racks() {
    are_noticed(Fault::RACKS, &PINS_OF_NOTES, LedKind::Notes);
    are_noticed(Fault::RACKS, &PINS_OF_DIRECTORIES, LedKind::Directory);
}
