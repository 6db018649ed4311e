//! A proxy whose process has ended without a goodbye holds nothing up. One that is stopped or cut off does, unless it has said that it ends when no
//! coordinator answers.

use std::net::SocketAddr;
use std::time::Duration;

use evenkeel_testkit::{Client, Memcached, Process, Signal, evenkeel, http, poll_until};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longest wait for anything; reached only by a failure.
const DEADLINE: Duration = Duration::from_secs(180);

/// Two servers, and a coordinator that leads the change of a pool of the first, which is warmed from one of the second.
struct Ground {
    servers: [Memcached; 2],
    folder: TempDir,
    coordinator: Process,
}

impl Ground {
    fn start() -> Self {
        let servers = [(); 2].map(|()| Memcached::spawn(&["-t", "1"]));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let state = folder.path().join("state").display().to_string();
        let coordinator = evenkeel::coordinator(&["--state", &state, "--silent-ms", "1000"]);
        Ground {
            servers,
            folder,
            coordinator,
        }
    }

    /// A proxy of this name, in whose `[proxy]` this stands besides.
    fn proxy(&self, name: &str, more: &str) -> Process {
        let [own, former] = self.servers.each_ref().map(Memcached::address);
        let coordinator = self.coordinator.address();
        let text = format!(
            "[proxy]\nname = \"{name}\"\n{more}\
             [pools.main]\nservers = [\"{own}\"]\nwarm_from = \"old\"\npool_coordinator = \"http://{coordinator}\"\n\
             [pools.old]\nservers = [\"{former}\"]\n[[routes]]\npool = \"main\"\n"
        );
        let file = self.folder.path().join(format!("{name}.toml"));
        std::fs::write(&file, text).expect("room");
        evenkeel::proxy(&["--config", &file.display().to_string()])
    }
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

/// The proxies that events of a kind are about, in turn.
fn events(coordinator: SocketAddr, what: &str) -> Vec<Value> {
    let events = get(coordinator, "/api/v1/changes/events");
    let events = events["events"].as_array().expect("events").iter();
    let found = events.filter(|event| event["what"] == what);
    found.map(|event| event["proxies"].clone()).collect()
}

/// The change is done by this many proxies.
fn bring_to_done(coordinator: SocketAddr, proxies: usize) {
    let order = json!({"goal": "done", "proxies": proxies}).to_string();
    poll_until(DEADLINE, "the change to be begun", || {
        let begun = http::post_json(coordinator, "/api/v1/changes/main/begin", &order);
        (begun.expect("the coordinator answers").0 == 200).then_some(())
    });
    poll_until(DEADLINE, "the change to be done", || {
        let change = get(coordinator, "/api/v1/changes")["changes"][0].clone();
        if change["stage"] == "former" && change["goal"] == "former" {
            // Taken back where a busy machine kept requests waiting: then once more.
            let _ = http::post_json(coordinator, "/api/v1/changes/main/begin", &order);
        }
        (change["stage"] == "done").then_some(())
    });
}

#[test]
fn a_killed_proxy_is_found_to_have_ended_and_a_stopped_one_is_waited_for() {
    let ground = Ground::start();
    let at = ground.coordinator.address();
    let mut proxies = ["p1", "p2", "p3"].map(|name| ground.proxy(name, ""));
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
    let ended = events(at, "proxy_ended");
    assert_eq!(ended, [json!(["p3"])], "a stopped one has not ended");
    proxies[1].signal(Signal::Continue);
    bring_to_done(at, 2);
    let mut client = Client::connect(proxies[0].address());
    assert_eq!(client.set("key", b"value"), "STORED");
}

/// As long as it must not be heard in these tests, and the line in its file.
const GONE_AFTER: &str = "gone_after = \"10s\"\n";

/// One that can be reached by nobody but its clients looks like one whose machine has died, until it goes on.
#[test]
fn stopped_proxies_that_count_as_gone_end_and_send_nothing_that_they_had_yet_to_send() {
    let ground = Ground::start();
    let at = ground.coordinator.address();
    let kept = ground.proxy("p1", "");
    let mut stopped = ["p2", "p3"].map(|name| ground.proxy(name, GONE_AFTER));
    wait_for_followers(at, &["p1", "p2", "p3"]);
    // Of the other one nothing is asked: it would sooner speak to the coordinator again than to a server.
    let mut late = Client::connect(stopped[0].address());
    assert_eq!(late.set("before", b"value"), "STORED");
    for proxy in &mut stopped {
        proxy.signal(Signal::Stop);
    }
    late.send(b"set late 0 0 5\r\nvalue\r\n");
    wait_for_followers(at, &["p1"]);
    let mut gone = events(at, "proxy_gone");
    gone.sort_by_key(Value::to_string);
    assert_eq!(gone, [json!(["p2"]), json!(["p3"])]);
    bring_to_done(at, 1);
    for proxy in &mut stopped {
        proxy.signal(Signal::Continue);
        assert_eq!(proxy.wait(DEADLINE).code(), Some(1));
        let said = proxy.stderr_text();
        let line = "no coordinator has answered for 9 s";
        assert!(said.contains(line), "{said}");
    }
    assert!(late.closed(), "the client is told nothing");
    let mut client = Client::connect(kept.address());
    for server in &ground.servers {
        assert_eq!(server.client().get("late"), None, "it was never sent");
    }
    assert_eq!(client.set("late", b"other"), "STORED");
}

#[test]
fn without_a_coordinator_a_proxy_ends_that_has_said_so_and_others_serve_on() {
    let mut ground = Ground::start();
    let at = ground.coordinator.address();
    let kept = ground.proxy("p1", "");
    let mut ends = ground.proxy("p2", GONE_AFTER);
    wait_for_followers(at, &["p1", "p2"]);
    ground.coordinator.kill();
    assert_eq!(ends.wait(DEADLINE).code(), Some(1));
    let mut client = Client::connect(kept.address());
    assert_eq!(client.set("key", b"value"), "STORED");
}
