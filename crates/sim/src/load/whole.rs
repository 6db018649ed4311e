//! A load on the cores that ship.
//!
//! What a proxy or a worker hears at one moment it deals with at once. A worker whose requests take
//! time is busy for as long; what arrives meanwhile waits for its next turn, in which each connection
//! is one batch, as in the server's event loop.

use super::cluster::{map_of, worker_at, worker_ref};
use super::{Arrivals, LoadPlan, LoadReport, Tally, key_name, key_of};
use crate::history::Nanos;
use crate::world::queue::Queue;
use core::time::Duration;
use evenkeel_policy::placement::map::ClusterMap;
use evenkeel_protocol::Limits;
use evenkeel_roles::proxy::{
    BackendId, ClientId, MapSource, OnDown, Output, PoolKind, PoolSettings, ProcessStats,
    ProxyConfig, ProxyCore,
};
use evenkeel_roles::server::{
    AdminConfig, AuthMode, ConnectionId, LinkRequest, Message, Peer, WorkerConfig, WorkerCore,
    first_version,
};
use evenkeel_storage::{PoolConfig, SegmentPool};
use evenkeel_types::{BootId, Instant, Now, WorkerRef};
use evenkeel_workload::RankSampler;
use evenkeel_workload::rng::{WorkloadRng, below, stream, unit};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::sync::Arc;

const MAP_SOURCE: MapSource = MapSource(1);

/// How often timers are looked at.
const TICK: Nanos = 10_000_000;

/// How often servers hear of the mean load of all, as by heartbeats.
const HEARTBEAT: Nanos = 1_000_000_000;

/// Commands of one connection that a worker carries out before others have their turn.
const REQUESTS_PER_TURN: u32 = 1_000;

/// Two ends of a connection.
const INITIATOR: usize = 0;
const ACCEPTOR: usize = 1;

#[derive(Clone, Copy, Debug)]
enum Who {
    Client(usize),
    ProxyClient(usize, ClientId),
    Backend(usize, BackendId),
    Link(usize, WorkerRef),
    Session(usize, ConnectionId),
    Gone,
}

#[derive(Debug)]
struct Connection {
    ends: [Who; 2],
    /// Received and not consumed.
    input: [Vec<u8>; 2],
    /// Waits for a turn of its worker already.
    waits: bool,
}

#[derive(Debug)]
enum Event {
    /// Bytes arrive at an end.
    Bytes(usize, usize, Vec<u8>),
    /// A connection stands, at its initiator.
    Open(usize),
    /// An application asks, by an open loop.
    Ask(usize),
    /// A worker is done with its turn.
    Turn(usize),
    Inside(usize, u16, Message),
    Tick,
    Heartbeat,
    Measure,
}

#[derive(Debug)]
struct Worker {
    core: WorkerCore,
    links: BTreeMap<WorkerRef, (usize, bool)>,
    /// Connections with input, in the order in which it came.
    ready: VecDeque<usize>,
    busy: bool,
    sessions: BTreeMap<(u32, u32), usize>,
    /// Commands and reads of replicas before it was measured.
    counted: (u64, u64),
}

impl Worker {
    fn counts(&mut self) -> (u64, u64) {
        let counters = self.core.counters();
        (counters.cmd_meta, counters.replica_hits)
    }
}

#[derive(Debug)]
struct Proxy {
    core: ProxyCore,
    clients: BTreeMap<ClientId, usize>,
    backends: BTreeMap<BackendId, (usize, bool)>,
}

/// What an application awaits.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    key: u64,
    is_get: bool,
    asked: Nanos,
}

#[derive(Debug)]
struct Client {
    connection: usize,
    awaited: VecDeque<Awaited>,
}

/// A cluster under load.
#[derive(Debug)]
struct Cluster<'a> {
    plan: &'a LoadPlan,
    time: Nanos,
    queue: Queue<Event>,
    connections: Vec<Connection>,
    workers: Vec<Worker>,
    proxies: Vec<Proxy>,
    clients: Vec<Client>,
    sampler: RankSampler,
    random: WorkloadRng,
    tally: Tally,
    simulated: u64,
    wrong: Option<String>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
}

/// Most spare buffers.
const SPARE_MAX: usize = 1024;

/// Runs a load to its end.
///
/// # Errors
/// When the plan is out of bounds, or an application was answered what it must not be.
pub fn run(plan: &LoadPlan) -> Result<LoadReport, String> {
    plan.validate()?;
    let begun = std::time::Instant::now();
    let map = map_of(plan)?;
    let mut cluster = Cluster::new(plan, &map)?;
    cluster.start();
    let end = plan.warm_up + plan.length;
    while let Some((at, event)) = cluster.queue.pop() {
        if at > end {
            break;
        }
        cluster.time = at;
        cluster.happen(event);
        if let Some(wrong) = cluster.wrong {
            return Err(wrong);
        }
    }
    let (elapsed, simulated) = (begun.elapsed().as_secs_f64(), cluster.simulated);
    cluster.count_served();
    Ok(LoadReport::new(plan, &cluster.tally, simulated, elapsed))
}

impl<'a> Cluster<'a> {
    fn new(plan: &'a LoadPlan, map: &Arc<ClusterMap>) -> Result<Self, String> {
        let limits = Limits {
            item_size_max: plan.value_bytes.max(64 << 10),
            ..Limits::default()
        };
        let start = now_at(0);
        let mut workers = Vec::with_capacity(plan.workers());
        for server in 0..plan.servers {
            let pool = SegmentPool::new(PoolConfig {
                limit_bytes: plan.memory_bytes,
                item_size_max: limits.item_size_max,
                cachelets_expected: plan.cachelets_per_worker
                    * usize::from(plan.workers_per_server),
            });
            for index in 0..plan.workers_per_server {
                let config = WorkerConfig {
                    index,
                    workers: plan.workers_per_server,
                    limits,
                    requests_per_turn: REQUESTS_PER_TURN,
                    allow_flush: true,
                    evict: true,
                    clustered: true,
                    cas_shown: true,
                    auth: AuthMode::Open,
                    admin: AdminConfig::default(),
                    hot_keys: plan.hot_keys.clone(),
                    seed: plan.seed ^ (workers.len() as u64 + 1),
                    boot: BootId(server as u64 + 1),
                    start,
                    first_version: first_version(plan.seed ^ server as u64),
                };
                let mut core = WorkerCore::new(config, &pool).map_err(|error| error.to_string())?;
                core.handle_map(start, map, worker_ref(plan, workers.len()).server);
                workers.push(Worker {
                    core,
                    links: BTreeMap::new(),
                    ready: VecDeque::new(),
                    busy: false,
                    sessions: BTreeMap::new(),
                    counted: (0, 0),
                });
            }
        }
        let settings = PoolSettings {
            connect_timeout: Duration::from_secs(10),
            // A load beyond what servers carry is to be seen as latency.
            request_timeout: Duration::from_secs(600),
            on_down: OnDown::Error,
            ..PoolSettings::default()
        };
        let mut config = ProxyConfig::of_pool(PoolKind::Evenkeel(MAP_SOURCE), settings);
        config.limits.item_size_max = limits.item_size_max;
        config.requests_per_turn = REQUESTS_PER_TURN;
        let config = Arc::new(config);
        let proxies = (0..plan.proxies).map(|i| {
            let mut core = ProxyCore::new(&config, plan.seed ^ (i as u64) << 32);
            core.set_map(start.monotonic, MAP_SOURCE, map);
            Proxy {
                core,
                clients: BTreeMap::new(),
                backends: BTreeMap::new(),
            }
        });
        let sampler = RankSampler::new(plan.keys, plan.popularity).map_err(|e| e.to_string())?;
        Ok(Cluster {
            plan,
            time: 0,
            queue: Queue::new(),
            connections: Vec::new(),
            proxies: proxies.collect(),
            clients: Vec::new(),
            sampler,
            random: stream(plan.seed, 0),
            tally: Tally::new(workers.len()),
            workers,
            simulated: 0,
            wrong: None,
            spare: Vec::new(),
        })
    }

    fn start(&mut self) {
        for client in 0..self.plan.clients {
            let proxy = client % self.plan.proxies;
            let id = self.proxies[proxy].core.client_opened();
            let connection = self.connect(Who::Client(client), Who::ProxyClient(proxy, id));
            self.proxies[proxy].clients.insert(id, connection);
            self.clients.push(Client {
                connection,
                awaited: VecDeque::new(),
            });
            let at = match self.plan.arrivals {
                Arrivals::Open { .. } => self.pause(),
                Arrivals::Closed { .. } => below(&mut self.random, 1_000_000),
            };
            self.queue.push(at, Event::Ask(client));
        }
        self.queue.push(TICK, Event::Tick);
        self.queue.push(HEARTBEAT, Event::Heartbeat);
        self.queue.push(self.plan.warm_up, Event::Measure);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Bytes(connection, end, bytes) => self.arrived(connection, end, bytes),
            Event::Open(connection) => self.opened(connection),
            Event::Ask(client) => self.ask(client),
            Event::Turn(worker) => {
                self.workers[worker].busy = false;
                self.take_turn(worker);
            }
            Event::Inside(worker, from, message) => {
                let now = now_at(self.time);
                let core = &mut self.workers[worker].core;
                core.handle_message(now, from, message);
                self.settle_worker(worker, self.time);
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
                self.tally.reset();
                for worker in &mut self.workers {
                    worker.counted = worker.counts();
                }
            }
        }
    }

    fn tick(&mut self) {
        self.queue.push(self.time + TICK, Event::Tick);
        let now = now_at(self.time);
        for worker in 0..self.workers.len() {
            let core = &mut self.workers[worker].core;
            if core.poll_deadline() <= now.monotonic {
                core.handle_timeout(now);
            }
            core.maintain(now);
            self.settle_worker(worker, self.time);
        }
        for proxy in 0..self.proxies.len() {
            let core = &mut self.proxies[proxy].core;
            if core.poll_deadline().is_some_and(|at| at <= now.monotonic) {
                core.handle_timeout(now.monotonic);
                self.settle_proxy(proxy);
            }
        }
    }

    // The network.

    fn connect(&mut self, from: Who, to: Who) -> usize {
        self.connections.push(Connection {
            ends: [from, to],
            input: [Vec::new(), Vec::new()],
            waits: false,
        });
        self.connections.len() - 1
    }

    /// A connection to a worker is asked for, and stands after a round trip.
    fn connect_to_worker(&mut self, from: Who, worker: usize) -> usize {
        let id = self.workers[worker].core.open(Peer::default());
        let connection = self.connect(from, Who::Session(worker, id));
        let key = (id.slot, id.generation);
        self.workers[worker].sessions.insert(key, connection);
        let at = self.time + 2 * self.plan.network;
        self.queue.push(at, Event::Open(connection));
        connection
    }

    fn send(&mut self, connection: usize, from: usize, at: Nanos, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let is_local = matches!(self.connections[connection].ends[INITIATOR], Who::Client(_));
        let delay = if is_local {
            self.plan.local
        } else {
            self.plan.network
        };
        self.queue
            .push(at + delay, Event::Bytes(connection, 1 - from, bytes));
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn give_back(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    fn opened(&mut self, connection: usize) {
        let now = now_at(self.time);
        match self.connections[connection].ends[INITIATOR] {
            Who::Backend(proxy, id) => {
                let p = &mut self.proxies[proxy];
                if let Some((_, stands)) = p.backends.get_mut(&id) {
                    *stands = true;
                    p.core.backend_connected(id);
                }
                self.settle_proxy(proxy);
            }
            Who::Link(worker, shadow) => {
                let w = &mut self.workers[worker];
                if let Some((_, stands)) = w.links.get_mut(&shadow) {
                    *stands = true;
                    w.core.link_up(now, shadow);
                }
                self.settle_worker(worker, self.time);
            }
            _ => {}
        }
    }

    fn arrived(&mut self, connection: usize, end: usize, bytes: Vec<u8>) {
        let input = &mut self.connections[connection].input[end];
        let bytes = if input.is_empty() {
            core::mem::replace(input, bytes)
        } else {
            input.extend_from_slice(&bytes);
            bytes
        };
        self.give_back(bytes);
        let now = now_at(self.time);
        match self.connections[connection].ends[end] {
            Who::Client(client) => self.take_answers(client),
            Who::ProxyClient(proxy, id) => {
                if self.proxies[proxy].core.client_wants_input(id) {
                    self.feed_proxy(proxy, id, connection);
                }
                self.settle_proxy(proxy);
            }
            Who::Backend(proxy, id) => {
                let input = &mut self.connections[connection].input[INITIATOR];
                let core = &mut self.proxies[proxy].core;
                let consumed = core.backend_input(now.monotonic, id, input);
                consume(input, consumed);
                self.settle_proxy(proxy);
            }
            Who::Link(worker, shadow) => {
                let input = &mut self.connections[connection].input[INITIATOR];
                let core = &mut self.workers[worker].core;
                let consumed = core.link_input(now, shadow, input);
                consume(input, consumed);
                self.settle_worker(worker, self.time);
            }
            Who::Session(worker, _) => {
                if !core::mem::replace(&mut self.connections[connection].waits, true) {
                    self.workers[worker].ready.push_back(connection);
                }
                self.take_turn(worker);
            }
            Who::Gone => {}
        }
    }

    // Workers.

    /// Serves every connection that has something to say, if the worker is not busy.
    fn take_turn(&mut self, worker: usize) {
        if self.workers[worker].busy {
            return;
        }
        let now = now_at(self.time);
        let mut done_at = self.time;
        let ready = core::mem::take(&mut self.workers[worker].ready);
        for connection in ready {
            let Who::Session(_, id) = self.connections[connection].ends[ACCEPTOR] else {
                continue;
            };
            self.connections[connection].waits = false;
            let mut out = self.buffer();
            let core = &mut self.workers[worker].core;
            let before = operations(core);
            let input = &mut self.connections[connection].input[ACCEPTOR];
            let mut bytes = 0;
            // Everything that is complete, however many turns of fairness that takes.
            loop {
                let progress = core.handle_input(now, id, &input[bytes..]);
                bytes += progress.consumed;
                if let Some(session) = core.session(id) {
                    out.append(&mut session.out);
                }
                if !progress.more || progress.consumed == 0 {
                    break;
                }
            }
            consume(input, bytes);
            if !self.plan.service.is_free() {
                let count = operations(core) - before;
                let moved = (bytes + out.len()) as u64;
                done_at += self.plan.service.cost(count, moved, 1);
            }
            if out.is_empty() {
                self.give_back(out);
            } else {
                self.send(connection, ACCEPTOR, done_at, out);
            }
        }
        self.settle_worker(worker, done_at);
        if done_at > self.time {
            self.workers[worker].busy = true;
            self.queue.push(done_at, Event::Turn(worker));
        }
    }

    /// Carries out what a worker wants after anything that it was told.
    fn settle_worker(&mut self, worker: usize, at: Nanos) {
        let first = worker - usize::from(worker_ref(self.plan, worker).worker);
        let from = (worker - first) as u16;
        let w = &mut self.workers[worker];
        if w.core.has_outbox() {
            let mut messages = Vec::new();
            w.core.flush_outbox(|to, message| {
                messages.push((to, message));
                Ok(())
            });
            for (to, message) in messages {
                let to = first + usize::from(to);
                self.queue.push(at + 1, Event::Inside(to, from, message));
            }
        }
        while let Some(request) = self.workers[worker].core.poll_link_request() {
            match request {
                LinkRequest::Connect {
                    worker: shadow,
                    host,
                    port,
                } => {
                    let target = worker_at(self.plan, &host, port);
                    let connection = self.connect_to_worker(Who::Link(worker, shadow), target);
                    self.workers[worker]
                        .links
                        .insert(shadow, (connection, false));
                }
                LinkRequest::Close(shadow) => {
                    if let Some((connection, _)) = self.workers[worker].links.remove(&shadow) {
                        self.hang_up(connection);
                    }
                }
            }
        }
        if !self.workers[worker].links.is_empty() {
            self.move_links(worker, at);
        }
        while let Some(id) = self.workers[worker].core.poll_touched() {
            let w = &mut self.workers[worker];
            let connection = w.sessions.get(&(id.slot, id.generation)).copied();
            let out = w
                .core
                .session(id)
                .map(|session| core::mem::take(&mut session.out));
            if let (Some(connection), Some(out)) = (connection, out) {
                self.send(connection, ACCEPTOR, at, out);
            }
        }
    }

    fn move_links(&mut self, worker: usize, at: Nanos) {
        let w = &mut self.workers[worker];
        let mut sent = Vec::new();
        for (&shadow, &(connection, stands)) in &w.links {
            if stands && let Some(out) = w.core.link_out(shadow).filter(|out| !out.is_empty()) {
                sent.push((connection, core::mem::take(out)));
            }
        }
        for (connection, bytes) in sent {
            self.send(connection, INITIATOR, at, bytes);
        }
    }

    /// A connection ends at both ends.
    fn hang_up(&mut self, connection: usize) {
        let ends = core::mem::replace(&mut self.connections[connection].ends, [Who::Gone; 2]);
        for end in ends {
            if let Who::Session(worker, id) = end {
                let w = &mut self.workers[worker];
                w.core.close(id);
                w.sessions.remove(&(id.slot, id.generation));
            }
        }
    }

    // Proxies.

    fn feed_proxy(&mut self, proxy: usize, id: ClientId, connection: usize) {
        let input = &mut self.connections[connection].input[ACCEPTOR];
        let core = &mut self.proxies[proxy].core;
        let consumed = core.client_input(Instant(self.time), id, input);
        consume(input, consumed);
    }

    /// Does what a proxy says until it says nothing.
    fn settle_proxy(&mut self, proxy: usize) {
        while let Some(output) = self.proxies[proxy].core.poll_output() {
            self.carry_out(proxy, output);
        }
    }

    fn carry_out(&mut self, proxy: usize, output: Output) {
        let mut bytes = self.buffer();
        let p = &mut self.proxies[proxy];
        match output {
            Output::WriteClient(id) => {
                if let Some(&connection) = p.clients.get(&id) {
                    bytes.extend_from_slice(p.core.client_output(id));
                    p.core.client_wrote(id, bytes.len());
                    return self.send(connection, ACCEPTOR, self.time, bytes);
                }
            }
            Output::FeedClient(id) => {
                if let Some(&connection) = p.clients.get(&id) {
                    self.feed_proxy(proxy, id, connection);
                }
            }
            Output::Connect { id, host, port, .. } => {
                let worker = worker_at(self.plan, &host, port);
                let connection = self.connect_to_worker(Who::Backend(proxy, id), worker);
                self.proxies[proxy].backends.insert(id, (connection, false));
            }
            Output::WriteBackend(id) => {
                if let Some(&(connection, true)) = p.backends.get(&id) {
                    p.core.begin_turn(Instant(self.time));
                    bytes.extend_from_slice(p.core.backend_output(id));
                    p.core.backend_wrote(id, bytes.len());
                    return self.send(connection, INITIATOR, self.time, bytes);
                }
            }
            Output::CloseBackend(id) => {
                if let Some((connection, _)) = p.backends.remove(&id) {
                    self.hang_up(connection);
                }
            }
            Output::CloseClient(id) => {
                p.clients.remove(&id);
                self.wrong = Some("a proxy closed the connection of an application".into());
            }
            Output::Stats(ticket) => {
                let now = Instant(self.time);
                p.core.answer_stats(now, ticket, &ProcessStats::default());
            }
            // There is one map.
            Output::WantMap { .. } | Output::ResetStats | Output::Log(_) => {}
        }
        self.give_back(bytes);
    }

    // Applications.

    /// Time until an application's next request of an open loop.
    fn pause(&mut self) -> Nanos {
        let Arrivals::Open { rate } = self.plan.arrivals else {
            return 0;
        };
        let mean = self.plan.clients as f64 / rate * 1e9;
        (-(1.0 - unit(&mut self.random)).ln() * mean) as Nanos
    }

    fn ask(&mut self, client: usize) {
        let count = match self.plan.arrivals {
            Arrivals::Open { .. } => {
                let next = self.time + self.pause();
                self.queue.push(next, Event::Ask(client));
                1
            }
            Arrivals::Closed { pipeline } => pipeline,
        };
        let mut bytes = self.buffer();
        for _ in 0..count {
            let key = self.sampler.sample(&mut self.random);
            let is_get = unit(&mut self.random) < self.plan.get_share;
            self.compose(client, key, is_get, &mut bytes);
        }
        let connection = self.clients[client].connection;
        self.send(connection, INITIATOR, self.time, bytes);
    }

    fn compose(&mut self, client: usize, key: u64, is_get: bool, out: &mut Vec<u8>) {
        let name = key_name(key);
        if is_get {
            out.extend_from_slice(b"get ");
            out.extend_from_slice(&name);
        } else {
            out.extend_from_slice(b"set ");
            out.extend_from_slice(&name);
            write!(out, " 0 0 {}\r\n", self.plan.value_bytes)
                .expect("writing to memory cannot fail");
            // Each value begins with its key, as far as there is room.
            let end = out.len() + self.plan.value_bytes;
            out.extend_from_slice(&name[..name.len().min(self.plan.value_bytes)]);
            out.resize(end, b'v');
        }
        out.extend_from_slice(b"\r\n");
        self.clients[client].awaited.push_back(Awaited {
            key,
            is_get,
            asked: self.time,
        });
    }

    fn take_answers(&mut self, client: usize) {
        let connection = self.clients[client].connection;
        let input = core::mem::take(&mut self.connections[connection].input[INITIATOR]);
        let mut rest = &input[..];
        let mut missed = Vec::new();
        while let Some(&awaited) = self.clients[client].awaited.front() {
            match answer_len(rest, &awaited, self.plan.value_bytes) {
                Answer::Incomplete => break,
                Answer::Wrong => {
                    let shown = rest[..rest.len().min(100)].escape_ascii();
                    self.wrong = Some(format!("{awaited:?} was answered {shown}"));
                    return;
                }
                Answer::Whole { len, hit } => {
                    rest = &rest[len..];
                    self.clients[client].awaited.pop_front();
                    self.simulated += 1;
                    self.tally.answered(self.time - awaited.asked);
                    self.tally.gets += u64::from(awaited.is_get);
                    self.tally.hits += u64::from(awaited.is_get && hit);
                    if awaited.is_get && !hit && self.plan.fill {
                        missed.push(awaited.key);
                    }
                }
            }
        }
        let left = rest.len();
        let mut input = input;
        let taken = input.len() - left;
        consume(&mut input, taken);
        self.connections[connection].input[INITIATOR] = input;
        if !missed.is_empty() {
            let mut bytes = self.buffer();
            for key in missed {
                self.compose(client, key, false, &mut bytes);
            }
            self.send(connection, INITIATOR, self.time, bytes);
        }
        let is_closed = matches!(self.plan.arrivals, Arrivals::Closed { .. });
        if is_closed && self.clients[client].awaited.is_empty() {
            self.ask(client);
        }
    }

    fn count_served(&mut self) {
        for (worker, served) in self.workers.iter_mut().zip(&mut self.tally.served) {
            let (commands, replica_reads) = worker.counts();
            *served = commands - worker.counted.0;
            self.tally.replica_reads += replica_reads - worker.counted.1;
        }
    }
}

/// The time as every process of the cluster sees it.
fn now_at(time: Nanos) -> Now {
    const START_UNIX: u64 = 1_800_000_000;
    Now {
        monotonic: Instant(time),
        unix: (START_UNIX + time / 1_000_000_000) as u32,
    }
}

/// Commands that a worker has carried out; proxies send meta commands alone.
fn operations(core: &mut WorkerCore) -> u64 {
    core.counters().cmd_meta
}

fn consume(input: &mut Vec<u8>, count: usize) {
    if count == input.len() {
        input.clear();
    } else {
        input.drain(..count);
    }
}

enum Answer {
    Incomplete,
    Wrong,
    Whole { len: usize, hit: bool },
}

/// How long the answer to a request is, which has few forms.
fn answer_len(input: &[u8], awaited: &Awaited, value_bytes: usize) -> Answer {
    let whole = |text: &[u8], hit| {
        if input.starts_with(text) {
            Answer::Whole {
                len: text.len(),
                hit,
            }
        } else if text.starts_with(input) {
            Answer::Incomplete
        } else {
            Answer::Wrong
        }
    };
    if !awaited.is_get {
        return whole(b"STORED\r\n", true);
    }
    if !input.starts_with(b"V") {
        return whole(b"END\r\n", false);
    }
    let Some(line) = input.iter().position(|&byte| byte == b'\n') else {
        return Answer::Incomplete;
    };
    let len = line + 1 + value_bytes + b"\r\nEND\r\n".len();
    if input.len() < len {
        return Answer::Incomplete;
    }
    let value = &input[line + 1..line + 1 + value_bytes];
    let name = key_name(awaited.key);
    let is_right = key_of(input.get(6..6 + name.len()).unwrap_or_default()) == Some(awaited.key)
        && value.starts_with(&name[..name.len().min(value_bytes)])
        && input[..len].ends_with(b"\r\nEND\r\n");
    if is_right {
        Answer::Whole { len, hit: true }
    } else {
        Answer::Wrong
    }
}
