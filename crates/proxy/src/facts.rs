//! What a process knows of itself, and what its workers have counted.

use crate::active_config::ActiveConfig;
use crate::control::{Control, ReloadCounts, WorkerHandle};
use crate::recorder::Sink;
use evenkeel_proxy_core::{ProcessFacts, ProcessStats};
use evenkeel_runtime::budget::Pool;
use evenkeel_runtime::names::Resolver;
use evenkeel_runtime::watchdog::TurnCounts;
use evenkeel_runtime::{Clock, ConnectionCount};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long workers have to say what they counted. A worker that is busy for longer is not well.
const COUNT_TIME: Duration = Duration::from_secs(1);

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
}
