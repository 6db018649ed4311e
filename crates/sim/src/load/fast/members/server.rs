//! A server: it measures its cachelets, lends them among its workers, and passes them on when the map says so.

use super::{CLUSTER, LINEAGE, Members, now_at};
use crate::history::Nanos;
use crate::load::cluster::{worker_number, worker_ref};
use crate::load::fast::{Cluster, TICK};
use crate::load::{Balancing, LoadPlan};
use core::ops::Range;
use evenkeel_balance::cachelet_load::{CacheletLoad, INTERVAL, LoadMeter, WorkerLoad};
use evenkeel_balance::local::{LocalConfig, LocalMove};
use evenkeel_balance::phase::{PhaseConfig, PhaseCounts};
use evenkeel_balance::share::ClusterLoad;
use evenkeel_control::loads::LoadNews;
use evenkeel_coordinator_core::{
    Heartbeat, LoadReport, MemberKind, MigrationReport, MigrationState,
};
use evenkeel_hotkeys::config::Mode;
use evenkeel_server_core::balancer::{BalancerConfig, ServerBalancer};
use evenkeel_types::map::{ClusterMap, Migration};
use evenkeel_types::{BootId, CacheletId, Instant, ServerId};
use std::sync::Arc;

const INTERVAL_NS: Nanos = INTERVAL.as_nanos() as Nanos;

/// For how long a worker tries to execute an order of its balancer, as real ones do.
const ORDER_AGE_MAX: Nanos = 5_000_000_000;

/// What a cachelet that passes costs the former worker and the next one.
const PASS: Nanos = 50_000;

/// What a migration copies in a second, at most: 63 MB took 0.83 s between servers under load.
const COPIED_BYTES_PER_SECOND: f64 = 63e6 / 0.83;

/// Time that either end of a migration takes for a byte: half of the time that the byte takes, the rest of which is
/// for clients.
const COPY_NS_PER_BYTE: f64 = 0.5e9 / COPIED_BYTES_PER_SECOND;

/// A cachelet on its way to another server.
#[derive(Clone, Copy, Debug)]
struct Sending {
    migration: Migration,
    bytes: f64,
    left: f64,
    items: u64,
    is_over: bool,
}

#[derive(Debug)]
pub(super) struct Server {
    id: ServerId,
    /// As in the map.
    boot: BootId,
    workers: Range<usize>,
    balancer: ServerBalancer,
    meters: Vec<LoadMeter>,
    /// As measured last.
    loads: Vec<WorkerLoad>,
    map: Arc<ClusterMap>,
    measures_at: Nanos,
    beats_at: Nanos,
    /// What the balancer wants, and until when.
    orders: Vec<(Nanos, LocalMove)>,
    /// Migrations by the map of which it is the source, those that are over included.
    sending: Vec<Sending>,
}

impl Server {
    /// A server of a plan that measures, and reports, for the first time then.
    pub fn new(
        plan: &LoadPlan,
        balancing: &Balancing,
        map: &Arc<ClusterMap>,
        server: usize,
        first: Nanos,
    ) -> Self {
        let count = usize::from(plan.workers_per_server);
        let workers = server * count..(server + 1) * count;
        let id = ServerId(server as u16);
        let mut balancer = ServerBalancer::new(config(plan, balancing), plan.workers_per_server);
        balancer.handle_map(map.clone(), id);
        Server {
            id,
            boot: map.server(id).map_or(BootId(0), |entry| entry.boot),
            balancer,
            meters: vec![LoadMeter::new(Instant(0)); count],
            loads: (0..plan.workers_per_server).map(idle).collect(),
            workers,
            map: map.clone(),
            measures_at: first,
            beats_at: first,
            orders: Vec::new(),
            sending: Vec::new(),
        }
    }

    /// When the present interval ends.
    #[inline]
    pub fn measures_at(&self) -> Nanos {
        self.measures_at
    }

    pub fn loads(&self) -> &[WorkerLoad] {
        &self.loads
    }

    pub fn intervals(&self) -> PhaseCounts {
        self.balancer.view(Instant(0)).intervals
    }

    fn is_sending(&self, cachelet: CacheletId) -> bool {
        let of = |sending: &Sending| sending.migration.cachelet == cachelet && !sending.is_over;
        self.sending.iter().any(of)
    }
}

fn idle(worker: u16) -> WorkerLoad {
    WorkerLoad {
        worker,
        ..WorkerLoad::default()
    }
}

/// As the server makes it of its flags.
fn config(plan: &LoadPlan, balancing: &Balancing) -> BalancerConfig {
    BalancerConfig {
        mode: match balancing.lends {
            true => Mode::On,
            false => Mode::Off,
        },
        phases: PhaseConfig {
            replication: plan.hot_keys.mode == Mode::On,
            // Until a coordinator says otherwise.
            coordinated: false,
            ..PhaseConfig::default()
        },
        local: LocalConfig::default(),
    }
}

impl Members {
    /// Everything that a server has to do by now.
    pub(super) fn tend(&mut self, cluster: &mut Cluster<'_>, server: usize, now: Nanos) {
        if self.servers[server].measures_at <= now {
            self.measure(cluster, server, now);
        }
        if !self.servers[server].orders.is_empty() {
            self.lend(cluster, server, now);
        }
        if !self.servers[server].sending.is_empty() {
            self.copy(cluster, server, now);
        }
        if self.servers[server].beats_at <= now {
            self.beat(cluster, server, now);
        }
    }

    /// Ends an interval: what did the workers do in it, and what is to be done?
    fn measure(&mut self, cluster: &mut Cluster<'_>, server: usize, now: Nanos) {
        let workers = self.servers[server].workers.clone();
        self.count_late(workers.clone(), &cluster.hosts, now);
        let at = Instant(now);
        for (index, worker) in workers.clone().enumerate() {
            let hosted = self.hosted[worker].iter();
            let counts = hosted.map(|&id| (id, self.counts[usize::from(id.0)]));
            self.servers[server].meters[index].roll(at, counts);
            self.servers[server].loads[index] = self.load_of(cluster, server, index);
        }
        let member = &mut self.servers[server];
        member.measures_at = now + INTERVAL_NS;
        let orders = member.balancer.handle_interval(at, &member.loads);
        for worker in workers {
            cluster.hot[worker].set_sampling_ratio(orders.sampling_ratio);
        }
        let until = now + ORDER_AGE_MAX;
        let moves = orders.moves.into_iter().map(|order| (until, order));
        member.orders.extend(moves);
    }

    /// The load of a worker, as one tells it.
    fn load_of(&self, cluster: &Cluster<'_>, server: usize, index: usize) -> WorkerLoad {
        let member = &self.servers[server];
        let (worker, meter) = (member.workers.start + index, &member.meters[index]);
        let hot = &cluster.hot[worker];
        let cachelet = |&id: &CacheletId| {
            let items = cluster.keys.items(usize::from(id.0));
            CacheletLoad {
                memory_bytes: items * self.item_bytes,
                items,
                ..meter.load_of(id)
            }
        };
        let cachelets: Vec<_> = self.hosted[worker].iter().map(cachelet).collect();
        let mut load = WorkerLoad {
            worker: index as u16,
            intervals: meter.intervals(),
            load: cachelets.iter().map(|load| load.load).sum(),
            replica_load: hot.replica_load(),
            diverted_load: hot.diverted_load(),
            busy: hot.busy(),
            replicated_keys: hot.replicated_count() as u64,
            memory_bytes: cachelets.iter().map(|load| load.memory_bytes).sum(),
            cachelets,
        };
        load.divide_busy();
        load
    }

    /// Executes what the balancer wants, as far as it is possible now.
    fn lend(&mut self, cluster: &mut Cluster<'_>, server: usize, now: Nanos) {
        let orders = core::mem::take(&mut self.servers[server].orders);
        let first = self.servers[server].workers.start;
        for (until, order) in orders {
            let [from, to] = [order.from, order.to].map(|worker| first + usize::from(worker));
            let cachelet = order.cachelet;
            if usize::from(cluster.hosts[usize::from(cachelet.0)]) != from || until <= now {
                continue;
            }
            let is_sending = self.servers[server].is_sending(cachelet);
            if is_sending || !cluster.hot[from].prepare_to_leave(Instant(now), cachelet) {
                self.servers[server].orders.push((until, order));
                continue;
            }
            let meter = self.servers[server].meters[usize::from(order.from)].release(cachelet);
            if let Some(meter) = meter {
                self.servers[server].meters[usize::from(order.to)].admit(cachelet, meter);
            }
            self.pass(cluster, cachelet, (from, to), now);
            let home = self.servers[server].map.owner(cachelet);
            match home == Some(worker_ref(cluster.plan, to)) {
                true => self.sent_home += 1,
                false => self.lent += 1,
            }
        }
    }

    /// A cachelet passes from one worker to another, of whichever server.
    fn pass(
        &mut self,
        cluster: &mut Cluster<'_>,
        cachelet: CacheletId,
        (from, to): (usize, usize),
        now: Nanos,
    ) {
        let is_home = |members: &Members, worker: usize| {
            let at = worker_ref(cluster.plan, worker);
            members.servers[usize::from(at.server.0)]
                .map
                .owner(cachelet)
                == Some(at)
        };
        let (was_home, is_home) = (is_home(self, from), is_home(self, to));
        cluster.hot[from].handle_left(Instant(now), cachelet, was_home);
        cluster.pump(now, from);
        cluster.hot[to].handle_came(cachelet, is_home);
        cluster.hosts[usize::from(cachelet.0)] = to as u16;
        self.hosted[from].remove(&cachelet);
        self.hosted[to].insert(cachelet);
        let servers = [from, to].map(|worker| cluster.plan.server_of(worker as u16));
        if servers[0] != servers[1] {
            cluster.keys.pass(cachelet.0, servers[0], servers[1]);
        }
        if !cluster.plan.service.is_free() {
            for worker in [from, to] {
                cluster.work(worker, now, worker as u16, PASS);
            }
        }
    }

    /// Copies for the time until the next look, and passes on what is copied.
    fn copy(&mut self, cluster: &mut Cluster<'_>, server: usize, now: Nanos) {
        for i in 0..self.servers[server].sending.len() {
            let mut sending = self.servers[server].sending[i];
            if sending.is_over {
                continue;
            }
            let Migration { cachelet, to, .. } = sending.migration;
            let from = usize::from(cluster.hosts[usize::from(cachelet.0)]);
            let to = worker_number(cluster.plan, to);
            let rate = match sending.migration.bytes_per_second {
                0 => COPIED_BYTES_PER_SECOND,
                most => COPIED_BYTES_PER_SECOND.min(most as f64),
            };
            let copied = (rate * TICK as f64 / 1e9).min(sending.left);
            sending.left -= copied;
            if !cluster.plan.service.is_free() {
                for worker in [from, to] {
                    let cost = (copied * COPY_NS_PER_BYTE) as Nanos;
                    cluster.work(worker, now, worker as u16, cost);
                }
            }
            if sending.left <= 0.0 && cluster.hot[from].prepare_to_leave(Instant(now), cachelet) {
                self.pass(cluster, cachelet, (from, to), now);
                let meter = from - self.servers[server].workers.start;
                self.servers[server].meters[meter].release(cachelet);
                sending.is_over = true;
            }
            self.servers[server].sending[i] = sending;
        }
    }

    /// A server tells the coordinator how it is, and hears what is new.
    fn beat(&mut self, cluster: &mut Cluster<'_>, server: usize, now: Nanos) {
        let heartbeat = self.heartbeat(server);
        let answer = self.coordinator.handle_heartbeat(now_at(now), &heartbeat);
        let answer = answer.expect("nothing in it can be refused");
        self.notice_map(cluster);
        let member = &mut self.servers[server];
        member.beats_at = now + answer.interval_ms * 1_000_000;
        member.balancer.handle_cluster_load(ClusterLoad {
            mean: answer.mean_worker_load,
            utilization: answer.utilization,
        });
        member.balancer.handle_coordinator(answer.balances);
        for worker in member.workers.clone() {
            cluster.hot[worker].handle_cluster_load(answer.mean_worker_load);
        }
        if let Some(map) = answer.map {
            self.take_map(cluster, server, map, now);
        }
    }

    fn heartbeat(&self, server: usize) -> Heartbeat {
        let member = &self.servers[server];
        let entry = (member.map.server(member.id)).expect("no server leaves the map");
        let loads = &member.loads;
        let report = |sending: &Sending| MigrationReport {
            cachelet: sending.migration.cachelet,
            began: sending.migration.began,
            state: match sending.is_over {
                true => MigrationState::Moved,
                false => MigrationState::Copying,
            },
            items: sending.items,
            bytes: (sending.bytes - sending.left) as u64,
        };
        Heartbeat {
            cluster: CLUSTER.to_owned(),
            kind: MemberKind::Server,
            name: entry.name.clone(),
            boot: member.boot,
            host: entry.host.clone(),
            port: entry.port,
            worker_ports: entry.worker_ports.clone(),
            rack: None,
            epoch: member.map.epoch(),
            told: member.map.epoch(),
            lineage: Some(LINEAGE),
            load: LoadReport {
                requests_per_second: loads.iter().map(WorkerLoad::undiverted_load).collect(),
                measured: Some(LoadNews::of(loads.clone(), self.memory_bytes)),
                served: None,
            },
            hot_keys: None,
            migrates: true,
            asks_for_moves: member.balancer.asks_coordinator(),
            migrations: member.sending.iter().map(report).collect(),
            leased: false,
            ending: false,
            config_hash: None,
            control_port: 0,
            gone_after_ms: None,
            pools: Vec::new(),
            leaves: false,
        }
    }

    /// A server works by another map.
    fn take_map(
        &mut self,
        cluster: &mut Cluster<'_>,
        server: usize,
        map: Arc<ClusterMap>,
        now: Nanos,
    ) {
        let (id, former) = (self.servers[server].id, self.servers[server].map.epoch());
        let changed: Vec<_> = self.changed(former, map.epoch()).collect();
        for worker in self.servers[server].workers.clone() {
            let hot = &mut cluster.hot[worker];
            changed.iter().for_each(|&it| hot.handle_host_by_map(it));
            hot.handle_map(Instant(now), map.clone(), worker_ref(cluster.plan, worker));
            cluster.pump(now, worker);
        }
        let ordered: Vec<_> = (map.document().migrations.iter())
            .filter(|migration| {
                (map.owner(migration.cachelet)).is_some_and(|owner| owner.server == id)
            })
            .copied()
            .collect();
        let member = &mut self.servers[server];
        member.balancer.handle_map(map.clone(), id);
        member.map = map;
        let is = |sending: &Sending, it: &Migration| {
            (sending.migration.cachelet, sending.migration.began) == (it.cachelet, it.began)
        };
        (member.sending).retain(|sending| ordered.iter().any(|it| is(sending, it)));
        for migration in ordered {
            if !member.sending.iter().any(|sending| is(sending, &migration)) {
                let items = cluster.keys.items(usize::from(migration.cachelet.0));
                let bytes = (items * self.item_bytes) as f64;
                member.sending.push(Sending {
                    migration,
                    bytes,
                    left: bytes,
                    items,
                    is_over: false,
                });
            }
        }
    }
}
