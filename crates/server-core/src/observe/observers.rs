//! What a worker tells those who look on.

use super::deed::Seen;
use super::log::Target;
use super::watcher::Watcher;
use crate::shard::classes::class_of;
use crate::shard::prefixes::{PrefixCounts, Prefixes};
use evenkeel_protocol::admin::Streams;
use evenkeel_storage::{Evicted, NEVER};
use evenkeel_types::Now;
use evenkeel_types::uri_encode;
use std::io::Write;

/// Most bytes that a watcher may leave unread before lines are skipped for it (memcached's
/// `watcher_logbuf_size`).
pub const WATCHER_LOG_BYTES_DEFAULT: usize = 256 << 10;

/// Most bytes of lines that a worker keeps for the watchers of another (memcached's
/// `worker_logbuf_size`).
pub const WORKER_LOG_BYTES_DEFAULT: usize = 64 << 10;

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
    /// See [`ObserverConfig::abort_on`].
    abort_on: Option<(String, fn() -> !)>,
    /// Kinds of events that anybody watches at any worker.
    streams: Streams,
    /// What each worker's watchers want and have coming, by the worker's index.
    pub(crate) targets: Vec<Target>,
    /// The watchers among this worker's connections.
    pub(crate) watchers: Vec<Watcher>,
    pub(crate) watcher_bytes_max: usize,
    worker_bytes_max: usize,
    /// Number of the connection whose command is carried out.
    asking: u32,
    /// Number of the next line: those of a worker differ by the number of workers.
    next_gid: u64,
    /// Wall-clock time at the monotonic clock's zero, in microseconds.
    unix_zero_us: u64,
    line: Vec<u8>,
    /// Lines written and dropped.
    written: u64,
    pub(crate) dropped: u64,
}

/// How a worker observes.
#[derive(Clone, Debug)]
pub struct ObserverConfig {
    /// Which worker this is, and of how many.
    pub worker: u16,
    /// How many workers there are.
    pub workers: u16,
    /// The first reading of the clocks.
    pub start: Now,
    /// Count by prefix from the start (`-D`).
    pub detail: bool,
    /// What ends a prefix.
    pub delimiter: u8,
    /// Called when a command names this key: it ends the process.
    pub abort_on: Option<(String, fn() -> !)>,
    /// See [`WATCHER_LOG_BYTES_DEFAULT`].
    pub watcher_bytes_max: usize,
    /// See [`WORKER_LOG_BYTES_DEFAULT`].
    pub worker_bytes_max: usize,
}

impl Observers {
    /// Nobody looks on but, with `detail`, the prefixes.
    pub fn new(config: &ObserverConfig) -> Self {
        let start_us = config.start.monotonic.0 / 1_000;
        Observers {
            on: config.detail || config.abort_on.is_some(),
            detail: config.detail,
            prefixes: Prefixes::default(),
            delimiter: config.delimiter,
            abort_on: config.abort_on.clone(),
            streams: Streams::default(),
            targets: (0..config.workers).map(|_| Target::default()).collect(),
            watchers: Vec::new(),
            watcher_bytes_max: config.watcher_bytes_max,
            worker_bytes_max: config.worker_bytes_max,
            asking: 0,
            next_gid: u64::from(config.worker) + 1,
            unix_zero_us: (u64::from(config.start.unix) * 1_000_000).saturating_sub(start_us),
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

    pub(crate) fn update(&mut self) {
        self.streams = self
            .targets
            .iter()
            .fold(Streams::default(), |all, target| all.union(target.streams));
        self.on = self.detail || !self.streams.is_empty() || self.abort_on.is_some();
    }

    /// Ends the process if this is the key of which it is to die.
    pub(crate) fn die_of(&self, key: &[u8]) {
        if let Some((killer, abort)) = &self.abort_on
            && killer.as_bytes() == key
        {
            abort();
        }
    }

    pub(crate) fn count_prefix(&mut self, key: &[u8], counts: &PrefixCounts) {
        if self.detail {
            self.prefixes.count(key, self.delimiter, counts);
        }
    }

    /// Writes a line for whoever wants it: `words` follow the time and the line's number.
    pub(crate) fn tell(&mut self, now: Now, streams: Streams, words: impl FnOnce(&mut Vec<u8>)) {
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
    pub(crate) fn saw_lookup(&mut self, now: Now, key: &[u8], seen: &Seen) {
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
    pub(crate) fn saw_store(
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

    pub(crate) fn saw_delete(&mut self, now: Now, key: &[u8], command: &str, before: &Seen) {
        let (class, size) = before.size();
        self.tell(now, Streams::DELETIONS, |line| {
            line.extend_from_slice(b"type=deleted key=");
            uri_encode(key, line);
            let _ = write!(line, " cmd={command} clsid={class} size={size}");
        });
    }
}

impl Observers {
    pub(crate) fn watchers_everywhere(&self) -> u16 {
        self.targets.iter().map(|target| target.watchers).sum()
    }

    /// Watchers of this worker.
    pub fn watchers_here(&self) -> u64 {
        self.watchers.len() as u64
    }
}
