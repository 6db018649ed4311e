//! The one place that reads the machine's clocks for the cores.

use evenkeel_types::{Instant, Now};
use std::time::{SystemTime, UNIX_EPOCH};

/// A monotonic clock that starts when it is made, and the wall clock beside it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: std::time::Instant,
}

impl Clock {
    /// Starts the clock. Copies of it agree with each other, so a process makes one.
    pub fn start() -> Self {
        Clock {
            start: std::time::Instant::now(),
        }
    }

    /// Reads both clocks (two vDSO calls; once for each turn of an event loop, not per request).
    pub fn now(&self) -> Now {
        let nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Now {
            monotonic: Instant(nanos),
            unix: unix_millis_now().div_euclid(1000) as u32,
        }
    }

    /// Wall-clock milliseconds since 1970, for boot ids and the start of version counters.
    pub fn unix_millis(&self) -> u64 {
        unix_millis_now()
    }
}

/// Wall-clock milliseconds since 1970; zero on a clock that stands before 1970.
fn unix_millis_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}
