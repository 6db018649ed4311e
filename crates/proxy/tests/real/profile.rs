//! The profile as a file: what it says of real servers, that it ends, and that nothing waits for it.

use crate::in_process::{connect, parsed};
use crate::patience::{FLAGS, PATIENCE};
use evenkeel_profile::{Flags, Head, Lifetime, NO_RACK, RECORD_LEN, Record, Sampling};
use evenkeel_proxy::Proxy;
use evenkeel_schemes::locality::Outcome;
use evenkeel_testkit::{Memcached, http, poll_until};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

fn start(memcached: &Memcached, profile: &Path, more: &[&str]) -> Proxy {
    let servers = memcached.address().to_string();
    let profile = profile.to_str().expect("UTF-8");
    let line = ["proxy", "-l", "127.0.0.1:0", "-s", &servers, "-t", "1"];
    let profile = ["--profile", profile, "--admin", "127.0.0.1:0"];
    let line = line.iter().chain(&profile).chain(&FLAGS).chain(more);
    Proxy::start(&parsed(line)).expect("the proxy starts")
}

/// A file that is whole.
fn read(path: &Path) -> (Head, Vec<Record>) {
    let bytes = std::fs::read(path).expect("a file");
    let (head, len) = Head::of_bytes(&bytes).expect("a head");
    let (records, rest) = bytes[len..].as_chunks::<RECORD_LEN>();
    assert_eq!(rest.len(), 0, "whole records");
    let records = records
        .iter()
        .map(|it| Record::of_bytes(it).expect("a record"));
    (head, records.collect())
}

fn counted(admin: SocketAddr, name: &str) -> u64 {
    let (_, text) = http::get(admin, "/metrics").expect("an answer");
    let name = format!("evenkeel_proxy_profile_{name}_total ");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(&name));
    let count = lines.next().expect("it is there");
    count.parse().expect("a number")
}

#[test]
fn a_full_profile_says_what_the_client_did() {
    let memcached = Memcached::spawn(&[]);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("p.profile");
    let proxy = start(&memcached, &path, &["--profile-full", "--name", "p1"]);
    let mut client = connect(&proxy);
    let mut said = Vec::new();
    for (line, answers) in [
        ("set a 0 100 3\r\nabc\r\n", 1),
        ("get a b c\r\n", 3),
        ("add a 0 0 1\r\nx\r\n", 1),
        ("incr n 1\r\n", 1),
        ("delete a\r\n", 1),
        ("mg a v\r\n", 1),
        ("touch b 9\r\n", 1),
    ] {
        client.send(line.as_bytes());
        for _ in 0..answers {
            said.push(client.line());
        }
    }
    assert_eq!(
        said,
        [
            "STORED",
            "VALUE a 0 3",
            "abc",
            "END",
            "NOT_STORED",
            "NOT_FOUND",
            "DELETED",
            "EN",
            "NOT_FOUND"
        ]
    );
    let now_us = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_micros() as u64;
    // What is not written yet is when it stops.
    proxy.stop().expect("it stops");
    let (head, records) = read(&path);
    assert_eq!((&*head.proxy, head.sampling), ("p1", Sampling::FULL));
    assert_eq!(head.pools, ["default"]);
    let outcomes: Vec<_> = records.iter().map(|it| it.outcome).collect();
    assert_eq!(
        outcomes,
        [
            Outcome::SetHit,
            Outcome::GetHit,
            Outcome::GetMiss,
            Outcome::GetMiss,
            Outcome::AddMiss,
            Outcome::IncrMiss,
            Outcome::DeleteHit,
            Outcome::GetMiss,
            Outcome::GetMiss,
        ]
    );
    assert_eq!(records[0].lifetime, Lifetime::of_seconds(100));
    assert_eq!((records[1].request_bytes, records[1].answer_bytes), (2, 18));
    for record in &records {
        assert!(now_us.abs_diff(record.unix_us) < 60_000_000, "{record:?}");
        assert!(record.latency().is_some_and(|us| us < 60_000_000));
        assert!(record.flags.has(Flags::OF_PAGES) && record.flags.has(Flags::OF_KEYS));
        assert_eq!((record.own_rack, record.answering_rack), (NO_RACK, NO_RACK));
        assert_eq!(record.session, records[0].session);
    }
}

/// `/dev/full` takes nothing, and says so.
#[test]
fn records_that_the_disk_has_no_room_for_are_counted_and_nobody_waits() {
    let memcached = Memcached::spawn(&[]);
    let proxy = start(&memcached, Path::new("/dev/full"), &["--profile-full"]);
    let mut client = connect(&proxy);
    let line = format!("get {}\r\n", ["k"; 64].join(" "));
    for _ in 0..64 {
        client.send(line.as_bytes());
        assert_eq!(client.line(), "END");
    }
    let admin = proxy.admin_address().expect("it was asked for");
    poll_until(PATIENCE, "all to be dropped", || {
        assert_eq!(client.get("k"), None);
        (counted(admin, "dropped") >= 4096).then_some(())
    });
    assert_eq!(counted(admin, "records"), 0);
    proxy.stop().expect("it stops");
}

#[test]
fn the_oldest_part_goes_and_what_is_there_is_whole() {
    const MAX: u64 = 1 << 20;
    let memcached = Memcached::spawn(&[]);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("p.profile");
    let before = dir.path().join("p.profile.1");
    // What another one has left is the part before.
    std::fs::write(&path, "of another").expect("a file");
    let flags = ["--profile-full", "--profile-max", "1m"];
    let proxy = start(&memcached, &path, &flags);
    assert_eq!(std::fs::read(&before).expect("a file"), b"of another");
    let mut client = connect(&proxy);
    let mut sent = 0;
    let mut most: u64 = 0;
    // Three times as many records as there is room for.
    while sent * RECORD_LEN < 3 * MAX as usize {
        let keys: Vec<String> = (0..100).map(|key| format!("k{key}")).collect();
        client.send(format!("get {}\r\n", keys.join(" ")).as_bytes());
        assert_eq!(client.line(), "END");
        sent += keys.len();
        let len = |path| std::fs::metadata(path).map_or(0, |it| it.len());
        most = most.max(len(&path) + len(&before));
    }
    assert!(most <= MAX, "{most}");
    // What is not written yet is when it stops.
    proxy.stop().expect("it stops");
    let (head, last) = read(&path);
    let (head_before, first) = read(&before);
    assert_eq!(head, head_before);
    let kept = last.len() + first.len();
    assert!(
        kept < sent && kept * RECORD_LEN > MAX as usize / 2,
        "{kept} of {sent}"
    );
    let times: Vec<u64> = first.iter().chain(&last).map(|it| it.unix_us).collect();
    assert!(times.is_sorted(), "of one worker");
    // Keys were asked for in turn.
    let counts = first
        .iter()
        .chain(&last)
        .fold(BTreeMap::new(), |mut counts, record| {
            *counts.entry(record.key).or_insert(0usize) += 1;
            counts
        });
    assert_eq!(counts.len(), 100);
    assert!(
        counts.values().all(|count| count.abs_diff(kept / 100) <= 1),
        "{counts:?}"
    );
}

#[test]
fn a_renamed_profile_gets_no_more_and_another_begins() {
    let memcached = Memcached::spawn(&[]);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("p.profile");
    let proxy = start(&memcached, &path, &["--profile-full"]);
    proxy.reopen_log();
    let renamed = dir.path().join("kept");
    std::fs::rename(&path, &renamed).expect("a rename");
    proxy.reopen_log();
    poll_until(PATIENCE, "the file to be made anew", || {
        path.exists().then_some(())
    });
    let mut client = connect(&proxy);
    assert_eq!(client.get("k"), None);
    proxy.stop().expect("it stops");
    assert_eq!(read(&path).1.len(), 1);
    assert_eq!(read(&renamed).1.len(), 0);
}

#[test]
fn a_profile_that_cannot_be_made_is_refused_at_the_start() {
    let line = ["proxy", "-l", "127.0.0.1:0", "-s", "127.0.0.1:1"];
    let line = line.iter().chain(&["--profile", "/nowhere/at/all"]);
    let error = Proxy::start(&parsed(line)).expect_err("no such folder");
    let error = error.to_string();
    assert!(error.contains("--profile: /nowhere/at/all"), "{error}");
}
