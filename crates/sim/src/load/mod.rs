//! Load and latency: the same plan in two fidelities.
//!
//! - [`whole`]: the cores that ship, byte by byte, with proxies, leases, links and storage; for up to
//!   hundreds of servers.
//! - [`fast`]: no bytes and no storage, but the same map, the same hot-key decisions of servers and
//!   clients, and the same queues; for up to ten thousand workers.
//!
//! Both let servers take time by the same [`ServiceModel`]; proxies and applications take none, and
//! the network a fixed time. What they must agree on (each worker's share of the load, the hit ratio,
//! latency while queues are short) is a test.

mod balancing;
mod choice;
mod cluster;
pub mod fast;
mod keys;
mod names;
mod report;
pub mod service;
pub mod whole;

pub use balancing::BalancingCounts;
pub use choice::ReadChoice;
pub use fast::{Moment, Part, PartReport};
pub use report::{LatencyUs, LoadReport};
pub use service::ServiceModel;

use crate::history::Nanos;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use evenkeel_coordinator_core::plans::{PlanMode, PlanSettings};
use evenkeel_hotkeys::config::{HotKeysConfig, Mode};
use evenkeel_placement::config::Distribution;
use evenkeel_server_core::STANDALONE_CACHELETS_PER_WORKER;
use evenkeel_workload::{Mix, Popularity, RATE_MAX, Rate, ReadOnly, Workload, WorkloadSpec};

/// Most workers of a plan: a map has at most this many servers' worth of cachelets.
pub const WORKERS_MAX: usize = 10_000;

/// Most keys: both fidelities keep some bytes for each.
pub const KEYS_MAX: u64 = 50_000_000;

/// Length of every key, in bytes.
pub const KEY_LEN: usize = 16;

/// Which generator of a plan's seed chooses the applications that ask; requests have streams of
/// their own.
const CLIENT_STREAM: u64 = 1 << 48;

/// How keys get to servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyPlacement {
    /// By a map that is even, as a coordinator's first one is: the same part of the hash space for
    /// each worker.
    #[default]
    Map,
    /// As clients of plain memcached servers place them. Such servers have one worker each, know of
    /// no map, and replicate nothing.
    Plain(Distribution),
}

impl FromStr for KeyPlacement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "map" => Ok(KeyPlacement::Map),
            _ => match text.parse() {
                Ok(distribution) => Ok(KeyPlacement::Plain(distribution)),
                Err(error) => Err(format!("{error}, nor map")),
            },
        }
    }
}

impl fmt::Display for KeyPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyPlacement::Map => f.write_str("map"),
            KeyPlacement::Plain(distribution) => distribution.fmt(f),
        }
    }
}

/// When applications ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// At this many requests a second in all, at random times (Poisson), whatever is answered.
    Open {
        /// Requests a second of all applications.
        rate: f64,
    },
    /// Each application sends this many requests at once, and the next when all are answered.
    Closed {
        /// Requests at once.
        pipeline: usize,
    },
}

/// Who moves cachelets, in the fast mode alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balancing {
    /// Overloaded workers lend cachelets to others of their server (phase 2 of MBal).
    pub lends: bool,
    /// What the coordinator is told of plans (phase 3): cachelets move to other servers if the mode is `automatic`.
    pub plans: PlanSettings,
}

impl Default for Balancing {
    /// Nobody: loads are told, and nothing moves.
    fn default() -> Self {
        Balancing {
            lends: false,
            plans: PlanSettings {
                mode: PlanMode::Observe,
                ..PlanSettings::default()
            },
        }
    }
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Decides everything that is left to chance, and the names of the keys: with another seed they
    /// have other homes.
    pub seed: u64,
    /// Servers.
    pub servers: usize,
    /// Workers of each.
    pub workers_per_server: u16,
    /// How keys get to them.
    pub placement: KeyPlacement,
    /// Cachelets of each worker.
    pub cachelets_per_worker: usize,
    /// Proxies.
    pub proxies: usize,
    /// Application connections of all proxies.
    pub clients: usize,
    /// Keys.
    pub keys: u64,
    /// How requests fall on them.
    pub popularity: Popularity,
    /// Other keys become the hot ones each time this much virtual time has passed, in nanoseconds;
    /// `None` never.
    pub reshuffle: Option<Nanos>,
    /// Part of requests that are gets; the others are sets.
    pub get_share: f64,
    /// Keys that are read where others would be written.
    pub read_only: Option<ReadOnly>,
    /// Bytes of every value.
    pub value_bytes: usize,
    /// Whether every key is set once before the load begins, in time that does not count.
    pub prefill: bool,
    /// Whether applications set what they miss.
    pub fill: bool,
    /// Memory of each server, in bytes.
    pub memory_bytes: usize,
    /// Hot keys.
    pub hot_keys: HotKeysConfig,
    /// Which copy of a hot key is read.
    pub reads: ReadChoice,
    /// Who moves cachelets; `None` where nobody does and no loads are told.
    pub balancing: Option<Balancing>,
    /// When applications ask.
    pub arrivals: Arrivals,
    /// One way between a proxy and a server, in nanoseconds.
    pub network: Nanos,
    /// One way between an application and its proxy, in nanoseconds.
    pub local: Nanos,
    /// What a server's worker takes.
    pub service: ServiceModel,
    /// Virtual time that is not measured at the start, in nanoseconds.
    pub warm_up: Nanos,
    /// Virtual time that is measured, in nanoseconds.
    pub length: Nanos,
}

impl Default for LoadPlan {
    fn default() -> Self {
        LoadPlan {
            seed: 1,
            servers: 4,
            workers_per_server: 1,
            placement: KeyPlacement::Map,
            cachelets_per_worker: 16,
            proxies: 4,
            clients: 64,
            keys: 100_000,
            popularity: Popularity::Zipf { exponent: 0.99 },
            reshuffle: None,
            get_share: 0.95,
            read_only: None,
            value_bytes: 100,
            prefill: false,
            fill: true,
            memory_bytes: 64 << 20,
            hot_keys: HotKeysConfig {
                mode: Mode::Off,
                ..HotKeysConfig::default()
            },
            reads: ReadChoice::default(),
            balancing: None,
            arrivals: Arrivals::Open { rate: 10_000.0 },
            network: 50_000,
            local: 10_000,
            service: ServiceModel::default(),
            warm_up: Duration::from_secs(2).as_nanos() as Nanos,
            length: Duration::from_secs(5).as_nanos() as Nanos,
        }
    }
}

impl LoadPlan {
    /// Workers of all servers.
    pub fn workers(&self) -> usize {
        self.servers * usize::from(self.workers_per_server)
    }

    /// What the names of all keys begin with: a workload with this prefix, keys of [`KEY_LEN`] bytes and the
    /// same seed, popularity and number of keys asks real servers for the same keys equally often.
    pub fn key_prefix(&self) -> String {
        names::KeyNames::of_seed(self.seed).prefix().to_owned()
    }

    /// The server of a worker.
    fn server_of(&self, worker: u16) -> usize {
        usize::from(worker / self.workers_per_server)
    }

    /// Cachelets of all workers of a server.
    fn cachelets_per_server(&self) -> usize {
        let of_worker = match self.placement {
            KeyPlacement::Map => self.cachelets_per_worker,
            KeyPlacement::Plain(_) => usize::from(STANDALONE_CACHELETS_PER_WORKER),
        };
        of_worker * usize::from(self.workers_per_server)
    }

    /// Checks that both fidelities can run it.
    ///
    /// # Errors
    /// The first setting that is out of bounds, in words for its author.
    pub fn validate(&self) -> Result<(), String> {
        let within = |name: &str, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(format!("{name}: {value} is not within {least} and {most}"))
            }
        };
        within("servers", self.servers as u64, 1, WORKERS_MAX as u64)?;
        within("workers", self.workers() as u64, 1, WORKERS_MAX as u64)?;
        within("proxies", self.proxies as u64, 1, 10_000)?;
        within(
            "clients",
            self.clients as u64,
            self.proxies as u64,
            1_000_000,
        )?;
        within("keys", self.keys, 1, KEYS_MAX)?;
        within("value bytes", self.value_bytes as u64, 1, 1 << 19)?;
        within("memory", self.memory_bytes as u64, 1 << 20, 1 << 40)?;
        match self.arrivals {
            // Schedules count nanoseconds.
            Arrivals::Open { rate } if !(rate > 0.0 && rate <= RATE_MAX) => {
                return Err(format!("rate: {rate} is not within 0 and {RATE_MAX}"));
            }
            Arrivals::Closed { pipeline } => within("pipeline", pipeline as u64, 1, 1000)?,
            Arrivals::Open { .. } => {}
        }
        if let KeyPlacement::Plain(distribution) = self.placement {
            if self.workers_per_server != 1 {
                return Err(format!(
                    "servers placed by {distribution} have one worker each"
                ));
            }
            if self.hot_keys.mode == Mode::On {
                return Err(format!(
                    "servers placed by {distribution} replicate no hot keys"
                ));
            }
            if self.balancing.is_some() {
                return Err(format!(
                    "servers placed by {distribution} have no cachelets to move"
                ));
            }
        }
        if let Some(balancing) = &self.balancing {
            (balancing.plans.validate()).map_err(|error| error.to_string())?;
        }
        self.hot_keys.validate().map_err(|error| error.to_string())
    }

    /// The requests, as laws.
    ///
    /// # Errors
    /// When they contradict each other.
    fn workload(&self) -> Result<Workload, String> {
        let arrivals = match self.arrivals {
            Arrivals::Open { rate } => evenkeel_workload::Arrivals::Poisson(Rate::Constant(rate)),
            Arrivals::Closed { .. } => evenkeel_workload::Arrivals::Closed,
        };
        let build = || {
            WorkloadSpec {
                keys: Some(self.keys),
                popularity: self.popularity,
                reshuffle_ns: self.reshuffle,
                mix: Mix::gets(self.get_share)?,
                read_only: self.read_only,
                arrivals,
                seed: self.seed,
                ..WorkloadSpec::default()
            }
            .build()
        };
        build().map_err(|error| format!("failed to build the workload: {error}"))
    }
}
