//! A plan in the making: who has what after the moves so far, and what the next one may be.

use std::collections::BTreeSet;

use evenkeel_types::WorkerRef;
use serde::{Deserialize, Serialize};

use super::report::{CacheletNumber, ClusterReport, ServerReport};
use super::{ClusterConfig, LoadChange, Move, Spread};
use crate::load;
use crate::mean;
use crate::share::{BUSY_MIN, Measured, Share, Utilization, capacities};

/// A server in a draft.
#[derive(Clone, Debug)]
pub struct DraftServer {
    /// Its workers, as places in the list of all workers.
    pub workers: core::ops::Range<usize>,
    /// Whether it may get something.
    pub accepts: bool,
    /// Sum of its workers' loads.
    pub load: f64,
    /// Sum of their capacities.
    pub capacity: f64,
    /// What its cachelets take.
    pub memory_bytes: u64,
    /// What they may take.
    pub memory_max_bytes: u64,
    /// Whether they took that before the plan: it evicts.
    pub is_full: bool,
}

impl DraftServer {
    /// The part of its capacity that it uses.
    pub fn utilization(&self) -> f64 {
        self.load / self.capacity
    }
}

/// A worker in a draft.
#[derive(Clone, Debug)]
pub struct DraftWorker {
    /// Which.
    pub at: WorkerRef,
    /// Its server, as a place in the list of servers.
    pub server: usize,
    /// Its load.
    pub load: f64,
    /// Its load before the plan.
    pub load_before: f64,
    /// Part of its time that it has something to do.
    pub busy: f64,
    /// Whether some of its keys have replicas.
    pub replicates: bool,
    /// The load at which it would be busy all the time. Above 0.
    pub capacity: f64,
    /// What it should carry, which no move changes.
    pub share: Share,
    /// Its cachelets, as places in the list of all cachelets.
    pub cachelets: Vec<usize>,
}

impl DraftWorker {
    /// The part of its capacity that it uses.
    pub fn utilization(&self) -> f64 {
        self.load / self.capacity
    }
}

/// What keeps a cachelet where it is: the first limit that its move would break, or that it would gain too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// It is lent or on its way, or has moved lately.
    Rests,
    /// The server that would get it is to be emptied.
    Drained,
    /// The plan has as many moves as it may have.
    Moves,
    /// It has more bytes than the plan may still copy.
    Bytes,
    /// The server that would get it has no memory for it.
    Memory,
    /// The worker that would get it would have too much.
    Load,
    /// Its move would gain too little.
    Gain,
}

/// A cachelet in a draft.
#[derive(Clone, Copy, Debug)]
pub struct DraftCachelet {
    /// Its number in the map.
    pub number: CacheletNumber,
    /// Its owner, as a place in the list of workers.
    pub worker: usize,
    /// Its load, clamped as that of its worker.
    pub load: f64,
    /// What its items take.
    pub memory_bytes: u64,
    /// Whether it may move, and has not yet.
    pub is_free: bool,
}

/// The draft.
#[derive(Clone, Debug)]
pub struct Draft<'a> {
    config: &'a ClusterConfig,
    servers: Vec<DraftServer>,
    workers: Vec<DraftWorker>,
    cachelets: Vec<DraftCachelet>,
    load_mean: f64,
    utilization: Utilization,
    bytes_max: u64,
    bytes: u64,
    moves: Vec<Move>,
}

impl<'a> Draft<'a> {
    /// A draft without moves. Loads are clamped here. The report must be valid. O(c).
    pub(super) fn new(report: &ClusterReport, config: &'a ClusterConfig) -> Self {
        let mut draft = Draft {
            config,
            servers: Vec::with_capacity(report.servers.len()),
            workers: Vec::new(),
            cachelets: Vec::new(),
            load_mean: 0.0,
            utilization: Utilization::default(),
            bytes_max: 0,
            bytes: 0,
            moves: Vec::new(),
        };
        let most = most_believed(report);
        for server in &report.servers {
            draft.add_server(server, most);
        }
        draft.share_out();
        let bytes: u64 = draft.servers.iter().map(|s| s.memory_bytes).sum();
        draft.bytes_max = config.bytes_max(bytes);
        draft
    }

    /// Says what each worker should carry.
    fn share_out(&mut self) {
        let measured = self.workers.iter().map(|worker| Measured {
            load: worker.load,
            busy: worker.busy,
        });
        let capacities = capacities(&measured.collect::<Vec<_>>());
        let loads: Vec<f64> = self.workers.iter().map(|worker| worker.load).collect();
        self.load_mean = mean(&loads);
        self.utilization = Utilization::of(&loads, &capacities);
        for (worker, capacity) in self.workers.iter_mut().zip(capacities) {
            worker.capacity = capacity;
            worker.share = self.utilization.share(capacity);
            self.servers[worker.server].capacity += capacity;
        }
    }

    fn add_server(&mut self, report: &ServerReport, most: f64) {
        let first = self.workers.len();
        for (index, worker) in report.workers.iter().enumerate() {
            let place = self.workers.len();
            let reported = reported_load(worker.load, worker.cachelets.iter().map(|c| c.load));
            let load = reported.min(most);
            let part = if reported > most {
                load / reported
            } else {
                1.0
            };
            let from = self.cachelets.len();
            self.cachelets
                .extend(worker.cachelets.iter().map(|c| DraftCachelet {
                    number: c.cachelet,
                    worker: place,
                    load: c.load * part,
                    memory_bytes: c.memory_bytes,
                    is_free: c.may_move,
                }));
            self.workers.push(DraftWorker {
                at: WorkerRef {
                    server: report.server,
                    worker: index as u16,
                },
                server: self.servers.len(),
                load,
                load_before: load,
                busy: worker.busy,
                replicates: worker.replicates,
                capacity: 0.0,
                share: Share::default(),
                cachelets: (from..self.cachelets.len()).collect(),
            });
        }
        let memory_max_bytes = self.config.memory_max(report.memory_max_bytes);
        let workers = &self.workers[first..];
        self.servers.push(DraftServer {
            load: workers.iter().map(|worker| worker.load).sum(),
            capacity: 0.0,
            workers: first..self.workers.len(),
            accepts: report.accepts,
            memory_bytes: report.memory_bytes(),
            memory_max_bytes,
            is_full: report.memory_bytes() >= memory_max_bytes,
        });
    }

    /// The settings.
    pub fn config(&self) -> &'a ClusterConfig {
        self.config
    }

    /// Every server, in ascending order.
    pub fn servers(&self) -> &[DraftServer] {
        &self.servers
    }

    /// Every worker, server by server.
    pub fn workers(&self) -> &[DraftWorker] {
        &self.workers
    }

    /// A cachelet, by its place.
    pub fn cachelet(&self, cachelet: usize) -> &DraftCachelet {
        &self.cachelets[cachelet]
    }

    /// Every cachelet.
    pub fn cachelets(&self) -> &[DraftCachelet] {
        &self.cachelets
    }

    /// Mean load of the workers, which no move changes.
    pub fn load_mean(&self) -> f64 {
        self.load_mean
    }

    /// Whether a worker has more than what is permissible.
    pub fn is_above(&self, worker: usize) -> bool {
        let worker = &self.workers[worker];
        worker.load > worker.share.permissible
    }

    /// Workers that are overloaded, those that use most of their capacity first; and others that have more than what is
    /// permissible, because the next plan is some time away. The latter only without replicas: a hot key that moves loses them, which costs
    /// more than a little unevenness does.
    pub fn sources(&self) -> Vec<usize> {
        let mut sources: Vec<usize> = (0..self.workers.len())
            .filter(|&w| self.is_overloaded(w) || self.is_above(w) && !self.workers[w].replicates)
            .collect();
        sources.sort_by(|&a, &b| {
            let [used_a, used_b] = [a, b].map(|worker| self.workers[worker].utilization());
            used_b.total_cmp(&used_a).then(a.cmp(&b))
        });
        sources
    }

    fn is_overloaded(&self, worker: usize) -> bool {
        let worker = &self.workers[worker];
        worker.load > worker.share.overloaded && worker.busy >= BUSY_MIN
    }

    /// How load is spread now.
    pub fn spread(&self) -> Spread {
        let workers = self.workers.iter();
        Spread {
            load_max: workers
                .clone()
                .map(|worker| worker.load)
                .fold(0.0, f64::max),
            load_mean: self.load_mean,
            utilization: self.utilization,
            deviation: workers
                .map(|worker| (worker.load - worker.share.fair).abs())
                .sum(),
            overloaded: (0..self.workers.len())
                .filter(|&w| self.is_overloaded(w))
                .count(),
        }
    }

    /// Bytes that moves copy so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that may still be copied, but for a first move, which may copy any number.
    pub fn bytes_left(&self) -> u64 {
        self.bytes_max.saturating_sub(self.bytes)
    }

    /// Moves that may still be made.
    pub fn moves_left(&self) -> usize {
        self.config.moves_max - self.moves.len()
    }

    /// Bytes that a move copies.
    pub fn bytes_of(&self, cachelet: usize, to: usize) -> u64 {
        let c = &self.cachelets[cachelet];
        match self.workers[c.worker].server == self.workers[to].server {
            true => 0,
            false => c.memory_bytes,
        }
    }

    /// Whether a cachelet may go to a worker: it has not moved yet, the destination accepts and has room
    /// for its load and its memory, and there are moves and bytes left. The first move may copy any number of bytes.
    pub fn may_move(&self, cachelet: usize, to: usize) -> bool {
        self.hold(cachelet, to).is_none()
    }

    /// Why it may not, if so.
    pub fn hold(&self, cachelet: usize, to: usize) -> Option<Hold> {
        let c = &self.cachelets[cachelet];
        let is_too_much = || (!self.may_shift(c.worker, to, c.load)).then_some(Hold::Load);
        self.limit(cachelet, to, 1, 0).or_else(is_too_much)
    }

    /// Whether two cachelets may change places: as for [`may_move`](Self::may_move), for what one has more than the other.
    pub fn may_swap(&self, a: usize, b: usize) -> bool {
        let (worker_a, worker_b) = (self.cachelets[a].worker, self.cachelets[b].worker);
        let shifted = self.cachelets[a].load - self.cachelets[b].load;
        let limit = |cachelet, to, freed: usize| {
            self.limit(cachelet, to, 2, self.cachelets[freed].memory_bytes)
        };
        limit(a, worker_b, b).is_none()
            && limit(b, worker_a, a).is_none()
            && self.bytes_of(a, worker_b) + self.bytes_of(b, worker_a) <= self.bytes_left()
            && match shifted >= 0.0 {
                true => self.may_shift(worker_a, worker_b, shifted),
                false => self.may_shift(worker_b, worker_a, -shifted),
            }
    }

    /// Whether this much load may go from one worker to another: up to what is permissible there; where a single cachelet is
    /// more than that leaves room for, up to what the other one still has, if nobody is overloaded by it.
    fn may_shift(&self, from: usize, to: usize, load: f64) -> bool {
        let (from, to) = (&self.workers[from], &self.workers[to]);
        let (left, after) = (from.load - load, to.load + load);
        after <= to.share.permissible
            || after <= to.share.overloaded && after / to.capacity <= left / from.capacity
    }

    /// The first limit that is broken, but for the load. `freed` bytes of memory leave the destination at the same time. What comes
    /// from a server that evicts may be evicted for elsewhere: caches are full, and would never be evened out otherwise.
    fn limit(&self, cachelet: usize, to: usize, moves: usize, freed: u64) -> Option<Hold> {
        let c = &self.cachelets[cachelet];
        let server = &self.servers[self.workers[to].server];
        let bytes = self.bytes_of(cachelet, to);
        let has_room = bytes == 0
            || self.servers[self.workers[c.worker].server].is_full
            || server.memory_bytes + bytes <= server.memory_max_bytes.saturating_add(freed);
        match () {
            () if !c.is_free || c.worker == to => Some(Hold::Rests),
            () if !server.accepts => Some(Hold::Drained),
            () if self.moves_left() < moves => Some(Hold::Moves),
            () if bytes > self.bytes_left() && !self.moves.is_empty() => Some(Hold::Bytes),
            () if !has_room => Some(Hold::Memory),
            () => None,
        }
    }

    /// Gives a cachelet to a worker.
    ///
    /// # Panics
    ///
    /// If it may not go there.
    pub fn give(&mut self, cachelet: usize, to: usize) {
        assert!(
            self.may_move(cachelet, to),
            "{:?}",
            self.cachelets[cachelet]
        );
        self.shift(cachelet, to);
    }

    /// Lets two cachelets change places.
    ///
    /// # Panics
    ///
    /// If they may not.
    pub fn swap(&mut self, a: usize, b: usize) {
        assert!(self.may_swap(a, b), "{:?}", self.cachelets[a]);
        let (worker_a, worker_b) = (self.cachelets[a].worker, self.cachelets[b].worker);
        self.shift(a, worker_b);
        self.shift(b, worker_a);
    }

    fn shift(&mut self, cachelet: usize, to: usize) {
        let bytes = self.bytes_of(cachelet, to);
        let DraftCachelet {
            number,
            worker: from,
            load,
            ..
        } = self.cachelets[cachelet];
        self.moves.push(Move {
            cachelet: number,
            from: self.workers[from].at,
            to: self.workers[to].at,
            load,
            bytes,
        });
        self.bytes += bytes;
        self.workers[from].cachelets.retain(|&c| c != cachelet);
        self.workers[to].cachelets.push(cachelet);
        for (worker, change) in [(from, -load), (to, load)] {
            let worker = &mut self.workers[worker];
            worker.load += change;
            self.servers[worker.server].load += change;
        }
        let (server_from, server_to) = (self.workers[from].server, self.workers[to].server);
        self.servers[server_from].memory_bytes -= bytes;
        self.servers[server_to].memory_bytes += bytes;
        self.cachelets[cachelet].worker = to;
        self.cachelets[cachelet].is_free = false;
    }

    /// Servers that would have to be added, if the cluster as a whole is hot.
    pub(super) fn servers_wanted(&self) -> Option<usize> {
        let Utilization(used) = self.utilization;
        if used <= self.config.busy_all_hot {
            return None;
        }
        let factor = used / self.config.busy_wanted;
        let servers = self.servers.len() as f64;
        Some(((servers * (factor - 1.0)).ceil() as usize).max(1))
    }

    /// Loads that the moves change.
    pub(super) fn changes(&self) -> Vec<LoadChange> {
        let ends = self.moves.iter().flat_map(|it| [it.from, it.to]);
        let touched: BTreeSet<WorkerRef> = ends.collect();
        self.workers
            .iter()
            .filter(|worker| touched.contains(&worker.at))
            .map(|worker| LoadChange {
                worker: worker.at,
                before: worker.load_before,
                after: worker.load,
            })
            .collect()
    }

    pub(super) fn into_moves(self) -> Vec<Move> {
        self.moves
    }
}

/// The load of a worker: what it says, or what its cachelets have together.
pub(super) fn reported_load(load: f64, cachelets: impl Iterator<Item = f64>) -> f64 {
    load.max(cachelets.sum())
}

/// The largest load that is believed. O(workers).
pub(super) fn most_believed(report: &ClusterReport) -> f64 {
    let workers = report.servers.iter().flat_map(|server| &server.workers);
    let mut loads: Vec<f64> = workers
        .map(|worker| reported_load(worker.load, worker.cachelets.iter().map(|c| c.load)))
        .collect();
    load::most_believed(&mut loads)
}
