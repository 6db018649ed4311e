//! Whether more comes than a server can do.

use core::time::Duration;
use evenkeel_types::Instant;

/// A read may wait for its turn for this part of the request timeout where more comes than the server can do: 20 ms of a second.
pub const WAIT_GOAL_DIVISOR: u32 = 50;

/// A queue of so few is never too long: slow servers have applications that wait for each answer, too.
pub const WAITING_MIN: usize = 32;

/// For this part of the request timeout more may wait before any is refused: 100 ms of a second.
pub const PATIENCE_DIVISOR: u32 = 10;

/// Whether more comes than a server can do.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Since when the first that waits has waited for too long.
    since: Option<Instant>,
}

impl Backlog {
    /// `waited`: for how long the first that waits to be sent has waited; `None` if none does.
    #[inline]
    pub fn is_too_long(
        &mut self,
        now: Instant,
        waited: Option<Duration>,
        request_timeout: Duration,
    ) -> bool {
        let goal = request_timeout / WAIT_GOAL_DIVISOR;
        match waited {
            None => self.since = None,
            Some(waited) if waited < goal / 2 => self.since = None,
            Some(waited) if waited > goal => _ = self.since.get_or_insert(now),
            Some(_) => {}
        }
        let patience = request_timeout / PATIENCE_DIVISOR;
        self.since.is_some_and(|since| now.since(since) >= patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn waited(ms: u64) -> Option<Duration> {
        Some(Duration::from_millis(ms))
    }

    #[test]
    fn a_burst_is_waited_out_and_a_queue_that_stays_is_not() {
        for (timeout, unit) in [(Duration::from_secs(1), 1), (Duration::from_secs(50), 50)] {
            let mut backlog = Backlog::default();
            let mut is_too_long = |ms: u64, waited_ms: Option<u64>| {
                let waited = waited_ms.and_then(|ms| waited(ms * unit));
                backlog.is_too_long(at(ms * unit), waited, timeout)
            };
            assert!(!is_too_long(0, Some(90)));
            assert!(!is_too_long(99, Some(90)));
            assert!(!is_too_long(99, None));
            assert!(!is_too_long(100, Some(21)));
            assert!(!is_too_long(199, Some(15)), "neither long nor short");
            assert!(is_too_long(200, Some(21)));
            // It is shortened to the goal again and again.
            assert!(is_too_long(210, Some(20)));
            assert!(!is_too_long(220, Some(9)));
            assert!(!is_too_long(221, Some(30)));
        }
    }
}
