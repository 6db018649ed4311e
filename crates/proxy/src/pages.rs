//! What `--admin` answers: a web page, what it shows, `/healthz`, `/readyz` and `/metrics`.

use crate::active_config::ActiveConfig;
use crate::control::{Control, ReloadCounts, WorkerHandle};
use crate::dashboard::SharedDashboard;
use crate::recorder::Sink;
use evenkeel_control::http::is_own_name;
use evenkeel_control::page::{HEADERS, PROXY_PAGE};
use evenkeel_proxy_core::{HeatMeasure, ProcessFacts, ProcessStats, render_metrics};
use evenkeel_runtime::budget::Pool;
use evenkeel_runtime::names::Resolver;
use evenkeel_runtime::watchdog::TurnCounts;
use evenkeel_runtime::{Clock, ConnectionCount, Page, PageKind, PageRequest, process_metrics};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long workers have to say what they counted. A worker that is busy for longer is not well.
const COUNT_TIME: Duration = Duration::from_secs(1);

/// What the page shows tells the names of keys: a page of somebody else's, whose name was made to point here, is told nothing.
const API: &str = "/api/";
const FOREIGN_HOST: &str = "ask by the address of --admin, or by localhost: a web page could have chosen the name that this was asked by (the Host header)\n";

/// Columns of the history that are told unless another number is asked for.
const COLUMNS: usize = 60;

/// What a process knows of itself besides what its workers count.
#[derive(Clone, Debug)]
pub struct Facts {
    pub clock: Clock,
    pub workers: Arc<[WorkerHandle]>,
    pub connections: Arc<ConnectionCount>,
    /// The memory for what applications have sent in part and have not read.
    pub buffers: Arc<Pool>,
    pub reload_counts: Arc<ReloadCounts>,
    /// The configuration of all workers.
    pub active_config: ActiveConfig,
    /// Where requests are logged and recorded.
    pub recorder: Option<Sink>,
    /// Turns of workers that took long.
    pub turns: Arc<TurnCounts>,
    /// What finds the addresses of servers.
    pub resolver: Resolver,
}

impl Facts {
    /// Everything but the workers' counts.
    pub fn process(&self) -> ProcessStats {
        let now = self.clock.now();
        let revision = self.active_config.revision();
        let recorder = self.recorder.as_ref();
        let (logged, dropped) = recorder.map_or((0, 0), Sink::lines);
        let (recorded, unrecorded) = recorder.map_or((0, 0), Sink::records);
        let names = self.resolver.counts();
        let facts = ProcessFacts {
            pid: std::process::id().into(),
            uptime: now.monotonic.as_secs(),
            time: now.unix.into(),
            threads: self.workers.len() as u64,
            max_connections: self.connections.limit() as u64,
            curr_connections: self.connections.open() as u64,
            total_connections: self.connections.total(),
            rejected_connections: self.connections.refused(),
            buffer_bytes: self.buffers.taken() as u64,
            buffer_bytes_max: self.buffers.limit() as u64,
            config_reloads: self.reload_counts.reloads.load(Ordering::Relaxed),
            config_reload_failures: self.reload_counts.failures.load(Ordering::Relaxed),
            request_log_written: logged,
            request_log_dropped: dropped,
            profile_records: recorded,
            profile_dropped: unrecorded,
            turns_slow: self.turns.slow(),
            turns_starved: self.turns.starved(),
            names_asked: names.asked,
            names_failed: names.failed,
            ..ProcessFacts::default()
        };
        ProcessStats {
            facts,
            config_refusal: self.reload_counts.refusal(),
            config_generation: revision.generation,
            config_digest: revision.digest,
            discoveries: self.active_config.discovery_stats(),
            ..ProcessStats::default()
        }
    }

    /// All of it; `None` where a worker does not answer.
    pub fn counted(&self) -> Option<ProcessStats> {
        let (sender, receiver) = channel();
        for worker in self.workers.iter() {
            worker.say(Control::Count(sender.clone()));
        }
        let mut process = self.process();
        for _ in self.workers.iter() {
            process.add(receiver.recv_timeout(COUNT_TIME).ok()?);
        }
        Some(process)
    }

    /// The answer to each request; `None` where there is nothing. The port opens when the proxy is ready, so
    /// that who gets an answer may use it.
    pub fn into_answers(
        self,
        dashboard: SharedDashboard,
    ) -> impl Fn(&PageRequest<'_>) -> Option<Page> + Send + Sync + 'static {
        move |request| match request.path {
            "/healthz" | "/readyz" => Some(Page::text(200, "ok\n")),
            "/metrics" => Some(self.metrics()),
            path if path.starts_with(API) => {
                Some(match is_own_name(request.host.as_bytes(), &[]) {
                    true => api(&dashboard, request)?,
                    false => Page::text(403, FOREIGN_HOST),
                })
            }
            path => PROXY_PAGE
                .iter()
                .find(|file| file.path == path)
                .map(|file| Page {
                    headers: &HEADERS,
                    ..Page::of(200, PageKind::File(file.kind), file.text)
                }),
        }
    }

    fn metrics(&self) -> Page {
        match self.counted() {
            Some(process) => Page::text(200, render_metrics(&process) + &process_metrics("proxy")),
            None => Page::text(503, "a worker does not answer\n"),
        }
    }
}

/// What the page asks for.
fn api(dashboard: &SharedDashboard, request: &PageRequest<'_>) -> Option<Page> {
    match request.path {
        "/api/v1/snapshot" => Some(json(&dashboard.view())),
        "/api/v1/heat" => {
            let of = value(request.query, "of").map_or(Some(HeatMeasure::Load), HeatMeasure::named);
            let columns =
                value(request.query, "columns").map_or(Some(COLUMNS), |it| it.parse().ok());
            Some(match (of, columns) {
                (Some(of), Some(columns)) => json(&dashboard.heat(of, columns)),
                _ => Page::text(400, "say ?of=load or ?of=bytes, and &columns=N\n"),
            })
        }
        _ => None,
    }
}

/// The value of a name in a query.
fn value<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(it, _)| *it == name).map(|(_, value)| value)
}

fn json(content: &impl Serialize) -> Page {
    let page = match serde_json::to_string(content) {
        Ok(body) => Page::of(200, PageKind::Json, body),
        Err(error) => Page::text(503, format!("{error}\n")),
    };
    Page {
        headers: &HEADERS,
        ..page
    }
}
