//! What one worker has counted, and what the driver knows of the whole process when statistics are asked for.

use crate::stats::counters::{BackendCounters, ProxyStats};
use crate::stats::hot_keys::HotKeyReport;
use crate::stats::latency::Latency;
use crate::stats::route_stats::{RouteStats, add_route};
use evenkeel_hotkeys::ages::Ages;
use evenkeel_placement::membership::{Counts, Standing};
use std::sync::Arc;

/// One backend connection as statistics show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendStats {
    /// Its name in error messages, with the worker's number in an Evenkeel pool.
    pub name: String,
    /// Its pool.
    pub pool: String,
    /// Where it is.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// `idle`, `connecting`, `up` or `down`.
    pub state: &'static str,
    /// Requests queued or awaited.
    pub queued_requests: u64,
    /// Bytes of them.
    pub queued_bytes: u64,
    /// Counts since the start.
    pub counters: BackendCounters,
    /// How long its requests took.
    pub latency: Latency,
    /// Shortest round trip to it that the kernel has measured on this connection, in microseconds.
    pub round_trip_us: Option<u64>,
    /// Most requests that may be under way to it, if it makes them wait.
    pub window: Option<u64>,
}

/// The search for a pool's servers as statistics show it.
#[derive(Clone, Debug)]
pub struct DiscoveryStats {
    /// The pool.
    pub pool: Arc<str>,
    /// Who is asked.
    pub source: String,
    /// Where the pool stands with its list.
    pub standing: Standing,
    /// Answers so far.
    pub counts: Counts,
    /// Why the last answer was of no use; empty if it was of use.
    pub trouble: String,
    /// Seconds since an answer was the list in force; `None` before there was one.
    pub confirmed_age_s: Option<u64>,
    /// Seconds since the list in force was taken.
    pub age_s: Option<u64>,
}

/// What the driver knows of the whole process when `stats` is asked.
#[derive(Clone, Debug, Default)]
pub struct ProcessStats {
    /// Process id.
    pub pid: u32,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Wall-clock time in seconds since 1970.
    pub time: u64,
    /// Worker threads.
    pub threads: u64,
    /// Most connections of applications at a time.
    pub max_connections: u64,
    /// Connections of applications open now.
    pub curr_connections: u64,
    /// Connections of applications since the start.
    pub total_connections: u64,
    /// Connections refused since the start.
    pub rejected_connections: u64,
    /// Bytes that applications' connections hold: sent in part, or not read.
    pub buffer_bytes: u64,
    /// Most of them (`--buffer-memory`).
    pub buffer_bytes_max: u64,
    /// Configurations taken over since the start, without the first.
    pub reloads: u64,
    /// Configurations refused since the start.
    pub reload_failures: u64,
    /// Why the newest configuration was refused; empty when it is in force.
    pub config_refusal: String,
    /// Requests written to the log.
    pub request_log_written: u64,
    /// Requests that were to be logged and were not: the file was too slow, or took no more.
    pub request_log_dropped: u64,
    /// Turns of workers that took 50 ms or longer.
    pub turns_slow: u64,
    /// Turns that took so long because the machine did not run the worker.
    pub turns_starved: u64,
    /// Questions to the name service for the address of a server.
    pub names_asked: u64,
    /// Those that brought no address.
    pub names_failed: u64,
    /// Number of the configuration in force.
    pub config_generation: u64,
    /// Fingerprint of its file; empty without one.
    pub config_digest: String,
    /// How old leases were when replicas were asked under them.
    pub replica_lease_ages: Ages,
    /// The pools whose servers are looked for.
    pub discoveries: Vec<DiscoveryStats>,
    /// The sum over all workers.
    pub totals: ProxyStats,
    /// The backend connections of all workers.
    pub backends: Vec<BackendStats>,
    /// The pools of the configuration.
    pub pools: Vec<PoolStats>,
    /// What all workers have counted of the routes.
    pub routes: Vec<RouteStats>,
    /// The hot keys that all workers report.
    pub hot_keys: Vec<HotKeyReport>,
}

/// What one worker has counted.
#[derive(Clone, Debug)]
pub struct WorkerCounts {
    /// Of all requests.
    pub totals: ProxyStats,
    /// Of its connections to servers.
    pub backends: Vec<BackendStats>,
    /// The pools of its configuration.
    pub pools: Vec<PoolStats>,
    /// Of each route of its configuration.
    pub routes: Vec<RouteStats>,
    /// The keys that are read most through it.
    pub hot_keys: Vec<HotKeyReport>,
    /// How old leases were when it asked replicas under them, in the pools of its configuration.
    pub replica_lease_ages: Ages,
}

impl ProcessStats {
    /// Adds what a worker has counted.
    pub fn add(&mut self, counts: WorkerCounts) {
        self.totals.add(&counts.totals);
        self.backends.extend(counts.backends);
        for pool in counts.pools {
            add_pool(&mut self.pools, pool);
        }
        for route in counts.routes {
            add_route(&mut self.routes, route);
        }
        self.hot_keys.extend(counts.hot_keys);
        self.replica_lease_ages.add(&counts.replica_lease_ages);
    }
}

/// The connections of all workers to one backend belong together.
pub(crate) fn by_name(
    backends: &[BackendStats],
) -> std::collections::BTreeMap<&str, Vec<&BackendStats>> {
    let mut groups = std::collections::BTreeMap::<_, Vec<_>>::new();
    for backend in backends {
        groups
            .entry(backend.name.as_str())
            .or_default()
            .push(backend);
    }
    groups
}

/// The shortest round trip that was measured on any of the connections, in microseconds.
pub(crate) fn shortest_round_trip(group: &[&BackendStats]) -> Option<u64> {
    group
        .iter()
        .filter_map(|backend| backend.round_trip_us)
        .min()
}

/// What an operator should know first.
pub(crate) fn worst_state(group: &[&BackendStats]) -> &'static str {
    ["down", "connecting", "up"]
        .into_iter()
        .find(|state| group.iter().any(|backend| backend.state == *state))
        .unwrap_or("idle")
}

/// A pool as one worker, or all of them, see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// Its name.
    pub name: Arc<str>,
    /// Epoch of its map, of several workers the smallest; `None` for a pool without a map.
    pub map_epoch: Option<u64>,
    /// Its servers; workers, of Evenkeel servers.
    pub servers: u64,
    /// Whether its hot keys are looked for.
    pub watches: bool,
}

/// Adds what another worker sees of a pool. Workers may differ for a moment.
pub(crate) fn add_pool(sum: &mut Vec<PoolStats>, more: PoolStats) {
    match sum.iter_mut().find(|known| known.name == more.name) {
        Some(known) => {
            known.map_epoch = known.map_epoch.min(more.map_epoch);
            known.servers = known.servers.max(more.servers);
            known.watches |= more.watches;
        }
        None => sum.push(more),
    }
}
