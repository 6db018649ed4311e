//! Which servers may serve at present: *serving leases*.
//!
//! A map says who owns a cachelet. That is not enough to give a dead server's cachelets to others: it
//! may only be stopped, or cut off, and would go on serving by its old map when it wakes. So a server
//! serves what it owns only while it holds a serving lease. It has two ways to one:
//!
//! - An answer of the coordinator, which says at the same time what the newest map is.
//! - *Votes* of other servers, for as long as no coordinator answers. A server that votes says that it
//!   knows of no map that takes the asker away: [`ClusterMap::lets_serve`]. With its own will that makes more than
//!   half of the servers that are up by the asker's map: [`votes_needed`].
//!
//! Both count from when they were *asked for*, by the clock of who asks, and last for [`SERVING_LEASE`].
//!
//! The coordinator takes a silent server away by a map in which it is down. Once this many others have
//! confirmed that map that any set of voters that the server could ask has one of them in it, there are no
//! votes for it any more, and a lease later it has ceased to serve, wherever it is and whatever it
//! believes. [`would_refuse`] says when that is so.
//!
//! When it comes back, a map says from which map on it may serve again ([`ServerEntry::since`]); nobody
//! votes for it before it works by that one, and by then it has forgotten what was given to others.
//!
//! Rejected: leases by the coordinator alone, which would make serving depend on it; and to hand a dead server's
//! cachelets out after a time-out, which is safe only where no process ever stops and no network ever parts.
//!
//! What it costs: a server that is cut off from the coordinator *and* from half of the others serves nothing. Of
//! two servers that is each, once the coordinator and the other are away; a single server needs nobody.

use core::time::Duration;

use crate::{BootId, Epoch, ServerId};

use crate::map::{ClusterMap, ServerEntry};

/// How long a server serves without hearing from anybody. Two heartbeats fit into it, and it is a third of the
/// time in which a dead server's cachelets have to be served again.
pub const SERVING_LEASE: Duration = Duration::from_secs(1);

/// Anyone who waits for the end of a lease that another counts waits for this much longer: clocks that are a
/// twentieth apart are broken.
pub const SERVING_LEASE_MARGIN: Duration = Duration::from_millis(50);

/// How many others must vote for a server, of so many that are up with it.
pub const fn votes_needed(servers: usize) -> usize {
    servers / 2
}

/// Whether a server finds too few voters, where `others` are up besides it by its map, and `refusing` of
/// them will not vote for it.
pub const fn would_refuse(others: usize, refusing: usize) -> bool {
    others - refusing < votes_needed(others + 1)
}

impl ClusterMap {
    /// Whether who works by this map votes for a server's life that works by the map `epoch`. O(log servers).
    pub fn lets_serve(&self, server: ServerId, boot: BootId, epoch: Epoch) -> bool {
        let lets = |entry: &ServerEntry| entry.up && entry.boot == boot && epoch >= entry.since;
        self.server(server).is_some_and(lets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_and_its_voters_are_more_than_half() {
        for servers in 1..100 {
            assert!(2 * (1 + votes_needed(servers)) > servers, "{servers}");
            assert!(2 * votes_needed(servers) <= servers, "{servers}");
        }
        assert_eq!([1, 2, 3, 4, 5].map(votes_needed), [0, 1, 1, 2, 2]);
    }

    /// By trying every set of refusing servers: a server is refused when every set of voters that would do
    /// has a refusing one in it.
    #[test]
    fn refusal_agrees_with_trying_every_set_of_voters() {
        for others in 0..10usize {
            for refusing in 0..=others {
                let refuses = (1u32 << refusing) - 1;
                let enough =
                    |voters: &u32| voters.count_ones() as usize == votes_needed(others + 1);
                let mut sets = (0..1u32 << others).filter(enough);
                let all_meet = sets.all(|voters| voters & refuses != 0);
                assert_eq!(
                    would_refuse(others, refusing),
                    all_meet,
                    "{refusing} of {others}"
                );
            }
        }
    }
}
