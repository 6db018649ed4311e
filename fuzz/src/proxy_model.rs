//! A proxy worker between applications and servers that say anything.
//!
//! The input is a script: which pool, then steps. Applications send bytes; servers answer what they were
//! asked, or send bytes of the script's choice; connections end, servers refuse, time passes. What is
//! checked besides that nothing panics:
//!
//! - Whatever the proxy sends to a server is a request that a server can read.
//! - In the end every request is answered, or its connection closed, and no connection waits for ever.
//! - The same bytes in other pieces are answered the same: those of applications where servers answer
//!   properly, those of servers where these say what the script wants.
//! - Buffers stay within their limits.

use core::time::Duration;
use evenkeel_hotkeys::plain::{NAME_MARK, PlainConfig, PlainMode};
use evenkeel_placement::config::{PlacementConfig, Server};
use evenkeel_types::map::{ClusterMap, MapDocument, ServerEntry};
use evenkeel_protocol::{
    HelloReply, KeyScratch, Limits, Meta, Request, RequestOutcome, compose, parse_request,
};
use evenkeel_proxy_core::limits::{BACKEND_BYTES_MAX, OUT_CLOSE};
use evenkeel_proxy_core::{
    Cause,
    BackendId, ClientId, Failover, MapSource, OnDown, Output, PoolKind, PoolSettings, ProcessStats,
    ProxyConfig, ProxyCore, ServerList,
};
use evenkeel_types::{BootId, Epoch, Instant, ServerId, Version, WorkerRef};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::sync::Arc;

const SOURCE: MapSource = MapSource(1);
const CLIENTS: usize = 3;
const PORT_FIRST: u16 = 100;

/// Largest item, so that values that are too large fit an input.
const ITEM_SIZE_MAX: usize = 1024;

/// When all must be answered that was asked: some rounds of timeouts, of what waits in a client's input.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a script and checks what must hold.
pub fn check(input: &[u8]) {
    let Some(script) = Script::parse(input) else {
        return;
    };
    let whole = World::run(&script, Pieces::Whole);
    // What a connection is like when it is asked about depends on when it was.
    let asks_about_now = |step: &Step| {
        matches!(step, Step::Client { bytes, .. }
            if bytes.windows(7).any(|word| word.eq_ignore_ascii_case(b"explain")))
    };
    if script.steps.iter().any(asks_about_now) {
        return;
    }
    let speaks_at_will = |step: &Step| matches!(step, Step::Server { .. });
    let pieces = match script.steps.iter().any(speaks_at_will) {
        true => Pieces::OfServers,
        false => Pieces::OfClients,
    };
    let cut = World::run(&script, pieces);
    for (client, (one, other)) in whole.iter().zip(&cut).enumerate() {
        assert_eq!(
            one, other,
            "client {client} is told other things if the bytes come in pieces"
        );
    }
}

enum Step<'a> {
    Client { client: usize, bytes: Vec<u8> },
    Server { server: usize, bytes: &'a [u8] },
    Answer,
    CloseServer(usize),
    Policy { server: usize, policy: Policy },
    Wait(u64),
    EndClient(usize),
    CloseClient(usize),
    NewMap,
}

#[derive(Clone, Copy, PartialEq)]
enum Policy {
    Accepts,
    Refuses,
    Hangs,
}

struct Script<'a> {
    is_evenkeel: bool,
    servers: u16,
    knows_meta: bool,
    settings: PoolSettings,
    steps: Vec<Step<'a>>,
}

impl<'a> Script<'a> {
    fn parse(input: &'a [u8]) -> Option<Self> {
        let (&[kind, more], mut rest) = input.split_first_chunk()?;
        let servers = 1 + u16::from(more % 3);
        let settings = PoolSettings {
            collapse: kind & 2 == 0,
            on_down: if kind & 4 == 0 {
                OnDown::Miss
            } else {
                OnDown::Error
            },
            failover: if kind & 8 == 0 {
                Failover::None
            } else {
                Failover::Next
            },
            allow_flush: kind & 16 == 0,
            flush_on_return: kind & 32 == 0,
            hot_keys: PlainConfig {
                mode: [
                    PlainMode::On,
                    PlainMode::On,
                    PlainMode::Observe,
                    PlainMode::Off,
                ][usize::from(kind >> 6)],
                sampling: Some(1.0),
                write_weight: 0.5,
                ..PlainConfig::default()
            },
            ..PoolSettings::default()
        };
        let mut steps = Vec::new();
        while let [op, behind @ ..] = rest {
            let who = usize::from(op >> 4);
            rest = behind;
            let mut taken = |most: usize| {
                let (len, behind) = match rest {
                    [len, behind @ ..] => (usize::from(*len).min(most), behind),
                    [] => (0, rest),
                };
                let (bytes, behind) = behind.split_at(len.min(behind.len()));
                rest = behind;
                bytes
            };
            let (client, server) = (who % CLIENTS, who % usize::from(servers));
            steps.push(match op & 15 {
                0..5 => Step::Client {
                    client,
                    bytes: taken(255).to_vec(),
                },
                // More than a turn has, and than may be under way.
                5 => Step::Client {
                    client,
                    bytes: taken(64).repeat(1 + who * 8),
                },
                6..9 => Step::Answer,
                9..11 => Step::Server {
                    server,
                    bytes: taken(255),
                },
                11 => Step::CloseServer(server),
                12 => Step::Policy {
                    server,
                    policy: [Policy::Accepts, Policy::Refuses, Policy::Hangs][who / 4 % 3],
                },
                13 => Step::Wait(1 << who.min(10)),
                14 if who < 8 => Step::EndClient(client),
                14 => Step::CloseClient(client),
                _ => Step::NewMap,
            });
        }
        Some(Script {
            is_evenkeel: kind & 1 != 0,
            servers,
            knows_meta: more & 128 == 0,
            settings,
            steps,
        })
    }

    fn config(&self) -> ProxyConfig {
        let kind = if self.is_evenkeel {
            PoolKind::Evenkeel(SOURCE)
        } else {
            let ports = PORT_FIRST..PORT_FIRST + self.servers;
            let config = PlacementConfig {
                servers: ports.map(|port| Server::new("h", port)).collect(),
                ..PlacementConfig::default()
            };
            let list = ServerList::new(config).expect("sound servers");
            PoolKind::Memcached(Arc::new(list))
        };
        let mut config = ProxyConfig::of_pool(kind, self.settings.clone());
        config.limits.item_size_max = ITEM_SIZE_MAX;
        config
    }

    fn map(&self, epoch: u64) -> Arc<ClusterMap> {
        let entry = |at| ServerEntry::new(at + 1, "h", 1, vec![PORT_FIRST + at]);
        let owner = |cachelet: u16| {
            let server = ServerId((cachelet + epoch as u16) % self.servers + 1);
            Some(WorkerRef { server, worker: 0 })
        };
        let document = MapDocument::new(
            epoch,
            (0..self.servers).map(entry).collect(),
            16,
            (0..16).map(owner).collect(),
        );
        Arc::new(ClusterMap::new(document).expect("a sound map"))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Pieces {
    Whole,
    OfClients,
    OfServers,
}

/// What an application was told, and whether its connection was closed.
type Told = (Vec<u8>, bool);

struct Application {
    id: ClientId,
    input: Vec<u8>,
    received: Vec<u8>,
    ended: bool,
    closed: bool,
}

struct FakeServer {
    policy: Policy,
    id: Option<BackendId>,
    connected: bool,
    /// Asked and not looked at.
    received: Vec<u8>,
    /// Said and not consumed.
    sent: Vec<u8>,
    /// Replicas of hot keys, which have to be found as they were stored.
    replicas: BTreeMap<Vec<u8>, (u32, Vec<u8>)>,
}

struct World<'a> {
    script: &'a Script<'a>,
    pieces: Pieces,
    core: ProxyCore,
    now: Instant,
    epoch: u64,
    clients: Vec<Application>,
    servers: Vec<FakeServer>,
    /// What is still to be done about servers.
    deferred: VecDeque<Output>,
    cuts: u64,
}

impl<'a> World<'a> {
    fn run(script: &'a Script<'a>, pieces: Pieces) -> Vec<Told> {
        let mut core = ProxyCore::new(&Arc::new(script.config()), 7);
        let now = Instant::from_millis(1_000_000);
        core.set_unix_time(1_800_000_000);
        core.begin_turn(now);
        let clients = (0..CLIENTS).map(|_| Application {
            id: core.client_opened(),
            input: Vec::new(),
            received: Vec::new(),
            ended: false,
            closed: false,
        });
        let clients = clients.collect();
        let servers = (0..script.servers).map(|_| FakeServer {
            policy: Policy::Accepts,
            id: None,
            connected: false,
            received: Vec::new(),
            sent: Vec::new(),
            replicas: BTreeMap::new(),
        });
        let mut world = World {
            script,
            pieces,
            core,
            now,
            epoch: 0,
            clients,
            servers: servers.collect(),
            deferred: VecDeque::new(),
            cuts: 1,
        };
        world.new_map();
        for step in &script.steps {
            world.step(step);
            world.pump();
            world.check_bounds();
        }
        world.finish();
        let told = world.clients.into_iter();
        told.map(|client| (client.received, client.closed))
            .collect()
    }

    fn step(&mut self, step: &Step<'_>) {
        match *step {
            Step::Client { client, ref bytes } => {
                let cuts = self.pieces == Pieces::OfClients;
                for piece in self.cut(bytes, cuts) {
                    let application = &mut self.clients[client];
                    if application.closed || application.ended {
                        return;
                    }
                    application.input.extend_from_slice(piece);
                    if self.core.client_wants_input(application.id) {
                        self.feed(client);
                    }
                    self.pump_clients();
                }
            }
            Step::Server { server, bytes } => {
                let cuts = self.pieces == Pieces::OfServers;
                for piece in self.cut(bytes, cuts) {
                    self.say(server, piece);
                }
            }
            Step::Answer => self.answer(),
            Step::CloseServer(server) => {
                if let Some(id) = self.forget(server) {
                    self.core.backend_lost(self.now, id, Cause::Closed);
                }
            }
            Step::Policy { server, policy } => self.servers[server].policy = policy,
            Step::Wait(ms) => {
                self.now = self.now + Duration::from_millis(ms);
                self.turn();
            }
            Step::EndClient(client) => {
                let application = &mut self.clients[client];
                if !application.closed && !application.ended {
                    application.ended = true;
                    self.core.client_ended(application.id);
                    self.feed(client);
                }
            }
            Step::CloseClient(client) => {
                let application = &mut self.clients[client];
                if !application.closed {
                    application.closed = true;
                    self.core.client_closed(application.id);
                }
            }
            Step::NewMap => self.new_map(),
        }
    }

    /// The bytes, in pieces if they are to be cut.
    fn cut<'b>(&mut self, bytes: &'b [u8], is_cut: bool) -> Vec<&'b [u8]> {
        if !is_cut {
            return vec![bytes];
        }
        let mut pieces = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            // Any sequence will do, as long as it is the same each time.
            self.cuts = self
                .cuts
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(1);
            let most = if self.cuts >> 62 == 0 { 40 } else { 5 };
            let len = 1 + (self.cuts >> 33) as usize % most;
            let (piece, behind) = rest.split_at(len.min(rest.len()));
            pieces.push(piece);
            rest = behind;
        }
        pieces
    }

    fn new_map(&mut self) {
        self.epoch += 1;
        if self.script.is_evenkeel {
            let map = self.script.map(self.epoch);
            self.core.set_map(self.now, SOURCE, &map);
        }
    }

    fn turn(&mut self) {
        self.core.begin_turn(self.now);
        if self.core.poll_deadline().is_some_and(|due| due <= self.now) {
            self.core.handle_timeout(self.now);
        }
    }

    fn feed(&mut self, client: usize) {
        let application = &mut self.clients[client];
        let count = self
            .core
            .client_input(self.now, application.id, &application.input);
        application.input.drain(..count);
    }

    /// A server says something.
    fn say(&mut self, server: usize, bytes: &[u8]) {
        let fake = &mut self.servers[server];
        if let Some(id) = fake.id.filter(|_| fake.connected) {
            fake.sent.extend_from_slice(bytes);
            let count = self.core.backend_input(self.now, id, &fake.sent);
            fake.sent.drain(..count);
        }
    }

    /// The connection of a server is gone.
    fn forget(&mut self, server: usize) -> Option<BackendId> {
        let fake = &mut self.servers[server];
        fake.received.clear();
        fake.sent.clear();
        fake.connected = false;
        fake.id.take()
    }

    /// Does what the core says until it says nothing.
    fn pump(&mut self) {
        loop {
            self.pump_clients();
            let Some(output) = self.deferred.pop_front() else {
                return;
            };
            self.handle_output(output);
        }
    }

    /// Does what the core says of applications. What concerns servers comes later, so that nothing changes
    /// there between two pieces of an application's bytes.
    fn pump_clients(&mut self) {
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::Connect { .. } | Output::WriteBackend(_) | Output::CloseBackend(_) => {
                    self.deferred.push_back(output);
                }
                _ => self.handle_output(output),
            }
        }
    }

    fn handle_output(&mut self, output: Output) {
        let client_of = |world: &Self, id| world.clients.iter().position(|c| c.id == id);
        let server_of = |world: &Self, id| world.servers.iter().position(|s| s.id == Some(id));
        match output {
            Output::WriteClient(id) => {
                let bytes = self.core.client_output(id).to_vec();
                self.core.client_wrote(id, bytes.len());
                if let Some(client) = client_of(self, id) {
                    self.clients[client].received.extend_from_slice(&bytes);
                }
            }
            Output::FeedClient(id) => {
                if let Some(client) = client_of(self, id)
                    && !self.clients[client].closed
                {
                    self.feed(client);
                }
            }
            Output::CloseClient(id) => {
                if let Some(client) = client_of(self, id) {
                    self.clients[client].closed = true;
                }
            }
            Output::Connect { id, port, .. } => {
                let server = usize::from(port - PORT_FIRST);
                self.servers[server].id = Some(id);
                match self.servers[server].policy {
                    Policy::Accepts => {
                        self.servers[server].connected = true;
                        self.core.backend_connected(id, None);
                    }
                    Policy::Refuses => {
                        self.forget(server);
                        self.core.backend_lost(self.now, id, Cause::Refused);
                    }
                    Policy::Hangs => {}
                }
            }
            Output::WriteBackend(id) => {
                if let Some(server) = server_of(self, id)
                    && self.servers[server].connected
                {
                    let bytes = self.core.backend_output(id).to_vec();
                    self.core.backend_wrote(id, bytes.len());
                    self.servers[server].received.extend_from_slice(&bytes);
                }
            }
            Output::CloseBackend(id) => {
                if let Some(server) = server_of(self, id) {
                    self.forget(server);
                }
            }
            Output::WantMap { .. } => {}
            Output::Stats(ticket) => {
                let stats = ProcessStats::default();
                self.core.answer_stats(self.now, ticket, &stats);
            }
            Output::OwnAddress(ticket) => {
                self.core.answer_own_address(self.now, ticket, "proxy", 1);
            }
            Output::ResetStats => self.core.reset_stats(),
            Output::ServerState(_) | Output::Log(_) | Output::Profile(_) => {}
        }
    }

    /// Servers answer what they were asked, as long as there is something.
    fn answer(&mut self) {
        loop {
            let mut has_answered = false;
            for server in 0..self.servers.len() {
                has_answered |= self.answer_one(server);
                self.pump();
            }
            if !has_answered {
                return;
            }
        }
    }

    /// A server answers all that it was asked. False if that is nothing.
    fn answer_one(&mut self, server: usize) -> bool {
        let received = core::mem::take(&mut self.servers[server].received);
        let limits = Limits {
            // What the proxy stores besides are replicas, which are no larger.
            item_size_max: 2 * ITEM_SIZE_MAX,
            ..Limits::default()
        };
        let mut answers = Vec::new();
        let mut done = 0;
        loop {
            match parse_request(&received[done..], &limits) {
                RequestOutcome::Request { request, consumed } => {
                    done += consumed;
                    self.reply(server, &request, &mut answers);
                }
                RequestOutcome::Incomplete { .. } => break,
                RequestOutcome::Refused { .. } | RequestOutcome::Close { .. } => {
                    panic!(
                        "no request: {:?}",
                        received[done..].escape_ascii().to_string()
                    )
                }
            }
        }
        self.servers[server].received = received[done..].to_vec();
        self.say(server, &answers);
        done > 0
    }

    /// What a server answers depends on the request alone, and for replicas on what was stored.
    fn reply(&mut self, server: usize, request: &Request<'_>, out: &mut Vec<u8>) {
        let knows_meta = self.script.knows_meta || self.script.is_evenkeel;
        let fake = &mut self.servers[server];
        let held = |key: &[u8]| match key.first() {
            Some(&NAME_MARK) => fake.replicas.get(key).cloned(),
            _ if draw(key) % 4 == 0 => None,
            _ => Some((draw(key) as u32 % 9, vec![b'v'; draw(key) as usize % 40])),
        };
        match request {
            Request::Get { keys, with_cas } | Request::GetAndTouch { keys, with_cas, .. } => {
                for key in keys.iter() {
                    if let Some((flags, value)) = held(key) {
                        let cas = with_cas.then(|| Version(draw(key) % 1000));
                        compose::answer::value(out, key, flags, &value, cas);
                    }
                }
                out.extend_from_slice(b"END\r\n");
            }
            Request::Store(store) => {
                assert!(!store.noreply);
                if store.key.first() == Some(&NAME_MARK) {
                    let item = (store.flags, store.value.to_vec());
                    fake.replicas.insert(store.key.to_vec(), item);
                    return out.extend_from_slice(b"STORED\r\n");
                }
                let words: [&[u8]; 2] = [b"STORED\r\n", b"NOT_STORED\r\n"];
                out.extend_from_slice(words[draw(store.key) as usize % 2]);
            }
            Request::Delete { key, .. } => {
                let words: [&[u8]; 2] = [b"DELETED\r\n", b"NOT_FOUND\r\n"];
                out.extend_from_slice(words[draw(key) as usize % 2]);
            }
            Request::Arithmetic { key, .. } => {
                let words: [&[u8]; 2] = [b"17\r\n", b"NOT_FOUND\r\n"];
                out.extend_from_slice(words[draw(key) as usize % 2]);
            }
            Request::Touch { key, .. } => {
                let words: [&[u8]; 2] = [b"TOUCHED\r\n", b"NOT_FOUND\r\n"];
                out.extend_from_slice(words[draw(key) as usize % 2]);
            }
            Request::FlushAll { .. } | Request::Verbosity { .. } => {
                out.extend_from_slice(b"OK\r\n");
            }
            Request::Version if knows_meta => out.extend_from_slice(b"VERSION 1.6.18\r\n"),
            Request::Version => out.extend_from_slice(b"VERSION 1.4.33\r\n"),
            Request::Hello(_) if self.script.is_evenkeel => {
                let worker = WorkerRef {
                    server: ServerId(server as u16 + 1),
                    worker: 0,
                };
                let reply = HelloReply {
                    version: evenkeel_protocol::Hello::VERSION,
                    worker,
                    boot: BootId(1),
                    epoch: Epoch(1),
                    lease_ms: 500,
                    vote: None,
                };
                compose::answer::hello(out, &reply);
            }
            Request::MetaNoop if knows_meta => out.extend_from_slice(b"MN\r\n"),
            Request::MetaGet(meta) if knows_meta => {
                let mut scratch = KeyScratch::default();
                let item = held(meta.key(&mut scratch));
                let lends = self.script.is_evenkeel && !meta.flags.has(b'G');
                meta_get(out, meta, item, lends);
            }
            Request::MetaSet(meta) | Request::MetaDelete(meta) if knows_meta => {
                let outcome = draw(meta.key.text) % 3;
                let words: [&[u8]; 3] = [b"HD", b"NF", b"HD"];
                if outcome == 1 || !meta.flags.has(b'q') {
                    out.extend_from_slice(words[outcome as usize]);
                    echo(out, meta, None);
                    out.extend_from_slice(b"\r\n");
                }
            }
            Request::MetaArithmetic(meta) if knows_meta => {
                let hides = meta.flags.has(b'q');
                match (meta.flags.has(b'v'), hides) {
                    (_, true) => {}
                    (true, _) => {
                        out.extend_from_slice(b"VA 2");
                        echo(out, meta, None);
                        out.extend_from_slice(b"\r\n17\r\n");
                    }
                    (false, _) => {
                        out.extend_from_slice(b"HD");
                        echo(out, meta, None);
                        out.extend_from_slice(b"\r\n");
                    }
                }
            }
            Request::MetaDebug { key } if knows_meta => {
                out.extend_from_slice(b"ME ");
                out.extend_from_slice(key.text);
                out.extend_from_slice(b" exp=-1\r\n");
            }
            _ => out.extend_from_slice(b"ERROR\r\n"),
        }
    }

    fn check_bounds(&self) {
        for client in &self.clients {
            assert!(self.core.client_output(client.id).len() <= OUT_CLOSE);
        }
        for server in &self.servers {
            if let Some(id) = server.id {
                assert!(self.core.backend_output(id).len() <= BACKEND_BYTES_MAX);
            }
        }
    }

    /// Servers say nothing more: what was asked is answered all the same.
    fn finish(&mut self) {
        let end = self.now + PATIENCE;
        loop {
            let is_done = |client: &Application| {
                client.closed
                    || self.core.client_is_answered(client.id)
                        && (client.ended || self.core.client_wants_input(client.id))
            };
            if self.clients.iter().all(is_done) {
                return;
            }
            let due = self.core.poll_deadline().unwrap_or(self.now);
            self.now = due.max(self.now + Duration::from_millis(1));
            assert!(self.now < end, "somebody waits for ever");
            self.turn();
            self.pump();
        }
    }
}

fn meta_get(out: &mut Vec<u8>, meta: &Meta<'_>, item: Option<(u32, Vec<u8>)>, lends: bool) {
    let Some((flags, value)) = item else {
        return out.extend_from_slice(b"EN\r\n");
    };
    let has_value = meta.flags.has(b'v');
    // Writing into memory cannot fail.
    let _ = match has_value {
        true => write!(out, "VA {}", value.len()),
        false => write!(out, "HD"),
    };
    echo(out, meta, Some((flags, value.len())));
    if lends {
        out.extend_from_slice(b" G2");
    }
    out.extend_from_slice(b"\r\n");
    if has_value {
        out.extend_from_slice(&value);
        out.extend_from_slice(b"\r\n");
    }
}

/// The return flags that a meta command asks for.
fn echo(out: &mut Vec<u8>, meta: &Meta<'_>, item: Option<(u32, usize)>) {
    for (letter, token) in meta.flags {
        let _ = match (letter, item) {
            (b'f', Some((flags, _))) => write!(out, " f{flags}"),
            (b's', Some((_, len))) => write!(out, " s{len}"),
            (b't', Some(_)) => write!(out, " t-1"),
            (b'h', Some(_)) => write!(out, " h1"),
            (b'l', Some(_)) => write!(out, " l0"),
            (b'c', _) => {
                let mut scratch = KeyScratch::default();
                write!(out, " c{}", draw(meta.key(&mut scratch)) % 1000)
            }
            (b'O', _) => out.write_all(b" O").and_then(|()| out.write_all(token)),
            (b'k', _) => out
                .write_all(b" k")
                .and_then(|()| out.write_all(meta.key.text)),
            (b'b', _) => write!(out, " b"),
            _ => Ok(()),
        };
    }
}

/// A number that belongs to a key.
fn draw(key: &[u8]) -> u64 {
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    hash >> 20
}
