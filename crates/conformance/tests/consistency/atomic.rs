//! Atomic writes: all copies of a key look like one.

use super::application::Shared;
use super::faults::{Fault, inject};
use super::lease::{AFTERMATH, STOPPED};
use super::turns::Turns;
use super::{
    Consistency, Disturbance, HOT_DEADLINE, LONG_TIMEOUTS, SHORT_TIMEOUT, VALUES_MIN, cluster,
    record, sum,
};
use evenkeel_conformance::exchange::seed;
use evenkeel_sim::history::{History, Linear, check_linearizable};
use evenkeel_testkit::poll_until;

/// What a history comes to, or why it is not linearizable.
///
/// What was lost with a server says nothing here: a replica of it may be read until the last lease is over, and the
/// point at which the value is gone is anywhere before the server's next life first answers. The checker lets a value be
/// lost at any time, but only once.
pub fn judge(history: &History) -> Linear {
    match check_linearizable(&history.operations) {
        Ok(linear) => {
            println!("{linear:?}");
            assert!(linear.operations > VALUES_MIN, "{linear:?}");
            linear
        }
        Err(violations) => {
            let told: Vec<_> = violations.iter().map(ToString::to_string).collect();
            panic!("{}", told.join("\n"));
        }
    }
}

fn judged(request_timeout: &str, disturbance: Disturbance<'_>) {
    let shared = Shared::new(seed());
    let mut cluster = cluster(Consistency::Atomic, request_timeout);
    let history = record(&mut cluster, &shared, AFTERMATH, &mut |cluster, shared| {
        let more = disturbance(cluster, shared);
        poll_until(HOT_DEADLINE, "an answer that waits for shadows", || {
            (sum(cluster, "answers_held") > 0).then_some(())
        });
        more
    });
    judge(&history);
}

#[test]
fn atomic_writes_in_peace() {
    judged(LONG_TIMEOUTS, &mut |_, _| Vec::new());
}

#[test]
fn atomic_writes_while_the_home_is_killed_and_comes_back() {
    judged(SHORT_TIMEOUT, &mut |cluster, shared| {
        inject(
            cluster,
            shared,
            Consistency::Atomic,
            Fault::HomeKilled,
            STOPPED,
            &mut Turns::default(),
        )
    });
}

#[test]
fn atomic_writes_while_a_shadow_server_stops_and_goes_on() {
    judged(SHORT_TIMEOUT, &mut |cluster, shared| {
        inject(
            cluster,
            shared,
            Consistency::Atomic,
            Fault::ShadowStopped,
            STOPPED,
            &mut Turns::default(),
        )
    });
}
