//! The cluster that the model runs.

mod clients;
mod mishaps;
mod servers;

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use evenkeel_types::{Epoch, Instant, KeyHash, ServerId, Version, WorkerRef};

use mishaps::move_cachelets;

use super::Fault;
use super::report::Report;
use crate::client::{Answer, ClientLeases, Grant, ReadTicket, Route, Verdict, WriteTicket};
use crate::config::HotKeysConfig;
use crate::server::{HotKeys, Output, PropagationTag, Reader, WriteKind};
use crate::shadow::NewestHeard;
use evenkeel_balance::load::TriggerConfig;
use evenkeel_placement::renaming;
use evenkeel_types::map::{ClusterMap, MapDocument, ServerEntry};
use evenkeel_types::random::SplitMix64;

const SERVERS: usize = 4;
/// Applications, of one connection each.
const CLIENTS: usize = 4;
const KEYS: [&[u8]; 3] = [b"alpha", b"beta", b"gamma"];
const PIPELINE_MAX: usize = 5;

const MS: u64 = 1_000_000;
/// Length of a run; long ones last until replicas were renewed twice, with fewer mishaps.
const RUN: u64 = 3000 * MS;
const LONG_RUN: u64 = 70_000 * MS;
const LEASE: u64 = 200 * MS;

/// Clocks run up to this many parts per million too fast or too slow: less than the margin of a
/// lease allows, more than real ones do.
const CLOCK_ERROR_PPM: u64 = 10_000;

/// What a key was, one after the other; positions count from 0, "never written".
#[derive(Default)]
struct History {
    /// When each state after the first began.
    since: Vec<u64>,
}

impl History {
    fn position(&self) -> usize {
        self.since.len()
    }

    fn superseded_at(&self, position: usize) -> u64 {
        self.since.get(position).copied().unwrap_or(u64::MAX)
    }
}

#[derive(Debug, Clone, Copy)]
struct Item {
    version: Version,
    position: usize,
}

#[derive(Clone, Copy)]
struct Replica {
    expires_at: u64,
    epoch: Epoch,
    item: Item,
}

struct Clock {
    offset: u64,
    ppm: u64,
}

impl Clock {
    fn random(random: &mut SplitMix64) -> Self {
        let ppm = 1_000_000 - CLOCK_ERROR_PPM + random.below(2 * CLOCK_ERROR_PPM + 1);
        Clock {
            offset: random.below(1000) * MS,
            ppm,
        }
    }

    fn read(&self, time: u64) -> Instant {
        Instant(self.offset + time * self.ppm / 1_000_000)
    }

    /// The first time at which the clock shows at least `instant`.
    fn time_of(&self, instant: Instant) -> u64 {
        (instant.0.saturating_sub(self.offset)).saturating_mul(1_000_000) / self.ppm + 1
    }
}

/// A connection from one server to another, as the former sees it.
#[derive(Default)]
struct Link {
    generation: u64,
    up: bool,
    /// Broken, but nobody knows yet.
    broken: bool,
    /// When the newest message arrives, and the newest confirmation.
    busy_until: [u64; 2],
}

struct Server {
    boot: u64,
    alive: bool,
    clock: Clock,
    map: Arc<ClusterMap>,
    hot: HotKeys,
    items: BTreeMap<usize, Item>,
    /// Since which epoch this server is the home of each key, if it is.
    home_since: [Option<Epoch>; KEYS.len()],
    replicas: BTreeMap<usize, Replica>,
    counter: u64,
    links: Vec<Link>,
    /// Newest connection heard of, by server.
    heard: [u64; SERVERS],
    /// Newest epoch that a home has sent anything by.
    newest_heard: NewestHeard,
    tick_at: u64,
}

/// A connection from a proxy to a server.
#[derive(Default)]
struct Connection {
    generation: u64,
    busy_until: [u64; 2],
}

enum Op {
    Read {
        key: usize,
        sent_at: u64,
        ticket: Option<ReadTicket>,
        answer: Option<Reply>,
    },
    Write {
        key: usize,
        ticket: Option<WriteTicket>,
        answer: Option<Reply>,
    },
}

struct Proxy {
    clock: Clock,
    map: Arc<ClusterMap>,
    leases: ClientLeases,
    connections: Vec<Connection>,
}

#[derive(Default)]
struct Client {
    /// Requests in order; the first has number `first`.
    ops: VecDeque<Op>,
    first: u64,
    /// Newest position shown, by key.
    seen: [usize; KEYS.len()],
}

impl Client {
    /// Whether it was not shown yet what it has read of the key.
    fn is_reading(&self, of: usize) -> bool {
        let is_its = |op: &Op| matches!(op, Op::Read { key, .. } if *key == of);
        self.ops.iter().any(is_its)
    }
}

#[derive(Debug, Clone, Copy)]
enum Request {
    Read {
        key: usize,
        replica: bool,
        epoch: Epoch,
    },
    Write {
        key: usize,
        kind: WriteKind,
        epoch: Epoch,
    },
}

#[derive(Debug, Clone, Copy)]
struct Reply {
    answer: Answer,
    position: usize,
    grant: Option<Grant>,
}

const FAILED: Reply = Reply {
    answer: Answer::Failed,
    position: 0,
    grant: None,
};

#[derive(Debug, Clone, Copy)]
struct Propagation {
    key: usize,
    /// `None` removes.
    item: Option<Item>,
    epoch: Epoch,
    /// Of the item, or the newest that the home has issued.
    version: Version,
    tag: PropagationTag,
}

#[derive(Debug)]
enum Event {
    Act {
        client: usize,
    },
    Ask {
        client: usize,
        server: usize,
        generation: u64,
        number: u64,
        request: Request,
    },
    Answer {
        client: usize,
        server: usize,
        generation: u64,
        number: u64,
        reply: Reply,
    },
    Propagate {
        home: usize,
        shadow: usize,
        generation: u64,
        boot: u64,
        message: Propagation,
    },
    Confirm {
        home: usize,
        shadow: usize,
        generation: u64,
        tag: PropagationTag,
        accepted: bool,
    },
    LinkLost {
        home: usize,
        shadow: usize,
        boot: u64,
        generation: u64,
    },
    Tick {
        server: usize,
        boot: u64,
    },
    LearnMap {
        proxy: usize,
        epoch: Epoch,
    },
    Mishap,
    MoveAway {
        server: usize,
    },
    Restart {
        server: usize,
    },
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) pace: Pace,
    pub(super) turmoil: Turmoil,
    pub(super) fault: Option<Fault>,
}

/// What goes wrong most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turmoil {
    /// A bit of everything.
    Mixed,
    /// Connections between servers, and replicas are evicted.
    Links,
    /// Cachelets move all the time.
    Maps,
}

/// What the clients are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// They send on without waiting, so that they need all their own checks.
    Pipelined,
    /// They wait for each answer, stay with one copy for a lease and show whatever it says, as SPORE's
    /// do, so that all depends on the servers.
    Sequential,
}

impl Plan {
    /// Proxies, of one worker each. One for each client where clients are to depend on nothing that
    /// their proxy knows from another.
    fn proxies(&self) -> usize {
        match self.pace {
            Pace::Pipelined => CLIENTS / 2,
            Pace::Sequential => CLIENTS,
        }
    }
}

pub(super) struct World {
    plan: Plan,
    /// Whether to print what happens.
    trace: bool,
    random: SplitMix64,
    time: u64,
    /// Times and positions of events to come.
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    events: Vec<Option<Event>>,
    histories: [History; KEYS.len()],
    servers: Vec<Server>,
    proxies: Vec<Proxy>,
    clients: Vec<Client>,
    /// By epoch, from 1; the last is the present one.
    maps: Vec<Arc<ClusterMap>>,
    generations: u64,
    report: Report,
}

impl World {
    pub(super) fn new(plan: Plan) -> Self {
        let mut random = SplitMix64::new(plan.seed);
        let owners = (0..8).map(|_| Some(worker(random.below(SERVERS as u64) as usize)));
        let owners = owners.collect();
        let document = MapDocument::new(1, (0..SERVERS).map(entry).collect(), 64, owners);
        let mut world = World {
            plan,
            trace: false,
            random,
            time: 0,
            queue: BinaryHeap::new(),
            events: Vec::new(),
            histories: Default::default(),
            servers: Vec::new(),
            proxies: Vec::new(),
            clients: Vec::new(),
            maps: vec![Arc::new(ClusterMap::new(document).unwrap())],
            generations: 0,
            report: Report::default(),
        };
        for i in 0..SERVERS {
            let server = world.new_server(i);
            world.servers.push(server);
            world.arm(i);
        }
        for _ in 0..plan.proxies() {
            let new = world.new_proxy();
            world.proxies.push(new);
        }
        for client in 0..CLIENTS {
            world.clients.push(Client::default());
            world.after(0, 10 * MS, Event::Act { client });
        }
        world.after(0, 200 * MS, Event::Mishap);
        world
    }

    /// Runs to the end, or until a client is shown what it must not see.
    pub(super) fn run(mut self) -> Result<Report, String> {
        let end = if self.is_long() { LONG_RUN } else { RUN };
        while let Some(Reverse((time, number))) = self.queue.pop() {
            if time > end {
                break;
            }
            self.time = time;
            let event = self.events[number]
                .take()
                .expect("every event happens once");
            if self.trace {
                println!("{:>9} us {event:?}", time / 1000);
            }
            self.happen(event)
                .map_err(|violation| format!("at {} us: {violation}", time / 1000))?;
        }
        for server in &self.servers {
            self.report.take_moves(&server.hot);
        }
        Ok(self.report)
    }

    /// The same, and prints every event.
    pub(super) fn run_aloud(mut self) -> Result<Report, String> {
        self.trace = true;
        self.run()
    }

    fn is_long(&self) -> bool {
        self.plan.seed % 100 == 99
    }

    /// Clients are distributed to proxies in turn.
    fn proxy_of(&self, client: usize) -> usize {
        client % self.plan.proxies()
    }

    fn has(&self, fault: Fault) -> bool {
        self.plan.fault == Some(fault)
    }

    /// The present map.
    fn map(&self) -> Arc<ClusterMap> {
        self.maps.last().expect("there is always one").clone()
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Act { client } => self.act(client),
            Event::Ask {
                client,
                server,
                generation,
                number,
                request,
            } => {
                let reply = self.serve(server, request);
                self.answer(client, server, generation, number, reply);
            }
            Event::Answer {
                client,
                server,
                generation,
                number,
                reply,
            } => {
                let proxy = &self.proxies[self.proxy_of(client)];
                if proxy.connections[server].generation == generation {
                    self.arrive(client, number, reply)?;
                }
            }
            Event::Propagate {
                home,
                shadow,
                generation,
                boot,
                message,
            } => {
                self.receive(home, shadow, generation, boot, message);
            }
            Event::Confirm {
                home,
                shadow,
                generation,
                tag,
                accepted,
            } => {
                let server = &mut self.servers[home];
                let link = &server.links[shadow];
                if server.alive && link.up && !link.broken && link.generation == generation {
                    let now = server.clock.read(self.time);
                    match accepted {
                        true => server.hot.handle_acked(now, worker(shadow), tag),
                        false => server.hot.handle_refused(now, worker(shadow), tag),
                    }
                    self.pump(home);
                }
            }
            Event::LinkLost {
                home,
                shadow,
                boot,
                generation,
            } => {
                let server = &mut self.servers[home];
                let link = &mut server.links[shadow];
                if server.alive && server.boot == boot && link.generation == generation {
                    link.up = false;
                    let now = server.clock.read(self.time);
                    server.hot.handle_link_lost(now, worker(shadow));
                    self.report.count("links lost");
                    self.pump(home);
                }
            }
            Event::Tick { server, boot } => {
                let s = &mut self.servers[server];
                if s.alive && s.boot == boot {
                    s.tick_at = u64::MAX;
                    s.hot.handle_timeout(s.clock.read(self.time));
                    self.pump(server);
                }
            }
            Event::LearnMap { proxy, epoch } => {
                if epoch > self.proxies[proxy].map.epoch() {
                    self.proxies[proxy].map = self.maps[epoch.0 as usize - 1].clone();
                }
            }
            Event::Mishap => self.mishap(),
            Event::MoveAway { server } => {
                if !self.servers[server].alive {
                    self.change_map(|document, random| {
                        document.servers[server].up = false;
                        move_cachelets(document, random, server);
                    });
                }
            }
            Event::Restart { server } => {
                self.servers[server] = self.new_server(server);
                let give_back = self.chance(1, 2);
                self.change_map(|document, random| {
                    document.servers[server].up = true;
                    for owner in &mut document.cachelets {
                        if give_back && random.below(4) == 0 {
                            *owner = Some(worker(server));
                        }
                    }
                });
                self.report.count("restarts");
            }
        }
        Ok(())
    }
}

impl World {
    fn at(&mut self, time: u64, event: Event) {
        let number = self.events.len();
        self.events.push(Some(event));
        self.queue.push(Reverse((time, number)));
    }

    fn after(&mut self, least: u64, most: u64, event: Event) {
        let delay = least + self.random.below(most - least);
        self.at(self.time + delay, event);
    }

    fn drop_events(&mut self, concerned: impl Fn(&Event) -> bool) {
        let (events, time) = (&mut self.events, self.time);
        self.queue.retain(|Reverse((at, number))| {
            let keep = *at < time || !events[*number].as_ref().is_some_and(&concerned);
            if !keep {
                events[*number] = None;
            }
            keep
        });
    }

    fn delay(&mut self) -> u64 {
        let slow = if self.plan.turmoil == Turmoil::Links {
            8
        } else {
            40
        };
        match self.random.below(slow) {
            0 => self.random.below(300 * MS),
            1..3 => self.random.below(30 * MS),
            _ => MS / 10 + self.random.below(2 * MS),
        }
    }

    fn chance(&mut self, times: u64, of: u64) -> bool {
        self.random.below(of) < times
    }
}

/// Messages of one connection arrive in order.
fn queue_up(busy_until: &mut u64, at: u64) -> u64 {
    *busy_until = at.max(*busy_until + 1);
    *busy_until
}

fn worker(server: usize) -> WorkerRef {
    WorkerRef {
        server: ServerId(server as u16),
        worker: 0,
    }
}

fn entry(server: usize) -> ServerEntry {
    ServerEntry::new(server as u16, "h", 1, vec![1])
}
