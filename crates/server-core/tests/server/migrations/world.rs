//! Servers of several workers, the maps that they get, and the links between them.

use crate::harness::{Client, Server, at, config};
use evenkeel_control::{MigrationReport, MigrationState};
use evenkeel_server_core::{Counters, LinkId, LinkRequest};
use evenkeel_types::map::{ClusterMap, MapDocument, Migration, ServerEntry, VIRTUAL_NODES};
use evenkeel_types::{CacheletId, Epoch, KeyHash, Now, ServerId, WorkerRef};
use std::collections::VecDeque;
use std::sync::Arc;

pub const SERVERS: u16 = 3;
pub const WORKERS: u16 = 2;
pub const CACHELETS: u16 = 6;

pub fn worker(server: usize, worker: u16) -> WorkerRef {
    WorkerRef {
        server: ServerId(server as u16),
        worker,
    }
}

/// Cachelet c belongs to worker c / 3 of server c % 3; all since epoch 1.
pub fn first_document() -> MapDocument {
    let ports = |id| (0..WORKERS).map(|worker| 2000 + 10 * id + worker).collect();
    let entry = |id| ServerEntry::new(id, "127.0.0.1", 1000 + id, ports(id));
    let owner = |c: u16| worker(usize::from(c % SERVERS), c / SERVERS);
    MapDocument {
        since: vec![Epoch(1); usize::from(CACHELETS)],
        stay: vec![Epoch(1); usize::from(CACHELETS)],
        ..MapDocument::new(
            1,
            (0..SERVERS).map(entry).collect(),
            VIRTUAL_NODES,
            (0..CACHELETS).map(owner).map(Some).collect(),
        )
    }
}

/// A connection between two workers, of which bytes arrive in pieces.
pub struct Wire {
    pub from: WorkerRef,
    pub id: LinkId,
    pub to: Client,
    pub there: VecDeque<u8>,
    pub back: VecDeque<u8>,
}

/// Three servers, the coordinator's newest map, and the connections between the servers.
pub struct World {
    pub servers: Vec<Server>,
    pub document: MapDocument,
    pub maps: Vec<Arc<ClusterMap>>,
    /// Epoch of the map that the workers have taken.
    pub taken: Epoch,
    pub wires: Vec<Wire>,
    pub ms: u64,
    pub flips: usize,
    pub aborts: usize,
}

impl World {
    pub fn new() -> Self {
        let mut config = config(WORKERS, true);
        config.hot_keys.mode = evenkeel_hotkeys::config::Mode::Off;
        let servers = (0..SERVERS).map(|_| Server::new(config.clone())).collect();
        let mut world = World {
            servers,
            document: first_document(),
            maps: Vec::new(),
            taken: Epoch(0),
            wires: Vec::new(),
            ms: 0,
            flips: 0,
            aborts: 0,
        };
        world.publish();
        world.apply_all();
        world
    }

    pub fn now(&self) -> Now {
        at(self.ms)
    }

    pub fn publish(&mut self) {
        let map = ClusterMap::new(self.document.clone()).expect("a sound map");
        self.maps.push(Arc::new(map));
    }

    /// The next map differs in what `change` does.
    pub fn change(&mut self, change: impl FnOnce(&mut MapDocument)) {
        self.document.epoch.0 += 1;
        change(&mut self.document);
        self.publish();
    }

    pub fn order(&mut self, cachelet: u16, to: WorkerRef) {
        self.change(|document| {
            document.migrations.push(Migration {
                cachelet: CacheletId(cachelet),
                to,
                began: document.epoch,
                cancelled: false,
                bytes_per_second: 0,
            });
            document
                .migrations
                .sort_by_key(|migration| migration.cachelet);
        });
    }

    /// All workers take the newest map.
    pub fn apply_all(&mut self) {
        let now = self.now();
        let newest = self.maps.last().expect("there is one");
        for (id, server) in (0..SERVERS).map(ServerId).zip(&mut self.servers) {
            for worker in &mut server.workers {
                if self.taken < newest.epoch() {
                    assert!(worker.handle_map(now, newest, id));
                }
            }
            server.pump(now);
        }
        self.taken = newest.epoch();
    }

    pub fn reports(&self) -> Vec<MigrationReport> {
        let workers = self.servers.iter().flat_map(|server| &server.workers);
        workers
            .flat_map(|worker| worker.migration_reports())
            .collect()
    }

    /// What the coordinator makes of what is reported.
    pub fn coordinate(&mut self) {
        for report in self.reports() {
            let ordered = &self.document.migrations;
            let at = ordered.iter().position(|migration| {
                (migration.cachelet, migration.began) == (report.cachelet, report.began)
            });
            let Some(at) = at else { continue };
            match report.state {
                MigrationState::Moved | MigrationState::Live => {
                    self.flips += 1;
                    self.change(|document| {
                        let migration = document.migrations.remove(at);
                        let at = usize::from(report.cachelet.0);
                        document.cachelets[at] = Some(migration.to);
                        document.stay[at] = migration.began;
                    });
                }
                MigrationState::Aborted => {
                    self.aborts += 1;
                    self.change(|document| {
                        document.migrations.remove(at);
                    });
                }
                MigrationState::Copying | MigrationState::Staged => {}
            }
        }
    }

    /// Opens and closes connections as the workers wish, and takes what they want to send.
    pub fn collect(&mut self) {
        let now = self.now();
        for server in 0..usize::from(SERVERS) {
            for index in 0..usize::from(WORKERS) {
                let from = worker(server, index as u16);
                while let Some(request) = self.servers[server].workers[index].poll_link_request() {
                    match request {
                        LinkRequest::Connect { link: id, .. } => {
                            let target = usize::from(id.worker.server.0);
                            let place = usize::from(id.worker.worker);
                            let to = Client::open(&mut self.servers[target], place);
                            let (there, back) = (VecDeque::new(), VecDeque::new());
                            self.wires.push(Wire {
                                from,
                                id,
                                to,
                                there,
                                back,
                            });
                            self.servers[server].workers[index].link_up(now, id);
                        }
                        LinkRequest::Close(id) => {
                            let at = self.wires.iter().position(|w| (w.from, w.id) == (from, id));
                            if let Some(at) = at {
                                self.close(at);
                            }
                        }
                    }
                }
            }
        }
        for wire in &mut self.wires {
            let core = &mut self.servers[usize::from(wire.from.server.0)].workers;
            if let Some(out) = core[usize::from(wire.from.worker)].link_out(wire.id) {
                wire.there.extend(out.drain(..));
            }
        }
    }

    /// One end of a connection learns that it is gone.
    pub fn close(&mut self, wire: usize) {
        let wire = self.wires.remove(wire);
        let target = &mut self.servers[usize::from(wire.id.worker.server.0)];
        target.workers[wire.to.worker].close(wire.to.id);
    }

    /// A connection breaks.
    pub fn cut(&mut self, wire: usize) {
        let (from, id, now) = (self.wires[wire].from, self.wires[wire].id, self.now());
        self.close(wire);
        let server = &mut self.servers[usize::from(from.server.0)];
        server.workers[usize::from(from.worker)].link_lost(now, id);
        server.pump(now);
    }

    /// Up to this many bytes arrive, in both directions.
    pub fn carry(&mut self, wire: usize, most: usize) {
        let now = self.now();
        let wire = &mut self.wires[wire];
        let some: Vec<u8> = wire.there.drain(..most.min(wire.there.len())).collect();
        let target = &mut self.servers[usize::from(wire.id.worker.server.0)];
        let answers = wire.to.ask_bytes(target, now, &some);
        wire.back.extend(answers);
        let some = wire.back.make_contiguous();
        let some = some[..most.min(some.len())].to_vec();
        let (from, id) = (wire.from, wire.id);
        let server = &mut self.servers[usize::from(from.server.0)];
        let core = &mut server.workers[usize::from(from.worker)];
        let consumed = core.link_input(now, id, &some);
        server.pump(now);
        if let Some(wire) = self.wires.iter_mut().find(|w| (w.from, w.id) == (from, id)) {
            wire.back.drain(..consumed);
        }
    }

    pub fn tick(&mut self, ms: u64) {
        self.ms += ms;
        let now = self.now();
        for server in &mut self.servers {
            for worker in &mut server.workers {
                worker.handle_timeout(now);
            }
            server.pump(now);
        }
        self.collect();
    }

    /// Lets everything happen that is to happen.
    pub fn run(&mut self) {
        for _ in 0..400 {
            self.tick(1);
            for wire in (0..self.wires.len()).rev() {
                self.carry(wire, usize::MAX);
                self.collect();
                if wire >= self.wires.len() {
                    break;
                }
            }
            self.coordinate();
            self.apply_all();
        }
    }

    pub fn counts(&self) -> Counters {
        let mut sum = Counters::default();
        for worker in self.servers.iter().flat_map(|server| &server.workers) {
            let counts = worker.counts();
            sum.migrations_passed += counts.migrations_passed;
            sum.migrations_came += counts.migrations_came;
            sum.curr_items += counts.curr_items;
        }
        sum
    }
}

/// A key of that cachelet.
pub fn key_in(map: &ClusterMap, cachelet: u16, number: usize) -> String {
    let keys = (0..).map(|i| format!("k{i}"));
    let mut keys =
        keys.filter(|key| map.locate(KeyHash::of(key.as_bytes())).cachelet == CacheletId(cachelet));
    keys.nth(number).expect("endless")
}

pub fn hello(epoch: u64) -> String {
    format!("evenkeel 1 epoch={epoch}\r\n")
}
