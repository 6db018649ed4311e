//! Requests through the proxy while something happens to coordinators and etcd, each checked.

use std::time::Duration;

use evenkeel_bench::Users;
use evenkeel_conformance::coordinators::{Cluster, DEADLINE};
use evenkeel_conformance::users::{assert_unnoticed, while_used};
use evenkeel_testkit::poll_until;

/// Between two requests of a user: the processes under test need the processor, too.
const PACE: Duration = Duration::from_millis(1);

/// Requests that show that serving goes on.
const REQUESTS: u64 = 300;

/// Does something to a cluster that is in use. No request may fail and nothing may be gone, neither meanwhile nor afterwards.
pub fn unnoticed(cluster: &mut Cluster, act: impl FnOnce(&mut Cluster, &Users)) {
    let tally = while_used(cluster.proxy.address(), PACE, |users| {
        act(cluster, users);
        goes_on(users);
    });
    assert_unnoticed(&tally, &cluster.servers);
}

/// Waits until many more requests were answered.
pub fn goes_on(users: &Users) {
    let answered = || users.tally().requests;
    let before = answered();
    poll_until(DEADLINE, "serving that goes on", || {
        (answered() >= before + REQUESTS).then_some(())
    });
}
