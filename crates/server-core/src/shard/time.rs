//! Expiry times: from what clients send to seconds since the process began.

use evenkeel_types::Now;
use evenkeel_types::limits::EXPTIME_RELATIVE_MAX_S;

/// Seconds on the store's clock.
pub type Seconds = u32;

/// The store's clock shows this when the process starts, so that [`LONG_PAST`] is always in the past.
const CLOCK_START: Seconds = 2;

/// An expiry that has passed at any time.
pub const LONG_PAST: Seconds = 1;

/// An expiry that never comes.
pub const NEVER: Seconds = 0;

/// Relates the store's clock to the wall clock, once, when the process starts.
#[derive(Clone, Copy, Debug)]
pub struct TimeBase {
    /// Wall-clock time at which the store's clock would have shown zero.
    zero_unix: i64,
}

impl TimeBase {
    /// `start` is the first reading of the clocks.
    pub fn new(start: Now) -> Self {
        let zero = i64::from(start.unix) - i64::from(Self::seconds(start));
        TimeBase { zero_unix: zero }
    }

    /// The store's clock.
    #[inline]
    pub fn seconds(now: Now) -> Seconds {
        Seconds::try_from(now.monotonic.as_secs()).unwrap_or(Seconds::MAX - CLOCK_START)
            + CLOCK_START
    }

    /// A time of the store's clock as a Unix time.
    pub fn unix(&self, seconds: Seconds) -> i64 {
        self.zero_unix + i64::from(seconds)
    }

    /// When an item with this exptime expires (protocol.txt, "Expiration times"): 0 never, negative
    /// at once, up to 30 days relative, anything larger a Unix time.
    pub fn expiry(&self, now: Now, exptime: i64) -> Seconds {
        let expiry = match exptime {
            0 => return NEVER,
            ..0 => return LONG_PAST,
            1..=EXPTIME_RELATIVE_MAX_S => i64::from(Self::seconds(now)) + exptime,
            _ => exptime - self.zero_unix,
        };
        // Past the clock's last second is as good as that second: 136 years from the start.
        Seconds::try_from(expiry.max(i64::from(LONG_PAST))).unwrap_or(Seconds::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_types::Instant;

    #[test]
    fn exptimes_are_read_as_memcached_reads_them() {
        let start = Now {
            monotonic: Instant(0),
            unix: 1_700_000_000,
        };
        let base = TimeBase::new(start);
        let now = Now {
            monotonic: Instant::from_millis(100_500),
            unix: 1_700_000_100,
        };
        assert_eq!(TimeBase::seconds(now), 102);
        assert_eq!(base.expiry(now, 0), NEVER);
        assert_eq!(base.expiry(now, -1), LONG_PAST);
        assert_eq!(base.expiry(now, i64::MIN), LONG_PAST);
        assert_eq!(base.expiry(now, 60), 162);
        assert_eq!(base.expiry(now, EXPTIME_RELATIVE_MAX_S), 102 + 2_592_000);
        // One more second is a Unix time in January 1970.
        assert_eq!(base.expiry(now, EXPTIME_RELATIVE_MAX_S + 1), LONG_PAST);
        assert_eq!(base.expiry(now, 1_700_000_160), 162);
        assert_eq!(base.expiry(now, i64::MAX), Seconds::MAX);
    }
}
