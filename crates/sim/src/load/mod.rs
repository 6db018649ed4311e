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

mod cache;
mod cluster;
pub mod fast;
mod report;
pub mod service;
pub mod whole;

pub use report::{LoadReport, Tally};
pub use service::ServiceModel;

use crate::history::Nanos;
use core::time::Duration;
use evenkeel_policy::hot_keys::config::{HotKeysConfig, Mode};
use evenkeel_workload::Popularity;

/// Most workers of a plan: a map has at most so many servers' worth of cachelets.
pub const WORKERS_MAX: usize = 10_000;

/// Most keys: both fidelities keep some bytes for each.
pub const KEYS_MAX: u64 = 50_000_000;

/// Length of every key, in bytes.
pub const KEY_LEN: usize = 16;

/// When applications ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// At this many requests a second in all, at random times (Poisson), whatever is answered.
    Open {
        /// Requests a second of all applications.
        rate: f64,
    },
    /// Each application sends so many requests at once, and the next when all are answered.
    Closed {
        /// Requests at once.
        pipeline: usize,
    },
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// Servers.
    pub servers: usize,
    /// Workers of each.
    pub workers_per_server: u16,
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
    /// Part of requests that are gets; the others are sets.
    pub get_share: f64,
    /// Bytes of every value.
    pub value_bytes: usize,
    /// Whether applications set what they miss.
    pub fill: bool,
    /// Memory of each server, in bytes.
    pub memory_bytes: usize,
    /// Hot keys.
    pub hot_keys: HotKeysConfig,
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
            cachelets_per_worker: 16,
            proxies: 4,
            clients: 64,
            keys: 100_000,
            popularity: Popularity::Zipf { exponent: 0.99 },
            get_share: 0.95,
            value_bytes: 100,
            fill: true,
            memory_bytes: 64 << 20,
            hot_keys: HotKeysConfig {
                mode: Mode::Off,
                ..HotKeysConfig::default()
            },
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
        if !(0.0..=1.0).contains(&self.get_share) {
            return Err(format!("get share: {} is no share", self.get_share));
        }
        match self.arrivals {
            Arrivals::Open { rate } if !(rate > 0.0 && rate <= 1e10) => {
                return Err(format!("rate: {rate} is not within 0 and 10^10 a second"));
            }
            Arrivals::Closed { pipeline } => within("pipeline", pipeline as u64, 1, 1000)?,
            Arrivals::Open { .. } => {}
        }
        self.hot_keys.validate().map_err(|error| error.to_string())
    }
}

/// The name of a key: 16 hexadecimal digits.
pub(crate) fn key_name(key: u64) -> [u8; KEY_LEN] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    core::array::from_fn(|i| DIGITS[(key >> (4 * (KEY_LEN - 1 - i))) as usize & 15])
}

/// The key of such a name.
pub(crate) fn key_of(name: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(name).ok()?;
    u64::from_str_radix(text, 16).ok()
}
