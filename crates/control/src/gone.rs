//! When a proxy that hears of no coordinator counts as gone, and how long before that it ends itself.
//!
//! Both sides count from a heartbeat that was answered: the coordinator from when it came in, the proxy from when it was sent, which is never
//! later. So the proxy has ended for [`margin`] at least when the coordinator goes on without it, as long as their clocks run alike.

use core::ops::RangeInclusive;
use core::time::Duration;

/// Shortest and longest configurable time. Below, a change of leaders would end proxies; above, an operator is faster.
pub const GONE_AFTER: RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_secs(3600);

/// Least of [`margin`]: longer than a process that is not stopped takes from its last look at the clock to its next.
const MARGIN_MIN: Duration = Duration::from_secs(1);

/// How much earlier the proxy ends than it counts as gone: a tenth of the time, for clocks that do not run alike, and a second at least.
pub fn margin(gone_after: Duration) -> Duration {
    (gone_after / 10).max(MARGIN_MIN)
}

/// For how long the proxy goes on, from when it sent the last heartbeat that was answered.
pub fn serves_for(gone_after: Duration) -> Duration {
    gone_after.saturating_sub(margin(gone_after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_ends_a_second_or_a_tenth_before_it_counts_as_gone() {
        let seconds = Duration::from_secs;
        for (gone_after, serves) in [(5, 4), (10, 9), (30, 27), (3600, 3240), (0, 0)] {
            assert_eq!(serves_for(seconds(gone_after)), seconds(serves));
        }
    }
}
