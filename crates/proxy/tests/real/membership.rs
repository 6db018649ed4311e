//! Servers come, go and are restarted while applications work: what they get to see.
//!
//! What is promised, and what these tests hold the proxy to: no request fails because servers come
//! into a pool or leave it. A connection reads what it wrote last, or a miss where a change has given
//! the key another home since. While servers are restarted behind a pool with failover, no read
//! fails; a write may be answered with an error if it was on its way to the server that died, once for
//! each key and death, and then its outcome is unknown. Whatever is read was written last, or is one of
//! those of unknown outcome since.

use crate::in_process::parsed;
use crate::patience::{FLAGS, PATIENCE};
use evenkeel_proxy::Proxy;
use evenkeel_testkit::{Client, Memcached, Signal, poll_until};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Connections that work at the same time.
const CLIENTS: usize = 3;

/// Keys of each, which nobody else writes.
const KEYS: usize = 16;

/// Bursts that each of them must get through between two changes.
const BURSTS: usize = 20;

fn start(flags: &[&str]) -> Proxy {
    let line = ["proxy", "-l", "127.0.0.1:0", "-t", "2"];
    let args = parsed(line.iter().chain(flags));
    Proxy::start(&args).expect("the proxy starts")
}

fn address(proxy: &Proxy) -> SocketAddr {
    proxy.address().parse().expect("an address")
}

/// What the test and its clients tell each other.
struct Stage {
    stop: AtomicBool,
    bursts: [AtomicUsize; CLIENTS],
    /// Changes or restarts so far, and the server that is restarted now.
    now: Mutex<(usize, Option<SocketAddr>)>,
}

/// Connections under load.
struct Load {
    stage: Arc<Stage>,
    clients: Vec<JoinHandle<Writer>>,
}

impl Load {
    fn begin(proxy: SocketAddr) -> Load {
        let stage = Arc::new(Stage {
            stop: AtomicBool::new(false),
            bursts: Default::default(),
            now: Mutex::default(),
        });
        let clients = (0..CLIENTS).map(|number| {
            let stage = Arc::clone(&stage);
            std::thread::spawn(move || {
                let mut writer = Writer::new(proxy, number);
                while !stage.stop.load(Ordering::Relaxed) {
                    writer.burst(&stage);
                    stage.bursts[number].fetch_add(1, Ordering::Relaxed);
                }
                writer
            })
        });
        let clients = clients.collect();
        Load { stage, clients }
    }

    /// From here on this server may die, or servers may change.
    fn announce(&self, dying: Option<SocketAddr>) {
        let mut now = self.stage.now.lock().expect("no client panicked");
        *now = (now.0 + 1, dying);
    }

    /// Waits until every client has worked for a while.
    fn work(&self) {
        let done = || {
            self.stage
                .bursts
                .each_ref()
                .map(|n| n.load(Ordering::Relaxed))
        };
        let before = done();
        poll_until(PATIENCE, "the clients to go on", || {
            let has_failed = self.clients.iter().any(JoinHandle::is_finished);
            assert!(!has_failed, "a client failed");
            let mut each = done().into_iter().zip(before);
            each.all(|(now, before)| now >= before + BURSTS)
                .then_some(())
        });
    }

    fn end(self) -> Vec<Writer> {
        self.stage.stop.store(true, Ordering::Relaxed);
        let clients = self.clients.into_iter();
        clients
            .map(|client| client.join().expect("no request failed"))
            .collect()
    }
}

/// What a key may hold, as far as its only writer knows.
#[derive(Default)]
struct Known {
    /// The last value whose write was acknowledged.
    last: Option<u64>,
    /// Values written since, of unknown outcome.
    perhaps: Vec<u64>,
    /// Changes after which it was not there.
    missed_after: Vec<usize>,
    /// Restarts at which a write of it failed.
    failed_at: Vec<usize>,
}

/// One connection and its keys.
struct Writer {
    client: Client,
    number: usize,
    round: u64,
    keys: Vec<Known>,
}

impl Writer {
    fn new(proxy: SocketAddr, number: usize) -> Writer {
        Writer {
            client: Client::connect(proxy),
            number,
            round: 0,
            keys: (0..KEYS).map(|_| Known::default()).collect(),
        }
    }

    fn key(&self, i: usize) -> String {
        format!("client:{}:key:{i}", self.number)
    }

    /// All keys written and read, and read together, in one go.
    fn burst(&mut self, stage: &Stage) {
        self.round += 1;
        let mut text = String::new();
        for i in 0..KEYS {
            let (key, value) = (self.key(i), value(self.round, i));
            text += &format!("set {key} 0 0 {}\r\n{value}\r\nget {key}\r\n", value.len());
        }
        let all: Vec<String> = (0..KEYS).map(|i| self.key(i)).collect();
        text += &format!("get {}\r\n", all.join(" "));
        self.client.send(text.as_bytes());
        let mut has_missed = [false; KEYS];
        for (i, has_missed) in has_missed.iter_mut().enumerate() {
            let answer = self.client.line();
            self.written(stage, i, &answer);
            *has_missed = self.read(i..i + 1).is_empty();
        }
        let found = self.read(0..KEYS);
        for (i, has_missed) in has_missed.into_iter().enumerate() {
            if has_missed || !found.contains(&i) {
                let (change, _) = *stage.now.lock().expect("no panic");
                self.keys[i].missed_after.push(change);
            }
        }
    }

    /// A write was answered.
    fn written(&mut self, stage: &Stage, i: usize, answer: &str) {
        let round = self.round;
        let known = &mut self.keys[i];
        if answer == "STORED" {
            known.last = Some(round);
            known.perhaps.clear();
            return;
        }
        let (restart, dying) = *stage.now.lock().expect("no panic");
        let dying = dying.unwrap_or_else(|| panic!("no server dies now: {answer}"));
        let is_told = answer.starts_with("SERVER_ERROR backend ")
            && answer.contains(&dying.to_string())
            && (answer.contains(" unavailable: ") || answer.ends_with(" lost, outcome unknown"));
        assert!(is_told, "{answer}, while {dying} is restarted");
        assert!(
            !known.failed_at.contains(&restart),
            "{answer}: for the second time"
        );
        known.failed_at.push(restart);
        known.perhaps.push(round);
    }

    /// The answer to a get of these keys: which were found.
    fn read(&mut self, asked: std::ops::Range<usize>) -> Vec<usize> {
        let mut found = Vec::new();
        let mut left = asked;
        loop {
            let line = self.client.line();
            if line == "END" {
                return found;
            }
            let rest = line
                .strip_prefix("VALUE ")
                .unwrap_or_else(|| panic!("a read failed: {line}"));
            let (key, rest) = rest.split_once(' ').expect("flags");
            let i = left
                .find(|i| key == self.key(*i))
                .expect("a key, in the order asked");
            let len = rest
                .strip_prefix("0 ")
                .expect("our flags")
                .parse()
                .expect("a length");
            let data = String::from_utf8(self.client.bytes(len)).expect("our text");
            assert_eq!(self.client.bytes(2), b"\r\n");
            let known = &self.keys[i];
            let may_be = known.last.iter().chain(&known.perhaps);
            let is_ours = may_be.clone().any(|round| value(*round, i) == data);
            let may_be: Vec<_> = may_be.collect();
            assert!(
                is_ours,
                "{key}: {data} is not one of {may_be:?} in round {}",
                self.round
            );
            found.push(i);
        }
    }
}

/// Values of different lengths that say when they were written.
fn value(round: u64, i: usize) -> String {
    format!(
        "{round}{}",
        "-".repeat((round as usize * 31 + i * 57) % 300)
    )
}

/// Ports of the servers as the proxy knows them.
fn cluster(client: &mut Client) -> Vec<String> {
    let stats = client.stats("servers");
    let addresses = stats.iter().filter(|(name, _)| name.ends_with(":address"));
    let port = |(_, address): (&String, &String)| address.rsplit(':').next().map(str::to_owned);
    addresses.filter_map(port).collect()
}

/// Two to three of five servers, one joining or leaving at a time. Each is there once: where one leaves,
/// no server that has held its keys before takes them, so that nothing but misses may be seen.
fn change_under_load(
    proxy: SocketAddr,
    servers: &[Memcached],
    mut apply: impl FnMut(&[&Memcached]),
) {
    let load = Load::begin(proxy);
    load.work();
    let mut control = Client::connect(proxy);
    let windows = [0..3, 1..3, 1..4, 2..4, 2..5, 3..5];
    let changes = windows.len();
    for window in windows {
        let members: Vec<&Memcached> = servers[window].iter().collect();
        load.announce(None);
        apply(&members);
        let ports = members
            .iter()
            .map(|server| server.address().port().to_string());
        let mut ports: Vec<String> = ports.collect();
        ports.sort();
        poll_until(PATIENCE, "the proxy to know other servers", || {
            let mut known = cluster(&mut control);
            known.sort();
            (known == ports).then_some(())
        });
        load.work();
    }
    let mut moved = 0;
    for writer in load.end() {
        for (i, known) in writer.keys.iter().enumerate() {
            let missed = &known.missed_after;
            moved += missed.len();
            assert!(
                missed.len() <= changes,
                "key {i} was missed after {missed:?}"
            );
        }
    }
    println!("{moved} bursts missed a key");
    let stats = control.stats("proxy");
    for name in ["request_errors", "reads_unavailable"] {
        assert_eq!(stats[name], "0", "{name}");
    }
}

fn spawn_five() -> Vec<Memcached> {
    (0..5).map(|_| Memcached::spawn(&["-t", "1"])).collect()
}

/// Replaces a file in one step.
fn replace(path: &Path, text: &str) {
    let next = path.with_extension("next");
    std::fs::write(&next, text).expect("room");
    std::fs::rename(&next, path).expect("the same folder");
}

#[test]
fn servers_come_and_go_in_a_file_and_no_request_fails() {
    let servers = spawn_five();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path: PathBuf = dir.path().join("servers");
    let write = |members: &[&Memcached]| {
        let lines = members
            .iter()
            .map(|server| format!("{}\n", server.address()));
        replace(&path, &lines.collect::<String>());
    };
    write(&[&servers[0], &servers[1]]);
    let file = path.to_str().expect("UTF-8");
    let proxy = start(&[&["--servers-file", file, "--refresh", "100ms"], &FLAGS[..]].concat());
    change_under_load(address(&proxy), &servers, write);
    proxy.stop().expect("it stops");
}

/// Restarts each of these servers in turn under load.
fn restart_under_load(proxy: &Proxy, servers: &mut [Memcached]) {
    let load = Load::begin(address(proxy));
    load.work();
    let mut control = Client::connect(address(proxy));
    for server in servers.iter_mut() {
        let address = server.address();
        load.announce(Some(address));
        server.process().signal(Signal::Terminate);
        server.process().wait(PATIENCE);
        load.work();
        let port = address.port().to_string();
        *server = Memcached::spawn(&["-t", "1", "-p", &port]);
        assert_eq!(server.address(), address);
        let row = format!("{address}:state");
        poll_until(PATIENCE, "the server to be used again", || {
            (control.stats("servers")[&row] == "up").then_some(())
        });
        load.work();
    }
    load.announce(None);
    load.work();
    let writers = load.end();
    let keys = || writers.iter().flat_map(|writer| &writer.keys);
    let failed: usize = keys().map(|known| known.failed_at.len()).sum();
    println!("{failed} writes failed in {} restarts", servers.len());
    assert!(failed <= CLIENTS * KEYS * servers.len());
    let stats = control.stats("proxy");
    assert_eq!(stats["reads_unavailable"], "0");
    assert_eq!(
        stats["request_errors"],
        failed.to_string(),
        "all of them writes"
    );
    assert_ne!(stats["requests_failed_over"], "0");
    for server in servers.iter() {
        let stats = control.stats("servers");
        let row = |row: &str| stats[&format!("{}:{row}", server.address())].clone();
        assert_eq!(row("unfenced"), "0");
        assert_eq!(row("outages"), "2", "one in each worker");
        // It serves its keys again.
        assert!(server.client().stats("")["curr_items"] != "0");
    }
}

#[test]
fn a_rolling_restart_fails_no_read_where_the_next_server_stands_in() {
    let mut servers: Vec<Memcached> = (0..3).map(|_| Memcached::spawn(&["-t", "1"])).collect();
    let list: Vec<String> = servers.iter().map(|s| s.address().to_string()).collect();
    let proxy = start(&[&["-s", &list.join(","), "--failover", "next"], &FLAGS[..]].concat());
    restart_under_load(&proxy, &mut servers);
    proxy.stop().expect("it stops");
}
