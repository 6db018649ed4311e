//! The cluster map: which worker owns which part of the hash space.
//!
//! The hash space is cut into a power of two of equal pieces, the *virtual nodes*. Each belongs to a
//! *cachelet*, the unit in which load moves, and each cachelet is owned by one worker of one server
//! (MBal, section 2.2: key → virtual node → cachelet → worker). Two tables and a shift find the
//! owner of a key, and anyone who has the same map finds the same owner.
//!
//! A map is a value: the coordinator makes a new one with a higher epoch, everybody else receives
//! it whole and never changes it. [`MapDocument`] is what travels and what a planner edits;
//! [`ClusterMap`] is a document that was checked and indexed, so that no lookup can fail and no map
//! that contradicts itself is ever routed by.

use std::collections::BTreeSet;

use crate::{BootId, CacheletId, Epoch, KeyHash, ServerId, VirtualNode, WorkerRef};
use serde::{Deserialize, Serialize};

use crate::promise::Promise;

/// Virtual nodes of a new cluster. A power of two; enough that even 1,000 workers own four each.
pub const VIRTUAL_NODES: usize = 4096;

/// Most virtual nodes of a map: their number must fit a [`VirtualNode`].
pub const VIRTUAL_NODES_MAX: usize = 1 << 16;

/// Most cachelets of a map: their number must fit a [`CacheletId`].
pub const CACHELETS_MAX: usize = 1 << 16;

/// Memory that a cachelet of a new map has at least, where there is enough for the [fewest](CACHELETS_PER_WORKER_MIN): with that much as many
/// small items fit to within 0.7 % as with four times as much, with a quarter of it up to 2.4 % fewer (docs/performance.md).
pub const CACHELET_BYTES: u64 = 4 << 20;

/// Fewest cachelets of a worker in a new map, however little memory there is (MBal, section 2.2, uses up to 16): one is a
/// sixteenth of its load, and less cannot be moved.
pub const CACHELETS_PER_WORKER_MIN: usize = 16;

/// Most cachelets of a worker in a new map, however much memory there is: one is 1.6 % of its load, less than what loads
/// are apart when they count as even. A cluster can grow to as many times its first workers.
pub const CACHELETS_PER_WORKER_MAX: usize = 64;

/// Cachelets for each worker of a new map, for that many workers with this many bytes together: as many as memory
/// carries.
pub fn cachelets_per_worker(memory_bytes: u64, workers: usize) -> usize {
    let carried = memory_bytes / CACHELET_BYTES / workers.max(1) as u64;
    // At most 64.
    carried.clamp(
        CACHELETS_PER_WORKER_MIN as u64,
        CACHELETS_PER_WORKER_MAX as u64,
    ) as usize
}

/// Most servers of a map. Bounds what a map costs to send, to check and to hold.
pub const SERVERS_MAX: usize = 4096;

/// Most migrations of a map. Each costs memory and bandwidth at both ends.
pub const MIGRATIONS_MAX: usize = 1024;

/// Most workers of one server.
pub const WORKERS_MAX: usize = 1024;

/// Longest name of a server or a rack and longest host, in bytes (a DNS name has at most 253).
pub const NAME_LEN_MAX: usize = 255;

/// A server as the map knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerEntry {
    /// The coordinator's number for [`name`](Self::name); never reused for another name.
    pub id: ServerId,
    /// The name the server registered under.
    pub name: String,
    /// Host name or IP address (an IPv6 address without brackets).
    pub host: String,
    /// Port where any memcached client may ask for any key.
    pub port: u16,
    /// Port of each worker, by the worker's index; aware clients and other servers use these.
    pub worker_ports: Vec<u16>,
    /// Locality domain, where one is configured.
    #[serde(default)]
    pub rack: Option<String>,
    /// The life of the server process that this entry speaks of.
    pub boot: BootId,
    /// Whether the coordinator believes that the server is alive.
    pub up: bool,
    /// First map in which this life of it was up, or down, as it is now. A server that is up may serve from
    /// this map on: see [`serving`](super::serving).
    #[serde(default)]
    pub since: Epoch,
    /// It is being emptied, or is empty, to be taken away: no replica of a hot key is to be put there, and none is read.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub leaving: bool,
}

impl ServerEntry {
    /// A server that is up, in its first life, by the name `s<id>`.
    pub fn new(id: u16, host: impl Into<String>, port: u16, worker_ports: Vec<u16>) -> Self {
        ServerEntry {
            id: ServerId(id),
            name: format!("s{id}"),
            host: host.into(),
            port,
            worker_ports,
            rack: None,
            boot: BootId(1),
            up: true,
            since: Epoch(0),
            leaving: false,
        }
    }

    /// Whether replicas of other servers' keys may be put there.
    pub fn takes_replicas(&self) -> bool {
        self.up && !self.leaving
    }

    /// How many workers it has.
    pub fn workers(&self) -> u16 {
        self.worker_ports.len() as u16
    }
}

/// A cluster map as it travels and as a planner edits it. Nothing about it is known to be sound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapDocument {
    /// Version of this map; a map with a higher epoch replaces one with a lower.
    pub epoch: Epoch,
    /// What readers of replicated keys are promised by this map; absent where nobody has chosen it. Anyone who does not know the
    /// word goes by what the home says in its hello.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promise>,
    /// Every known server, in ascending order of id, those that are down included.
    pub servers: Vec<ServerEntry>,
    /// Cachelet of each virtual node.
    pub virtual_nodes: Vec<CacheletId>,
    /// Owner of each cachelet; `None` while nobody owns it.
    pub cachelets: Vec<Option<WorkerRef>>,
    /// For each cachelet the epoch from which on its contents have gone on without a break, over all
    /// migrations since. Empty where the author does not say; a server then counts from the map that first
    /// gave the cachelet to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub since: Vec<Epoch>,
    /// For each cachelet what names its present stay with its owner: of one that has migrated the epoch in which
    /// that migration [began](Migration::began), of others their `since`. So it changes whenever the owner does, and
    /// a server that has missed maps can tell a cachelet that has come back from one that never left. Empty
    /// with `since`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stay: Vec<Epoch>,
    /// Cachelets that are on their way to another server, in ascending order. Until the map says otherwise
    /// they belong to their owner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub migrations: Vec<Migration>,
    /// Cachelets that nobody owns until an operator says so, because their owners died one after the other; in
    /// ascending order. What asks for one of their keys is answered with an error, not with a miss. Anyone who does not
    /// know the word takes them for cachelets that change hands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quarantined: Vec<CacheletId>,
}

/// A cachelet on its way to another server, with its contents.
///
/// The order is the coordinator's; how far it has come only the two servers know. The source alone decides
/// whether the cachelet has passed, and says so in its heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migration {
    /// Which cachelet.
    pub cachelet: CacheletId,
    /// The worker that is to own it.
    pub to: WorkerRef,
    /// The map that it first stood in. With the cachelet it names the migration for ever.
    pub began: Epoch,
    /// The coordinator wants it to be given up. The source says whether that came in time.
    #[serde(default)]
    pub cancelled: bool,
    /// What the source copies at most, in bytes per second; 0 for no limit. What clients write meanwhile is
    /// sent beside it.
    #[serde(default)]
    pub bytes_per_second: u64,
}

impl MapDocument {
    /// A map in which this many virtual nodes go round the cachelets, which have these owners.
    ///
    /// # Panics
    /// Without cachelets.
    pub fn new(
        epoch: u64,
        servers: Vec<ServerEntry>,
        virtual_nodes: usize,
        cachelets: Vec<Option<WorkerRef>>,
    ) -> Self {
        let cachelet = |node: usize| CacheletId((node % cachelets.len()) as u16);
        MapDocument {
            epoch: Epoch(epoch),
            promise: None,
            servers,
            virtual_nodes: (0..virtual_nodes).map(cachelet).collect(),
            cachelets,
            since: Vec::new(),
            stay: Vec::new(),
            migrations: Vec::new(),
            quarantined: Vec::new(),
        }
    }

    /// Checks that the document agrees with itself and with the limits of this module.
    ///
    /// An owner that is down is sound: the map says who owns a cachelet, not whether it answers.
    ///
    /// # Errors
    ///
    /// The first rule that the document breaks.
    pub fn validate(&self) -> Result<(), MapError> {
        if self.epoch == Epoch(0) {
            return Err(MapError::EpochZero);
        }
        if !self.promise.is_none_or(|promise| promise.is_sound()) {
            return Err(MapError::BadPromise);
        }
        self.validate_servers()?;
        self.validate_tables()
    }

    fn validate_servers(&self) -> Result<(), MapError> {
        if self.servers.len() > SERVERS_MAX {
            return Err(MapError::TooManyServers {
                count: self.servers.len(),
            });
        }
        let mut names = BTreeSet::new();
        for (i, server) in self.servers.iter().enumerate() {
            if i > 0 && self.servers[i - 1].id >= server.id {
                return Err(MapError::ServersNotAscending { id: server.id });
            }
            if !is_name(&server.name) || !server.rack.as_deref().is_none_or(is_name) {
                return Err(MapError::BadName { id: server.id });
            }
            if !is_name(&server.host) {
                return Err(MapError::BadHost { id: server.id });
            }
            if !names.insert(server.name.as_str()) {
                return Err(MapError::DuplicateName {
                    name: server.name.clone(),
                });
            }
            if server.port == 0 || server.worker_ports.contains(&0) {
                return Err(MapError::PortZero { id: server.id });
            }
            if server.worker_ports.is_empty() || server.worker_ports.len() > WORKERS_MAX {
                let count = server.worker_ports.len();
                return Err(MapError::BadWorkerCount {
                    id: server.id,
                    count,
                });
            }
        }
        Ok(())
    }

    fn validate_tables(&self) -> Result<(), MapError> {
        let count = self.virtual_nodes.len();
        if !count.is_power_of_two() || count > VIRTUAL_NODES_MAX {
            return Err(MapError::BadVirtualNodeCount { count });
        }
        if self.cachelets.len() > CACHELETS_MAX {
            return Err(MapError::TooManyCachelets {
                count: self.cachelets.len(),
            });
        }
        for (node, &cachelet) in self.virtual_nodes.iter().enumerate() {
            if usize::from(cachelet.0) >= self.cachelets.len() {
                return Err(MapError::UnknownCachelet {
                    virtual_node: node,
                    cachelet,
                });
            }
        }
        for (cachelet, owner) in self.cachelets.iter().enumerate() {
            let Some(owner) = *owner else { continue };
            if !self.knows(owner) {
                return Err(MapError::UnknownOwner { cachelet, owner });
            }
        }
        let since = &self.since;
        let is_complete = since.is_empty() || since.len() == self.cachelets.len();
        let stay_is_sound = self.stay.len() == since.len()
            && (self.stay.iter().zip(since))
                .all(|(stay, since)| (since..=&self.epoch).contains(&stay));
        if !is_complete || !stay_is_sound || since.iter().any(|since| *since > self.epoch) {
            return Err(MapError::BadSince);
        }
        let mut before = None;
        for &cachelet in &self.quarantined {
            let owner = self.cachelets.get(usize::from(cachelet.0));
            if owner != Some(&None) || before >= Some(cachelet) {
                return Err(MapError::BadQuarantine { cachelet });
            }
            before = Some(cachelet);
        }
        self.validate_migrations()
    }

    fn validate_migrations(&self) -> Result<(), MapError> {
        let count = self.migrations.len();
        if count > MIGRATIONS_MAX {
            return Err(MapError::TooManyMigrations { count });
        }
        let mut before = None;
        for migration in &self.migrations {
            let cachelet = migration.cachelet;
            let owner = self.cachelets.get(usize::from(cachelet.0)).copied();
            let is_sound = owner
                .flatten()
                .is_some_and(|owner| owner.server != migration.to.server)
                && self.knows(migration.to)
                && migration.began <= self.epoch
                && before < Some(cachelet);
            if !is_sound {
                return Err(MapError::BadMigration { cachelet });
            }
            before = Some(cachelet);
        }
        Ok(())
    }

    /// Whether there is such a worker. O(log servers).
    fn knows(&self, worker: WorkerRef) -> bool {
        self.servers
            .binary_search_by_key(&worker.server, |server| server.id)
            .is_ok_and(|i| usize::from(worker.worker) < self.servers[i].worker_ports.len())
    }
}

/// Why a document is no map. Each means that its author is at fault; trying again is no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Epoch 0 means "no map".
    #[error("accept a map: its epoch is 0")]
    EpochZero,
    /// A lease shorter or longer than any may be.
    #[error("accept a map: it promises a lease of no possible length")]
    BadPromise,
    /// More than [`SERVERS_MAX`].
    #[error("accept a map: it has {count} servers, more than {SERVERS_MAX}")]
    TooManyServers {
        /// Servers in the document.
        count: usize,
    },
    /// Ids must rise, so that a lookup can trust the order and no id occurs twice.
    #[error("accept a map: server {id} is out of order or occurs twice")]
    ServersNotAscending {
        /// The first server that does not rise.
        id: ServerId,
    },
    /// A name or rack is empty, longer than [`NAME_LEN_MAX`] or has spaces or control characters.
    #[error("accept a map: server {id} has an unusable name or rack")]
    BadName {
        /// The server.
        id: ServerId,
    },
    /// A host is empty, longer than [`NAME_LEN_MAX`] or has spaces or control characters.
    #[error("accept a map: server {id} has an unusable host")]
    BadHost {
        /// The server.
        id: ServerId,
    },
    /// Two servers have one name.
    #[error("accept a map: two servers are named {name:?}")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// Port 0 cannot be connected to.
    #[error("accept a map: server {id} has port 0")]
    PortZero {
        /// The server.
        id: ServerId,
    },
    /// No worker, or more than [`WORKERS_MAX`].
    #[error("accept a map: server {id} has {count} workers, not 1 to {WORKERS_MAX}")]
    BadWorkerCount {
        /// The server.
        id: ServerId,
        /// Its workers.
        count: usize,
    },
    /// Not a power of two up to [`VIRTUAL_NODES_MAX`].
    #[error("accept a map: {count} virtual nodes are not a power of two up to {VIRTUAL_NODES_MAX}")]
    BadVirtualNodeCount {
        /// Virtual nodes in the document.
        count: usize,
    },
    /// More than [`CACHELETS_MAX`].
    #[error("accept a map: it has {count} cachelets, more than {CACHELETS_MAX}")]
    TooManyCachelets {
        /// Cachelets in the document.
        count: usize,
    },
    /// A virtual node names a cachelet that the document does not have.
    #[error(
        "accept a map: virtual node {virtual_node} is in cachelet {cachelet}, which is unknown"
    )]
    UnknownCachelet {
        /// The virtual node.
        virtual_node: usize,
        /// The cachelet it names.
        cachelet: CacheletId,
    },
    /// A cachelet names a worker that the document does not have.
    #[error("accept a map: cachelet {cachelet} is owned by worker {owner}, which is unknown")]
    UnknownOwner {
        /// The cachelet.
        cachelet: usize,
        /// The worker it names.
        owner: WorkerRef,
    },
    /// Neither empty nor one for each cachelet, or one of the future.
    #[error("accept a map: it does not say of each cachelet since when it has gone on")]
    BadSince,
    /// One that somebody owns, that is unknown or that occurs twice.
    #[error("accept a map: cachelet {cachelet} cannot be quarantined")]
    BadQuarantine {
        /// The cachelet.
        cachelet: CacheletId,
    },
    /// More than [`MIGRATIONS_MAX`].
    #[error("accept a map: it has {count} migrations, more than {MIGRATIONS_MAX}")]
    TooManyMigrations {
        /// Migrations in the document.
        count: usize,
    },
    /// Its cachelet is unknown, owned by nobody or by the server that it goes to, or occurs twice; or it goes to
    /// an unknown worker or began in the future.
    #[error("accept a map: the migration of cachelet {cachelet} is not possible")]
    BadMigration {
        /// The cachelet.
        cachelet: CacheletId,
    },
}

/// Where a key lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The piece of the hash space that the key falls into.
    pub virtual_node: VirtualNode,
    /// The cachelet of that piece.
    pub cachelet: CacheletId,
    /// The worker that owns the cachelet: the key's home. `None` while nobody owns it.
    pub worker: Option<WorkerRef>,
}

/// A sound cluster map. Immutable; share it by `Arc`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "MapDocument", into = "MapDocument")]
pub struct ClusterMap {
    document: MapDocument,
    /// A hash shifted right by this many bits is a virtual node. 64 when there is but one.
    shift: u32,
    /// Positions in `document.servers` of the servers that are up, in ascending order of id.
    up: Vec<u16>,
}

impl ClusterMap {
    /// Checks a document and builds the tables that lookups use. O(size of the document).
    ///
    /// # Errors
    ///
    /// See [`MapDocument::validate`].
    pub fn new(document: MapDocument) -> Result<Self, MapError> {
        document.validate()?;
        let shift = u64::BITS - document.virtual_nodes.len().ilog2();
        // SERVERS_MAX positions fit u16.
        let up = (0u16..)
            .zip(&document.servers)
            .filter(|(_, s)| s.up)
            .map(|(i, _)| i)
            .collect();
        Ok(ClusterMap {
            document,
            shift,
            up,
        })
    }

    /// Version of this map.
    #[inline]
    pub fn epoch(&self) -> Epoch {
        self.document.epoch
    }

    /// Every known server, in ascending order of id, those that are down included.
    #[inline]
    pub fn servers(&self) -> &[ServerEntry] {
        &self.document.servers
    }

    /// The servers that are up, in ascending order of id.
    pub fn servers_up(&self) -> impl ExactSizeIterator<Item = &ServerEntry> {
        self.up
            .iter()
            .map(|&i| &self.document.servers[usize::from(i)])
    }

    /// How many servers are up. O(1).
    #[inline]
    pub fn servers_up_count(&self) -> usize {
        self.up.len()
    }

    /// The server of that id. O(log servers).
    pub fn server(&self, id: ServerId) -> Option<&ServerEntry> {
        let i = self
            .document
            .servers
            .binary_search_by_key(&id, |server| server.id)
            .ok()?;
        Some(&self.document.servers[i])
    }

    /// Whether that server is known and up. O(log servers).
    pub fn is_up(&self, id: ServerId) -> bool {
        self.server(id).is_some_and(|server| server.up)
    }

    /// The servers besides this one that replicas may be put at. O(servers).
    pub fn replica_hosts_besides(&self, home: ServerId) -> impl Iterator<Item = &ServerEntry> {
        let others = self.servers_up().filter(move |server| server.id != home);
        others.filter(|server| server.takes_replicas())
    }

    /// How many workers they have. O(servers).
    pub fn replica_workers_besides(&self, home: ServerId) -> usize {
        let hosts = self.replica_hosts_besides(home);
        hosts.map(|server| usize::from(server.workers())).sum()
    }

    /// Where aware clients and other servers reach that worker. O(log servers).
    pub fn address(&self, worker: WorkerRef) -> Option<(&str, u16)> {
        let server = self.server(worker.server)?;
        let port = *server.worker_ports.get(usize::from(worker.worker))?;
        Some((&server.host, port))
    }

    /// Where a key lives. O(1): a shift and two table lookups.
    #[inline]
    pub fn locate(&self, hash: KeyHash) -> Place {
        // A shift by all 64 bits leaves 0: the only virtual node.
        let node = hash.0.checked_shr(self.shift).unwrap_or(0);
        let cachelet = self.document.virtual_nodes[node as usize];
        let worker = self.document.cachelets[usize::from(cachelet.0)];
        Place {
            virtual_node: VirtualNode(node as u16),
            cachelet,
            worker,
        }
    }

    /// Owner of that cachelet; `None` when the map does not have it or nobody owns it.
    #[inline]
    pub fn owner(&self, cachelet: CacheletId) -> Option<WorkerRef> {
        *self.document.cachelets.get(usize::from(cachelet.0))?
    }

    /// The migration that a cachelet is in. O(log migrations).
    pub fn migration(&self, cachelet: CacheletId) -> Option<&Migration> {
        let migrations = &self.document.migrations;
        let at = migrations.binary_search_by_key(&cachelet, |migration| migration.cachelet);
        at.ok().map(|at| &migrations[at])
    }

    /// Whether nobody is to own that cachelet: see [`MapDocument::quarantined`]. O(log quarantined).
    pub fn is_quarantined(&self, cachelet: CacheletId) -> bool {
        self.document.quarantined.binary_search(&cachelet).is_ok()
    }

    /// The cachelets that a worker owns, in ascending order. O(cachelets).
    pub fn cachelets_of(&self, worker: WorkerRef) -> impl Iterator<Item = CacheletId> {
        // CACHELETS_MAX positions fit u16.
        (0u16..=u16::MAX)
            .zip(&self.document.cachelets)
            .filter(move |(_, owner)| **owner == Some(worker))
            .map(|(cachelet, _)| CacheletId(cachelet))
    }

    /// What readers of replicated keys are promised, if that was chosen.
    #[inline]
    pub fn promise(&self) -> Option<Promise> {
        self.document.promise
    }

    /// The map as it travels.
    pub fn document(&self) -> &MapDocument {
        &self.document
    }
}

impl TryFrom<MapDocument> for ClusterMap {
    type Error = MapError;

    fn try_from(document: MapDocument) -> Result<Self, MapError> {
        ClusterMap::new(document)
    }
}

impl From<ClusterMap> for MapDocument {
    fn from(map: ClusterMap) -> MapDocument {
        map.document
    }
}

/// Names and hosts end up in logs, statistics and addresses: visible characters, no spaces.
fn is_name(name: &str) -> bool {
    let len_ok = !name.is_empty() && name.len() <= NAME_LEN_MAX;
    len_ok && !name.chars().any(|c| c.is_control() || c.is_whitespace())
}

const _: () = assert!(VIRTUAL_NODES.is_power_of_two() && VIRTUAL_NODES <= VIRTUAL_NODES_MAX);
const _: () = assert!(SERVERS_MAX <= 1 << 16 && WORKERS_MAX <= 1 << 16);

#[cfg(test)]
mod tests;
