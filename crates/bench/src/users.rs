//! Users of a cache who know what they have stored, and judge every answer by that.
//!
//! The load of a [`Driver`](crate::Driver) is fast and sees whether a value is one that somebody wrote for its key. It
//! cannot tell the last one from one before. Each user here has one connection, one request at a time and keys that
//! nobody else writes, so that it knows what each of them may hold: the version whose store was acknowledged last, and
//! those since whose stores have failed, which may be executed at any time. What it stores and does not find any more
//! is a miss, which a cache is allowed; what is older than what was acknowledged is wrong, which nothing allows.
//!
//! A user reads three times for each store, one key after the other, and stores what it misses. In four rounds each key
//! is stored once and read three times.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Longest wait for a connection, and for an answer; then the request has failed. Who is asked has time-outs of its own, and a busy
/// machine does not reach this one.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Every this many keys one has a value that is this many times as long.
const LONG_EVERY: usize = 10;
const LONG_TIMES: usize = 30;

/// One request of this many is a store.
const STORE_EVERY: u64 = 4;

/// The distance of two keys that a user asks for one after the other, where the number of keys does not have it as a
/// factor.
const STRIDE: usize = 31;

/// Who uses a cache, and how.
#[derive(Clone, Debug)]
pub struct UsersPlan {
    /// Where they ask, in turns.
    pub addresses: Vec<SocketAddr>,
    /// How many they are.
    pub users: usize,
    /// Before the names of their keys.
    pub prefix: String,
    /// Keys of each.
    pub keys: usize,
    /// Bytes of most values; every tenth has 30 times as many.
    pub value_len: usize,
    /// Time between an answer and the next request of a user, once all keys are stored.
    pub pause: Duration,
}

/// What users have asked, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsersTally {
    /// Requests, failed ones among them.
    pub requests: u64,
    /// Keys that were stored before and not found.
    pub misses: u64,
    /// Requests without an answer, or with an error.
    pub failures: u64,
    /// Values that are older than what was acknowledged, or damaged.
    pub wrong: u64,
    /// The first of the wrong ones, in words.
    pub first_wrong: Option<String>,
    /// The first request that failed, in words.
    pub first_failure: Option<String>,
}

/// Running users. They stop when this is dropped.
#[derive(Debug)]
pub struct Users {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    requests: AtomicU64,
    misses: AtomicU64,
    failures: AtomicU64,
    wrong: AtomicU64,
    first_wrong: Mutex<Option<String>>,
    first_failure: Mutex<Option<String>>,
    /// Users that have stored all of their keys once.
    filled: AtomicU64,
    stop: AtomicBool,
}

impl Users {
    /// Connects them, and has them store all of their keys and then use them until they are stopped.
    ///
    /// # Errors
    /// When there is no address, one cannot be reached, or a thread cannot be started.
    pub fn start(plan: &UsersPlan) -> anyhow::Result<Users> {
        anyhow::ensure!(!plan.addresses.is_empty(), "users need somebody to ask");
        let mut users = Users {
            shared: Arc::default(),
            threads: Vec::new(),
        };
        for number in 0..plan.users {
            let address = plan.addresses[number % plan.addresses.len()];
            let user = User {
                connection: Connection::open(address)?,
                address,
                number,
                may_hold: vec![BTreeSet::new(); plan.keys],
                plan: plan.clone(),
                shared: Arc::clone(&users.shared),
            };
            let builder = thread::Builder::new().name(format!("user-{number}"));
            users.threads.push(builder.spawn(move || user.run())?);
        }
        Ok(users)
    }

    /// Whether all have stored all of their keys.
    pub fn have_filled(&self) -> bool {
        self.shared.filled.load(Ordering::Acquire) == self.threads.len() as u64
    }

    /// What has happened so far.
    pub fn tally(&self) -> UsersTally {
        self.shared.tally()
    }

    /// Has each read all of its keys once more, and says what happened in all.
    pub fn stop(mut self) -> UsersTally {
        self.join();
        self.shared.tally()
    }

    fn join(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a user does not panic");
        }
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        self.join();
    }
}

impl Shared {
    fn tally(&self) -> UsersTally {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let text = |first: &Mutex<Option<String>>| {
            first.lock().unwrap_or_else(PoisonError::into_inner).clone()
        };
        UsersTally {
            requests: count(&self.requests),
            misses: count(&self.misses),
            failures: count(&self.failures),
            wrong: count(&self.wrong),
            first_wrong: text(&self.first_wrong),
            first_failure: text(&self.first_failure),
        }
    }
}

/// One of them.
struct User {
    connection: Connection,
    address: SocketAddr,
    number: usize,
    /// Versions that each key may have where it is found.
    may_hold: Vec<BTreeSet<u64>>,
    plan: UsersPlan,
    shared: Arc<Shared>,
}

impl User {
    fn run(mut self) {
        let keys = self.plan.keys;
        for key in 0..keys {
            self.store(key, 1);
        }
        self.shared.filled.fetch_add(1, Ordering::Release);
        let mut step = 1_u64;
        while !self.shared.stop.load(Ordering::Relaxed) {
            step += 1;
            let key = (step as usize * STRIDE + self.number) % keys;
            // By the round, too, or keys that are a multiple of four would be stored always or never.
            let round = step / keys as u64;
            match (step + round) % STORE_EVERY {
                0 => self.store(key, step),
                _ => self.read(key, step),
            }
            if !self.plan.pause.is_zero() {
                thread::sleep(self.plan.pause);
            }
        }
        for key in 0..keys {
            self.read(key, step);
        }
    }

    fn key(&self, key: usize) -> String {
        format!("{}{}:{key}", self.plan.prefix, self.number)
    }

    fn value(&self, key: usize, version: u64) -> Vec<u8> {
        let times = match key.is_multiple_of(LONG_EVERY) {
            true => LONG_TIMES,
            false => 1,
        };
        let mut value = format!("{version}.").into_bytes();
        let len = value.len().max(times * self.plan.value_len);
        value.resize(len, b'x');
        value
    }

    fn store(&mut self, key: usize, version: u64) {
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
        let value = self.value(key, version);
        match self.connection.set(&self.key(key), &value) {
            Ok(answer) if answer == "STORED" => self.may_hold[key] = BTreeSet::from([version]),
            outcome => {
                // It may still be executed.
                self.may_hold[key].insert(version);
                self.fail(
                    outcome.is_err(),
                    &format!("set {}: {outcome:?}", self.key(key)),
                );
            }
        }
    }

    /// Reads a key and, if it is not there, stores this version of it.
    fn read(&mut self, key: usize, version: u64) {
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
        match self.connection.get(&self.key(key)) {
            Ok(Some(found)) => self.judge(key, &found),
            Ok(None) => {
                if !self.may_hold[key].is_empty() {
                    self.shared.misses.fetch_add(1, Ordering::Relaxed);
                }
                self.store(key, version);
            }
            // After an answer that makes no sense nobody knows where the next one begins.
            Err(error) => self.fail(true, &format!("get {}: {error}", self.key(key))),
        }
    }

    fn judge(&mut self, key: usize, found: &[u8]) {
        let version = found.split(|&byte| byte == b'.').next();
        let version = version.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
        let may = &self.may_hold[key];
        let is_right = version.is_some_and(|version| {
            may.contains(&version) && found == self.value(key, version).as_slice()
        });
        if is_right {
            return;
        }
        self.shared.wrong.fetch_add(1, Ordering::Relaxed);
        let (name, len) = (self.key(key), found.len());
        let first = self.shared.first_wrong.lock();
        first
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| {
                format!(
                    "{name} has version {version:?} in {len} bytes, and should have one of {may:?}"
                )
            });
    }

    fn fail(&mut self, is_broken: bool, what: &str) {
        self.shared.failures.fetch_add(1, Ordering::Relaxed);
        let first = self.shared.first_failure.lock();
        first
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| what.to_owned());
        // While nobody listens each request fails.
        if is_broken && let Ok(connection) = Connection::open(self.address) {
            self.connection = connection;
        }
    }
}

/// A connection with one request at a time.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(address: SocketAddr) -> io::Result<Connection> {
        let socket = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        socket.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Connection(BufReader::new(socket)))
    }

    fn set(&mut self, key: &str, value: &[u8]) -> io::Result<String> {
        let head = format!("set {key} 0 0 {}\r\n", value.len());
        let request = [head.as_bytes(), value, b"\r\n"].concat();
        self.0.get_mut().write_all(&request)?;
        self.line()
    }

    fn get(&mut self, key: &str) -> io::Result<Option<Vec<u8>>> {
        let request = format!("get {key}\r\n");
        self.0.get_mut().write_all(request.as_bytes())?;
        let line = self.line()?;
        if line == "END" {
            return Ok(None);
        }
        let len = line.strip_prefix("VALUE ").and_then(|rest| {
            let len = rest.split(' ').nth(2)?;
            len.parse::<usize>().ok()
        });
        let len = len.ok_or_else(|| io::Error::other(line))?;
        let mut value = vec![0; len + 2];
        self.0.read_exact(&mut value)?;
        value.truncate(len);
        match self.line()?.as_str() {
            "END" => Ok(Some(value)),
            other => Err(io::Error::other(other)),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}
