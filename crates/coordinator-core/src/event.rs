//! What changed the map, and why.

use core::fmt;

use std::collections::BTreeSet;

use evenkeel_types::{CacheletId, Epoch, ServerId, UnixSeconds};
use serde::{Deserialize, Serialize};

/// Why a map changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Enough servers had registered for the first map.
    MapCreated,
    /// A coordinator without state has taken the map over from its servers.
    MapTakenOver,
    /// A server with a new name registered.
    ServerJoined,
    /// A server was silent for too long and is taken to be down.
    ServerSilent,
    /// A server that owned nothing has ended.
    ServerLeft,
    /// A server is to be emptied.
    DrainBegun,
    /// A server that was to be emptied takes part again.
    DrainEnded,
    /// A server that was taken to be down is heard of again, in the same life.
    ServerReturned,
    /// A server began a new life; what it held before is void.
    ServerRestarted,
    /// Cachelets were taken from their owners, to be given to others.
    CacheletsReleased,
    /// Cachelets that had been let go got a new owner.
    CacheletsGranted,
    /// Cachelets are to pass to other servers with their contents.
    MigrationsBegun,
    /// Some of that is to be given up.
    MigrationsCancelled,
    /// Sources say that cachelets have passed to servers that have begun a new life meanwhile: those are asked
    /// whether they have them.
    MigrationsDoubted,
    /// Cachelets have passed to other servers with their contents.
    CacheletsMigrated,
    /// Migrations have come to nothing: the sources keep the cachelets.
    MigrationsAborted,
    /// Sources of migrations have begun a new life, so that nobody knows what has passed: nobody owns the
    /// cachelets until the targets have let go of them.
    MigrationsLost,
    /// A server that is down has ceased to serve for certain, and its cachelets go to others.
    ServerFenced,
    /// Owners of cachelets have died one after the other, and nobody gets these before an operator says so.
    CacheletsQuarantined,
    /// Cachelets may have owners again: an operator has said so, or one that was taken for dead was alive.
    QuarantineEnded,
    /// An operator has chosen what readers of replicas are promised.
    SettingsChanged,
    /// A server that is down was forgotten: it had been gone for long and owned nothing, or an operator has said so.
    ServerForgotten,
}

impl Cause {
    /// All of them, in order.
    pub const ALL: [Cause; 22] = [
        Cause::MapCreated,
        Cause::MapTakenOver,
        Cause::ServerJoined,
        Cause::ServerSilent,
        Cause::ServerLeft,
        Cause::DrainBegun,
        Cause::DrainEnded,
        Cause::ServerReturned,
        Cause::ServerRestarted,
        Cause::CacheletsReleased,
        Cause::CacheletsGranted,
        Cause::MigrationsBegun,
        Cause::MigrationsCancelled,
        Cause::MigrationsDoubted,
        Cause::CacheletsMigrated,
        Cause::MigrationsAborted,
        Cause::MigrationsLost,
        Cause::ServerFenced,
        Cause::CacheletsQuarantined,
        Cause::QuarantineEnded,
        Cause::SettingsChanged,
        Cause::ServerForgotten,
    ];

    /// Its name in metrics and answers; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Cause::MapCreated => "map_created",
            Cause::MapTakenOver => "map_taken_over",
            Cause::ServerJoined => "server_joined",
            Cause::ServerSilent => "server_silent",
            Cause::ServerLeft => "server_left",
            Cause::DrainBegun => "drain_begun",
            Cause::DrainEnded => "drain_ended",
            Cause::ServerReturned => "server_returned",
            Cause::ServerRestarted => "server_restarted",
            Cause::CacheletsReleased => "cachelets_released",
            Cause::CacheletsGranted => "cachelets_granted",
            Cause::MigrationsBegun => "migrations_begun",
            Cause::MigrationsCancelled => "migrations_cancelled",
            Cause::MigrationsDoubted => "migrations_doubted",
            Cause::CacheletsMigrated => "cachelets_migrated",
            Cause::MigrationsAborted => "migrations_aborted",
            Cause::MigrationsLost => "migrations_lost",
            Cause::ServerFenced => "server_fenced",
            Cause::CacheletsQuarantined => "cachelets_quarantined",
            Cause::QuarantineEnded => "quarantine_ended",
            Cause::SettingsChanged => "settings_changed",
            Cause::ServerForgotten => "server_forgotten",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One change of the map. Several may share an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapEvent {
    /// First map with the change.
    pub epoch: Epoch,
    /// Wall-clock time of the change, in seconds since 1970.
    pub unix_s: UnixSeconds,
    /// Why.
    pub cause: Cause,
    /// Names of the servers concerned: those that came or went, the former (new) owners of
    /// released (granted) cachelets, or both ends of migrations.
    pub servers: Vec<String>,
    /// Cachelets concerned.
    pub cachelets: usize,
    /// Which, of those in quarantine; of others their number has to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<CacheletId>,
}

/// A change on its way into the next map.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) cause: Cause,
    pub(crate) servers: BTreeSet<ServerId>,
    pub(crate) cachelets: usize,
    /// See [`MapEvent::named`].
    pub(crate) named: Vec<CacheletId>,
}

impl Change {
    pub(crate) fn of_server(cause: Cause, server: ServerId) -> Self {
        Change::of_cachelets(cause, BTreeSet::from([server]), 0)
    }

    pub(crate) fn of_cachelets(
        cause: Cause,
        servers: BTreeSet<ServerId>,
        cachelets: usize,
    ) -> Self {
        Change {
            cause,
            servers,
            cachelets,
            named: Vec::new(),
        }
    }
}

/// What is told of all events.
#[derive(Debug, Serialize, Deserialize)]
pub struct EventsBody {
    /// Oldest first.
    pub events: Vec<MapEvent>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_have_the_same_name_everywhere() {
        for cause in Cause::ALL {
            let json = serde_json::to_string(&cause).unwrap();
            assert_eq!(json, format!("\"{cause}\""));
        }
    }
}
