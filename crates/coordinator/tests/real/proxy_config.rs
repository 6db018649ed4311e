//! Configurations of proxies: kept, judged, followed.

use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel_coordinator::access::Access;
use evenkeel_coordinator::api::limits::{PROXY_CONFIG_LEN_MAX, PROXY_CONFIGS_MAX};
use evenkeel_coordinator::api::proxy_config::{Expected, ProxyConfigId, RefusedProxyConfig};
use evenkeel_coordinator::client::{ApiClient, ClientError};
use evenkeel_coordinator::follow::{FollowConfig, FollowEvent, Followed, Follower};
use evenkeel_types::BootId;
use serde_json::{Value, json};

use crate::support::{DEADLINE, Running, args, call, exchange};

const PATH: &str = "/api/v1/proxy-config";

/// Status, `ETag` and body.
fn ask(at: SocketAddr, method: &str, path: &str, more: &str, body: &[u8]) -> (u16, String, String) {
    let len = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{more}content-length: {len}\r\n\r\n"
    );
    let answer = exchange(at, &[head.as_bytes(), body].concat());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: "));
    let tag = tag.unwrap_or_default().to_owned();
    (status.expect("a status"), tag, body.to_owned())
}

fn put(at: SocketAddr, more: &str, text: &str) -> (u16, String, String) {
    ask(at, "PUT", PATH, more, text.as_bytes())
}

fn reason(answer: &(u16, String, String)) -> (u16, String) {
    let body: Value = serde_json::from_str(&answer.2).expect("JSON");
    let reason = body["error"]["reason"].as_str().expect("a reason");
    (answer.0, reason.to_owned())
}

fn client(at: SocketAddr) -> ApiClient {
    let client = ApiClient::new(&at.to_string()).unwrap();
    client.with_timeout(DEADLINE)
}

#[test]
fn a_text_is_kept_by_revision_and_changed_only_by_who_knows_it() {
    let running = Running::start(&args());
    let at = running.address;
    let none = ask(at, "GET", PATH, "", b"");
    assert_eq!(reason(&none), (404, "no_proxy_config".into()));
    let first = put(at, "if-none-match: *\r\n", "a = 1\n");
    assert_eq!((first.0, first.1.as_str()), (200, "\"1\""));
    assert_eq!(
        serde_json::from_str::<Value>(&first.2).unwrap(),
        json!({"name": "default", "revision": 1, "bytes": 6})
    );
    let got = ask(at, "GET", PATH, "", b"");
    assert_eq!(got, (200, "\"1\"".into(), "a = 1\n".into()));
    for condition in ["if-none-match: *\r\n", "if-match: \"7\"\r\n"] {
        let refused = put(at, condition, "a = 2\n");
        assert_eq!(reason(&refused), (412, "changed".into()), "{condition}");
    }
    assert_eq!(put(at, "if-match: \"1\"\r\n", "a = 2\n").1, "\"2\"");
    assert_eq!(put(at, "", "a = 3\n").1, "\"3\"");
    assert_eq!(put(at, "", "a = 3\n").1, "\"3\"", "nothing has changed");
    let other = format!("{PATH}?name=site-b");
    assert_eq!(ask(at, "PUT", &other, "", b"b = 1\n").1, "\"4\"");
    let (_, list) = call(at, "GET", "/api/v1/proxy-configs", "");
    let expected = json!({"configs": [
        {"name": "default", "revision": 3, "bytes": 6},
        {"name": "site-b", "revision": 4, "bytes": 6},
    ]});
    assert_eq!(serde_json::from_str::<Value>(&list).unwrap(), expected);
    let removed = ask(at, "DELETE", &other, "if-match: \"3\"\r\n", b"");
    assert_eq!(reason(&removed), (412, "changed".into()));
    assert_eq!(ask(at, "DELETE", &other, "if-match: \"4\"\r\n", b"").0, 200);
    assert_eq!(ask(at, "GET", &other, "", b"").0, 404);
    let removed = ask(at, "DELETE", &other, "", b"");
    assert_eq!(reason(&removed), (404, "no_proxy_config".into()));
    assert_eq!(ask(at, "PUT", &other, "", b"b = 1\n").1, "\"5\"");
}

#[test]
fn what_cannot_be_used_is_refused_with_its_place_and_leaves_no_trace() {
    let running = Running::start(&args());
    let at = running.address;
    put(at, "", "good = 1\n");
    let refused = put(at, "", "a = 1\nunusable\n");
    assert_eq!(reason(&refused), (422, "bad_proxy_config".into()));
    let body: Value = serde_json::from_str(&refused.2).unwrap();
    let error = &body["error"];
    assert_eq!(error["message"], "2:1: it says so itself");
    let problem = json!({"line": 2, "column": 1, "message": "it says so itself"});
    assert_eq!(error["problems"], json!([problem]));
    let refused = ask(at, "PUT", PATH, "", b"a = 1\nb = \"\xff\"\n");
    let body: Value = serde_json::from_str(&refused.2).unwrap();
    assert_eq!(body["error"]["problems"][0]["line"], 2);
    let long = "#".repeat(PROXY_CONFIG_LEN_MAX + 1);
    assert_eq!(reason(&put(at, "", &long)), (413, "too_long".into()));
    for condition in [
        "if-match: x\r\n",
        "if-none-match: \"1\"\r\n",
        "if-match: \"1\"\r\nif-none-match: *\r\n",
    ] {
        let refused = put(at, condition, "a = 1\n");
        assert_eq!(
            reason(&refused),
            (400, "bad_condition".into()),
            "{condition}"
        );
    }
    for (query, why) in [
        ("name=a%20b", "bad_name"),
        ("name=", "bad_name"),
        ("nam=a", "bad_query"),
        ("dry_run=maybe", "bad_query"),
    ] {
        let refused = ask(at, "PUT", &format!("{PATH}?{query}"), "", b"a = 1\n");
        assert_eq!(reason(&refused), (400, why.into()), "{query}");
    }
    let tried = ask(at, "PUT", &format!("{PATH}?dry_run=true"), "", b"a = 9\n");
    assert_eq!((tried.0, tried.1.as_str()), (200, "\"1\""), "tried alone");
    for body in ["", "{}", "[]", r#"{"config":"default","proxy":"p"}"#] {
        let (status, _) = call(at, "POST", "/api/v1/proxy-config/follow", body);
        assert_eq!(status, 400, "{body}");
    }
    assert_eq!(ask(at, "POST", PATH, "", b"").0, 405);
    let got = ask(at, "GET", PATH, "", b"");
    assert_eq!(got, (200, "\"1\"".into(), "good = 1\n".into()));
    for n in 1..PROXY_CONFIGS_MAX {
        let path = format!("{PATH}?name=n{n}");
        assert_eq!(ask(at, "PUT", &path, "", b"a = 1\n").0, 200);
    }
    let refused = ask(at, "PUT", &format!("{PATH}?name=more"), "", b"a = 1\n");
    assert_eq!(reason(&refused), (503, "too_many_proxy_configs".into()));
    let (_, metrics) = call(at, "GET", "/metrics", "");
    for line in [
        "evenkeel_coordinator_proxy_configs 16",
        "evenkeel_coordinator_proxy_config_changes_total{outcome=\"done\"} 16",
        "evenkeel_coordinator_proxy_config_changes_total{outcome=\"conflict\"} 0",
        "evenkeel_coordinator_proxy_config_changes_total{outcome=\"unusable\"} 2",
    ] {
        assert!(
            metrics.lines().any(|l| l == line),
            "{line} is not in\n{metrics}"
        );
    }
}

/// A proxy that takes over what it is offered, unless it says "refuse".
fn follower(at: SocketAddr) -> (Follower, std::sync::mpsc::Receiver<FollowEvent>) {
    let config = FollowConfig {
        access: Access::default(),
        coordinators: vec![at.to_string()],
        config: "default".into(),
        proxy: "p1".into(),
        boot: BootId(9),
        host: "127.0.0.1".into(),
        port: 11211,
        seed: 1,
    };
    let followed = Arc::new(Mutex::new(Followed::default()));
    let (sender, events) = channel();
    let report = {
        let followed = Arc::clone(&followed);
        move || followed.lock().unwrap().clone()
    };
    let follower = Follower::start(config, report, move |event| {
        if let FollowEvent::Offered(document) = &event {
            let mut followed = followed.lock().unwrap();
            followed.seen = Some(document.id);
            if document.text.contains("refuse") {
                followed.refused = Some(RefusedProxyConfig {
                    revision: document.id.revision,
                    reason: "not here".into(),
                });
            } else {
                followed.in_force = Some(document.id);
                followed.refused = None;
            }
        }
        let _ = sender.send(event);
    });
    (follower.unwrap(), events)
}

fn await_offer(events: &std::sync::mpsc::Receiver<FollowEvent>) -> (ProxyConfigId, String) {
    let until = Instant::now() + DEADLINE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if let FollowEvent::Offered(document) = events.recv_timeout(left).expect("an offer") {
            return (document.id, document.text);
        }
    }
}

#[test]
fn a_change_reaches_who_follows_at_once_and_the_operator_sees_who_runs_what() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = args();
    args.state = Some(dir.path().join("state"));
    let running = Running::start(&args);
    let api = client(running.address);
    let (first, events) = follower(running.address);
    assert_eq!(
        api.put_proxy_config("default", "a = 1\n", Expected::Nothing, false),
        Ok(1)
    );
    let (id, text) = await_offer(&events);
    assert_eq!((id.revision, text.as_str()), (1, "a = 1\n"));
    let long = "# ".repeat(PROXY_CONFIG_LEN_MAX / 2);
    assert_eq!(
        api.put_proxy_config("default", &long, Expected::Revision(1), false),
        Ok(2)
    );
    assert_eq!(await_offer(&events).1, long);
    let refused = "refuse = true\n";
    assert_eq!(
        api.put_proxy_config("default", refused, Expected::Anything, false),
        Ok(3)
    );
    await_offer(&events);
    let seen = asked_until(|| {
        let proxies = api.proxies().unwrap().proxies;
        let config = proxies.first()?.config.clone()?;
        config
            .refused
            .is_some()
            .then_some((proxies[0].clone(), config))
    });
    assert_eq!(
        (seen.0.name.as_str(), seen.0.up, seen.0.port),
        ("p1", true, 11211)
    );
    assert_eq!((seen.1.revision, seen.1.newest), (2, 3));
    assert_eq!(seen.1.refused.unwrap().reason, "not here");
    drop(first);
    // All of it is there after a restart, in the same series.
    let lineage = id.lineage;
    drop(running);
    let running = Running::start(&args);
    let api = client(running.address);
    let document = api.proxy_config("default").unwrap();
    assert_eq!(
        (document.text.as_str(), document.id),
        (
            refused,
            ProxyConfigId {
                lineage,
                revision: 3
            }
        )
    );
    let missing = api.proxy_config("other").unwrap_err();
    assert!(
        matches!(missing, ClientError::Refused { status: 404, .. }),
        "{missing}"
    );
    assert_eq!(
        api.remove_proxy_config("default", Expected::Revision(3)),
        Ok(())
    );
    assert_eq!(
        api.put_proxy_config("default", "a = 1\n", Expected::Nothing, false),
        Ok(4)
    );
    let unusable = api.put_proxy_config("default", "a = 1\nunusable\n", Expected::Anything, true);
    match unusable.unwrap_err() {
        ClientError::Refused { problems, .. } => assert_eq!(problems[0].line, 2),
        error => panic!("{error}"),
    }
}

/// Asks until there is an answer.
fn asked_until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < until, "it never comes");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}
