//! How many connections a process has, and what becomes of one too many (memcached's `-c`).

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What becomes of a connection over the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverLimit {
    /// It is accepted, told so and closed (memcached's `-o maxconns_fast`).
    #[default]
    Refuse,
    /// It waits in the listener's backlog until another one ends.
    Wait,
}

/// Open connections of a process against its limit, shared by everything that accepts.
#[derive(Debug, Default)]
pub struct ConnectionCount {
    limit: usize,
    over_limit: OverLimit,
    open: AtomicUsize,
    total: AtomicU64,
    refused: AtomicU64,
    /// Accepting has stopped. Written under the lock of `pauses` only.
    paused: AtomicBool,
    pauses: Mutex<Pauses>,
}

/// Times without accepting.
#[derive(Clone, Copy, Debug, Default)]
struct Pauses {
    since: Option<Instant>,
    count: u64,
    /// Of those that have ended.
    total: Duration,
}

impl ConnectionCount {
    /// Allows `limit` connections at a time, and refuses those over it.
    pub fn new(limit: usize) -> Arc<Self> {
        Self::with_rule(limit, OverLimit::Refuse)
    }

    /// Allows `limit` connections at a time.
    pub fn with_rule(limit: usize, over_limit: OverLimit) -> Arc<Self> {
        Arc::new(ConnectionCount {
            limit,
            over_limit,
            ..ConnectionCount::default()
        })
    }

    /// Whether to take a connection from the backlog at all. Several threads accept: one that passes
    /// here may find the last place taken when it comes to [`try_open`](Self::try_open), and refuses
    /// then. So few are told that never more than the limit are open, and the rest wait.
    pub fn may_accept(&self) -> bool {
        self.over_limit == OverLimit::Refuse || self.open() < self.limit
    }

    /// Counts a connection in, unless the limit is reached.
    pub fn try_open(&self) -> bool {
        let admitted = self
            .open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
                (open < self.limit).then_some(open + 1)
            })
            .is_ok();
        let counter = if admitted { &self.total } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        admitted
    }

    /// Counts a connection out.
    pub fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Maximum connections at a time.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Connections admitted since the start.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Connections refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A listener leaves its connections in the backlog.
    pub fn stopped_accepting(&self) {
        let mut pauses = self.pauses();
        if pauses.since.is_none() {
            pauses.since = Some(Instant::now());
            pauses.count += 1;
            self.paused.store(true, Ordering::Relaxed);
        }
    }

    /// A listener takes connections.
    pub fn accepts(&self) {
        if !self.paused.load(Ordering::Relaxed) {
            return;
        }
        let mut pauses = self.pauses();
        if let Some(since) = pauses.since.take() {
            pauses.total += since.elapsed();
            self.paused.store(false, Ordering::Relaxed);
        }
    }

    /// Whether connections are accepted.
    pub fn is_accepting(&self) -> bool {
        !self.paused.load(Ordering::Relaxed)
    }

    /// How often accepting has stopped, and for how long in all.
    pub fn pauses_so_far(&self) -> (u64, Duration) {
        let pauses = *self.pauses();
        let now = pauses.since.map_or(Duration::ZERO, |since| since.elapsed());
        (pauses.count, pauses.total + now)
    }

    fn pauses(&self) -> MutexGuard<'_, Pauses> {
        // Nothing panics while the lock is held; if it did, the numbers would still be good.
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_too_many_is_refused_and_counted() {
        let count = ConnectionCount::new(2);
        assert!(count.may_accept() && count.try_open() && count.try_open());
        assert!(count.may_accept() && !count.try_open());
        assert_eq!((count.open(), count.total(), count.refused()), (2, 2, 1));
        count.closed();
        assert!(count.try_open());
    }

    #[test]
    fn one_too_many_waits_and_the_pause_is_counted_once() {
        let count = ConnectionCount::with_rule(1, OverLimit::Wait);
        assert!(count.may_accept() && count.try_open());
        assert!(!count.may_accept());
        count.stopped_accepting();
        count.stopped_accepting();
        assert!(!count.is_accepting());
        assert_eq!(count.pauses_so_far().0, 1);
        count.closed();
        assert!(count.may_accept());
        count.accepts();
        let (pauses, time) = count.pauses_so_far();
        assert!(count.is_accepting() && pauses == 1);
        assert_eq!(count.pauses_so_far().1, time, "the pause is over");
        assert_eq!(count.refused(), 0);
    }
}
