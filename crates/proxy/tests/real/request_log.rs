//! The log of requests as a file: its lines, its rotation, and that nothing waits for it.

use crate::in_process::{connect, parsed};
use crate::patience::{FLAGS, PATIENCE};
use evenkeel_proxy::Proxy;
use evenkeel_testkit::{Memcached, http, poll_until};
use rustix::fs::{Mode, mkfifoat};
use serde_json::Value;
use std::io::Read;
use std::path::Path;

fn start(memcached: &Memcached, log: &Path, more: &[&str]) -> Proxy {
    let servers = memcached.address().to_string();
    let log = log.to_str().expect("UTF-8");
    let line = ["proxy", "-l", "127.0.0.1:0", "-s", &servers, "-t", "1"];
    let log = ["--request-log", log, "--admin", "127.0.0.1:0"];
    let line = line.iter().chain(&log).chain(&FLAGS).chain(more);
    Proxy::start(&parsed(line)).expect("the proxy starts")
}

/// The lines of a file, once there are this many.
fn lines(path: &Path, count: usize) -> Vec<Value> {
    poll_until(PATIENCE, "the lines to be written", || {
        let text = std::fs::read_to_string(path).ok()?;
        let lines: Vec<_> = text.lines().collect();
        (lines.len() >= count && text.ends_with('\n')).then(|| {
            let lines = lines.into_iter();
            lines
                .map(|line| serde_json::from_str(line).expect("JSON"))
                .collect()
        })
    })
}

#[test]
fn every_request_is_a_line_and_a_renamed_file_gets_no_more() {
    let memcached = Memcached::spawn(&[]);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("requests.jsonl");
    let proxy = start(&memcached, &path, &["--request-log-sample", "1"]);
    let mut client = connect(&proxy);
    assert_eq!(client.set("key", b"value"), "STORED");
    assert!(client.get("key").is_some());
    let first = lines(&path, 2);
    assert_eq!(
        (&first[0]["command"], &first[0]["outcome"]),
        (&"set".into(), &"stored".into())
    );
    let get = &first[1];
    assert_eq!(
        (&get["command"], &get["outcome"]),
        (&"get".into(), &"hit".into())
    );
    assert_eq!((&get["key"], &get["route"]), (&"key".into(), &"1".into()));
    assert_eq!(get["server"], memcached.address().to_string());
    let from = get["client"].as_str().expect("an address");
    assert!(from.starts_with("127.0.0.1:"), "{get}");
    let took = get["took_us"].as_u64().expect("a time");
    let parts = ["queue_us", "answer_us"].map(|part| get[part].as_u64().expect("a time"));
    assert!(took.abs_diff(parts[0] + parts[1]) <= 1, "{get}");
    let age = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs_f64()
        - get["time"].as_f64().expect("a time");
    assert!((-1.0..60.0).contains(&age), "{get}");

    let rotated = dir.path().join("requests.1");
    std::fs::rename(&path, &rotated).expect("a rename");
    proxy.reopen_log();
    poll_until(PATIENCE, "the file to be made anew", || {
        path.exists().then_some(())
    });
    assert_eq!(client.get("other"), None);
    assert_eq!(lines(&path, 1)[0]["outcome"], "miss");
    assert_eq!(lines(&rotated, 2).len(), 2);
    poll_until(PATIENCE, "all to be counted", || {
        let stats = client.stats("proxy");
        assert_eq!(&*stats["request_log_dropped"], "0");
        (stats["request_log_written"] == "3").then_some(())
    });
    proxy.stop().expect("it stops");
}

/// A pipe that nobody reads takes 64 KiB, and then nothing.
#[test]
fn requests_do_not_wait_for_a_log_that_takes_no_more() {
    const COUNT: usize = 20_000;
    let memcached = Memcached::spawn(&[]);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("pipe");
    mkfifoat(rustix::fs::CWD, &path, Mode::from_raw_mode(0o600)).expect("a pipe");
    // Opened for both, so that opening it waits for nobody.
    let mut options = std::fs::OpenOptions::new();
    let mut pipe = options
        .read(true)
        .write(true)
        .open(&path)
        .expect("it is there");
    let proxy = start(&memcached, &path, &["--request-log-sample", "1"]);
    let mut client = connect(&proxy);
    // Different keys: identical gets become one.
    let gets: String = (0..100).map(|key| format!("get {key}\r\n")).collect();
    for _ in 0..COUNT / 100 {
        client.send(gets.as_bytes());
        for _ in 0..100 {
            assert_eq!(client.line(), "END");
        }
    }
    let admin = proxy.admin_address().expect("it was asked for");
    let count = |name: &str| -> usize {
        let (_, text) = http::get(admin, "/metrics").expect("an answer");
        let name = format!("evenkeel_proxy_request_log_{name}_total ");
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(&name));
        lines
            .next()
            .expect("it is there")
            .parse()
            .expect("a number")
    };
    // The worker has answered, and so has offered, all when it answers this.
    count("dropped");
    let dropped = count("dropped");
    assert!(dropped > 0, "the queue has room for fewer");
    // What was not dropped comes through once somebody reads.
    let mut whole = 0;
    let mut chunk = [0; 64 << 10];
    while whole + dropped < COUNT {
        let len = pipe.read(&mut chunk).expect("it has more");
        whole += chunk[..len].iter().filter(|byte| **byte == b'\n').count();
    }
    assert_eq!(whole + dropped, COUNT);
    poll_until(PATIENCE, "the last write to be counted", || {
        (count("written") == whole).then_some(())
    });
    assert_eq!(count("dropped"), dropped);
    proxy.stop().expect("it stops");
}

#[test]
fn a_log_that_cannot_be_opened_is_refused_at_the_start() {
    let memcached = Memcached::spawn(&[]);
    let servers = memcached.address().to_string();
    let line = ["proxy", "-l", "127.0.0.1:0", "-s", &servers];
    let line = line.iter().chain(&["--request-log", "/nowhere/at/all"]);
    let error = Proxy::start(&parsed(line)).expect_err("no such folder");
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}
