//! When a member speaks next, and orders to do so at once or never again.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Interval until a coordinator has said otherwise: members show up quickly.
const INTERVAL_FIRST: Duration = Duration::from_millis(100);

/// What is soon over, such as an election, mostly ends within this many times the [first interval](INTERVAL_FIRST). After that the
/// member asks less and less often, as ever.
const WAITS_SHORT: u32 = 40;

/// Longest wait between attempts while nobody answers. Short enough that a cluster is whole again
/// within five seconds of its coordinator's return.
const RETRY_MAX: Duration = Duration::from_secs(2);

/// What the program wants of the thread.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    order: Mutex<Order>,
    given: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct Order {
    pub(crate) stop: bool,
    pub(crate) hurry: bool,
    /// The coordinator is to be told that this is the end.
    pub(crate) leave: bool,
}

impl Orders {
    pub(crate) fn give(&self, change: impl FnOnce(&mut Order)) {
        change(&mut self.lock());
        self.given.notify_all();
    }

    /// Whether to stop.
    pub(crate) fn stopped(&self) -> bool {
        self.lock().stop
    }

    /// Whether the coordinator is to be told.
    pub(crate) fn leaves(&self) -> bool {
        self.lock().leave
    }

    /// Waits for an order, at most this long. Returns whether to stop.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let until = Instant::now() + at_most;
        let mut order = self.lock();
        while !order.stop && !order.hurry {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.given.wait_timeout(order, left);
            order = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        order.hurry = false;
        order.stop
    }

    fn lock(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When to send the next heartbeat.
#[derive(Debug)]
pub(crate) struct Pace {
    pub(crate) interval: Duration,
    /// Rounds in a row in which nobody gave a usable answer.
    pub(crate) failures: u32,
    /// Rounds in a row that were answered with what is soon over.
    pub(crate) waits: u32,
    random: Xoshiro256PlusPlus,
}

impl Pace {
    pub(crate) fn new(seed: u64) -> Self {
        Pace {
            interval: INTERVAL_FIRST,
            failures: 0,
            waits: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// The wait until the next round: a tenth less than the interval at most, so that members do
    /// not report in step; after failures twice as long each time, anywhere in the upper half. What is
    /// soon over is awaited with short steps.
    pub(crate) fn next_wait(&mut self) -> Duration {
        let fraction = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        if self.failures == 0 {
            return self.interval.mul_f64(0.9 + 0.1 * fraction);
        }
        if (1..=WAITS_SHORT).contains(&self.waits) {
            return INTERVAL_FIRST.mul_f64(0.5 + 0.5 * fraction);
        }
        let doubled = self.interval.saturating_mul(1 << self.failures.min(16));
        let longest = doubled.min(RETRY_MAX.max(self.interval));
        longest.mul_f64(0.5 + 0.5 * fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_are_never_late_and_retries_grow_to_a_bound() {
        let mut pace = Pace::new(1);
        pace.interval = Duration::from_millis(500);
        let waits: Vec<_> = (0..100).map(|_| pace.next_wait()).collect();
        let in_range = |w: &Duration| (450..=500).contains(&w.as_millis());
        assert!(waits.iter().all(in_range), "{waits:?}");
        assert!(waits.windows(2).any(|w| w[0] != w[1]), "spread");
        for failures in 1..100 {
            pace.failures = failures;
            let most = RETRY_MAX.min(Duration::from_millis(500 << failures.min(10)));
            let wait = pace.next_wait();
            assert!(wait >= most / 2 && wait <= most, "{failures}: {wait:?}");
        }
    }

    #[test]
    fn what_is_soon_over_is_awaited_with_short_steps_for_a_while() {
        let mut pace = Pace::new(1);
        pace.interval = Duration::from_millis(500);
        pace.failures = 9;
        for waits in 1..=WAITS_SHORT {
            pace.waits = waits;
            assert!((50..=100).contains(&pace.next_wait().as_millis()));
        }
        pace.waits = WAITS_SHORT + 1;
        assert!(pace.next_wait() >= RETRY_MAX / 2);
    }
}
