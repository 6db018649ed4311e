//! A server made of cores alone: messages between workers are carried by a loop, time is a number.

use evenkeel_balance::load::TriggerConfig;
use evenkeel_hotkeys::config::HotKeysConfig;
use evenkeel_protocol::binary::{Command, ReplyHeader, Request};
use evenkeel_server_core::{ConnectionId, LinkId, LinkRequest, Peer, WorkerConfig, WorkerCore};
use evenkeel_storage::{PoolConfig, SegmentPool};
use evenkeel_types::map::{ClusterMap, MapDocument, ServerEntry, VIRTUAL_NODES};
use evenkeel_types::{Instant, Now, ServerId, UnixSeconds, WorkerRef};
use std::sync::Arc;

pub const START_UNIX: UnixSeconds = 1_800_000_000;

/// A reading of the clocks this many milliseconds after the start.
pub fn at(ms: u64) -> Now {
    Now {
        monotonic: Instant::from_millis(ms),
        unix: START_UNIX + (ms / 1000) as UnixSeconds,
    }
}

/// Settings of a worker for tests: everything sampled, so that few reads make a key hot.
pub fn config(workers: u16, clustered: bool) -> WorkerConfig {
    WorkerConfig {
        clustered,
        hot_keys: HotKeysConfig {
            // Stories write at one moment again and again.
            reads_per_store: 0.0,
            sampling: Some(1.0),
            certainty: 0.0,
            trigger: TriggerConfig {
                absolute_rps: Some(1.0),
                ..TriggerConfig::default()
            },
            ..HotKeysConfig::default()
        },
        ..WorkerConfig::new(workers, at(0), 7)
    }
}

/// The workers of one server.
pub struct Server {
    pub workers: Vec<WorkerCore>,
}

impl Server {
    pub fn new(config: WorkerConfig) -> Self {
        let pool = SegmentPool::new(PoolConfig {
            limit_bytes: 32 << 20,
            item_size_max: config.limits.item_size_max,
            cachelets_expected: 16 * usize::from(config.workers),
        });
        let workers = (0..config.workers)
            .map(|index| {
                WorkerCore::new(
                    WorkerConfig {
                        index,
                        ..config.clone()
                    },
                    &pool,
                )
                .expect("settings")
            })
            .collect();
        Server { workers }
    }

    pub fn standalone(workers: u16) -> Self {
        Server::new(config(workers, false))
    }

    /// Carries messages between the workers until there are none.
    pub fn pump(&mut self, now: Now) {
        loop {
            let mut moved = Vec::new();
            for (from, worker) in self.workers.iter_mut().enumerate() {
                worker.handle_released(now);
                worker.flush_outbox(|to, message| {
                    moved.push((from as u16, to, message));
                    Ok(())
                });
            }
            if moved.is_empty() {
                return;
            }
            for (from, to, message) in moved {
                self.workers[usize::from(to)].handle_whole_message(now, from, message);
            }
        }
    }
}

/// A connection to one worker of a server, with what it has not consumed yet.
pub struct Client {
    pub worker: usize,
    pub id: ConnectionId,
    waiting: Vec<u8>,
}

impl Client {
    pub fn open(server: &mut Server, worker: usize) -> Self {
        Client::open_as(server, worker, Peer::default())
    }

    /// The same for a peer of which the listener knows something.
    pub fn open_as(server: &mut Server, worker: usize, peer: Peer) -> Self {
        let id = server.workers[worker].open(peer);
        Client {
            worker,
            id,
            waiting: Vec::new(),
        }
    }

    /// Sends bytes and gives everything that is answered once the server has settled.
    pub fn ask(&mut self, server: &mut Server, now: Now, bytes: impl AsRef<[u8]>) -> String {
        self.send(server, now, bytes.as_ref());
        self.answers(server, now)
    }

    /// The same for answers that are not text.
    pub fn ask_bytes(&mut self, server: &mut Server, now: Now, bytes: &[u8]) -> Vec<u8> {
        self.send(server, now, bytes);
        self.answer_bytes(server, now)
    }

    /// Sends bytes and lets the server work on them, without reading answers.
    pub fn send(&mut self, server: &mut Server, now: Now, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
        self.turn(server, now);
    }

    /// Shows the worker what waits, until it makes no more of it.
    pub fn turn(&mut self, server: &mut Server, now: Now) {
        loop {
            let worker = &mut server.workers[self.worker];
            let progress = worker.handle_input(now, self.id, &self.waiting);
            self.waiting.drain(..progress.consumed);
            server.pump(now);
            if !progress.more {
                return;
            }
        }
    }

    /// Reads answers, and goes on with what had to wait for them to be read.
    pub fn answers(&mut self, server: &mut Server, now: Now) -> String {
        String::from_utf8_lossy(&self.answer_bytes(server, now)).into_owned()
    }

    fn answer_bytes(&mut self, server: &mut Server, now: Now) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(session) = server.workers[self.worker].session(self.id) {
            let out = core::mem::take(&mut session.out);
            all.extend_from_slice(&out);
            let before = self.waiting.len();
            self.turn(server, now);
            if out.is_empty() && self.waiting.len() == before {
                break;
            }
        }
        all
    }

    pub fn is_closing(&self, server: &mut Server) -> bool {
        server.workers[self.worker]
            .session(self.id)
            .is_none_or(|session| session.closing)
    }
}

/// A map of servers with one worker each; cachelets go round them.
pub fn map(epoch: u64, servers: u16) -> Arc<ClusterMap> {
    let cachelets = servers * 4;
    let owner = |cachelet: u16| WorkerRef {
        server: ServerId(cachelet % servers + 1),
        worker: 0,
    };
    let entry = |id| ServerEntry::new(id, "127.0.0.1", 1000 + id, vec![2000 + id]);
    let document = MapDocument::new(
        epoch,
        (1..=servers).map(entry).collect(),
        VIRTUAL_NODES,
        (0..cachelets).map(owner).map(Some).collect(),
    );
    Arc::new(ClusterMap::new(document).expect("a sound map"))
}

/// A link from a worker to one of another server, carried by hand.
pub struct LinkWire {
    pub home: usize,
    pub shadow: usize,
    id: LinkId,
    client: Client,
}

/// Servers with one worker each under one map, and the links between them.
pub struct Cluster {
    pub servers: Vec<Server>,
    pub links: Vec<LinkWire>,
    pub map: Arc<ClusterMap>,
    /// Shadows that do not answer: what is sent to them waits.
    pub cut: Vec<usize>,
}

impl Cluster {
    pub fn new(count: u16) -> Self {
        Cluster::with(count, &config(1, true))
    }

    /// The same with other settings. The map gives keys to the first worker of each server.
    pub fn with(count: u16, config: &WorkerConfig) -> Self {
        let map = map(1, count);
        let servers = (1..=count)
            .map(|id| {
                let mut server = Server::new(config.clone());
                for worker in &mut server.workers {
                    assert!(worker.handle_map(at(0), &map, ServerId(id)));
                }
                server
            })
            .collect();
        Cluster {
            servers,
            links: Vec::new(),
            map,
            cut: Vec::new(),
        }
    }

    /// Carries bytes over links until nothing moves.
    pub fn pump(&mut self, now: Now) {
        let mut moved = true;
        while moved {
            moved = false;
            for home in 0..self.servers.len() {
                while let Some(request) = self.servers[home].workers[0].poll_link_request() {
                    moved = true;
                    match request {
                        LinkRequest::Connect { link: id, .. } => {
                            let shadow = usize::from(id.worker.server.0) - 1;
                            let worker = usize::from(id.worker.worker);
                            let client = Client::open(&mut self.servers[shadow], worker);
                            self.links.push(LinkWire {
                                home,
                                shadow,
                                id,
                                client,
                            });
                            self.servers[home].workers[0].link_up(now, id);
                        }
                        LinkRequest::Close(id) => {
                            let closed =
                                self.links.extract_if(.., |l| (l.home, l.id) == (home, id));
                            for link in closed.collect::<Vec<_>>() {
                                let worker =
                                    &mut self.servers[link.shadow].workers[link.client.worker];
                                worker.close(link.client.id);
                            }
                        }
                    }
                }
            }
            for link in &mut self.links {
                if self.cut.contains(&link.shadow) {
                    continue;
                }
                let out = self.servers[link.home].workers[0].link_out(link.id);
                let bytes = out.map(core::mem::take).unwrap_or_default();
                if bytes.is_empty() {
                    continue;
                }
                moved = true;
                let answer = link.client.ask(&mut self.servers[link.shadow], now, &bytes);
                let worker = &mut self.servers[link.home].workers[0];
                let consumed = worker.link_input(now, link.id, answer.as_bytes());
                assert_eq!(consumed, answer.len());
                self.servers[link.home].pump(now);
            }
        }
    }

    /// Lets time pass for everybody.
    pub fn tick(&mut self, now: Now) {
        for server in &mut self.servers {
            for worker in &mut server.workers {
                worker.handle_timeout(now);
            }
            server.pump(now);
        }
        self.pump(now);
    }

    /// Index of the home server of a key.
    pub fn home(&self, key: &[u8]) -> usize {
        let place = self.map.locate(evenkeel_types::KeyHash::of(key));
        usize::from(place.worker.expect("every cachelet has an owner").server.0) - 1
    }
}

/// A command of the binary protocol, as its clients send it.
pub fn frame(command: Command<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    Request::new(command).write(&mut out);
    out
}

/// The statuses of the replies in `bytes`.
pub fn statuses(mut bytes: &[u8]) -> Vec<u16> {
    let mut all = Vec::new();
    while let Some(header) = ReplyHeader::parse(bytes) {
        all.push(header.status);
        bytes = &bytes[24 + header.body_len as usize..];
    }
    assert!(bytes.is_empty());
    all
}
