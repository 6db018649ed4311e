//! Whether a plan keeps the rules, found out without trusting anyone who made it.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_types::{ServerId, WorkerRef};

use super::draft::{most_believed, reported_load};
use super::report::{CacheletNumber, CacheletReport, ClusterReport, ServerReport};
use super::{ClusterConfig, ClusterPlan, Move};
use crate::ROUNDING;
use crate::share::{Measured, Utilization, capacities};

/// Why a plan is not executed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// A cachelet that its owner does not have, or that must not move.
    #[error("cachelet {0} is not there, or must not move")]
    NotThere(CacheletNumber),
    /// A cachelet moves twice.
    #[error("cachelet {0} moves twice")]
    Twice(CacheletNumber),
    /// It goes to where it is, to an unknown worker, or to a server that accepts nothing.
    #[error("cachelet {0} has nowhere to go")]
    Nowhere(CacheletNumber),
    /// More moves than allowed.
    #[error("{0} moves are too many")]
    TooManyMoves(usize),
    /// More bytes than allowed, or others than the plan says.
    #[error("{0} bytes are too many, or not what the plan says")]
    Bytes(u64),
    /// A worker would be loaded beyond the limit, and more than now.
    #[error("worker {worker} would have a load of {load}")]
    Overloads {
        /// The worker.
        worker: WorkerRef,
        /// Its load.
        load: f64,
    },
    /// A server would get more than its memory holds.
    #[error("server {0} has no memory for it")]
    NoMemory(ServerId),
    /// Loads that the plan predicts are not those that its moves lead to.
    #[error("worker {0} would have another load than the plan says")]
    WrongPrediction(WorkerRef),
}

/// The owners and their loads while a plan is executed on paper.
struct Paper<'a> {
    loads: BTreeMap<WorkerRef, f64>,
    /// What each may be loaded to: nobody is to be overloaded by a plan.
    most: BTreeMap<WorkerRef, f64>,
    /// What loads may differ by after additions in another order.
    tolerance: f64,
    /// Owners of the cachelets that the plan names.
    owners: BTreeMap<CacheletNumber, (WorkerRef, &'a CacheletReport, f64)>,
    accepts: BTreeMap<ServerId, bool>,
    memory: BTreeMap<ServerId, u64>,
    touched: BTreeSet<CacheletNumber>,
    bytes: u64,
}

/// Checks a plan against the reports that it was made from, which must be valid. O(c log m) for c cachelets and m moves.
///
/// # Errors
///
/// The first rule that it breaks.
pub fn check(
    report: &ClusterReport,
    config: &ClusterConfig,
    plan: &ClusterPlan,
) -> Result<(), Refusal> {
    let mut paper = Paper::new(report, &plan.moves);
    let before = paper.loads.clone();
    let memory_before = paper.memory.clone();
    for it in &plan.moves {
        paper.apply(it)?;
    }
    if plan.moves.len() > config.moves_max {
        return Err(Refusal::TooManyMoves(plan.moves.len()));
    }
    let all_bytes: u64 = memory_before.values().sum();
    let first = plan.moves.first().map_or(0, |first| first.bytes);
    let bytes_max = config.bytes_max(all_bytes).max(first);
    if paper.bytes > bytes_max || paper.bytes != plan.bytes {
        return Err(Refusal::Bytes(paper.bytes));
    }
    let most = |server: &ServerReport| config.memory_max(server.memory_max_bytes);
    let full = report
        .servers
        .iter()
        .filter(|s| memory_before[&s.server] >= most(s));
    let full: BTreeSet<ServerId> = full.map(|server| server.server).collect();
    for server in &report.servers {
        let id = server.server;
        let came = plan.moves.iter().filter(|it| it.to.server == id);
        let evictable = came.filter(|it| it.from.server != id && full.contains(&it.from.server));
        let evictable: u64 = evictable.map(|it| it.bytes).sum();
        if paper.memory[&id].saturating_sub(evictable) > most(server).max(memory_before[&id]) {
            return Err(Refusal::NoMemory(id));
        }
    }
    paper.check_loads(&before)?;
    paper.check_predictions(&before, plan)
}

impl<'a> Paper<'a> {
    fn new(report: &'a ClusterReport, moves: &[Move]) -> Self {
        let named: BTreeSet<CacheletNumber> = moves.iter().map(|it| it.cachelet).collect();
        let mut paper = Paper {
            loads: BTreeMap::new(),
            most: BTreeMap::new(),
            tolerance: 0.0,
            owners: BTreeMap::new(),
            accepts: BTreeMap::new(),
            memory: BTreeMap::new(),
            touched: BTreeSet::new(),
            bytes: 0,
        };
        let most = most_believed(report);
        let mut measured = Vec::new();
        for server in &report.servers {
            paper.accepts.insert(server.server, server.accepts);
            paper.memory.insert(server.server, server.memory_bytes());
            for (index, worker) in server.workers.iter().enumerate() {
                let at = WorkerRef {
                    server: server.server,
                    worker: index as u16,
                };
                let said = reported_load(worker.load, worker.cachelets.iter().map(|c| c.load));
                let part = if said > most { most / said } else { 1.0 };
                paper.loads.insert(at, said.min(most));
                measured.push(Measured {
                    load: said.min(most),
                    busy: worker.busy,
                });
                for c in &worker.cachelets {
                    if named.contains(&c.cachelet) {
                        paper.owners.insert(c.cachelet, (at, c, c.load * part));
                    }
                }
            }
        }
        // Servers come in ascending order, so that workers do.
        let loads: Vec<f64> = paper.loads.values().copied().collect();
        let capacities = capacities(&measured);
        let utilization = Utilization::of(&loads, &capacities);
        let most = capacities
            .iter()
            .map(|&it| utilization.share(it).overloaded);
        paper.most = paper.loads.keys().copied().zip(most).collect();
        paper.tolerance = ROUNDING * (1.0 + paper.loads.values().sum::<f64>());
        paper
    }

    fn apply(&mut self, it: &Move) -> Result<(), Refusal> {
        let Move {
            cachelet,
            from,
            to,
            load,
            bytes,
        } = *it;
        let Some(&(at, report, believed)) = self.owners.get(&cachelet) else {
            return Err(Refusal::NotThere(cachelet));
        };
        if at != from || !report.may_move || load != believed {
            return Err(Refusal::NotThere(cachelet));
        }
        if !self.touched.insert(cachelet) {
            return Err(Refusal::Twice(cachelet));
        }
        let is_known = self.loads.contains_key(&to);
        if to == from || !is_known || !self.accepts[&to.server] {
            return Err(Refusal::Nowhere(cachelet));
        }
        let copied = match from.server == to.server {
            true => 0,
            false => report.memory_bytes,
        };
        if bytes != copied {
            return Err(Refusal::Bytes(bytes));
        }
        self.bytes += bytes;
        *self.loads.entry(from).or_default() -= load;
        *self.loads.entry(to).or_default() += load;
        *self.memory.entry(from.server).or_default() -= bytes;
        *self.memory.entry(to.server).or_default() += bytes;
        Ok(())
    }

    fn check_loads(&self, before: &BTreeMap<WorkerRef, f64>) -> Result<(), Refusal> {
        for (&worker, &load) in &self.loads {
            if load > self.most[&worker].max(before[&worker]) + self.tolerance {
                return Err(Refusal::Overloads { worker, load });
            }
        }
        Ok(())
    }

    fn check_predictions(
        &self,
        before: &BTreeMap<WorkerRef, f64>,
        plan: &ClusterPlan,
    ) -> Result<(), Refusal> {
        let mut said = BTreeMap::new();
        for change in &plan.changes {
            said.insert(change.worker, (change.before, change.after));
        }
        for (&worker, &after) in &self.loads {
            let before = before[&worker];
            let (said_before, said_after) = said.remove(&worker).unwrap_or((before, before));
            let difference = (said_before - before).abs() + (said_after - after).abs();
            if difference.is_nan() || difference > self.tolerance {
                return Err(Refusal::WrongPrediction(worker));
            }
        }
        match said.into_keys().next() {
            Some(unknown) => Err(Refusal::WrongPrediction(unknown)),
            None => Ok(()),
        }
    }
}
