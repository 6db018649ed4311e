//! The idle time of a worker, by a sample of its waits: the clock is not read before each.
//!
//! A worker that is woken and has to wait for a processor that somebody else has is not idle, though its poll has not
//! returned: the scheduler knows for how long. Nor is one whose answers fill the network: it could not serve more.

use evenkeel_runtime::ProcessorTimes;
use evenkeel_types::Instant;
use std::time::Duration;

/// What the scheduler counts is asked for at most this often, and waits are told then.
const TOLD_EVERY: Duration = Duration::from_millis(100);

/// This many waits of a slot are measured each, so that a worker with few of them is known exactly.
const MEASURED_EACH: u32 = 1024;

/// Of the others one in this many is, and stands for all of them.
const MEASURED_ONE_IN: u32 = 16;

/// The waits of one worker.
#[derive(Debug)]
pub struct IdleSampler {
    /// Since they were told last.
    count: u32,
    /// How long those lasted.
    slept: Duration,
    since: Instant,
    times: ProcessorTimes,
    /// What the scheduler said then.
    wanted_before: Option<Duration>,
}

/// A wait that is measured.
#[derive(Clone, Copy, Debug)]
pub struct SampledWait {
    begun: Instant,
    stands_for: u32,
}

impl IdleSampler {
    /// Of the calling thread, from now on.
    pub fn new(now: Instant) -> Self {
        let times = ProcessorTimes::of_this_thread();
        IdleSampler {
            count: 0,
            slept: Duration::ZERO,
            since: now,
            wanted_before: times.wanted(),
            times,
        }
    }

    /// The worker is about to wait for something to do, for this long at most.
    #[inline]
    pub fn begin(&mut self, wait: Duration, now: impl FnOnce() -> Instant) -> Option<SampledWait> {
        if wait.is_zero() {
            return None;
        }
        self.count = self.count.wrapping_add(1);
        let stands_for = stands_for(self.count)?;
        Some(SampledWait {
            begun: now(),
            stands_for,
        })
    }

    /// A wait is over.
    #[inline]
    pub fn end(&mut self, wait: SampledWait, now: Instant) {
        self.slept += now.since(wait.begun) * wait.stands_for;
    }

    /// How long the worker has had nothing to do since this was told last; `None` if that was just now. `network` is the part of the
    /// machine's network that is used.
    pub fn take(&mut self, now: Instant, network: f64) -> Option<Duration> {
        let elapsed = now.since(self.since);
        if elapsed < TOLD_EVERY {
            return None;
        }
        let wanted = self.times.wanted();
        let since_before = wanted
            .zip(self.wanted_before)
            .map(|(now, before)| now.saturating_sub(before));
        let used = elapsed.mul_f64(network.clamp(0.0, 1.0));
        let idle = idle_time(self.slept, elapsed, since_before.unwrap_or_default(), used);
        (self.count, self.slept) = (0, Duration::ZERO);
        (self.since, self.wanted_before) = (now, wanted);
        Some(idle)
    }
}

/// How much of a time a worker was idle, in which its waits lasted for this long and in which it wanted a processor, working or waiting
/// for one, or used the network for this long.
fn idle_time(slept: Duration, elapsed: Duration, wanted: Duration, used: Duration) -> Duration {
    slept.min(elapsed.saturating_sub(wanted.max(used)))
}

/// How many waits the one of this number, from 1, stands for; `None` if it is not measured.
#[inline]
fn stands_for(number: u32) -> Option<u32> {
    if number <= MEASURED_EACH {
        Some(1)
    } else {
        number
            .is_multiple_of(MEASURED_ONE_IN)
            .then_some(MEASURED_ONE_IN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_waits_for_a_processor_is_not_idle() {
        let ms = Duration::from_millis;
        let idle_time = |slept, elapsed, wanted| idle_time(slept, elapsed, wanted, Duration::ZERO);
        assert_eq!(idle_time(ms(80), ms(100), ms(20)), ms(80));
        assert_eq!(idle_time(ms(86), ms(100), ms(95)), ms(5));
        assert_eq!(
            idle_time(ms(10), ms(100), ms(20)),
            ms(10),
            "what it did otherwise than by a processor"
        );
        assert_eq!(idle_time(ms(90), ms(100), ms(101)), ms(0));
    }

    #[test]
    fn a_worker_whose_answers_fill_the_network_is_not_idle() {
        let ms = Duration::from_millis;
        assert_eq!(idle_time(ms(80), ms(100), ms(20), ms(90)), ms(10));
        assert_eq!(idle_time(ms(80), ms(100), ms(95), ms(90)), ms(5));
        assert_eq!(idle_time(ms(80), ms(100), ms(20), ms(100)), ms(0));
        assert_eq!(idle_time(ms(80), ms(100), ms(20), ms(10)), ms(80));
    }

    #[test]
    fn each_wait_is_counted_once() {
        for waits in [1, 100, MEASURED_EACH, 10 * MEASURED_EACH] {
            let counted: u32 = (1..=waits).filter_map(stands_for).sum();
            assert_eq!(counted, waits);
        }
        let measured = (1..=10 * MEASURED_EACH).filter_map(stands_for).count();
        let expected = MEASURED_EACH + 9 * MEASURED_EACH / MEASURED_ONE_IN;
        assert_eq!(measured as u32, expected);
    }
}
