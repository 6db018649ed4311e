//! Which copy of a hot key is read: what ships, and the paper's way to compare it with, in the fast mode alone.
//!
//! Either way a client may read copies for one lease after its home has told it of them, and who writes a key
//! reads it at its home until it is told anew.

use crate::history::Nanos;
use core::fmt;
use evenkeel_workload::rng::{WorkloadRng, below, stream};
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// Which generator of a plan's seed chooses copies.
const CHOICE_STREAM: u64 = (1 << 48) + 1;

/// Which copy is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadChoice {
    /// What ships: any copy that is new enough, the home in its turn, of its shadows the less burdened of two.
    #[default]
    Guarded,
    /// As in the paper (SPORE, section 3.2): each client draws a copy at random once in a lease and stays with it. A
    /// client is an application's connection.
    Sticky,
}

impl fmt::Display for ReadChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadChoice::Guarded => "guarded",
            ReadChoice::Sticky => "sticky",
        })
    }
}

/// What a client may read of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CopyLease {
    /// The copy that was drawn: 0 for the home's, else its suffix.
    suffix: u8,
    until: Nanos,
}

/// Leases of clients that do not guard versions, by key and client.
#[derive(Debug)]
pub(super) struct CopyLeases {
    leases: HashMap<(u32, u32), CopyLease, FixedState>,
    random: WorkloadRng,
}

impl CopyLeases {
    pub fn new(seed: u64) -> CopyLeases {
        CopyLeases {
            leases: HashMap::default(),
            random: stream(seed, CHOICE_STREAM),
        }
    }

    /// A home tells a client of this many copies besides its own, and the client draws one. A lease that has not ended
    /// stays as it is.
    pub fn grant(&mut self, now: Nanos, key: u32, client: u32, gamma: u8, length: Nanos) {
        if self.sticky(now, key, client).is_some() {
            return;
        }
        let lease = CopyLease {
            suffix: below(&mut self.random, u64::from(gamma) + 1) as u8,
            until: now + length,
        };
        self.leases.insert((key, client), lease);
    }

    /// A client writes a key.
    pub fn forget(&mut self, key: u32, client: u32) {
        self.leases.remove(&(key, client));
    }

    /// The copy that a client drew for its lease; nothing without one.
    pub fn sticky(&self, now: Nanos, key: u32, client: u32) -> Option<u8> {
        let lease = self.leases.get(&(key, client))?;
        (now < lease.until).then_some(lease.suffix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_stays_with_its_copy_for_a_lease() {
        let mut leases = CopyLeases::new(1);
        assert_eq!(leases.sticky(0, 7, 1), None);
        let mut drawn = [0; 4];
        for client in 0..4_000 {
            leases.grant(0, 7, client, 3, 100);
            let suffix = leases.sticky(0, 7, client).expect("a lease");
            leases.grant(50, 7, client, 3, 100);
            assert_eq!(leases.sticky(99, 7, client), Some(suffix), "not drawn anew");
            assert_eq!(leases.sticky(100, 7, client), None);
            drawn[usize::from(suffix)] += 1;
        }
        // Seven standard deviations of 27.
        assert!(
            drawn.iter().all(|&n: &i32| (n - 1_000).abs() < 200),
            "{drawn:?}"
        );
        leases.grant(200, 7, 1, 3, 100);
        leases.forget(7, 1);
        assert_eq!(leases.sticky(200, 7, 1), None, "it has written");
    }
}
