//! A server is emptied by `evenkeel drain` and taken away under load: no request fails.

use evenkeel_bench::{Users, UsersPlan};
use evenkeel_testkit::{Cluster, ClusterOptions, Signal, evenkeel, poll_until};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(20);

/// Requests after the server is gone.
const AFTERWARDS: u64 = 2_000;

#[test]
fn a_server_that_is_drained_can_be_taken_away_without_a_failed_request() {
    let mut cluster = Cluster::start(ClusterOptions {
        servers: 3,
        threads: 2,
        ..ClusterOptions::default()
    });
    let url = cluster.coordinator_url();
    let drain = |arguments: &[&str]| {
        let all = [&["drain", "--coordinator", &url], arguments].concat();
        let output = evenkeel::run(&all);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said, complained)
    };
    let (code, _, complained) = drain(&["s9"]);
    assert_eq!(code, Some(1));
    assert!(
        complained.contains("no server is named \"s9\""),
        "{complained}"
    );

    let users = Users::start(&UsersPlan {
        addresses: vec![cluster.proxies[0].address()],
        users: 3,
        prefix: "drain:".into(),
        keys: 64,
        value_len: 20,
        pause: Duration::ZERO,
    });
    let users = users.expect("the proxy listens");
    poll_until(DEADLINE, "all keys to be stored", || {
        users.have_filled().then_some(())
    });
    let (code, said, complained) = drain(&["s2", "--rate", "16"]);
    assert_eq!(code, Some(0), "{complained}");
    assert_eq!(said, "s2 owns nothing any more and can be stopped\n");
    cluster.servers[1].signal(Signal::Terminate);
    let before = users.tally().requests;
    poll_until(DEADLINE, "requests after the server is gone", || {
        (users.tally().requests >= before + AFTERWARDS).then_some(())
    });
    let tally = users.stop();
    println!("{tally:?}");
    assert_eq!((tally.failures, tally.wrong), (0, 0), "{tally:?}");
    let (code, said, _) = drain(&["s2", "--cancel", "--format", "json"]);
    assert_eq!(code, Some(0));
    assert_eq!(
        said,
        "{\"server\":\"s2\",\"draining\":false,\"cachelets\":0}\n"
    );
}
