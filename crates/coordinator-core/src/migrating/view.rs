//! What is said of migrations: wishes, refusals, and what is shown.

use std::collections::BTreeMap;

use evenkeel_types::map::MIGRATIONS_MAX;
use evenkeel_types::{CacheletId, Epoch};
use serde::{Deserialize, Serialize};

use crate::event::Cause;
use crate::limits;
use crate::members::WorkerName;

/// An operator's wish to move a cachelet to another server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigrationRequest {
    /// Which.
    pub cachelet: CacheletId,
    /// The worker that is to own it.
    pub to: WorkerName,
    /// What is copied at most, in bytes per second; 0 for no limit.
    #[serde(default = "default_rate")]
    pub bytes_per_second: u64,
}

fn default_rate() -> u64 {
    limits::MIGRATION_BYTES_PER_SECOND
}

/// Why a migration is not begun, or not given up. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MigrationRefusal {
    /// There is no such cachelet.
    #[error("there is no cachelet {cachelet}")]
    UnknownCachelet {
        /// The number.
        cachelet: CacheletId,
    },
    /// There is no such worker.
    #[error("there is no worker {worker}")]
    UnknownWorker {
        /// Its name, or its number where it has none.
        worker: String,
    },
    /// Nobody owns it now.
    #[error("nobody owns cachelet {cachelet} now, because it is changing hands or quarantined")]
    NobodyOwns {
        /// The cachelet.
        cachelet: CacheletId,
    },
    /// It gets its owner, or begins anew, with the next map. A migration that began with the same map would give the
    /// target's stay the name of the source's.
    #[error("cachelet {cachelet} has just got its owner; ask again")]
    JustPlaced {
        /// The cachelet.
        cachelet: CacheletId,
    },
    /// It is moving already.
    #[error("cachelet {cachelet} is moving already")]
    Moving {
        /// The cachelet.
        cachelet: CacheletId,
    },
    /// It is not moving.
    #[error("cachelet {cachelet} is not moving")]
    NotMoving {
        /// The cachelet.
        cachelet: CacheletId,
    },
    /// Both ends are one server, which decides itself which of its workers has what.
    #[error("cachelet {cachelet} is of that server already")]
    SameServer {
        /// The cachelet.
        cachelet: CacheletId,
    },
    /// One of the ends is down.
    #[error("server {server:?} is down")]
    Down {
        /// Its name.
        server: String,
    },
    /// The target gets nothing any more.
    #[error("server {server:?} is drained: it gets no cachelets")]
    Drained {
        /// Its name.
        server: String,
    },
    /// More do not fit a map.
    #[error("{MIGRATIONS_MAX} cachelets are moving already")]
    TooMany,
}

/// How far a migration has come, as far as its servers have told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MigrationStage {
    /// Neither server has said anything of it.
    Ordered,
    /// The source copies.
    Copying,
    /// It is to be given up, and the source has not said yet whether it is.
    Cancelling,
}

impl MigrationStage {
    /// Its name everywhere; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            MigrationStage::Ordered => "ordered",
            MigrationStage::Copying => "copying",
            MigrationStage::Cancelling => "cancelling",
        }
    }
}

/// What came of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MigrationEnd {
    /// The cachelet has passed to the target.
    Moved,
    /// The source kept it.
    Aborted,
    /// The source began a new life, and nobody knows: the cachelet is released.
    SourceLost,
}

impl MigrationEnd {
    /// All of them, in order.
    pub const ALL: [MigrationEnd; 3] = [
        MigrationEnd::Moved,
        MigrationEnd::Aborted,
        MigrationEnd::SourceLost,
    ];

    /// Its name in metrics and answers; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            MigrationEnd::Moved => "moved",
            MigrationEnd::Aborted => "aborted",
            MigrationEnd::SourceLost => "source_lost",
        }
    }

    pub(super) const fn cause(self) -> Cause {
        match self {
            MigrationEnd::Moved => Cause::CacheletsMigrated,
            MigrationEnd::Aborted => Cause::MigrationsAborted,
            MigrationEnd::SourceLost => Cause::MigrationsLost,
        }
    }
}

/// A migration, to be shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MigrationView {
    /// Which cachelet.
    pub cachelet: CacheletId,
    /// First map that told of it.
    pub began: Epoch,
    /// The source.
    pub from: WorkerName,
    /// The target.
    pub to: WorkerName,
    /// How far it has come.
    pub stage: MigrationStage,
    /// Items that were sent or taken so far, those written meanwhile included.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is copied at most, in bytes per second; 0 for no limit.
    pub bytes_per_second_max: u64,
    /// Seconds since it was ordered, or since this coordinator took over.
    pub seconds: f64,
}

/// A migration that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedMigration {
    /// Which cachelet.
    pub cachelet: CacheletId,
    /// First map that told of it.
    pub began: Epoch,
    /// First map without it.
    pub ended: Epoch,
    /// The source.
    pub from: WorkerName,
    /// The target.
    pub to: WorkerName,
    /// What came of it.
    pub end: MigrationEnd,
    /// Items that were sent or taken, as far as told.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Seconds that it took, as far as this coordinator has seen.
    pub seconds: f64,
}

/// All migrations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MigrationsView {
    /// Epoch of the newest map.
    pub epoch: Epoch,
    /// Those under way, by cachelet.
    pub migrations: Vec<MigrationView>,
    /// The last [`limits::ENDED_MIGRATIONS_MAX`] that are over, oldest first; those of a former coordinator
    /// are not among them.
    pub ended: Vec<EndedMigration>,
}

/// Counts since the process started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationCounts {
    /// Ordered.
    pub begun: u64,
    /// Over, each end present.
    pub ended: BTreeMap<MigrationEnd, u64>,
    /// Items of those that are over.
    pub items: u64,
    /// Bytes of those that are over.
    pub bytes: u64,
    /// Reports on migrations that are not under way, or from a server that is not the end it speaks for. Late
    /// reports are among them.
    pub odd_reports: u64,
}
