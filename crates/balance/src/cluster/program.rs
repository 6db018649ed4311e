//! The integer program of phase 3 (MBal, section 3.4, equation 8).
//!
//! A variable `x` is 1 if a cachelet of the source goes to a worker of the destination server:
//!
//! ```text
//! minimise  Σ d_j + Σ (cost of the move)·x      over the source and the workers of the destination
//! with      d_j ≥ 0,  d_j ≥ L_j' − F_j          for each worker of the destination
//!           d_a ≥ L_a' − T_a                    for the source
//!           L_j' ≤ T_j                          for each worker of the destination
//!           Σ bytes·x ≤ what the destination and the plan have left
//! ```
//!
//! `F` is a worker's fair share, `T` what is permissible ([`share`](crate::share)). The paper closes the gap between the source and the destination's workers. Here what counts is how far each is
//! above what it should be, and a move costs more the more it copies: an idle server would otherwise draw half of
//! the source's load, most of it for nothing, out of the bytes that other sources need.

use good_lp::{Expression, ProblemVariables, constraint, variable};

use super::draft::Draft;
use crate::solver::{Program, Unsolved, VARIABLES_MAX, WorkLimit, solve};

/// Cachelets of the source that are considered: those with the largest loads.
const CACHELETS_MAX: usize = 24;

/// Workers of the destination that are considered: the least loaded ones.
const WORKERS_MAX: usize = 16;

const _: () = assert!(CACHELETS_MAX * WORKERS_MAX <= VARIABLES_MAX);

/// What a move costs, in parts of the mean load.
const MOVE_COST_RATIO: f64 = 0.005;

/// What copying as much as the cluster's mean cachelet has costs besides.
const BYTES_COST_RATIO: f64 = 0.02;

/// Moves from a worker to the workers of a server: cachelets and where they go, by their places in the draft.
pub(super) fn least_gap(
    draft: &Draft<'_>,
    source: usize,
    server: usize,
    work: WorkLimit,
) -> Result<Vec<(usize, usize)>, Unsolved> {
    let unit = draft.load_mean().max(f64::MIN_POSITIVE);
    let destination = &draft.servers()[server];
    let load = |worker: usize| draft.workers()[worker].load;
    let mut workers: Vec<usize> = destination.workers.clone().collect();
    workers.sort_by(|&a, &b| load(a).total_cmp(&load(b)).then(a.cmp(&b)));
    workers.truncate(WORKERS_MAX);
    let own = draft.workers()[source].cachelets.iter().copied();
    let mut cachelets: Vec<usize> = own
        .filter(|&c| workers.iter().any(|&to| draft.may_move(c, to)))
        .collect();
    cachelets.sort_by(|&a, &b| {
        let (load_a, load_b) = (draft.cachelet(a).load, draft.cachelet(b).load);
        load_b.total_cmp(&load_a).then(a.cmp(&b))
    });
    cachelets.truncate(CACHELETS_MAX);

    let mut variables = ProblemVariables::new();
    let mut choices = Vec::new();
    for &cachelet in &cachelets {
        for &to in workers.iter().filter(|&&to| draft.may_move(cachelet, to)) {
            choices.push((cachelet, to, variables.add(variable().binary())));
        }
    }
    let mut constraints: Vec<_> = choices
        .chunk_by(|a, b| a.0 == b.0)
        .map(|of_one| {
            let sum: Expression = of_one.iter().map(|choice| choice.2).sum();
            constraint!(sum <= 1.0)
        })
        .collect();
    let mut objective = Expression::default();
    let mut bytes = Expression::default();
    let bytes_left = draft.bytes_left().min(
        destination
            .memory_max_bytes
            .saturating_sub(destination.memory_bytes),
    );
    let all = draft.cachelets().iter().map(|c| c.memory_bytes as f64);
    let bytes_mean = (all.sum::<f64>() / draft.cachelets().len() as f64).max(1.0);
    for &(cachelet, to, x) in &choices {
        let copied = draft.bytes_of(cachelet, to) as f64 / bytes_mean;
        objective.add_mul(MOVE_COST_RATIO + BYTES_COST_RATIO * copied, x);
        let part = draft.bytes_of(cachelet, to) as f64 / bytes_left.max(1) as f64;
        bytes.add_mul(part, x);
    }
    constraints.push(constraint!(bytes <= 1.0));
    for worker in workers.iter().copied().chain([source]) {
        let share = draft.workers()[worker].share;
        let mut after = Expression::from(load(worker) / unit);
        for &(cachelet, to, x) in &choices {
            let part = draft.cachelet(cachelet).load / unit;
            if worker == source {
                after.add_mul(-part, x);
            } else if to == worker {
                after.add_mul(part, x);
            }
        }
        let above = variables.add(variable().min(0.0));
        objective += above;
        if worker == source {
            constraints.push(constraint!(after - above <= share.permissible / unit));
        } else {
            let most = share.permissible.max(load(worker)) / unit;
            constraints.push(constraint!(after.clone() - above <= share.fair / unit));
            constraints.push(constraint!(after <= most));
        }
    }
    let program = Program {
        variables,
        objective,
        constraints,
    };
    let values = solve(program, work)?;
    let chosen = choices
        .iter()
        .zip(&values)
        .filter(|(_, value)| **value > 0.5);
    Ok(chosen
        .map(|(&(cachelet, to, _), _)| (cachelet, to))
        .collect())
}
