//! A name has one holder: neither a forged heartbeat nor a second server gets it while its holder is alive.

use evenkeel_conformance::migrations::server;
use evenkeel_testkit::{Cluster, ClusterOptions, evenkeel, http};
use serde_json::json;
use std::time::Duration;

const KEYS: usize = 300;

/// A server that does not get its name gives up after ten seconds.
const GIVES_UP_WITHIN: Duration = Duration::from_secs(60);

#[test]
fn a_live_server_keeps_its_name() {
    let cluster = Cluster::start(ClusterOptions::nobody_dies());
    let mut client = cluster.proxy_client();
    for number in 0..KEYS {
        assert_eq!(client.set(&format!("name:{number}"), b"v"), "STORED");
    }
    let before = server(&cluster, "s1");

    let forged = |port: u16| {
        let heartbeat = json!({
            "cluster": "evenkeel", "kind": "server", "name": "s1", "boot": u64::MAX >> 12,
            "host": "127.0.0.1", "port": port, "worker_ports": [port + 1, port + 2], "epoch": 0,
        });
        let coordinator = cluster.coordinator.address();
        http::post_json(coordinator, "/api/v1/heartbeat", &heartbeat.to_string())
            .expect("an answer")
    };
    let its_own = before["port"].as_u64().expect("a port") as u16;
    for port in [9, its_own] {
        let (status, body) = forged(port);
        assert_eq!(status, 409, "{body}");
        assert!(body.contains("name_taken"), "{body}");
    }
    let url = cluster.coordinator_url();
    let mut second = evenkeel::server(&["-t", "1", "--coordinator", &url, "--name", "s1"]);
    let status = second.wait(GIVES_UP_WITHIN);
    assert_eq!(status.code(), Some(1));
    let said = second.stderr_text();
    assert!(
        said.contains("the name \"s1\" is held by the process at 127.0.0.1:"),
        "{said}"
    );

    let after = server(&cluster, "s1");
    for what in ["boot", "port", "cachelets", "up"] {
        assert_eq!(after[what], before[what], "{what}");
    }
    let kept = (0..KEYS).filter(|number| client.get(&format!("name:{number}")).is_some());
    assert_eq!(kept.count(), KEYS);
}
