//! Durations as they are told.

use core::time::Duration;

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// To the millisecond: nobody measures better here.
pub(crate) fn seconds(duration: Duration) -> f64 {
    millis(duration) as f64 / 1_000.0
}
