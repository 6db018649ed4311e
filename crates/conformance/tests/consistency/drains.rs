//! Servers of hot keys are drained, restarted at their addresses and filled again: nothing fails, nothing is missed.

use super::application::Shared;
use super::atomic;
use super::faults::{shadow_of_hottest, start_again};
use super::lease::AFTERMATH;
use super::{
    Cluster, Consistency, HOT_DEADLINE, LEASE, LONG_TIMEOUTS, cluster, home_of_hottest, record, sum,
};
use evenkeel_conformance::exchange::seed;
use evenkeel_sim::history::{Promises, check};
use evenkeel_testkit::{EXIT_DEADLINE, Signal, evenkeel, poll_until};
use serde_json::Value;

/// Ends with success, or the test fails.
fn drain(cluster: &Cluster, server: &str, more: &[&str]) {
    let url = cluster.coordinator_url();
    let output = evenkeel::run(&[&["drain", server, "--coordinator", &url], more].concat());
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{server} {more:?}: {complained}");
}

fn restart_drained(cluster: &mut Cluster, server: usize) {
    let name = format!("s{}", server + 1);
    let (_, members) = cluster.http_get("/api/v1/servers").expect("an answer");
    drain(cluster, &name, &["--rate", "4000"]);
    cluster.servers[server].signal(Signal::Terminate);
    let status = cluster.servers[server].wait(EXIT_DEADLINE);
    assert!(status.success(), "{status}");
    cluster.servers[server] = start_again(cluster, server, &members);
    drain(cluster, &name, &["--cancel"]);
    poll_until(HOT_DEADLINE, "the server to have its share again", || {
        has_share(cluster, &name)
    });
}

/// Whether a server owns something, and nothing is on its way.
fn has_share(cluster: &Cluster, name: &str) -> Option<()> {
    let get = |path: &str| -> Option<Value> {
        let (_, body) = cluster.http_get(path).ok()?;
        serde_json::from_str(&body).ok()
    };
    let servers = get("/api/v1/servers")?;
    let server = (servers["servers"].as_array()?.iter()).find(|server| server["name"] == name)?;
    let owns = server["cachelets"].as_u64()? > 0;
    let migrations = get("/api/v1/migrations")?;
    let rests = migrations["migrations"].as_array()?.is_empty();
    (owns && rests).then_some(())
}

#[test]
#[ignore = "nightly: drains two servers and fills them again, a minute"]
fn home_and_shadow_of_the_hottest_key_are_drained_and_restarted_and_nobody_notices() {
    let shared = Shared::new(seed());
    let mut cluster = cluster(Consistency::Atomic, LONG_TIMEOUTS);
    let history = record(&mut cluster, &shared, AFTERMATH, &mut |cluster, shared| {
        let home = home_of_hottest(cluster, shared);
        restart_drained(cluster, home);
        let shadow = shadow_of_hottest(cluster, shared);
        restart_drained(cluster, shadow);
        home_of_hottest(cluster, shared);
        Vec::new()
    });
    atomic::judge(&history);
    // A read that fails is an error here, so that a miss is the word of a home.
    let promises = Promises {
        staleness: LEASE.as_nanos() as u64,
        misses_are_true: true,
    };
    let checked = check(&shared.comparable(history), &promises);
    let checked = checked.unwrap_or_else(|violations| {
        let told: Vec<_> = violations.iter().map(ToString::to_string).collect();
        panic!("{}", told.join("\n"));
    });
    println!("{checked:?}");
    // A server in its next life has forgotten what it has lost.
    let lost = sum(&cluster, "leases_lost");
    assert!(checked.unknown == 0 || lost > 0, "{checked:?}");
}
