//! What the coordinator knows of a cluster when it plans.

use core::fmt;

use evenkeel_types::{CacheletId, ServerId};
use serde::{Deserialize, Serialize};

use crate::is_load;

/// Largest cachelet that is believed, in bytes: a tebibyte. Sums of them never overflow.
pub const CACHELET_BYTES_MAX: u64 = 1 << 40;

/// A cachelet in a plan. Wider than a [`CacheletId`]: planning is to be quick for more cachelets than the maps of
/// today can have.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct CacheletNumber(pub u32);

impl fmt::Display for CacheletNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<CacheletId> for CacheletNumber {
    fn from(id: CacheletId) -> Self {
        CacheletNumber(u32::from(id.0))
    }
}

/// A cachelet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheletReport {
    /// Its number in the map.
    pub cachelet: CacheletNumber,
    /// Its load.
    pub load: f64,
    /// What its items take, in bytes.
    pub memory_bytes: u64,
    /// Whether it may move: not while it is being moved or lent, nor just after, when nobody knows yet what that
    /// brought.
    pub may_move: bool,
}

/// A worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerReport {
    /// Its load. Where its cachelets have more together, their sum counts.
    pub load: f64,
    /// Part of its time that it has something to do.
    pub busy: f64,
    /// Whether some of its keys have replicas, which what moves loses.
    pub replicates: bool,
    /// What it owns.
    pub cachelets: Vec<CacheletReport>,
}

/// A server that is up.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerReport {
    /// Its number in the map.
    pub server: ServerId,
    /// Whether it may get something. Not while it is to be emptied.
    pub accepts: bool,
    /// What all of its items may take, in bytes.
    pub memory_max_bytes: u64,
    /// Its workers, by their index.
    pub workers: Vec<WorkerReport>,
}

impl ServerReport {
    /// What its cachelets take, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let cachelets = self.workers.iter().flat_map(|worker| &worker.cachelets);
        cachelets.map(|c| c.memory_bytes).sum()
    }
}

/// The servers of a cluster that are up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterReport {
    /// In ascending order of their numbers.
    pub servers: Vec<ServerReport>,
}

/// Reports that contradict themselves.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum BadReport {
    /// A load, or a part of time, that is not a number from 0 on.
    #[error("server {server} reports a load of {load}")]
    Load {
        /// Of whom.
        server: ServerId,
        /// What.
        load: f64,
    },
    /// A cachelet of more bytes than any machine has.
    #[error("cachelet {cachelet} is reported to have {bytes} bytes")]
    Memory {
        /// Which.
        cachelet: CacheletNumber,
        /// How many.
        bytes: u64,
    },
    /// Servers are not in ascending order, or one is listed twice.
    #[error("server {0} is not in ascending order")]
    ServersNotAscending(ServerId),
    /// A cachelet has two owners.
    #[error("cachelet {0} has two owners")]
    Twice(CacheletNumber),
}

impl ClusterReport {
    /// Checks that loads are loads and that nothing is listed twice. O(c log c).
    ///
    /// # Errors
    ///
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), BadReport> {
        for pair in self.servers.windows(2) {
            if pair[0].server >= pair[1].server {
                return Err(BadReport::ServersNotAscending(pair[1].server));
            }
        }
        let mut numbers = Vec::new();
        for server in &self.servers {
            for worker in &server.workers {
                let loads = worker.cachelets.iter().map(|c| c.load);
                let mut all = loads.chain([worker.load, worker.busy]);
                if let Some(load) = all.find(|&load| !is_load(load)) {
                    let server = server.server;
                    return Err(BadReport::Load { server, load });
                }
                let too_large = |c: &&CacheletReport| c.memory_bytes > CACHELET_BYTES_MAX;
                if let Some(c) = worker.cachelets.iter().find(too_large) {
                    return Err(BadReport::Memory {
                        cachelet: c.cachelet,
                        bytes: c.memory_bytes,
                    });
                }
                numbers.extend(worker.cachelets.iter().map(|c| c.cachelet));
            }
        }
        numbers.sort_unstable();
        match numbers.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(BadReport::Twice(pair[0])),
            None => Ok(()),
        }
    }
}
