//! The part of `docs/statistics.md` about a proxy: every number, as it is declared.

use super::counters::{BackendCounters, BundleCounts, ProxyStats};
use super::latency::TIMES;
use super::locality::{OF_RACK, RACKS, RackCounters};
use super::metrics::{OF_ROUTE, OF_SERVER, PREFIX, PROCESS, SERVERS};
use super::per_route::RouteCounters;
use super::pool_metrics::{HOT_KEYS, LISTS, OF_BUNDLES, OF_LISTS, OF_POOL, POOLS};
use super::process::{ProcessFacts, REPLICA_LEASE_AGE};
use evenkeel_control::exposition::Family;
use evenkeel_placement::membership::Counts;
use evenkeel_types::shown::Shown;

fn rows<T>(prefix: &str, list: &[Shown<T>]) -> String {
    list.iter().map(|it| it.row(prefix)).collect()
}

fn families<T>(prefix: &str, list: &[Family<T>]) -> String {
    list.iter().map(|it| it.row(prefix)).collect()
}

/// What statistics and histograms tell of times.
fn times() -> String {
    let rows = TIMES.iter().map(|part| {
        let name = part.name;
        let told = part.quantiles.iter();
        let told: Vec<_> = told.map(|(row, _)| format!("`{name}_us_{row}`")).collect();
        let told = told.join(", ");
        format!("| {told} | `…_{name}_seconds` | {} |\n", part.help)
    });
    rows.collect()
}

/// What stands beside the families in `/metrics` alone.
fn metrics_of_servers() -> String {
    let rows = BackendCounters::METRICS.iter().map(|it| {
        let metric = it.metric.as_ref().expect("it has one");
        let name = metric.full_name(OF_SERVER, it.name);
        format!("| `{name}{{pool, server}}` | {} |\n", it.help)
    });
    rows.collect()
}

#[test]
fn the_page_of_statistics_says_what_a_proxy_declares() {
    let head = |of: &str| format!("| {of} | `/metrics` | counts |\n|---|---|---|\n");
    let part = [
        "## Of a proxy\n\n### What memcached counts, too\n\n".to_owned(),
        head("`stats`"),
        rows(PREFIX, ProcessFacts::START),
        rows(PREFIX, ProcessFacts::CONNECTIONS),
        rows(PREFIX, ProxyStats::MEMCACHED),
        rows(PREFIX, ProcessFacts::THREADS),
        "\n### What memcached does not count\n\n\
         The first two stand in `stats`, too, with `proxy_` before their names.\n\n"
            .to_owned(),
        head("`stats proxy`"),
        rows(PREFIX, ProcessFacts::CONFIG),
        rows(PREFIX, ProcessFacts::PROXY),
        rows(PREFIX, ProxyStats::PROXY),
        REPLICA_LEASE_AGE.row(PREFIX),
        "\n### Of each server\n\n\
         In `stats servers` behind the server's name and a colon; in `/metrics` with the labels `pool` and `server`.\n\n"
            .to_owned(),
        head("`stats servers`"),
        rows(OF_SERVER, BackendCounters::SERVERS),
        "\n### Of each route\n\n\
         In `stats routes` behind the route's number and a colon; in `/metrics` with the labels `route`, `prefix` and `pool`.\n\n"
            .to_owned(),
        head("`stats routes`"),
        rows(OF_ROUTE, RouteCounters::ROUTES),
        "\n### Times of each server and each route\n\n\
         Metrics are histograms, `evenkeel_proxy_server_…` and `evenkeel_proxy_route_…`.\n\n"
            .to_owned(),
        head("`stats servers`, `stats routes`"),
        times(),
        "\n### Of each pool whose servers are looked for\n\n\
         In `stats proxy` behind the pool's name and `:lists_`; in `/metrics` with the label `pool`.\n\n"
            .to_owned(),
        head("`stats proxy`"),
        rows(OF_LISTS, Counts::SHOWN),
        "\n### Of each pool with `bundle = \"observe\"`\n\n\
         In `stats proxy` behind the pool's name and `:bundle_`; in `/metrics` with the label `pool`.\n\n"
            .to_owned(),
        head("`stats proxy`"),
        rows(OF_BUNDLES, BundleCounts::SHOWN),
        "\n### Of each rack\n\n\
         In `stats locality` behind the rack's name and a colon; in `/metrics` with the labels `own`, the proxy's rack, and `rack`.\n\n"
            .to_owned(),
        head("`stats locality`"),
        rows(OF_RACK, RackCounters::LOCALITY),
        "\n### In metrics alone\n\n| `/metrics` | says |\n|---|---|\n".to_owned(),
        families(PREFIX, PROCESS),
        families(OF_SERVER, SERVERS),
        metrics_of_servers(),
        families(OF_POOL, POOLS),
        families(OF_POOL, LISTS),
        families(OF_POOL, HOT_KEYS),
        families(OF_RACK, RACKS),
    ];
    evenkeel_testkit::page::check_part("statistics.md", &part.concat());
}
