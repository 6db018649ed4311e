//! Applications of a pool that keeps copies: connections that ask at random, each value theirs alone, and note what they are told.

use super::promise::{History, Read, Write};
use crate::application::{data, line};
use evenkeel_testkit::poll_until;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::VecDeque;
use std::io::{self, BufReader, ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub const KEYS: usize = 40;

/// One key in this many holds a number, which is counted up.
const COUNTERS: usize = 4;

/// Half of all commands are about this many keys.
const HOT: u64 = 8;

/// A number that is stored has this many to itself.
const COUNTED: u64 = 1_000_000;

/// Keys of a multi-get.
const WIDTHS: std::ops::RangeInclusive<u64> = 2..=12;

/// Most commands that are sent before their answers are read.
const PIPELINE_MAX: u64 = 4;

/// Of a hundred commands, this many may write.
const WRITES_PER_CENT: u64 = 25;

/// Time between the answers to one burst of commands and the next.
const THINKING: Duration = Duration::from_millis(4);

/// Anyone who waits longer for an answer takes the proxy to hang: many times its request timeout.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

/// What all applications of a history share.
pub struct Shared {
    pub stop: AtomicBool,
    seed: u64,
    start: Instant,
    stores: AtomicU64,
    values: AtomicU64,
}

impl Shared {
    pub fn new(seed: u64) -> Self {
        Shared {
            stop: AtomicBool::new(false),
            seed,
            start: Instant::now(),
            stores: AtomicU64::new(1),
            values: AtomicU64::new(0),
        }
    }

    /// How many values were read so far.
    pub fn values(&self) -> u64 {
        self.values.load(Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).expect("a test is shorter than 584 years")
    }
}

/// What a command may do, and how its answer looks.
#[derive(Clone, Copy)]
enum Kind {
    /// Values and an end.
    Read,
    /// A line. What is stored is this value.
    Store(u64),
    /// A line with the number that is stored.
    Incr,
    Delete,
    Touch,
}

#[derive(Clone, Copy)]
struct Pending {
    kind: Kind,
    key: usize,
    begun: u64,
}

/// An application: one connection, and another one whenever it ends.
pub struct Application<'a> {
    shared: &'a Shared,
    /// Its number, and where it is.
    proxy: (usize, SocketAddr),
    random: Xoshiro256PlusPlus,
    pending: VecDeque<Pending>,
    /// The newest unique that it was shown of each key.
    uniques: [Option<u64>; KEYS],
    told: History,
}

impl<'a> Application<'a> {
    /// Applications of a history differ in their number.
    pub fn new(shared: &'a Shared, proxy: (usize, SocketAddr), number: u64) -> Self {
        let seed = shared.seed.wrapping_add(number << 32);
        Application {
            shared,
            proxy,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            pending: VecDeque::new(),
            uniques: [None; KEYS],
            told: History::default(),
        }
    }

    /// Asks until it is told to stop, and gives what it was told.
    pub fn run(mut self) -> History {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let stream = poll_until(ANSWER_DEADLINE, "the proxy to listen", || {
                TcpStream::connect(self.proxy.1).ok()
            });
            stream.set_nodelay(true).expect("a socket has no delay");
            stream
                .set_read_timeout(Some(ANSWER_DEADLINE))
                .expect("a socket takes a deadline");
            if let Err(error) = self.converse(&mut BufReader::new(stream)) {
                let is_late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(
                    !is_late,
                    "no answer for {ANSWER_DEADLINE:?}: the proxy hangs"
                );
            }
            while let Some(pending) = self.pending.pop_front() {
                self.outcome_unknown(pending);
            }
        }
        self.told
    }

    fn converse(&mut self, stream: &mut BufReader<TcpStream>) -> io::Result<()> {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let (mut bytes, begun) = (Vec::new(), self.shared.now());
            for _ in 0..=self.below(PIPELINE_MAX) {
                let (kind, key) = self.compose(&mut bytes);
                self.pending.push_back(Pending { kind, key, begun });
            }
            stream.get_mut().write_all(&bytes)?;
            while let Some(pending) = self.pending.front().copied() {
                match pending.kind {
                    Kind::Read => self.values(stream, pending)?,
                    _ => {
                        let line = line(stream)?;
                        self.line(pending, &line);
                    }
                }
                self.pending.pop_front();
            }
            std::thread::sleep(THINKING);
        }
        Ok(())
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn some_key(&mut self) -> usize {
        let bound = match self.below(2) {
            0 => HOT,
            _ => KEYS as u64,
        };
        self.below(bound) as usize
    }

    fn compose(&mut self, out: &mut Vec<u8>) -> (Kind, usize) {
        let key = self.some_key();
        if self.below(100) >= WRITES_PER_CENT {
            let width = match self.below(5) {
                0 => 1,
                _ => WIDTHS.start() + self.below(WIDTHS.end() - WIDTHS.start() + 1),
            };
            let keys: Vec<_> = (0..width).map(|_| name(self.some_key())).collect();
            let verb = ["get", "gets"][self.below(2) as usize];
            out.extend(format!("{verb} {}\r\n", keys.join(" ")).bytes());
            return (Kind::Read, key);
        }
        let (kind, command) = self.write(key);
        out.extend(command.bytes());
        (kind, key)
    }

    /// A command that may write a key, or sees to how long its item lives.
    fn write(&mut self, key: usize) -> (Kind, String) {
        let name = name(key);
        let id = self.shared.stores.fetch_add(1, Ordering::Relaxed);
        let (id, value) = match is_counter(key) {
            true => (id * COUNTED, (id * COUNTED).to_string()),
            false => (id, value_of(id)),
        };
        let len = value.len();
        // Most for ever, some for less than a copy may live.
        let ttl = [0, 0, 0, 4][self.below(4) as usize];
        match (self.below(12), self.uniques[key]) {
            (0, _) => (Kind::Delete, format!("delete {name}\r\n")),
            (1, _) => (Kind::Delete, format!("md {name}\r\n")),
            (2, _) => (Kind::Touch, format!("touch {name} {ttl}\r\n")),
            (3, _) => (Kind::Read, format!("gat {ttl} {name}\r\n")),
            (4, _) => store("add", &name, ttl, id, &value),
            (5 | 6, Some(unique)) => {
                let command = format!("cas {name} 0 {ttl} {len} {unique}\r\n{value}\r\n");
                (Kind::Store(id), command)
            }
            (7 | 8, _) if is_counter(key) => (Kind::Incr, format!("incr {name} 1\r\n")),
            (7 | 8, _) => {
                let more = format!(".{id}");
                let command = format!("append {name} 0 0 {}\r\n{more}\r\n", more.len());
                (Kind::Store(id), command)
            }
            (9, _) => {
                let command = format!("ms {name} {len} T{ttl}\r\n{value}\r\n");
                (Kind::Store(id), command)
            }
            _ => store("set", &name, ttl, id, &value),
        }
    }

    /// Values until the end. A miss, and what an error leaves out, says nothing.
    fn values(&mut self, stream: &mut BufReader<TcpStream>, pending: Pending) -> io::Result<()> {
        loop {
            let line = line(stream)?;
            let words: Vec<_> = line.split(' ').collect();
            let (key, len, unique) = match words[..] {
                ["VALUE", key, _, len] => (key, len, None),
                ["VALUE", key, _, len, unique] => (key, len, Some(unique)),
                ["END"] | ["SERVER_ERROR", ..] => return Ok(()),
                _ => bad(&line),
            };
            let key = number_of(key).unwrap_or_else(|| bad(&line));
            let data = data(stream, len.parse().unwrap_or_else(|_| bad(&line)))?;
            if let Some(unique) = unique {
                self.uniques[key] = Some(unique.parse().unwrap_or_else(|_| bad(&line)));
            }
            self.told.reads.push(Read {
                proxy: self.proxy.0,
                key,
                begun: pending.begun,
                ended: self.shared.now(),
                value: last_of(&data).unwrap_or_else(|| bad(&line)),
            });
            self.shared.values.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn line(&mut self, pending: Pending, line: &str) {
        match (pending.kind, line.split(' ').next().unwrap_or_default()) {
            (Kind::Store(value), "STORED" | "HD") => {
                self.acknowledged(pending, Some(value));
            }
            // Nothing was there when it came; copies are deleted all the same.
            (_, "NOT_FOUND" | "NF") => self.acknowledged(pending, None),
            (Kind::Delete, "DELETED" | "HD") => self.acknowledged(pending, None),
            // A memcached that has no memory for what is longer leaves the item as it is, and answers to an append as if there were none.
            (Kind::Store(_), "NOT_STORED" | "EXISTS") | (Kind::Touch, "TOUCHED") => {}
            (_, "SERVER_ERROR") => self.outcome_unknown(pending),
            (Kind::Incr, number) => {
                let number = number.parse().unwrap_or_else(|_| bad(line));
                self.acknowledged(pending, Some(number));
            }
            _ => bad(line),
        }
    }

    fn acknowledged(&mut self, pending: Pending, value: Option<u64>) {
        let now = self.shared.now();
        self.note(pending, Some(now), value);
    }

    fn outcome_unknown(&mut self, pending: Pending) {
        if let Kind::Store(value) = pending.kind {
            self.note(pending, None, Some(value));
        }
    }

    fn note(&mut self, pending: Pending, acknowledged: Option<u64>, value: Option<u64>) {
        self.told.writes.push(Write {
            proxy: self.proxy.0,
            key: pending.key,
            begun: pending.begun,
            acknowledged,
            value,
        });
    }
}

/// Adds the writes of numbers that were read and that nobody was told of: counting up whose answer was lost, at some time behind the store
/// of what it was counted from.
pub fn add_lost_counts(history: &mut History) {
    let begun = history.begun();
    let lost = history.reads.iter().filter_map(|read| {
        let from = (read.key, read.value - read.value % COUNTED);
        let is_lost = is_counter(read.key) && !begun.contains_key(&(read.key, read.value));
        let begun = begun.get(&from).filter(|_| is_lost)?;
        Some(Write {
            proxy: read.proxy,
            key: read.key,
            begun: *begun,
            acknowledged: None,
            value: Some(read.value),
        })
    });
    history.writes.extend(lost.collect::<Vec<_>>());
}

fn store(verb: &str, name: &str, ttl: u64, id: u64, value: &str) -> (Kind, String) {
    let len = value.len();
    let command = format!("{verb} {name} 0 {ttl} {len}\r\n{value}\r\n");
    (Kind::Store(id), command)
}

fn is_counter(key: usize) -> bool {
    key.is_multiple_of(COUNTERS)
}

fn name(key: usize) -> String {
    format!("key-{key}")
}

fn number_of(name: &str) -> Option<usize> {
    name.strip_prefix("key-")?.parse().ok()
}

/// The value that a store stores; its length varies. What is appended to it names its own store at the end.
fn value_of(id: u64) -> String {
    let padding = (id % 97 * (id % 13)) as usize;
    format!("{:x<padding$}.{id}", "")
}

/// Which store, or which number, a value is.
fn last_of(data: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(data).ok()?;
    text.rsplit('.').next()?.trim_end().parse().ok()
}

fn bad(line: &str) -> ! {
    panic!("a command was answered {line:?}")
}
