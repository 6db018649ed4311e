//! What a proxy counts, and how `stats` shows it.
//!
//! The numbers are the application's view: a get that was answered by a replica after its home was
//! asked in vain is one get. One worker answers `stats` for the whole process, so the driver adds up
//! the workers' counters first.

use crate::config::ProxyConfig;
use crate::pipe::backend::{Backend, BackendCounters};
use crate::pool::Pool;
use crate::stats::hot_keys::HotKeyReport;
use crate::stats::latency::Latency;
use crate::stats::pool_metrics::{PoolStats, add_pool};
use crate::stats::route_stats::{RouteStats, add_route};
use crate::stats::{hot_keys, route_stats};
use evenkeel_hotkeys::ages::Ages;
use evenkeel_hotkeys::plain::PlainStats;
use evenkeel_placement::membership::Counts;
use evenkeel_placement::membership::Standing;
use evenkeel_protocol::auth::AuthMode;
use evenkeel_protocol::text;
use std::io::Write;
use std::sync::Arc;

macro_rules! proxy_stats {
    ($($(#[$meta:meta])* $name:ident),* $(,)?) => {
        /// Counts since the start, of one proxy worker or of several together.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct ProxyStats {
            $($(#[$meta])* pub $name: u64,)*
        }

        impl ProxyStats {
            /// Adds the counts of another worker.
            pub fn add(&mut self, other: &ProxyStats) {
                $(self.$name += other.$name;)*
            }

            /// Every count with its name, in the order of `stats`.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

proxy_stats! {
    /// Keys asked for by any read command.
    cmd_get,
    /// Storage commands, `ms` included.
    cmd_set,
    /// `flush_all` commands.
    cmd_flush,
    /// `touch` commands, and keys of `gat` and `gats`.
    cmd_touch,
    /// Meta commands.
    cmd_meta,
    /// Keys found.
    get_hits,
    /// Keys not found, or not available where that counts as a miss.
    get_misses,
    /// Deletes of keys that were not there.
    delete_misses,
    /// Deletes done.
    delete_hits,
    /// Increments of keys that were not there.
    incr_misses,
    /// Increments done.
    incr_hits,
    /// Decrements of keys that were not there.
    decr_misses,
    /// Decrements done.
    decr_hits,
    /// Compare-and-swaps of keys that were not there.
    cas_misses,
    /// Compare-and-swaps done.
    cas_hits,
    /// Compare-and-swaps of items that had changed.
    cas_badval,
    /// Touches done.
    touch_hits,
    /// Touches of keys that were not there.
    touch_misses,
    /// Bytes received from applications.
    bytes_read,
    /// Bytes sent to applications.
    bytes_written,
    /// Connections whose TLS did not come about.
    ssl_handshake_errors,
    /// Connections whose client broke the protocol of TLS later.
    ssl_proto_errors,
    /// Attempts to authenticate.
    auth_cmds,
    /// Those that failed.
    auth_errors,
    /// Times that a connection's requests had to wait for others' (`-R`).
    conn_yields,
    /// Requests answered with an error because a backend was down, lost, late or unsure.
    proxy_request_errors,
    /// Gets answered as misses for the same reason.
    proxy_reads_unavailable,
    /// Requests put to another worker because their key had moved.
    proxy_requests_moved,
    /// Cachelets that were found at another worker of their server.
    proxy_hosts_learnt,
    /// Gets that joined an identical one which waited to be sent.
    proxy_gets_collapsed,
    /// Requests sent again because a connection was lost that had not answered them.
    proxy_requests_resent,
    /// Requests that waited for a newer map.
    proxy_requests_parked,
    /// Rounds of `flush_all` beyond the first: servers went by a newer map.
    proxy_flushes_repeated,
    /// Requests refused because they had waited too long for a backend that could not keep up.
    proxy_requests_shed,
    /// Requests refused because a backend's queue was full.
    proxy_backend_queue_full,
    /// Times that an application's requests had to wait because its answers were unread or many.
    proxy_client_pauses,
    /// Applications' connections closed for unread answers.
    proxy_clients_closed_unread,
    /// Applications' connections closed in the middle of a request, or with unread answers, because
    /// nothing moved for too long.
    proxy_clients_closed_stalled,
    /// Applications' connections closed because they held memory that others needed, and hardly moved.
    proxy_clients_closed_memory,
    /// Copies of large answers to identical gets that were refused for want of memory.
    proxy_copies_refused,
    /// Applications' connections closed because the server of a value was lost that had been passed on in
    /// part.
    proxy_clients_closed_cut,
    /// Reads sent to a replica.
    proxy_replica_reads,
    /// Replica reads that found it there.
    proxy_replica_hits,
    /// Leases granted.
    proxy_leases,
    /// Leases given up or not taken because too many were held.
    proxy_leases_dropped,
    /// Reads of hot keys that were shown a kept value, because the answer was older than one already shown.
    proxy_reads_kept,
    /// Reads asked again at the home, because a replica was gone, or an answer was older than one
    /// already shown, which was not kept.
    proxy_reads_asked_again,
    /// Of these: the answer was older.
    proxy_reads_asked_again_older,
    /// Of these: the replica was not there.
    proxy_reads_asked_again_missing,
    /// Reads of leased keys that went home because their connection had written the key, and nobody knows what.
    proxy_reads_behind_writes,
    /// Writes that waited until reads of the key that their connection had asked for before were shown.
    proxy_writes_behind_reads,
    /// Maps taken over.
    proxy_maps,
    /// Requests that a route refused.
    proxy_requests_denied,
    /// Requests refused because a route made their key or their line too long, or left no key.
    proxy_keys_refused,
    /// Exptimes that a route changed, or that are short because the item is stored elsewhere.
    proxy_ttls_changed,
    /// Requests that went to another server because their key's own was out of use.
    proxy_requests_failed_over,
    /// Requests that did not, because their key's server, or the next one, was back for too short a
    /// time before.
    proxy_failovers_unsettled,
    /// Compare-and-swaps refused because their key's server was out of use.
    proxy_cas_refused,
    /// Deletes and `flush_all`s, of what a server had missed, that it did not carry out.
    proxy_catch_ups_refused,
    /// Applications' connections that spoke the binary protocol.
    proxy_binary_clients,
    /// Binary requests refused because their server knows no meta commands.
    proxy_requests_unsupported,
    /// Reads that were looked at by chance to find hot keys of plain servers.
    proxy_hot_reads_sampled,
    /// Keys that became hot.
    proxy_hot_keys_promoted,
    /// Hot keys that cooled.
    proxy_hot_keys_cooled,
    /// Hot keys that were not replicated because there were too many, counted twice a second.
    proxy_hot_keys_unpromoted_full,
    /// Hot keys that were not replicated because they are too long, counted twice a second.
    proxy_hot_keys_unpromoted_long,
    /// Values of hot keys that were too long to be replicated.
    proxy_hot_values_too_long,
    /// Replicas of hot keys stored on plain servers.
    proxy_replica_fills,
    /// Replicas that a server would not store.
    proxy_replica_fills_refused,
    /// Slow requests that were not logged because too many others were in the same second.
    proxy_request_log_slow_dropped,
}

impl ProxyStats {
    /// Adds what a pool's hot keys have counted.
    pub(crate) fn add_hot_keys(&mut self, counted: &PlainStats) {
        self.proxy_hot_reads_sampled += counted.reads_sampled;
        self.proxy_hot_keys_promoted += counted.promoted;
        self.proxy_hot_keys_cooled += counted.cooled;
        self.proxy_hot_keys_unpromoted_full += counted.unpromoted_full;
        self.proxy_hot_keys_unpromoted_long += counted.unpromoted_long;
        self.proxy_hot_values_too_long += counted.values_too_long;
        self.proxy_replica_fills += counted.fills;
    }
}

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

impl BackendStats {
    pub(crate) fn of(backend: &Backend, pool: Option<&Pool>) -> Self {
        BackendStats {
            name: backend.full_name(),
            pool: pool.map(|pool| pool.name.to_string()).unwrap_or_default(),
            host: backend.host.clone(),
            port: backend.port,
            state: backend.state(),
            queued_requests: backend.queued_requests() as u64,
            queued_bytes: backend.queued_bytes() as u64,
            counters: backend.counters,
            latency: backend.stopwatch.latency(),
            round_trip_us: backend.stopwatch.round_trip_us(),
            window: (!backend.window.is_open()).then(|| backend.window.size() as u64),
        }
    }
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

/// Names of memcached that tools read and that mean nothing in a proxy, which stores nothing.
const ALWAYS_ZERO: [&str; 7] = [
    "limit_maxbytes",
    "bytes",
    "curr_items",
    "total_items",
    "evictions",
    "reclaimed",
    "hash_bytes",
];

/// What `stats` was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatsKind {
    General,
    Settings,
    Proxy,
    Servers,
    Routes,
    HotKeys,
}

/// Facts of one core, which are the same in all of a process.
#[derive(Clone, Debug)]
pub(crate) struct CoreFacts<'a> {
    pub config: &'a ProxyConfig,
    pub pools: Vec<PoolFacts<'a>>,
}

/// Facts of a pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolFacts<'a> {
    name: &'a str,
    kind: &'static str,
    epoch: u64,
    servers: usize,
    pool: &'a Pool,
}

impl<'a> PoolFacts<'a> {
    pub fn of(pool: &'a Pool) -> Self {
        PoolFacts {
            name: &pool.name,
            kind: pool.kind(),
            epoch: pool.epoch().0,
            servers: pool.backends().len(),
            pool,
        }
    }
}

/// Writes the answer to `stats`.
pub(crate) fn compose(
    out: &mut Vec<u8>,
    kind: StatsKind,
    facts: &CoreFacts<'_>,
    process: &ProcessStats,
) {
    match kind {
        StatsKind::General => general(out, facts, process),
        StatsKind::Settings => settings(out, facts, process),
        StatsKind::Proxy => proxy(out, facts, process),
        StatsKind::Servers => servers(out, process),
        StatsKind::Routes => route_stats::compose(out, &process.routes),
        StatsKind::HotKeys => hot_keys::compose(out, &process.hot_keys),
    }
    out.extend_from_slice(text::END);
}

fn general(out: &mut Vec<u8>, facts: &CoreFacts<'_>, process: &ProcessStats) {
    stat(out, "pid", process.pid);
    stat(out, "uptime", process.uptime_s);
    stat(out, "time", process.time);
    stat(out, "version", &facts.config.version);
    stat(out, "pointer_size", usize::BITS);
    stat(out, "max_connections", process.max_connections);
    stat(out, "curr_connections", process.curr_connections);
    stat(out, "total_connections", process.total_connections);
    stat(out, "rejected_connections", process.rejected_connections);
    for (name, count) in process
        .totals
        .named()
        .filter(|(name, _)| !name.starts_with("proxy_"))
    {
        stat(out, name, count);
    }
    stat(
        out,
        "accepting_conns",
        u8::from(process.curr_connections < process.max_connections),
    );
    stat(out, "threads", process.threads);
    stat(out, "proxy_config_reloads", process.reloads);
    stat(out, "proxy_config_reload_failures", process.reload_failures);
    let counts = process.discoveries.iter().map(|found| found.counts);
    let (mut changes, mut useless) = (0, 0);
    for counts in counts {
        changes += counts.changes;
        useless += counts.empty + counts.failures + counts.unusable;
    }
    stat(out, "proxy_server_lists_taken", changes);
    stat(out, "proxy_server_lists_useless", useless);
    for name in ALWAYS_ZERO {
        stat(out, name, 0);
    }
}

fn settings(out: &mut Vec<u8>, facts: &CoreFacts<'_>, process: &ProcessStats) {
    stat(out, "maxbytes", 0);
    stat(out, "maxconns", process.max_connections);
    stat(out, "num_threads", process.threads);
    let config = facts.config;
    stat(out, "reqs_per_event", config.requests_per_turn);
    stat(out, "item_size_max", config.limits.item_size_max);
    let mut pools = config.pools.iter();
    let flushes = pools.any(|pool| pool.settings.allow_flush);
    stat(out, "flush_enabled", yes_no(flushes));
    stat(out, "cas_enabled", "yes");
    let (protocol, sasl, text) = match config.access.mode {
        AuthMode::Open => ("auto-negotiate", false, false),
        AuthMode::Text => ("ascii", false, true),
        AuthMode::Sasl => ("binary", true, false),
    };
    stat(out, "binding_protocol", protocol);
    stat(out, "auth_enabled_sasl", yes_no(sasl));
    stat(out, "auth_enabled_ascii", yes_no(text));
    let revision = &config.revision;
    stat(out, "proxy_config_generation", revision.generation);
    stat(out, "proxy_config_digest", none_if_empty(&revision.digest));
    stat(out, "proxy_pools", config.pools.len());
    stat(out, "proxy_routes", config.routes.routes().len());
}

fn proxy(out: &mut Vec<u8>, facts: &CoreFacts<'_>, process: &ProcessStats) {
    let revision = &facts.config.revision;
    stat(out, "config_generation", revision.generation);
    stat(out, "config_digest", none_if_empty(&revision.digest));
    stat(out, "config_reloads", process.reloads);
    stat(out, "config_reload_failures", process.reload_failures);
    stat(
        out,
        "config_refusal",
        none_if_empty(&process.config_refusal),
    );
    for facts in &facts.pools {
        let (name, settings) = (facts.name, &facts.pool.settings);
        let state = if facts.pool.leaving {
            "leaving"
        } else {
            "serving"
        };
        stat(out, format_args!("{name}:state"), state);
        stat(out, format_args!("{name}:kind"), facts.kind);
        stat(out, format_args!("{name}:map_epoch"), facts.epoch);
        stat(out, format_args!("{name}:servers"), facts.servers);
        for (row, timeout) in [
            ("connect_timeout_ms", settings.connect_timeout),
            ("request_timeout_ms", settings.request_timeout),
        ] {
            stat(out, format_args!("{name}:{row}"), timeout.as_millis());
        }
    }
    for found in &process.discoveries {
        discovery(out, found);
    }
    let up = process
        .backends
        .iter()
        .filter(|backend| backend.state == "up")
        .count();
    stat(out, "backend_connections", process.backends.len());
    stat(out, "backend_connections_up", up);
    stat(out, "request_log_written", process.request_log_written);
    stat(out, "request_log_dropped", process.request_log_dropped);
    stat(out, "turns_slow", process.turns_slow);
    stat(out, "turns_starved", process.turns_starved);
    stat(out, "names_asked", process.names_asked);
    stat(out, "names_failed", process.names_failed);
    stat(out, "buffer_bytes", process.buffer_bytes);
    stat(out, "buffer_bytes_max", process.buffer_bytes_max);
    for (name, count) in process.totals.named() {
        if let Some(name) = name.strip_prefix("proxy_") {
            stat(out, name, count);
        }
    }
    let ages = &process.replica_lease_ages;
    stat(out, "replica_lease_age", ages.count());
    stat(out, "replica_lease_age_us_sum", ages.sum_us());
    stat(out, "replica_lease_age_us_max", ages.max_us());
    for (bound, count) in ages.within() {
        stat(
            out,
            format_args!("replica_lease_age_within_us:{bound}"),
            count,
        );
    }
}

fn discovery(out: &mut Vec<u8>, found: &DiscoveryStats) {
    let (pool, counts) = (&found.pool, found.counts);
    stat(out, format_args!("{pool}:servers_from"), &found.source);
    let standing = found.standing.name();
    stat(out, format_args!("{pool}:servers_list"), standing);
    let trouble = none_if_empty(&found.trouble);
    stat(out, format_args!("{pool}:servers_trouble"), trouble);
    for (row, age) in [
        ("servers_list_confirmed_s", found.confirmed_age_s),
        ("servers_list_age_s", found.age_s),
    ] {
        if let Some(seconds) = age {
            stat(out, format_args!("{pool}:{row}"), seconds);
        }
    }
    for (row, count) in [
        ("answers", counts.answers),
        ("taken", counts.changes),
        ("empty", counts.empty),
        ("failed", counts.failures),
        ("unusable", counts.unusable),
        ("suspect", counts.suspect),
    ] {
        stat(out, format_args!("{pool}:lists_{row}"), count);
    }
}

fn servers(out: &mut Vec<u8>, process: &ProcessStats) {
    for (name, group) in by_name(&process.backends) {
        let sum = |count: fn(&BackendStats) -> u64| group.iter().map(|b| count(b)).sum::<u64>();
        let mut latency = Latency::default();
        for backend in &group {
            latency.add(&backend.latency);
        }
        let rows: [(&str, u64); 19] = [
            ("queued_requests", sum(|b| b.queued_requests)),
            ("queued_bytes", sum(|b| b.queued_bytes)),
            ("requests", sum(|b| b.counters.requests)),
            ("answers", sum(|b| b.counters.answers)),
            ("connects", sum(|b| b.counters.connects)),
            ("failures", sum(|b| b.counters.failures)),
            ("timeouts", sum(|b| b.counters.timeouts)),
            ("logins_refused", sum(|b| b.counters.logins_refused)),
            ("refused_full", sum(|b| b.counters.refused_full)),
            ("window", sum(|b| b.window.unwrap_or(0))),
            ("window_shrunk", sum(|b| b.counters.window_shrunk)),
            ("shed", sum(|b| b.counters.shed)),
            ("outages", sum(|b| b.counters.outages)),
            ("failed_over", sum(|b| b.counters.failed_over)),
            ("missed", sum(|b| b.counters.missed)),
            ("missed_unnoted", sum(|b| b.counters.missed_unnoted)),
            ("caught_up", sum(|b| b.counters.caught_up)),
            ("flushed", sum(|b| b.counters.flushed)),
            ("unfenced", sum(|b| b.counters.unfenced)),
        ];
        let first = group[0];
        stat(
            out,
            format_args!("{name}:address"),
            format_args!("{}:{}", first.host, first.port),
        );
        stat(out, format_args!("{name}:state"), worst_state(&group));
        let round_trip = ("round_trip_us", shortest_round_trip(&group).unwrap_or(0));
        let times = latency.rows().into_iter().chain([round_trip]);
        for (row, count) in rows.into_iter().chain(times) {
            stat(out, format_args!("{name}:{row}"), count);
        }
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

fn none_if_empty(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

fn yes_no(on: bool) -> &'static str {
    if on { "yes" } else { "no" }
}

pub(crate) fn stat(
    out: &mut Vec<u8>,
    name: impl core::fmt::Display,
    value: impl core::fmt::Display,
) {
    write!(out, "STAT {name} {value}\r\n").expect("a vector takes all bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_workers_add_up_under_their_own_names() {
        let mut sum = ProxyStats {
            cmd_get: 1,
            proxy_leases: 2,
            ..ProxyStats::default()
        };
        sum.add(&ProxyStats {
            cmd_get: 10,
            proxy_maps: 3,
            ..ProxyStats::default()
        });
        let named: Vec<_> = sum.named().filter(|(_, count)| *count > 0).collect();
        assert_eq!(
            named,
            [("cmd_get", 11), ("proxy_leases", 2), ("proxy_maps", 3)]
        );
    }

    #[test]
    fn the_connections_of_several_workers_to_one_server_are_shown_as_one() {
        let connection = |state, requests| BackendStats {
            name: "s1/0".into(),
            pool: "default".into(),
            host: "h".into(),
            port: 1,
            state,
            queued_requests: 1,
            queued_bytes: 10,
            counters: BackendCounters {
                requests,
                ..BackendCounters::default()
            },
            latency: Latency::default(),
            round_trip_us: Some(requests),
            window: None,
        };
        let process = ProcessStats {
            backends: vec![connection("up", 5), connection("down", 7)],
            ..ProcessStats::default()
        };
        let mut out = Vec::new();
        servers(&mut out, &process);
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.starts_with("STAT s1/0:address h:1\r\nSTAT s1/0:state down\r\n"),
            "{text}"
        );
        assert!(text.contains("STAT s1/0:requests 12\r\n"), "{text}");
        assert!(text.contains("STAT s1/0:round_trip_us 5\r\n"), "{text}");
    }
}
