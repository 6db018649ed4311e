//! Users of a cache, each of whom alone writes its keys and checks what it reads.

use evenkeel_testkit::{Client, Process, poll_until};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// How long filling the cache may take.
const FULL_DEADLINE: Duration = Duration::from_secs(60);

/// Keys of each user.
const KEYS: usize = 400;

/// How many users there are.
pub const USERS: usize = 4;

/// Bytes of the smallest value; every tenth has 30 times as many.
const VALUE: usize = 200;

/// What users have asked and were answered.
#[derive(Default)]
pub struct Tally {
    /// Reads and stores.
    pub requests: AtomicU64,
    /// Reads that found nothing, although all was stored once.
    pub misses: AtomicU64,
    /// Requests that were answered with an error or not at all.
    pub failures: AtomicU64,
    /// How those failed, each way once.
    pub ways: Mutex<BTreeSet<String>>,
}

impl Tally {
    fn failed(&self, how: String) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.ways.lock().expect("no panics inside").insert(how);
    }
}

/// Checks that no request has failed and nothing was gone, but where servers have lost serving leases: then the machine has kept them
/// from hearing of each other, and nobody could serve.
///
/// # Panics
/// When it is otherwise.
pub fn assert_unnoticed(tally: &Tally, servers: &[Process]) {
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (failures, misses) = (of(&tally.failures), of(&tally.misses));
    let lost = leases_lost(servers);
    println!("{} requests, {lost} leases lost", of(&tally.requests));
    assert!(
        (failures, misses) == (0, 0) || lost > 0,
        "{failures} failures, {misses} misses: {:?}",
        tally.ways
    );
}

/// Serving leases that the servers among these that live have lost.
pub fn leases_lost(servers: &[Process]) -> u64 {
    let lost = |server: &Process| -> Option<u64> {
        let mut client = Client::try_connect(server.address()).ok()?;
        client.try_stats("evenkeel").ok()?["leases_lost"]
            .parse()
            .ok()
    };
    servers.iter().filter_map(lost).sum()
}

/// The name of a user's key. Keys count round.
pub fn key_name(user: usize, key: usize) -> String {
    format!("m:{user}:{}", key % KEYS)
}

/// Does something while the cache is full and users go on using it, each with this pause between two requests. Told is whether one of them has seen what it must
/// not, so that nothing more need be waited for.
///
/// # Panics
/// When a user has read what is neither what it stored last nor what may have been stored since.
pub fn while_used(
    address: SocketAddr,
    pause: Duration,
    tally: &Tally,
    act: impl FnOnce(&dyn Fn() -> bool),
) {
    let is_full = AtomicU64::new(0);
    thread::scope(|scope| {
        // Users end when their sender is gone: also when what goes on meanwhile fails.
        let (stop, users): (Vec<Sender<()>>, Vec<_>) = (0..USERS)
            .map(|number| {
                let (stop, stopped) = mpsc::channel();
                let user = User::new(address, number, tally);
                let is_full = &is_full;
                let user = scope.spawn(move || user.run(is_full, &stopped, pause));
                (stop, user)
            })
            .unzip();
        let is_broken = || users.iter().any(|user| user.is_finished());
        poll_until(FULL_DEADLINE, "a full cache", || {
            (is_broken() || is_full.load(Ordering::Relaxed) == USERS as u64).then_some(())
        });
        act(&is_broken);
        drop(stop);
        for user in users {
            user.join().expect("a user");
        }
    });
}

struct User<'a> {
    address: SocketAddr,
    client: Client,
    number: usize,
    /// What each key may hold: what was stored last, and what may have been since.
    may_hold: Vec<BTreeSet<u64>>,
    tally: &'a Tally,
}

impl<'a> User<'a> {
    fn new(address: SocketAddr, number: usize, tally: &'a Tally) -> Self {
        User {
            address,
            client: Client::connect(address),
            number,
            may_hold: vec![BTreeSet::new(); KEYS],
            tally,
        }
    }

    fn failed(&mut self, how: &std::io::Error) {
        self.tally.failed(format!("get: {how}"));
        // What is left of an answer is not asked for.
        self.client = Client::connect(self.address);
    }

    fn store(&mut self, key: usize, version: u64) {
        self.tally.requests.fetch_add(1, Ordering::Relaxed);
        let name = key_name(self.number, key);
        match self.client.try_set(&name, 0, 0, &value(key, version)) {
            Ok(answer) if answer == "STORED" => self.may_hold[key] = BTreeSet::from([version]),
            failure => {
                // It may still be carried out.
                self.may_hold[key].insert(version);
                self.tally.failed(format!("set: {failure:?}"));
            }
        }
    }

    /// Reads a key and, if it is not there, stores this version of it.
    fn read(&mut self, key: usize, version: u64) {
        self.tally.requests.fetch_add(1, Ordering::Relaxed);
        let name = key_name(self.number, key);
        match self.client.try_get(&name) {
            Ok(Some(found)) => {
                let text = String::from_utf8_lossy(&found.data);
                let found_version: u64 = text
                    .split('.')
                    .next()
                    .and_then(|n| n.parse().ok())
                    .expect("ours");
                let may = &self.may_hold[key];
                assert!(
                    may.contains(&found_version),
                    "{name} is {found_version}, and should be of {may:?}"
                );
                assert_eq!(found.data, value(key, found_version), "{name}");
            }
            Ok(None) => {
                self.tally.misses.fetch_add(1, Ordering::Relaxed);
                self.store(key, version);
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Fills the cache, says so, and uses it until told to stop.
    fn run(mut self, is_full: &AtomicU64, stopped: &Receiver<()>, pause: Duration) {
        for key in 0..KEYS {
            self.store(key, 1);
        }
        is_full.fetch_add(1, Ordering::Relaxed);
        let mut step = 1;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            step += 1;
            let key = (step as usize * 31 + self.number) % KEYS;
            // Another kind of request each time that a key's turn comes.
            match (step + step / KEYS as u64) % 4 {
                0 => self.store(key, step),
                _ => self.read(key, step),
            }
        }
        for key in 0..KEYS {
            self.read(key, step);
        }
    }
}

fn value(key: usize, version: u64) -> Vec<u8> {
    let len = if key.is_multiple_of(10) {
        30 * VALUE
    } else {
        VALUE
    };
    let mut value = format!("{version}.").into_bytes();
    value.resize(len, b'x');
    value
}
