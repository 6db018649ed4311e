//! How fast a source copies: what it may send now, and when to go on.

use core::time::Duration;
use evenkeel_types::Instant;

/// What may be saved up of a limited rate, as a time.
const BURST: Duration = Duration::from_millis(100);

/// Turns of a worker that are looked at together.
const TURNS: u32 = 64;

/// A worker that copies and whose turns take longer than this, but for one in a hundred, has more to do
/// for its clients than it can: copying pauses.
pub const GUARD: Duration = Duration::from_millis(2);

/// For how long copying pauses then.
pub const GUARD_PAUSE: Duration = Duration::from_millis(20);

/// The rate at which one migration copies.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Bytes per second; 0 for no limit.
    rate: u64,
    /// Bytes that may be sent; below zero after an item that was larger.
    allowance: f64,
    refilled_at: Instant,
    turns: Turns,
}

impl Pace {
    pub fn new(rate: u64, now: Instant) -> Self {
        Pace {
            rate,
            allowance: 0.0,
            refilled_at: now,
            turns: Turns::default(),
        }
    }

    pub fn set_rate(&mut self, rate: u64) {
        self.rate = rate;
    }

    /// Whether anything may be sent now.
    pub fn may_send(&mut self, now: Instant) -> bool {
        if self.rate == 0 {
            return true;
        }
        let rate = self.rate as f64;
        let passed = now.since(self.refilled_at).as_secs_f64();
        self.refilled_at = now;
        self.allowance = (self.allowance + passed * rate)
            .min(BURST.as_secs_f64() * rate)
            .max(-rate);
        self.allowance > 0.0
    }

    /// This many bytes were sent.
    pub fn sent(&mut self, bytes: usize) {
        if self.rate > 0 {
            self.allowance -= bytes as f64;
        }
    }

    /// When something may be sent again, after [`may_send`](Self::may_send) has said no.
    pub fn next(&self, now: Instant) -> Instant {
        let missing = (1.0 - self.allowance).max(0.0) / self.rate.max(1) as f64;
        now + Duration::from_secs_f64(missing).max(Duration::from_millis(1))
    }

    /// Takes notice of a turn of the worker, from one step of copying to the next that was wanted at once. For how
    /// long to pause, if its clients have to wait for too long.
    pub fn guard(&mut self, turn: Duration) -> Option<Duration> {
        self.turns.add(turn > GUARD).then_some(GUARD_PAUSE)
    }
}

/// Counts long turns.
#[derive(Debug, Default)]
struct Turns {
    seen: u32,
    long: u32,
}

impl Turns {
    /// Whether more than one in a hundred of the last ones was long: of [`TURNS`], one.
    fn add(&mut self, is_long: bool) -> bool {
        self.seen += 1;
        self.long += u32::from(is_long);
        let too_many = self.long > 1;
        if too_many || self.seen == TURNS {
            *self = Turns::default();
        }
        too_many
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_rate_is_kept_over_a_second_and_an_unlimited_one_never_waits() {
        let start = Instant::default();
        let mut pace = Pace::new(1_000_000, start);
        let (mut now, mut sent) = (start, 0);
        while now.since(start) < Duration::from_secs(1) {
            if pace.may_send(now) {
                pace.sent(7_000);
                sent += 7_000;
            } else {
                now = pace.next(now);
            }
        }
        assert!((950_000..=1_010_000).contains(&sent), "{sent}");
        let mut pace = Pace::new(0, start);
        pace.sent(1 << 40);
        assert!(pace.may_send(start));
    }

    #[test]
    fn copying_pauses_when_turns_get_long_and_not_for_a_single_one() {
        let mut pace = Pace::new(0, Instant::default());
        let long = GUARD + Duration::from_micros(1);
        assert_eq!(pace.guard(long), None);
        assert!((1..TURNS).all(|_| pace.guard(GUARD).is_none()));
        assert_eq!(pace.guard(long), None);
        assert_eq!(pace.guard(long), Some(GUARD_PAUSE));
    }
}
