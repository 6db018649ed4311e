//! What the page at `--admin` is told, and by whom it may be asked.

use crate::patience::PATIENCE;
use evenkeel_testkit::{Client, Memcached, evenkeel, http, poll_until};
use serde_json::Value;
use std::net::SocketAddr;

/// The key that is asked for.
const KEY: &str = "celebrity";

fn json(admin: SocketAddr, path: &str) -> Value {
    let (status, text) = http::get(admin, path).expect("an answer");
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn the_page_is_told_servers_keys_and_events_and_no_foreign_page_is() {
    let mut servers: Vec<Memcached> = (0..3).map(|_| Memcached::spawn(&[])).collect();
    let names: Vec<String> = servers.iter().map(|it| it.address().to_string()).collect();
    let proxy = evenkeel::proxy(&["-s", &names.join(","), "--admin", "127.0.0.1:0"]);
    let said = proxy.await_stderr("the page is at http://");
    let (_, admin) = said.split_once("the page is at http://").expect("where");
    let admin = admin.split('/').next().expect("an address");
    let admin: SocketAddr = admin.parse().expect("an address");
    let mut client = Client::connect(proxy.address());
    assert_eq!(client.set(KEY, b"v"), "STORED");
    let has_it = |server: &Memcached| server.client().get(KEY).is_some();
    let home = servers.iter().position(has_it).expect("one has it");
    let asked = || {
        for _ in 0..50 {
            assert!(client.get(KEY).is_some());
        }
        let seen = json(admin, "/api/v1/snapshot");
        let loads = seen["servers"].as_array()?.iter();
        let busy = loads.filter(|it| it["load"].as_f64() > Some(0.0)).count();
        // Times are those of the second before.
        let is_timed = seen["p99_us"].is_u64();
        (busy > 0 && is_timed && seen["hottest"][0]["key"] == KEY).then_some(seen)
    };
    let seen = poll_until(PATIENCE, "a second of load", asked);
    let told = seen["servers"].as_array().expect("servers");
    let mut sorted = names.clone();
    sorted.sort();
    let shown: Vec<&str> = told.iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(shown, sorted);
    assert_eq!(seen["hottest"][0]["home"], *names[home]);
    for server in told.iter().filter(|it| it["name"] != *names[home]) {
        assert_eq!(server["load"], 0.0, "{server}");
    }
    assert!(seen["hits_per_s"].as_f64() > Some(0.0));
    let heat = json(admin, "/api/v1/heat?of=bytes&columns=5");
    assert_eq!(
        (&heat["of"], heat["workers"].as_array().map(Vec::len)),
        (&"bytes".into(), Some(3))
    );
    for wrong in ["of=writes", "columns=many"] {
        let (status, _) = http::get(admin, &format!("/api/v1/heat?{wrong}")).expect("an answer");
        assert_eq!(status, 400, "{wrong}");
    }

    drop(servers.remove(home));
    poll_until(PATIENCE, "an event", || {
        client.send(format!("mg {KEY} v\r\n").as_bytes());
        let answer = client.line();
        assert!(
            answer == "EN" || answer.starts_with("SERVER_ERROR"),
            "{answer}"
        );
        let seen = json(admin, "/api/v1/snapshot");
        let event = seen["events"].as_array()?.first()?.clone();
        assert_eq!(
            (&event["server"], &event["is_up"]),
            (&(*names[home]).into(), &false.into())
        );
        Some(())
    });

    for (path, needle) in [
        ("/", "/proxy.js"),
        ("/proxy.js", "api/v1/snapshot"),
        ("/page.css", "main {"),
    ] {
        let (status, text) = http::get(admin, path).expect("an answer");
        assert!(
            status == 200 && (text.contains(needle) || path == "/page.css"),
            "{path}"
        );
    }
    for (host, status) in [
        ("evil.example", 403),
        ("localhost:1", 200),
        ("[::1]:1", 200),
    ] {
        let request = format!("GET /api/v1/snapshot HTTP/1.0\r\nHost: {host}\r\n\r\n");
        assert_eq!(
            http::request(admin, &request).expect("an answer").0,
            status,
            "{host}"
        );
    }
    let request = "GET /healthz HTTP/1.0\r\nHost: by.any.name\r\n\r\n";
    assert_eq!(http::request(admin, request).expect("an answer").0, 200);
}
