//! What is run.

use super::fault::Fault;
use super::led_report::LedKind;
use super::swarm::Swarm;
use super::units::{MS, SECOND};
use crate::history::Nanos;
use evenkeel_types::promise::Consistency;

/// How long a lease lasts, by turns: shorter and longer than a home waits before it makes a lost
/// link anew, and short enough that many fit into a run.
const LEASES: [Nanos; 3] = [100 * MS, 200 * MS, 450 * MS];

/// When the first thing goes wrong: all servers are there by then, and have a map.
pub(super) const FIRST_MISHAP: Nanos = SECOND;

/// How long a run lasts unless it is said.
pub const LENGTH: Nanos = 60 * SECOND;

/// Servers of a run unless it is said.
pub const SERVERS: usize = 5;

/// Fewest servers of a run: a hot key needs somewhere to go while one is down.
pub const SERVERS_MIN: usize = 3;

/// Most servers of a run: their ports are numbered from 2,000 on, ten for each.
pub const SERVERS_MAX: usize = 1_000;

/// How long nothing goes wrong at the end of a run, so that everything can come to rest.
const QUIET: Nanos = 10 * SECOND;

/// Part of a short run that is quiet at the least.
const QUIET_PART: u64 = 3;

/// Shortest run: one in which members can still agree within five seconds at the end.
pub const LENGTH_MIN: Nanos = QUIET_PART * (CONVERGENCE + 2 * SECOND);

/// How long after the last fault all members have to work by the newest map.
pub(super) const CONVERGENCE: Nanos = 5 * SECOND;

/// What is behind the proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cluster {
    /// Evenkeel servers and their coordinator.
    Evenkeel,
    /// Servers that know nothing of each other nor of leases: to the proxies any memcached, whose hot
    /// keys they replicate themselves.
    Plain,
}

/// A run: the same plan always gives the same events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// What is behind the proxies.
    pub cluster: Cluster,
    /// What its servers promise of replicated keys.
    pub consistency: Consistency,
    /// What may go wrong, and what applications do.
    pub swarm: Swarm,
    /// What is wrong on purpose.
    pub fault: Option<Fault>,
    /// How long it runs, in virtual nanoseconds; at least [`LENGTH_MIN`].
    pub length: Nanos,
    /// Servers, with those that join later: [`SERVERS_MIN`] to [`SERVERS_MAX`].
    pub servers: usize,
}

impl Plan {
    /// A sound run, with the swarm of this seed.
    pub fn new(seed: u64) -> Self {
        Plan {
            seed,
            cluster: Cluster::Evenkeel,
            consistency: Consistency::Lease,
            swarm: Swarm::of(seed),
            fault: None,
            length: LENGTH,
            servers: SERVERS,
        }
    }

    /// The same with atomic writes, for which the history must be linearizable.
    pub fn atomic(seed: u64) -> Self {
        Plan {
            consistency: Consistency::Atomic,
            ..Plan::new(seed)
        }
    }

    /// The same in front of plain servers, among which nothing changes.
    pub fn plain(seed: u64) -> Self {
        Plan {
            cluster: Cluster::Plain,
            swarm: Swarm::of(seed).of_plain_servers(),
            ..Plan::new(seed)
        }
    }

    /// The same, with a pool that is led, whatever the swarm of this seed says.
    pub fn led(seed: u64) -> Self {
        let swarm = Swarm {
            is_led: true,
            ..Swarm::of(seed)
        };
        Plan {
            swarm: swarm.of_plain_servers(),
            ..Plan::plain(seed)
        }
    }

    /// The same, where this changes of the pool that is led.
    pub fn of(self, leads: LedKind) -> Self {
        Plan {
            swarm: Swarm {
                leads,
                ..self.swarm
            },
            ..self
        }
    }

    /// The same, of another length.
    pub fn lasting(self, length: Nanos) -> Self {
        Plan {
            length: length.max(LENGTH_MIN),
            ..self
        }
    }

    /// From when on nothing goes wrong any more.
    pub(super) fn quiet_from(&self) -> Nanos {
        self.length - QUIET.min(self.length / QUIET_PART)
    }

    /// From when on everything has to have come to rest.
    pub(super) fn quiescent_from(&self) -> Nanos {
        self.quiet_from() + CONVERGENCE
    }

    /// How long a lease lasts: the bound of staleness.
    pub fn lease(&self) -> Nanos {
        LEASES[(self.seed % LEASES.len() as u64) as usize]
    }

    /// How long proxies in front of plain servers believe that it lasts.
    pub(super) fn lease_lent(&self) -> Nanos {
        match self.fault {
            Some(Fault::LeasesTooLong) => 5 * SECOND,
            _ => self.lease(),
        }
    }

    /// The same with something wrong.
    pub fn with_fault(self, fault: Fault) -> Self {
        Plan {
            fault: Some(fault),
            ..self
        }
    }
}
