//! Servers and coordinator as members of a cluster that keeps its own load even.
//!
//! ```text
//!  counts of cachelets ──> LoadMeter ──> ServerBalancer ──> cachelets pass between workers (phase 2)
//!                              │ loads, in heartbeats
//!                              ▼
//!                       CoordinatorCore ──> map with migrations ──> cachelets pass between servers (phase 3)
//!                                                │
//!  proxies <── the map, or the worker that was asked before ──┘
//! ```
//!
//! All that decides is what ships. Here is what it is told, and what is executed for it: heartbeats that
//! are answered at once, and moves. What is not there: heartbeats that are lost, servers that die, and serving leases.
//!
//! A load counts where it is served and when it is: a worker that has too much to do reports what it gets done, as
//! real ones do.

mod server;

use super::asks::Ask;
use super::{Cluster, View};
use crate::history::Nanos;
use crate::load::cluster::{worker_number, worker_ref};
use crate::load::report::Outcome;
use crate::load::{Balancing, BalancingCounts, LoadPlan};
use evenkeel_balance::cachelet_load::{CacheletCounts, INTERVAL, WorkerLoad};
use evenkeel_coordinator_core::plans::{PlanState, SavedPlans};
use evenkeel_coordinator_core::{
    CoordinatorConfig, CoordinatorCore, MigrationEnd, SavedServer, SavedState, Settings, Slot,
    limits,
};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, Epoch, Instant, Now};
use server::Server;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

const CLUSTER: &str = "simulated";

/// Names the coordinator's series of epochs.
const LINEAGE: u64 = 1;

/// How often proxies hear of the coordinator.
const PROXY_BEAT: Nanos = INTERVAL.as_nanos() as Nanos;

/// A request that is executed after the end of the interval in which it came.
#[derive(Clone, Copy, Debug)]
struct Late {
    done: Nanos,
    place: u16,
    outcome: Outcome,
}

/// Everybody who has a say in where cachelets are.
#[derive(Debug)]
pub(super) struct Members {
    coordinator: CoordinatorCore,
    servers: Vec<Server>,
    /// What each cachelet has counted.
    counts: Vec<CacheletCounts>,
    /// By worker, in the order in which it will be done.
    late: Vec<VecDeque<Late>>,
    /// The cachelets of each worker.
    hosted: Vec<BTreeSet<CacheletId>>,
    /// When each proxy hears of the coordinator next.
    proxies: Vec<Nanos>,
    /// Which cachelets got another owner with the map of which epoch.
    changed: BTreeMap<Epoch, Vec<CacheletId>>,
    /// The newest map of which that is known.
    map: Arc<ClusterMap>,
    workers_per_server: u16,
    value_bytes: u64,
    item_bytes: u64,
    memory_bytes: u64,
    lent: u64,
    sent_home: u64,
}

impl Members {
    /// Members that go by a map, under which these workers host the cachelets. This many items fit a server.
    ///
    /// # Errors
    /// When the coordinator refuses the map.
    pub fn new(
        plan: &LoadPlan,
        balancing: &Balancing,
        map: &Arc<ClusterMap>,
        hosts: &[u16],
        items_max: usize,
    ) -> Result<Self, String> {
        let mut hosted = vec![BTreeSet::new(); plan.workers()];
        for (cachelet, &host) in hosts.iter().enumerate() {
            hosted[usize::from(host)].insert(CacheletId(cachelet as u16));
        }
        let servers = (0..plan.servers).map(|server| {
            // They are not in step.
            let first = PROXY_BEAT * (server as Nanos + 1) / plan.servers as Nanos;
            Server::new(plan, balancing, map, server, first)
        });
        let first_beat = |proxy: usize| PROXY_BEAT * (proxy as Nanos + 1) / plan.proxies as Nanos;
        Ok(Members {
            coordinator: coordinator(map, balancing)?,
            servers: servers.collect(),
            counts: vec![CacheletCounts::default(); hosts.len()],
            late: vec![VecDeque::new(); plan.workers()],
            hosted,
            proxies: (0..plan.proxies).map(first_beat).collect(),
            changed: BTreeMap::new(),
            map: map.clone(),
            workers_per_server: plan.workers_per_server,
            value_bytes: plan.value_bytes as u64,
            item_bytes: (plan.memory_bytes / items_max.max(1)) as u64,
            memory_bytes: plan.memory_bytes as u64,
            lent: 0,
            sent_home: 0,
        })
    }

    /// The home of a key has executed a request, or will have by then.
    #[inline]
    pub fn count(&mut self, ask: &Ask, done: Nanos, outcome: Outcome) {
        let late = Late {
            done,
            place: ask.place,
            outcome,
        };
        let server = usize::from(ask.home / self.workers_per_server);
        if done <= self.servers[server].measures_at() {
            self.count_done(late);
        } else {
            self.late[usize::from(ask.home)].push_back(late);
        }
    }

    fn count_done(&mut self, done: Late) {
        let counts = &mut self.counts[usize::from(done.place)];
        match done.outcome {
            Outcome::Hit => {
                counts.reads += 1;
                counts.hits += 1;
                counts.bytes_out += self.value_bytes;
            }
            Outcome::Miss | Outcome::FailedGet => counts.reads += 1,
            Outcome::Stored | Outcome::FailedSet => {
                counts.writes += 1;
                counts.bytes_in += self.value_bytes;
            }
        }
    }

    /// Counts what workers of a server have done by now. What waited for a cachelet that has gone meanwhile is no
    /// load of it any more.
    fn count_late(&mut self, workers: core::ops::Range<usize>, hosts: &[u16], now: Nanos) {
        for worker in workers {
            while let Some(&late) = self.late[worker].front()
                && late.done <= now
            {
                self.late[worker].pop_front();
                if usize::from(hosts[usize::from(late.place)]) == worker {
                    self.count_done(late);
                }
            }
        }
    }

    /// Everything that is due by now.
    pub fn tick(&mut self, cluster: &mut Cluster<'_>, now: Nanos) {
        for server in 0..self.servers.len() {
            self.tend(cluster, server, now);
        }
        if self.coordinator.poll_deadline() <= Instant(now) {
            self.coordinator.handle_timeout(now_at(now));
            self.notice_map(cluster);
        }
        for proxy in 0..self.proxies.len() {
            if self.proxies[proxy] <= now {
                self.proxies[proxy] = now + PROXY_BEAT;
                self.tell_proxy(cluster, proxy);
            }
        }
    }

    /// Notes which cachelets have other owners since the coordinator was last asked.
    ///
    /// # Panics
    /// If a cachelet has an owner by the map who does not host it: only migrations change owners here.
    fn notice_map(&mut self, cluster: &Cluster<'_>) {
        let Some(map) = self.coordinator.map() else {
            return;
        };
        if map.epoch() == self.map.epoch() {
            return;
        }
        let (new, old) = (map.document(), self.map.document());
        let cachelets = 0..new.cachelets.len();
        let has_changed = |&c: &usize| new.cachelets[c] != old.cachelets[c];
        let mut changed = Vec::new();
        for cachelet in cachelets.filter(has_changed) {
            let owner = new.cachelets[cachelet].map(|owner| owner.server);
            let host = worker_ref(cluster.plan, usize::from(cluster.hosts[cachelet]));
            assert_eq!(owner, Some(host.server), "cachelet {cachelet}");
            changed.push(CacheletId(cachelet as u16));
        }
        self.changed.insert(map.epoch(), changed);
        self.map = map.clone();
    }

    /// Cachelets that have got other owners with the maps after this epoch and up to another.
    fn changed(&self, after: Epoch, until: Epoch) -> impl Iterator<Item = CacheletId> + '_ {
        let maps = self.changed.range(Epoch(after.0 + 1)..=until);
        maps.flat_map(|(_, changed)| changed).copied()
    }

    /// A proxy hears of the coordinator: what it has learnt of cachelets with other owners is outdated.
    fn tell_proxy(&self, cluster: &mut Cluster<'_>, proxy: usize) {
        let View { map, hosts } = &mut cluster.views[proxy];
        let Some(former) = map.as_ref().map(|map| map.epoch()) else {
            return;
        };
        if former == self.map.epoch() {
            return;
        }
        for cachelet in self.changed(former, self.map.epoch()) {
            if let Some(owner) = self.map.owner(cachelet) {
                hosts[usize::from(cachelet.0)] = worker_number(cluster.plan, owner) as u16;
            }
        }
        *map = Some(self.map.clone());
        cluster.shadows.clear();
    }

    /// The loads of all workers, as they were measured last.
    pub fn loads(&self) -> impl Iterator<Item = &WorkerLoad> {
        self.servers.iter().flat_map(|server| server.loads())
    }

    /// What was done so far, but for what others count.
    pub fn balancing(&self) -> BalancingCounts {
        let mut balancing = BalancingCounts {
            lent: self.lent,
            sent_home: self.sent_home,
            ..BalancingCounts::default()
        };
        for server in &self.servers {
            let intervals = server.intervals();
            balancing.intervals.idle += intervals.idle;
            balancing.intervals.replicating += intervals.replicating;
            balancing.intervals.local += intervals.local;
            balancing.intervals.coordinated += intervals.coordinated;
        }
        let migrations = self.coordinator.migration_counts();
        balancing.moved = migrations.ended[&MigrationEnd::Moved];
        balancing.bytes_moved = migrations.bytes;
        balancing.plans = self.coordinator.plan_counts().states[&PlanState::Done];
        let held = self.loads().map(|load| load.memory_bytes).sum::<u64>();
        let plans = self.coordinator.plans(limits::PLANS_MAX).plans;
        let copied = plans.iter().map(|plan| plan.bytes).max().unwrap_or(0);
        balancing.plan_ratio_max = copied as f64 / held.max(1) as f64;
        balancing
    }
}

/// A coordinator that goes on with a map, whose servers are known to it.
fn coordinator(map: &ClusterMap, balancing: &Balancing) -> Result<CoordinatorCore, String> {
    let document = map.document();
    let owned = |owner: &Option<_>| owner.map(Slot::Owned);
    let slots: Option<Vec<Slot>> = document.cachelets.iter().map(owned).collect();
    let server = |entry: &evenkeel_types::map::ServerEntry| SavedServer {
        entry: entry.clone(),
        former: Vec::new(),
        draining: false,
        ending: false,
        works_by_at_least: document.epoch,
        votes_from: document.epoch,
        over: false,
        forgotten: false,
        leased: false,
        migrates: true,
    };
    let state = SavedState {
        cluster: CLUSTER.to_owned(),
        lineage: LINEAGE,
        epoch: document.epoch,
        settings: Settings::default(),
        servers: document.servers.iter().map(server).collect(),
        virtual_nodes: document.virtual_nodes.clone(),
        cachelets: slots.ok_or("a cachelet has no owner")?,
        since: Vec::new(),
        stay: Vec::new(),
        merged: Vec::new(),
        accounts: BTreeMap::new(),
        plans: SavedPlans {
            settings: balancing.plans,
            ..SavedPlans::default()
        },
        taken_over: Epoch(0),
        electorates: Vec::new(),
        deaths: Vec::new(),
        changes: Default::default(),
        scale: None,
    };
    let config = CoordinatorConfig::new(CLUSTER);
    CoordinatorCore::restore(config, state, Instant(0)).map_err(|error| error.to_string())
}

/// The time as the coordinator sees it. Its wall clock is shown and nothing else.
fn now_at(time: Nanos) -> Now {
    Now {
        monotonic: Instant(time),
        unix: (time / 1_000_000_000) as u32,
    }
}
