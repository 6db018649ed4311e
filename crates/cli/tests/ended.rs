//! A proxy whose process has ended without a goodbye holds nothing up; one that is stopped does.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use evenkeel_testkit::{Client, Memcached, Process, Signal, evenkeel, http, poll_until};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(60);

fn proxy(folder: &Path, name: &str, pools: &str) -> Process {
    let file = folder.join(format!("{name}.toml"));
    std::fs::write(&file, format!("[proxy]\nname = \"{name}\"\n{pools}")).expect("room");
    evenkeel::proxy(&["--config", &file.display().to_string()])
}

fn get(coordinator: SocketAddr, path: &str) -> Value {
    let (status, body) = http::get(coordinator, path).expect("the coordinator answers");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

/// The proxies that the change of the only pool waits for, or may wait for.
fn followers(coordinator: SocketAddr) -> Vec<Value> {
    let changes = get(coordinator, "/api/v1/changes");
    let proxies = changes["changes"][0]["proxies"].as_array().cloned();
    proxies.unwrap_or_default()
}

fn wait_for_followers(coordinator: SocketAddr, expected: &[&str]) {
    poll_until(DEADLINE, &format!("{expected:?} to follow"), || {
        let all = followers(coordinator);
        let names = all.iter().map(|it| it["name"].as_str());
        names
            .eq(expected.iter().map(|name| Some(*name)))
            .then_some(())
    });
}

#[test]
fn a_killed_proxy_is_found_to_have_ended_and_a_stopped_one_is_waited_for() {
    let servers: Vec<Memcached> = (0..2).map(|_| Memcached::spawn(&["-t", "1"])).collect();
    let names: Vec<String> = servers.iter().map(|it| it.address().to_string()).collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = folder.path().join("state").display().to_string();
    let coordinator = evenkeel::coordinator(&["--state", &state, "--silent-ms", "1000"]);
    let at = coordinator.address();
    let pools = format!(
        "[pools.main]\nservers = [\"{}\"]\nwarm_from = \"old\"\npool_coordinator = \"http://{at}\"\n\
         [pools.old]\nservers = [\"{}\"]\n[[routes]]\npool = \"main\"\n",
        names[0], names[1]
    );
    let mut proxies = ["p1", "p2", "p3"].map(|name| proxy(folder.path(), name, &pools));
    wait_for_followers(at, &["p1", "p2", "p3"]);
    // Only who was asked once is found to have ended.
    poll_until(DEADLINE, "the control ports to have answered", || {
        let all = followers(at);
        all.iter()
            .all(|it| it["end_would_show"] == true)
            .then_some(())
    });
    proxies[1].signal(Signal::Stop);
    proxies[2].kill();
    wait_for_followers(at, &["p1", "p2"]);
    let events = get(at, "/api/v1/changes/events");
    let ended: Vec<&Value> = (events["events"].as_array().expect("events").iter())
        .filter(|event| event["what"] == "proxy_ended")
        .map(|event| &event["proxies"])
        .collect();
    assert_eq!(ended, [&json!(["p3"])], "a stopped one has not ended");
    proxies[1].signal(Signal::Continue);
    let order = json!({"goal": "done", "proxies": 2}).to_string();
    poll_until(DEADLINE, "the change to be begun", || {
        let begun = http::post_json(at, "/api/v1/changes/main/begin", &order);
        (begun.expect("the coordinator answers").0 == 200).then_some(())
    });
    poll_until(DEADLINE, "the change to be done", || {
        let change = get(at, "/api/v1/changes")["changes"][0].clone();
        if change["stage"] == "former" && change["goal"] == "former" {
            // Taken back where a busy machine kept requests waiting: then once more.
            let _ = http::post_json(at, "/api/v1/changes/main/begin", &order);
        }
        (change["stage"] == "done").then_some(())
    });
    let mut client = Client::connect(proxies[0].address());
    assert_eq!(client.set("key", b"value"), "STORED");
}
