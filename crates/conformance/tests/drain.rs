//! Servers are emptied by `evenkeel drain` and taken away or restarted under load: no request fails, and nothing that was
//! stored is missed.

use evenkeel_bench::{Users, UsersPlan};
use evenkeel_conformance::users::assert_unnoticed;
use evenkeel_testkit::{Cluster, ClusterOptions, Signal, evenkeel, poll_until};
use serde_json::Value;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);

/// Requests after a server is gone.
const AFTERWARDS: u64 = 500;

/// A proxy that stands still counts as up for this long, and a coordinator knows all proxies this long after its start.
const SILENT_MS: &str = "10000";

/// The same where one stands still: longer than it does, on a busy machine too.
const LONG_SILENT_MS: &str = "30000";

const SERVERS: usize = 3;

/// What `evenkeel drain` answers: its exit code, and what it says.
fn drain(coordinator: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let all = [&["drain", "--coordinator", coordinator], arguments].concat();
    let output = evenkeel::run(&all);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said, complained)
}

/// Drains a server to the end.
fn empty(coordinator: &str, server: &str) {
    let (code, said, complained) = drain(coordinator, &[server, "--rate", "4000"]);
    assert_eq!(code, Some(0), "{complained}");
    let end = format!("{server} owns nothing any more and can be stopped\n");
    assert!(
        said.starts_with("waited for ") && said.ends_with(&end),
        "{said}"
    );
}

fn cluster(silent_ms: &str) -> Cluster {
    Cluster::start(ClusterOptions {
        servers: SERVERS,
        threads: 2,
        // What is late is not what has failed.
        proxy_args: evenkeel::LONG_TIMEOUTS.map(str::to_owned).to_vec(),
        coordinator_args: ["--silent-ms", silent_ms, "--cachelets-per-worker", "8"]
            .map(str::to_owned)
            .to_vec(),
        // Only a hang reaches it.
        ..ClusterOptions::default().with_server_args(&["--drain-timeout", "600"])
    })
}

/// Users who have stored all of their keys. They ask slowly, so that a proxy is not shown by their requests where each
/// cachelet has gone.
fn users(cluster: &Cluster) -> Users {
    let users = Users::start(&UsersPlan {
        addresses: vec![cluster.proxies[0].address()],
        users: 4,
        prefix: "drain:".into(),
        keys: 100,
        value_len: 20,
        pause: Duration::from_millis(5),
    });
    let users = users.expect("the proxy listens");
    poll_until(DEADLINE, "all keys to be stored", || {
        users.have_filled().then_some(())
    });
    users
}

fn use_on(users: &Users) {
    let before = users.tally().requests;
    poll_until(DEADLINE, "requests after a server is gone", || {
        (users.tally().requests >= before + AFTERWARDS).then_some(())
    });
}

#[test]
fn a_server_that_is_drained_can_be_taken_away_and_nobody_notices() {
    let mut cluster = cluster(SILENT_MS);
    let url = cluster.coordinator_url();
    let (code, _, complained) = drain(&url, &["s9"]);
    assert_eq!(code, Some(1));
    assert!(
        complained.contains("no server is named \"s9\""),
        "{complained}"
    );
    let users = users(&cluster);
    empty(&url, "s2");
    cluster.servers[1].signal(Signal::Terminate);
    use_on(&users);
    assert_unnoticed(&users.stop(), &cluster.servers);
    let (code, said, _) = drain(&url, &["s2", "--cancel", "--format", "json"]);
    assert_eq!(code, Some(0));
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(
        (&said["draining"], &said["cachelets"]),
        (&Value::Bool(false), &0.into())
    );
}

/// What the coordinator says of a drain.
fn drain_of(cluster: &Cluster, server: &str) -> Option<Value> {
    let drains = json(cluster, "/api/v1/drains")?;
    let mut drains = drains["drains"].as_array()?.iter();
    drains.find(|drain| drain["server"] == server).cloned()
}

#[test]
fn every_server_of_a_cluster_is_restarted_in_turn_and_nobody_notices() {
    let mut cluster = cluster(SILENT_MS);
    let users = users(&cluster);
    for index in 0..SERVERS {
        // SIGTERM alone: it hands over what it has before it ends.
        cluster.restart_server_politely(index);
        poll_until(DEADLINE, "even shares", || has_even_shares(&cluster));
    }
    assert_unnoticed(&users.stop(), &cluster.servers);
}

#[test]
fn a_second_signal_ends_a_server_that_waits_for_others() {
    let mut cluster = cluster(LONG_SILENT_MS);
    cluster.proxies[0].signal(Signal::Stop);
    cluster.servers[1].signal(Signal::Terminate);
    poll_until(DEADLINE, "an end that waits for the proxy alone", || {
        let drain = drain_of(&cluster, "s2")?;
        let awaited = drain["awaited"].as_array()?.len();
        (drain["cachelets"] == 0 && awaited == 1).then_some(())
    });
    assert!(
        cluster.servers[1].is_running(),
        "the proxy may still ask it"
    );
    cluster.servers[1].signal(Signal::Terminate);
    assert!(cluster.servers[1].wait(DEADLINE).success());
    cluster.proxies[0].signal(Signal::Continue);
}

/// Whether all servers have the same share, and nothing is on its way.
fn has_even_shares(cluster: &Cluster) -> Option<()> {
    let servers = json(cluster, "/api/v1/servers")?;
    let moves = json(cluster, "/api/v1/migrations")?;
    let servers = servers["servers"].as_array()?;
    let has_share = |server: &Value| {
        server["up"] == true
            && server["released"] == 0
            && server["cachelets"] == servers[0]["cachelets"]
    };
    let is_even = servers.iter().all(has_share) && moves["migrations"].as_array()?.is_empty();
    is_even.then_some(())
}

fn json(cluster: &Cluster, path: &str) -> Option<Value> {
    let (_, body) = cluster.http_get(path).ok()?;
    serde_json::from_str(&body).ok()
}
