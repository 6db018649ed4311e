//! Servers that do not exist get nothing, and those that are gone can be removed.

use evenkeel_conformance::migrations::server;
use evenkeel_testkit::{Cluster, ClusterOptions, Signal, evenkeel, http, poll_until, worker_ports};
use serde_json::{Value, json};
use std::time::Duration;

const KEYS: usize = 300;
const DEADLINE: Duration = Duration::from_secs(60);

fn servers(cluster: &Cluster) -> Vec<Value> {
    let (status, body) = cluster.http_get("/api/v1/servers").expect("an answer");
    assert_eq!(status, 200, "{body}");
    let view: Value = serde_json::from_str(&body).expect("JSON");
    view["servers"].as_array().expect("servers").clone()
}

#[test]
fn servers_that_do_not_exist_get_nothing() {
    let cluster = Cluster::start(ClusterOptions::nobody_dies());
    let mut client = cluster.proxy_client();
    for number in 0..KEYS {
        assert_eq!(client.set(&format!("invented:{number}"), b"v"), "STORED");
    }
    let before = servers(&cluster);
    let say = |name: &str, boot: u64, ports: &[u16]| {
        let heartbeat = json!({
            "cluster": "evenkeel", "kind": "server", "name": name, "boot": boot,
            "host": "127.0.0.1", "port": 9, "worker_ports": ports, "epoch": 0,
        });
        let coordinator = cluster.coordinator.address();
        http::post_json(coordinator, "/api/v1/heartbeat", &heartbeat.to_string())
            .expect("an answer")
    };
    let others = worker_ports(77, 2);
    for number in 0..100 {
        // Nobody there; another process there.
        for ports in [&[1, 2][..], &others] {
            let (status, body) = say(&format!("nobody{number}"), 5, ports);
            assert_eq!(status, 409, "{body}");
            assert!(body.contains("\"unreachable\""), "{body}");
        }
    }
    let (_, metrics) = cluster.http_get("/metrics").expect("an answer");
    let counted = "evenkeel_coordinator_refusals_total{reason=\"unreachable\"} 200";
    assert!(metrics.contains(counted), "{metrics}");
    let known = servers(&cluster);
    let mut known: Vec<_> = known.iter().filter_map(|s| s["name"].as_str()).collect();
    known.sort_unstable();
    assert_eq!(known, ["s1", "s2", "s3"]);
    for (before, after) in before.iter().zip(servers(&cluster)) {
        assert_eq!(before["cachelets"], after["cachelets"]);
    }
    let kept = (0..KEYS).filter(|number| client.get(&format!("invented:{number}")).is_some());
    assert_eq!(kept.count(), KEYS);
}

/// Two of three are killed: nothing is given up by itself, as they could be cut off. An operator knows that they are not.
#[test]
fn an_operator_removes_servers_that_are_gone() {
    let mut cluster = Cluster::start(ClusterOptions::default());
    let url = cluster.coordinator_url();
    let remove = |name: &str| {
        let arguments = ["servers", "remove", name, "--coordinator", url.as_str()];
        evenkeel::run(&arguments)
    };
    let alive = remove("s2");
    let said = String::from_utf8_lossy(&alive.stderr);
    assert!(
        !alive.status.success() && said.contains("still_up"),
        "{said}"
    );
    for gone in [1, 2] {
        cluster.servers[gone].signal(Signal::Kill);
    }
    poll_until(DEADLINE, "two that are down", || {
        let down = |name| server(&cluster, name)["up"] == false;
        (down("s2") && down("s3")).then_some(())
    });
    for name in ["s2", "s3"] {
        let removed = remove(name);
        let said = String::from_utf8_lossy(&removed.stdout);
        assert!(
            said.contains("cachelets go to others"),
            "{said} {removed:?}"
        );
    }
    let left = servers(&cluster);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0]["name"], "s1");
    poll_until(DEADLINE, "the last one to have all", || {
        (server(&cluster, "s1")["cachelets"] == 96).then_some(())
    });
    cluster.wait_until_serving();
    for number in 0..KEYS {
        cluster.store(&format!("gone:{number}"), b"v");
    }
}
