//! Hosts with processes on them: alive or not, running or stopped, each with a clock of its own.

use super::plan::MS;
use crate::history::Nanos;
use crate::random::Random;
use evenkeel_types::{Instant, Now, UnixSeconds};

/// Clocks run up to this many parts per million too fast or too slow: ten times what NTP tolerates,
/// and within the margin of a lease.
const CLOCK_ERROR_PPM: u64 = 5_000;

/// When a run begins on the wall clock, in milliseconds since 1970.
const START_UNIX_MS: u64 = 1_800_000_000_000;

/// A process's monotonic clock: it starts anywhere and runs at its own speed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    offset: Nanos,
    ppm: u64,
}

impl Clock {
    fn new(random: &mut Random) -> Self {
        let ppm = 1_000_000 - CLOCK_ERROR_PPM + random.below(2 * CLOCK_ERROR_PPM + 1);
        Clock {
            offset: random.below(100_000) * MS,
            ppm,
        }
    }

    pub fn read(&self, time: Nanos) -> Instant {
        Instant(self.offset + (u128::from(time) * u128::from(self.ppm) / 1_000_000) as u64)
    }

    /// The first time at which the clock shows at least `instant`.
    pub fn time_of(&self, instant: Instant) -> Nanos {
        let shown = u128::from(instant.0.saturating_sub(self.offset));
        u64::try_from(shown * 1_000_000 / u128::from(self.ppm) + 1).unwrap_or(Nanos::MAX)
    }
}

/// A process on a host of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub alive: bool,
    /// Counts starts. What was meant for a former life is lost.
    pub life: u32,
    /// Stopped until then: it does nothing, but its host goes on accepting for it.
    pub stopped_until: Nanos,
    pub clock: Clock,
    /// When its timer goes off; what was set before for a later time is ignored.
    pub timer_at: Nanos,
}

impl Process {
    pub fn new(random: &mut Random, alive: bool) -> Self {
        let clock = Clock::new(random);
        Process {
            alive,
            life: 0,
            stopped_until: 0,
            clock,
            timer_at: Nanos::MAX,
        }
    }

    /// Another life, on a clock that starts anew.
    pub fn restart(&mut self, random: &mut Random) {
        let life = self.life + 1;
        *self = Process {
            life,
            ..Process::new(random, true)
        };
    }

    pub fn now(&self, time: Nanos) -> Now {
        let unix = unix_ms(time) / 1000;
        Now {
            monotonic: self.clock.read(time),
            unix: unix as UnixSeconds,
        }
    }
}

/// The wall clock.
pub(super) fn unix_ms(time: Nanos) -> u64 {
    START_UNIX_MS + time / MS
}
