//! What a client knows of a key, for people.

use core::time::Duration;

use evenkeel_types::{Instant, KeyHash};

use super::ClientLeases;
use super::entry::CachedAnswer;

/// What is known of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Replicas besides the home's copy, by the newest lease.
    pub gamma: u8,
    /// For how long reads may go to them; zero without a lease.
    pub leased_for: Duration,
    /// Bytes of the newest answer, if it is kept; zero for a kept miss.
    pub kept_len: Option<usize>,
}

impl ClientLeases {
    /// What is known of a key, if anything is. O(log entries).
    pub fn look(&self, now: Instant, hash: KeyHash) -> Option<Known> {
        let entry = &self.entries[self.position(hash).ok()?];
        Some(Known {
            gamma: entry.gamma,
            leased_for: entry.lease_until.since(now),
            kept_len: entry.kept.as_ref().map(CachedAnswer::len),
        })
    }
}
