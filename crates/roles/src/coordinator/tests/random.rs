//! A cluster in which everything goes wrong at random, checked at every step.
//!
//! The model knows what the coordinator cannot: what every process believes. A process serves the
//! cachelets that the map it works by gives to it, so "never two owners" is checked on what is
//! really served, with lost and late answers, dead, frozen and restarted servers and restarts of
//! the coordinator itself.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::*;

const SERVERS: u16 = 8;
const STEPS: usize = 1_500;
const SEEDS: u64 = 40;

/// One server process and what it believes.
struct Process {
    heartbeat: Heartbeat,
    alive: bool,
    /// Heartbeats and answers get through.
    connected: bool,
    /// The map it works by.
    works_by: Option<Arc<ClusterMap>>,
    /// A map it has received and not carried out yet.
    received: Option<Arc<ClusterMap>>,
}

impl Process {
    fn new(n: u16) -> Process {
        Process {
            heartbeat: server(n, 2),
            alive: false,
            connected: true,
            works_by: None,
            received: None,
        }
    }

    /// Starts a new life.
    fn start(&mut self, boot: u64, workers: u16) {
        let n = self.heartbeat.port / 100 - 100;
        self.heartbeat = Heartbeat {
            boot: BootId(boot),
            ..server(n, workers)
        };
        self.alive = true;
        self.works_by = None;
        self.received = None;
    }

    fn carry_out(&mut self) {
        if let Some(map) = self.received.take() {
            self.heartbeat.epoch = map.epoch();
            self.works_by = Some(map);
        }
    }
}

struct Model {
    world: World,
    random: Xoshiro256PlusPlus,
    processes: Vec<Process>,
    boots: u64,
    /// Ids by name, as first seen.
    ids: BTreeMap<String, ServerId>,
    last_map: Option<Arc<ClusterMap>>,
}

impl Model {
    fn new(seed: u64) -> Model {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let initial = 1 + (random.next_u64() % 3) as usize;
        Model {
            world: World::new(initial),
            random,
            processes: (1..=SERVERS).map(Process::new).collect(),
            boots: 1,
            ids: BTreeMap::new(),
            last_map: None,
        }
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.random.next_u64() % 1_000 < per_mille
    }

    fn any(&mut self) -> usize {
        (self.random.next_u64() % self.processes.len() as u64) as usize
    }

    fn step(&mut self) {
        let ms = self.random.next_u64() % 400;
        self.world.pass(ms);
        self.check();
        let i = self.any();
        match self.random.next_u64() % 100 {
            0..5 => {
                self.boots += 1;
                let boots = self.boots;
                let workers = 1 + (self.random.next_u64() % 3) as u16;
                self.processes[i].start(boots, workers);
            }
            5..7 => self.processes[i].alive = false,
            7..10 => self.processes[i].connected = !self.processes[i].connected,
            10..12 => self.world.restart(),
            12 => {
                // The coordinator's process is stopped for a while.
                let ms = self.random.next_u64() % 60_000;
                self.world.now.monotonic = self.world.now.monotonic + Duration::from_millis(ms);
            }
            13 => {
                let request = DrainRequest {
                    server: self.processes[i].heartbeat.name.clone(),
                    drain: self.chance(700),
                    cachelets_per_second: 1 + (self.random.next_u64() % 50) as u32,
                };
                // It may be unknown, or the last one.
                let now = self.world.now.monotonic;
                let _ = self.world.core.handle_drain(now, &request);
            }
            14..40 => self.processes[i].carry_out(),
            _ => self.report(i),
        }
        self.check();
    }

    fn report(&mut self, i: usize) {
        let answer_lost = self.chance(200);
        let process = &mut self.processes[i];
        if !process.alive || !process.connected {
            return;
        }
        let answer = self.world.send(&process.heartbeat).unwrap();
        let id = answer.server_id.unwrap();
        let known = self.ids.entry(process.heartbeat.name.clone()).or_insert(id);
        assert_eq!(*known, id, "an id belongs to a name");
        if !answer_lost && let Some(map) = answer.map {
            process.received = Some(map);
        }
    }

    /// What must hold at every moment.
    fn check(&mut self) {
        self.check_single_owner();
        let Some(map) = self.world.core.map().cloned() else {
            return;
        };
        assert_eq!(map.epoch(), self.world.core.epoch());
        assert_eq!(map.document().validate(), Ok(()));
        if let Some(last) = &self.last_map {
            assert!(map.epoch() >= last.epoch(), "the epoch only grows");
            if map.epoch() == last.epoch() {
                assert_eq!(map, *last, "a map never changes");
            }
            let cachelets = last
                .document()
                .cachelets
                .iter()
                .zip(&map.document().cachelets);
            for (before, now) in cachelets {
                if let (Some(before), Some(now)) = (before, now)
                    && before != now
                {
                    assert_eq!(before.server, now.server, "no cachelet jumps");
                    let boot = |map: &ClusterMap| map.server(before.server).map(|s| s.boot);
                    assert_ne!(
                        boot(last),
                        boot(&map),
                        "workers change with a new life only"
                    );
                }
            }
        }
        self.last_map = Some(map);
    }

    /// Of all processes that run, reachable or not, at most one serves a cachelet.
    fn check_single_owner(&self) {
        let mut served = BTreeMap::new();
        for process in self.processes.iter().filter(|p| p.alive) {
            let Some(map) = &process.works_by else {
                continue;
            };
            let me = self.ids[&process.heartbeat.name];
            let mine = |owner: &Option<WorkerRef>| owner.is_some_and(|o| o.server == me);
            for (cachelet, owner) in map.document().cachelets.iter().enumerate() {
                if mine(owner) {
                    let other = served.insert(cachelet, me);
                    assert_eq!(other, None, "cachelet {cachelet} has two owners");
                }
            }
        }
    }

    /// All faults stop; within a few rounds everything must be in order.
    fn heal_and_check(&mut self) {
        for i in 0..self.processes.len() {
            self.processes[i].connected = true;
            if !self.processes[i].alive {
                self.boots += 1;
                let boots = self.boots;
                self.processes[i].start(boots, 2);
            }
            let request = DrainRequest {
                server: self.processes[i].heartbeat.name.clone(),
                drain: false,
                cachelets_per_second: 1,
            };
            let now = self.world.now.monotonic;
            // A server that never came is unknown.
            let _ = self.world.core.handle_drain(now, &request);
        }
        for _ in 0..6 {
            for process in &mut self.processes {
                let answer = self.world.send(&process.heartbeat).unwrap();
                self.ids
                    .insert(process.heartbeat.name.clone(), answer.server_id.unwrap());
                process.received = answer.map.or(process.received.take());
                process.carry_out();
            }
            self.check();
            self.world.pass(100);
        }
        assert_eq!(self.world.core.cachelets_in_transit(), 0);
        let mut shares = self.world.shares();
        for worker in self.world.core.parties(self.world.now.monotonic).takers {
            shares.entry(worker).or_default();
        }
        let (least, most) = (shares.values().min(), shares.values().max());
        assert!(most.unwrap() - least.unwrap() <= 1, "{shares:?}");
        for process in &self.processes {
            assert_eq!(process.works_by.as_ref(), self.world.core.map());
        }
        let epoch = self.world.core.epoch();
        for _ in 0..10 {
            for process in &self.processes {
                self.world.send(&process.heartbeat).unwrap();
            }
            self.world.pass(500);
        }
        assert_eq!(
            self.world.core.epoch(),
            epoch,
            "a cluster at rest stays at rest"
        );
    }
}

fn run(seed: u64) -> (u64, BTreeMap<Cause, u64>) {
    println!("seed {seed}");
    let mut model = Model::new(seed);
    let mut changes = BTreeMap::new();
    for _ in 0..STEPS {
        model.step();
        for (cause, n) in &model.world.core.counters().map_changes {
            let most: &mut u64 = changes.entry(*cause).or_default();
            *most = (*most).max(*n);
        }
    }
    model.heal_and_check();
    (model.world.core.epoch().0, changes)
}

#[test]
fn no_fault_gives_a_cachelet_two_owners_and_all_heal() {
    let mut seen = BTreeMap::new();
    for seed in 0..SEEDS {
        for (cause, n) in run(seed).1 {
            *seen.entry(cause).or_insert(0) += n;
        }
    }
    for cause in Cause::ALL {
        assert!(seen[&cause] > 0, "{cause} never happened: {seen:?}");
    }
}

#[test]
fn one_seed_gives_one_history() {
    assert_eq!(run(7), run(7));
}
