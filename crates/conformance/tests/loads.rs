//! What a cluster of real processes says of the loads of its cachelets.

use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use evenkeel_conformance::migrations;
use evenkeel_testkit::{Cluster, ClusterOptions, binary, poll_until};
use evenkeel_types::KeyHash;
use serde_json::Value;

/// What is awaited has come by then, unless something hangs.
const SEEN_DEADLINE: Duration = Duration::from_secs(60);

/// Between two reads.
const PACE: Duration = Duration::from_millis(1);

/// Reads in a second from which on a rate says something; the machine may be as slow as it wants to be.
const READS_PER_S_MIN: f64 = 20.0;

const VALUE_BYTES: usize = 1000;

fn cachelets(cluster: &Cluster) -> Value {
    let (status, text) = cluster
        .http_get("/api/v1/cachelets?sort=load")
        .expect("it answers");
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

fn number(of: &Value, name: &str) -> f64 {
    of[name]
        .as_f64()
        .unwrap_or_else(|| panic!("no {name} in {of}"))
}

/// What a command of an operator prints.
fn output(arguments: &[&str]) -> String {
    let output = Command::new(binary::evenkeel())
        .args(arguments)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "evenkeel {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_hot_cachelet_is_seen_at_the_coordinator_with_what_it_carries() {
    // Without replicas all reads of the key stay at its home.
    let cluster = Cluster::start(ClusterOptions {
        servers: 2,
        threads: 2,
        ..ClusterOptions::nobody_dies()
            .with_server_args(&["-m", "192"])
            .with_settings(r#"{"hot_keys": "off"}"#)
    });
    let mut client = cluster.proxy_client();
    client.set("hot", &[b'v'; VALUE_BYTES]);
    // One for each 4 MiB. Before they have a map, workers have no cachelets of their own.
    poll_until(SEEN_DEADLINE, "all 24 cachelets of 4 workers", || {
        let view = cachelets(&cluster);
        let count = |name: &str| view[name].as_array().map_or(0, Vec::len);
        ((count("workers"), count("cachelets")) == (4, 96)).then_some(())
    });

    thread::scope(|scope| {
        // The reader ends with its sender: also when what is told is wrong.
        let (_reading, stopped) = mpsc::channel::<()>();
        scope.spawn(move || {
            while stopped.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout) {
                let value = client.get("hot").expect("it is there");
                assert_eq!(value.data.len(), VALUE_BYTES);
            }
        });
        check_what_is_told(&cluster);
    });
}

/// One key is read all the time.
fn check_what_is_told(cluster: &Cluster) {
    let map = migrations::map(cluster.coordinator.address()).expect("a map");
    let place = map.locate(KeyHash::of(b"hot"));
    let hot = poll_until(SEEN_DEADLINE, "a hot cachelet that is only read", || {
        let hottest = cachelets(cluster)["cachelets"][0].clone();
        // What the store left of its rate is soon nothing.
        let is_steady = number(&hottest, "reads_per_s") >= READS_PER_S_MIN
            && number(&hottest, "writes_per_s") < 0.5;
        is_steady.then_some(hottest)
    });
    assert_eq!(hot["cachelet"], place.cachelet.0, "{hot}");
    // All of one interval, in whole numbers: what it carries goes with its reads.
    let is_near = |name: &str, expected: f64, step: f64| {
        assert!(
            (number(&hot, name) - expected).abs() <= step + 0.02 * expected,
            "{name}: {expected} expected in {hot}"
        );
    };
    let (reads, value_bytes) = (number(&hot, "reads_per_s"), VALUE_BYTES as f64);
    is_near("hits_per_s", reads, 1.0);
    is_near("bytes_out_per_s", reads * value_bytes, value_bytes);
    is_near("load", reads * (1.0 + value_bytes / 4096.0), 2.0);
    assert_eq!(number(&hot, "items"), 1.0);

    // The same at its server, by memcached's protocol, and as an operator sees it.
    let home = hot["server"].as_str().expect("a name");
    let index = if home == "s1" { 0 } else { 1 };
    let mut server = cluster.server_client(index);
    server.send(b"stats cachelets\r\n");
    let wanted = format!("STAT {} ", hot["cachelet"]);
    let mut lines = std::iter::from_fn(|| Some(server.line()).filter(|line| line != "END"));
    let line = lines
        .find(|line| line.starts_with(&wanted))
        .expect("its cachelet");
    assert!(
        line.contains(&format!("worker={} ", hot["worker"])),
        "{line}"
    );
    // Second by second, it is the one stripe.
    let cachelet = usize::from(place.cachelet.0);
    let (heat, column) = poll_until(SEEN_DEADLINE, "a column in which it is hot", || {
        let (status, text) = cluster.http_get("/api/v1/heat?columns=1").ok()?;
        assert_eq!(status, 200, "{text}");
        let heat: Value = serde_json::from_str(&text).expect("JSON");
        let column = heat["columns"][0].clone();
        let load = column["cachelets"][cachelet].as_f64()?;
        (load >= READS_PER_S_MIN).then_some((heat, column))
    });
    let loads = column["cachelets"].as_array().expect("a list");
    let hotter = loads
        .iter()
        .filter(|&load| load.as_f64() > column["cachelets"][cachelet].as_f64());
    assert_eq!((loads.len(), hotter.count()), (96, 0), "{column}");
    let owner = column["owners"][cachelet].as_u64().expect("a row") as usize;
    assert_eq!(heat["workers"][owner]["server"], hot["server"], "{heat}");

    let url = cluster.coordinator_url();
    let shown = output(&["cachelets", "--coordinator", &url, "--limit", "3"]);
    assert!(
        shown.contains(&format!("{home}/{}", hot["worker"])),
        "{shown}"
    );
    let json = output(&["cachelets", "--coordinator", &url, "--format", "json"]);
    let view: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(view["cachelets"][0]["cachelet"], hot["cachelet"]);
}
