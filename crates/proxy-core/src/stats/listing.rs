//! What a proxy counts, and how `stats` shows it.
//!
//! The numbers are the application's view: a get that was answered by a replica after its home was
//! asked in vain is one get. One worker answers `stats` for the whole process, so the driver adds up
//! the workers' counters first.

use crate::config::{PoolSettings, ProxyConfig};
use crate::racks::NO_RACK;
use crate::stats::counters::{BackendCounters, BundleCounts, ProxyStats};
use crate::stats::line::{shown, stat};
use crate::stats::process::{
    BackendStats, DiscoveryStats, ProcessFacts, ProcessStats, REPLICA_LEASE_AGE,
};
use crate::stats::{hot_keys, locality, process, route_stats};
use evenkeel_placement::membership::Counts;
use evenkeel_protocol::auth::AuthMode;
use evenkeel_protocol::text;
use evenkeel_schemes::stage::Step;

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
    Locality,
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
    pub step: Option<Step>,
    pub plan: Option<u64>,
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
        StatsKind::Servers => servers(out, &process.backends),
        StatsKind::Routes => route_stats::compose(out, &process.routes),
        StatsKind::HotKeys => hot_keys::compose(out, &process.hot_keys, &process.hottest),
        StatsKind::Locality => locality::compose(out, &process.racks, &process.backends),
    }
    out.extend_from_slice(text::END);
}

fn general(out: &mut Vec<u8>, core: &CoreFacts<'_>, process: &ProcessStats) {
    let facts = &process.facts;
    shown(out, "", ProcessFacts::START, facts);
    stat(out, "version", &core.config.version);
    stat(out, "pointer_size", usize::BITS);
    shown(out, "", ProcessFacts::CONNECTIONS, facts);
    shown(out, "", ProxyStats::MEMCACHED, &process.totals);
    let accepts = facts.curr_connections < facts.max_connections;
    stat(out, "accepting_conns", u8::from(accepts));
    shown(out, "", ProcessFacts::THREADS, facts);
    shown(out, "proxy_", ProcessFacts::CONFIG, facts);
    let mut lists = Counts::default();
    for found in &process.discoveries {
        lists.add(&found.counts);
    }
    let useless = lists.empty + lists.failed + lists.unusable;
    stat(out, "proxy_server_lists_taken", lists.taken);
    stat(out, "proxy_server_lists_useless", useless);
    for name in ALWAYS_ZERO {
        stat(out, name, 0);
    }
}

fn settings(out: &mut Vec<u8>, facts: &CoreFacts<'_>, process: &ProcessStats) {
    stat(out, "maxbytes", 0);
    stat(out, "maxconns", process.facts.max_connections);
    stat(out, "num_threads", process.facts.threads);
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
    shown(out, "", ProcessFacts::CONFIG, &process.facts);
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
        if let Some(step) = facts.step {
            stat(out, format_args!("{name}:stage"), step.stage);
            stat(out, format_args!("{name}:step"), step.version);
        }
        if let Some(plan) = facts.plan {
            stat(out, format_args!("{name}:plan"), plan);
        }
        for (row, timeout) in [
            ("connect_timeout_ms", settings.connect_timeout),
            ("request_timeout_ms", settings.request_timeout),
        ] {
            stat(out, format_args!("{name}:{row}"), timeout.as_millis());
        }
    }
    for pool in &process.pools {
        if let Some(counts) = &pool.bundles {
            let before = format!("{}:bundle_", pool.name);
            shown(out, &before, BundleCounts::SHOWN, counts);
        }
    }
    for found in &process.discoveries {
        discovery(out, found);
    }
    shown(out, "", ProcessFacts::PROXY, &process.facts);
    shown(out, "", ProxyStats::PROXY, &process.totals);
    for (name, value) in REPLICA_LEASE_AGE.rows(&process.replica_lease_ages) {
        stat(out, name, value);
    }
}

fn discovery(out: &mut Vec<u8>, found: &DiscoveryStats) {
    let (pool, counts) = (&found.pool, found.counts);
    stat(out, format_args!("{pool}:servers_from"), &found.source);
    let state = found.state.name();
    stat(out, format_args!("{pool}:servers_list"), state);
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
    shown(out, &format!("{pool}:lists_"), Counts::SHOWN, &counts);
}

fn servers(out: &mut Vec<u8>, backends: &[BackendStats]) {
    for server in process::servers(backends) {
        let BackendStats {
            name,
            host,
            port,
            state,
            ..
        } = &server;
        stat(
            out,
            format_args!("{name}:address"),
            format_args!("{host}:{port}"),
        );
        stat(out, format_args!("{name}:state"), state);
        if let Some(cause) = &server.cause {
            stat(out, format_args!("{name}:cause"), cause);
        }
        let of_server = format!("{name}:");
        shown(out, &of_server, BackendCounters::SERVERS, &server.counters);
        server.latency.tell(out, &of_server);
        let round_trip = server.round_trip_us.unwrap_or(0);
        stat(out, format_args!("{name}:round_trip_us"), round_trip);
        if let Some(us) = server.distance_us {
            stat(out, format_args!("{name}:distance_us"), us);
        }
        if server.rack != NO_RACK {
            stat(out, format_args!("{name}:rack"), &server.rack);
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
    use crate::stats::latency::Latency;

    #[test]
    fn the_connections_of_several_workers_to_one_server_are_shown_as_one() {
        let connection = |state, requests| BackendStats {
            name: "s1/0".into(),
            pool: "default".into(),
            host: "h".into(),
            port: 1,
            state,
            cause: (state == "down").then(|| "connection refused".into()),
            counters: BackendCounters {
                queued_requests: 1,
                requests,
                ..BackendCounters::default()
            },
            latency: Latency::default(),
            round_trip_us: Some(requests),
            rack: "a".into(),
            distance_us: Some(requests),
        };
        let mut out = Vec::new();
        servers(&mut out, &[connection("up", 5), connection("down", 7)]);
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.starts_with("STAT s1/0:address h:1\r\nSTAT s1/0:state down\r\nSTAT s1/0:cause connection refused\r\n"),
            "{text}"
        );
        assert!(text.contains("STAT s1/0:requests 12\r\n"), "{text}");
        assert!(text.contains("STAT s1/0:round_trip_us 5\r\n"), "{text}");
    }
}
