//! One cluster to which one thing happens after the other, for as long as one wants.
//!
//! `CHAOS_SECONDS` says how long (`make chaos`: ten minutes, half of them with atomic writes; here half a minute).
//! Each round has keys of its own, so that each is judged by itself and memory does not grow; the cluster is
//! the same, with all that earlier rounds have left in it. Where the length is said, the servers are small and have
//! [other users](others) besides, and no process that was never stopped may have had a turn of
//! its event loop of 50 ms or longer for what it did; in the tests that is printed alone.

use super::application::Shared;
use super::faults::{Fault, inject};
use super::turns::Turns;
use super::{Consistency, PROXIES, SHORT_TIMEOUT, atomic, lease, options, record};
use evenkeel_conformance::exchange::seed;
use evenkeel_testkit::{Cluster, EXIT_DEADLINE, Process, evenkeel};
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

/// What one key takes a small server: four of them serve 20,000 keys a second.
const SERVICE_TIME: &str = "--test-service-time=200000";

/// Requests a second of the other users. With some 5,000 keys a second of the applications that is 70 % of what the small servers can do.
const OTHERS_RPS: usize = 9_000;

/// Time between the answers that an application gets and what it asks next, of small servers.
const THINKING: Duration = Duration::from_millis(20);

/// Users whose answers nobody compares in time, but for wrong values: 46 % of what they ask is for one key. They go to all proxies.
fn others(cluster: &Cluster, seconds: u64) -> Vec<Process> {
    let of_each = |proxy: &Process| {
        evenkeel::command("bench")
            .args(["run", "--target", &proxy.address().to_string()])
            .args(["--rate", &(OTHERS_RPS / PROXIES).to_string()])
            .args(["--duration", &format!("{seconds}s")])
            .args([
                "--keys",
                "60000",
                "--popularity",
                "hotspot(0.46,0.0000166667)",
            ])
            .args(["--connections", "33", "--pipeline", "64", "--no-preload"])
            .spawn()
    };
    cluster.proxies.iter().map(of_each).collect()
}

fn run(consistency: Consistency) {
    let said = std::env::var("CHAOS_SECONDS");
    let is_short = said.is_err();
    let seconds: u64 = match said {
        Ok(text) => text.parse().expect("CHAOS_SECONDS is a number of seconds"),
        Err(_) => SECONDS_DEFAULT,
    };
    let seed = seed();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut options = options(consistency, SHORT_TIMEOUT);
    if !is_short {
        options = options.with_server_args(&[SERVICE_TIME]);
    }
    let mut cluster = Cluster::start(options);
    let end = Instant::now() + Duration::from_secs(seconds) / 2;
    let mut users = match is_short {
        true => Vec::new(),
        false => others(&cluster, seconds / 2),
    };
    let thinking = if is_short { Duration::ZERO } else { THINKING };
    let mut counts: BTreeMap<Fault, u64> = BTreeMap::new();
    let mut to_come = Vec::new();
    let mut turns = Turns::default();
    let (mut rounds, mut operations) = (0, 0);
    while Instant::now() < end || rounds == 0 {
        let shared = Shared::new(seed.wrapping_add(rounds)).in_round(rounds);
        let shared = shared.thinking(thinking);
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
    for load in &mut users {
        let status = load.wait(EXIT_DEADLINE);
        println!("{}", load.stdout_text());
        assert!(
            status.success(),
            "a wrong value, or no answer: {}",
            load.stderr_text()
        );
    }
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
