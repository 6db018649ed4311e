//! What is run.

use crate::history::Nanos;

/// One millisecond.
pub(super) const MS: Nanos = 1_000_000;

/// How long a lease lasts, by turns: shorter and longer than a home waits before it makes a lost
/// link anew, and short enough that many fit into a run.
const LEASES: [Nanos; 3] = [100 * MS, 200 * MS, 450 * MS];

/// How long most runs last.
const LENGTH: Nanos = 5_000 * MS;

/// How long every fifth run lasts: with pauses in which keys become hot again after a shadow server
/// was lost, for which their homes take their time.
const LENGTH_LONG: Nanos = 15_000 * MS;

/// How long nothing goes wrong at the end of a run, so that everything can come to rest.
const QUIET: Nanos = 2_000 * MS;

/// What goes wrong most in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turmoil {
    /// Nothing but delays.
    Calm,
    /// Connections break, and what is under way arrives late or never.
    Resets,
    /// Hosts cannot reach each other for a while.
    Partitions,
    /// Servers die and come back empty.
    Crashes,
    /// Servers and proxies stop for a while and go on.
    Pauses,
    /// Servers join and cachelets move; hot keys are switched off and on; the coordinator is away.
    Changes,
    /// All of these.
    Everything,
}

impl Turmoil {
    /// All of them; a seed chooses by turns.
    pub const ALL: [Turmoil; 7] = [
        Turmoil::Calm,
        Turmoil::Resets,
        Turmoil::Partitions,
        Turmoil::Crashes,
        Turmoil::Pauses,
        Turmoil::Changes,
        Turmoil::Everything,
    ];

    /// Those of plain servers.
    pub const PLAIN: [Turmoil; 6] = [
        Turmoil::Calm,
        Turmoil::Resets,
        Turmoil::Partitions,
        Turmoil::Crashes,
        Turmoil::Pauses,
        Turmoil::Everything,
    ];
}

/// What is behind the proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cluster {
    /// Evenkeel servers and their coordinator.
    Evenkeel,
    /// Servers that know nothing of each other nor of leases: to the proxies any memcached, whose hot
    /// keys they replicate themselves.
    Plain,
}

/// Something built in wrongly on purpose, to see that the checks notice. All of it is done to bytes
/// on their way: the cores themselves are sound.
///
/// The promises are held up from two sides, so that one broken rule alone often does no harm: a
/// client compares every replica's version with what it has seen, and asks the home where a replica
/// is older. Faults on the side of the servers therefore make replicas *boast* of a high version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Shadow servers confirm every other value without taking it, and boast.
    ReplicaStoresDropped,
    /// Homes grant leases with every value, and shadow servers boast.
    GrantsAlways,
    /// Proxies are told of leases much longer than the home waits for, or lend themselves what a plain
    /// server said for much longer than is promised.
    LeasesTooLong,
    /// A miss names a version that is older than the delete.
    MissesLookOld,
    /// Homes confirm one set in twenty that they do not carry out.
    WritesDropped,
    /// One write in twenty is carried out twice.
    WritesRepeated,
    /// Plain servers find a replica by the key alone, whatever content its name asks for.
    ReplicasUnnamed,
    /// Plain servers swap without a look at the CAS unique.
    SwapsBlindly,
}

impl Fault {
    /// Those of a cluster of Evenkeel servers.
    pub const ALL: [Fault; 6] = [
        Fault::ReplicaStoresDropped,
        Fault::GrantsAlways,
        Fault::LeasesTooLong,
        Fault::MissesLookOld,
        Fault::WritesDropped,
        Fault::WritesRepeated,
    ];

    /// Those of plain servers.
    pub const PLAIN: [Fault; 5] = [
        Fault::LeasesTooLong,
        Fault::ReplicasUnnamed,
        Fault::SwapsBlindly,
        Fault::WritesDropped,
        Fault::WritesRepeated,
    ];
}

/// A run: the same plan always gives the same events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// What is behind the proxies.
    pub cluster: Cluster,
    /// What goes wrong most.
    pub turmoil: Turmoil,
    /// What is wrong on purpose.
    pub fault: Option<Fault>,
    /// How long it runs, in virtual nanoseconds.
    pub length: Nanos,
    /// Whether every event is printed.
    pub aloud: bool,
}

impl Plan {
    /// A sound run with the turmoil that is this seed's turn.
    pub fn new(seed: u64) -> Self {
        Plan {
            seed,
            cluster: Cluster::Evenkeel,
            turmoil: Turmoil::ALL[(seed % Turmoil::ALL.len() as u64) as usize],
            fault: None,
            length: if is_long(seed) { LENGTH_LONG } else { LENGTH },
            aloud: false,
        }
    }

    /// The same in front of plain servers, among which nothing changes.
    pub fn plain(seed: u64) -> Self {
        Plan {
            cluster: Cluster::Plain,
            turmoil: Turmoil::PLAIN[(seed % Turmoil::PLAIN.len() as u64) as usize],
            ..Plan::new(seed)
        }
    }

    /// Pauses between two mishaps, from least to most.
    pub(super) fn pause(&self) -> (Nanos, Nanos) {
        if is_long(self.seed) {
            (200 * MS, 3000 * MS)
        } else {
            (20 * MS, 250 * MS)
        }
    }

    /// From when on nothing goes wrong any more.
    pub(super) fn quiet_from(&self) -> Nanos {
        self.length.saturating_sub(QUIET)
    }

    /// How long a lease lasts: the bound of staleness.
    pub fn lease(&self) -> Nanos {
        LEASES[(self.seed % LEASES.len() as u64) as usize]
    }

    /// How long proxies in front of plain servers believe that it lasts.
    pub(super) fn lease_lent(&self) -> Nanos {
        match self.fault {
            Some(Fault::LeasesTooLong) => 5_000 * MS,
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

fn is_long(seed: u64) -> bool {
    seed % 5 == 4
}
