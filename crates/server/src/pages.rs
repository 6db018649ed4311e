//! What `--admin` answers: `/healthz`, `/readyz`, `/metrics`, and hot keys, loads and balancing in JSON.

use crate::balancer::SharedBalancer;
use crate::control::{Control, WorkerHandle, ask};
use evenkeel_balance::cachelet_load::WorkerLoad;
use evenkeel_control::hot_keys::{EventView, ReplicaView, WorkerHotKeys};
use evenkeel_runtime::{Clock, Page, PageKind, PageRequest, process_metrics};
use evenkeel_server_core::{ClassStats, Counters, ProcessFacts, metrics};
use evenkeel_types::Epoch;
use serde::Serialize;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// How long workers have to say what they counted. A worker that is busy for longer is not well.
const COUNT_TIME: Duration = Duration::from_secs(1);

/// What the pages are made from.
pub struct Pages {
    /// Whether a coordinator gives the workers their maps.
    pub clustered: bool,
    /// The process's clock.
    pub clock: Clock,
    /// The workers, who are asked what they counted.
    pub workers: Vec<WorkerHandle>,
    /// Who balances them.
    pub balancer: SharedBalancer,
    /// What is known of the process.
    pub facts: Arc<dyn Fn() -> ProcessFacts + Send + Sync>,
}

impl Pages {
    /// The answer to each path; `None` where there is nothing.
    pub fn into_answers(self) -> impl Fn(&PageRequest<'_>) -> Option<Page> + Send + Sync + 'static {
        move |request| match request.path {
            "/healthz" => Some(Page::text(200, "ok\n")),
            "/readyz" => Some(self.ready()),
            "/metrics" => Some(self.metrics()),
            "/api/v1/hotkeys" => Some(self.hot_keys()),
            "/api/v1/hotkeys/events" => Some(self.hot_key_events()),
            "/api/v1/cachelets" => Some(self.cachelets()),
            "/api/v1/balance" => Some(json(&self.balancer.view())),
            "/api/v1/replicas" => Some(self.replicas()),
            _ => None,
        }
    }

    /// A member of a cluster serves once each of its workers has a map.
    fn ready(&self) -> Page {
        let mapped = |worker: &WorkerHandle| worker.gauges.epoch() > Epoch(0);
        if !self.clustered || self.workers.iter().all(mapped) {
            Page::text(200, "ok\n")
        } else {
            Page::text(503, "the coordinator has not sent a map yet\n")
        }
    }

    fn metrics(&self) -> Page {
        let Some(counts) = self.ask(Control::Count) else {
            return silent();
        };
        let (mut sum, mut classes) = (Counters::default(), ClassStats::default());
        for (counters, mut held) in counts {
            sum.add(&counters);
            classes.add(&mut held);
        }
        let facts = (self.facts)();
        let own = metrics::render(&sum, &classes, &facts, self.clock.now());
        Page::text(200, own + &process_metrics("server"))
    }

    /// What each worker knows of its hot keys.
    fn hot_keys(&self) -> Page {
        let only_spread = false;
        let workers = self.ask(|to| Control::DescribeHotKeys { only_spread, to });
        workers.map_or_else(silent, |mut workers| {
            workers.sort_by_key(|worker| worker.worker);
            for worker in &mut workers {
                worker.events.clear();
            }
            json(&HotKeysPage { workers })
        })
    }

    /// The logs of all workers, the oldest entry first.
    fn hot_key_events(&self) -> Page {
        let only_spread = true;
        let workers = self.ask(|to| Control::DescribeHotKeys { only_spread, to });
        workers.map_or_else(silent, |workers| {
            let overwritten = workers.iter().map(|worker| worker.events_overwritten).sum();
            let events = workers.into_iter().flat_map(|worker| worker.events);
            let mut events: Vec<_> = events.collect();
            events.sort_by_key(|event| (event.unix_ms, event.worker, event.number));
            json(&EventsPage {
                events,
                overwritten,
            })
        })
    }

    /// How loaded each worker and its cachelets are.
    fn cachelets(&self) -> Page {
        let workers = self.ask(Control::DescribeCachelets);
        workers.map_or_else(silent, |mut workers| {
            workers.sort_by_key(|worker| worker.worker);
            json(&CacheletsPage { workers })
        })
    }

    fn replicas(&self) -> Page {
        let workers = self.ask(Control::DescribeReplicas);
        workers.map_or_else(silent, |workers| {
            let mut replicas: Vec<_> = workers.into_iter().flatten().collect();
            replicas.sort_by(|a, b| (a.worker, &a.key).cmp(&(b.worker, &b.key)));
            json(&ReplicasPage { replicas })
        })
    }

    /// What every worker says to a question, in any order; `None` when one does not answer.
    fn ask<T>(&self, question: impl Fn(Sender<T>) -> Control) -> Option<Vec<T>> {
        let workers: Vec<_> = self.workers.iter().collect();
        let answers = ask(&workers, COUNT_TIME, question);
        (answers.len() == workers.len()).then_some(answers)
    }
}

/// What `/api/v1/hotkeys` says.
#[derive(Serialize)]
struct HotKeysPage {
    workers: Vec<WorkerHotKeys>,
}

/// What `/api/v1/hotkeys/events` says.
#[derive(Serialize)]
struct EventsPage {
    events: Vec<EventView>,
    overwritten: u64,
}

/// What `/api/v1/cachelets` says.
#[derive(Serialize)]
struct CacheletsPage {
    workers: Vec<WorkerLoad>,
}

/// What `/api/v1/replicas` says.
#[derive(Serialize)]
struct ReplicasPage {
    replicas: Vec<ReplicaView>,
}

fn silent() -> Page {
    Page::text(503, "a worker does not answer\n")
}

fn json(content: &impl Serialize) -> Page {
    match serde_json::to_string(content) {
        Ok(body) => Page::of(200, PageKind::Json, body),
        Err(error) => Page::text(503, format!("{error}\n")),
    }
}
