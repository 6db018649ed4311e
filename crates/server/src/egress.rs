//! The egress gate: the emulated service time, then the check of the serving lease. It also gives requests the time at which they were received.

use crate::service_time::ServiceTime;
use evenkeel_runtime::Clock;
use evenkeel_server_core::WorkerCore;
use evenkeel_types::Now;
use std::io::{self, ErrorKind};

/// The egress gate of a worker: service time, then the check of its serving lease.
#[derive(Debug)]
pub struct EgressGate {
    service_time: ServiceTime,
    clock: Clock,
}

impl EgressGate {
    /// For a worker that has this service time.
    pub fn new(service_time: ServiceTime, clock: Clock) -> Self {
        EgressGate {
            service_time,
            clock,
        }
    }

    /// To be called once by the worker's thread.
    pub fn begin(&self) {
        self.service_time.begin();
    }

    /// The time for what was just received. That of the turn is from before, perhaps by as long as the process was stopped; it will do
    /// unless the core says otherwise.
    #[inline]
    pub fn now(&self, core: &mut WorkerCore, turn: Now) -> Now {
        match core.wants_clock() {
            true => core.now(self.clock.now()),
            false => turn,
        }
    }

    /// Pays for what was served since the last call.
    #[inline]
    pub fn pay(&mut self, core: &mut WorkerCore) {
        self.service_time.pay(core);
    }

    /// Looks at the clock before answers are written, after they were composed. The kernel's coarse clock is a tick
    /// behind at most, and costs a fifth of an exact reading.
    ///
    /// # Errors
    /// The process was stopped, and its lease ended meanwhile: others may have changed what these answers tell.
    #[inline]
    pub fn check_lease(&self, core: &mut WorkerCore) -> io::Result<()> {
        match core.lease_end() {
            Some(end) if self.clock.coarse() + Clock::COARSE_LAG >= end => {
                core.counters().answers_too_late += 1;
                Err(ErrorKind::TimedOut.into())
            }
            _ => Ok(()),
        }
    }
}
