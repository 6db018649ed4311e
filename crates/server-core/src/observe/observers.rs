//! What a worker tells those who look on.

use super::log::{Lines, Target};
use super::operation::{Operation, Seen};
use super::watcher::{CloseReason, WATCHERS_MAX, Watcher};
use crate::admin::AdminConfig;
use crate::session::connections::Connections;
use crate::session::{ConnectionId, Peer};
use crate::shard::classes::class_of;
use crate::shard::counters::Counters;
use crate::shard::engine::{At, Engine};
use crate::shard::prefixes::{PrefixCounts, Prefixes};
use crate::shard::time::TimeBase;
use evenkeel_protocol::admin::Streams;
use evenkeel_storage::{Evicted, NEVER, Store};
use evenkeel_types::{Now, uri_encode};
use std::io::Write;

/// What a worker tells those who look on.
#[derive(Debug)]
pub struct Observers {
    /// Whether anybody does.
    on: bool,
    /// Whether commands are counted by the prefixes of their keys.
    detail: bool,
    prefixes: Prefixes,
    /// Ends a prefix.
    delimiter: u8,
    /// Called when a command names this key: it ends the process.
    abort_on: Option<(String, fn() -> !)>,
    /// Kinds of events that anybody watches at any worker.
    streams: Streams,
    /// What each worker's watchers want and have coming, by the worker's index.
    targets: Vec<Target>,
    /// The watchers among this worker's connections.
    watchers: Vec<Watcher>,
    watcher_bytes_max: usize,
    worker_bytes_max: usize,
    /// Number of the connection whose command is executed.
    asking: u32,
    /// Number of the next line: those of a worker differ by the number of workers.
    next_gid: u64,
    /// Wall-clock time at the monotonic clock's zero, in microseconds.
    unix_zero_us: u64,
    line: Vec<u8>,
    /// Lines written and dropped.
    written: u64,
    dropped: u64,
}

impl Observers {
    /// Nobody looks on but, with `detail`, the prefixes.
    pub fn new(worker: u16, workers: u16, start: Now, config: &AdminConfig) -> Self {
        let start_us = start.monotonic.0 / 1_000;
        Observers {
            on: config.detail || config.test_abort_on.is_some(),
            detail: config.detail,
            prefixes: Prefixes::default(),
            delimiter: config.prefix_delimiter,
            abort_on: config.test_abort_on.clone(),
            streams: Streams::default(),
            targets: (0..workers).map(|_| Target::default()).collect(),
            watchers: Vec::new(),
            watcher_bytes_max: config.watcher_log_bytes,
            worker_bytes_max: config.worker_log_bytes,
            asking: 0,
            next_gid: u64::from(worker) + 1,
            unix_zero_us: (u64::from(start.unix) * 1_000_000).saturating_sub(start_us),
            line: Vec::new(),
            written: 0,
            dropped: 0,
        }
    }

    /// Whether commands must take the way through this module.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// The number of the connection whose commands follow, for the lines about them.
    pub fn set_asking(&mut self, connection: u32) {
        self.asking = connection;
    }

    /// Whether prefixes are counted.
    pub fn counts_prefixes(&self) -> bool {
        self.detail
    }

    /// Counts by prefix from now on, or no longer; what was counted stays.
    pub fn set_detail(&mut self, on: bool) {
        self.detail = on;
        self.update();
    }

    /// The counts by prefix.
    pub fn prefixes(&self) -> &Prefixes {
        &self.prefixes
    }

    /// `stats reset`.
    pub fn reset(&mut self) {
        self.prefixes.clear();
        (self.written, self.dropped) = (0, 0);
    }

    /// Lines written and dropped, and commands that no prefix was counted for.
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.written, self.dropped, self.prefixes.overflowed)
    }

    /// Whether somebody watches events of this kind.
    pub fn wants(&self, streams: Streams) -> bool {
        self.streams.intersects(streams)
    }

    fn update(&mut self) {
        self.streams = self
            .targets
            .iter()
            .fold(Streams::default(), |all, target| all.union(target.streams));
        self.on = self.detail || !self.streams.is_empty() || self.abort_on.is_some();
    }

    /// Ends the process if this is the key of which it is to die.
    fn die_of(&self, key: &[u8]) {
        if let Some((killer, abort)) = &self.abort_on
            && killer.as_bytes() == key
        {
            abort();
        }
    }

    fn count_prefix(&mut self, key: &[u8], counts: &PrefixCounts) {
        if self.detail {
            self.prefixes.count(key, self.delimiter, counts);
        }
    }

    /// Writes a line for anyone who wants it: `words` follow the time and the line's number.
    fn tell(&mut self, now: Now, streams: Streams, words: impl FnOnce(&mut Vec<u8>)) {
        if !self.wants(streams) {
            return;
        }
        let at_us = self.unix_zero_us + now.monotonic.0 / 1_000;
        self.line.clear();
        // Writing into memory cannot fail.
        let _ = write!(
            self.line,
            "ts={}.{:06} gid={} ",
            at_us / 1_000_000,
            at_us % 1_000_000,
            self.next_gid
        );
        words(&mut self.line);
        self.line.push(b'\n');
        self.next_gid += self.targets.len() as u64;
        let mut fits = true;
        for target in &mut self.targets {
            fits &= target.offer(streams, &self.line, self.worker_bytes_max);
        }
        self.written += 1;
        self.dropped += u64::from(!fits);
    }

    /// An item went to make room.
    pub fn saw_eviction(&mut self, now: Now, seconds: u32, evicted: &Evicted) {
        self.tell(now, Streams::EVICTIONS, |line| {
            line.extend_from_slice(b"type=eviction key=");
            uri_encode(&evicted.key, line);
            let ttl = match evicted.expires_at {
                NEVER => -1,
                at => i64::from(at) - i64::from(seconds),
            };
            let _ = write!(
                line,
                " fetch={} ttl={ttl} la={} clsid={} size={}",
                if evicted.fetched { "yes" } else { "no" },
                evicted.age_s,
                class_of(evicted.bytes),
                evicted.bytes
            );
        });
    }
}

impl Observers {
    /// memcached logs each look-up of a key, also those that a write begins with.
    fn saw_lookup(&mut self, now: Now, key: &[u8], seen: &Seen) {
        let asking = self.asking;
        self.tell(now, Streams::FETCHERS, |line| {
            line.extend_from_slice(b"type=item_get key=");
            uri_encode(key, line);
            let status = if seen.found() { "found" } else { "not_found" };
            let (class, size) = seen.size();
            let _ = write!(
                line,
                " status={status} clsid={class} cfd={asking} size={size}"
            );
        });
    }

    /// `(command, status)` and `(class, size)` as the log names them.
    fn saw_store(
        &mut self,
        now: Now,
        key: &[u8],
        (command, status): (&str, &str),
        (class, size): (usize, usize),
        ttl: u32,
    ) {
        let asking = self.asking;
        self.tell(now, Streams::MUTATIONS, |line| {
            line.extend_from_slice(b"type=item_store key=");
            uri_encode(key, line);
            let _ = write!(
                line,
                " status={status} cmd={command} ttl={ttl} clsid={class} cfd={asking} size={size}"
            );
        });
    }

    fn saw_delete(&mut self, now: Now, key: &[u8], command: &str, before: &Seen) {
        let (class, size) = before.size();
        self.tell(now, Streams::DELETIONS, |line| {
            line.extend_from_slice(b"type=deleted key=");
            uri_encode(key, line);
            let _ = write!(line, " cmd={command} clsid={class} size={size}");
        });
    }

    /// Executes a command while somebody looks on, and tells what became of it.
    pub(crate) fn observe(
        &mut self,
        engine: &mut Engine,
        at: &At,
        key: &[u8],
        operation: Operation,
        apply: impl FnOnce(&mut Engine),
    ) {
        self.die_of(key);
        let before = Seen::of(engine, at, key);
        let newest = engine.newest_version();
        let (too_large, no_memory) = refusals(engine);
        apply(engine);
        let after = Seen::of(engine, at, key);
        let (too_large_after, no_memory_after) = refusals(engine);
        self.saw_lookup(at.now, key, &before);
        let mut counts = PrefixCounts::default();
        match operation {
            Operation::Read => {
                counts.get = 1;
                counts.hit = u64::from(before.found());
            }
            Operation::Store(command, len) => {
                counts.set = 1;
                let changed =
                    before.version() != after.version() || newest != engine.newest_version();
                let status = match (command, before.found()) {
                    _ if too_large != too_large_after => "too_large",
                    _ if no_memory != no_memory_after => "no_memory",
                    _ if changed => "stored",
                    ("cas", true) => "exists",
                    ("cas", false) => "not_found",
                    _ => "not_stored",
                };
                let (size, ttl) = match (status, after.item) {
                    ("stored", Some(_)) => (after.size(), after.ttl()),
                    _ => ((0, len), 0),
                };
                self.saw_store(at.now, key, (command, status), size, ttl);
            }
            Operation::Delete(command) => {
                counts.del = 1;
                if before.found() && !after.found() {
                    self.saw_delete(at.now, key, command, &before);
                }
            }
            Operation::Count => {
                if !before.found() && after.found() {
                    let words = ("add", "stored");
                    self.saw_store(at.now, key, words, after.size(), after.ttl());
                }
            }
            Operation::Other => {}
        }
        self.count_prefix(key, &counts);
    }

    /// A value was refused while its command was read.
    pub(crate) fn saw_refusal(&mut self, now: Now, key: &[u8]) {
        let words = ("set", "too_large");
        self.saw_store(now, key, words, (0, 0), 0);
    }
}

impl Observers {
    /// Whether another connection may watch: a process has [`WATCHERS_MAX`] at most.
    pub(crate) fn have_room(&self) -> bool {
        let everywhere: u16 = self.targets.iter().map(|target| target.watchers).sum();
        everywhere < WATCHERS_MAX
    }

    /// Watchers of this worker.
    pub fn watchers_here(&self) -> u64 {
        self.watchers.len() as u64
    }

    /// What the watchers of this worker want now.
    pub(crate) fn wanted_here(&self) -> Streams {
        let all = self.watchers.iter();
        all.fold(Streams::default(), |all, watcher| {
            all.union(watcher.streams)
        })
    }

    /// A connection of this worker watches.
    pub(crate) fn add_watcher(&mut self, connection: ConnectionId, streams: Streams) {
        self.watchers.push(Watcher {
            connection,
            streams,
            skipped: 0,
        });
    }

    /// A connection is over. Whether it watched.
    pub(crate) fn forget_watcher(&mut self, id: ConnectionId) -> bool {
        let before = self.watchers.len();
        self.watchers.retain(|watcher| watcher.connection != id);
        before != self.watchers.len()
    }

    /// A worker says what its watchers want, and how many they are.
    pub(crate) fn take_watched(
        &mut self,
        store: &mut Store,
        worker: u16,
        streams: Streams,
        watchers: u16,
    ) {
        if let Some(target) = self.targets.get_mut(usize::from(worker)) {
            target.streams = streams;
            target.watchers = watchers;
            if streams.is_empty() {
                target.waiting = Lines::default();
            }
        }
        self.update();
        store.log_evictions(self.wants(Streams::EVICTIONS));
    }

    /// Adds a line for each item that was evicted since the last time.
    pub(crate) fn gather_evictions(&mut self, store: &mut Store, now: Now) {
        if self.wants(Streams::EVICTIONS) {
            let log = store.take_evictions();
            let seconds = TimeBase::seconds(now);
            for evicted in &log.evicted {
                self.saw_eviction(now, seconds, evicted);
            }
            self.dropped += log.dropped;
        }
    }

    /// Lines that have gathered for a worker's watchers, if they may be sent now.
    pub(crate) fn take_lines(&mut self, worker: u16) -> Option<Lines> {
        self.targets[usize::from(worker)].take()
    }

    /// A worker took the lines that were sent to it.
    pub(crate) fn lines_taken(&mut self, by: u16) {
        if let Some(target) = self.targets.get_mut(usize::from(by)) {
            target.in_flight = false;
        }
    }

    /// Writes lines to the watchers of this worker, as far as they read.
    pub(crate) fn write_to_watchers(
        &mut self,
        connections: &mut Connections,
        counters: &mut Counters,
        lines: &Lines,
    ) {
        let most = self.watcher_bytes_max;
        let (mut sent, mut skipped) = (0, 0);
        for watcher in &mut self.watchers {
            let Some(session) = connections.get(watcher.connection) else {
                continue;
            };
            let wanted = lines
                .iter()
                .filter(|(streams, _)| streams.intersects(watcher.streams));
            for (_, line) in wanted {
                if session.waiting_bytes() + line.len() > most {
                    watcher.skipped += 1;
                    skipped += 1;
                    continue;
                }
                let out = session.sink();
                if watcher.skipped > 0 {
                    // Writing into memory cannot fail.
                    let _ = writeln!(out, "skipped={}", watcher.skipped);
                    watcher.skipped = 0;
                }
                out.extend_from_slice(line);
                sent += 1;
            }
            connections.touch(watcher.connection);
        }
        counters.log_watcher_sent += sent;
        counters.log_watcher_skipped += skipped;
    }

    /// A connection with this number was made, or is over for that reason.
    pub(crate) fn saw_connection(
        &mut self,
        now: Now,
        peer: &Peer,
        over: Option<CloseReason>,
        number: u32,
    ) {
        self.tell(now, Streams::CONNEVENTS, |line| {
            // Writing into memory cannot fail.
            let _ = match over {
                None => write!(line, "type=conn_new "),
                Some(_) => write!(line, "type=conn_close "),
            };
            let _ = match peer.address {
                Some(at) => write!(line, "rip={} rport={} transport=tcp", at.ip(), at.port()),
                None => write!(line, "rip=unix rport=0 transport=local"),
            };
            if let Some(reason) = over {
                let _ = write!(line, " reason={}", reason.word());
            }
            let _ = write!(line, " cfd={number}");
        });
    }
}

/// Values refused so far: too large, and for want of memory.
fn refusals(engine: &Engine) -> (u64, u64) {
    let counters = &engine.counters;
    (counters.store_too_large, counters.store_no_memory)
}
