//! One cluster to which one thing happens after the other, for as long as one wants.
//!
//! `CHAOS_SECONDS` says how long (`make chaos`: ten minutes, half of them with atomic writes; here half a minute).
//! Each round has keys of its own, so that each is judged by itself and memory does not grow; the cluster is
//! the same, with all that earlier rounds have left in it. Where the length is said, no process that was never stopped may have had a turn of
//! its event loop of 50 ms or longer for what it did; in the tests that is printed alone.

use super::application::Shared;
use super::faults::{Fault, inject};
use super::turns::Turns;
use super::{Consistency, SHORT_TIMEOUT, atomic, cluster, lease, record};
use evenkeel_conformance::exchange::seed;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Length of the two tests together where nothing else is said.
const SECONDS_DEFAULT: u64 = 30;

/// Faults in a round, between which applications find time to go on.
const FAULTS: usize = 3;

/// Shortest and longest time for which a process is stopped, in milliseconds: from less than a lease to longer
/// than a request may take and a server may be silent.
const PAUSE_MS: (u64, u64) = (50, 2500);

/// How long a round goes on after its last fault.
const AFTERMATH: Duration = Duration::from_millis(1000);

fn run(consistency: Consistency) {
    let said = std::env::var("CHAOS_SECONDS");
    let is_short = said.is_err();
    let seconds: u64 = match said {
        Ok(text) => text.parse().expect("CHAOS_SECONDS is a number of seconds"),
        Err(_) => SECONDS_DEFAULT,
    };
    let seed = seed();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut cluster = cluster(consistency, SHORT_TIMEOUT);
    let end = Instant::now() + Duration::from_secs(seconds) / 2;
    let mut counts: BTreeMap<Fault, u64> = BTreeMap::new();
    let mut to_come = Vec::new();
    let mut turns = Turns::default();
    let (mut rounds, mut operations) = (0, 0);
    while Instant::now() < end || rounds == 0 {
        let shared = Shared::new(seed.wrapping_add(rounds)).in_round(rounds);
        let history = record(&mut cluster, &shared, AFTERMATH, &mut |cluster, shared| {
            let mut lost = Vec::new();
            for _ in 0..FAULTS {
                let fault = next(&mut random, &mut to_come);
                let (least, most) = PAUSE_MS;
                let pause = Duration::from_millis(least + random.next_u64() % (most - least));
                println!("round {rounds}: {fault:?}, pauses {pause:?}");
                lost.extend(inject(
                    cluster,
                    shared,
                    consistency,
                    fault,
                    pause,
                    &mut turns,
                ));
                *counts.entry(fault).or_default() += 1;
            }
            lost
        });
        operations += history.operations.len();
        match consistency {
            Consistency::Lease => {
                lease::judge(&shared.comparable(history));
            }
            Consistency::Atomic => {
                atomic::judge(&history);
            }
        }
        rounds += 1;
    }
    println!("{rounds} rounds, {operations} operations, no violation; {counts:?}");
    turns.ask_all(&cluster);
    println!("{turns:#?}");
    // What the processes of a machine that does much else spend on each other is not told from their own.
    assert!(is_short || turns.of_others.slow == 0, "turns were slow");
    if rounds as usize * FAULTS >= Fault::ALL.len() {
        assert_eq!(counts.len(), Fault::ALL.len(), "each has happened");
    }
}

/// The next of all faults in random order, each as often as any other.
fn next(random: &mut Xoshiro256PlusPlus, to_come: &mut Vec<Fault>) -> Fault {
    if to_come.is_empty() {
        to_come.extend(Fault::ALL);
    }
    let chosen = random.next_u64() as usize % to_come.len();
    to_come.swap_remove(chosen)
}

#[test]
fn chaos_under_leases() {
    run(Consistency::Lease);
}

#[test]
#[ignore = "nightly: the same for atomic writes, half a minute or more"]
fn chaos_with_atomic_writes() {
    run(Consistency::Atomic);
}
