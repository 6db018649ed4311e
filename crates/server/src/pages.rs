//! What `--admin` answers: `/healthz`, `/readyz` and `/metrics`.

use crate::control::{Control, WorkerHandle};
use evenkeel_roles::server::{ClassStats, Counters, ProcessFacts, metrics};
use evenkeel_runtime::{Clock, Page};
use evenkeel_types::Epoch;
use std::sync::Arc;
use std::sync::mpsc::channel;
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
    /// What is known of the process.
    pub facts: Arc<dyn Fn() -> ProcessFacts + Send + Sync>,
}

impl Pages {
    /// The answer to each path; `None` where there is nothing.
    pub fn into_answers(self) -> impl Fn(&str) -> Option<Page> + Send + 'static {
        move |path| match path {
            "/healthz" => Some(page(200, "ok\n")),
            "/readyz" => Some(self.ready()),
            "/metrics" => Some(self.metrics()),
            _ => None,
        }
    }

    /// A member of a cluster serves once each of its workers has a map.
    fn ready(&self) -> Page {
        let mapped = |worker: &WorkerHandle| worker.gauges.epoch() > Epoch(0);
        if !self.clustered || self.workers.iter().all(mapped) {
            page(200, "ok\n")
        } else {
            page(503, "the coordinator has not sent a map yet\n")
        }
    }

    fn metrics(&self) -> Page {
        let (sender, receiver) = channel();
        for worker in &self.workers {
            worker.say(Control::Count(sender.clone()));
        }
        let (mut sum, mut classes) = (Counters::default(), ClassStats::default());
        for _ in &self.workers {
            let Ok((counters, mut held)) = receiver.recv_timeout(COUNT_TIME) else {
                return page(503, "a worker does not answer\n");
            };
            sum.add(&counters);
            classes.add(&mut held);
        }
        let facts = (self.facts)();
        page(
            200,
            &metrics::render(&sum, &classes, &facts, self.clock.now()),
        )
    }
}

fn page(status: u16, body: &str) -> Page {
    Page {
        status,
        body: body.to_owned(),
    }
}
