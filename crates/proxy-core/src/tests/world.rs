//! A driver without sockets: everything that a test wants to see or to decide.

use crate::pipe::room;
use crate::*;
use core::time::Duration;
use evenkeel_control::bundles::BundlePlan;
use evenkeel_control::rings::RingPlan;
use evenkeel_placement::config::{PlacementConfig, Server as PoolServer};
use evenkeel_profile::Record;
use evenkeel_schemes::mark::TRIAL;
use evenkeel_schemes::stage::Step;
use evenkeel_types::map::{ClusterMap, MapDocument, ServerEntry};
use evenkeel_types::{BootId, CacheletId, Epoch, Instant, KeyHash, ServerId, WorkerRef};
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct World {
    pub core: ProxyCore,
    pub now: Instant,
    clients: BTreeMap<ClientId, Application>,
    /// By port, which names a backend in tests.
    backends: BTreeMap<u16, Server>,
    ports: BTreeMap<BackendId, u16>,
    pub wanted: Vec<Epoch>,
    /// Versions that were acknowledged, since the last look.
    pub acknowledged: Vec<u64>,
    /// Servers of the first pool's ring that are out of use, by their places in the list, as was told last.
    pub unreached: Vec<u16>,
    /// The plan of the first pool's ring.
    pub plan: Option<RingPlan>,
    config: ProxyConfig,
    pub stats_asked: Vec<StatsTicket>,
    /// Servers that came into use or went out of it.
    pub states: Vec<ServerState>,
    /// What was logged.
    pub logged: Vec<LoggedRequest>,
    /// What was recorded.
    pub recorded: Vec<Record>,
}

#[derive(Default)]
struct Application {
    input: Vec<u8>,
    received: Vec<u8>,
    closed: bool,
    /// Reads nothing.
    stopped: bool,
}

#[derive(Default)]
struct Server {
    id: Option<BackendId>,
    connected: bool,
    /// Connections asked for.
    pub attempts: u32,
    received: Vec<u8>,
    /// Sent by the server and not consumed by the core.
    sent: Vec<u8>,
    policy: Connecting,
    /// Takes no bytes.
    stopped: bool,
    worker: WorkerRef,
    lease_ms: u64,
    epoch: u64,
    /// What a memcached says of its version; one with meta commands if nothing.
    version: Option<&'static str>,
    /// What a memcached answers to `stats`; if nothing, that it has 64 MiB.
    statistics: Option<String>,
}

#[derive(Clone, Copy, Default, PartialEq)]
pub enum Connecting {
    /// Accepts and answers the greeting.
    #[default]
    Greets,
    /// Accepts and says nothing.
    Silent,
    Refuses,
    /// Neither accepts nor refuses.
    Hangs,
}

pub const T0: Instant = Instant::from_millis(1_000_000);

/// What the wall clock shows.
const UNIX: u32 = 1_800_000_000;

/// Where the map of the only cluster comes from.
pub const SOURCE: MapSource = MapSource(1);

/// Stands in the names of copies.
pub const COPY_TOKEN: u64 = 7;

impl World {
    pub fn new(config: ProxyConfig) -> Self {
        let mut core = ProxyCore::new(&Arc::new(config.clone()), 7);
        core.set_unix_time(UNIX);
        core.begin_turn(T0);
        World {
            core,
            config,
            now: T0,
            clients: BTreeMap::new(),
            backends: BTreeMap::new(),
            ports: BTreeMap::new(),
            wanted: Vec::new(),
            acknowledged: Vec::new(),
            unreached: Vec::new(),
            plan: None,
            stats_asked: Vec::new(),
            states: Vec::new(),
            logged: Vec::new(),
            recorded: Vec::new(),
        }
    }

    /// Servers 1..=n with one worker each at ports 101, 102, …; epoch 1.
    pub fn evenkeel(servers: u16) -> Self {
        Self::evenkeel_with(servers, |_| {})
    }

    pub fn evenkeel_with(servers: u16, change: impl FnOnce(&mut ProxyConfig)) -> Self {
        let mut world = World::new(changed(PoolKind::Evenkeel(SOURCE), change));
        world.workers(servers);
        world.core.set_map(
            T0,
            SOURCE,
            &map(1, servers, |cachelet| cachelet % servers + 1),
        );
        world
    }

    /// Makes what is at ports 101, 102, … Evenkeel servers 1, 2, … of one worker each.
    pub fn workers(&mut self, servers: u16) {
        for server in 1..=servers {
            self.worker(100 + server, server);
        }
    }

    /// At this port is worker 0 of a server.
    pub fn worker(&mut self, port: u16, server: u16) {
        let server_at = self.backends.entry(port).or_default();
        server_at.worker = WorkerRef {
            server: ServerId(server),
            worker: 0,
        };
        server_at.lease_ms = 1000;
        server_at.epoch = 1;
    }

    /// Servers a:101, a:102, …
    pub fn memcached(servers: u16) -> Self {
        Self::memcached_with(servers, |_| {})
    }

    pub fn memcached_with(servers: u16, change: impl FnOnce(&mut ProxyConfig)) -> Self {
        World::new(changed(memcached(101..=100 + servers), change))
    }

    /// The configuration is changed while everything goes on.
    pub fn configure(&mut self, change: impl FnOnce(&mut ProxyConfig)) {
        change(&mut self.config);
        self.config.revision.generation += 1;
        self.core
            .configure(self.now, &Arc::new(self.config.clone()));
        self.pump();
    }

    pub fn connecting(&mut self, port: u16, policy: Connecting) {
        self.backends.entry(port).or_default().policy = policy;
    }

    pub fn version(&mut self, port: u16, version: &'static str) {
        self.backends.entry(port).or_default().version = Some(version);
    }

    /// What a memcached answers to `stats` on its next connections.
    pub fn statistics(&mut self, port: u16, answer: String) {
        self.backends.entry(port).or_default().statistics = Some(answer);
    }

    pub fn lease_ms(&mut self, port: u16, lease_ms: u64) {
        self.backends.entry(port).or_default().lease_ms = lease_ms;
    }

    pub fn epoch(&mut self, port: u16, epoch: u64) {
        self.backends.entry(port).or_default().epoch = epoch;
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    pub fn client(&mut self) -> ClientId {
        let id = self.core.client_opened();
        self.core.client_comes_from(id, b"10.0.0.9");
        self.clients.insert(id, Application::default());
        id
    }

    /// The application sends, and everything that follows from it happens.
    pub fn send(&mut self, id: ClientId, bytes: impl AsRef<[u8]>) {
        self.clients
            .get_mut(&id)
            .unwrap()
            .input
            .extend_from_slice(bytes.as_ref());
        self.feed(id);
        self.pump();
    }

    /// The application sends in the middle of a turn: nothing follows from it before the turn ends.
    pub fn put(&mut self, id: ClientId, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        assert_eq!(self.core.client_input(self.now, id, bytes), bytes.len());
    }

    pub fn end(&mut self, id: ClientId) {
        self.core.client_ended(id);
        self.feed(id);
        self.pump();
    }

    pub fn close(&mut self, id: ClientId) {
        self.core.client_closed(id);
        self.clients.remove(&id);
        self.pump();
    }

    /// What the application received since the last look.
    pub fn received(&mut self, id: ClientId) -> String {
        String::from_utf8_lossy(&self.received_bytes(id)).into_owned()
    }

    pub fn received_bytes(&mut self, id: ClientId) -> Vec<u8> {
        std::mem::take(&mut self.clients.get_mut(&id).unwrap().received)
    }

    pub fn is_closed(&self, id: ClientId) -> bool {
        self.clients[&id].closed
    }

    pub fn unconsumed(&self, id: ClientId) -> usize {
        self.clients[&id].input.len()
    }

    /// The application stops reading, or reads again.
    pub fn stop_reading(&mut self, id: ClientId, stopped: bool) {
        self.clients.get_mut(&id).unwrap().stopped = stopped;
        if !stopped {
            self.write_client(id);
            self.pump();
        }
    }

    /// What a backend received since the last look, greetings left out.
    pub fn asked(&mut self, port: u16) -> String {
        String::from_utf8_lossy(&self.asked_bytes(port)).into_owned()
    }

    pub fn asked_bytes(&mut self, port: u16) -> Vec<u8> {
        let server = self.backends.get_mut(&port);
        server.map_or(Vec::new(), |server| std::mem::take(&mut server.received))
    }

    pub fn has_asked(&self, port: u16) -> bool {
        self.backends
            .get(&port)
            .is_some_and(|server| !server.received.is_empty())
    }

    pub fn attempts(&self, port: u16) -> u32 {
        self.backends.get(&port).map_or(0, |server| server.attempts)
    }

    /// A connection that hangs is made after all.
    pub fn finish_connecting(&mut self, port: u16) {
        let server = self.backends.get_mut(&port).unwrap();
        server.policy = Connecting::Greets;
        server.connected = true;
        let id = server.id.unwrap();
        self.core.backend_connected(id, None);
        self.pump();
    }

    pub fn is_connected(&self, port: u16) -> bool {
        self.backends
            .get(&port)
            .is_some_and(|server| server.connected)
    }

    /// A server sends, and everything that follows from it happens.
    pub fn reply(&mut self, port: u16, bytes: impl AsRef<[u8]>) {
        let server = self.backends.get_mut(&port).unwrap();
        assert!(
            server.connected,
            "a server without a connection cannot answer"
        );
        server.sent.extend_from_slice(bytes.as_ref());
        let (id, sent) = (server.id.unwrap(), std::mem::take(&mut server.sent));
        let consumed = self.core.backend_input(self.now, id, &sent);
        self.backends.get_mut(&port).unwrap().sent = sent[consumed..].to_vec();
        self.pump();
    }

    /// The kernel has measured the way to a server.
    pub fn round_trip(&mut self, port: u16, shortest: Duration) {
        let id = self.backends[&port].id.expect("it was connected to");
        self.core.backend_round_trip(id, shortest);
    }

    /// Whether a server is in use, in the words of the statistics.
    pub fn state(&self, port: u16) -> &'static str {
        let servers = self.core.backends();
        let server = servers.iter().find(|server| server.port == port);
        server.expect("the proxy knows it").state
    }

    /// A server greets again, and time passes until it has been found and has passed its trial.
    pub fn come_back(&mut self, port: u16) {
        self.connecting(port, Connecting::Greets);
        for _ in 0..1500 {
            self.wait_ms(1);
            if self.state(port) == "up" {
                return;
            }
        }
        panic!("it is not back in time");
    }

    /// A server closes its connection.
    pub fn drop_connection(&mut self, port: u16) {
        let server = self.backends.get_mut(&port).unwrap();
        server.connected = false;
        server.sent.clear();
        let id = server.id.unwrap();
        self.core.backend_lost(self.now, id, Cause::Closed);
        self.pump();
    }

    /// The connection to a server takes no more bytes; a new one does.
    pub fn stop_writing(&mut self, port: u16) {
        self.backends.get_mut(&port).unwrap().stopped = true;
    }

    /// Time passes, deadline by deadline.
    pub fn wait_ms(&mut self, ms: u64) {
        let until = Instant(self.now.0 + ms * 1_000_000);
        while let Some(deadline) = self.core.poll_deadline().filter(|&at| at <= until) {
            self.now = self.now.max(deadline);
            self.core.begin_turn(self.now);
            self.core.handle_timeout(self.now);
            self.pump();
        }
        self.now = until;
        self.core.begin_turn(until);
    }

    pub fn set_map(&mut self, map: &Arc<ClusterMap>) {
        self.core.set_map(self.now, SOURCE, map);
        self.pump();
    }

    fn feed(&mut self, id: ClientId) {
        let Some(application) = self.clients.get_mut(&id) else {
            return;
        };
        let input = std::mem::take(&mut application.input);
        let consumed = self.core.client_input(self.now, id, &input);
        application.input = input[consumed..].to_vec();
    }

    fn write_client(&mut self, id: ClientId) {
        let Some(application) = self.clients.get_mut(&id) else {
            return;
        };
        if application.stopped {
            return;
        }
        let bytes = self.core.client_output(id).to_vec();
        application.received.extend_from_slice(&bytes);
        self.core.client_wrote(id, bytes.len());
    }

    /// What the coordinator of the first pool says, by the plan of its ring that is present.
    pub fn set_step(&mut self, step: Option<Step>) {
        let plan = self.plan.as_ref();
        let ring = plan.map(|plan| Arc::new(PlannedRing::new(plan).expect("a plan")));
        let bundles = self.config.pools[0].bundles.as_ref();
        let plan = |bundles: &Arc<Bundles>| BundlePlan {
            number: 1,
            token: COPY_TOKEN,
            of: bundles.wish(),
        };
        let bundle = bundles.map(|bundles| BundleUpdate {
            plan: plan(bundles),
            fillers: 1,
        });
        self.tell(step.map(|step| PoolUpdate { step, ring, bundle }));
    }

    /// The copies of the first pool.
    pub fn bundles(&self) -> Option<&Arc<Bundles>> {
        self.config.pools[0].bundles.as_ref()
    }

    /// What the coordinator of the first pool says.
    pub fn tell(&mut self, told: Option<PoolUpdate>) {
        self.core.set_step(self.now, SOURCE, "default", told);
        self.pump();
    }

    pub fn pump(&mut self) {
        self.handle_outputs();
        self.core.end_turn();
        self.handle_outputs();
    }

    fn handle_outputs(&mut self) {
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::WriteClient(id) => self.write_client(id),
                Output::FeedClient(id) => self.feed(id),
                Output::CloseClient(id) => {
                    if let Some(application) = self.clients.get_mut(&id) {
                        application.closed = true;
                    }
                }
                Output::Connect { id, port, .. } => self.connect(id, port),
                Output::WriteBackend(id) => self.write_backend(id),
                Output::CloseBackend(id) => {
                    let server = self.backends.get_mut(&self.ports[&id]).unwrap();
                    server.connected = false;
                    server.sent.clear();
                }
                Output::WantMap { epoch, .. } => self.wanted.push(epoch),
                Output::Acknowledged { version, .. } => self.acknowledged.push(version),
                Output::Unreached { servers, .. } => self.unreached = servers,
                Output::Stats(ticket) => self.stats_asked.push(ticket),
                Output::OwnAddress(ticket) => {
                    self.core
                        .answer_own_address(self.now, ticket, "10.0.0.9", 11_311);
                }
                Output::ResetStats => self.core.reset_stats(),
                Output::ServerState(state) => self.states.push(*state),
                Output::Log(request) => self.logged.push(*request),
                Output::Profile(chunk) => self.recorded.extend(chunk.records),
            }
        }
    }

    fn connect(&mut self, id: BackendId, port: u16) {
        self.ports.insert(id, port);
        let server = self.backends.entry(port).or_default();
        server.id = Some(id);
        server.attempts += 1;
        server.stopped = false;
        server.sent.clear();
        match server.policy {
            Connecting::Greets | Connecting::Silent => {
                server.connected = true;
                self.core.backend_connected(id, None);
            }
            Connecting::Refuses => self.core.backend_lost(self.now, id, Cause::Refused),
            Connecting::Hangs => {}
        }
    }

    fn write_backend(&mut self, id: BackendId) {
        let port = self.ports[&id];
        if self.backends[&port].stopped {
            return;
        }
        let bytes = self.core.backend_output(id).to_vec();
        self.core.backend_wrote(id, bytes.len());
        let server = self.backends.get_mut(&port).unwrap();
        let hello: &[u8] = b"evenkeel 1 epoch=";
        if bytes.starts_with(hello) {
            if server.policy == Connecting::Greets {
                let line = greeting(server.worker, server.epoch, server.lease_ms);
                self.reply_inside(port, line.as_bytes());
            }
        } else if let Some(asked) = bytes.strip_suffix(b"version\r\n")
            && let trial = asked.strip_suffix(room::QUESTION).unwrap_or(asked)
            && (trial.is_empty() || trial == TRIAL)
        {
            if server.policy == Connecting::Greets {
                let usual = "STAT pid 1\r\nSTAT limit_maxbytes 67108864\r\nEND\r\n";
                let statistics = server.statistics.as_deref().unwrap_or(usual);
                let measured = match asked.len() > trial.len() {
                    true => format!("ERROR\r\n{statistics}"),
                    false => String::new(),
                };
                let version = server.version.unwrap_or("1.6.18");
                let tried = match server.version {
                    _ if trial.is_empty() => "",
                    Some("1.5.22") => "ERROR\r\nERROR\r\n",
                    Some("without uniques") => "HD c0\r\n",
                    _ => "HD c1\r\n",
                };
                self.reply_inside(
                    port,
                    format!("{tried}{measured}VERSION {version}\r\n").as_bytes(),
                );
            }
        } else {
            server.received.extend_from_slice(&bytes);
        }
    }

    fn reply_inside(&mut self, port: u16, bytes: &[u8]) {
        let id = self.backends[&port].id.unwrap();
        assert_eq!(self.core.backend_input(self.now, id, bytes), bytes.len());
    }
}

fn greeting(WorkerRef { server, worker }: WorkerRef, epoch: u64, lease_ms: u64) -> String {
    format!(
        "EVENKEEL 1 server={server} worker={worker} boot=1 epoch={epoch} lease_ms={lease_ms}\r\n"
    )
}

/// Memcached servers at these ports.
pub fn memcached(ports: impl IntoIterator<Item = u16>) -> PoolKind {
    let list = ServerList::new(placement(ports)).unwrap();
    PoolKind::Memcached(Arc::new(list))
}

/// How keys are distributed to servers at these ports.
pub fn placement(ports: impl IntoIterator<Item = u16>) -> PlacementConfig {
    let servers = ports.into_iter().map(|port| PoolServer::new("a", port));
    PlacementConfig {
        servers: servers.collect(),
        ..PlacementConfig::default()
    }
}

fn changed(kind: PoolKind, change: impl FnOnce(&mut ProxyConfig)) -> ProxyConfig {
    let mut config = ProxyConfig::of_pool(kind, PoolSettings::default());
    change(&mut config);
    config
}

/// A map of as many cachelets as virtual nodes (16); `owner` gives each cachelet's server.
pub fn map(epoch: u64, servers: u16, owner: impl Fn(u16) -> u16) -> Arc<ClusterMap> {
    let servers = (1..=servers).map(|id| ServerEntry {
        id: ServerId(id),
        name: format!("s{id}"),
        host: "h".into(),
        port: 1,
        worker_ports: vec![100 + id],
        rack: None,
        boot: BootId(1),
        up: true,
        since: Epoch(0),
        leaving: false,
    });
    let document = MapDocument {
        epoch: Epoch(epoch),
        promise: None,
        servers: servers.collect(),
        virtual_nodes: (0..16).map(CacheletId).collect(),
        cachelets: (0..16)
            .map(|cachelet| {
                Some(WorkerRef {
                    server: ServerId(owner(cachelet)),
                    worker: 0,
                })
            })
            .collect(),
        since: Vec::new(),
        stay: Vec::new(),
        migrations: Vec::new(),
        quarantined: Vec::new(),
    };
    Arc::new(ClusterMap::new(document).unwrap())
}

/// A key that a map gives to a server, and the number of its cachelet.
pub fn key_of(server: u16, servers: u16) -> (String, u16) {
    keys_of(server, servers).next().unwrap()
}

pub fn keys_of(server: u16, servers: u16) -> impl Iterator<Item = (String, u16)> {
    (0..).map(|i| format!("key{i}")).filter_map(move |key| {
        let cachelet = (KeyHash::of(key.as_bytes()).0 >> 60) as u16;
        (cachelet % servers + 1 == server).then_some((key, cachelet))
    })
}
