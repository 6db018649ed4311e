//! Ends the process when no coordinator has answered for nearly as long as it may not be heard: then the pools that it follows go on without it.
//!
//! A process that was stopped does not know for how long, so it looks at the clock in front of each write to a server, of each heartbeat, and when a
//! turn of an event loop begins. What is left is a process that is stopped between that look and the system call behind it.

use evenkeel_control::gone::serves_for;
use evenkeel_proxy_core::MapSource;
use evenkeel_runtime::Clock;
use evenkeel_types::Instant;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tracing::error;

/// That the process ends by itself; all its threads share it.
#[derive(Clone, Debug)]
pub struct Fence(Arc<State>);

impl Default for Fence {
    /// Never.
    fn default() -> Self {
        Fence::new(Clock::start(), None)
    }
}

#[derive(Debug)]
struct State {
    clock: Clock,
    /// See [`Heartbeat::gone_after_ms`](evenkeel_control::Heartbeat::gone_after_ms). `None` for never.
    gone_after: Option<Duration>,
    /// Until when each cluster, of which pools are followed, has heard of this process lately enough.
    heard_until: Mutex<BTreeMap<MapSource, Instant>>,
    /// The first of these, of [`Instant`]; `NEVER` while there is none.
    until: AtomicU64,
}

const NEVER: u64 = u64::MAX;

impl Fence {
    /// Ends nothing before a coordinator has [answered](Self::renew).
    pub fn new(clock: Clock, gone_after: Option<Duration>) -> Self {
        Fence(Arc::new(State {
            clock,
            gone_after,
            heard_until: Mutex::default(),
            until: AtomicU64::new(NEVER),
        }))
    }

    /// How long the process must not have been heard to count as gone; `None` for never.
    pub fn gone_after(&self) -> Option<Duration> {
        self.0.gone_after
    }

    /// A coordinator, pools of whose cluster are followed, has answered what was sent at this time. That comes too late for a process that was to
    /// end before: others have gone on without it.
    pub fn renew(&self, source: MapSource, sent: std::time::Instant) {
        self.check();
        let Some(gone_after) = self.0.gone_after else {
            return;
        };
        let ago = u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let sent = Instant(self.0.clock.monotonic().0.saturating_sub(ago));
        self.change(|heard_until| {
            heard_until.insert(source, sent + serves_for(gone_after));
        });
    }

    /// No pool of a cluster is followed any more, or nothing is asked of those that are.
    pub fn lift(&self, source: MapSource) {
        self.change(|heard_until| {
            heard_until.remove(&source);
        });
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<MapSource, Instant>)) {
        let state = &self.0;
        let heard_until = state.heard_until.lock();
        let mut heard_until = heard_until.unwrap_or_else(PoisonError::into_inner);
        change(&mut heard_until);
        let first = heard_until.values().min().map_or(NEVER, |until| until.0);
        state.until.store(first, Ordering::Relaxed);
    }

    /// Ends the process if it is time. The kernel's last tick is near enough: see [`margin`](evenkeel_control::gone::margin).
    #[inline]
    pub fn check(&self) {
        let until = self.0.until.load(Ordering::Relaxed);
        if until != NEVER && self.0.clock.coarse().0 >= until {
            self.end();
        }
    }

    #[cold]
    fn end(&self) {
        let gone_after = self.0.gone_after.unwrap_or_default();
        error!(
            "no coordinator has answered for {} s: with gone_after = \"{}s\" the pools that it leads are about to go on without this \
             proxy, so it ends",
            serves_for(gone_after).as_secs(),
            gone_after.as_secs()
        );
        std::process::exit(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(fence: &Fence) -> u64 {
        fence.0.until.load(Ordering::Relaxed)
    }

    /// That it ends the process, and when, is tried with processes.
    #[test]
    fn the_cluster_that_was_heard_longest_ago_counts() {
        let clock = Clock::start();
        let fence = Fence::new(clock, Some(Duration::from_secs(30)));
        assert_eq!(until(&fence), NEVER, "nobody has told it anything");
        let serves = Duration::from_secs(27);
        let (before, sent) = (clock.monotonic(), std::time::Instant::now());
        fence.renew(MapSource(1), sent);
        let first = until(&fence);
        let after = clock.monotonic();
        assert!((before + serves).0 <= first && first <= (after + serves).0);
        fence.renew(MapSource(2), std::time::Instant::now());
        assert_eq!(until(&fence), first);
        fence.renew(MapSource(1), std::time::Instant::now());
        assert!(until(&fence) > first);
        fence.check();
        fence.lift(MapSource(1));
        fence.lift(MapSource(2));
        assert_eq!(until(&fence), NEVER);
    }

    #[test]
    fn without_a_time_it_never_ends() {
        let fence = Fence::new(Clock::start(), None);
        fence.renew(MapSource(1), std::time::Instant::now());
        assert_eq!((fence.gone_after(), until(&fence)), (None, NEVER));
    }
}
