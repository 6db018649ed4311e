//! A service time for every key that a worker serves, for tests and experiments: it makes a small server of one
//! that has a part of a core.
//!
//! A small machine cannot saturate twelve servers: its load generator would be the first to be busy. A
//! server that sleeps just this long for each key uses no processor time for it, so that many of them are busy
//! on few cores. Rejected: a quota of processor time, by which a server is slow, but not small: it answers in
//! bursts, everything that waited at once, and so reaches nearly any number of requests a second.

use evenkeel_server_core::WorkerCore;
use rustix::thread::{ClockId as SleepClock, clock_nanosleep_absolute};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::num::NonZeroU64;
use std::time::Duration;

/// A server that has slept this much too long, or worked for this long since, has not been idle: the next
/// sleep begins where this one should have ended, so that as many keys are served a second as should be.
const LATE_MAX: Duration = Duration::from_micros(100);

/// What a worker owes and has paid.
#[derive(Debug, Default)]
pub struct ServiceTime {
    /// Time for each key; zero for none.
    per_key: Duration,
    /// Keys served when it last paid.
    paid: u64,
    /// By the clock, when it is done with all that it has served.
    free_at: Duration,
}

impl ServiceTime {
    /// This much time for each key that is read or written, besides what serving it takes.
    pub fn new(per_key: Duration) -> Self {
        ServiceTime {
            per_key,
            paid: 0,
            free_at: Duration::ZERO,
        }
    }

    /// To be called once by the thread that will pay: sleeps are as exact as the machine allows.
    pub fn begin(&self) {
        if !self.per_key.is_zero() {
            // Where the kernel refuses, sleeps are 50 us longer, most of which is made up for.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        }
    }

    /// Pays for what the worker has served since the last call. To be called before answers are
    /// written, so that requests take as long as the server seems to need for them.
    #[inline]
    pub fn pay(&mut self, core: &mut WorkerCore) {
        if !self.per_key.is_zero() {
            self.pay_for(core.counters().keys_served());
        }
    }

    #[cold]
    #[allow(
        clippy::disallowed_methods,
        reason = "the service time is to be a wait"
    )]
    fn pay_for(&mut self, served: u64) {
        // Counters begin anew after `stats reset`.
        let keys = served.checked_sub(self.paid).unwrap_or(served);
        self.paid = served;
        if keys == 0 {
            return;
        }
        let owed = self.per_key * u32::try_from(keys).unwrap_or(u32::MAX);
        let now = time();
        let was_busy = now.saturating_sub(self.free_at) <= LATE_MAX;
        self.free_at = if was_busy { self.free_at } else { now } + owed;
        let until = Timespec {
            tv_sec: self.free_at.as_secs() as i64,
            tv_nsec: i64::from(self.free_at.subsec_nanos()),
        };
        // A signal ends it early, and the worker with it.
        let _ = clock_nanosleep_absolute(SleepClock::Monotonic, &until);
    }
}

fn time() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_paid_for_once() {
        let mut service_time = ServiceTime::new(Duration::from_micros(500));
        let before = time();
        service_time.pay_for(10);
        assert!(time() - before >= Duration::from_millis(5));
        // Nine minutes if it were owed again.
        service_time.paid += 1 << 20;
        service_time.pay_for(10 + (1 << 20));
        assert!(time() - before < Duration::from_secs(60));
        service_time.pay_for(1);
        assert_eq!(service_time.paid, 1, "counters began anew");
    }
}
