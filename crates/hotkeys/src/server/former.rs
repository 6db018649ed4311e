//! Leases of before, which were longer than those that are granted now.

use core::time::Duration;

use evenkeel_types::Instant;

use crate::client::LEASE_MARGIN_DIVISOR;

/// Leases were longer, and some of them may not be over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Former {
    pub lease: Duration,
    pub until: Instant,
    /// The clock was not read since.
    undated: bool,
}

impl Former {
    /// Leases of that length were granted until now; the last of them is over then.
    pub fn new(lease: Duration, until: Instant) -> Self {
        Former {
            lease,
            until,
            undated: true,
        }
    }

    /// Those that were granted since the clock was last read are over as late as they can be.
    pub fn date(&mut self, now: Instant) {
        if core::mem::take(&mut self.undated) {
            self.until = now + waited(self.lease);
        }
    }
}

/// How long a lease is waited for: itself, and the margin for clocks that run at different speeds.
pub(super) fn waited(lease: Duration) -> Duration {
    lease + lease / LEASE_MARGIN_DIVISOR
}
