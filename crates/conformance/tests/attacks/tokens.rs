//! Anyone who has one member's token speaks for that member alone: not for the cluster's servers with the token that lies beside
//! each application, nor for another server with that of one.

use evenkeel_testkit::{Client, evenkeel, http, poll_until};
use serde_json::json;
use std::time::Duration;

/// Reached only by a failure.
const PATIENCE: Duration = Duration::from_secs(60);

const OPERATOR: &str = "operators-0123456789";
const FIRST: &str = "first-server-0123456789";
const SECOND: &str = "second-server-0123456789";
const PROXY: &str = "proxies-0123456789";

#[test]
fn a_members_token_speaks_for_that_member_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let members = format!("{FIRST} server s1\n{SECOND} server s2\n{PROXY} proxy\n");
    let coordinator = evenkeel::coordinator(&[
        "--api-token-file",
        &write("operators", OPERATOR),
        "--member-token-file",
        &write("members", &members),
    ]);
    let address = coordinator.address();
    let url = format!("http://{address}");
    let [first, second, proxies] = [("first", FIRST), ("second", SECOND), ("proxy", PROXY)]
        .map(|(name, token)| write(name, token));
    let server = |name: &str, token: &str| {
        let arguments = ["-t", "1", "--coordinator", &url, "--name", name];
        evenkeel::server(&[&arguments[..], &["--coordinator-token-file", token]].concat())
    };
    let server_one = server("s1", &first);
    let following = ["--coordinator", &url, "--coordinator-token-file", &proxies];
    let proxy = evenkeel::proxy(&[&following[..], &evenkeel::LONG_TIMEOUTS].concat());
    poll_until(PATIENCE, "a map", || {
        matches!(http::get(address, "/readyz"), Ok((200, _))).then_some(())
    });
    let mut client = Client::connect(proxy.address());
    assert_eq!(client.set("key", b"value"), "STORED", "both do their work");

    let call = |token: &str, path: &str, body: &str| {
        let len = body.len();
        let text = format!(
            "POST {path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {len}\r\n\r\n{body}"
        );
        http::request(address, &text).expect("an answer")
    };
    let (_, map) = http::request(
        address,
        &format!(
            "GET /api/v1/map HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {PROXY}\r\n\r\n"
        ),
    )
    .expect("an answer");
    let map: serde_json::Value = serde_json::from_str(&map).expect("a proxy reads the map");
    let beat = |name: &str, leaves: bool| {
        let heartbeat = json!({
            "cluster": "evenkeel", "kind": "server", "name": name, "boot": 7, "host": "127.0.0.1", "port": 9,
            "worker_ports": [10], "epoch": 0, "leaves": leaves,
        });
        heartbeat.to_string()
    };
    let offer = json!({"name": "s1", "boot": 7, "lineage": 7, "map": map}).to_string();
    let (heartbeat, map) = ("/api/v1/heartbeat", "/api/v1/map");
    let forged = [
        (PROXY, heartbeat, beat("s1", false), "wrong_role"),
        (PROXY, heartbeat, beat("s1", true), "wrong_role"),
        (PROXY, map, offer.clone(), "wrong_role"),
        (SECOND, heartbeat, beat("s1", false), "wrong_name"),
        (SECOND, map, offer, "wrong_name"),
    ];
    for (token, path, body, reason) in &forged {
        let (status, said) = call(token, path, body);
        assert_eq!(status, 403, "{path} {body}: {said}");
        assert!(said.contains(reason), "{path} {body}: {said}");
    }
    // A server with another's token is told, and the other one stays what it is.
    let confused = server("s3", &second);
    poll_until(PATIENCE, "a word about the name", || {
        confused.stderr_text().contains("wrong_name").then_some(())
    });
    let (status, _) = http::get(address, "/readyz").expect("an answer");
    assert_eq!(status, 200);
    let stored = client.get("key").map(|value| value.data);
    assert_eq!(stored, Some(b"value".to_vec()));
    drop(server_one);
}
