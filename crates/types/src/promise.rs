//! What readers of replicated keys are promised; a part of the map, because homes and clients go by the same.

use core::time::Duration;

use serde::{Deserialize, Serialize};

/// Shortest lease: below it a lease hardly outlasts the round trip that brings it.
pub const LEASE_MIN: Duration = Duration::from_millis(50);

/// Longest lease (S7). It bounds how stale a read can be.
pub const LEASE_MAX: Duration = Duration::from_secs(10);

/// What readers of a replicated key are promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Consistency {
    /// SPORE: no client reads what was replaced more than a lease ago.
    #[default]
    Lease,
    /// SE-SPORE: replicas and the home's copy look like one. No write is answered while another copy
    /// may still be read.
    Atomic,
}

impl Consistency {
    /// How long leases last unless it is said. An atomic write may wait for a lease and its margin, and a
    /// proxy waits for an answer for a second.
    pub fn lease_default(self) -> Duration {
        match self {
            Consistency::Lease => Duration::from_secs(1),
            Consistency::Atomic => Duration::from_millis(500),
        }
    }
}

/// What readers of replicated keys are promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// By which rules writes are answered.
    pub consistency: Consistency,
    /// How long a lease lasts, in milliseconds: [`LEASE_MIN`] to [`LEASE_MAX`].
    pub lease_ms: u64,
}

impl Promise {
    /// How long a lease lasts.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// Whether the lease is within its bounds.
    pub fn is_sound(&self) -> bool {
        (LEASE_MIN..=LEASE_MAX).contains(&self.lease())
    }
}
