//! How long a worker sleeps, without a look at the clock before each nap.

use evenkeel_types::Instant;
use std::time::Duration;

/// So many naps of a slot are measured each, so that a worker with few of them is known exactly.
const MEASURED_EACH: u32 = 1024;

/// Of the others one in so many is, and stands for all of them.
const MEASURED_ONE_IN: u32 = 16;

/// The naps of one worker.
#[derive(Debug, Default)]
pub struct Naps {
    /// Since the slot began.
    count: u32,
}

/// A nap that is measured.
#[derive(Clone, Copy, Debug)]
pub struct Nap {
    begun: Instant,
    stands_for: u32,
}

impl Naps {
    /// A slot begins.
    pub fn begin_slot(&mut self) {
        self.count = 0;
    }

    /// The worker is about to wait for something to do, for so long at most.
    #[inline]
    pub fn begin(&mut self, wait: Duration, now: impl FnOnce() -> Instant) -> Option<Nap> {
        if wait.is_zero() {
            return None;
        }
        self.count = self.count.wrapping_add(1);
        let stands_for = stands_for(self.count)?;
        Some(Nap {
            begun: now(),
            stands_for,
        })
    }
}

impl Nap {
    /// How long this nap and those that it stands for have lasted.
    #[inline]
    pub fn lasted(self, now: Instant) -> Duration {
        now.since(self.begun) * self.stands_for
    }
}

/// How many naps the one of this number, from 1, stands for; `None` if it is not measured.
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
    fn each_nap_is_counted_once() {
        for naps in [1, 100, MEASURED_EACH, 10 * MEASURED_EACH] {
            let counted: u32 = (1..=naps).filter_map(stands_for).sum();
            assert_eq!(counted, naps);
        }
        let measured = (1..=10 * MEASURED_EACH).filter_map(stands_for).count();
        let expected = MEASURED_EACH + 9 * MEASURED_EACH / MEASURED_ONE_IN;
        assert_eq!(measured as u32, expected);
    }
}
