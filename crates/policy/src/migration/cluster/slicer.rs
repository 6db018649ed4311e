//! Slicer's planner, the weighted move: the hottest worker gives to the coldest.
//!
//! What is worth moving is told by its weight, the load that the hotter of the two loses for each piece of the hash
//! space that changes hands. The planner works from the hottest worker on until the churn it may cause is used up.

use std::collections::BTreeSet;

use super::draft::{Draft, DraftCachelet};
use super::mbal::ordered;
use super::{Planner, PlannerName};
use crate::migration::ROUNDING;

/// Coldest workers that are tried: the first may have no memory left.
const DESTINATIONS_MAX: usize = 4;

/// A move has to relieve the hottest worker by so much, in parts of the mean load.
const STEP_RATIO_MIN: f64 = 0.01;

/// The planner. Each move takes O(c + log w) for c cachelets of a worker and w workers of the cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slicer;

impl Planner for Slicer {
    fn name(&self) -> PlannerName {
        PlannerName::Slicer
    }

    fn relieve(&mut self, draft: &mut Draft<'_>) {
        let all: u64 = draft.cachelets().iter().map(churn).sum();
        let mut churn_left = (draft.config().churn_ratio_max * all as f64) as u64;
        let key = |draft: &Draft<'_>, w: usize| (ordered(draft.workers()[w].load), w);
        let mut order: BTreeSet<_> = (0..draft.workers().len())
            .map(|worker| key(draft, worker))
            .collect();
        let mut sources: BTreeSet<_> = draft.sources().into_iter().map(|w| key(draft, w)).collect();
        while let Some((load, source)) = sources.pop_last() {
            if load <= ordered(draft.permissible()) {
                break;
            }
            // Without a move that is worth it the worker is left as it is.
            let Some((cachelet, to)) = heaviest(draft, &order, source, churn_left) else {
                continue;
            };
            order.remove(&(load, source));
            order.remove(&key(draft, to));
            churn_left -= churn(draft.cachelet(cachelet));
            draft.give(cachelet, to);
            order.insert(key(draft, source));
            order.insert(key(draft, to));
            sources.insert(key(draft, source));
        }
    }
}

/// Virtual nodes that change hands. A cachelet without any is never asked for, and counts as one.
fn churn(cachelet: &DraftCachelet) -> u64 {
    u64::from(cachelet.virtual_nodes.max(1))
}

/// The move with most weight.
fn heaviest(
    draft: &Draft<'_>,
    order: &BTreeSet<(u64, usize)>,
    source: usize,
    churn_left: u64,
) -> Option<(usize, usize)> {
    let from = draft.workers()[source].load;
    let coldest = order.iter().map(|&(_, worker)| worker);
    let gain_min = STEP_RATIO_MIN * draft.load_mean() + ROUNDING;
    let mut best: Option<(f64, usize, usize)> = None;
    for to in coldest.take(DESTINATIONS_MAX) {
        for &cachelet in &draft.workers()[source].cachelets {
            let c = draft.cachelet(cachelet);
            let hotter_after = (from - c.load).max(draft.workers()[to].load + c.load);
            let gain = from - hotter_after;
            if gain < gain_min || churn(c) > churn_left || !draft.may_move(cachelet, to) {
                continue;
            }
            let weight = gain / churn(c) as f64;
            if best.is_none_or(|(most, ..)| weight > most) {
                best = Some((weight, cachelet, to));
            }
        }
    }
    best.map(|(_, cachelet, to)| (cachelet, to))
}
