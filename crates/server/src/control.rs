//! What the rest of the process says to a worker, and what a worker lets the rest see.

use evenkeel_balance::cachelet_load::WorkerLoad;
use evenkeel_control::MigrationReport;
use evenkeel_control::hot_keys::{ReplicaView, WorkerHotKeys};
use evenkeel_hotkeys::settings::Settings;
use evenkeel_server_core::{ClassStats, Counters, Credentials, LinkId, ProcessFacts, ServingLease};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, Epoch, ServerId};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// A word to a worker.
#[derive(Clone, Debug)]
pub enum Control {
    /// The coordinator's map, and which server this is in it.
    Map(Arc<ClusterMap>, ServerId),
    /// The server may serve what it owns.
    Lease(ServingLease),
    /// Mean load of the cluster's workers, in requests per second.
    ClusterLoad(f64),
    /// What the operator of the cluster has chosen.
    Settings(Settings),
    /// What `stats` should say of the process.
    Facts(Box<ProcessFacts>),
    /// Who may come in from now on.
    Credentials(Arc<Credentials>),
    /// Say what was counted so far, and what is held by size.
    Count(Sender<(Counters, ClassStats)>),
    /// Say what is known of hot keys: of all tracked keys, or only of those that have replicas or would
    /// have them.
    DescribeHotKeys {
        /// Leave the others out.
        only_spread: bool,
        /// Who asks.
        to: Sender<WorkerHotKeys>,
    },
    /// Say how loaded the worker and its cachelets are.
    DescribeCachelets(Sender<WorkerLoad>),
    /// Say how far migrations to and from other servers have come.
    DescribeMigrations(Sender<Vec<MigrationReport>>),
    /// Give a cachelet to another worker, as soon as that is possible.
    Give {
        /// Which.
        cachelet: CacheletId,
        /// To whom.
        to: u16,
    },
    /// Where the worker at the other end of a link listens, or that its name has no address.
    Resolved(LinkId, Option<SocketAddr>),
    /// The certificates were read again as this worker wished, or why not.
    Refreshed(Result<(), String>),
    /// Sample less for hot keys, in parts of what is sampled normally.
    Sampling(f64),
    /// Say which replicas are held for others.
    DescribeReplicas(Sender<Vec<ReplicaView>>),
    /// Finish, with the answers that are ready.
    Stop,
    /// Finish what clients have asked, and end each connection once it is idle.
    Drain,
}

/// What a worker lets others read without asking it. One cache line, written once a turn at most.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Gauges {
    /// Bits of the undiverted load, in requests per second.
    load: AtomicU64,
    /// Bits of the part of the machine's network that is used.
    network: AtomicU64,
    /// Epoch of the map that the worker works by.
    epoch: AtomicU64,
    /// Whether there is anything to tell of hot keys.
    hot_keys: AtomicBool,
    /// Whether it takes part in migrations.
    migrations: AtomicBool,
    /// Whether it has refused keys of other servers.
    refuses_keys: AtomicBool,
}

impl Gauges {
    /// The worker says how loaded it is.
    pub fn set_load(&self, requests_per_second: f64) {
        self.load
            .store(requests_per_second.to_bits(), Ordering::Relaxed);
    }

    /// Undiverted load, in requests per second.
    pub fn load(&self) -> f64 {
        f64::from_bits(self.load.load(Ordering::Relaxed))
    }

    /// Says how much of what the machine's network can carry it carries, from 0 to 1.
    pub fn set_network(&self, utilization: f64) {
        self.network.store(utilization.to_bits(), Ordering::Relaxed);
    }

    /// Part of what the machine's network can carry that it carries.
    pub fn network(&self) -> f64 {
        f64::from_bits(self.network.load(Ordering::Relaxed))
    }

    /// The worker says whether there is anything to tell of hot keys.
    pub fn set_has_hot_keys(&self, has: bool) {
        self.hot_keys.store(has, Ordering::Relaxed);
    }

    /// Whether there is anything to tell of hot keys.
    pub fn has_hot_keys(&self) -> bool {
        self.hot_keys.load(Ordering::Relaxed)
    }

    /// The worker says whether it takes part in migrations.
    pub fn set_has_migrations(&self, has: bool) {
        self.migrations.store(has, Ordering::Relaxed);
    }

    /// Whether it takes part in migrations.
    pub fn has_migrations(&self) -> bool {
        self.migrations.load(Ordering::Relaxed)
    }

    /// The worker says whether it has refused keys of other servers to clients without a map.
    pub fn set_refuses_keys(&self, refuses: bool) {
        self.refuses_keys.store(refuses, Ordering::Relaxed);
    }

    /// Whether it has refused keys of other servers to clients without a map.
    pub fn refuses_keys(&self) -> bool {
        self.refuses_keys.load(Ordering::Relaxed)
    }

    /// The worker has let go of everything that this map does not give it.
    pub fn set_epoch(&self, epoch: Epoch) {
        self.epoch.store(epoch.0, Ordering::Release);
    }

    /// Epoch of the map that the worker works by.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Acquire))
    }
}

/// How to reach a worker.
pub type WorkerHandle = evenkeel_runtime::WorkerHandle<Control, Gauges>;

/// What workers say to a question within this time together, in any order. Who is busy for longer is not
/// waited for.
pub fn ask<T>(
    workers: &[&WorkerHandle],
    within: Duration,
    question: impl Fn(Sender<T>) -> Control,
) -> Vec<T> {
    let (sender, receiver) = channel();
    for worker in workers {
        worker.say(question(sender.clone()));
    }
    let until = Instant::now() + within;
    let answers = workers.iter().map_while(|_| {
        let left = until.saturating_duration_since(Instant::now());
        receiver.recv_timeout(left).ok()
    });
    answers.collect()
}
