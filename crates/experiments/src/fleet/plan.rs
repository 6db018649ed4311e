//! What a fleet consists of: plain data.

use evenkeel_coordinator_core::Mode as HotKeysMode;
use evenkeel_coordinator_core::plans::PlanMode;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;

/// What makes a server small.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Smallness {
    /// Nothing: it is as fast as the machine.
    Not,
    /// It sleeps this long for each key, one after the other: a server that needs this time and takes nearly no
    /// processor time, so that dozens are busy on a few cores.
    Clock {
        /// Nanoseconds for each key.
        nanos_per_key: u64,
    },
}

impl Smallness {
    /// Servers of about this many keys a second.
    pub fn of_capacity(keys_per_second: u64) -> Smallness {
        Smallness::Clock {
            nanos_per_key: 1_000_000_000 / keys_per_second.max(1),
        }
    }

    /// Servers that take twice as long for each key.
    pub(super) fn twice(self) -> Smallness {
        match self {
            Smallness::Not => Smallness::Not,
            Smallness::Clock { nanos_per_key } => Smallness::Clock {
                nanos_per_key: 2 * nanos_per_key,
            },
        }
    }
}

impl fmt::Display for Smallness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Smallness::Not => f.write_str("at full speed"),
            Smallness::Clock { nanos_per_key } => {
                write!(f, "that sleep {} µs for each key", nanos_per_key / 1000)
            }
        }
    }
}

/// How keys get to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Pool {
    /// By the coordinator's map of cachelets.
    Cluster {
        /// Whether hot keys are replicated from the start.
        hot_keys: HotKeysMode,
        /// What becomes of plans to move cachelets between servers.
        plans: PlanMode,
    },
    /// By a placement of the proxies' own, as before plain memcacheds.
    Plain {
        /// Its name in the proxy's configuration.
        distribution: &'static str,
    },
    /// The same as proxies place keys unless told otherwise, and replicate those that are hot.
    PlainHotKeys,
}

/// What a fleet consists of.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetPlan {
    /// Servers.
    pub servers: usize,
    /// Workers of each.
    pub workers: u16,
    /// What makes them small.
    pub smallness: Smallness,
    /// This many of them, the first, are half as fast as the others.
    pub slow_servers: usize,
    /// Memory of each, in megabytes.
    pub memory_mb: usize,
    /// Proxies before them, of one worker each.
    pub proxies: usize,
    /// How keys get to servers.
    pub pool: Pool,
    /// Settings of the cluster by name, besides whether hot keys are replicated: an object.
    pub settings: Value,
    /// Further flags of each server.
    pub server_flags: Vec<String>,
    /// Further flags of the coordinator, where there is one.
    pub coordinator_flags: Vec<String>,
    /// Further flags of each proxy.
    pub proxy_flags: Vec<String>,
    /// Connections that each proxy must have room for.
    pub connections: usize,
    /// Whether each server reaches the coordinator by a relay of its own, which can be held up.
    pub relays: bool,
}

impl Default for FleetPlan {
    /// One server at full speed with one worker, in a cluster in which nothing is evened out, and one proxy.
    fn default() -> Self {
        FleetPlan {
            servers: 1,
            workers: 1,
            smallness: Smallness::Not,
            slow_servers: 0,
            memory_mb: 64,
            proxies: 1,
            pool: Pool::Cluster {
                hot_keys: HotKeysMode::Off,
                plans: PlanMode::Observe,
            },
            settings: json!({}),
            server_flags: Vec::new(),
            coordinator_flags: Vec::new(),
            // What servers have to do is compared with what clients ask: no gets are answered with identical ones.
            proxy_flags: vec!["--no-collapse".into()],
            connections: 1024,
            relays: false,
        }
    }
}
