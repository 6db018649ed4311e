//! The simulated cluster: one queue of events, and the rules of what each event does.
//!
//! Hosts are numbered: servers first, then proxies, the coordinator, and one host for all
//! applications. Every event has a time and a number, so that equal plans give equal runs.

mod answers;
mod application;
mod applications;
mod checks;
mod command;
mod connection;
mod control;
mod coordinator;
mod ending;
mod event;
mod fault;
mod fault_coverage;
mod fault_schedule;
mod faults;
mod leading;
mod leases;
mod led;
mod led_racks;
mod led_report;
mod led_ring;
mod line;
mod migrations;
mod mutants;
mod network;
mod observing;
mod operators;
mod plan;
mod process;
mod proxies;
mod proxy;
pub(crate) mod queue;
mod register;
mod report;
mod server;
mod servers;
mod step_faults;
mod story;
mod swarm;
mod units;
mod voting;

pub use fault::Fault;
pub use fault_coverage::{FaultCase, FaultCoverage, Occasion, StepFault};
pub use led_report::{LedKind, LedReport, Mischance, Moment, RackStep, Tally};
pub use line::{Line, Listener};
pub use plan::{Cluster, LENGTH, LENGTH_MIN, Plan, SERVERS, SERVERS_MAX, SERVERS_MIN};
pub use report::Report;
pub use swarm::{Habit, Habits, Hazard, Hazards, Swarm};

use crate::history::{History, Nanos, Operation};
use crate::random::Random;
use application::Application;
use connection::{Arrival, Connection, ConnectionNumber, Who};
use coordinator::Coordinator;
use core::time::Duration;
use evenkeel_coordinator_core::limits::YOUNG_FOR;
use evenkeel_hotkeys::config::Mode;
use evenkeel_proxy_core::OnDown;
use evenkeel_types::map::ClusterMap;
use evenkeel_types::promise::Consistency;
use evenkeel_types::{CacheletId, Epoch, KeyHash, WorkerRef};
use event::Event;
use fault_coverage::Trap;
use fault_schedule::FaultSchedule;
use leading::Led;
use led_racks::LedRacks;
use led_ring::LedRing;
use plan::FIRST_MISHAP;
use process::Process;
use proxy::Proxy;
use queue::Queue;
use register::Register;
use server::Server;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::MS;

/// Mean pauses of applications between two sendings of one to four commands: a cluster has three to
/// nine applications, and so some 250 operations a second on average.
const PAUSE_MIN: Nanos = 15 * MS;
const PAUSE_MAX: Nanos = 90 * MS;

/// What a run has come to.
#[derive(Debug)]
pub struct Outcome {
    /// What happened.
    pub report: Report,
    /// What must not have happened, told in words.
    pub violations: Vec<String>,
    /// What applications were told and what homes did.
    pub history: History,
}

/// A cluster in the middle of a run.
pub struct World {
    plan: Plan,
    random: Random,
    time: Nanos,
    queue: Queue<Event>,
    report: Report,
    listener: Option<Listener>,
    violations: Vec<String>,
    // The hosts.
    servers: Vec<Server>,
    workers_per_server: u16,
    proxies: Vec<Proxy>,
    coordinator: Coordinator,
    applications: Vec<Application>,
    // The network.
    connections: Vec<Connection>,
    fault_schedule: FaultSchedule,
    /// Links that stand.
    linked: BTreeSet<ConnectionNumber>,
    // The members.
    intervals: BTreeMap<usize, Nanos>,
    /// Lives that send heartbeats regularly already.
    beating: BTreeSet<(usize, u32)>,
    /// Of the map that everybody is to have next: see [`Event::Settle`].
    settled_epoch: Epoch,
    /// Every map that anybody was told of.
    maps: BTreeMap<Epoch, Arc<ClusterMap>>,
    // What applications do.
    keys: Vec<Vec<u8>>,
    /// Keys from here on are counters.
    texts: usize,
    misses_are_true: bool,
    clients: u32,
    writes: u64,
    // What is known.
    operations: Vec<Operation>,
    register: Register,
    /// With a fault: the last value that any shadow server was sent, for each key.
    old_fills: BTreeMap<u16, Vec<u8>>,
    /// The pool that is led, if one is.
    led: Option<Led>,
    /// Faults that wait, oldest first.
    traps: Vec<Trap>,
    /// Migrations of which the target has flushed what came before the source had decided.
    flushed_early: BTreeSet<(CacheletId, Epoch)>,
}

impl World {
    /// A cluster that is about to start.
    pub fn new(plan: Plan) -> Self {
        let swarm = plan.swarm;
        let mut random = Random::new(plan.seed);
        let count = plan.servers.clamp(SERVERS_MIN, SERVERS_MAX);
        let is_plain = plan.cluster == Cluster::Plain;
        let joiners = random.index(3).min(count - SERVERS_MIN);
        let initial = if is_plain { count } else { count - joiners };
        let proxies = if is_plain { 2 } else { 1 + random.index(3) };
        let is_led = is_plain && swarm.is_led;
        let pauses = match is_led {
            true => (leading::PAUSE_MIN, leading::PAUSE_MAX),
            false => (PAUSE_MIN, PAUSE_MAX),
        };
        let is_atomic = plan.consistency == Consistency::Atomic;
        // A miss where nobody was asked could not be held against the truth.
        let on_down = if random.chance(1, 2) || is_atomic {
            OnDown::Error
        } else {
            OnDown::Miss
        };
        let (keys, texts) = applications::names(&mut random, is_led);
        let drift = swarm.drift_ppm;
        let servers: Vec<_> = (0..count)
            .map(|_| {
                let process = Process::new(&mut random, false, drift);
                let is_old = swarm.has_old_servers && random.chance(1, 2);
                Server::new(process, !is_old)
            })
            .collect();
        let processes: Vec<_> = (0..proxies)
            .map(|_| Process::new(&mut random, true, drift))
            .collect();
        let leads = is_led.then_some(swarm.leads);
        let ring =
            (leads == Some(LedKind::Ring)).then(|| LedRing::new(count, proxies, &mut random));
        let racks = leads.and_then(|kind| LedRacks::new(kind, count));
        let config = match (leads, &ring) {
            (_, Some(ring)) => ring.config(on_down),
            (Some(LedKind::Copies), _) => leading::config_of_copies(count, on_down, &mut random),
            (Some(_), _) => leading::config(count, on_down),
            (None, _) => proxy::config(&plan, initial, proxy::settings(&plan, on_down)),
        };
        let config = Arc::new(config);
        // Each proxy has a rack of its own.
        let configs: Vec<_> = (0..processes.len())
            .map(|proxy| match &racks {
                Some(racks) => Arc::new(racks.config(proxy, on_down)),
                None => Arc::clone(&config),
            })
            .collect();
        let proxies: Vec<_> = processes
            .into_iter()
            .zip(&configs)
            .map(|(process, config)| Proxy::new(process, random.seed(), config))
            .collect();
        let process = Process::new(&mut random, true, drift);
        // One that has just begun makes no ring, and does not say that there are no copies.
        let age = match leads {
            Some(LedKind::Ring | LedKind::Copies) => YOUNG_FOR,
            _ => Duration::ZERO,
        };
        let coordinator = Coordinator::new(process, initial, random.seed(), age);
        let led = is_led.then(|| {
            let saved = coordinator.core.saved_state();
            Led::new(count, configs, (ring, racks), saved, &mut random)
        });
        let applications: Vec<_> = (0..proxies.len() * 3)
            .map(|i| {
                let pipeline_max = 1 + random.index(8);
                let pause = random.between(pauses.0, pauses.1);
                Application::new(i % proxies.len(), keys.len(), pipeline_max, pause)
            })
            .collect();
        let workers_per_server = if is_plain {
            1
        } else {
            1 + random.below(3) as u16
        };
        let racked = servers.len() + proxies.len() + 1;
        let mut world = World {
            plan,
            random,
            time: 0,
            queue: Queue::new(),
            report: Report::default(),
            listener: None,
            violations: Vec::new(),
            fault_schedule: FaultSchedule::new(racked + 1, racked, &swarm),
            servers,
            workers_per_server,
            proxies,
            coordinator,
            applications,
            connections: Vec::new(),
            linked: BTreeSet::new(),
            intervals: BTreeMap::new(),
            beating: BTreeSet::new(),
            settled_epoch: Epoch(0),
            maps: BTreeMap::new(),
            register: Register::new(keys.len()),
            keys,
            texts,
            misses_are_true: on_down == OnDown::Error,
            clients: 0,
            writes: 0,
            operations: Vec::new(),
            old_fills: BTreeMap::new(),
            led,
            traps: Vec::new(),
            flushed_early: BTreeSet::new(),
        };
        world.start(initial);
        world
    }

    fn start(&mut self, initial: usize) {
        for server in 0..initial {
            self.start_server(server);
        }
        for proxy in 0..self.proxies.len() {
            self.send_heartbeat_soon(self.servers.len() + proxy);
        }
        self.pace_migrations();
        self.begin_led();
        self.arm(self.coordinator_host());
        for application in 0..self.applications.len() {
            let at = self.random.below(200 * MS);
            self.at(at, Event::Open { application });
            self.at(200 * MS + at, Event::Act { application });
        }
        self.at(FIRST_MISHAP, Event::Mishap);
        self.at(1000 * MS, Event::Look);
        self.at(self.plan.quiet_from(), Event::Quiet);
        self.at(self.plan.quiescent_from(), Event::Settle);
    }

    /// Runs to the end and judges what happened.
    pub fn run(mut self) -> Outcome {
        while let Some((at, event)) = self.queue.pop() {
            if at > self.plan.length || !self.violations.is_empty() {
                break;
            }
            self.time = self.time.max(at);
            self.happen(event);
        }
        if self.violations.is_empty() {
            self.time = self.plan.length;
            self.check_patience();
            self.check_maps(self.settled_epoch);
            self.check_drains();
        }
        self.end_run()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Reach { connection } => self.reached(connection),
            Event::Arrive { connection, from } => self.arrived(connection, from),
            Event::Message {
                server,
                life,
                from,
                to,
                message,
            } => {
                let again = |message| Event::Message {
                    server,
                    life,
                    from,
                    to,
                    message,
                };
                if let Some(message) = self.admit(server, life, message, again) {
                    self.handle_message(server, from, to, message);
                }
            }
            Event::Map {
                server,
                life,
                worker,
                map,
            } => {
                let again = |map| Event::Map {
                    server,
                    life,
                    worker,
                    map,
                };
                if let Some(map) = self.admit(server, life, map, again) {
                    self.handle_map(server, worker, &map);
                }
            }
            Event::Timer { host, life } => {
                if self.process(host).timer_at <= self.time
                    && self
                        .admit(host, life, (), |()| Event::Timer { host, life })
                        .is_some()
                {
                    self.tick(host);
                }
            }
            Event::Heartbeat { host, life, extra } => {
                let again = |()| Event::Heartbeat { host, life, extra };
                if self.admit(host, life, (), again).is_some() {
                    self.heartbeat(host, extra);
                }
            }
            Event::Report {
                host,
                life,
                sent,
                heartbeat,
            } => {
                if self.led.is_some() {
                    return self.answer_follower((host, life), sent, heartbeat);
                }
                self.answer_heartbeat(host, life, sent, &heartbeat);
            }
            Event::Answer {
                host,
                life,
                sent,
                answer,
            } => {
                let again = |answer| Event::Answer {
                    host,
                    life,
                    sent,
                    answer,
                };
                if let Some(answer) = self.admit(host, life, answer, again) {
                    self.heard_answer(host, sent, &answer);
                }
            }
            Event::Lease {
                server,
                life,
                worker,
                lease,
            } => {
                let again = |lease| Event::Lease {
                    server,
                    life,
                    worker,
                    lease,
                };
                if let Some(lease) = self.admit(server, life, lease, again) {
                    self.handle_lease(server, worker, lease);
                }
            }
            Event::GoOn {
                connection,
                server,
                life,
                worker,
                id,
                read,
            } => self.go_on(connection, (server, worker, id), life, read),
            Event::Open { application } => self.open_application(application),
            Event::Act { application } => self.act(application),
            Event::Mishap => self.mishap(),
            // Somebody else may have started it.
            Event::Restart { server } if self.servers[server].process.alive => {}
            Event::Restart { server } => self.start_server(server),
            Event::Led(turn) => self.happen_to_led(turn),
            Event::StepFault(trap) => self.inject_at_step(trap),
            Event::HotKeysOn => self.coordinator.hot_keys = Mode::On,
            Event::Look => self.look(),
            Event::Quiet => {
                self.calm_down();
                self.settled_epoch = self.coordinator.core.epoch();
            }
            Event::Settle => {
                self.check_maps(self.settled_epoch);
                self.settled_epoch = self.coordinator.core.epoch();
            }
        }
    }

    /// What is meant for a process reaches it if it is alive and running. While it is stopped, it
    /// is kept for later.
    fn admit<T>(
        &mut self,
        host: usize,
        life: u32,
        content: T,
        again: impl FnOnce(T) -> Event,
    ) -> Option<T> {
        let process = self.process(host);
        if !process.alive || process.life != life {
            return None;
        }
        let until = process.stopped_until;
        if until > self.time {
            self.at(until, again(content));
            return None;
        }
        Some(content)
    }

    /// Something arrived at an end of a connection.
    fn handle(&mut self, connection: ConnectionNumber, end: usize, arrival: Arrival) {
        let end = &self.connections[connection].ends[end];
        let (host, servers) = (end.host, self.servers.len());
        match end.who {
            Who::Application(application) => self.handle_proxy(connection, application, arrival),
            Who::ProxyClient(id) => {
                self.handle_application(connection, (host - servers, id), arrival);
            }
            Who::ProxyBackend(id) => self.handle_backend(connection, (host - servers, id), arrival),
            Who::Link { worker, link } => {
                self.handle_link(connection, (host, worker, link), arrival);
            }
            Who::Session { worker, id } => {
                self.handle_session(connection, (host, worker, id), arrival);
            }
            Who::Peer(voter) => self.handle_peer(connection, (host, voter), arrival),
        }
    }

    fn tick(&mut self, host: usize) {
        self.process_mut(host).timer_at = Nanos::MAX;
        if host < self.servers.len() {
            self.tick_server(host);
        } else if host < self.coordinator_host() {
            self.tick_proxy(host - self.servers.len());
        } else {
            self.tick_coordinator();
        }
        self.arm(host);
    }

    /// Sets the timer of a host's process to its next deadline.
    fn arm(&mut self, host: usize) {
        let deadline = if host < self.servers.len() {
            self.server_deadline(host)
        } else if host < self.coordinator_host() {
            self.proxy_deadline(host - self.servers.len())
        } else {
            Some(self.coordinator_deadline())
        };
        let Some(at) = deadline.map(|at| at.max(self.time + 1)) else {
            return;
        };
        let process = self.process_mut(host);
        if at < process.timer_at {
            process.timer_at = at;
            let life = process.life;
            self.at(at, Event::Timer { host, life });
        }
    }

    fn process(&self, host: usize) -> &Process {
        let servers = self.servers.len();
        match host.checked_sub(servers) {
            None => &self.servers[host].process,
            Some(proxy) if proxy < self.proxies.len() => &self.proxies[proxy].process,
            Some(_) => &self.coordinator.process,
        }
    }

    fn process_mut(&mut self, host: usize) -> &mut Process {
        let servers = self.servers.len();
        match host.checked_sub(servers) {
            None => &mut self.servers[host].process,
            Some(proxy) if proxy < self.proxies.len() => &mut self.proxies[proxy].process,
            Some(_) => &mut self.coordinator.process,
        }
    }

    // Applications are on a host that never fails.

    fn is_alive(&self, host: usize) -> bool {
        host > self.coordinator_host() || self.process(host).alive
    }

    fn life_of(&self, host: usize) -> u32 {
        if host > self.coordinator_host() {
            0
        } else {
            self.process(host).life
        }
    }

    fn stopped_until(&self, host: usize) -> Nanos {
        if host > self.coordinator_host() {
            0
        } else {
            self.process(host).stopped_until
        }
    }

    /// The server that holds the hottest key, if one does.
    fn home_of_first_key(&self) -> Option<usize> {
        if self.plan.cluster == Cluster::Plain {
            return self.register.home_of(0);
        }
        let map = self.coordinator.core.map()?;
        let home = map.locate(KeyHash::of(&self.keys[0])).worker?;
        self.servers
            .iter()
            .position(|s| s.id == Some(home.server) && s.process.alive)
    }

    /// A cachelet that holds a key, often the hottest, with its owner.
    fn some_cachelet(&mut self) -> Option<(CacheletId, WorkerRef)> {
        let map = self.coordinator.core.map()?.clone();
        let key = match self.random.below(2) {
            0 => 0,
            _ => self.random.index(self.keys.len()),
        };
        let place = map.locate(KeyHash::of(&self.keys[key]));
        let owner = place.worker?;
        Some((place.cachelet, owner))
    }

    /// Whether a server that has been there is not there now. One that has no part of a ring is not missed.
    fn lacks_servers(&self) -> bool {
        let is_gone = |server: &Server| server.boot.0 != 0 && !server.process.alive;
        let ring = self.led.as_ref().and_then(|led| led.ring.as_ref());
        let is_needed = |server| ring.is_none_or(|ring| ring.needs(server));
        (self.servers.iter().enumerate()).any(|(server, of)| is_gone(of) && is_needed(server))
    }

    fn at(&mut self, at: Nanos, event: Event) {
        self.queue.push(at, event);
    }

    fn after(&mut self, delay: Nanos, event: Event) {
        self.at(self.time + delay, event);
    }

    /// Something happened that must not happen.
    fn fail(&mut self, words: String) {
        let at = self.time as f64 / MS as f64;
        self.violations.push(format!("at {at:.6} ms: {words}"));
    }
}
