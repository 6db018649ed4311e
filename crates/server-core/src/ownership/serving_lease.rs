//! Serving leases at a server: may it serve what it owns?
//!
//! What a serving lease is, and why nobody serves without one, is told in
//! [`serving`](evenkeel_types::serving). Here are the server's two sides of it:
//!
//! - [`LeaseKeeper`], one for each server, gets leases: from the coordinator's answers and, when those stay away, by
//!   asking the other servers of its map for their votes.
//! - Each [`WorkerCore`] is told of them, and serves what its server owns while it has one.
//!
//! ```text
//!  heartbeat answered ──┐                    until, epoch
//!                       ├─> LeaseKeeper ──────────────────────> every WorkerCore
//!  votes of others ─────┘        │                                  │ each turn: is it over?
//!        ^                       │ none came for half a lease       v
//!        └───────── ask ─────────┘                     keys that it owns are nobody's
//! ```
//!
//! A lease counts from when it was asked for, and holds for a worker only once that works by the map of its
//! epoch: a server that was taken away and comes back must have forgotten before it serves again.
//!
//! Without a lease a worker keeps its contents. An aware client is told that nobody owns the key
//! (`MOVED` with the worker's own name) and asks again after a pause; any other is told of a miss, or why its
//! command is not executed. Replicas and what is on its way between servers go on.
//!
//! A process may be stopped at any moment. What a worker has composed is under the lease if the clock shows less
//! than its end *after* that; so the driver looks at the clock again before answers leave, and closes the
//! connections whose answers would be late ([`WorkerCore::look_at_lease`], [`WorkerCore::lease_end`]). That an
//! answer which was right stays on its way for long does not matter.

use core::time::Duration;
use evenkeel_types::map::{ClusterMap, ServerEntry};
use evenkeel_types::serving::{SERVING_LEASE, votes_needed};
use evenkeel_types::{BootId, Epoch, Instant, ServerId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Others are asked for their votes when less than this is left of the lease. A little less than half, so that
/// regular heartbeats, of which two fit into a lease, come first.
const ASK_BELOW: Duration = Duration::from_millis(450);

/// They are asked again after this long. Votes that come later do not count.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// The workers are looked at again after this long where they have yet to take over the newest map.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

const _: () = assert!(2 * ASK_AGAIN.as_millis() < ASK_BELOW.as_millis());
const _: () = assert!(2 * ASK_BELOW.as_millis() < SERVING_LEASE.as_millis());

/// A serving lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServingLease {
    /// It holds for who works by this map or a newer one.
    pub epoch: Epoch,
    /// On the server's clock.
    pub until: Instant,
    /// Other servers gave it.
    pub by_votes: bool,
}

/// Another server, to be asked for its vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voter {
    /// Who.
    pub server: ServerId,
    /// Where.
    pub host: String,
    /// The port of one of its workers.
    pub port: u16,
}

/// What a [`LeaseKeeper`] wants when its time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Wait,
    /// These are to be asked whether the server may serve by the map of that epoch.
    Ask {
        /// Names the round; to be said again with each vote.
        round: u64,
        /// Epoch of the server's map.
        epoch: Epoch,
        /// All other servers that are up by it.
        voters: Vec<Voter>,
    },
    /// Nobody else is up: the server needs no lease.
    Lease(ServingLease),
}

/// What a server knows of its serving lease.
#[derive(Debug)]
pub struct LeaseKeeper {
    boot: BootId,
    map: Option<(Arc<ClusterMap>, ServerId)>,
    /// It was given a lease, or leave without one, before.
    leased: Option<bool>,
    /// End of the longest lease that it was given.
    until: Instant,
    next: Instant,
    round: u64,
    /// When the votes of the round were asked for.
    asked: Instant,
    granted: BTreeSet<ServerId>,
    needed: usize,
}

impl LeaseKeeper {
    /// A server's life that has heard nothing yet.
    pub fn new(boot: BootId) -> Self {
        LeaseKeeper {
            boot,
            map: None,
            leased: None,
            until: Instant::default(),
            next: Instant::default(),
            round: 0,
            asked: Instant::default(),
            granted: BTreeSet::new(),
            needed: 0,
        }
    }

    /// Whether the server serves under leases only: as soon as a coordinator has given it one, for the rest of
    /// its life.
    pub fn is_leased(&self) -> bool {
        self.leased == Some(true)
    }

    /// Whether the server serves nothing that it owns without a lease: from its beginning, unless a coordinator knows nothing of
    /// leases and has given it leave without end. What it says in its heartbeats, the first one included: a life that ends
    /// before it says more is given up like any other.
    pub fn needs_leases(&self) -> bool {
        self.leased != Some(false)
    }

    /// The newest map and which server this is in it, once there is one.
    pub fn map(&self) -> Option<(Arc<ClusterMap>, ServerId)> {
        self.map.clone()
    }

    /// The coordinator's map, and which server this is in it.
    pub fn handle_map(&mut self, map: Arc<ClusterMap>, me: ServerId) {
        self.map = Some((map, me));
        // Votes that were asked for by the former map say nothing about this one's voters.
        self.round += 1;
        self.next = self.next.min(self.asked + LOOK_AGAIN);
    }

    /// The coordinator has answered a heartbeat that was sent at `sent`: `epoch` is that of its map, and `lease` how
    /// long the server may serve. A coordinator that says nothing of leases gives nothing away; leave by it
    /// has no end until another says otherwise.
    pub fn handle_answer(
        &mut self,
        sent: Instant,
        epoch: Epoch,
        lease: Option<Duration>,
    ) -> ServingLease {
        let until = match (lease, self.is_leased()) {
            (None, false) => Instant(u64::MAX),
            (lease, _) => sent + lease.unwrap_or(SERVING_LEASE).min(SERVING_LEASE),
        };
        if lease.is_some() && !self.is_leased() {
            self.until = until;
        }
        self.leased = Some(self.is_leased() || lease.is_some());
        self.extend(ServingLease {
            epoch,
            until,
            by_votes: false,
        })
    }

    /// Asks for votes if it is time to. `applied` is the oldest map by which a worker works.
    pub fn handle_timeout(&mut self, now: Instant, applied: Epoch) -> Step {
        let Some((map, me)) = self.map.as_ref().filter(|_| now >= self.poll_deadline()) else {
            return Step::Wait;
        };
        if applied < map.epoch() || !map.lets_serve(*me, self.boot, map.epoch()) {
            self.next = now + LOOK_AGAIN;
            return Step::Wait;
        }
        let (epoch, me) = (map.epoch(), *me);
        let voter = |server: &ServerEntry| Voter {
            server: server.id,
            host: server.host.clone(),
            port: server.worker_ports[0],
        };
        let others = map.servers_up().filter(|server| server.id != me);
        let voters: Vec<Voter> = others.map(voter).collect();
        self.needed = votes_needed(map.servers_up_count());
        self.next = now + ASK_AGAIN;
        self.round += 1;
        self.asked = now;
        self.granted.clear();
        if self.needed == 0 {
            return Step::Lease(self.lease_by_votes(epoch));
        }
        Step::Ask {
            round: self.round,
            epoch,
            voters,
        }
    }

    /// Another server votes for this one. A lease, once enough do.
    pub fn handle_vote(&mut self, round: u64, server: ServerId) -> Option<ServingLease> {
        let (map, _) = self.map.as_ref().filter(|_| round == self.round)?;
        let epoch = map.epoch();
        let is_new = self.granted.insert(server);
        (is_new && self.granted.len() == self.needed).then(|| self.lease_by_votes(epoch))
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next to be called. Far away while there is no map, or no need
    /// of leases.
    pub fn poll_deadline(&self) -> Instant {
        match self.map {
            Some(_) if self.is_leased() => {
                let due = Instant(self.until.0.saturating_sub(ASK_BELOW.as_nanos() as u64));
                due.max(self.next)
            }
            _ => Instant(u64::MAX),
        }
    }

    fn lease_by_votes(&mut self, epoch: Epoch) -> ServingLease {
        let until = self.asked + SERVING_LEASE;
        self.extend(ServingLease {
            epoch,
            until,
            by_votes: true,
        })
    }

    fn extend(&mut self, lease: ServingLease) -> ServingLease {
        self.until = self.until.max(lease.until);
        lease
    }
}

/// Whether a worker may serve what its server owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseState {
    /// Always: nobody ever gives its cachelets away without its doing.
    Unbound,
    /// Until then.
    Until(Instant),
    /// Not now.
    Over,
}
