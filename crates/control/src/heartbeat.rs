//! What members and coordinator say to each other.
//!
//! One idempotent call does everything: a heartbeat registers its sender, proves that it is alive,
//! reports its load and confirms the map it works by; the answer tells the sender's id, a newer map
//! if there is one, the cluster's load and the settings. Losing or repeating one does no harm.
//! Unknown fields are ignored on both sides, so that versions can be mixed.

use core::time::Duration;
use std::sync::Arc;

use evenkeel_hotkeys::settings::Settings;
use evenkeel_types::map::{ClusterMap, MIGRATIONS_MAX, MapDocument, NAME_LEN_MAX, WORKERS_MAX};
use evenkeel_types::{BootId, CacheletId, Epoch, ServerId};
use serde::{Deserialize, Serialize};

use crate::bundles::{BundleStep, FollowedBundle};
use crate::gone::GONE_AFTER;
use crate::hot_keys::HotKeysNews;
use crate::limits::{FOLLOWED_POOLS_MAX, LOAD_RPS_MAX};
use crate::loads::LoadNews;
use crate::refusal::Refusal;
use crate::rings::{FollowedRing, RingStep};
use crate::served::Served;
use evenkeel_balance::share::Utilization;
use evenkeel_schemes::stage::Step;
use evenkeel_schemes::warmth::Found;

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberKind {
    /// A cache server, which owns cachelets.
    Server,
    /// A proxy, which owns nothing and needs the map.
    Proxy,
}

/// A member's report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The cluster that the member was told to belong to.
    pub cluster: String,
    /// What the member is. Servers and proxies have names of their own.
    pub kind: MemberKind,
    /// Stays the same over restarts; a server's id and its cachelets hang on it.
    pub name: String,
    /// This life of the member's process.
    pub boot: BootId,
    /// Where others reach the member: host name or IP address, no port.
    pub host: String,
    /// The ordinary port. May be 0 for a proxy (which may listen on a unix socket alone).
    pub port: u16,
    /// A server's port for each worker. Empty for a proxy.
    #[serde(default)]
    pub worker_ports: Vec<u16>,
    /// Locality domain.
    #[serde(default)]
    pub rack: Option<String>,
    /// Newest map that the whole member *works by*: a server has let go of (and forgotten) every
    /// cachelet that this map does not give to it. 0 before the first map.
    #[serde(default)]
    pub epoch: Epoch,
    /// Newest map that the member was told, which it may not work by yet. 0 before the first.
    #[serde(default)]
    pub told: Epoch,
    /// [`HeartbeatAnswer::lineage`] of that map; absent before the first.
    #[serde(default)]
    pub lineage: Option<u64>,
    /// What the member carries at present.
    #[serde(default)]
    pub load: LoadReport,
    /// What is new of a server's hot keys; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot_keys: Option<HotKeysNews>,
    /// Whether the server can pass cachelets on to others with their contents, and take them.
    #[serde(default)]
    pub migrates: bool,
    /// How far the migrations have come that the server takes part in, for as long as its map has them. At most
    /// [`MIGRATIONS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub migrations: Vec<MigrationReport>,
    /// A server: that it has been overloaded for a while and cannot help itself; see
    /// [`phase`](evenkeel_balance::phase).
    #[serde(default)]
    pub asks_for_moves: bool,
    /// A server: that it serves what it owns only while it holds a serving lease, so that its cachelets may be given to others
    /// when it is down. Its first heartbeat says so already.
    #[serde(default)]
    pub leased: bool,
    /// A proxy: fingerprint of the file that it works by, and nothing of what stands in it. Absent without a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
    /// A proxy that follows pools: the port that its process keeps until it ends, where it says its boot to anyone who connects
    /// ([`control_line`](crate::control_line)). 0 for none.
    #[serde(default)]
    pub control_port: u16,
    /// A proxy that follows pools: it ends when no coordinator answers, so that it counts as [gone](crate::gone) when it was not heard for this
    /// long. The same for as long as its process lives. Absent where only the end of its process, or an operator, says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_after_ms: Option<u64>,
    /// A proxy: how far it is in the changes of the pools that it follows here. At most [`FOLLOWED_POOLS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<FollowedPool>,
    /// A server: that its process was told to end, and serves until others have what it has.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub ending: bool,
    /// That this is the last heartbeat of this life: the process has stopped serving.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub leaves: bool,
}

/// A server's map, for a coordinator that has lost its state and [asks](Refusal::MapWanted) for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MapOffer {
    /// The server.
    pub name: String,
    /// The life of its process.
    pub boot: BootId,
    /// See [`Heartbeat::lineage`].
    pub lineage: u64,
    /// The newest map that it was told.
    pub map: MapDocument,
}

/// How far a migration has come, at one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationReport {
    /// Which cachelet.
    pub cachelet: CacheletId,
    /// Which migration of it: see [`Migration::began`](evenkeel_types::map::Migration::began).
    pub began: Epoch,
    /// What this end says.
    pub state: MigrationState,
    /// Items sent or taken so far, those that were written meanwhile included.
    #[serde(default)]
    pub items: u64,
    /// Their bytes.
    #[serde(default)]
    pub bytes: u64,
}

/// What one end of a migration says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MigrationState {
    /// The source: contents are on their way, or about to be, and the source serves the cachelet.
    Copying,
    /// The source: it does not serve the cachelet any more, and never will again in this migration. It
    /// sends clients to the target.
    Moved,
    /// The source: nothing will come of this migration; it serves the cachelet and sends nobody to the target.
    Aborted,
    /// The target: it has contents, which it serves to nobody as far as it knows.
    Staged,
    /// The target: the source has decided, and it serves the cachelet. As good as [`Moved`](Self::Moved).
    Live,
}

/// How far a proxy is in the change of one pool; see [`change`](evenkeel_schemes::change).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FollowedPool {
    /// The pool's name.
    pub pool: String,
    /// The newest step that it was told; absent before the first.
    #[serde(default)]
    pub told: Option<Step>,
    /// The newest version before which nothing of its is under way. 0 for none.
    #[serde(default)]
    pub acknowledged: u64,
    /// In a pool whose hash space follows the load: by which plan it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<FollowedRing>,
    /// In a pool that keeps copies: by which plan it works, and what its file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<FollowedBundle>,
    /// In a pool that is warmed from former servers: what its reads have found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
}

/// What a proxy is to work by in one pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolStep {
    /// The pool's name.
    pub pool: String,
    /// The newest step.
    pub step: Step,
    /// In a pool whose hash space follows the load: which plan the step is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<RingStep>,
    /// In a pool that keeps copies: which plan the step is of; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleStep>,
}

/// A member's load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Smoothed requests per second of each worker; empty when there is nothing to report yet.
    #[serde(default)]
    pub requests_per_second: Vec<f64>,
    /// What a server's workers and their cachelets carry, measured; absent where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<LoadNews>,
    /// What applications got of a proxy; absent for a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Served>,
}

/// The answer to a [`Heartbeat`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeartbeatAnswer {
    /// A server's id; absent for a proxy.
    pub server_id: Option<ServerId>,
    /// Epoch of the newest map; 0 while there is none.
    pub epoch: Epoch,
    /// Names the series that epochs belong to. A coordinator that has lost its state begins another
    /// one, whose epochs must not be compared with the former's.
    pub lineage: u64,
    /// Fencing token of the leader that answers, where several coordinators elect one: greater than that of
    /// every leader before. 0 where there is one coordinator. A member that has heard of a greater one in the
    /// same lineage refuses the answer.
    #[serde(default)]
    pub leader: u64,
    /// The newest map, when the member works by an older one.
    #[serde(with = "shared_map")]
    pub map: Option<Arc<ClusterMap>>,
    /// Mean requests per second of the workers of all servers that are up, without the distortion
    /// by absurd reports (see [`LOAD_CLAMP`](evenkeel_balance::load::LOAD_CLAMP)).
    pub mean_worker_load: f64,
    /// The part of its capacity that the cluster uses, where enough servers tell their loads.
    #[serde(default)]
    pub utilization: Option<Utilization>,
    /// To a proxy: the steps of the pools that it [follows](Heartbeat::pools).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolStep>,
    /// To a server that is [ending](Heartbeat::ending): that it need not wait any more.
    #[serde(default)]
    pub may_end: bool,
    /// What the operator has chosen. What readers of replicas are promised counts by the map.
    pub settings: Settings,
    /// Whether the coordinator moves cachelets between servers by itself (plans are executed in mode `automatic`), so
    /// that a server that cannot help itself is helped.
    #[serde(default)]
    pub balances: bool,
    /// When to send the next heartbeat, in milliseconds.
    pub interval_ms: u64,
    /// For how long a server may serve what it owns, once it works by a map of this epoch: in milliseconds from when
    /// it sent the heartbeat. See [`serving`](evenkeel_types::serving). Absent for a proxy, and where
    /// the coordinator is of a version that gives nothing away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
}

impl Heartbeat {
    /// See [`gone_after_ms`](Self::gone_after_ms).
    pub fn gone_after(&self) -> Option<Duration> {
        self.gone_after_ms.map(Duration::from_millis)
    }

    /// Checks everything that can be checked without knowing the cluster.
    ///
    /// # Errors
    ///
    /// The first field that is unusable.
    pub fn validate(&self) -> Result<(), Refusal> {
        check_name("name", &self.name)?;
        check_name("host", &self.host)?;
        if let Some(rack) = &self.rack {
            check_name("rack", rack)?;
        }
        if let Some(hash) = &self.config_hash {
            check_name("config_hash", hash)?;
        }
        if self.kind == MemberKind::Server {
            self.validate_server_ports()?;
        } else if self.worker_ports.len() > WORKERS_MAX {
            let count = self.worker_ports.len();
            return Err(Refusal::BadWorkerCount { count });
        }
        if self.pools.len() > FOLLOWED_POOLS_MAX {
            let count = self.pools.len();
            return Err(Refusal::TooManyPools { count });
        }
        if self
            .gone_after()
            .is_some_and(|it| !GONE_AFTER.contains(&it))
        {
            return Err(Refusal::BadGoneAfter);
        }
        for followed in &self.pools {
            check_name("pool", &followed.pool)?;
            if followed.bundle.is_some_and(|bundle| !bundle.is_sound()) {
                let pool = followed.pool.clone();
                return Err(Refusal::BadBundle { pool });
            }
        }
        let count = self.migrations.len();
        if count > MIGRATIONS_MAX {
            return Err(Refusal::TooManyMigrations { count });
        }
        self.validate_load()
    }

    fn validate_server_ports(&self) -> Result<(), Refusal> {
        let count = self.worker_ports.len();
        if count == 0 || count > WORKERS_MAX {
            return Err(Refusal::BadWorkerCount { count });
        }
        let mut ports = self.worker_ports.clone();
        ports.sort_unstable();
        let doubled = ports.windows(2).find(|pair| pair[0] == pair[1]);
        if let Some(&[port, _]) = doubled {
            return Err(Refusal::BadPort { port });
        }
        if self.port == 0 || ports[0] == 0 {
            return Err(Refusal::BadPort { port: 0 });
        }
        Ok(())
    }

    fn validate_load(&self) -> Result<(), Refusal> {
        let loads = &self.load.requests_per_second;
        let expected = match self.kind {
            MemberKind::Server => self.worker_ports.len(),
            MemberKind::Proxy => loads.len().min(WORKERS_MAX),
        };
        if !loads.is_empty() && loads.len() != expected {
            return Err(Refusal::LoadCount {
                loads: loads.len(),
                expected,
            });
        }
        for (worker, &value) in loads.iter().enumerate() {
            // NaN is in no range.
            if !(0.0..=LOAD_RPS_MAX).contains(&value) {
                return Err(Refusal::BadLoad { worker, value });
            }
        }
        Ok(())
    }
}

/// Names travel in maps, logs and metrics: visible ASCII that needs no escaping anywhere.
///
/// # Errors
///
/// [`Refusal::BadName`] with the field's name.
pub fn check_name(field: &'static str, name: &str) -> Result<(), Refusal> {
    let usable = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\';
    if name.is_empty() || name.len() > NAME_LEN_MAX || !name.bytes().all(usable) {
        return Err(Refusal::BadName { field });
    }
    Ok(())
}

/// A map inside an `Arc`, written and read as the map itself.
mod shared_map {
    use super::{Arc, ClusterMap};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        map: &Option<Arc<ClusterMap>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        map.as_ref().map(|map| map.document()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<ClusterMap>>, D::Error> {
        Ok(Option::<ClusterMap>::deserialize(deserializer)?.map(Arc::new))
    }
}
