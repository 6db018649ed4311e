//! Whether a plan keeps the rules, found out without trusting anyone who made it.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_types::CacheletId;

use super::assignment::Assignment;
use super::config::LocalConfig;
use super::input::{HostedCachelet, LocalInput, LocalLimits};
use super::plan::{LocalCause, LocalPlan};
use crate::{ROUNDING, deviation};

/// Why a plan is not executed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// It moves a cachelet that is not there, or not where the plan says, or with another load.
    #[error("cachelet {0} is not where the plan takes it from")]
    NotThere(CacheletId),
    /// It moves a cachelet twice.
    #[error("cachelet {0} moves twice")]
    Twice(CacheletId),
    /// It moves a cachelet to where it is, or to a worker that does not exist.
    #[error("cachelet {0} has nowhere to go")]
    Nowhere(CacheletId),
    /// It moves a cachelet that has just moved.
    #[error("cachelet {0} has just moved")]
    JustMoved(CacheletId),
    /// It has more moves than allowed.
    #[error("{0} moves are too many")]
    TooManyMoves(usize),
    /// It would load a worker beyond the limit, and more than now.
    #[error("worker {worker} would have a load of {load}")]
    Overloads {
        /// The worker.
        worker: usize,
        /// Its load.
        load: f64,
    },
    /// The loads it predicts are not those that its moves lead to.
    #[error("worker {0} would have another load than the plan says")]
    WrongPrediction(usize),
    /// It makes the loads less even.
    #[error("the loads would be less even")]
    Worse,
}

/// Checks a plan against the input that it was made for. O(n log n).
///
/// # Errors
///
/// The first rule that it breaks.
pub fn check(
    input: &LocalInput,
    limits: LocalLimits,
    config: &LocalConfig,
    plan: &LocalPlan,
) -> Result<(), Refusal> {
    if plan.moves.len() > config.moves_max {
        return Err(Refusal::TooManyMoves(plan.moves.len()));
    }
    let before = Assignment::new(input).loads;
    let after = apply(input, config, plan, &before)?;
    let total: f64 = before.iter().sum();
    let tolerance = ROUNDING * (1.0 + total);
    for (worker, (&before, &after)) in before.iter().zip(&after).enumerate() {
        if after > limits.permissible.max(before) + tolerance {
            let load = after;
            return Err(Refusal::Overloads { worker, load });
        }
    }
    compare(&plan.before, &before, tolerance)?;
    compare(&plan.after, &after, tolerance)?;
    let workers = after.len() as f64;
    match plan.cause {
        LocalCause::Overload if deviation(&after) > deviation(&before) + workers * tolerance => {
            Err(Refusal::Worse)
        }
        _ => Ok(()),
    }
}

/// The loads that the moves lead to.
fn apply(
    input: &LocalInput,
    config: &LocalConfig,
    plan: &LocalPlan,
    before: &[f64],
) -> Result<Vec<f64>, Refusal> {
    let there: BTreeMap<CacheletId, &HostedCachelet> =
        input.cachelets.iter().map(|c| (c.cachelet, c)).collect();
    let mut seen = BTreeSet::new();
    let mut loads = before.to_vec();
    for m in &plan.moves {
        let id = m.cachelet;
        let c = *there.get(&id).ok_or(Refusal::NotThere(id))?;
        if c.host != m.from || c.load != m.load {
            return Err(Refusal::NotThere(id));
        }
        if !seen.insert(id) {
            return Err(Refusal::Twice(id));
        }
        if m.to == m.from || usize::from(m.to) >= loads.len() {
            return Err(Refusal::Nowhere(id));
        }
        if c.moved_at
            .is_some_and(|moved_at| input.now.since(moved_at) < config.stay_min)
        {
            return Err(Refusal::JustMoved(id));
        }
        loads[usize::from(m.from)] -= m.load;
        loads[usize::from(m.to)] += m.load;
    }
    Ok(loads)
}

fn compare(said: &[f64], found: &[f64], tolerance: f64) -> Result<(), Refusal> {
    if said.len() != found.len() {
        return Err(Refusal::WrongPrediction(said.len().min(found.len())));
    }
    let differs = |worker: &usize| {
        let difference = (said[*worker] - found[*worker]).abs();
        difference.is_nan() || difference > tolerance
    };
    match (0..said.len()).find(differs) {
        Some(worker) => Err(Refusal::WrongPrediction(worker)),
        None => Ok(()),
    }
}
