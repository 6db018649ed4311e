//! Bounds of the time that items live, as routes may set them.
//!
//! They hold for what the application says, read as memcached reads it (`protocol.txt`, "Expiration
//! times"):
//!
//! | exptime | means | bounded |
//! |---|---|---|
//! | 0 | never | the upper bound, if there is one; else still never |
//! | below 0 | gone at once | not at all: it deletes |
//! | to 2,592,000 (30 days) | this many seconds | between the bounds |
//! | above | Unix time | what is left until then, between the bounds; one that is past deletes |
//!
//! Jitter then takes off a random part, so that items which were stored together do not all go at
//! once. It only shortens, never below the lower bound or one second, and leaves "never" alone.
//! An exptime that is within its bounds is sent as the application wrote it.

use evenkeel_types::UnixSeconds;

/// From here on an exptime is a Unix time (memcached `REALTIME_MAXDELTA`).
const RELATIVE_MAX: i64 = 60 * 60 * 24 * 30;

/// Largest bound, in seconds: ten years. memcached keeps exptimes in 32 bits with a sign, so that a
/// Unix time beyond January 2038 would be in the past.
pub const TTL_BOUND_MAX: u32 = 10 * 365 * 24 * 60 * 60;

/// Bounds for the exptimes of a route's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlBounds {
    /// Least seconds, 0 for no bound.
    pub min: u32,
    /// Most seconds, 0 for no bound; not below `min` otherwise.
    pub max: u32,
    /// The largest part that is taken off, in 2^-32.
    pub jitter: u32,
}

impl TtlBounds {
    /// No bounds: every exptime stays as it is.
    pub const NONE: TtlBounds = TtlBounds {
        min: 0,
        max: 0,
        jitter: 0,
    };

    /// The jitter of a fraction of 0 to 1.
    pub fn jitter_of(fraction: f64) -> u32 {
        // Saturates: 1 is a 2^-32 less than all.
        (fraction.clamp(0.0, 1.0) * (1u64 << 32) as f64) as u32
    }

    /// Whether there is nothing to do.
    #[inline]
    pub fn is_none(&self) -> bool {
        *self == TtlBounds::NONE
    }

    /// These bounds, and none above this many seconds.
    #[must_use]
    pub fn at_most(self, seconds: u32) -> Self {
        let max = match self.max {
            0 => seconds,
            max => max.min(seconds),
        };
        TtlBounds {
            min: self.min.min(max),
            max,
            jitter: self.jitter,
        }
    }

    /// The exptime to send for one of the application's, at a wall-clock time. `random` decides
    /// about the jitter and is evenly distributed.
    pub fn apply(&self, exptime: i64, unix: UnixSeconds, random: u32) -> i64 {
        let unix = i64::from(unix);
        let left = match exptime {
            0 if self.max == 0 => return 0,
            0 => i64::from(self.max),
            1..=RELATIVE_MAX => exptime,
            _ => exptime - unix,
        };
        if exptime < 0 || left <= 0 {
            return exptime;
        }
        let (min, max) = (i64::from(self.min), i64::from(self.max));
        let left_bounded = match max {
            0 => left.max(min),
            max => left.clamp(min.min(max), max),
        };
        let part = (u64::from(self.jitter) * u64::from(random)) >> 32;
        // Both factors are below 2^32: an exptime, and a part in 2^-32.
        let cut = ((left_bounded as u64).min(u32::MAX.into()) * part) >> 32;
        let kept = (left_bounded - cut as i64).max(min).max(1);
        match kept {
            kept if kept == left && exptime != 0 => exptime,
            kept if kept <= RELATIVE_MAX => kept,
            kept => (unix + kept).min(i32::MAX.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIX: u32 = 1_800_000_000;
    const NOW: i64 = UNIX as i64;
    const DAY: i64 = 86_400;

    fn bounds(min: u32, max: u32) -> TtlBounds {
        TtlBounds {
            min,
            max,
            jitter: 0,
        }
    }

    #[test]
    fn bounds_can_be_made_narrower() {
        assert_eq!(TtlBounds::NONE.at_most(10), bounds(0, 10));
        assert_eq!(bounds(60, 600).at_most(10), bounds(10, 10));
        assert_eq!(bounds(5, 600).at_most(10), bounds(5, 10));
        assert_eq!(bounds(5, 8).at_most(10), bounds(5, 8));
        assert_eq!(bounds(60, 600).at_most(10).apply(0, UNIX, 0), 10);
    }

    #[test]
    fn every_kind_of_exptime_within_and_beyond_its_bounds() {
        let month = RELATIVE_MAX as u32;
        for (bounds, exptime, sent) in [
            // No bounds, or none that bites: as the application wrote it.
            (TtlBounds::NONE, 0, 0),
            (bounds(60, 600), 60, 60),
            (bounds(60, 600), 600, 600),
            (bounds(60, 0), NOW + 300, NOW + 300),
            // Never.
            (bounds(60, 0), 0, 0),
            (bounds(0, 600), 0, 600),
            // Gone at once stays gone at once.
            (bounds(60, 600), -1, -1),
            (bounds(60, 600), NOW - 1, NOW - 1),
            (bounds(60, 600), NOW, NOW),
            (bounds(60, 600), i64::from(i32::MIN), i64::from(i32::MIN)),
            // Seconds.
            (bounds(60, 600), 1, 60),
            (bounds(60, 600), 601, 600),
            (bounds(60, 600), RELATIVE_MAX, 600),
            // Unix times.
            (bounds(60, 600), NOW + 1, 60),
            (bounds(60, 600), NOW + 60 * DAY, 600),
            (bounds(60, 600), RELATIVE_MAX + 1, RELATIVE_MAX + 1),
            // Beyond thirty days only a Unix time can say it.
            (bounds(0, month), 0, RELATIVE_MAX),
            (bounds(0, month + 1), 0, NOW + RELATIVE_MAX + 1),
            (bounds(month + 1, 0), 5, NOW + RELATIVE_MAX + 1),
            (bounds(0, TTL_BOUND_MAX), 0, NOW + i64::from(TTL_BOUND_MAX)),
        ] {
            assert_eq!(bounds.apply(exptime, UNIX, 0), sent, "{bounds:?} {exptime}");
        }
        // memcached reads Unix times in 32 bits with a sign.
        let late = bounds(0, TTL_BOUND_MAX).apply(0, 2_000_000_000, 0);
        assert_eq!(late, i64::from(i32::MAX));
    }

    #[test]
    fn jitter_only_shortens_and_stays_above_the_lower_bound() {
        let jitter = TtlBounds::jitter_of(0.1);
        let bounds = TtlBounds {
            min: 0,
            max: 0,
            jitter,
        };
        assert_eq!(bounds.apply(1000, UNIX, 0), 1000);
        assert_eq!(bounds.apply(1000, UNIX, u32::MAX / 2), 951);
        assert_eq!(bounds.apply(1000, UNIX, u32::MAX), 901);
        assert_eq!(bounds.apply(NOW + 1000, UNIX, u32::MAX), 901);
        assert_eq!(bounds.apply(1, UNIX, u32::MAX), 1);
        assert_eq!(bounds.apply(0, UNIX, u32::MAX), 0, "never is not shortened");
        let all = TtlBounds {
            min: 600,
            max: 800,
            jitter: TtlBounds::jitter_of(1.0),
        };
        assert_eq!(all.apply(0, UNIX, u32::MAX), 600);
        let all = TtlBounds { min: 0, ..all };
        assert_eq!(
            all.apply(0, UNIX, u32::MAX),
            1,
            "an item that is stored lives"
        );
        assert_eq!(TtlBounds::jitter_of(0.0), 0);
        assert_eq!(TtlBounds::jitter_of(1.0), u32::MAX);
    }
}
