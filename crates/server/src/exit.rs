//! What requests and answers pass: requests come with the time at which they were there, and before answers leave, the toll is paid and
//! their worker's leave to serve is not over.

use crate::toll::Toll;
use evenkeel_runtime::Clock;
use evenkeel_server_core::WorkerCore;
use evenkeel_types::Now;
use std::io::{self, ErrorKind};

/// A worker's way out.
#[derive(Debug)]
pub struct Exit {
    toll: Toll,
    clock: Clock,
}

impl Exit {
    /// For a worker that pays this toll.
    pub fn new(toll: Toll, clock: Clock) -> Self {
        Exit { toll, clock }
    }

    /// To be called once by the worker's thread.
    pub fn begin(&self) {
        self.toll.begin();
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
        self.toll.pay(core);
    }

    /// Looks at the clock before answers are written, after they were composed. The kernel's coarse clock is a tick
    /// behind at most, and costs a fifth of an exact reading.
    ///
    /// # Errors
    /// The process was stopped, and its lease ended meanwhile: others may have changed what these answers tell.
    #[inline]
    pub fn let_out(&self, core: &mut WorkerCore) -> io::Result<()> {
        match core.lease_end() {
            Some(end) if self.clock.coarse() + Clock::COARSE_LAG >= end => {
                core.counters().answers_too_late += 1;
                Err(ErrorKind::TimedOut.into())
            }
            _ => Ok(()),
        }
    }
}
