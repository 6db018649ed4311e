//! Time as the pure cores are told it.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A point on a process's monotonic clock, in nanoseconds since a start that only that process
/// knows. Never sent to another process: leases travel as durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// A point this many milliseconds after the clock's start; for tests and simulation.
    pub const fn from_millis(ms: u64) -> Self {
        Instant(ms * 1_000_000)
    }

    /// Time since `earlier`, or zero when `earlier` is not in the past.
    #[inline]
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Whole seconds since the clock's start.
    #[inline]
    pub fn as_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// Saturates at the end of the clock (584 years).
    #[inline]
    fn add(self, duration: Duration) -> Instant {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(nanos))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    /// Saturates at the clock's start.
    #[inline]
    fn sub(self, duration: Duration) -> Instant {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_sub(nanos))
    }
}

/// Wall-clock time in whole seconds since 1970. Used for TTLs alone.
pub type UnixSeconds = u32;

/// What a core is told of the time with each call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic time; never goes backwards between calls.
    pub monotonic: Instant,
    /// Wall-clock time; may jump.
    pub unix: UnixSeconds,
}
