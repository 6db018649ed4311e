//! The page and what it is told, over real sockets.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use evenkeel_testkit::poll_until;
use serde_json::{Value, json};

use crate::support::{DEADLINE, Member, Running, args, call, exchange};

/// Viewers at one time, as docs/page.md says.
const VIEWERS_MAX: usize = 64;

/// Somebody who looks.
struct Viewer {
    stream: BufReader<TcpStream>,
}

impl Viewer {
    fn join(address: SocketAddr) -> Viewer {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let request = format!("GET /api/v1/stream HTTP/1.1\r\nhost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        Viewer {
            stream: BufReader::new(stream),
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).unwrap();
        assert!(read > 0, "the stream has ended");
        line
    }

    fn status(&mut self) -> String {
        self.line()
    }

    /// The next snapshot. What stands between events are heads and the lengths of chunks.
    fn snapshot(&mut self) -> Value {
        loop {
            if let Some(event) = self.line().strip_prefix("data: ") {
                return serde_json::from_str(event).unwrap();
            }
        }
    }
}

fn metric(address: SocketAddr, name: &str) -> String {
    let (_, text) = call(address, "GET", "/metrics", "");
    let name = format!("evenkeel_coordinator_{name} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("no {name}")).to_owned()
}

#[test]
fn all_viewers_are_told_the_same_snapshot_each_second() {
    let running = Running::start(&args());
    let at = running.address;
    let member = Member::server(at, 1);
    member.wait_map("a map", |_| true);
    let (mut one, mut other) = (Viewer::join(at), Viewer::join(at));
    assert!(one.status().starts_with("HTTP/1.1 200"));
    let first = one.snapshot();
    let (_, servers) = call(at, "GET", "/api/v1/servers", "");
    let servers: Value = serde_json::from_str(&servers).unwrap();
    let told = &first["servers"]["servers"][0];
    for field in ["name", "host", "port", "up", "cachelets", "boot"] {
        assert_eq!(told[field], servers["servers"][0][field], "{field}");
    }
    assert_eq!(first["events"][0]["cause"], json!("map_created"));
    // Each has a moment in which the other has the very same.
    let moments: Vec<Value> = (0..3).map(|_| one.snapshot()).collect();
    poll_until(DEADLINE, "a snapshot that both are told", || {
        moments.contains(&other.snapshot()).then_some(())
    });
    assert_eq!(metric(at, "viewers"), "2");
}

#[test]
fn a_viewer_too_many_is_told_so_and_finds_room_when_another_goes() {
    let running = Running::start(&args());
    let at = running.address;
    let mut viewers: Vec<Viewer> = (0..VIEWERS_MAX).map(|_| Viewer::join(at)).collect();
    for viewer in &mut viewers {
        assert!(viewer.status().starts_with("HTTP/1.1 200"));
    }
    let (status, body) = call(at, "GET", "/api/v1/stream", "");
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("too_many_viewers"), "{body}");
    assert_eq!(metric(at, "viewers"), "64");
    assert_eq!(metric(at, "viewers_refused_total"), "1");
    drop(viewers.pop());
    poll_until(DEADLINE, "the place of who has gone", || {
        let mut viewer = Viewer::join(at);
        viewer.status().starts_with("HTTP/1.1 200").then_some(())
    });
    drop(viewers);
    poll_until(DEADLINE, "nobody to look", || {
        (metric(at, "viewers") == "0").then_some(())
    });
}

#[test]
fn the_page_comes_with_a_policy_that_lets_nothing_in_from_elsewhere() {
    let running = Running::start(&args());
    for (path, kind) in [
        ("/", "text/html"),
        ("/page.js", "text/javascript"),
        ("/page.css", "text/css"),
        ("/icon.svg", "image/svg+xml"),
    ] {
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        let answer = exchange(running.address, request.as_bytes()).to_lowercase();
        assert!(answer.starts_with("http/1.0 200"), "{answer}");
        for head in [
            &format!("content-type: {kind}"),
            "content-security-policy: default-src 'self';",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
        ] {
            assert!(answer.contains(head), "{path}: {head}");
        }
    }
}
