//! Hot keys before real memcached processes.

use crate::in_process::{connect, parsed};
use crate::patience::{LINES, PATIENCE};
use evenkeel_proxy::Proxy;
use evenkeel_testkit::{Client, Memcached, poll_until};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(1);

/// A proxy that does this about the hot keys of these servers.
fn start(servers: &[Memcached], hot_keys: &str) -> Proxy {
    let servers: Vec<String> = servers
        .iter()
        .map(|server| format!("\"{}\"", server.address()))
        .collect();
    let text = format!(
        "[pools.a]\nservers = [{}]\nhot_keys = \"{hot_keys}\"\nhot_keys_lease = \"1s\"\n\
         {LINES}[[routes]]\npool = \"a\"\n",
        servers.join(", ")
    );
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("proxy.toml");
    std::fs::write(&path, text).expect("room");
    let path = path.to_str().expect("UTF-8");
    let line = ["proxy", "--config", path, "-l", "127.0.0.1:0", "-t", "2"];
    Proxy::start(&parsed(line)).expect("the proxy starts")
}

/// A burst of reads of one key, on a connection, all of which find this value.
fn read_much(client: &mut Client, key: &str, value: &str) {
    const BURST: usize = 20;
    client.send(format!("get {key}\r\n").repeat(BURST).as_bytes());
    for _ in 0..BURST {
        assert_eq!(client.line(), format!("VALUE {key} 7 {}", value.len()));
        assert_eq!(client.line(), value);
        assert_eq!(client.line(), "END");
    }
}

/// Gets that each server has answered.
fn gets(servers: &[Memcached]) -> Vec<u64> {
    let gets = |server: &Memcached| {
        server.client().stats("")["cmd_get"]
            .parse()
            .expect("a number")
    };
    servers.iter().map(gets).collect()
}

/// What each server gets of some thousand reads of one key by 16 connections.
fn spread(servers: &[Memcached], clients: &mut [Client]) -> Vec<u64> {
    let before = gets(servers);
    for _ in 0..15 {
        clients
            .iter_mut()
            .for_each(|client| read_much(client, "hot", "value"));
    }
    let after = gets(servers);
    after
        .iter()
        .zip(before)
        .map(|(after, before)| after - before)
        .collect()
}

#[test]
fn reads_of_one_key_are_spread_over_all_servers_only_when_that_is_asked_for() {
    for (mode, is_spread) in [("off", false), ("observe", false), ("on", true)] {
        let servers: Vec<Memcached> = (0..4).map(|_| Memcached::spawn(&[])).collect();
        let proxy = start(&servers, mode);
        let mut clients: Vec<Client> = (0..16).map(|_| connect(&proxy)).collect();
        assert_eq!(clients[0].set_with("hot", 7, 0, b"value"), "STORED");
        let mut stats = connect(&proxy);
        if mode != "off" {
            poll_until(PATIENCE, "the hot key to be found", || {
                clients
                    .iter_mut()
                    .for_each(|client| read_much(client, "hot", "value"));
                let found = stats.stats("hotkeys");
                let report = found.get("hot")?;
                let state = if is_spread { "state=HOT" } else { "state=COLD" };
                let gamma = if is_spread { "gamma=3" } else { "gamma=0" };
                (report.contains(state) && report.contains(gamma)).then_some(())
            });
        }
        let share = if is_spread {
            poll_until(PATIENCE, "all servers to be read", || {
                let counts = spread(&servers, &mut clients);
                let total: u64 = counts.iter().sum();
                let most = counts.iter().max().copied().unwrap_or(0);
                (counts.iter().all(|&count| count > total / 50) && most < total * 6 / 10)
                    .then_some(most as f64 / total as f64)
            })
        } else {
            let counts = spread(&servers, &mut clients);
            let total: u64 = counts.iter().sum();
            let most = counts.iter().max().copied().unwrap_or(0);
            assert_eq!(most, total, "{mode}: one server has the key: {counts:?}");
            1.0
        };
        println!(
            "{mode}: the busiest of 4 servers answers {:.0} % of the reads",
            100.0 * share
        );
        if mode == "off" {
            // What gets most is known all the same.
            let told = stats.stats("hotkeys");
            let hot = told.get("hot").expect("it is read most");
            let parts = [
                "pool=",
                "state=COLD gets=",
                "why=hot_keys is off in this pool",
            ];
            assert!(parts.iter().all(|part| hot.contains(part)), "{hot}");
        }
        proxy.stop().expect("it stops");
    }
}

/// Versions and when the write of each was acknowledged.
type Written = Arc<Mutex<Vec<Instant>>>;

/// Reads a key whose value counts up until told to stop: never down, and never behind what was
/// acknowledged a lease before. How many reads.
fn watch(mut client: Client, written: &Written, over: &AtomicBool) -> u64 {
    let (mut newest, mut reads) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        let asked_at = Instant::now();
        let least = {
            let written = written.lock().expect("no thread panics with it");
            written.partition_point(|&at| at + LEASE <= asked_at)
        };
        let value = client.get("counter").expect("it is never deleted");
        let value = String::from_utf8(value.data).expect("a number");
        let version: usize = value.parse().expect("a number");
        assert!(version >= newest, "read {version} after {newest}");
        assert!(
            version >= least,
            "read {version} a lease after {least} was written"
        );
        newest = version;
        reads += 1;
    }
    reads
}

#[test]
fn writes_through_another_proxy_are_seen_within_a_lease_and_never_unseen() {
    let servers: Vec<Memcached> = (0..4).map(|_| Memcached::spawn(&[])).collect();
    let proxies = [start(&servers, "on"), start(&servers, "on")];
    let mut writer = connect(&proxies[1]);
    assert_eq!(writer.set("counter", b"0"), "STORED");
    let written: Written = Arc::default();
    let over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..8)
        .map(|i| {
            let client = connect(&proxies[i % 2]);
            let (written, over) = (Arc::clone(&written), Arc::clone(&over));
            thread::spawn(move || watch(client, &written, &over))
        })
        .collect();
    let mut stats = connect(&proxies[0]);
    let hits = |stats: &mut Client| -> u64 {
        let stats = stats.stats("proxy");
        stats["replica_hits"].parse().expect("a number")
    };
    let mut version = 0;
    poll_until(10 * PATIENCE, "reads of replicas between writes", || {
        // Written seldom enough that the key stays hot.
        let before = hits(&mut stats);
        poll_until(PATIENCE, "reads of replicas", || {
            (hits(&mut stats) > before + 200).then_some(())
        });
        version += 1;
        let text = version.to_string();
        assert_eq!(writer.set("counter", text.as_bytes()), "STORED");
        let at = Instant::now();
        written.lock().expect("no thread panics with it").push(at);
        let own = writer.get("counter").expect("it is there").data;
        assert_eq!(own, text.as_bytes(), "nobody else writes");
        (version >= 12).then_some(())
    });
    over.store(true, Ordering::Relaxed);
    for reader in readers {
        let reads = reader.join().expect("no rule was broken");
        assert!(reads > 100, "{reads}");
    }
    for proxy in proxies {
        proxy.stop().expect("it stops");
    }
}
