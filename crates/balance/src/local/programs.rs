//! The integer programs of phase 2 (MBal, section 3.3, objectives 1 and 2).
//!
//! A variable `x` is 1 if a cachelet goes from one worker to another, from an overloaded one to one with room or, as
//! part of a swap, the other way. Each goes to one at most, and no worker may get beyond its permissible load:
//!
//! ```text
//! 1. one overloaded worker a         minimise  Σ x
//!                                    with      L_j' = L_j + Σ l·x into j − Σ l·x out of j ≤ T   for each j
//!
//! 2. workers S, two overloaded       minimise  Σ d_j + (cost of a move)·Σ x      over j in S
//!    and the two least loaded        with      d_j ≥ ±(L_j' − L_avg)
//!                                              L_j' ≤ T, for an overloaded j ≤ what it has now
//! ```
//!
//! In program 2 an overloaded worker need not get below `T` at once, unlike in the paper: with three of them, four
//! workers at a time, one round cannot do it, and rounds follow on each other.
//!
//! Loads are given to the solver in parts of the mean, so that its tolerances mean the same everywhere.

use good_lp::{Expression, ProblemVariables, Variable, constraint, variable};

use super::assignment::Assignment;
use super::config::LocalConfig;
use super::input::LocalLimits;
use crate::mean;
use crate::solver::{Program, Unsolved, VARIABLES_MAX, solve};

/// What a move costs, in parts of the mean load: this much deviation is accepted to spare one.
pub(super) const MOVE_COST_RATIO: f64 = 0.005;

/// Destinations of program 1: the least loaded ones.
const DESTINATIONS_MAX: usize = 8;

/// Cachelets of a worker that a program considers: those with the largest loads.
const CACHELETS_MAX: usize = 24;

const _: () = assert!(2 * DESTINATIONS_MAX * CACHELETS_MAX <= VARIABLES_MAX);
const _: () = assert!(2 * 2 * 2 * CACHELETS_MAX <= VARIABLES_MAX);

/// What tells plans of equally many moves apart: a load that goes to a busier worker is worse, one that goes home
/// is better. All of them together weigh less than one move.
const TIE: f64 = 0.1 / (2 * CACHELETS_MAX) as f64;

/// A variable that moves a cachelet, by its place in the list.
struct Choice {
    cachelet: usize,
    to: u16,
    x: Variable,
}

/// Program 1: one worker is relieved by as few moves as can be.
pub(super) fn fewest_moves<'a>(
    start: &Assignment<'a>,
    movable: &[bool],
    source: u16,
    limits: LocalLimits,
    config: &LocalConfig,
) -> Result<Assignment<'a>, Unsolved> {
    let unit = unit(start);
    let mut destinations: Vec<u16> = (0..start.loads.len() as u16)
        .filter(|&w| w != source && start.loads[usize::from(w)] < limits.permissible)
        .collect();
    start.sort_by_load(&mut destinations);
    destinations.truncate(DESTINATIONS_MAX);

    let mut variables = ProblemVariables::new();
    let choices = exchange(start, movable, &[source], &destinations, &mut variables);
    let mut objective = Expression::default();
    for choice in &choices {
        let fullness = (start.loads[usize::from(choice.to)] / limits.permissible).min(1.0);
        let at_home = f64::from(start.cachelets[choice.cachelet].home == choice.to);
        objective.add_mul(1.0 + TIE * (fullness - at_home), choice.x);
    }
    let mut constraints = at_most_once(&choices);
    for worker in destinations.into_iter().chain([source]) {
        let after = load_after(start, &choices, worker, unit);
        constraints.push(constraint!(after <= limits.permissible / unit));
    }
    let program = Program {
        variables,
        objective,
        constraints,
    };
    let mut end = start.clone();
    apply(&mut end, &choices, &solve(program, config.work)?);
    Ok(end)
}

/// Program 2, again and again: the two most and the two least loaded workers are made even.
pub(super) fn least_deviation<'a>(
    start: &Assignment<'a>,
    movable: &[bool],
    limits: LocalLimits,
    config: &LocalConfig,
) -> Result<Assignment<'a>, Unsolved> {
    let mut now = start.clone();
    for iteration in 0..config.iterations_max {
        let mut sources = now.overloaded(limits);
        sources.truncate(2);
        let mut destinations: Vec<u16> = (0..now.loads.len() as u16)
            .filter(|&w| now.loads[usize::from(w)] < limits.permissible)
            .collect();
        now.sort_by_load(&mut destinations);
        destinations.truncate(2);
        if sources.is_empty() || destinations.is_empty() {
            break;
        }
        match even_out(&now, movable, &sources, &destinations, limits, config) {
            Ok(next) if next.hosts == now.hosts => break,
            Ok(next) => now = next,
            // What earlier rounds found is worth something.
            Err(why) if iteration == 0 => return Err(why),
            Err(_) => break,
        }
    }
    Ok(now)
}

fn even_out<'a>(
    now: &Assignment<'a>,
    movable: &[bool],
    sources: &[u16],
    destinations: &[u16],
    limits: LocalLimits,
    config: &LocalConfig,
) -> Result<Assignment<'a>, Unsolved> {
    let unit = unit(now);
    let mut variables = ProblemVariables::new();
    let choices = exchange(now, movable, sources, destinations, &mut variables);
    let mut objective = Expression::default();
    for choice in &choices {
        let goes_home = now.cachelets[choice.cachelet].home == choice.to;
        let cost = MOVE_COST_RATIO * if goes_home { 0.5 } else { 1.0 };
        objective.add_mul(cost, choice.x);
    }
    let mut constraints = at_most_once(&choices);
    for &worker in sources.iter().chain(destinations) {
        let most = limits.permissible.max(now.loads[usize::from(worker)]) / unit;
        let after = load_after(now, &choices, worker, unit);
        let distance = variables.add(variable().min(0.0));
        objective += distance;
        constraints.push(constraint!(after.clone() - distance <= 1.0));
        constraints.push(constraint!(after.clone() + distance >= 1.0));
        constraints.push(constraint!(after <= most));
    }
    let program = Program {
        variables,
        objective,
        constraints,
    };
    let mut end = now.clone();
    apply(&mut end, &choices, &solve(program, config.work)?);
    Ok(end)
}

/// The mean load, in which programs reckon.
fn unit(start: &Assignment<'_>) -> f64 {
    mean(&start.loads).max(f64::MIN_POSITIVE)
}

/// What may go from these workers to those, and in return.
fn exchange(
    now: &Assignment<'_>,
    movable: &[bool],
    sources: &[u16],
    destinations: &[u16],
    variables: &mut ProblemVariables,
) -> Vec<Choice> {
    let mut all = choices(now, movable, sources, destinations, variables);
    all.extend(choices(now, movable, destinations, sources, variables));
    all
}

/// One variable for each cachelet and each place where it may go.
fn choices(
    now: &Assignment<'_>,
    movable: &[bool],
    from: &[u16],
    to: &[u16],
    variables: &mut ProblemVariables,
) -> Vec<Choice> {
    let mut choices = Vec::new();
    for &worker in from {
        let mut hosted: Vec<usize> = now.hosted(worker).filter(|&c| movable[c]).collect();
        hosted.sort_by(|&a, &b| {
            let (a, b) = (&now.cachelets[a], &now.cachelets[b]);
            b.load.total_cmp(&a.load).then(a.cachelet.cmp(&b.cachelet))
        });
        hosted.truncate(CACHELETS_MAX);
        for cachelet in hosted {
            for &to in to {
                let x = variables.add(variable().binary());
                choices.push(Choice { cachelet, to, x });
            }
        }
    }
    choices
}

/// Each cachelet goes to one worker at most. Choices of one cachelet stand side by side.
fn at_most_once(choices: &[Choice]) -> Vec<good_lp::Constraint> {
    choices
        .chunk_by(|a, b| a.cachelet == b.cachelet)
        .map(|of_one| {
            let sum: Expression = of_one.iter().map(|choice| choice.x).sum();
            constraint!(sum <= 1.0)
        })
        .collect()
}

/// Load of a worker after the moves that are chosen, in units.
fn load_after(now: &Assignment<'_>, choices: &[Choice], worker: u16, unit: f64) -> Expression {
    let mut load = Expression::from(now.loads[usize::from(worker)] / unit);
    for choice in choices {
        let part = now.cachelets[choice.cachelet].load / unit;
        if choice.to == worker {
            load.add_mul(part, choice.x);
        } else if now.hosts[choice.cachelet] == worker {
            load.add_mul(-part, choice.x);
        }
    }
    load
}

/// Makes the moves of a solution. Variables of choices are the first of a program, in their order.
fn apply(end: &mut Assignment<'_>, choices: &[Choice], values: &[f64]) {
    for (choice, value) in choices.iter().zip(values) {
        if *value > 0.5 {
            end.shift(choice.cachelet, choice.to);
        }
    }
}
