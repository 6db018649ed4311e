//! A load without bytes: keys are numbers, servers are queues, and only decisions are real.
//!
//! Each request is one step: who asks, which key, where to, how long it waits there. The map, the
//! hot keys of servers ([`HotKeys`]) and the leases of clients ([`ClientLeases`]) are the ones that
//! ship; so are the places of copies. What a request waits for is a turn of its worker as in
//! [`super::whole`]: what arrives while a worker is busy waits for its next turn, where the requests
//! of one proxy are one batch.
//!
//! What is left out: parsing, connections, versions (copies are as new as their home at once), and
//! that an answer's way back takes time before a lease begins.

use super::cache::Caches;
use super::cluster::{map_of, worker_number, worker_ref};
use super::{Arrivals, KEY_LEN, LoadPlan, LoadReport, Tally, key_name};
use crate::history::Nanos;
use evenkeel_policy::hot_keys::client::{Answer, ClientLeases, ReadTicket, Route, Verdict};
use evenkeel_policy::hot_keys::server::{HotKeys, Output, Reader, WriteKind};
use evenkeel_policy::placement::map::ClusterMap;
use evenkeel_policy::placement::renaming;
use evenkeel_types::{Epoch, Instant, KeyHash, Version};
use evenkeel_workload::RankSampler;
use evenkeel_workload::rng::{WorkloadRng, below, stream, unit};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

/// How often timers are looked at.
const TICK: Nanos = 10_000_000;

/// How often servers hear of the mean load of all, as by heartbeats.
const HEARTBEAT: Nanos = 1_000_000_000;

/// Bytes of a request and its answer between proxy and server, besides key and value: `mg … v f c A
/// Y1 U00000` and `VA 100 f0 c1234567890`; `EN`; `ms … S100 F0 …` and `HD`.
const GET_HIT_OVERHEAD: u64 = 24 + 26;
const GET_MISS_OVERHEAD: u64 = 24 + 4;
const SET_OVERHEAD: u64 = 24 + 6;

/// Proxies whose batches are told apart at a worker.
const PROXIES_TOLD_APART: usize = 64;

/// A worker's turns.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    /// When the present turn ends.
    ends: Nanos,
    /// What waits for the next one takes so long.
    next: Nanos,
    /// Whose requests are among it.
    of: u64,
}

impl Turns {
    /// A request of a proxy arrives; gives when it is done.
    #[inline]
    fn take(&mut self, now: Nanos, proxy: usize, cost: Nanos, batch: Nanos) -> Nanos {
        if now >= self.ends && self.next > 0 {
            self.ends += self.next;
            (self.next, self.of) = (0, 0);
        }
        if now >= self.ends {
            self.ends = now + cost + batch;
            return self.ends;
        }
        let bit = 1 << (proxy % PROXIES_TOLD_APART);
        if self.of & bit == 0 {
            self.of |= bit;
            self.next += batch;
        }
        self.next += cost;
        self.ends + self.next
    }
}

struct Cluster<'a> {
    plan: &'a LoadPlan,
    map: Arc<ClusterMap>,
    /// Home worker of each key.
    homes: Vec<u16>,
    /// Whether a lease was ever granted for a key: others need no look at any lease.
    lent: Vec<bool>,
    caches: Caches,
    turns: Vec<Turns>,
    hot: Vec<HotKeys>,
    leases: Vec<ClientLeases>,
    /// Copies of a key, by suffix.
    shadows: HashMap<u64, Vec<u16>>,
    /// Sets that follow misses, by time.
    fills: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    tally: Tally,
    simulated: u64,
    costs: Costs,
}

/// What each kind of request takes.
struct Costs {
    hit: Nanos,
    miss: Nanos,
    set: Nanos,
    batch: Nanos,
}

/// Runs a load to its end.
///
/// # Errors
/// When the plan is out of bounds, or not of an open loop.
pub fn run(plan: &LoadPlan) -> Result<LoadReport, String> {
    plan.validate()?;
    let Arrivals::Open { rate } = plan.arrivals else {
        return Err("the fast mode knows open loops alone: give a rate".into());
    };
    let mut cluster = Cluster::new(plan)?;
    let sampler = RankSampler::new(plan.keys, plan.popularity).map_err(|e| e.to_string())?;
    let mut random = stream(plan.seed, 0);
    let begun = std::time::Instant::now();
    let mean = 1e9 / rate;
    let end = (plan.warm_up + plan.length) as f64;
    let (mut time, mut tick, mut measured) = (0.0, TICK, false);
    loop {
        time += pause(&mut random, mean);
        if time > end {
            break;
        }
        let now = time as Nanos;
        if now >= tick {
            tick = now - now % TICK + TICK;
            cluster.tick(now);
            if !measured && now >= plan.warm_up {
                measured = true;
                cluster.tally.reset();
            }
        }
        cluster.fill_until(now);
        let key = sampler.sample(&mut random);
        let client = below(&mut random, plan.clients as u64) as usize;
        if plan.get_share >= 1.0 || unit(&mut random) < plan.get_share {
            cluster.get(now, client, key);
        } else {
            cluster.set(now, now, client, key);
        }
    }
    let (elapsed, simulated) = (begun.elapsed().as_secs_f64(), cluster.simulated);
    Ok(LoadReport::new(plan, &cluster.tally, simulated, elapsed))
}

/// Time until the next request of all.
#[inline]
fn pause(random: &mut WorkloadRng, mean: f64) -> f64 {
    -(1.0 - unit(random)).ln() * mean
}

impl<'a> Cluster<'a> {
    fn new(plan: &'a LoadPlan) -> Result<Self, String> {
        let map = map_of(plan)?;
        let home = |key| {
            let worker = map.locate(KeyHash::of(&key_name(key))).worker;
            worker_number(plan, worker.expect("every cachelet has an owner")) as u16
        };
        let workers = plan.workers();
        let hot = (0..workers).map(|worker| {
            let seed = plan.seed ^ (worker as u64 + 1);
            let mut hot = HotKeys::new(plan.hot_keys.clone(), seed, Instant(0))
                .map_err(|error| error.to_string())?;
            hot.handle_map(Instant(0), map.clone(), worker_ref(plan, worker));
            Ok(hot)
        });
        let (key, value) = (KEY_LEN as u64, plan.value_bytes as u64);
        let model = plan.service;
        Ok(Cluster {
            plan,
            homes: (0..plan.keys).map(home).collect(),
            lent: vec![false; plan.keys as usize],
            caches: Caches::new(plan),
            turns: vec![Turns::default(); workers],
            hot: hot.collect::<Result<_, String>>()?,
            leases: (0..plan.clients)
                .map(|c| ClientLeases::new(plan.seed ^ c as u64))
                .collect(),
            shadows: HashMap::new(),
            fills: BinaryHeap::new(),
            tally: Tally::new(workers),
            simulated: 0,
            costs: Costs {
                hit: model.cost(1, GET_HIT_OVERHEAD + key + value, 0),
                miss: model.cost(1, GET_MISS_OVERHEAD + key, 0),
                set: model.cost(1, SET_OVERHEAD + key + value, 0),
                batch: model.cost(0, 0, 1),
            },
            map,
        })
    }

    fn epoch(&self) -> Epoch {
        self.map.epoch()
    }

    fn tick(&mut self, now: Nanos) {
        let at = Instant(now);
        for worker in 0..self.hot.len() {
            if self.hot[worker].poll_deadline() <= at {
                self.hot[worker].handle_timeout(at);
                self.settle(now, worker);
            }
        }
        if now % HEARTBEAT < TICK {
            let mean = self.hot.iter().map(HotKeys::load).sum::<f64>() / self.hot.len() as f64;
            for hot in &mut self.hot {
                hot.handle_cluster_load(mean);
            }
        }
    }

    /// Carries out what a home wants of its shadow workers: it is done at once.
    fn settle(&mut self, now: Nanos, home: usize) {
        while let Some(output) = self.hot[home].poll_output() {
            let (Output::Store(message) | Output::Remove(message)) = output;
            let (target, tag) = (message.target, message.tag);
            let shadow = worker_number(self.plan, target);
            let cost = self.costs.set;
            self.turns[shadow].take(now, home, cost, self.costs.batch);
            self.tally.served[shadow] += 1;
            self.hot[home].handle_acked(Instant(now), target, tag);
        }
    }

    fn get(&mut self, now: Nanos, client: usize, key: u64) {
        let home = usize::from(self.homes[key as usize]);
        if self.lent[key as usize] {
            return self.get_lent(now, client, key, home);
        }
        let hit = self.read_home(now, client, key, home);
        let done = self.serve(now, client, home, hit);
        self.finish_get(now, done, client, key, hit);
    }

    /// A worker is asked; gives when the application has its answer.
    #[inline]
    fn serve(&mut self, now: Nanos, client: usize, worker: usize, hit: bool) -> Nanos {
        let cost = if hit { self.costs.hit } else { self.costs.miss };
        self.tally.served[worker] += 1;
        let arrives = now + self.plan.local + self.plan.network;
        let proxy = client % self.plan.proxies;
        let done = self.turns[worker].take(arrives, proxy, cost, self.costs.batch);
        done + self.plan.local + self.plan.network
    }

    #[inline]
    fn finish_get(&mut self, now: Nanos, done: Nanos, client: usize, key: u64, hit: bool) {
        self.simulated += 1;
        self.tally.answered(done - now);
        self.tally.gets += 1;
        self.tally.hits += u64::from(hit);
        if !hit && self.plan.fill {
            self.fills.push(Reverse((done, key, client as u32)));
        }
    }

    /// A home is read, by a client without a lease.
    #[inline]
    fn read_home(&mut self, now: Nanos, client: usize, key: u64, home: usize) -> bool {
        let hit = self.caches.read(key);
        if self.hot[home].pass_read() {
            return hit;
        }
        let (at, epoch, name) = (Instant(now), self.epoch(), key_name(key));
        let hash = KeyHash::of(&name);
        let advice = self.hot[home].handle_read(at, hash, &name, Reader::Aware { epoch }, hit);
        if self.hot[home].has_output() {
            self.settle(now, home);
        }
        if advice.gamma > 0 {
            self.lent[key as usize] = true;
            let leases = &mut self.leases[client];
            let ticket = leases.home_read(at, epoch, hash);
            leases.grant(at, epoch, &ticket, advice.gamma, self.plan.hot_keys.lease);
            release(leases, at, epoch, ticket);
        }
        hit
    }

    /// A get of a key for which the client may have a lease.
    fn get_lent(&mut self, now: Nanos, client: usize, key: u64, home: usize) {
        let (at, epoch) = (Instant(now), self.epoch());
        let hash = KeyHash::of(&key_name(key));
        let ticket = self.leases[client].route_read(at, epoch, hash);
        let route = ticket.route();
        let hit = match route {
            Route::Home => {
                self.leases[client].abandon(at, ticket);
                self.read_home(now, client, key, home)
            }
            Route::Shadow { .. } => {
                release(&mut self.leases[client], at, epoch, ticket);
                self.caches.read(key)
            }
        };
        let worker = match route {
            Route::Home => home,
            Route::Shadow { suffix } => {
                self.tally.replica_reads += 1;
                let shadow = self.shadow(key, home, suffix);
                self.hot[shadow].handle_replica_read();
                shadow
            }
        };
        let done = self.serve(now, client, worker, hit);
        self.finish_get(now, done, client, key, hit);
    }

    /// Where a copy is.
    fn shadow(&mut self, key: u64, home: usize, suffix: u8) -> usize {
        let (map, plan) = (&self.map, self.plan);
        let shadows = self.shadows.entry(key).or_insert_with(|| {
            let server = worker_ref(plan, home).server;
            renaming::shadows(map, &key_name(key), server, plan.hot_keys.gamma_max)
                .into_iter()
                .map(|worker| worker_number(plan, worker) as u16)
                .collect()
        });
        let i = usize::from(suffix) - 1;
        usize::from(shadows.get(i).copied().unwrap_or(home as u16))
    }

    /// Sets that are due.
    #[inline]
    fn fill_until(&mut self, now: Nanos) {
        while let Some(&Reverse((at, key, client))) = self.fills.peek() {
            if at > now {
                return;
            }
            self.fills.pop();
            self.set(now, at, client as usize, key);
        }
    }

    fn set(&mut self, now: Nanos, asked: Nanos, client: usize, key: u64) {
        let home = usize::from(self.homes[key as usize]);
        let server = home / usize::from(self.plan.workers_per_server);
        self.caches.store(server, key);
        if !self.hot[home].pass_write() {
            let name = key_name(key);
            let hash = KeyHash::of(&name);
            self.leases[client].write_sent(hash);
            self.hot[home].handle_write(Instant(now), hash, &name, WriteKind::Update);
            if self.hot[home].has_output() {
                self.settle(now, home);
            }
        }
        self.tally.served[home] += 1;
        let arrives = asked + self.plan.local + self.plan.network;
        let proxy = client % self.plan.proxies;
        let done = self.turns[home].take(arrives, proxy, self.costs.set, self.costs.batch);
        self.simulated += 1;
        self.tally
            .answered(done + self.plan.local + self.plan.network - asked);
    }
}

/// A read is over. Versions are not followed: every answer has the same.
fn release(leases: &mut ClientLeases, at: Instant, epoch: Epoch, ticket: ReadTicket) {
    if let Verdict::AskHome(again) = leases.release(at, epoch, ticket, Answer::Hit(Version(1))) {
        leases.abandon(at, again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_while_a_worker_is_busy_shares_its_next_turn() {
        let mut turns = Turns::default();
        assert_eq!(turns.take(100, 0, 10, 50), 160, "idle: at once");
        assert_eq!(turns.take(110, 0, 10, 50), 220);
        assert_eq!(turns.take(120, 0, 10, 50), 230, "the same batch");
        assert_eq!(turns.take(130, 1, 10, 50), 290, "another proxy's");
        // The second turn, from 160 to 290, is under way.
        assert_eq!(turns.take(200, 0, 10, 50), 350);
        assert_eq!(turns.take(1000, 0, 10, 50), 1060);
    }
}
