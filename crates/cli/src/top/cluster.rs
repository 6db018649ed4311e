//! What a coordinator tells of its cluster besides where the servers are: workers, proxies, plans, and what happened last.

use crate::plans::{mode_and_opinion, over_mean};
use evenkeel_coordinator_core::{MapEvent, Snapshot};
use evenkeel_types::UnixSeconds;
use serde::Serialize;
use std::collections::BTreeMap;

/// Events that are kept: more than any terminal shows.
const EVENTS_SHOWN: usize = 50;

/// A worker's line among the details of its server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkerLine {
    pub worker: u16,
    /// Small requests a second that it serves, of its own keys and of replicas.
    pub load: f64,
    /// Part of its time that it does not sleep, 0 to 1.
    pub busy: f64,
    pub memory_bytes: u64,
    pub cachelets: usize,
}

/// A proxy's line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProxyLine {
    pub name: String,
    pub is_up: bool,
    pub requests_per_second: f64,
    /// What its requests took in the last second, in milliseconds: half of them no longer, and 99 %.
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    /// Requests that it refused in the last second because a server has too much to do.
    pub shed_per_second: f64,
    pub silent_seconds: f64,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventLine {
    pub unix_s: UnixSeconds,
    pub age_seconds: u32,
    pub text: String,
}

/// Everything of one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cluster {
    /// The most loaded worker's load by the mean of all; nothing without any load.
    pub worker_load_max_over_mean: Option<f64>,
    /// The part of its time that the busiest worker does not sleep, 0 to 1.
    pub busy_max: Option<f64>,
    pub proxies: Vec<ProxyLine>,
    /// What is done about uneven loads, and what the coordinator thinks of them.
    pub plans: Vec<String>,
    /// The newest first.
    pub events: Vec<EventLine>,
    /// By the name of the server; of a large cluster those of the busiest servers.
    pub workers: BTreeMap<String, Vec<WorkerLine>>,
    /// Servers that are drained.
    pub draining: Vec<String>,
}

impl Cluster {
    /// What a snapshot says of it.
    pub fn of(seen: &Snapshot) -> Cluster {
        let mut workers: BTreeMap<String, Vec<WorkerLine>> = BTreeMap::new();
        for it in &seen.loads.workers {
            workers
                .entry(it.server.clone())
                .or_default()
                .push(WorkerLine {
                    worker: it.worker,
                    load: it.load + it.replica_load,
                    busy: it.busy.min(1.0),
                    memory_bytes: it.memory_bytes,
                    cachelets: it.cachelets,
                });
        }
        let all = || workers.values().flatten();
        let mean = seen.totals.load / seen.totals.workers.max(1) as f64;
        let highest = |of: fn(&WorkerLine) -> f64| all().map(of).reduce(f64::max);
        let most = highest(|it| it.load).filter(|_| mean > 0.0);
        let draining = seen.drains.iter().filter(|drain| drain.draining);
        Cluster {
            worker_load_max_over_mean: most.map(|most| most / mean),
            busy_max: highest(|it| it.busy),
            proxies: proxies(seen),
            plans: plans(seen),
            events: events(seen),
            draining: draining.map(|drain| drain.server.clone()).collect(),
            workers,
        }
    }
}

fn proxies(seen: &Snapshot) -> Vec<ProxyLine> {
    let ms = |us: u64| us as f64 / 1e3;
    let proxies = seen.proxies.proxies.iter().map(|proxy| ProxyLine {
        name: proxy.name.clone(),
        is_up: proxy.up,
        requests_per_second: proxy.requests_per_second.iter().sum(),
        p50_ms: proxy.served.p50_us.map(ms),
        p99_ms: proxy.served.p99_us.map(ms),
        shed_per_second: proxy.served.shed_per_s,
        silent_seconds: proxy.silent_ms as f64 / 1e3,
    });
    proxies.collect()
}

/// The mode and the verdict, then the plans that are known, the newest first.
fn plans(seen: &Snapshot) -> Vec<String> {
    let mut lines = vec![mode_and_opinion(&seen.plans)];
    lines.extend(seen.plans.plans.iter().map(|plan| {
        let measured = plan.measured.as_ref().map(over_mean);
        let measured = measured.map(|over_mean| format!(", {over_mean} measured"));
        format!(
            "plan {} {}: {} of {} moves, {} of the mean, {} predicted{}",
            plan.id,
            plan.state,
            plan.moved,
            plan.moves,
            over_mean(&plan.before),
            over_mean(&plan.predicted),
            measured.unwrap_or_default()
        )
    }));
    lines
}

/// What happened to the map, to hot keys and to settings.
fn events(seen: &Snapshot) -> Vec<EventLine> {
    let of_map = seen
        .events
        .iter()
        .map(|event| (event.unix_s, of_map(event)));
    let of_keys = seen.hot_key_events.iter().map(|told| {
        let event = &told.event;
        let text = format!(
            "{} at {}/{} {}: {} -> {} replicas",
            event.key,
            told.server,
            event.worker,
            event.deed.replace('_', " "),
            event.gamma_before,
            event.gamma
        );
        let unix_s = UnixSeconds::try_from(event.unix_ms / 1000);
        (unix_s.unwrap_or(UnixSeconds::MAX), text)
    });
    let of_settings = seen.settings_events.iter().map(|event| {
        let text = format!("{}: {} -> {}", event.name, event.from, event.to);
        (event.unix_s, text)
    });
    let mut lines: Vec<_> = of_map
        .chain(of_keys)
        .chain(of_settings)
        .map(|(unix_s, text)| EventLine {
            unix_s,
            age_seconds: seen.unix_s.saturating_sub(unix_s),
            text,
        })
        .collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.unix_s));
    lines.truncate(EVENTS_SHOWN);
    lines
}

fn of_map(event: &MapEvent) -> String {
    let cause = event.cause.as_str().replace('_', " ");
    let servers = event.servers.join(", ");
    match event.cachelets {
        0 => format!("{cause}: {servers}"),
        cachelets => format!("{cause}: {servers}, {cachelets} cachelets"),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Two servers, one of them drained, a proxy that is silent, and an event.
    pub fn cluster() -> Cluster {
        let worker = |load, busy| WorkerLine {
            worker: 0,
            load,
            busy,
            memory_bytes: 5 << 20,
            cachelets: 16,
        };
        Cluster {
            worker_load_max_over_mean: Some(1.5),
            busy_max: Some(0.97),
            proxies: vec![ProxyLine {
                name: "proxy-1".into(),
                is_up: false,
                requests_per_second: 0.0,
                p50_ms: Some(0.25),
                p99_ms: Some(3.25),
                shed_per_second: 12.0,
                silent_seconds: 7.0,
            }],
            plans: vec!["mode observe, loads: nobody is overloaded".into()],
            events: vec![EventLine {
                unix_s: 100,
                age_seconds: 12,
                text: "server fenced: s9, 32 cachelets".into(),
            }],
            workers: [("s1", worker(900.0, 0.3)), ("s2", worker(2_900.0, 0.97))]
                .map(|(name, worker)| (name.to_owned(), vec![worker]))
                .into(),
            draining: vec!["s1".into()],
        }
    }
}
