//! The API over real sockets: what it shows, and what it refuses.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::LazyLock;

use evenkeel_testkit::{poll_until, worker_ports};
use serde_json::{Value, json};

use crate::support::{DEADLINE, Running, args, beat, call, exchange, request};
use evenkeel_coordinator_core::limits::HEARTBEAT_LEN_MAX;

fn heartbeat() -> Value {
    static PORTS: LazyLock<Vec<u16>> = LazyLock::new(|| worker_ports(7, 2));
    json!({
        "cluster": "test", "kind": "server", "name": "s1", "boot": 7, "host": "127.0.0.1",
        "port": 11211, "worker_ports": *PORTS, "rack": null, "epoch": 0,
        "load": {"requests_per_second": [10.5, 20.0]},
    })
}

fn post(address: SocketAddr, body: &str) -> (u16, String) {
    beat(address, body)
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    call(address, "GET", path, "")
}

fn json_of(answer: (u16, String)) -> (u16, Value) {
    (answer.0, serde_json::from_str(&answer.1).unwrap())
}

fn assert_error(answer: (u16, String), status: u16, reason: &str) {
    let (got, body) = json_of(answer);
    assert_eq!(
        (got, body["error"]["reason"].as_str()),
        (status, Some(reason)),
        "{body}"
    );
    let message = body["error"]["message"].as_str().unwrap();
    assert!(
        !message.is_empty() && message.len() < 500 && !message.contains('\n'),
        "{message}"
    );
}

#[test]
fn every_path_shows_what_it_promises() {
    let running = Running::start(&args());
    let at = running.address;
    assert_eq!(get(at, "/healthz"), (200, "ok\n".into()));
    assert_error(get(at, "/readyz"), 503, "no_map");
    assert_error(get(at, "/api/v1/map"), 404, "no_map");

    let (status, answer) = json_of(post(at, &heartbeat().to_string()));
    assert_eq!(status, 200);
    assert_eq!(
        (&answer["server_id"], &answer["epoch"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(answer["map"]["epoch"], json!(1));
    assert_eq!(answer["settings"]["hot_keys"], json!("on"));
    assert!(answer["interval_ms"].as_u64().unwrap() > 0);
    let mut known = heartbeat();
    known["epoch"] = json!(1);
    let (_, again) = json_of(post(at, &known.to_string()));
    assert_eq!(
        (&again["server_id"], &again["map"]),
        (&json!(0), &Value::Null)
    );
    let mut proxy = known;
    proxy["kind"] = json!("proxy");
    proxy["worker_ports"] = json!([]);
    let (_, answer) = json_of(post(at, &proxy.to_string()));
    assert_eq!(answer["server_id"], Value::Null);

    assert_eq!(get(at, "/readyz"), (200, "ok\n".into()));
    let (_, map) = json_of(get(at, "/api/v1/map"));
    assert_eq!(map["virtual_nodes"].as_array().map(Vec::len), Some(4096));
    assert_eq!(map["cachelets"].as_array().map(Vec::len), Some(32));
    let (_, servers) = json_of(get(at, "/api/v1/servers"));
    let server = &servers["servers"][0];
    assert_eq!(
        (&server["name"], &server["up"]),
        (&json!("s1"), &json!(true))
    );
    assert_eq!(
        (&server["cachelets"], &server["epoch"]),
        (&json!(32), &json!(1))
    );
    assert_eq!(server["requests_per_second"], json!([10.5, 20.0]));
    let (_, proxies) = json_of(get(at, "/api/v1/proxies"));
    assert_eq!(proxies["proxies"][0]["name"], json!("s1"));
    let (_, events) = json_of(get(at, "/api/v1/events"));
    assert_eq!(events["events"][0]["cause"], json!("map_created"));
    assert_eq!(events["events"][0]["servers"], json!(["s1"]));

    let (_, hot) = json_of(get(at, "/api/v1/hotkeys"));
    assert_eq!((&hot["mode"], &hot["keys"]), (&json!("on"), &json!([])));
    assert_eq!(hot["with_replicas"]["max_rps"], json!(20.0));
    let balance = hot["with_replicas"]["max_over_mean"].as_f64();
    assert!(balance.is_some_and(|it| (it - 20.0 / 15.25).abs() < 1e-9));
    let mut with_news = heartbeat();
    with_news["hot_keys"] = json!({
        "keys": [{
            "worker": 1, "key": "page%20home", "state": "hot", "state_ms": 5, "rps": 11.0, "load_rps": 12.0, "gamma": 1,
            "shadows": [{"server": 0, "worker": 0}],
        }],
        "events": [{
            "worker": 1, "number": 2, "unix_ms": 7, "age_ms": 5, "deed": "promoted",
            "cause": "promoted", "key": "page%20home", "gamma_before": 0, "gamma": 1,
            "key_rps": 12.0, "key_share": 0.6, "expected_rps": 14.0, "after": null,
            "before": {"undiverted_rps": 20.0, "served_rps": 20.0, "mean_rps": 15.25},
        }],
    });
    assert_eq!(post(at, &with_news.to_string()).0, 200);
    let (_, hot) = json_of(get(at, "/api/v1/hotkeys"));
    assert_eq!(
        (&hot["keys"][0]["server"], &hot["keys"][0]["key"]),
        (&json!("s1"), &json!("page%20home"))
    );
    assert_eq!(hot["without_replicas"]["max_rps"], json!(20.0));
    assert_eq!(
        hot["with_replicas"]["max_rps"],
        json!(16.5),
        "6 of 12 went to a worker with 10.5"
    );
    let (_, log) = json_of(get(at, "/api/v1/hotkeys/events"));
    assert_eq!(log["events"][0]["deed"], json!("promoted"));
    assert_eq!(
        (&log["overwritten"], &log["missed"]),
        (&json!(0), &json!(1))
    );
    let (_, text) = get(at, "/metrics");
    for line in [
        "evenkeel_coordinator_hot_keys{state=\"replicated\"} 1",
        "evenkeel_coordinator_hot_key_events_total{outcome=\"missed\"} 1",
        "evenkeel_coordinator_hot_keys_mode{mode=\"on\"} 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }

    let (status, settings) = json_of(call(
        at,
        "PUT",
        "/api/v1/settings",
        r#"{"hot_keys":"observe"}"#,
    ));
    assert_eq!((status, &settings["hot_keys"]), (200, &json!("observe")));
    assert_eq!(json_of(get(at, "/api/v1/settings")).1, settings);
    let (_, answer) = json_of(post(at, &heartbeat().to_string()));
    assert_eq!(answer["settings"], settings);
}

/// A heartbeat of the server, that measures two of its cachelets.
fn measuring() -> Value {
    let mut heartbeat = heartbeat();
    let workers = heartbeat["worker_ports"].as_array().unwrap().len();
    let column = |value: u64| json!(vec![value; workers]);
    let names = [
        "load",
        "replica_load",
        "diverted_load",
        "busy_ppm",
        "memory_bytes",
    ];
    let names = names.iter().chain(&[
        "left_out",
        "left_out_load",
        "left_out_bytes",
        "replicated_keys",
    ]);
    let mut columns: Value = names.map(|name| ((*name).to_owned(), column(70))).collect();
    columns["worker"] = json!((0..workers).collect::<Vec<_>>());
    heartbeat["load"]["measured"] = json!({
        "memory_limit_bytes": 1000,
        "workers": columns,
        "cachelets": {
            "id": [0, 1], "worker": [0, 0], "load": [30, 40], "reads": [20, 30], "hits": [10, 30],
            "writes": [10, 10], "bytes_in": [5, 6], "bytes_out": [7, 8], "memory_bytes": [11, 12],
            "items": [1, 2], "from_the_future": [true, "x"],
        },
    });
    heartbeat
}

#[test]
fn loads_of_cachelets_are_shown() {
    let running = Running::start(&args());
    let at = running.address;
    // The first makes the map; a cachelet that is in no map has no load.
    post(at, &heartbeat().to_string());
    assert_eq!(post(at, &measuring().to_string()).0, 200);
    let (status, view) = json_of(get(at, "/api/v1/cachelets?sort=load&limit=1"));
    assert_eq!(status, 200);
    assert_eq!(view["cachelets"].as_array().unwrap().len(), 1);
    let hottest = &view["cachelets"][0];
    assert_eq!(
        (&hottest["cachelet"], &hottest["load"]),
        (&json!(1), &json!(40.0))
    );
    assert_eq!(
        (&hottest["hits_per_s"], &hottest["items"]),
        (&json!(30.0), &json!(2))
    );
    assert_eq!(view["servers"][0]["memory_limit_bytes"], json!(1000));
    let (_, text) = get(at, "/metrics");
    for part in [
        "_worker_load_rps{server=\"s1\",worker=\"0\",part=\"own\"} 70",
        "_worker_busy{server=\"s1\",worker=\"0\"} 0.00007",
        "_worker_memory_bytes{server=\"s1\",worker=\"0\"} 70",
        "_worker_cachelets{server=\"s1\",worker=\"0\",state=\"told\"} 2",
        "_worker_cachelets{server=\"s1\",worker=\"0\",state=\"left_out\"} 70",
        "_load_news_total{outcome=\"heard\"} 1",
    ] {
        let line = format!("evenkeel_coordinator{part}");
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    assert_error(get(at, "/api/v1/cachelets?sort=name"), 400, "bad_query");
    assert_error(get(at, "/api/v1/cachelets?sorted=load"), 400, "bad_query");
    assert_error(get(at, "/api/v1/cachelets?limit=-1"), 400, "bad_query");
}

#[test]
fn the_loads_of_the_last_seconds_are_shown_column_by_column() {
    let running = Running::start(&args());
    let at = running.address;
    post(at, &heartbeat().to_string());
    let heat = poll_until(DEADLINE, "a column with loads", || {
        post(at, &measuring().to_string());
        let (status, heat) = json_of(get(at, "/api/v1/heat?columns=2"));
        assert_eq!(status, 200);
        let columns = heat["columns"].as_array().unwrap();
        assert!(columns.len() <= 2);
        let is_told = columns.last()?["cachelets"][1] == json!(40);
        is_told.then_some(heat)
    });
    assert_eq!(heat["workers"][0], json!({"server": "s1", "worker": 0}));
    let last = heat["columns"].as_array().unwrap().last().unwrap();
    // Its own 70 and the replicas' 70.
    assert_eq!(
        (&last["workers"][0], &last["owners"][1]),
        (&json!(140), &json!(0))
    );
    assert_eq!(last["cachelets"][2], Value::Null);
    assert_error(get(at, "/api/v1/heat?columns=all"), 400, "bad_query");
    assert_error(get(at, "/api/v1/heat?rows=3"), 400, "bad_query");
}

#[test]
fn metrics_count_members_changes_and_refusals() {
    let running = Running::start(&args());
    let at = running.address;
    post(at, &heartbeat().to_string());
    post(at, &heartbeat().to_string());
    post(at, "{");
    post(at, &heartbeat().to_string().replace("\"test\"", "\"live\""));
    let (_, text) = get(at, "/metrics");
    for line in [
        "evenkeel_coordinator_epoch 1",
        "evenkeel_coordinator_servers{state=\"up\"} 1",
        "evenkeel_coordinator_servers{state=\"down\"} 0",
        "evenkeel_coordinator_cachelets{state=\"owned\"} 32",
        "evenkeel_coordinator_hot_keys_enabled 1",
        "evenkeel_coordinator_heartbeats_total{kind=\"server\"} 2",
        "evenkeel_coordinator_heartbeats_total{kind=\"proxy\"} 0",
        "evenkeel_coordinator_refusals_total{reason=\"wrong_cluster\"} 1",
        "evenkeel_coordinator_refusals_total{reason=\"bad_load\"} 0",
        "evenkeel_coordinator_bad_requests_total{reason=\"bad_json\"} 1",
        "evenkeel_coordinator_map_changes_total{cause=\"map_created\"} 1",
        "evenkeel_coordinator_state_saves_total{outcome=\"failed\"} 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    let mut declared = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            declared.push(rest.split(' ').next().unwrap());
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let name = name.split('{').next().unwrap();
            assert_eq!(declared.last(), Some(&name), "declared just before");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
    declared.sort_unstable();
    assert!(
        declared.windows(2).all(|pair| pair[0] != pair[1]),
        "declared once"
    );
}

#[test]
fn bad_bodies_are_refused_with_their_reason_and_leave_no_trace() {
    let running = Running::start(&args());
    let at = running.address;
    let good = heartbeat().to_string();
    let of_another = good.replace("\"test\"", "\"live\"");
    let cases = [
        (400, "bad_json", String::new()),
        (400, "bad_json", format!("{good}{good}")),
        (400, "bad_json", "\0\u{1}\u{2}".into()),
        (400, "bad_json", "[".repeat(10_000)),
        (400, "bad_load", good.replace("10.5", "-10.5")),
        (409, "wrong_cluster", of_another),
        (
            413,
            "too_long",
            good.replace("null", &format!("\"{}\"", "r".repeat(HEARTBEAT_LEN_MAX))),
        ),
        (413, "too_long", " ".repeat(10 << 20)),
    ];
    for (status, reason, body) in cases {
        assert_error(post(at, &body), status, reason);
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let answer = exchange(at, &request("POST", "/api/v1/heartbeat", kind, &good));
        assert!(
            answer.starts_with("HTTP/1.1 415 ") && answer.contains("not_json"),
            "{answer}"
        );
    }
    let unknown = call(at, "PUT", "/api/v1/settings", r#"{"hotkeys":"off"}"#);
    assert_error(unknown, 400, "bad_settings");
    assert_error(call(at, "PUT", "/api/v1/settings", "[]"), 400, "bad_json");
    assert_error(get(at, "/api/v2/map"), 404, "not_found");
    // Whichever byte of a letter a cut might fall on.
    for pad in 0..3 {
        let path = format!("/{}{}", "a".repeat(97 + pad), "\u{20ac}".repeat(9));
        assert_error(get(at, &path), 404, "not_found");
    }
    assert_error(
        get(at, &format!("/{}", "x".repeat(5_000))),
        404,
        "not_found",
    );
    assert_error(call(at, "DELETE", "/api/v1/map", ""), 405, "bad_method");
    assert_error(get(at, "/api/v1/heartbeat"), 405, "bad_method");

    let (_, servers) = json_of(get(at, "/api/v1/servers"));
    assert_eq!(servers, json!({"epoch": 0, "servers": []}));
    assert_eq!(post(at, &good).0, 200);
}

#[test]
fn a_body_of_unknown_length_is_cut_off_at_the_limit() {
    let running = Running::start(&args());
    let mut endless = b"POST /api/v1/heartbeat HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\
        content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        .to_vec();
    let chunk = format!("{:x}\r\n{}\r\n", 0x8000, " ".repeat(0x8000));
    let chunks = HEARTBEAT_LEN_MAX / 0x8000 + 8;
    (0..chunks).for_each(|_| endless.extend_from_slice(chunk.as_bytes()));
    let answer = exchange(running.address, &endless);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[test]
fn what_is_not_http_gets_nothing_and_hurts_nobody() {
    let running = Running::start(&args());
    let at = running.address;
    let tls_hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(20);
    let huge_header = [b"GET / HTTP/1.1\r\nx: ".as_slice(), &[b'x'; 100_000]].concat();
    let many_headers = [b"GET / HTTP/1.1\r\n".as_slice(), &b"a: b\r\n".repeat(5_000)].concat();
    for garbage in [
        b"get key\r\n".as_slice(),
        b"\x80\x00\x00\x03".repeat(100).as_slice(),
        &tls_hello,
        b"\r\n\r\n\r\nGET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /api/v1/heartbeat HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /api/v1/heartbeat HTTP/1.1\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        &huge_header,
        &many_headers,
    ] {
        let answer = exchange(at, garbage);
        let refused = answer.is_empty() || answer.starts_with("HTTP/1.1 4");
        assert!(refused, "{answer}");
    }
    assert_eq!(get(at, "/healthz").0, 200);
}

#[test]
fn peers_that_send_slowly_hold_up_nobody() {
    let running = Running::start(&args());
    let half = b"POST /api/v1/heartbeat HTTP/1.1\r\nhost: t\r\ncontent-length: 9\r\n\r\n{";
    let slow: Vec<TcpStream> = (1..100)
        .map(|n| {
            let mut stream = TcpStream::connect(running.address).unwrap();
            stream.write_all(&half[..half.len() * n / 100]).unwrap();
            stream
        })
        .collect();
    assert_eq!(post(running.address, &heartbeat().to_string()).0, 200);
    drop(running);
    for mut stream in slow {
        // Stopping does not wait for them either; it ends them.
        stream
            .set_read_timeout(Some(crate::support::DEADLINE))
            .unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
}

#[test]
fn nothing_is_told_that_is_not_saved() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let running = Running::start(&evenkeel_coordinator::Args {
        state: Some(state.clone()),
        ..args()
    });
    let at = running.address;
    // A directory where the temporary file should be makes saving fail, for root too.
    let blocker = dir.path().join("state.tmp");
    std::fs::create_dir(&blocker).unwrap();
    assert_error(post(at, &heartbeat().to_string()), 503, "unsaved");
    assert_error(get(at, "/api/v1/map"), 503, "unsaved");
    assert_error(get(at, "/readyz"), 503, "unsaved");
    assert_error(
        call(at, "PUT", "/api/v1/settings", r#"{"hot_keys":"off"}"#),
        503,
        "unsaved",
    );
    assert_eq!(get(at, "/healthz").0, 200);
    let (_, text) = get(at, "/metrics");
    assert!(
        !text.contains("state_saves_total{outcome=\"failed\"} 0"),
        "{text}"
    );
    std::fs::remove_dir(&blocker).unwrap();
    let (status, answer) = json_of(post(at, &heartbeat().to_string()));
    assert_eq!((status, &answer["epoch"]), (200, &json!(1)));
    assert_eq!(get(at, "/readyz").0, 200);
}
