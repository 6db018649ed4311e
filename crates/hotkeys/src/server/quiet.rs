//! Times of waiting for copies, and for the leases of former homes.

use core::time::Duration;

use evenkeel_types::{Epoch, Instant};

use crate::replication::{Hold, HoldId};

/// Keys that this worker owns from a map on: their former home's leases may not be over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    pub epoch: Epoch,
    pub hold: Hold,
    pub until: Instant,
    /// The clock was not read since.
    pub undated: bool,
}

#[cfg(test)]
impl Quiet {
    /// Hashes what decides when the waiting ends.
    pub(super) fn digest(&self, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        (self.epoch, self.until, self.undated).hash(state);
    }
}

/// A time of waiting that is over: the answers that were held for it may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// Which.
    pub id: HoldId,
    /// How long it was.
    pub lasted: Duration,
    /// Why it is over.
    pub by: ReleasedBy,
}

/// What ended a time of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleasedBy {
    /// Every shadow worker has blocked its replica.
    Confirmation,
    /// The last lease is over.
    Lease,
    /// The last lease of a former home is over.
    FormerHome,
}
