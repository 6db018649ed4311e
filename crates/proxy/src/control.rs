//! What the rest of the process says to a proxy worker, and what a worker lets the rest see.

use evenkeel_policy::placement::map::ClusterMap;
use evenkeel_roles::proxy::{BackendId, BackendStats, ProxyStats};
use evenkeel_types::Epoch;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A word to a worker.
#[derive(Clone, Debug)]
pub enum Control {
    /// The coordinator's map.
    Map(Arc<ClusterMap>),
    /// Where a server is, or that its name has no address.
    Resolved(BackendId, Option<SocketAddr>),
    /// Another worker answers `stats` and wants this one's counts.
    CountsWanted {
        /// The worker that asks.
        by: usize,
        /// Its question.
        question: u64,
    },
    /// The counts that this worker asked for.
    Counts {
        /// The question.
        question: u64,
        /// What another worker has counted.
        stats: Box<ProxyStats>,
        /// Its connections to servers.
        backends: Vec<BackendStats>,
    },
    /// `stats reset`.
    ResetStats,
    /// Finish.
    Stop,
}

/// What a worker lets others read without asking it. One cache line, written once a turn at most.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Gauges {
    /// Epoch of the map that the worker works by.
    epoch: AtomicU64,
    /// Requests since the start.
    requests: AtomicU64,
}

impl Gauges {
    /// The worker works by the map of this epoch.
    pub fn set_epoch(&self, epoch: Epoch) {
        self.epoch.store(epoch.0, Ordering::Release);
    }

    /// Epoch of the map that the worker works by.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Acquire))
    }

    /// The worker has been asked so much since its start.
    pub fn set_requests(&self, requests: u64) {
        self.requests.store(requests, Ordering::Relaxed);
    }

    /// Requests since the start.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

/// How to reach a worker.
pub type WorkerHandle = evenkeel_runtime::WorkerHandle<Control, Gauges>;
