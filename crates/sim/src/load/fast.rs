//! A load without bytes: keys are numbers, servers are queues, and only decisions are real.
//!
//! Each request is one step: who asks, which key, where to, how long it waits there. The map, the
//! hot keys of servers ([`HotKeys`]) and the leases of proxies ([`ClientLeases`]) are the ones that
//! ship; so are the places of copies. What a request waits for is a turn of its worker as in
//! [`super::whole`]: what arrives while a worker is busy waits for its next turn, where the requests
//! of one proxy are one batch.
//!
//! What is left out: parsing, connections, versions (copies are as new as their home at once), and
//! that an answer's way back takes time before a lease begins.

use super::choice::CopyLeases;
use super::cluster::{Homes, worker_number, worker_ref};
use super::keys::Keys;
use super::names::KeyNames;
use super::report::{Outcome, Tally};
use super::{Arrivals, CLIENT_STREAM, KEY_LEN, KeyPlacement, LoadPlan, LoadReport, ReadChoice};
use crate::history::Nanos;
use core::time::Duration;
use evenkeel_policy::burden::{RecentRequests, burden};
use evenkeel_policy::hot_keys::client::{
    Answer, ClientLeases, Connection, ReadTicket, Route, Verdict,
};
use evenkeel_policy::hot_keys::config::Mode;
use evenkeel_policy::hot_keys::server::{HotKeys, Output, Reader, WriteKind};
use evenkeel_policy::placement::map::ClusterMap;
use evenkeel_policy::placement::renaming;
use evenkeel_types::{Epoch, Instant, KeyHash, Version};
use evenkeel_workload::Operation;
use evenkeel_workload::rng::{below, stream};
use foldhash::fast::FixedState;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

/// How often timers are looked at.
const TICK: Nanos = 10_000_000;

/// How often servers hear of the mean load of all, as by heartbeats.
const HEARTBEAT: Nanos = 1_000_000_000;

/// Bytes of a request and its answer besides key and value.
struct Overhead {
    get_hit: u64,
    get_miss: u64,
    set: u64,
}

/// Between a proxy and a server that have agreed on more than memcached's protocol: `mg … v f c A Y1
/// U00000` and `VA 100 f0 c1234567890`; `EN`; `ms … S100 F0 …` and `HD`.
const AGREED: Overhead = Overhead {
    get_hit: 24 + 26,
    get_miss: 24 + 4,
    set: 24 + 6,
};

/// As applications say it: `get …` and `VALUE … 0 100`, `END`; `set … 0 0 100` and `STORED`. The answer
/// to a get names the key again.
const CLASSIC: Overhead = Overhead {
    get_hit: 6 + 15 + 7 + KEY_LEN as u64,
    get_miss: 6 + 5,
    set: 16 + 8,
};

/// Proxies whose batches are told apart at a worker.
const PROXIES_TOLD_APART: u16 = 64;

/// A worker's turns.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    /// When the present turn ends.
    ends: Nanos,
    /// What waits for the next one takes so long.
    next: Nanos,
    /// Whose requests are among it.
    of: u64,
    /// Keys served in the time that is measured.
    served: u64,
    /// What it has taken so far, since the last look.
    worked: Nanos,
}

/// Requests that are drawn ahead. What happens between them does not change them, and many at once keep
/// the processor busy where one would wait for memory.
const DRAWN_AHEAD: usize = 256;

/// A request that will be asked.
#[derive(Clone, Copy, Debug)]
struct Ask {
    at: Nanos,
    key: u32,
    client: u32,
    home: u16,
    proxy: u16,
    is_get: bool,
}

impl Turns {
    /// A request of a proxy arrives; gives when it is done.
    #[inline]
    fn take(&mut self, now: Nanos, proxy: u16, cost: Nanos, batch: Nanos) -> Nanos {
        if now >= self.ends && self.next > 0 {
            self.ends += self.next;
            (self.next, self.of) = (0, 0);
        }
        if now >= self.ends {
            self.worked += cost + batch;
            self.ends = now + cost + batch;
            return self.ends;
        }
        let bit = 1 << (proxy % PROXIES_TOLD_APART);
        if self.of & bit == 0 {
            self.of |= bit;
            self.next += batch;
            self.worked += batch;
        }
        self.worked += cost;
        self.next += cost;
        self.ends + self.next
    }
}

struct Cluster<'a> {
    plan: &'a LoadPlan,
    /// None where servers are plain.
    map: Option<Arc<ClusterMap>>,
    names: KeyNames,
    keys: Keys,
    turns: Vec<Turns>,
    /// Nothing where hot keys are not replicated.
    hot: Vec<HotKeys>,
    /// Of each proxy.
    leases: Vec<ClientLeases>,
    /// Of clients that do not guard versions.
    copy_leases: CopyLeases,
    /// What each proxy has lately asked of each worker, if that matters.
    recent: Vec<RecentRequests>,
    /// The proxy of each client.
    proxies: Vec<u16>,
    /// From an application to a server.
    way: Nanos,
    /// Copies of a key, by suffix.
    shadows: HashMap<u32, Vec<u16>, FixedState>,
    /// Sets that follow misses, by time.
    fills: BinaryHeap<Reverse<(Nanos, u32, u32)>>,
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

impl Costs {
    fn of(plan: &LoadPlan) -> Self {
        let (key, value) = (KEY_LEN as u64, plan.value_bytes as u64);
        let overhead = match plan.placement {
            KeyPlacement::Map => AGREED,
            KeyPlacement::Plain(_) => CLASSIC,
        };
        let model = plan.service;
        Costs {
            hit: model.cost(1, overhead.get_hit + key + value, 0),
            miss: model.cost(1, overhead.get_miss + key, 0),
            set: model.cost(1, overhead.set + key + value, 0),
            batch: model.cost(0, 0, 1),
        }
    }
}

/// Runs a load to its end.
///
/// # Errors
/// When the plan is out of bounds, or not of an open loop.
pub fn run(plan: &LoadPlan) -> Result<LoadReport, String> {
    plan.validate()?;
    let Arrivals::Open { .. } = plan.arrivals else {
        return Err("the fast mode knows open loops alone: give a rate".into());
    };
    let workload = plan.workload()?;
    let mut requests = workload.stream(0, 1);
    let mut due = workload.schedule(0, 1).expect("the loop is open");
    let mut cluster = Cluster::new(plan)?;
    cluster.tally.measure(plan.warm_up, plan.length);
    let mut random = stream(plan.seed, CLIENT_STREAM);
    let begun = std::time::Instant::now();
    let end = plan.warm_up + plan.length;
    let mut asks = Vec::with_capacity(DRAWN_AHEAD);
    let mut key = Vec::with_capacity(1);
    let mut tick = TICK;
    while due.next_ns() <= end {
        asks.clear();
        while due.next_ns() <= end && asks.len() < DRAWN_AHEAD {
            asks.push(Ask {
                at: due.next_ns(),
                key: 0,
                client: below(&mut random, plan.clients as u64) as u32,
                home: 0,
                proxy: 0,
                is_get: true,
            });
            due.advance();
        }
        for ask in &mut asks {
            key.clear();
            ask.is_get = requests.draw(ask.at, &mut key) == Operation::Get;
            ask.key = key[0] as u32;
        }
        for ask in &mut asks {
            ask.home = cluster.keys.of(ask.key).home;
            ask.proxy = cluster.proxies[ask.client as usize];
        }
        for ask in &asks {
            if ask.at >= tick {
                tick = ask.at - ask.at % TICK + TICK;
                cluster.tick(ask.at);
            }
            cluster.fill_until(ask.at);
            match ask.is_get {
                true => cluster.get(ask),
                false => cluster.set(ask.at, ask),
            }
        }
        cluster.simulated += asks.len() as u64;
    }
    let (elapsed, simulated) = (begun.elapsed().as_secs_f64(), cluster.simulated);
    for (turns, served) in cluster.turns.iter().zip(&mut cluster.tally.served) {
        *served = turns.served;
    }
    cluster.tally.replicas = cluster.count_replicas();
    Ok(LoadReport::new(plan, &cluster.tally, simulated, elapsed))
}

impl<'a> Cluster<'a> {
    fn new(plan: &'a LoadPlan) -> Result<Self, String> {
        let homes = Homes::new(plan)?;
        let workers = plan.workers();
        let mut keys = Keys::new(plan, homes.of_keys(plan));
        if plan.prefill {
            for key in 0..plan.keys as u32 {
                let home = keys.of(key).home;
                keys.store(plan.server_of(home), key);
            }
        }
        let map = match homes {
            Homes::Map(map) => Some(map),
            Homes::Plain(_) => None,
        };
        let replicating = match plan.hot_keys.mode {
            Mode::On => workers,
            Mode::Observe | Mode::Off => 0,
        };
        let hot = (0..replicating).map(|worker| {
            let seed = plan.seed ^ (worker as u64 + 1);
            let mut hot = HotKeys::new(plan.hot_keys.clone(), seed, Instant(0))
                .map_err(|error| error.to_string())?;
            if let Some(map) = &map {
                hot.handle_map(Instant(0), map.clone(), worker_ref(plan, worker));
            }
            Ok(hot)
        });
        Ok(Cluster {
            plan,
            hot: hot.collect::<Result<_, String>>()?,
            map,
            names: KeyNames::of_seed(plan.seed),
            keys,
            turns: vec![Turns::default(); workers],
            leases: (0..plan.proxies)
                .map(|proxy| ClientLeases::new(plan.seed ^ proxy as u64))
                .collect(),
            copy_leases: CopyLeases::new(plan.seed),
            recent: vec![RecentRequests::default(); plan.proxies * replicating],
            proxies: (0..plan.clients)
                .map(|client| (client % plan.proxies) as u16)
                .collect(),
            way: plan.local + plan.network,
            shadows: HashMap::default(),
            fills: BinaryHeap::new(),
            tally: Tally::new(workers),
            simulated: 0,
            costs: Costs::of(plan),
        })
    }

    /// Copies of all keys, those at homes not counted.
    fn count_replicas(&self) -> u64 {
        let spread = self.hot.iter().flat_map(HotKeys::list_spread);
        spread.map(|info| info.shadows.len() as u64).sum()
    }

    fn epoch(&self) -> Epoch {
        self.map.as_ref().map_or(Epoch(0), |map| map.epoch())
    }

    fn tick(&mut self, now: Nanos) {
        let at = Instant(now);
        for worker in 0..self.hot.len() {
            let worked = core::mem::take(&mut self.turns[worker].worked);
            // Servers that take no time are never idle.
            if !self.plan.service.is_free() {
                let slept = TICK.saturating_sub(worked);
                self.hot[worker].handle_slept(Duration::from_nanos(slept));
            }
            if self.hot[worker].poll_deadline() <= at {
                self.hot[worker].handle_timeout(at);
                self.settle(now, worker);
            }
        }
        if now % HEARTBEAT < TICK && !self.hot.is_empty() {
            let mean = self.hot.iter().map(HotKeys::load).sum::<f64>() / self.hot.len() as f64;
            for hot in &mut self.hot {
                hot.handle_cluster_load(mean);
            }
        }
    }

    /// Carries out what a home wants of its shadow workers: it is done at once.
    fn settle(&mut self, now: Nanos, home: usize) {
        while let Some(output) = self.hot[home].poll_output() {
            let (Output::Store(message) | Output::Block(message) | Output::Remove(message)) =
                output;
            let (target, tag) = (message.target, message.tag);
            let shadow = worker_number(self.plan, target);
            self.work(shadow, now, home as u16, self.costs.set);
            self.hot[home].handle_acked(Instant(now), target, tag);
        }
    }

    /// A worker is asked for something at a time, by a proxy or another worker; gives when it is done.
    #[inline]
    fn work(&mut self, worker: usize, at: Nanos, from: u16, cost: Nanos) -> Nanos {
        let turns = &mut self.turns[worker];
        let done = turns.take(at, from, cost, self.costs.batch);
        turns.served += u64::from(self.tally.measures(done));
        done
    }

    /// An application asks a worker through its proxy; gives when it has its answer.
    #[inline]
    fn serve(&mut self, ask: &Ask, worker: usize, cost: Nanos) -> Nanos {
        let sent = usize::from(ask.proxy) * self.hot.len() + worker;
        if let Some(recent) = self.recent.get_mut(sent) {
            recent.add(Instant(ask.at));
        }
        self.work(worker, ask.at + self.way, ask.proxy, cost) + self.way
    }

    #[inline]
    fn get(&mut self, ask: &Ask) {
        let key = self.keys.of(ask.key);
        if key.lent {
            return self.get_lent(ask);
        }
        let hit = key.read();
        let home = usize::from(ask.home);
        if !self.passes_read(home) {
            self.look_at_read(ask, hit);
        }
        self.finish_get(ask, home, hit);
    }

    /// Whether a read at a home needs no further look.
    #[inline]
    fn passes_read(&mut self, home: usize) -> bool {
        let bytes = self.plan.value_bytes;
        (self.hot.get_mut(home)).is_none_or(|hot| hot.pass_read(bytes))
    }

    /// Whether a write at a home needs no further look.
    #[inline]
    fn passes_write(&mut self, home: usize) -> bool {
        self.hot.get_mut(home).is_none_or(HotKeys::pass_write)
    }

    #[inline]
    fn finish_get(&mut self, ask: &Ask, worker: usize, hit: bool) {
        if hit {
            let done = self.serve(ask, worker, self.costs.hit);
            return self.tally.answered(done, done - ask.at, Outcome::Hit);
        }
        let done = self.serve(ask, worker, self.costs.miss);
        self.tally.answered(done, done - ask.at, Outcome::Miss);
        if self.plan.fill {
            self.fills.push(Reverse((done, ask.key, ask.client)));
        }
    }

    /// A read at its home that may be sampled, or of a key with copies.
    fn look_at_read(&mut self, ask: &Ask, hit: bool) {
        let (at, epoch, name) = (Instant(ask.at), self.epoch(), self.names.of(ask.key));
        let (hash, home) = (KeyHash::of(&name), usize::from(ask.home));
        let (reader, found) = (
            Reader::Aware { epoch },
            hit.then_some(self.plan.value_bytes),
        );
        let advice = self.hot[home].handle_read(at, hash, &name, reader, found);
        if self.hot[home].has_output() {
            self.settle(ask.at, home);
        }
        if advice.gamma > 0 {
            self.keys.of(ask.key).lent = true;
            if self.plan.reads != ReadChoice::Guarded {
                let length = self.plan.hot_keys.lease.as_nanos() as Nanos;
                let (key, client) = (ask.key, ask.client);
                return (self.copy_leases).grant(ask.at, key, client, advice.gamma, length);
            }
            let leases = &mut self.leases[usize::from(ask.proxy)];
            let ticket = leases.home_read(at, epoch, (hash, Connection(u64::from(ask.client))));
            let lease = (advice.gamma, self.plan.hot_keys.lease);
            leases.grant(at, epoch, &ticket, VERSION, lease);
            release(leases, at, epoch, ticket);
        }
    }

    /// A get of a key for which the client or its proxy may have a lease.
    fn get_lent(&mut self, ask: &Ask) {
        match self.plan.reads {
            ReadChoice::Guarded => self.get_guarded(ask),
            ReadChoice::Sticky => {
                let suffix = self.copy_leases.sticky(ask.at, ask.key, ask.client);
                self.get_copy(ask, suffix.unwrap_or(0));
            }
            ReadChoice::TwoChoices => {
                let two = self.copy_leases.two(ask.at, ask.key, ask.client);
                let suffix = two.map_or(0, |two| self.with_less_waiting(ask, two));
                self.get_copy(ask, suffix);
            }
        }
    }

    /// The one of two copies at which less waits.
    fn with_less_waiting(&mut self, ask: &Ask, [one, other]: [u8; 2]) -> u8 {
        let [waits, other_waits] = [one, other].map(|suffix| {
            let copy = self.find_copy(ask, suffix);
            let turns = &self.turns[copy];
            turns.ends.saturating_sub(ask.at) + turns.next
        });
        if waits <= other_waits { one } else { other }
    }

    /// The worker that has a copy: the home of suffix 0, and of one that there is not.
    fn find_copy(&mut self, ask: &Ask, suffix: u8) -> usize {
        let home = usize::from(ask.home);
        self.find_shadows(ask.key, home);
        let shadows = &self.shadows[&ask.key];
        let place = usize::from(suffix).checked_sub(1);
        let shadow = place.and_then(|place| shadows.get(place));
        shadow.map_or(home, |&shadow| usize::from(shadow))
    }

    /// A get at a copy that was chosen.
    fn get_copy(&mut self, ask: &Ask, suffix: u8) {
        let home = usize::from(ask.home);
        let worker = self.find_copy(ask, suffix);
        let hit = self.keys.of(ask.key).read();
        if worker != home {
            self.note_replica_read(ask, worker);
        } else if !self.passes_read(home) {
            self.look_at_read(ask, hit);
        }
        self.finish_get(ask, worker, hit);
    }

    fn note_replica_read(&mut self, ask: &Ask, shadow: usize) {
        self.hot[shadow].handle_replica_read(self.plan.value_bytes);
        let measured = self.tally.measures(ask.at + self.way);
        self.tally.replica_reads += u64::from(measured);
    }

    /// A get by what ships, for which the client's proxy may have a lease.
    fn get_guarded(&mut self, ask: &Ask) {
        let (at, epoch, home) = (Instant(ask.at), self.epoch(), usize::from(ask.home));
        let hash = KeyHash::of(&self.names.of(ask.key));
        self.find_shadows(ask.key, home);
        let shadows = &self.shadows[&ask.key];
        let shadow = |suffix: u8| {
            shadows
                .get(usize::from(suffix) - 1)
                .map(|&at| usize::from(at))
        };
        // A proxy knows how many of its own requests wait at a server; here it knows how many do in all.
        let load = |suffix| {
            let shadow = shadow(suffix)?;
            let turns = &self.turns[shadow];
            let wait = turns.ends.saturating_sub(ask.at) + turns.next;
            let recent = self.recent[usize::from(ask.proxy) * self.hot.len() + shadow].sum(at);
            Some(burden(recent, (wait / self.costs.hit.max(1)) as usize))
        };
        let connection = Connection(u64::from(ask.client));
        let leases = &mut self.leases[usize::from(ask.proxy)];
        let ticket = leases.route_read(at, epoch, (hash, connection), load);
        let hit = self.keys.of(ask.key).read();
        let worker = match ticket.route() {
            Route::Home => {
                leases.abandon(at, ticket);
                if !self.passes_read(home) {
                    self.look_at_read(ask, hit);
                }
                home
            }
            Route::Shadow { suffix } => {
                release(leases, at, epoch, ticket);
                let shadow = shadow(suffix).unwrap_or(home);
                self.note_replica_read(ask, shadow);
                shadow
            }
        };
        self.finish_get(ask, worker, hit);
    }

    /// Where the copies of a key are.
    fn find_shadows(&mut self, key: u32, home: usize) {
        let (plan, names, map) = (self.plan, self.names, &self.map);
        self.shadows.entry(key).or_insert_with(|| {
            let Some(map) = map else { return Vec::new() };
            let server = worker_ref(plan, home).server;
            renaming::shadows(map, &names.of(key), server, plan.hot_keys.gamma_max)
                .into_iter()
                .map(|worker| worker_number(plan, worker) as u16)
                .collect()
        });
    }

    /// Sets that are due.
    #[inline]
    fn fill_until(&mut self, now: Nanos) {
        while let Some(&Reverse((at, key, client))) = self.fills.peek() {
            if at > now {
                return;
            }
            self.fills.pop();
            let home = self.keys.of(key).home;
            let ask = Ask {
                at,
                key,
                client,
                home,
                proxy: self.proxies[client as usize],
                is_get: false,
            };
            self.set(now, &ask);
            self.simulated += 1;
        }
    }

    fn set(&mut self, now: Nanos, ask: &Ask) {
        let home = usize::from(ask.home);
        self.keys.store(self.plan.server_of(ask.home), ask.key);
        if let Some(hot) = self.hot.get_mut(home) {
            hot.handle_stored(self.plan.value_bytes);
        }
        if !self.passes_write(home) {
            let name = self.names.of(ask.key);
            let hash = KeyHash::of(&name);
            self.leases[usize::from(ask.proxy)].write_sent(hash, Connection(u64::from(ask.client)));
            self.copy_leases.forget(ask.key, ask.client);
            self.hot[home].handle_write(Instant(now), hash, &name, WriteKind::Update);
            if self.hot[home].has_output() {
                self.settle(now, home);
            }
        }
        let done = self.serve(ask, home, self.costs.set);
        self.tally.answered(done, done - ask.at, Outcome::Stored);
    }
}

/// Versions are not followed: every answer has the same.
const VERSION: Answer = Answer::Hit(Version(1));

/// A read is over.
fn release(leases: &mut ClientLeases, at: Instant, epoch: Epoch, ticket: ReadTicket) {
    if let Verdict::AskHome(again) = leases.release(at, epoch, ticket, VERSION) {
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
