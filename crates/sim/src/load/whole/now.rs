//! Clocks of a cluster under load, which are all right.

use crate::history::Nanos;
use evenkeel_types::{Instant, Now};

/// The time as every process of the cluster sees it.
pub(super) fn now_at(time: Nanos) -> Now {
    const START_UNIX: u64 = 1_800_000_000;
    Now {
        monotonic: Instant(time),
        unix: (START_UNIX + time / 1_000_000_000) as u32,
    }
}
