//! `evenkeel top` with real servers, as scripts call it.

use evenkeel_testkit::{Client, Cluster, ClusterOptions, Memcached, evenkeel, poll_until};
use serde_json::Value;
use std::process::{Command, Output};
use std::time::Duration;

/// How long what a server does may take to be seen.
const SEEN_DEADLINE: Duration = Duration::from_secs(60);

fn top(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(["top", "--interval", "0.1"])
        .args(arguments)
        .output()
        .expect("the program is there")
}

fn figures(arguments: &[&str]) -> Value {
    let output = top(&[arguments, &["--format", "json"]].concat());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = top(arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), told)
}

#[test]
fn a_cluster_is_shown_with_who_is_down() {
    let mut cluster = Cluster::start(ClusterOptions::default());
    let url = cluster.coordinator_url();
    // By name: servers are numbered in the order in which they were first heard of.
    let states = |figures: &Value| -> Vec<String> {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let mut servers: Vec<_> = figures["servers"]
            .as_array()
            .expect("servers")
            .iter()
            .map(|server| (text(&server["name"]), text(&server["state"])))
            .collect();
        servers.sort_unstable();
        servers.into_iter().map(|(_, state)| state).collect()
    };
    let seen = figures(&["--coordinator", &url]);
    assert_eq!(states(&seen), ["up", "up", "up"]);
    assert_eq!(seen["servers"][0]["cachelets"], 32);
    assert_eq!(seen["warning"], Value::Null);
    let output = top(&["--coordinator", &url, "--once"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let parts = ["s3", "busy", "busiest ", "mode ", ", loads: "];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    poll_until(SEEN_DEADLINE, "workers to tell of their cachelets", || {
        let seen = figures(&["--coordinator", &url]);
        (seen["cluster"]["workers"]["s1"][0]["cachelets"] == 16).then_some(())
    });
    let events = seen["cluster"]["events"].as_array().expect("events");
    // In the order in which they came.
    let is_first_map = |event: &Value| {
        let text = event["text"].as_str().expect("a text");
        text.starts_with("map created: s") && text.ends_with(", 96 cachelets")
    };
    assert!(events.iter().any(is_first_map), "{events:?}");

    cluster.servers[1].kill();
    poll_until(SEEN_DEADLINE, "the coordinator to miss it", || {
        let seen = figures(&["--coordinator", &url]);
        (states(&seen) == ["up", "down", "up"]).then_some(())
    });
}

#[test]
fn memcached_is_shown_too() {
    let memcached = Memcached::spawn(&["-m", "64"]);
    let address = memcached.address().to_string();
    let mut client = memcached.client();
    assert_eq!(client.set("key", b"value"), "STORED");
    let seen = figures(&[&address]);
    let server = &seen["servers"][0];
    assert_eq!(
        (&server["state"], &server["items"]),
        (&"up".into(), &1.into())
    );
    assert_eq!(server["memory_limit_bytes"], 64 << 20);
    assert_eq!(seen["hot_keys"], Value::Array(Vec::new()));
}

#[test]
fn a_proxy_shows_how_it_sees_its_servers() {
    let memcached = Memcached::spawn(&["-m", "64"]);
    let server = memcached.address().to_string();
    // Where a busy machine kept the server from answering in time, the proxy limits what is under way there: another one does not.
    let (proxy, address, seen) = poll_until(SEEN_DEADLINE, "a server that is in time", || {
        let proxy = evenkeel::proxy(&[&["-s", &server][..], &evenkeel::LONG_TIMEOUTS].concat());
        let address = proxy.address().to_string();
        assert_eq!(
            Client::connect(proxy.address()).set("key", b"value"),
            "STORED"
        );
        let seen = figures(&["--proxy", &address]);
        (seen["servers"][0]["window"] == 0).then_some((proxy, address, seen))
    });
    let line = &seen["servers"][0];
    assert_eq!(
        (&line["name"], &line["state"]),
        (&server.as_str().into(), &"up".into())
    );
    assert_eq!((&line["queued"], &line["window"]), (&0.into(), &0.into()));
    assert_eq!(
        (&seen["answered"], &seen["shed_per_second"]),
        (&true.into(), &0.0.into())
    );
    let output = top(&["--proxy", &address, "--once"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("requests/s to 1 servers, 0 refused/s") && text.contains(&server),
        "{text}"
    );
    assert!(text.contains("key at default: "), "{text}");
    assert!(text.contains("hot_keys is off in this pool"), "{text}");
    drop(proxy);
    let (code, told) = refused(&["--proxy", &address, "--once"]);
    assert_eq!(code, Some(1));
    assert!(told.contains("Connection refused"), "{told}");
}

#[test]
fn what_cannot_be_shown_is_said() {
    let (code, told) = refused(&["127.0.0.1:1"]);
    assert_eq!(code, Some(1));
    assert!(told.contains("no terminal; --once"), "{told}");
    let (code, told) = refused(&["--coordinator", "http://127.0.0.1:1", "--once"]);
    assert_eq!(code, Some(1), "{told}");
    let (code, told) = refused(&["nowhere", "--once"]);
    assert_eq!(code, Some(2));
    assert!(told.contains("no address of nowhere"), "{told}");
    let (code, told) = refused(&["127.0.0.1:1", "--interval", "0"]);
    assert_eq!(code, Some(2), "{told}");
    // Servers that do not answer are shown as such. That none does is a failure.
    let output = top(&["127.0.0.1:1", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let seen: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(seen["servers"][0]["state"], "silent");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("127.0.0.1:1: Connection refused"), "{told}");
}
