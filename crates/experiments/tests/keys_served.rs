//! What servers are said to have served, beside what was asked: reads of copies are part of it.

use evenkeel_experiments::fleet::keys_served_by;
use evenkeel_testkit::{Cluster, ClusterOptions, Memcached, poll_until};
use std::time::Duration;

const SERVERS: usize = 2;

/// Gets between two looks at the copies.
const GETS: u64 = 50;

/// How long a key that is read all the time may take to get a copy that is read.
const COPIED_DEADLINE: Duration = Duration::from_secs(120);

/// Numbers of a page of all servers, added up.
fn sum(cluster: &Cluster, page: &str, names: &[&str]) -> u64 {
    let of = |server| {
        let stats = cluster.server_client(server).stats(page);
        let number = |name: &&str| stats[*name].parse::<u64>().expect("a number");
        names.iter().map(number).sum::<u64>()
    };
    (0..SERVERS).map(of).sum()
}

#[test]
fn reads_of_copies_are_counted() {
    let cluster = Cluster::start(ClusterOptions {
        servers: SERVERS,
        threads: 1,
        ..ClusterOptions::nobody_dies()
            .with_settings(r#"{"hot_sampling": 100, "hot_trigger_rps": 20}"#)
    });
    let served = || -> u64 {
        let servers = cluster.servers.iter().map(|server| server.address());
        let counts = servers.map(|address| keys_served_by(address).expect("it counts"));
        counts.sum()
    };
    let plain = || sum(&cluster, "", &["cmd_get", "cmd_set"]);
    let before = (served(), plain());
    // Who has written a key reads it at its home.
    assert_eq!(cluster.proxy_client().set("hot", b"value"), "STORED");
    let mut client = cluster.proxy_client();
    let mut asked = 1;
    poll_until(COPIED_DEADLINE, "a copy that is read", || {
        for _ in 0..GETS {
            assert!(client.get("hot").is_some());
        }
        asked += GETS;
        (sum(&cluster, "evenkeel", &["replica_hits"]) > 0).then_some(())
    });
    let after = (served(), plain());
    // The copy had to be stored, too.
    assert!(after.0 - before.0 > asked, "{before:?} {after:?}, {asked}");
    assert!(after.1 - before.1 < asked, "{before:?} {after:?}, {asked}");
}

#[test]
fn a_counter_that_is_not_there_is_an_error() {
    // A memcached knows nothing of copies.
    let memcached = Memcached::spawn(&[]);
    let error = keys_served_by(memcached.address()).expect_err("it counts no copies");
    assert!(format!("{error:#}").contains("evenkeel"), "{error:#}");
}
