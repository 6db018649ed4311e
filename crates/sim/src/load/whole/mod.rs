//! A load on the cores that ship.
//!
//! What a proxy or a worker hears at one moment it deals with at once. A worker whose requests take
//! time is busy for as long; what arrives meanwhile waits for its next turn, in which each connection
//! is one batch, as in the server's event loop.
//!
//! ```text
//!  applications ──local──> proxies ──network──> workers ──network──> workers of other servers
//! ```

mod applications;
mod client;
mod delivery;
mod network;
mod now;
mod proxies;
mod proxy;
mod worker;
mod workers;

use super::cluster::map_of;
use super::names::KeyNames;
use super::report::Tally;
use super::{Arrivals, CLIENT_STREAM, KeyPlacement, LoadPlan, LoadReport, ReadChoice};
use crate::history::Nanos;
use crate::world::queue::Queue;
use client::Client;
use core::time::Duration;
use evenkeel_protocol::Limits;
use evenkeel_server_core::Message;
use evenkeel_types::map::ClusterMap;
use evenkeel_workload::rng::{WorkloadRng, below, stream};
use evenkeel_workload::{Schedule, Workload, WorkloadStream};
use network::Network;
use now::now_at;
use proxy::Proxy;
use std::sync::Arc;
use worker::Worker;

/// How often timers are looked at.
const TICK: Nanos = 10_000_000;

/// How often servers hear of the mean load of all, as by heartbeats.
const HEARTBEAT: Nanos = 1_000_000_000;

/// Bytes are on their way for one of two times, and stand in line for each.
const LINES: usize = 2;

#[derive(Debug)]
enum Event {
    /// Bytes arrive at an end of a connection.
    Bytes(usize, usize, Vec<u8>),
    /// A connection stands, at its initiator.
    Open(usize),
    /// An application asks for the first time, in a closed loop or to fill the servers.
    Ask(usize),
    /// A worker is done with its turn.
    Turn(usize),
    /// A worker hears from another one of its server.
    Inside(usize, u16, Box<Message>),
    Tick,
    Heartbeat,
    Measure,
}

/// A cluster under load.
#[derive(Debug)]
struct Cluster<'a> {
    plan: &'a LoadPlan,
    time: Nanos,
    queue: Queue<Event, LINES>,
    network: Network,
    workers: Vec<Worker>,
    proxies: Vec<Proxy>,
    clients: Vec<Client>,
    names: KeyNames,
    /// What stands between the key of a set and its value.
    set_words: Vec<u8>,
    workload: Workload,
    requests: WorkloadStream,
    /// Where the next keys are drawn to.
    drawn: Vec<u64>,
    /// When requests are due, from when the load began; none in a closed loop.
    schedule: Option<Schedule>,
    /// Applications that have keys left to set before the load begins.
    filling: usize,
    /// When the load began.
    begun: Nanos,
    /// When it ends.
    end: Nanos,
    random: WorkloadRng,
    tally: Tally,
    simulated: u64,
    wrong: Option<String>,
}

/// Runs a load to its end.
///
/// # Errors
/// When the plan is out of bounds, or an application was answered what it must not be.
pub fn run(plan: &LoadPlan) -> Result<LoadReport, String> {
    plan.validate()?;
    if plan.reads != ReadChoice::Guarded {
        return Err(format!(
            "the whole mode reads as what ships does, not {}",
            plan.reads
        ));
    }
    if plan.balancing.is_some() {
        return Err("the whole mode moves no cachelets: take the fast one".into());
    }
    let mut cluster = Cluster::new(plan)?;
    let begun = std::time::Instant::now();
    cluster.start();
    cluster.run()?;
    let (elapsed, simulated) = (begun.elapsed().as_secs_f64(), cluster.simulated);
    cluster.count_served();
    Ok(LoadReport::new(
        plan.length,
        &cluster.tally,
        simulated,
        elapsed,
        None,
    ))
}

impl<'a> Cluster<'a> {
    fn new(plan: &'a LoadPlan) -> Result<Self, String> {
        let map: Option<Arc<ClusterMap>> = match plan.placement {
            KeyPlacement::Map => Some(map_of(plan)?),
            KeyPlacement::Plain(_) => None,
        };
        let limits = Limits {
            item_size_max: plan.value_bytes.max(64 << 10),
            ..Limits::default()
        };
        let workers = worker::start(plan, limits, map.as_ref())?;
        let workload = plan.workload()?;
        Ok(Cluster {
            plan,
            time: 0,
            queue: Queue::new(),
            network: Network::default(),
            tally: Tally::new(workers.len()),
            workers,
            proxies: proxy::start(plan, limits, map.as_ref())?,
            clients: Vec::new(),
            names: KeyNames::of_seed(plan.seed),
            set_words: format!(" 0 0 {}\r\n", plan.value_bytes).into_bytes(),
            requests: workload.stream(0, 1),
            drawn: Vec::new(),
            schedule: workload.schedule(0, 1),
            workload,
            filling: 0,
            begun: 0,
            end: Nanos::MAX,
            random: stream(plan.seed, CLIENT_STREAM),
            simulated: 0,
            wrong: None,
        })
    }

    fn start(&mut self) {
        self.queue.push(TICK, Event::Tick);
        self.queue.push(HEARTBEAT, Event::Heartbeat);
        self.connect_clients();
        if self.plan.prefill {
            self.filling = self.clients.len();
            for client in 0..self.clients.len() {
                self.queue.push(0, Event::Ask(client));
            }
        } else {
            self.begin();
        }
    }

    /// The load begins.
    fn begin(&mut self) {
        self.begun = self.time;
        let measured = self.begun + self.plan.warm_up;
        self.end = measured + self.plan.length;
        self.tally.measure(measured, self.plan.length);
        self.queue.push(measured, Event::Measure);
        if let Arrivals::Closed { .. } = self.plan.arrivals {
            for client in 0..self.clients.len() {
                // Not all in step.
                let at = self.time + below(&mut self.random, 1_000_000);
                self.queue.push(at, Event::Ask(client));
            }
        }
    }

    fn run(&mut self) -> Result<(), String> {
        loop {
            let due = self.next_due();
            match self.queue.pop_until(due.min(self.end)) {
                Some((at, event)) => {
                    self.time = at;
                    self.happen(event);
                }
                None if due <= self.end => {
                    self.time = due;
                    self.ask_when_due();
                }
                None => return Ok(()),
            }
            if let Some(wrong) = self.wrong.take() {
                return Err(wrong);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Bytes(connection, end, bytes) => self.arrived(connection, end, bytes),
            Event::Open(connection) => self.opened(connection),
            Event::Ask(client) => self.ask_again(client),
            Event::Turn(worker) => self.turn_ended(worker),
            Event::Inside(worker, from, message) => {
                let now = now_at(self.time);
                let core = &mut self.workers[worker].core;
                core.handle_whole_message(now, from, *message);
                self.pump_worker(worker, self.time);
            }
            Event::Tick => self.tick(),
            Event::Heartbeat => {
                self.queue.push(self.time + HEARTBEAT, Event::Heartbeat);
                let loads = self.workers.iter().map(|worker| worker.core.load());
                let mean = loads.sum::<f64>() / self.workers.len() as f64;
                for worker in &mut self.workers {
                    worker.core.handle_cluster_load(mean);
                }
            }
            Event::Measure => {
                for worker in &mut self.workers {
                    worker.begin_to_count();
                }
            }
        }
    }

    fn tick(&mut self) {
        self.queue.push(self.time + TICK, Event::Tick);
        let now = now_at(self.time);
        for worker in 0..self.workers.len() {
            let worked = core::mem::take(&mut self.workers[worker].worked);
            let core = &mut self.workers[worker].core;
            // Servers that take no time are never idle.
            if !self.plan.service.is_free() {
                let slept = TICK.saturating_sub(worked);
                core.handle_slept(Duration::from_nanos(slept));
            }
            if core.poll_deadline() <= now.monotonic {
                core.handle_timeout(now);
            }
            core.maintain(now);
            self.pump_worker(worker, self.time);
        }
        for proxy in 0..self.proxies.len() {
            let core = &mut self.proxies[proxy].core;
            if core.poll_deadline().is_some_and(|at| at <= now.monotonic) {
                core.handle_timeout(now.monotonic);
                self.pump_proxy(proxy);
            }
        }
    }

    fn count_served(&mut self) {
        let now = now_at(self.time);
        for (worker, served) in self.workers.iter_mut().zip(&mut self.tally.served) {
            let (keys, replica_reads) = worker.counted();
            *served = keys;
            self.tally.replica_reads += replica_reads;
            let spread = worker.core.hot_keys_view(now, true).keys;
            let replicas = spread.iter().map(|key| key.shadows.len() as u64);
            self.tally.replicas += replicas.sum::<u64>();
        }
    }
}
