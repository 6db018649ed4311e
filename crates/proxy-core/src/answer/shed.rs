//! Requests that are refused because their server cannot keep up.
//!
//! What a server's window keeps back waits in the proxy. A burst is waited out. But where the first of those that wait has
//! waited for longer than a goal all through a time of patience, more comes than the server can do, and a longer queue would only
//! make every answer late, until none is in time. Both are parts of the request timeout ([`WAIT_GOAL_DIVISOR`], [`PATIENCE_DIVISOR`]):
//! whoever can wait longer for an answer can wait longer before it is refused. Then reads that have waited for longer than the goal are refused at once, and go on
//! being refused until the queue is short again. (Nichols and Jacobson, "Controlling queue delay", 2012, in the form of Maurer,
//! "Fail at scale", 2015.) The answer is `SERVER_ERROR overloaded`: not a miss, for what a cache cannot
//! serve its database can serve even less; and the server is not taken for a dead one.
//!
//! A queue of up to [`WAITING_MIN`] requests is not shortened, and writes wait for three quarters of the request timeout before they
//! are refused, as any request does in the end: a delete that is not carried out leaves an old value. Whoever writes that much is
//! slowed down before (`pace.rs`).
//!
//! One server's queue refuses its own requests only. Requests that were sent are never refused, so that each that is refused was certainly not
//! carried out, and what is left keeps its order.

use crate::pipe::in_flight::Tag;
use crate::pool::hot::FILLER;
use crate::under_way::again::Failure;
use crate::under_way::catch_up::NOBODY;
use crate::{BackendId, ProxyCore};
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

impl ProxyCore {
    /// Refuses what has waited too long for a server that cannot keep up.
    pub(crate) fn shed(&mut self, now: Instant, id: BackendId) {
        let Some(backend) = self.backends.get_mut(id.0) else {
            return;
        };
        let (waiting, since) = backend.waiting();
        let waited = since.map(|since| now.since(since));
        let timeout = backend.request_timeout;
        let (goal, longest) = (timeout / WAIT_GOAL_DIVISOR, timeout * 3 / 4);
        let mut spare = waiting.saturating_sub(WAITING_MIN);
        let is_too_long = backend
            .backlog
            .is_too_long(now, waited.filter(|_| spare > 0), timeout);
        if !is_too_long && waited.is_none_or(|waited| waited <= longest) {
            return;
        }
        let may_go = |tag: &Tag, waited: Duration| {
            let of_application = tag.client != NOBODY && tag.client != FILLER && tag.has_key();
            let is_spare = is_too_long && tag.is_read && waited > goal && spare > 0;
            let goes = of_application && (is_spare || waited > longest);
            spare = spare.saturating_sub(goes.into());
            goes
        };
        for question in backend.take_waiting(now, may_go) {
            for question in question.split() {
                let tag = question.tag;
                self.stats.proxy_requests_shed += 1;
                self.forget_ticket(now, &tag);
                self.fail(question, &Failure::Overloaded);
                self.release(now, tag.client);
            }
        }
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
