//! Servers are emptied by `evenkeel drain` and taken away or restarted under load: no request fails, and nothing that was
//! stored is missed.

use evenkeel_bench::{Users, UsersPlan};
use evenkeel_testkit::{Cluster, ClusterOptions, Signal, evenkeel, poll_until};
use serde_json::Value;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);

/// Requests after a server is gone.
const AFTERWARDS: u64 = 500;

/// Proxies report once a second where nobody hurries them. So long they may go by an old map, in which a server that is
/// empty owns something.
const SILENT_MS: &str = "6000";

const SERVERS: usize = 3;

/// What `evenkeel drain` answers: its exit code, and what it says.
fn drain(cluster: &Cluster, arguments: &[&str]) -> (Option<i32>, String, String) {
    let url = cluster.coordinator_url();
    let all = [&["drain", "--coordinator", &url], arguments].concat();
    let output = evenkeel::run(&all);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said, complained)
}

/// Drains a server to the end.
fn empty(cluster: &Cluster, server: &str) {
    let (code, said, complained) = drain(cluster, &[server, "--rate", "4000"]);
    assert_eq!(code, Some(0), "{complained}");
    let end = format!("{server} owns nothing any more and can be stopped\n");
    assert!(
        said.starts_with("waited for ") && said.ends_with(&end),
        "{said}"
    );
}

fn cluster() -> Cluster {
    Cluster::start(ClusterOptions {
        servers: SERVERS,
        threads: 2,
        coordinator_args: ["--silent-ms", SILENT_MS].map(str::to_owned).to_vec(),
        ..ClusterOptions::default()
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

/// Nothing failed, nothing was lost, nothing was old.
fn assert_unnoticed(users: Users) {
    let tally = users.stop();
    println!("{tally:?}");
    let seen = (tally.failures, tally.misses, tally.wrong);
    assert_eq!(seen, (0, 0, 0), "{tally:?}");
}

#[test]
fn a_server_that_is_drained_can_be_taken_away_and_nobody_notices() {
    let mut cluster = cluster();
    let (code, _, complained) = drain(&cluster, &["s9"]);
    assert_eq!(code, Some(1));
    assert!(
        complained.contains("no server is named \"s9\""),
        "{complained}"
    );
    let users = users(&cluster);
    empty(&cluster, "s2");
    cluster.servers[1].signal(Signal::Terminate);
    use_on(&users);
    assert_unnoticed(users);
    let (code, said, _) = drain(&cluster, &["s2", "--cancel", "--format", "json"]);
    assert_eq!(code, Some(0));
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(
        (&said["draining"], &said["cachelets"]),
        (&Value::Bool(false), &0.into())
    );
}

#[test]
fn every_server_of_a_cluster_is_restarted_in_turn_and_nobody_notices() {
    let mut cluster = cluster();
    let users = users(&cluster);
    for index in 0..SERVERS {
        let name = format!("s{}", index + 1);
        empty(&cluster, &name);
        cluster.restart_server_politely(index);
        // At once: its next life may not have registered yet.
        let (code, _, complained) = drain(&cluster, &[&name, "--cancel"]);
        assert_eq!(code, Some(0), "{complained}");
        poll_until(DEADLINE, "even shares", || has_even_shares(&cluster));
    }
    assert_unnoticed(users);
}

/// Whether all servers have the same share, and nothing is on its way.
fn has_even_shares(cluster: &Cluster) -> Option<()> {
    let json = |path: &str| -> Option<Value> {
        let (_, body) = cluster.http_get(path).ok()?;
        serde_json::from_str(&body).ok()
    };
    let (servers, moves) = (json("/api/v1/servers")?, json("/api/v1/migrations")?);
    let servers = servers["servers"].as_array()?;
    let has_share = |server: &Value| {
        server["up"] == true
            && server["released"] == 0
            && server["cachelets"] == servers[0]["cachelets"]
    };
    let is_even = servers.iter().all(has_share) && moves["migrations"].as_array()?.is_empty();
    is_even.then_some(())
}
