//! What a proxy counts and measures, in Prometheus's text format: the figures of `stats`, `stats proxy`,
//! `stats servers` and `stats routes` with `evenkeel_proxy_` before their names, the histograms behind
//! the times, and those of each pool (`pool_metrics.rs`).

use crate::stats::latency::{Histogram, Latency};
use crate::stats::per_route::RouteCounters;
use crate::stats::pool_metrics;
use crate::stats::process::{BackendStats, ProcessStats, by_name, shortest_round_trip};
use crate::stats::route_stats::RouteStats;
use evenkeel_control::exposition::{Text, seconds};

/// Times between which a histogram counts: powers of two from 16 µs to 8.4 s.
const BOUNDS: std::ops::RangeInclusive<u32> = 4..=23;

/// Writes everything.
pub fn render(process: &ProcessStats) -> String {
    let mut text = Text(String::with_capacity(32 << 10));
    of_process(&mut text, process);
    for (name, count) in process.totals.named() {
        let name = name.strip_prefix("proxy_").unwrap_or(name);
        let full = format!("evenkeel_proxy_{name}_total");
        let help = format!("{name}, as stats and stats proxy show it.");
        text.counter(&full, &help, count);
    }
    text.ages(
        "evenkeel_proxy_replica_lease_age_seconds",
        "For each read of a replica: how old the lease was when it was sent. No value shown is staler.",
        &process.replica_lease_ages,
    );
    of_servers(&mut text, &process.backends);
    of_routes(&mut text, &process.routes);
    pool_metrics::render(&mut text, process);
    text.0
}

fn of_process(text: &mut Text, process: &ProcessStats) {
    text.gauge("evenkeel_proxy_up", "Whether the proxy answers.", 1);
    text.gauge(
        "evenkeel_proxy_uptime_seconds",
        "Seconds since the proxy started.",
        process.uptime_s,
    );
    text.gauge("evenkeel_proxy_threads", "Workers.", process.threads);
    text.gauge(
        "evenkeel_proxy_config_generation",
        "Number of the configuration that is in force.",
        process.config_generation,
    );
    let name = "evenkeel_proxy_config_info";
    let help = "1, with the fingerprint (md5) of the file that is in force; empty without one.";
    text.kind(name, "gauge", help);
    text.sample(name, &[("md5", &process.config_digest)], 1);
    text.gauge(
        "evenkeel_proxy_config_refused",
        "Whether the newest configuration was refused, so that an older one is in force.",
        u8::from(!process.config_refusal.is_empty()),
    );
    text.gauge(
        "evenkeel_proxy_connections",
        "Connections of applications.",
        process.curr_connections,
    );
    text.gauge(
        "evenkeel_proxy_buffer_bytes",
        "Bytes that applications' connections hold: sent in part, or not read.",
        process.buffer_bytes,
    );
    text.gauge(
        "evenkeel_proxy_buffer_bytes_max",
        "Most of them.",
        process.buffer_bytes_max,
    );
    text.gauge(
        "evenkeel_proxy_connections_max",
        "Most connections of applications at a time.",
        process.max_connections,
    );
    for (name, help, count) in [
        (
            "connections_total",
            "Connections of applications since the start.",
            process.total_connections,
        ),
        (
            "connections_refused_total",
            "Connections of applications refused since the start.",
            process.rejected_connections,
        ),
        (
            "config_reloads_total",
            "Configurations taken over since the start, without the first.",
            process.reloads,
        ),
        (
            "config_reload_failures_total",
            "Configurations refused since the start.",
            process.reload_failures,
        ),
        (
            "request_log_written_total",
            "Requests written to the log.",
            process.request_log_written,
        ),
        (
            "request_log_dropped_total",
            "Requests that were to be logged and were not, because the file was too slow or took no more.",
            process.request_log_dropped,
        ),
        (
            "turns_slow_total",
            "Turns of workers that took 50 ms or longer.",
            process.turns_slow,
        ),
        (
            "turns_starved_total",
            "Turns of workers that took so long because the machine did not run them.",
            process.turns_starved,
        ),
        (
            "names_asked_total",
            "Questions to the name service for the address of a server.",
            process.names_asked,
        ),
        (
            "names_failed_total",
            "Questions to the name service that brought no address.",
            process.names_failed,
        ),
    ] {
        text.counter(&format!("evenkeel_proxy_{name}"), help, count);
    }
}

/// A row of `stats servers`.
type Row = (&'static str, &'static str, fn(&BackendStats) -> u64);

/// A part of the time that requests take: its name, its meaning, and where it is.
type Part = (&'static str, &'static str, fn(&Latency) -> &Histogram);

const GAUGES: [Row; 3] = [
    (
        "connections_up",
        "Connections that take requests, of all workers.",
        |server| u64::from(server.state == "up"),
    ),
    ("queued_requests", "Requests queued or awaited.", |server| {
        server.queued_requests
    }),
    ("queued_bytes", "Bytes of them.", |server| {
        server.queued_bytes
    }),
];

const COUNTERS: [Row; 16] = [
    ("requests", "Requests put into the queue.", |server| {
        server.counters.requests
    }),
    ("answers", "Answers received.", |server| {
        server.counters.answers
    }),
    ("connects", "Connections agreed.", |server| {
        server.counters.connects
    }),
    (
        "failures",
        "Connections and attempts that failed.",
        |server| server.counters.failures,
    ),
    (
        "timeouts",
        "Of these, because something was late.",
        |server| server.counters.timeouts,
    ),
    (
        "logins_refused",
        "Times that the server did not accept our password.",
        |server| server.counters.logins_refused,
    ),
    (
        "refused_full",
        "Requests refused by a full queue.",
        |server| server.counters.refused_full,
    ),
    (
        "window_shrunk",
        "Times that fewer requests were let through because it made them wait.",
        |server| server.counters.window_shrunk,
    ),
    (
        "shed",
        "Requests refused because they had waited too long for a server that could not keep up.",
        |server| server.counters.shed,
    ),
    ("outages", "Times taken out of use.", |server| {
        server.counters.outages
    }),
    ("failed_over", "Requests that went elsewhere.", |server| {
        server.counters.failed_over
    }),
    ("missed", "Missed writes that were noted.", |server| {
        server.counters.missed
    }),
    (
        "missed_unnoted",
        "Missed writes that there was no room for.",
        |server| server.counters.missed_unnoted,
    ),
    ("caught_up", "Keys deleted for missed writes.", |server| {
        server.counters.caught_up
    }),
    ("flushed", "Times emptied for missed writes.", |server| {
        server.counters.flushed
    }),
    (
        "unfenced",
        "Times used again with missed writes not noted.",
        |server| server.counters.unfenced,
    ),
];

fn of_servers(text: &mut Text, backends: &[BackendStats]) {
    let groups = by_name(backends);
    for (rows, kind, suffix) in [
        (&GAUGES[..], "gauge", ""),
        (&COUNTERS[..], "counter", "_total"),
    ] {
        for (name, help, count) in rows {
            let full = format!("evenkeel_proxy_server_{name}{suffix}");
            text.kind(&full, kind, help);
            for (server, group) in &groups {
                let labels = [("pool", group[0].pool.as_str()), ("server", *server)];
                let sum: u64 = group.iter().map(|backend| count(backend)).sum();
                text.sample(&full, &labels, sum);
            }
        }
    }
    let full = "evenkeel_proxy_server_round_trip_seconds";
    let help = "Shortest round trip that the kernel has measured, on any connection.";
    text.kind(full, "gauge", help);
    for (server, group) in &groups {
        if let Some(us) = shortest_round_trip(group) {
            let labels = [("pool", group[0].pool.as_str()), ("server", *server)];
            text.sample(full, &labels, seconds(us));
        }
    }
    let latencies = groups
        .iter()
        .map(|(server, group)| {
            let mut latency = Latency::default();
            for backend in group {
                latency.add(&backend.latency);
            }
            let labels = vec![("pool", group[0].pool.as_str()), ("server", *server)];
            (labels, latency)
        })
        .collect();
    times(text, "evenkeel_proxy_server", latencies);
}

/// A count of a route.
type RouteRow = (&'static str, &'static str, fn(&RouteCounters) -> u64);

const ROUTE_COUNTERS: [RouteRow; 8] = [
    (
        "requests",
        "Keys of gets, and other commands, that were answered.",
        RouteCounters::requests,
    ),
    ("get_hits", "Keys found.", |route| route.get_hits),
    (
        "get_misses",
        "Keys not found, or answered so because their server could not be asked.",
        |route| route.get_misses + route.unavailable,
    ),
    (
        "unavailable",
        "Of these, because their server could not be asked.",
        |route| route.unavailable,
    ),
    (
        "errors",
        "Requests answered with an error, of the proxy or of a server.",
        |route| route.errors,
    ),
    ("denied", "Requests that the route refused.", |route| {
        route.denied
    }),
    (
        "request_bytes",
        "Bytes of requests that servers answered.",
        |route| route.request_bytes,
    ),
    (
        "answer_bytes",
        "Bytes of answers to applications.",
        |route| route.answer_bytes,
    ),
];

fn of_routes(text: &mut Text, routes: &[RouteStats]) {
    for (name, help, count) in ROUTE_COUNTERS {
        let full = format!("evenkeel_proxy_route_{name}_total");
        text.kind(&full, "counter", help);
        for route in routes {
            text.sample(&full, &labels_of(route), count(&route.counters));
        }
    }
    let latencies = routes
        .iter()
        .map(|route| (labels_of(route), route.latency.clone()));
    times(text, "evenkeel_proxy_route", latencies.collect());
}

fn labels_of(route: &RouteStats) -> Vec<(&str, &str)> {
    let name = &route.name;
    vec![
        ("route", &name.route),
        ("prefix", &name.prefix),
        ("pool", &name.pool),
    ]
}

/// The histograms of servers or routes.
fn times(text: &mut Text, of_what: &str, latencies: Vec<(Vec<(&str, &str)>, Latency)>) {
    let parts: [Part; 4] = [
        (
            "queue",
            "From when a request was asked to when it was written to the server.",
            |latency| &latency.queue,
        ),
        (
            "answer",
            "From when a request was written to the server to when it was answered.",
            |latency| &latency.answer,
        ),
        (
            "network",
            "The part of this that the way to the server and back takes at its best.",
            |latency| &latency.network,
        ),
        ("server", "The rest of it.", |latency| &latency.server),
    ];
    for (part, help, of) in parts {
        let name = format!("{of_what}_{part}_seconds");
        text.kind(&name, "histogram", help);
        for (labels, latency) in &latencies {
            histogram(text, &name, labels, of(latency));
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
