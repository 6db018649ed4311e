//! A cluster whose servers die, stop, part and come back, on clocks of their own: of the servers that may serve by their
//! leases no two ever have one cachelet, and a dead server's cachelets are soon with others.
//!
//! The servers' side is the shipped [`LeaseKeeper`]; what travels is delayed and lost.

use evenkeel_policy::placement::map::ClusterMap;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::*;
use crate::server::{LeaseKeeper, ServingLease, Step};

const STEP_MS: u64 = 20;
const STEPS: usize = 6_000;
const SEEDS: u64 = 12;

/// Clocks run so much too fast or too slow, in parts per thousand: within what the margin allows for.
const DRIFT: u64 = 15;

struct Process {
    heartbeat: Heartbeat,
    keeper: LeaseKeeper,
    map: Option<Arc<ClusterMap>>,
    lease: Option<ServingLease>,
    alive: bool,
    stopped_until: Instant,
    /// It and the coordinator do not reach each other.
    lonely: bool,
    /// It answers where others reach it, though its heartbeats may be lost.
    reached: bool,
    /// Parts per thousand of time.
    rate: u64,
    beats_at: Instant,
    answers: Vec<(Instant, Instant, HeartbeatAnswer)>,
}

impl Process {
    fn new(n: u16, boot: u64, rate: u64) -> Process {
        let heartbeat = Heartbeat {
            boot: BootId(boot),
            leased: true,
            ..server(n, 1)
        };
        Process {
            keeper: LeaseKeeper::new(heartbeat.boot),
            heartbeat,
            map: None,
            lease: None,
            alive: true,
            stopped_until: Instant(0),
            lonely: false,
            reached: false,
            rate,
            beats_at: Instant(0),
            answers: Vec::new(),
        }
    }

    fn clock(&self, now: Instant) -> Instant {
        Instant(now.0 / 1_000 * self.rate)
    }

    fn runs(&self, now: Instant) -> bool {
        self.alive && now >= self.stopped_until
    }

    fn take(&mut self, lease: ServingLease) {
        let epoch = self.map.as_ref().map_or(Epoch(0), |map| map.epoch());
        if epoch >= lease.epoch && self.lease.is_none_or(|held| held.until < lease.until) {
            self.lease = Some(lease);
        }
    }

    fn may_serve(&self, now: Instant) -> bool {
        let holds = |lease: ServingLease| self.clock(now) < lease.until;
        self.runs(now) && self.lease.is_some_and(holds)
    }
}

struct Model {
    world: World,
    random: Xoshiro256PlusPlus,
    processes: Vec<Process>,
    /// Pairs of servers that do not reach each other.
    parted: BTreeSet<(usize, usize)>,
    boots: u64,
    /// A mutant: whoever owns a cachelet by its map serves it.
    ignores_leases: bool,
    two_owners: usize,
    fenced: u64,
    reached: u64,
    /// Cachelets in quarantine once faults have stopped.
    quarantined: u64,
}

impl Model {
    fn new(seed: u64, ignores_leases: bool) -> Model {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let servers = 2 + (random.next_u64() % 5) as u16;
        let mut world = World::new(usize::from(servers));
        world.now.monotonic = Instant::from_millis(100_000);
        let processes = (1..=servers)
            .map(|n| {
                let rate = 1_000 - DRIFT + random.next_u64() % (2 * DRIFT + 1);
                Process::new(n, u64::from(n), rate)
            })
            .collect();
        Model {
            world,
            random,
            processes,
            parted: BTreeSet::new(),
            boots: 1_000,
            ignores_leases,
            two_owners: 0,
            fenced: 0,
            reached: 0,
            quarantined: 0,
        }
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.random.next_u64() % 1_000 < per_mille
    }

    fn any(&mut self) -> usize {
        (self.random.next_u64() % self.processes.len() as u64) as usize
    }

    fn now(&self) -> Instant {
        self.world.now.monotonic
    }

    fn step(&mut self) {
        self.world.pass(STEP_MS);
        self.reach();
        for i in 0..self.processes.len() {
            if self.processes[i].runs(self.now()) {
                self.hear(i);
                self.beat(i);
                self.vote(i);
            }
        }
        self.check();
    }

    fn strike(&mut self) {
        let (i, j) = (self.any(), self.any());
        let now = self.now();
        let long = Duration::from_millis(self.random.next_u64() % 9_000);
        match self.random.next_u64() % 100 {
            0..20 => self.processes[i].stopped_until = now + long,
            20..30 => self.processes[i].alive = false,
            30..50 => self.start(i),
            50..70 => {
                self.processes[i].lonely ^= true;
                self.processes[i].reached = self.chance(500);
            }
            70..85 => drop(self.parted.insert((i.min(j), i.max(j)))),
            85..95 => self.parted.clear(),
            95..97 => self.world.restart(),
            97 => self.world.sleep(long.as_millis() as u64),
            _ => self.processes.iter_mut().for_each(|p| p.lonely = true),
        }
    }

    /// The coordinator says hello to those whose heartbeats do not come.
    fn reach(&mut self) {
        let now = self.now();
        let unheard: Vec<_> = self.world.core.unheard(now).cloned().collect();
        for server in unheard {
            let mut processes = self.processes.iter();
            let answers = processes.any(|process| {
                process.heartbeat.boot == server.boot && process.reached && process.runs(now)
            });
            if answers {
                let core = &mut self.world.core;
                core.handle_reached(now, server.id, server.boot);
            }
        }
    }

    fn start(&mut self, i: usize) {
        if !self.processes[i].alive {
            self.boots += 1;
            let rate = self.processes[i].rate;
            self.processes[i] = Process::new(i as u16 + 1, self.boots, rate);
        }
    }

    /// Answers of the coordinator arrive, however late.
    fn hear(&mut self, i: usize) {
        let now = self.now();
        let process = &mut self.processes[i];
        let (due, later) = process.answers.drain(..).partition(|(at, ..)| *at <= now);
        process.answers = later;
        let due: Vec<(Instant, Instant, HeartbeatAnswer)> = due;
        for (_, sent, answer) in due {
            let known = process.map.as_ref().map_or(Epoch(0), |map| map.epoch());
            if answer.epoch < known {
                continue;
            }
            if let Some(map) = answer.map {
                process.heartbeat.epoch = map.epoch();
                process.map = Some(map.clone());
                let me = answer.server_id.expect("a server");
                process.keeper.handle_map(map, me);
            }
            let lease = answer.lease_ms.map(Duration::from_millis);
            let lease = process.keeper.handle_answer(sent, answer.epoch, lease);
            process.take(lease);
        }
    }

    fn beat(&mut self, i: usize) {
        let (now, is_lost) = (self.now(), self.chance(50));
        let late = Duration::from_millis(match self.chance(50) {
            true => self.random.next_u64() % 3_000,
            false => self.random.next_u64() % 40,
        });
        if now < self.processes[i].beats_at {
            return;
        }
        self.processes[i].beats_at = now + Duration::from_millis(200);
        if self.processes[i].lonely || is_lost {
            return;
        }
        let answer = self
            .world
            .core
            .handle_heartbeat(self.world.now, &self.processes[i].heartbeat);
        if let Err(Refusal::NameTaken { .. }) = answer {
            // A new life, before the former one is known to have ended.
            return;
        }
        let process = &mut self.processes[i];
        let sent = process.clock(now);
        process
            .answers
            .push((now + late, sent, answer.expect("it is known")));
    }

    fn vote(&mut self, i: usize) {
        let now = self.now();
        let process = &mut self.processes[i];
        let (clock, epoch) = (process.clock(now), process.heartbeat.epoch);
        match process.keeper.handle_timeout(clock, epoch) {
            Step::Wait => {}
            Step::Lease(lease) => process.take(lease),
            Step::Ask {
                round,
                epoch,
                voters,
            } => {
                let (me, boot) = (ServerId(i as u16), process.heartbeat.boot);
                let me = process.keeper.map().map_or(me, |(_, me)| me);
                for voter in voters {
                    let is_it = |p: &Process| {
                        let known = p.keeper.map();
                        p.runs(now) && known.is_some_and(|(_, id)| id == voter.server)
                    };
                    let Some(j) = self.processes.iter().position(is_it) else {
                        continue;
                    };
                    let map = self.processes[j].map.clone();
                    let lets = map.is_some_and(|map| map.lets_serve(me, boot, epoch));
                    let is_cut = self.parted.contains(&(i.min(j), i.max(j)));
                    if !lets || is_cut || self.chance(20) {
                        continue;
                    }
                    let lease = self.processes[i].keeper.handle_vote(round, voter.server);
                    lease
                        .into_iter()
                        .for_each(|lease| self.processes[i].take(lease));
                }
            }
        }
    }

    /// Of all that serve, reachable or not, at most one has a cachelet.
    fn check(&mut self) {
        let now = self.now();
        let mut served = BTreeSet::new();
        for process in &self.processes {
            let serves = process.may_serve(now) || self.ignores_leases && process.runs(now);
            if !serves {
                continue;
            }
            let Some((map, me)) = process
                .map
                .clone()
                .zip(process.keeper.map().map(|(_, me)| me))
            else {
                continue;
            };
            for (cachelet, owner) in map.document().cachelets.iter().enumerate() {
                if owner.is_some_and(|owner| owner.server == me) && !served.insert(cachelet) {
                    self.two_owners += 1;
                }
            }
        }
        let fenced = self.world.core.counters().map_changes[&Cause::ServerFenced];
        self.fenced = self.fenced.max(fenced);
    }

    /// Faults stop, and then one server dies for good.
    fn heal_and_kill(&mut self) {
        self.parted.clear();
        self.reached = self.world.core.counters().reached;
        for i in 0..self.processes.len() {
            self.start(i);
            self.processes[i].lonely = false;
            self.processes[i].stopped_until = Instant(0);
        }
        (0..500).for_each(|_| self.step());
        let now = self.now();
        assert!(self.processes.iter().all(|process| process.may_serve(now)));
        let epoch = self.world.core.epoch();
        (0..500).for_each(|_| self.step());
        assert_eq!(self.world.core.epoch(), epoch, "all is at rest");
        for slot in &self.world.core.slots {
            if let Slot::Quarantined { died, .. } = slot {
                let boots: Vec<_> = died.iter().flatten().map(|life| life.boot).collect();
                let mut processes = self.processes.iter();
                let is_alive = processes.any(|process| boots.contains(&process.heartbeat.boot));
                assert!(!is_alive, "who is alive has not died");
                self.quarantined += 1;
            }
        }
        self.processes[0].alive = false;
        let (_, me) = self.processes[0].keeper.map().expect("it has a map");
        let up = |model: &Model| model.world.core.map().is_some_and(|map| map.is_up(me));
        while up(self) {
            self.step();
        }
        let down = self.now();
        let owns = |model: &Model| {
            let slots = &model.world.core.slots;
            let mut slots = slots.iter().filter(|slot| !slot.is_quarantined());
            slots.any(|slot| slot.owner().is_none_or(|owner| owner.server == me))
        };
        while owns(self) {
            self.step();
            let lasted = self.now().since(down);
            assert!(lasted < Duration::from_secs(2), "{lasted:?}");
        }
    }
}

fn run(seed: u64, ignores_leases: bool) -> Model {
    println!("seed {seed}");
    let mut model = Model::new(seed, ignores_leases);
    for _ in 0..STEPS {
        model.step();
        if model.chance(20) {
            model.strike();
        }
    }
    model
}

#[test]
fn no_two_servers_serve_a_cachelet_and_a_dead_ones_are_soon_with_others() {
    let (mut fenced, mut reached, mut quarantined) = (0, 0, 0);
    for seed in 0..SEEDS {
        let mut model = run(seed, false);
        fenced += model.fenced;
        model.heal_and_kill();
        reached += model.reached;
        quarantined += model.quarantined;
        assert_eq!(model.two_owners, 0, "seed {seed}");
    }
    assert!(quarantined > 0, "owners died one after the other");
    assert!(fenced > 0, "servers were given up while things went wrong");
    assert!(reached > 0, "and some only answered hellos");
}

#[test]
fn the_model_sees_servers_that_do_not_care_for_leases() {
    let seen = (0..SEEDS)
        .filter(|&seed| run(seed, true).two_owners > 0)
        .count();
    assert!(seen > 0);
}
