//! What one worker has counted, and what the driver knows of the whole process when statistics are asked for.

use crate::racks::{NO_RACK, Racks};
use crate::stats::counters::{BackendCounters, BundleCounts, ProxyStats};
use crate::stats::hot_keys::{HotKeyReport, HottestReports};
use crate::stats::latency::Latency;
use crate::stats::route_stats::{RouteStats, add_route};
use evenkeel_control::exposition::ShownAges;
use evenkeel_hotkeys::ages::Ages;
use evenkeel_placement::membership::{Counts, ListState};
use evenkeel_types::counters;
use std::collections::BTreeMap;
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
    /// Why it is not reached; `None` where it is.
    pub cause: Option<String>,
    /// What it counts.
    pub counters: BackendCounters,
    /// How long its requests took.
    pub latency: Latency,
    /// Shortest round trip to it that the kernel has measured on this connection, in microseconds.
    pub round_trip_us: Option<u64>,
    /// Its rack; [`NO_RACK`](crate::NO_RACK) if it has none.
    pub rack: String,
    /// The shortest time that it took to answer in the last minute, in microseconds.
    pub distance_us: Option<u64>,
}

/// The search for a pool's servers as statistics show it.
#[derive(Clone, Debug)]
pub struct DiscoveryStats {
    /// The pool.
    pub pool: Arc<str>,
    /// Who is asked.
    pub source: String,
    /// Where the pool stands with its list.
    pub state: ListState,
    /// What was counted of the search.
    pub counts: Counts,
    /// Why the last answer was of no use; empty if it was of use.
    pub trouble: String,
    /// Seconds since an answer was the list in force; `None` before there was one.
    pub confirmed_age_s: Option<u64>,
    /// Seconds since the list in force was taken.
    pub age_s: Option<u64>,
}

counters! {
    /// Numbers of the whole process.
    pub struct ProcessFacts {
        /// What `stats` begins with.
        START {
            pid, "Process id.";
            uptime => gauge "evenkeel_proxy_uptime_seconds", "Seconds since the proxy started.";
            time, "Wall-clock time in seconds since 1970.";
        }
        /// Connections of applications, in `stats`.
        CONNECTIONS {
            max_connections => gauge "evenkeel_proxy_connections_max", "Maximum connections of applications at a time.";
            curr_connections => gauge "evenkeel_proxy_connections", "Connections of applications.";
            total_connections => counter "evenkeel_proxy_connections_total", "Connections of applications since the start.";
            rejected_connections => counter "evenkeel_proxy_connections_refused_total", "Connections of applications refused since the start.";
        }
        /// Threads, in `stats`.
        THREADS {
            threads => gauge, "Workers.";
        }
        /// Configurations, in `stats proxy`, and in `stats` with `proxy_` before their names.
        CONFIG {
            config_reloads => counter, "Configurations taken over since the start, without the first.";
            config_reload_failures => counter, "Configurations refused since the start.";
        }
        /// What else stands in `stats proxy`.
        PROXY {
            backend_connections, "Connections to servers, of all workers.";
            backend_connections_up, "Those of them that take requests.";
            request_log_written => counter, "Requests written to the log.";
            request_log_dropped => counter, "Requests that were to be logged and were not, because the file was too slow or took no more.";
            profile_records => counter, "Records written to the profile.";
            profile_dropped => counter, "Records that were to be written to the profile and were not, because the file was too slow or took no more.";
            turns_slow => counter, "Turns of workers that took 50 ms or longer, without the time in line for a processor.";
            turns_starved => counter, "Turns of workers that took this long only with the time in line for a processor.";
            names_asked => counter, "Questions to the name service for the address of a server.";
            names_failed => counter, "Questions to the name service that brought no address.";
            buffer_bytes => gauge, "Bytes that applications' connections hold: sent in part, or not read.";
            buffer_bytes_max => gauge, "Most bytes that applications' connections may hold (`--buffer-memory`).";
        }
    }
}

/// How old leases are.
pub(crate) const REPLICA_LEASE_AGE: ShownAges = ShownAges {
    name: "replica_lease_age",
    help: "For each read of a replica: how old the lease was when it was sent. No value shown is staler.",
};

/// What the driver knows of the whole process when `stats` is asked.
#[derive(Clone, Debug, Default)]
pub struct ProcessStats {
    /// Its numbers.
    pub facts: ProcessFacts,
    /// Why the newest configuration was refused; empty when it is in force.
    pub config_refusal: String,
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
    /// The keys that get most, as all workers report them.
    pub hottest: HottestReports,
    /// Where everybody stands.
    pub racks: Arc<Racks>,
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
    /// The keys that are read most through it, in pools that look for hot keys.
    pub hot_keys: Vec<HotKeyReport>,
    /// The keys that get most through it, in all pools.
    pub hottest: HottestReports,
    /// How old leases were when it asked replicas under them, in the pools of its configuration.
    pub replica_lease_ages: Ages,
    /// Where everybody stands, by its configuration.
    pub racks: Arc<Racks>,
}

impl ProcessStats {
    /// Adds what a worker has counted.
    pub fn add(&mut self, counts: WorkerCounts) {
        self.totals.add(&counts.totals);
        for backend in &counts.backends {
            self.facts.backend_connections += 1;
            self.facts.backend_connections_up += backend.counters.connections_up;
        }
        self.backends.extend(counts.backends);
        for pool in counts.pools {
            add_pool(&mut self.pools, pool);
        }
        for route in counts.routes {
            add_route(&mut self.routes, route);
        }
        self.hot_keys.extend(counts.hot_keys);
        self.hottest.add(counts.hottest);
        self.racks = counts.racks;
        self.replica_lease_ages.add(&counts.replica_lease_ages);
    }
}

impl BackendStats {
    /// Adds the connection of another worker to the same server.
    fn add(&mut self, other: &BackendStats) {
        self.counters.add(&other.counters);
        self.latency.add(&other.latency);
        let round_trips = [self.round_trip_us, other.round_trip_us];
        self.round_trip_us = round_trips.into_iter().flatten().min();
        let distances = [self.distance_us, other.distance_us];
        self.distance_us = distances.into_iter().flatten().min();
        if self.rack == NO_RACK {
            // Another worker's connection has stood already.
            self.rack.clone_from(&other.rack);
        }
        if self.cause.is_none() {
            self.cause.clone_from(&other.cause);
        }
        // What an operator should know first.
        let states = ["down", "connecting", "up"].into_iter();
        let mut states = states.filter(|state| [self.state, other.state].contains(state));
        self.state = states.next().unwrap_or("idle");
    }
}

/// The servers, each with the connections of all workers to it, by name.
pub(crate) fn servers(backends: &[BackendStats]) -> Vec<BackendStats> {
    let mut servers = BTreeMap::<&str, BackendStats>::new();
    for backend in backends {
        match servers.get_mut(backend.name.as_str()) {
            Some(known) => known.add(backend),
            None => drop(servers.insert(&backend.name, backend.clone())),
        }
    }
    servers.into_values().collect()
}

/// A pool as one worker, or all of them, see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// Its name.
    pub name: Arc<str>,
    /// Epoch of its map, of several workers the smallest; `None` for a pool without a map.
    pub map_epoch: Option<u64>,
    /// The step of a coordinator by which it works, of several workers the smallest; `None` for a pool that is not led.
    pub step: Option<u64>,
    /// The number of its ring's plan, likewise; `None` for a pool without a ring.
    pub plan: Option<u64>,
    /// Its servers; workers, of Evenkeel servers.
    pub servers: u64,
    /// Whether its hot keys are looked for.
    pub watches: bool,
    /// What copies of its items would save, where that is counted.
    pub bundles: Option<BundleCounts>,
}

/// Adds what another worker sees of a pool. Workers may differ for a moment.
pub(crate) fn add_pool(sum: &mut Vec<PoolStats>, more: PoolStats) {
    match sum.iter_mut().find(|known| known.name == more.name) {
        Some(known) => {
            known.map_epoch = known.map_epoch.min(more.map_epoch);
            known.step = known.step.min(more.step);
            known.plan = known.plan.min(more.plan);
            known.servers = known.servers.max(more.servers);
            known.watches |= more.watches;
            match (&mut known.bundles, &more.bundles) {
                (Some(sum), Some(more)) => sum.add(more),
                (sum, more) => *sum = sum.or(*more),
            }
        }
        None => sum.push(more),
    }
}
