//! A load without bytes: keys are numbers, servers are queues, and only decisions are real.
//!
//! Each request is one step: who asks, which key, where to, how long it waits there. The map, the
//! hot keys of servers ([`HotKeys`]) and the leases of proxies ([`ClientLeases`]) are the ones that
//! ship; so are the places of copies, and who decides that cachelets move (`members`). What a request
//! waits for is a turn of its worker as in [`super::whole`]: what arrives while a worker is busy waits for
//! its next turn, where the requests of one proxy are one batch.
//!
//! What is left out: parsing, connections, versions (copies are as new as their home at once), that an
//! answer's way back takes time before a lease begins, and time-outs. A request waits where it came to, even if
//! its cachelet moves meanwhile.

mod asks;
mod members;
mod reads;
mod story;
mod turns;

use super::choice::CopyLeases;
use super::cluster::{Homes, worker_number, worker_ref};
use super::keys::Keys;
use super::names::KeyNames;
use super::report::{Outcome, Tally};
use super::{BalancingCounts, LoadPlan, LoadReport};
use crate::history::Nanos;
use asks::{Ask, Asker};
use core::time::Duration;
use evenkeel_hotkeys::burden::RecentRequests;
use evenkeel_hotkeys::client::{ClientLeases, Connection};
use evenkeel_hotkeys::config::Mode;
use evenkeel_hotkeys::server::{HotKeys, Output, WriteKind};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{Epoch, Instant, KeyHash};
use foldhash::fast::FixedState;
use members::Members;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
pub use story::{Moment, Part, PartReport, tell};
use turns::{Costs, Turns};

/// How often timers are looked at.
const TICK: Nanos = 10_000_000;

/// How often servers hear of the mean load of all, as by heartbeats.
const HEARTBEAT: Nanos = 1_000_000_000;

/// What a proxy goes by.
#[derive(Debug)]
struct View {
    /// None where servers are plain.
    map: Option<Arc<ClusterMap>>,
    /// The worker of each cachelet as far as the proxy knows; nothing where none ever moves.
    hosts: Vec<u16>,
}

struct Cluster<'a> {
    plan: &'a LoadPlan,
    names: KeyNames,
    keys: Keys,
    /// The worker that serves each place of keys.
    hosts: Vec<u16>,
    turns: Vec<Turns>,
    /// Nothing where hot keys are not replicated and nobody balances.
    hot: Vec<HotKeys>,
    /// Who moves cachelets, if anybody does.
    members: Option<Box<Members>>,
    /// Of each proxy.
    views: Vec<View>,
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
    /// Copies of a key by a map of an epoch, by suffix.
    shadows: HashMap<(u32, Epoch), Vec<u16>, FixedState>,
    /// Sets that follow misses, by time.
    fills: BinaryHeap<Reverse<(Nanos, u32, u32)>>,
    tally: Tally,
    simulated: u64,
    /// Requests that were sent on, because their proxy did not know that their key had moved.
    redirects: u64,
    /// When timers are looked at next.
    tick: Nanos,
    costs: Costs,
}

/// Runs a load to its end.
///
/// # Errors
/// When the plan is out of bounds, or not of an open loop.
pub fn run(plan: &LoadPlan) -> Result<LoadReport, String> {
    plan.validate()?;
    let mut asker = Asker::new(plan, 0)?;
    let mut cluster = Cluster::new(plan)?;
    cluster.tally.measure(plan.warm_up, plan.length);
    let begun = std::time::Instant::now();
    cluster.ask_until(&mut asker, plan.warm_up + plan.length);
    let elapsed = begun.elapsed().as_secs_f64();
    Ok(cluster.report(plan.length, elapsed))
}

impl<'a> Cluster<'a> {
    fn new(plan: &'a LoadPlan) -> Result<Self, String> {
        let homes = Homes::new(plan)?;
        let workers = plan.workers();
        let hosts = homes.of_places(plan);
        let mut keys = Keys::new(plan, hosts.len(), homes.of_keys(plan));
        if plan.prefill {
            for key in 0..plan.keys as u32 {
                let place = keys.of(key).place;
                keys.store(plan.server_of(hosts[usize::from(place)]), key);
            }
        }
        let map = match homes {
            Homes::Map(map) => Some(map),
            Homes::Plain(_) => None,
        };
        // Loads of workers are counted there, too.
        let counting = match plan.hot_keys.mode {
            Mode::On => workers,
            Mode::Observe | Mode::Off if plan.balancing.is_some() => workers,
            Mode::Observe | Mode::Off => 0,
        };
        let hot = (0..counting).map(|worker| {
            let seed = plan.seed ^ (worker as u64 + 1);
            let mut hot = HotKeys::new(plan.hot_keys.clone(), seed, Instant(0))
                .map_err(|error| error.to_string())?;
            if let Some(map) = &map {
                hot.handle_map(Instant(0), map.clone(), worker_ref(plan, worker));
            }
            Ok(hot)
        });
        let members = match (&map, &plan.balancing) {
            (Some(map), Some(balancing)) => {
                let members = Members::new(plan, balancing, map, &hosts, keys.items_max())?;
                Some(Box::new(members))
            }
            _ => None,
        };
        let known = match members {
            Some(_) => hosts.clone(),
            None => Vec::new(),
        };
        let view = |_| View {
            map: map.clone(),
            hosts: known.clone(),
        };
        Ok(Cluster {
            plan,
            hot: hot.collect::<Result<_, String>>()?,
            members,
            views: (0..plan.proxies).map(view).collect(),
            hosts,
            names: KeyNames::of_seed(plan.seed),
            keys,
            turns: vec![Turns::default(); workers],
            leases: (0..plan.proxies)
                .map(|proxy| ClientLeases::new(plan.seed ^ proxy as u64))
                .collect(),
            copy_leases: CopyLeases::new(plan.seed),
            recent: vec![RecentRequests::default(); plan.proxies * counting],
            proxies: (0..plan.clients)
                .map(|client| (client % plan.proxies) as u16)
                .collect(),
            way: plan.local + plan.network,
            shadows: HashMap::default(),
            fills: BinaryHeap::new(),
            tally: Tally::new(workers),
            simulated: 0,
            redirects: 0,
            tick: TICK,
            costs: Costs::of(plan),
        })
    }

    /// What was measured in this long.
    fn report(&mut self, length: Nanos, elapsed: f64) -> LoadReport {
        for (turns, served) in self.turns.iter().zip(&mut self.tally.served) {
            *served = turns.served;
        }
        self.tally.replicas = self.count_replicas();
        let balancing = self.balancing();
        LoadReport::new(
            length,
            &self.tally,
            self.simulated,
            elapsed,
            Some(balancing),
        )
    }

    /// What servers and coordinator have done so far to even out the load.
    fn balancing(&self) -> BalancingCounts {
        let mut balancing = match &self.members {
            Some(members) => members.balancing(),
            None => BalancingCounts::default(),
        };
        let promoted = self.hot.iter().map(|hot| hot.stats().promoted);
        balancing.promoted = promoted.sum();
        balancing.redirects = self.redirects;
        balancing
    }

    /// Copies of all keys, those at homes not counted.
    fn count_replicas(&self) -> u64 {
        let spread = self.hot.iter().flat_map(HotKeys::list_spread);
        spread.map(|info| info.shadows.len() as u64).sum()
    }

    /// Epoch of the map that a proxy goes by.
    fn epoch(&self, proxy: u16) -> Epoch {
        let map = &self.views[usize::from(proxy)].map;
        map.as_ref().map_or(Epoch(0), |map| map.epoch())
    }

    fn tick(&mut self, now: Nanos) {
        let at = Instant(now);
        for worker in 0..self.hot.len() {
            // What is behind is worked off later.
            let worked = self.turns[worker].worked.min(TICK);
            self.turns[worker].worked -= worked;
            // Servers that take no time are never idle.
            if !self.plan.service.is_free() {
                let slept = TICK - worked;
                self.hot[worker].handle_slept(Duration::from_nanos(slept));
            }
            if self.hot[worker].poll_deadline() <= at {
                self.hot[worker].handle_timeout(at);
                self.pump(now, worker);
            }
        }
        if let Some(mut members) = self.members.take() {
            members.tick(self, now);
            self.members = Some(members);
        } else if now % HEARTBEAT < TICK && !self.hot.is_empty() {
            let mean = self.hot.iter().map(HotKeys::load).sum::<f64>() / self.hot.len() as f64;
            for hot in &mut self.hot {
                hot.handle_cluster_load(mean);
            }
        }
    }

    /// Executes what a home wants of its shadow workers: it is done at once.
    fn pump(&mut self, now: Nanos, home: usize) {
        while let Some(output) = self.hot[home].poll_output() {
            let (Output::Store(message) | Output::Block(message) | Output::Remove(message)) =
                output;
            let (target, tag) = (message.target, message.tag);
            let shadow = worker_number(self.plan, target);
            self.work(shadow, now, home as u16, self.costs.set);
            (self.hot[shadow]).handle_replica_order(self.plan.value_bytes);
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
        self.work(worker, ask.arrives, ask.proxy, cost) + self.way
    }

    /// A home has executed a request of an application, and its answer arrived then.
    #[inline]
    fn count(&mut self, ask: &Ask, done: Nanos, outcome: Outcome) {
        if let Some(members) = &mut self.members {
            members.count(ask, done - self.way, outcome);
        }
    }

    /// Sets that are due.
    #[inline]
    fn fill_until(&mut self, now: Nanos) {
        while let Some(&Reverse((at, key, client))) = self.fills.peek() {
            if at > now {
                return;
            }
            self.fills.pop();
            let mut ask = Ask {
                at,
                arrives: at + self.way,
                key,
                client,
                place: self.keys.of(key).place,
                home: 0,
                proxy: self.proxies[client as usize],
                is_get: false,
            };
            self.direct(&mut ask);
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
            let leases = &mut self.leases[usize::from(ask.proxy)];
            let writer = Connection(u64::from(ask.client));
            if let Some(write) = leases.write_begun(hash, writer, false) {
                leases.write_ended(hash, write);
            }
            self.copy_leases.forget(ask.key, ask.client);
            self.hot[home].handle_write(Instant(now), hash, &name, WriteKind::Update);
            if self.hot[home].has_output() {
                self.pump(now, home);
            }
        }
        let done = self.serve(ask, home, self.costs.set);
        self.count(ask, done, Outcome::Stored);
        self.tally.answered(done, done - ask.at, Outcome::Stored);
    }
}
