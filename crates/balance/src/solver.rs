//! Integer programs under a limit on their work.
//!
//! `good_lp` holds the model; `microlp` solves it, in pure Rust. Branch and bound takes as long as it takes, so a caller says
//! how many nodes it may look at. Nodes and not seconds: two runs on the same loads then give the same plan, in the simulator
//! and anywhere else. A limit in seconds can be set besides, for a machine that is so busy that nodes take long; it is not for reproducible runs.
//!
//! `microlp` promises no optimality, and rounding may make it break a constraint by a little. A solution is a
//! proposal and nothing else.

use core::time::Duration;

use good_lp::{Constraint, Expression, ProblemVariables, SolverModel};
use serde::{Deserialize, Serialize};

/// Most whole-numbered variables of a program: the time for one node grows with their square.
pub const VARIABLES_MAX: usize = 512;

/// How much work one program may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkLimit {
    /// Nodes of branch and bound that are looked at.
    pub nodes_max: u64,
    /// Time, where results need not be the same in each run.
    pub time_max: Option<Duration>,
}

impl Default for WorkLimit {
    /// 200 nodes: programs of a server with 16 workers take 10 ms with them, five times as many take five times as
    /// long and improve nothing (measured by `--example plan_cost`, which was removed after commit 3d3c7b3).
    fn default() -> Self {
        WorkLimit {
            nodes_max: 200,
            time_max: None,
        }
    }
}

/// Why a program has no solution to show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsolved {
    /// No assignment keeps all the limits.
    #[error("no assignment keeps the limits")]
    Infeasible,
    /// None was found within the work allowed.
    #[error("nothing found within the work allowed")]
    Interrupted,
    /// The solver gave up, or broke.
    #[error("the solver failed: {0}")]
    Failed(String),
}

/// How integer programs fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SolverCounts {
    /// Plans of a solver that were taken.
    pub taken: u64,
    /// Plans of a solver that were sound and no better than what greedy search finds.
    pub no_better: u64,
    /// Plans of a solver that our check refused.
    pub refused: u64,
    /// Programs that no assignment satisfies.
    pub infeasible: u64,
    /// Programs without a solution within the work allowed.
    pub interrupted: u64,
    /// Programs at which the solver broke.
    pub failed: u64,
}

impl SolverCounts {
    pub(super) fn count_unsolved(&mut self, why: &Unsolved) {
        match why {
            Unsolved::Infeasible => self.infeasible += 1,
            Unsolved::Interrupted => self.interrupted += 1,
            Unsolved::Failed(_) => self.failed += 1,
        }
    }
}

/// A minimum that was asked for.
pub struct Program {
    /// The variables.
    pub variables: ProblemVariables,
    /// What is to be as little as possible.
    pub objective: Expression,
    /// What has to hold.
    pub constraints: Vec<Constraint>,
}

/// Values of the variables in the order in which they were added to the program. Whether they keep the limits is
/// for the caller to see.
///
/// # Errors
///
/// Without a solution. A solver that panics has failed: it is a library's, and greedy search can do its part.
pub fn solve(program: Program, limit: WorkLimit) -> Result<Vec<f64>, Unsolved> {
    let solved = std::panic::catch_unwind(move || minimise(program, limit));
    solved.unwrap_or_else(|_| Err(Unsolved::Failed("it panicked".to_owned())))
}

fn minimise(program: Program, limit: WorkLimit) -> Result<Vec<f64>, Unsolved> {
    let mut model = program
        .variables
        .minimise(program.objective)
        .using(good_lp::microlp);
    for constraint in program.constraints {
        model.add_constraint(constraint);
    }
    let mut options = microlp::SolveOptions::default();
    options.node_limit = Some(limit.nodes_max);
    options.time_limit = limit.time_max;
    // The model's own `solve` knows no limit on nodes.
    let outcome = model
        .as_inner()
        .solve_with(options)
        .map_err(|error| match error {
            microlp::Error::Infeasible => Unsolved::Infeasible,
            error => Unsolved::Failed(error.to_string()),
        })?;
    match outcome.into_solution() {
        Ok(solution) => Ok(solution.iter().map(|(_, value)| value).collect()),
        Err(_) => Err(Unsolved::Interrupted),
    }
}
