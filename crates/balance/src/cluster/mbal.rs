//! MBal's planner (algorithm 2): the most loaded worker gives to the least loaded server.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::Planner;
use super::draft::{Draft, DraftWorker};
use super::program;
use crate::ROUNDING;
use crate::local::Effort;
use crate::solver::{SolverCounts, WorkLimit};

/// Servers that are tried for each step, the least loaded ones: the first may have no memory left.
const DESTINATIONS_MAX: usize = 4;

/// Sources of one plan for which an integer program is solved, the most loaded ones. The others are for the search,
/// and for the next plan.
const PROGRAMS_MAX: usize = 8;

/// A step has to shift this much, in parts of the mean load.
const STEP_RATIO_MIN: f64 = 0.01;

/// Of the steps that even the loads nearly as much as the best one, by at least this part, the one that copies least
/// is taken.
const GAIN_ENOUGH: f64 = 0.8;

/// The planner.
///
/// Fast, each move takes O(w + c) for w workers of a server and c cachelets of a worker, where one fits, and
/// O(w · c²) where two have to be swapped.
#[derive(Clone, Debug)]
pub struct Mbal {
    effort: Effort,
    work: WorkLimit,
    counts: SolverCounts,
}

impl Mbal {
    /// A planner that has planned nothing yet. The limit is for each integer program.
    pub fn new(effort: Effort, work: WorkLimit) -> Self {
        Mbal {
            effort,
            work,
            counts: SolverCounts::default(),
        }
    }

    /// How its integer programs fared.
    pub fn counts(&self) -> SolverCounts {
        self.counts
    }

    /// Moves of the integer program for a worker and the least loaded server, one by one as long as the draft
    /// accepts them.
    fn solve(&mut self, draft: &mut Draft<'_>, order: &mut ServerOrder, source: usize) {
        let own = draft.workers()[source].server;
        let Some(server) = order.least(own, 1).next() else {
            return;
        };
        match program::least_gap(draft, source, server, self.work) {
            Ok(moves) if moves.is_empty() => self.counts.no_better += 1,
            Ok(moves) => {
                let is_sound = |&(cachelet, to): &(usize, usize)| {
                    let accepted = draft.may_move(cachelet, to);
                    if accepted {
                        draft.give(cachelet, to);
                    }
                    accepted
                };
                match moves.iter().all(is_sound) {
                    true => self.counts.taken += 1,
                    false => self.counts.refused += 1,
                }
                order.update(draft, own);
                order.update(draft, server);
            }
            Err(why) => self.counts.count_unsolved(&why),
        }
    }
}

impl Planner for Mbal {
    fn relieve(&mut self, draft: &mut Draft<'_>) {
        let mut order = ServerOrder::new(draft);
        let sources = draft.sources();
        if self.effort == Effort::Thorough {
            for &source in sources.iter().take(PROGRAMS_MAX) {
                self.solve(draft, &mut order, source);
            }
        }
        let key = |draft: &Draft<'_>, worker: usize| {
            let used = draft.workers()[worker].utilization();
            (ordered(used), Reverse(worker))
        };
        let mut heap: BinaryHeap<_> = sources.iter().map(|&s| key(draft, s)).collect();
        while let Some((_, Reverse(source))) = heap.pop() {
            if !draft.is_above(source) || draft.moves_left() == 0 {
                continue;
            }
            // Without any step the worker is left as it is.
            let Some(step) = best_step(draft, &order, source) else {
                continue;
            };
            match step.back {
                Some(back) => draft.swap(step.cachelet, back),
                None => draft.give(step.cachelet, step.to),
            }
            order.update(draft, draft.workers()[source].server);
            order.update(draft, draft.workers()[step.to].server);
            heap.push(key(draft, source));
        }
    }
}

/// Loads in the order of whole numbers. A load may be below 0 by rounding.
fn ordered(load: f64) -> u64 {
    load.max(0.0).to_bits()
}

/// Servers that accept something, the least loaded first.
struct ServerOrder {
    /// By the part of its capacity that each uses.
    order: BTreeSet<(u64, usize)>,
    keys: Vec<u64>,
}

impl ServerOrder {
    fn new(draft: &Draft<'_>) -> Self {
        let keys: Vec<u64> = draft
            .servers()
            .iter()
            .map(|server| ordered(server.utilization()))
            .collect();
        let accepting = (0..keys.len()).filter(|&s| draft.servers()[s].accepts);
        ServerOrder {
            order: accepting.map(|server| (keys[server], server)).collect(),
            keys,
        }
    }

    fn update(&mut self, draft: &Draft<'_>, server: usize) {
        let key = ordered(draft.servers()[server].utilization());
        if self.order.remove(&(self.keys[server], server)) {
            self.order.insert((key, server));
        }
        self.keys[server] = key;
    }

    /// The least loaded ones except for one.
    fn least(&self, except: usize, count: usize) -> impl Iterator<Item = usize> + '_ {
        let servers = self.order.iter().map(|&(_, server)| server);
        servers.filter(move |&server| server != except).take(count)
    }
}

#[derive(Clone, Copy, Debug)]
struct Step {
    cachelet: usize,
    to: usize,
    back: Option<usize>,
    relieves: bool,
    /// See [`lowered`].
    gain: f64,
    bytes: u64,
}

fn best_step(draft: &Draft<'_>, order: &ServerOrder, source: usize) -> Option<Step> {
    let own = draft.workers()[source].server;
    let servers: Vec<usize> = order.least(own, DESTINATIONS_MAX).collect();
    choose(moves(draft, source, &servers)).or_else(|| choose(swaps(draft, source, &servers)))
}

/// The best step: one that relieves if there is any, of these one that gains nearly as much as the best, and of
/// these the one that copies least.
fn choose(mut steps: Vec<Step>) -> Option<Step> {
    if steps.iter().any(|step| step.relieves) {
        steps.retain(|step| step.relieves);
    }
    let best = steps.iter().map(|step| step.gain).fold(0.0, f64::max);
    steps.retain(|step| step.gain >= GAIN_ENOUGH * best);
    steps
        .into_iter()
        .min_by(|a, b| a.bytes.cmp(&b.bytes).then(b.gain.total_cmp(&a.gain)))
}

/// Moves to the least loaded worker of each server.
fn moves(draft: &Draft<'_>, source: usize, servers: &[usize]) -> Vec<Step> {
    let mut steps = Vec::new();
    for &server in servers {
        let workers = draft.servers()[server].workers.clone();
        let Some(to) = workers.min_by_key(|&w| (ordered(draft.workers()[w].utilization()), w))
        else {
            continue;
        };
        for &cachelet in &draft.workers()[source].cachelets {
            if draft.may_move(cachelet, to) {
                steps.extend(step(draft, source, cachelet, to, None));
            }
        }
    }
    steps
}

/// Swaps with any worker of each server.
fn swaps(draft: &Draft<'_>, source: usize, servers: &[usize]) -> Vec<Step> {
    let mut steps = Vec::new();
    for &server in servers {
        for to in draft.servers()[server].workers.clone() {
            let own = draft.workers()[source].cachelets.iter().copied();
            let is_affordable = |&c: &usize| draft.bytes_of(c, to) <= draft.bytes_left();
            for cachelet in own.filter(is_affordable) {
                for &back in &draft.workers()[to].cachelets {
                    if let Some(step) = step(draft, source, cachelet, to, Some(back))
                        && draft.may_swap(cachelet, back)
                    {
                        steps.push(step);
                    }
                }
            }
        }
    }
    steps
}

fn step(
    draft: &Draft<'_>,
    source: usize,
    cachelet: usize,
    to: usize,
    back: Option<usize>,
) -> Option<Step> {
    let returned = back.map_or(0.0, |back| draft.cachelet(back).load);
    let shifted = draft.cachelet(cachelet).load - returned;
    let (from, to_worker) = (&draft.workers()[source], &draft.workers()[to]);
    let gain = lowered(from, to_worker, shifted);
    let is_worth_it = shifted >= STEP_RATIO_MIN * draft.load_mean() + ROUNDING && gain > 0.0;
    is_worth_it.then(|| Step {
        cachelet,
        to,
        back,
        relieves: from.load - shifted <= from.share.permissible,
        gain,
        bytes: draft.bytes_of(cachelet, to) + back.map_or(0, |b| draft.bytes_of(b, source)),
    })
}

/// What it lowers the sum of the squared loads by, half of it, if this much load goes from one to the other; each
/// load counts by its worker's capacity.
fn lowered(from: &DraftWorker, to: &DraftWorker, shifted: f64) -> f64 {
    let weight = from.capacity / to.capacity;
    shifted * (from.load - to.load * weight - shifted * (1.0 + weight) / 2.0)
}
