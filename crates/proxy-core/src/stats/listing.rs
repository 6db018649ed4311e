//! What a proxy counts, and how `stats` shows it.
//!
//! The numbers are the application's view: a get that was answered by a replica after its home was
//! asked in vain is one get. One worker answers `stats` for the whole process, so the driver adds up
//! the workers' counters first.

use crate::config::{PoolSettings, ProxyConfig};
use crate::stats::latency::Latency;
use crate::stats::line::stat;
use crate::stats::process::{
    BackendStats, DiscoveryStats, ProcessStats, by_name, shortest_round_trip, worst_state,
};
use crate::stats::{hot_keys, route_stats};
use evenkeel_protocol::auth::AuthMode;
use evenkeel_protocol::text;

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
    pub name: &'a str,
    pub kind: &'static str,
    pub epoch: u64,
    pub servers: usize,
    pub settings: &'a PoolSettings,
    /// No longer configured.
    pub leaving: bool,
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
        let (name, settings) = (facts.name, facts.settings);
        let state = if facts.leaving { "leaving" } else { "serving" };
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

fn none_if_empty(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

fn yes_no(on: bool) -> &'static str {
    if on { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::counters::BackendCounters;

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
