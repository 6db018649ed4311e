//! What a proxy counts and measures, in Prometheus's text format: the figures of `stats`, `stats proxy`,
//! `stats servers` and `stats routes` with `evenkeel_proxy_` before their names, the histograms behind
//! the times, and those of each pool (`pool_metrics.rs`).

use crate::stats::counters::{BackendCounters, ProxyStats};
use crate::stats::latency::{Latency, TIMES};
use crate::stats::per_route::RouteCounters;
use crate::stats::process::{BackendStats, ProcessFacts, ProcessStats, REPLICA_LEASE_AGE, servers};
use crate::stats::route_stats::RouteStats;
use crate::stats::{locality, pool_metrics};
use evenkeel_control::exposition::{Labels, Text, seconds};
use evenkeel_control::families;
use evenkeel_control::times::Histogram;

/// What the names of metrics begin with: of the proxy, of its servers, of its routes.
pub(crate) const PREFIX: &str = "evenkeel_proxy_";
pub(crate) const OF_SERVER: &str = "evenkeel_proxy_server_";
pub(crate) const OF_ROUTE: &str = "evenkeel_proxy_route_";

/// Times between which a histogram counts: powers of two from 16 µs to 8.4 s.
const BOUNDS: std::ops::RangeInclusive<u32> = 4..=23;

families! {
    pub(crate) PROCESS of ProcessStats {
        up => gauge, "Whether the proxy answers.", |_, to| to.one(1);
        config_generation => gauge, "Number of the configuration that is in force.", |it, to| to.one(it.config_generation);
        config_info[md5] => gauge, "1, with the fingerprint (md5) of the file that is in force; empty without one.",
            |it, to| to.of(&[&it.config_digest], 1);
        config_refused => gauge, "Whether the newest configuration was refused, so that an older one is in force.",
            |it, to| to.one(u8::from(!it.config_refusal.is_empty()));
    }
    pub(crate) SERVERS of Vec<BackendStats> {
        up[pool, server] => gauge, "Whether the server is in use: 0 while it cannot be reached.",
            |servers, to| for it in servers {
                to.of(&[&it.pool, &it.name], u8::from(it.state != "down"));
            };
        round_trip_seconds[pool, server] => gauge, "Shortest round trip that the kernel has measured, on any connection.",
            |servers, to| for it in servers {
                if let Some(us) = it.round_trip_us {
                    to.of(&[&it.pool, &it.name], seconds(us));
                }
            };
    }
}

/// Writes everything.
pub fn render(process: &ProcessStats) -> String {
    let mut text = Text(String::with_capacity(32 << 10));
    text.families(PREFIX, PROCESS, process);
    for list in [
        ProcessFacts::START,
        ProcessFacts::CONNECTIONS,
        ProcessFacts::THREADS,
        ProcessFacts::CONFIG,
        ProcessFacts::PROXY,
    ] {
        text.shown(PREFIX, list, [(vec![], &process.facts)]);
    }
    for list in [ProxyStats::MEMCACHED, ProxyStats::PROXY] {
        text.shown(PREFIX, list, [(vec![], &process.totals)]);
    }
    text.ages(PREFIX, &REPLICA_LEASE_AGE, &process.replica_lease_ages);
    of_servers(&mut text, &process.backends);
    of_routes(&mut text, &process.routes);
    pool_metrics::render(&mut text, process);
    locality::render(&mut text, &process.racks, &process.backends);
    text.0
}

fn of_servers(text: &mut Text, backends: &[BackendStats]) {
    let servers = servers(backends);
    let counters = servers
        .iter()
        .map(|it| (labels_of_server(it), &it.counters));
    text.shown(OF_SERVER, BackendCounters::METRICS, counters.clone());
    text.shown(OF_SERVER, BackendCounters::SERVERS, counters);
    text.families(OF_SERVER, SERVERS, &servers);
    let latencies = servers.iter().map(|it| (labels_of_server(it), &it.latency));
    times(text, OF_SERVER, latencies);
}

fn of_routes(text: &mut Text, routes: &[RouteStats]) {
    let counters = routes.iter().map(|it| (labels_of_route(it), &it.counters));
    text.shown(OF_ROUTE, RouteCounters::ROUTES, counters);
    let latencies = routes.iter().map(|it| (labels_of_route(it), &it.latency));
    times(text, OF_ROUTE, latencies);
}

fn labels_of_server(server: &BackendStats) -> Labels<'_> {
    vec![("pool", &server.pool), ("server", &server.name)]
}

fn labels_of_route(route: &RouteStats) -> Labels<'_> {
    let name = &route.name;
    vec![
        ("route", &name.route),
        ("prefix", &name.prefix),
        ("pool", &name.pool),
    ]
}

/// The histograms of servers or routes.
fn times<'t>(
    text: &mut Text,
    prefix: &str,
    latencies: impl Iterator<Item = (Labels<'t>, &'t Latency)> + Clone,
) {
    for part in TIMES {
        let name = format!("{prefix}{}_seconds", part.name);
        text.kind(&name, "histogram", part.help);
        for (labels, latency) in latencies.clone() {
            histogram(text, &name, &labels, (part.of)(latency));
        }
    }
}

fn histogram(text: &mut Text, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
    let bucket = format!("{name}_bucket");
    for exponent in BOUNDS {
        let bound = seconds(1 << exponent);
        let labels = [labels, &[("le", bound.as_str())]].concat();
        text.sample(&bucket, &labels, histogram.below(exponent));
    }
    let count = histogram.count();
    text.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), count);
    text.sample(&format!("{name}_sum"), labels, seconds(histogram.sum_us()));
    text.sample(&format!("{name}_count"), labels, count);
}
