//! The one place that reads the machine's clocks for the cores.

use evenkeel_types::{Instant, Now, UnixSeconds};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A monotonic clock that starts when it is made, and the wall clock beside it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Of [`monotonic_nanos`].
    start: u64,
}

impl Clock {
    /// Starts the clock. Copies of it agree with each other, so a process makes one.
    pub fn start() -> Self {
        Clock {
            start: monotonic_nanos(),
        }
    }

    /// Reads both clocks.
    pub fn now(&self) -> Now {
        Now {
            monotonic: self.monotonic(),
            unix: unix_seconds_now(),
        }
    }

    /// Reads the monotonic clock alone.
    #[inline]
    pub fn monotonic(&self) -> Instant {
        Instant(monotonic_nanos().saturating_sub(self.start))
    }

    /// How far [`coarse`](Self::coarse) may be behind: the longest tick of a kernel, twice.
    pub const COARSE_LAG: Duration = Duration::from_millis(20);

    /// The monotonic clock as of the kernel's last tick: at most [`COARSE_LAG`](Self::COARSE_LAG) behind, and cheaper.
    #[inline]
    pub fn coarse(&self) -> Instant {
        let time = clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).expect("Linux has this clock");
        Instant(nanos(time).saturating_sub(self.start))
    }

    /// Wall-clock time at which the clock was started, in microseconds since 1970, by which its own times are known in others' terms.
    pub fn origin_unix_micros(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let unix = since.map_or(0, |since| {
            u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
        });
        unix.saturating_sub(self.monotonic().0 / 1000)
    }

    /// Wall-clock milliseconds since 1970, for boot ids and the start of version counters.
    pub fn unix_millis(&self) -> u64 {
        unix_millis_now()
    }
}

/// The clock as an event loop reads it, once for each turn: the wall clock, which has whole seconds,
/// is read anew only every `WALL_LOOK`.
#[derive(Clone, Copy, Debug)]
pub struct TurnClock {
    clock: Clock,
    unix: UnixSeconds,
    next_wall_look: Instant,
}

/// How long the wall clock may be behind.
const WALL_LOOK: Duration = Duration::from_millis(10);

impl TurnClock {
    /// Reads this clock from now on.
    pub fn new(clock: Clock) -> Self {
        TurnClock {
            clock,
            unix: 0,
            next_wall_look: Instant::default(),
        }
    }

    /// Reads the clock.
    #[inline]
    pub fn now(&mut self) -> Now {
        let monotonic = self.clock.monotonic();
        if monotonic >= self.next_wall_look {
            self.unix = unix_seconds_now();
            self.next_wall_look = monotonic + WALL_LOOK;
        }
        Now {
            monotonic,
            unix: self.unix,
        }
    }
}

/// Nanoseconds of the kernel's monotonic clock, read without the comparisons and conversions that
/// `std::time::Instant` makes of them in each turn.
#[inline]
fn monotonic_nanos() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has this clock");
    nanos(time)
}

#[inline]
fn nanos(time: TimeSpec) -> u64 {
    // Neither is negative, and 584 years of nanoseconds fit.
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Time since the machine started, which also passes while it is suspended: for promises whose end others
/// count, like leases.
pub fn since_boot() -> Instant {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has this clock");
    Instant(nanos(time))
}

fn unix_seconds_now() -> UnixSeconds {
    unix_millis_now().div_euclid(1000) as UnixSeconds
}

/// Wall-clock milliseconds since 1970; zero on a clock that stands before 1970.
fn unix_millis_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarse_clock_is_behind_by_little_and_never_ahead() {
        let clock = Clock::start();
        for _ in 0..1000 {
            let (before, coarse) = (clock.monotonic(), clock.coarse());
            let after = clock.monotonic();
            assert!(coarse <= after);
            assert!(
                coarse + Clock::COARSE_LAG >= before,
                "{coarse:?} {before:?}"
            );
        }
    }

    #[test]
    fn a_turn_clock_agrees_with_its_clock() {
        let clock = Clock::start();
        let mut turns = TurnClock::new(clock);
        for _ in 0..1000 {
            let (before, turn, after) = (clock.now(), turns.now(), clock.now());
            assert!(before.monotonic <= turn.monotonic && turn.monotonic <= after.monotonic);
            assert!(turn.unix <= after.unix && turn.unix + 1 >= before.unix);
        }
    }
}
