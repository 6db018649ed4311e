//! Why a heartbeat is refused.

use core::fmt;

use evenkeel_types::map::{MIGRATIONS_MAX, NAME_LEN_MAX, SERVERS_MAX, WORKERS_MAX};
use evenkeel_types::{BootId, Epoch};

use crate::gone::GONE_AFTER;
use crate::limits::{
    FOLLOWED_POOLS_MAX, JOINS_PER_MINUTE, LOAD_RPS_MAX, PROXIES_MAX, WORKERS_TOTAL_MAX,
};

/// Why a heartbeat is refused. Nothing of a refused heartbeat is used, not even the sign of life.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The member belongs to another cluster.
    #[error("this is cluster {ours:?}, not {theirs:?}")]
    WrongCluster {
        /// The coordinator's cluster.
        ours: String,
        /// The member's, shortened to what a name may have.
        theirs: String,
    },
    /// A name, host or rack is unusable.
    #[error(
        "{field} must be 1 to {NAME_LEN_MAX} visible ASCII characters without quotes, backslashes and spaces"
    )]
    BadName {
        /// The field at fault.
        field: &'static str,
    },
    /// A port is 0 where one is needed, or belongs to two workers.
    #[error("port {port} is 0 or is given to two workers")]
    BadPort {
        /// The port.
        port: u16,
    },
    /// A server must have 1 to [`WORKERS_MAX`] workers.
    #[error("{count} worker ports, not 1 to {WORKERS_MAX}")]
    BadWorkerCount {
        /// Worker ports in the heartbeat.
        count: usize,
    },
    /// The loads do not fit the workers.
    #[error("{loads} loads were reported, {expected} were expected")]
    LoadCount {
        /// Loads in the heartbeat.
        loads: usize,
        /// Workers of the member.
        expected: usize,
    },
    /// A load is not a number from 0 to [`LOAD_RPS_MAX`].
    #[error("the load of worker {worker} is {value}, not 0 to {LOAD_RPS_MAX} requests per second")]
    BadLoad {
        /// The worker, from 0.
        worker: usize,
        /// What was reported.
        value: f64,
    },
    /// More migrations are reported than a map can have.
    #[error("{count} migrations were reported, at most {MIGRATIONS_MAX} can be")]
    TooManyMigrations {
        /// Reports in the heartbeat.
        count: usize,
    },
    /// More pools are followed than there may be.
    #[error("{count} pools are followed, at most {FOLLOWED_POOLS_MAX} can be")]
    TooManyPools {
        /// Their number.
        count: usize,
    },
    /// A proxy says of a pool's change what cannot be.
    #[error("the proxy says of the change of pool {pool:?} what no coordinator has told it")]
    ForeignStep {
        /// The pool.
        pool: String,
    },
    /// A proxy works by a plan of a pool's ring that this coordinator has not made, as far as it knows.
    #[error(
        "the proxy works by a ring of pool {pool:?} that this coordinator does not know: restore the coordinator's state"
    )]
    ForeignRing {
        /// The pool.
        pool: String,
    },
    /// A pool has a ring for some proxies, and none for others.
    #[error(
        "pool {pool:?} has a ring (distribution = \"adaptive\") for this proxy or for those that are known, and not for both: \
         give all proxies the same file; what nobody follows any more is forgotten by `evenkeel changes forget {pool}`"
    )]
    MixedRing {
        /// The pool.
        pool: String,
    },
    /// What a proxy's file says of a ring makes none.
    #[error("pool {pool:?} makes no ring: {why}")]
    BadRing {
        /// The pool.
        pool: String,
        /// What is wrong.
        why: String,
    },
    /// A proxy works by a plan of a pool's copies that this coordinator has not made, as far as it knows.
    #[error(
        "the proxy keeps copies of pool {pool:?} by a plan that this coordinator does not know: restore the coordinator's state, or \
         start the proxy again"
    )]
    ForeignBundle {
        /// The pool.
        pool: String,
    },
    /// A pool keeps copies for some proxies, and none for others.
    #[error(
        "pool {pool:?} is one that keeps copies for this proxy or for those that are known, and not for both: give all proxies the \
         same file; what nobody follows any more is forgotten by `evenkeel changes forget {pool}`"
    )]
    MixedBundle {
        /// The pool.
        pool: String,
    },
    /// What a proxy says of a pool's copies is beyond all limits.
    #[error("what the proxy says of the copies of pool {pool:?} is out of range")]
    BadBundle {
        /// The pool.
        pool: String,
    },
    /// A proxy would count as gone too early, or too late.
    #[error(
        "a proxy that hears of no coordinator can count as gone after {} to {} s",
        GONE_AFTER.start().as_secs(),
        GONE_AFTER.end().as_secs()
    )]
    BadGoneAfter,
    /// The member works by a map that this coordinator has not made yet.
    #[error("the newest map has epoch {newest}, the member claims to work by {claimed}")]
    FutureEpoch {
        /// The member's epoch.
        claimed: Epoch,
        /// The coordinator's.
        newest: Epoch,
    },
    /// The member works by a map of another series of epochs.
    #[error(
        "the member works by a map that another coordinator made, or this one before it lost its \
         state; restore the state file or restart the member"
    )]
    ForeignMap,
    /// Another process has registered under this name since.
    #[error("the process {boot} of the name {name:?} was replaced by another of the same name")]
    DuplicateName {
        /// The name.
        name: String,
        /// The replaced life.
        boot: BootId,
    },
    /// The name belongs to a process that is alive.
    #[error(
        "the name {name:?} is held by the process at {host}:{port}, which is alive; give another one, or end that process first"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// The holder's host.
        host: String,
        /// Its ordinary port; 0 for a proxy that has none.
        port: u16,
    },
    /// A server's address, ports and rack are fixed for one life of its process.
    #[error("server {name:?} changed its address, ports or rack without a new boot id")]
    ChangedInOneLife {
        /// The server's name.
        name: String,
    },
    /// A server that is up has the same address.
    #[error("{host}:{port} is the address of server {owner:?}, which is up")]
    AddressTaken {
        /// The host.
        host: String,
        /// The first port that both claim.
        port: u16,
        /// Name of the server that has it.
        owner: String,
    },
    /// The coordinator has no state, and the server has a newer map than any that it was offered.
    #[error("the coordinator has lost its state and asks its servers for the map")]
    MapWanted,
    /// The coordinator has no state, and waits for more servers before it takes their map over.
    #[error("the coordinator has lost its state and takes the map over from its servers")]
    TakingOver,
    /// The server works by a map of this coordinator, which has forgotten it.
    #[error("server {name:?} was away for so long that it was forgotten; start it again")]
    Forgotten {
        /// The name.
        name: String,
    },
    /// A port of the server does not answer as the process that sent the heartbeat.
    #[error("server {name:?} is not to be reached at {host}:{port}: {why}")]
    Unreachable {
        /// The name.
        name: String,
        /// Where it says that others reach it.
        host: String,
        /// The first port of a worker that was no use.
        port: u16,
        /// What came of it.
        why: String,
    },
    /// Too many new names lately.
    #[error(
        "{JOINS_PER_MINUTE} servers with new names were taken within a minute; it is tried again"
    )]
    TooManyJoins,
    /// No room for another server.
    #[error("there are {SERVERS_MAX} servers already")]
    TooManyServers,
    /// No room for another proxy.
    #[error("there are {PROXIES_MAX} proxies already")]
    TooManyProxies,
    /// No room for more workers.
    #[error("there would be more than {WORKERS_TOTAL_MAX} workers")]
    TooManyWorkers,
}

/// Who can help it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The message is unusable. Sending it again is no use.
    Invalid,
    /// The message contradicts what the coordinator knows. An operator has to decide who is right.
    Conflict,
    /// A limit of the coordinator is reached, or it is not ready yet. It may work later.
    Full,
}

/// The kind of a [`Refusal`], for metrics and for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// See [`Refusal::WrongCluster`].
    WrongCluster,
    /// See [`Refusal::BadName`].
    BadName,
    /// See [`Refusal::BadPort`].
    BadPort,
    /// See [`Refusal::BadWorkerCount`].
    BadWorkerCount,
    /// See [`Refusal::LoadCount`] and [`Refusal::BadLoad`].
    BadLoad,
    /// See [`Refusal::TooManyMigrations`].
    TooManyMigrations,
    /// See [`Refusal::TooManyPools`].
    TooManyPools,
    /// See [`Refusal::ForeignStep`].
    ForeignStep,
    /// See [`Refusal::ForeignRing`].
    ForeignRing,
    /// See [`Refusal::MixedRing`].
    MixedRing,
    /// See [`Refusal::BadRing`].
    BadRing,
    /// See [`Refusal::ForeignBundle`].
    ForeignBundle,
    /// See [`Refusal::MixedBundle`].
    MixedBundle,
    /// See [`Refusal::BadBundle`].
    BadBundle,
    /// See [`Refusal::BadGoneAfter`].
    BadGoneAfter,
    /// See [`Refusal::FutureEpoch`].
    FutureEpoch,
    /// See [`Refusal::ForeignMap`].
    ForeignMap,
    /// See [`Refusal::DuplicateName`].
    DuplicateName,
    /// See [`Refusal::NameTaken`].
    NameTaken,
    /// See [`Refusal::ChangedInOneLife`].
    ChangedInOneLife,
    /// See [`Refusal::AddressTaken`].
    AddressTaken,
    /// See [`Refusal::MapWanted`].
    MapWanted,
    /// See [`Refusal::TakingOver`].
    TakingOver,
    /// See [`Refusal::Forgotten`].
    Forgotten,
    /// See [`Refusal::Unreachable`].
    Unreachable,
    /// See [`Refusal::TooManyJoins`].
    TooManyJoins,
    /// See [`Refusal::TooManyServers`], [`Refusal::TooManyProxies`], [`Refusal::TooManyWorkers`].
    TooManyMembers,
}

impl Reason {
    /// All of them, in order.
    pub const ALL: [Reason; 27] = [
        Reason::WrongCluster,
        Reason::BadName,
        Reason::BadPort,
        Reason::BadWorkerCount,
        Reason::BadLoad,
        Reason::TooManyMigrations,
        Reason::TooManyPools,
        Reason::ForeignStep,
        Reason::ForeignRing,
        Reason::MixedRing,
        Reason::BadRing,
        Reason::ForeignBundle,
        Reason::MixedBundle,
        Reason::BadBundle,
        Reason::BadGoneAfter,
        Reason::FutureEpoch,
        Reason::ForeignMap,
        Reason::DuplicateName,
        Reason::NameTaken,
        Reason::ChangedInOneLife,
        Reason::AddressTaken,
        Reason::MapWanted,
        Reason::TakingOver,
        Reason::Forgotten,
        Reason::Unreachable,
        Reason::TooManyJoins,
        Reason::TooManyMembers,
    ];

    /// Its name in metrics and answers; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::WrongCluster => "wrong_cluster",
            Reason::BadName => "bad_name",
            Reason::BadPort => "bad_port",
            Reason::BadWorkerCount => "bad_worker_count",
            Reason::BadLoad => "bad_load",
            Reason::TooManyMigrations => "too_many_migrations",
            Reason::TooManyPools => "too_many_pools",
            Reason::ForeignStep => "foreign_step",
            Reason::ForeignRing => "foreign_ring",
            Reason::MixedRing => "mixed_ring",
            Reason::BadRing => "bad_ring",
            Reason::ForeignBundle => "foreign_bundle",
            Reason::MixedBundle => "mixed_bundle",
            Reason::BadBundle => "bad_bundle",
            Reason::BadGoneAfter => "bad_gone_after",
            Reason::FutureEpoch => "future_epoch",
            Reason::ForeignMap => "foreign_map",
            Reason::DuplicateName => "duplicate_name",
            Reason::NameTaken => "name_taken",
            Reason::ChangedInOneLife => "changed_in_one_life",
            Reason::AddressTaken => "address_taken",
            Reason::MapWanted => "map_wanted",
            Reason::TakingOver => "taking_over",
            Reason::Forgotten => "forgotten",
            Reason::Unreachable => "unreachable",
            Reason::TooManyJoins => "too_many_joins",
            Reason::TooManyMembers => "too_many_members",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Refusal {
    /// Its kind.
    pub fn reason(&self) -> Reason {
        match self {
            Refusal::WrongCluster { .. } => Reason::WrongCluster,
            Refusal::BadName { .. } => Reason::BadName,
            Refusal::BadPort { .. } => Reason::BadPort,
            Refusal::BadWorkerCount { .. } => Reason::BadWorkerCount,
            Refusal::LoadCount { .. } | Refusal::BadLoad { .. } => Reason::BadLoad,
            Refusal::TooManyMigrations { .. } => Reason::TooManyMigrations,
            Refusal::TooManyPools { .. } => Reason::TooManyPools,
            Refusal::ForeignStep { .. } => Reason::ForeignStep,
            Refusal::ForeignRing { .. } => Reason::ForeignRing,
            Refusal::MixedRing { .. } => Reason::MixedRing,
            Refusal::BadRing { .. } => Reason::BadRing,
            Refusal::ForeignBundle { .. } => Reason::ForeignBundle,
            Refusal::MixedBundle { .. } => Reason::MixedBundle,
            Refusal::BadBundle { .. } => Reason::BadBundle,
            Refusal::BadGoneAfter => Reason::BadGoneAfter,
            Refusal::FutureEpoch { .. } => Reason::FutureEpoch,
            Refusal::ForeignMap => Reason::ForeignMap,
            Refusal::DuplicateName { .. } => Reason::DuplicateName,
            Refusal::NameTaken { .. } => Reason::NameTaken,
            Refusal::ChangedInOneLife { .. } => Reason::ChangedInOneLife,
            Refusal::AddressTaken { .. } => Reason::AddressTaken,
            Refusal::MapWanted => Reason::MapWanted,
            Refusal::TakingOver => Reason::TakingOver,
            Refusal::Forgotten { .. } => Reason::Forgotten,
            Refusal::Unreachable { .. } => Reason::Unreachable,
            Refusal::TooManyJoins => Reason::TooManyJoins,
            Refusal::TooManyServers | Refusal::TooManyProxies | Refusal::TooManyWorkers => {
                Reason::TooManyMembers
            }
        }
    }

    /// Who can help it.
    pub fn fault(&self) -> Fault {
        match self.reason() {
            Reason::BadName
            | Reason::BadPort
            | Reason::BadWorkerCount
            | Reason::BadLoad
            | Reason::TooManyMigrations
            | Reason::TooManyPools
            | Reason::BadRing
            | Reason::BadBundle
            | Reason::BadGoneAfter => Fault::Invalid,
            Reason::WrongCluster
            | Reason::ForeignStep
            | Reason::ForeignRing
            | Reason::MixedRing
            | Reason::ForeignBundle
            | Reason::MixedBundle
            | Reason::FutureEpoch
            | Reason::ForeignMap
            | Reason::DuplicateName
            | Reason::NameTaken
            | Reason::ChangedInOneLife
            | Reason::AddressTaken
            | Reason::Forgotten
            | Reason::Unreachable => Fault::Conflict,
            Reason::MapWanted
            | Reason::TakingOver
            | Reason::TooManyJoins
            | Reason::TooManyMembers => Fault::Full,
        }
    }
}
