//! The default: a value may be read for one lease after it was replaced, by others than its writer.

use super::application::Shared;
use super::faults::{Fault, inject};
use super::turns::Turns;
use super::{
    Consistency, Disturbance, LEASE, LONG_TIMEOUTS, SHORT_TIMEOUT, VALUES_MIN, cluster, record, sum,
};
use evenkeel_conformance::exchange::seed;
use evenkeel_sim::history::{Checked, History, Promises, check};
use std::time::Duration;

/// What is added to the bound of staleness for a kill to be noticed by the one who sent it.
const MARGIN: Duration = Duration::from_millis(20);

/// How long applications go on after what a test does has been done: several leases, and longer
/// than the coordinator takes to notice a silent server.
pub const AFTERMATH: Duration = Duration::from_secs(3);

/// How long a server is stopped: longer than a lease and than the time-out of a request.
pub const STOPPED: Duration = Duration::from_millis(1500);

/// What a history comes to, or the first violations.
pub fn judge(history: &History) -> Checked {
    let promises = Promises {
        staleness: (LEASE + MARGIN).as_nanos() as u64,
        misses_are_true: false,
    };
    match check(history, &promises) {
        Ok(checked) => {
            println!("{checked:?}");
            assert!(checked.values > VALUES_MIN, "{checked:?}");
            assert!(checked.writes > 0, "{checked:?}");
            checked
        }
        Err(violations) => {
            let told = violations.iter().take(20).map(ToString::to_string);
            let told: Vec<_> = told.collect();
            panic!("{} violations:\n{}", violations.len(), told.join("\n"));
        }
    }
}

/// What it comes to, and how many serving leases were lost: where a machine keeps servers from hearing of each other, they serve
/// nothing for a moment.
fn judged(request_timeout: &str, disturbance: Disturbance<'_>) -> (Checked, u64) {
    let shared = Shared::new(seed());
    let mut cluster = cluster(Consistency::Lease, request_timeout);
    let history = record(&mut cluster, &shared, AFTERMATH, disturbance);
    let checked = judge(&shared.comparable(history));
    (checked, sum(&cluster, "leases_lost"))
}

#[test]
fn readers_and_writers_of_hot_keys_in_peace() {
    let (checked, lost) = judged(LONG_TIMEOUTS, &mut |_, _| Vec::new());
    assert!(
        checked.unknown == 0 || lost > 0,
        "nothing was in the way: {checked:?}"
    );
}

#[test]
fn the_home_of_the_hottest_key_is_killed_and_comes_back() {
    judged(SHORT_TIMEOUT, &mut |cluster, shared| {
        inject(
            cluster,
            shared,
            Consistency::Lease,
            Fault::HomeKilled,
            STOPPED,
            &mut Turns::default(),
        )
    });
}

#[test]
fn a_shadow_server_of_the_hottest_key_stops_and_goes_on() {
    let (checked, _) = judged(SHORT_TIMEOUT, &mut |cluster, shared| {
        inject(
            cluster,
            shared,
            Consistency::Lease,
            Fault::ShadowStopped,
            STOPPED,
            &mut Turns::default(),
        )
    });
    // It is home of other keys, to which nobody could write.
    assert!(checked.unknown > 0, "{checked:?}");
}

#[test]
fn without_a_coordinator_serving_goes_on() {
    let (checked, lost) = judged(LONG_TIMEOUTS, &mut |cluster, _| {
        cluster.coordinator.kill();
        Vec::new()
    });
    assert!(
        checked.unknown == 0 || lost > 0,
        "nobody needs the coordinator to be served: {checked:?}"
    );
}
