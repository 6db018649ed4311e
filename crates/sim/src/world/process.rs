//! Hosts with processes on them: alive or not, running or stopped, each with a clock of its own.

use super::units::MS;
use crate::history::Nanos;
use crate::random::Random;
use evenkeel_types::{Instant, Now, UnixSeconds};

/// When a run begins on the wall clock, in milliseconds since 1970.
const START_UNIX_MS: u64 = 1_800_000_000_000;

/// A process's monotonic clock: it starts anywhere and runs at its own speed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    offset: Nanos,
    ppm: u64,
}

impl Clock {
    fn new(random: &mut Random, drift_ppm: u64) -> Self {
        let ppm = 1_000_000 - drift_ppm + random.below(2 * drift_ppm + 1);
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
    /// How far the host's wall clock has jumped so far, in seconds.
    pub wall_s: i64,
    drift_ppm: u64,
    /// When its timer goes off; what was set before for a later time is ignored.
    pub timer_at: Nanos,
}

impl Process {
    /// The first process of a host whose clocks run at most so far too fast or too slow.
    pub fn new(random: &mut Random, alive: bool, drift_ppm: u64) -> Self {
        Process {
            alive,
            life: 0,
            stopped_until: 0,
            clock: Clock::new(random, drift_ppm),
            wall_s: 0,
            drift_ppm,
            timer_at: Nanos::MAX,
        }
    }

    /// Another life, on a clock that starts anew.
    pub fn restart(&mut self, random: &mut Random) {
        *self = Process {
            life: self.life + 1,
            wall_s: self.wall_s,
            ..Process::new(random, true, self.drift_ppm)
        };
    }

    pub fn now(&self, time: Nanos) -> Now {
        let unix = (unix_ms(time) / 1000).saturating_add_signed(self.wall_s);
        Now {
            monotonic: self.clock.read(time),
            unix: unix as UnixSeconds,
        }
    }
}

/// A wall clock that is right.
fn unix_ms(time: Nanos) -> u64 {
    START_UNIX_MS + time / MS
}
