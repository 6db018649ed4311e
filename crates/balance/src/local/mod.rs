//! Phase 2: cachelets pass between the workers of one server (MBal, section 3.3).
//!
//! Only the host changes: the home worker of a cachelet stays who the map says, and lends the cachelet for a time
//! ([`LocalConfig::lease`]). So a move costs next to nothing, and a wrong one is soon undone.
//!
//! ```text
//!                      who is overloaded?
//!   nobody ──────────────┬────────────── more than 75 % ──▶ phase 3 instead
//!      │                 │
//!      ▼                 ▼
//!   whose lease is    one: fewest moves (program 1)   ─┐  checked; better than
//!   over goes home    several: least deviation of two  ├─ greedy's, or greedy's ──▶ plan
//!   (`home.rs`)       sources and two destinations     ─┘  is taken
//!                     at a time (program 2)
//! ```
//!
//! A worker is overloaded above [`LocalLimits::overloaded`] and relieved once it is down to
//! [`LocalLimits::permissible`], the paper's `T_j`, which nobody is ever loaded beyond by a plan. The paper has one
//! number for both; a worker that stays just below it would be overloaded again with the next breath.
//!
//! Phase 2 answers [`LocalAnswer::NoRoom`] where it can do nothing that is worth a move, and
//! [`LocalAnswer::ServerOverloaded`] where moving within the server would only push load around. Both are for
//! phase 3.

mod assignment;
mod check;
mod config;
mod greedy;
mod home;
mod input;
mod plan;
mod programs;
#[cfg(test)]
mod tests;

use core::time::Duration;

use serde::{Deserialize, Serialize};

pub use check::{Refusal, check};
pub use config::LocalConfig;
pub use input::{BadInput, HostedCachelet, LocalInput, LocalLimits};
pub use plan::{LocalCause, LocalMove, LocalPlan, Method};

use super::solver::{SolverCounts, Unsolved};
use super::{deviation, is_load, mean};
use assignment::Assignment;

/// How hard to look for a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Greedy search alone, for anyone who cannot wait: under a millisecond for up to 16 workers.
    Fast,
    /// Integer programs, too, on a thread of its own: tens of milliseconds.
    Thorough,
}

/// What phase 2 says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalAnswer {
    /// Nobody is overloaded, and nobody has to go home.
    Even,
    /// Do this.
    Plan(LocalPlan),
    /// Somebody is overloaded, and no move within the server helps: phase 3 has to.
    NoRoom,
    /// The best that could be done gains too little to be worth it.
    TooSmall {
        /// Its [`gain_ratio`](LocalPlan::gain_ratio).
        gain_ratio: f64,
    },
    /// Too many workers are overloaded: phase 3 instead.
    ServerOverloaded {
        /// Workers that are.
        overloaded: usize,
        /// Workers there are.
        workers: usize,
    },
}

/// Phase 2 of one server.
#[derive(Clone, Debug, Default)]
pub struct LocalPlanner {
    config: LocalConfig,
    counts: SolverCounts,
}

impl LocalPlanner {
    /// A planner that has planned nothing yet.
    pub fn new(config: LocalConfig) -> Self {
        LocalPlanner {
            config,
            counts: SolverCounts::default(),
        }
    }

    /// How its integer programs fared.
    pub fn counts(&self) -> SolverCounts {
        self.counts
    }

    /// What to do. The same input gives the same answer.
    ///
    /// Fast, it takes O(m · c · n) for m moves, c cachelets of a worker and n of the server.
    ///
    /// # Errors
    ///
    /// If the input contradicts itself.
    ///
    /// # Panics
    ///
    /// If the limits are not loads or stand the wrong way round, or if greedy search makes a plan that breaks them.
    pub fn plan(
        &mut self,
        input: &LocalInput,
        limits: LocalLimits,
        effort: Effort,
    ) -> Result<LocalAnswer, BadInput> {
        assert!(
            is_load(limits.permissible) && limits.permissible <= limits.overloaded,
            "{limits:?}"
        );
        input.validate()?;
        let start = Assignment::new(input);
        let workers = input.loads.len();
        let overloaded = start.overloaded(limits).len();
        if overloaded == 0 {
            return Ok(self.home_answer(input, &start, limits));
        }
        if overloaded as f64 > self.config.server_overloaded_ratio * workers as f64 {
            return Ok(LocalAnswer::ServerOverloaded {
                overloaded,
                workers,
            });
        }
        let movable = movable(input, self.config.stay_min);
        let greedy = greedy::relieve(&start, &movable, limits, self.config.moves_max);
        let mut plan = self.plan_of(&start, &greedy, limits, Method::Greedy);
        check(input, limits, &self.config, &plan).expect("greedy search keeps the rules");
        if effort == Effort::Thorough
            && let Some(better) = self.solve(input, &start, &movable, limits, &plan)
        {
            plan = better;
        }
        if plan.moves.is_empty() {
            return Ok(LocalAnswer::NoRoom);
        }
        let gain_ratio = plan.gain_ratio();
        if gain_ratio < self.config.gain_ratio_min {
            return Ok(LocalAnswer::TooSmall { gain_ratio });
        }
        Ok(LocalAnswer::Plan(plan))
    }

    /// Which lent cachelets go home, and nothing else: for while overload is not for phase 2 to see to.
    ///
    /// # Errors
    ///
    /// If the input contradicts itself.
    pub fn go_home(
        &self,
        input: &LocalInput,
        limits: LocalLimits,
    ) -> Result<LocalAnswer, BadInput> {
        input.validate()?;
        Ok(self.home_answer(input, &Assignment::new(input), limits))
    }

    fn home_answer(
        &self,
        input: &LocalInput,
        start: &Assignment<'_>,
        limits: LocalLimits,
    ) -> LocalAnswer {
        let end = home::go_home(start, input.now, limits, &self.config);
        let plan = self.plan_of(start, &end, limits, Method::Home);
        if plan.moves.is_empty() {
            return LocalAnswer::Even;
        }
        check(input, limits, &self.config, &plan).expect("going home keeps the rules");
        LocalAnswer::Plan(plan)
    }

    /// The plan of the integer program that fits, if it is sound and better than greedy's.
    fn solve(
        &mut self,
        input: &LocalInput,
        start: &Assignment<'_>,
        movable: &[bool],
        limits: LocalLimits,
        greedy: &LocalPlan,
    ) -> Option<LocalPlan> {
        let sources = start.overloaded(limits);
        let (solved, method) = match sources[..] {
            [source] => (
                programs::fewest_moves(start, movable, source, limits, &self.config),
                Method::FewestMoves,
            ),
            _ => (
                programs::least_deviation(start, movable, limits, &self.config),
                Method::LeastDeviation,
            ),
        };
        let proposal = solved.map(|end| self.plan_of(start, &end, limits, method));
        self.judge(input, limits, greedy, proposal)
    }

    /// The proposal of a solver, if it is sound and better than greedy's. Whatever becomes of it is counted.
    fn judge(
        &mut self,
        input: &LocalInput,
        limits: LocalLimits,
        greedy: &LocalPlan,
        proposal: Result<LocalPlan, Unsolved>,
    ) -> Option<LocalPlan> {
        let plan = match proposal {
            Ok(plan) => plan,
            Err(why) => {
                self.counts.count_unsolved(&why);
                return None;
            }
        };
        if check(input, limits, &self.config, &plan).is_err() {
            self.counts.refused += 1;
            return None;
        }
        if is_better(&plan, greedy) {
            self.counts.taken += 1;
            Some(plan)
        } else {
            self.counts.no_better += 1;
            None
        }
    }

    fn plan_of(
        &self,
        start: &Assignment<'_>,
        end: &Assignment<'_>,
        limits: LocalLimits,
        method: Method,
    ) -> LocalPlan {
        LocalPlan {
            cause: match method {
                Method::Home => LocalCause::GoingHome,
                _ => LocalCause::Overload,
            },
            method,
            moves: end.moves(),
            before: start.loads.clone(),
            after: end.loads.clone(),
            still_overloaded: end.overloaded(limits).len(),
        }
    }
}

/// Whether a solver's plan is better than greedy's by what its program asked for. Who stays overloaded comes first.
fn is_better(plan: &LocalPlan, greedy: &LocalPlan) -> bool {
    let cost = |p: &LocalPlan| match plan.method {
        Method::FewestMoves => (
            p.still_overloaded,
            p.moves.len() as f64,
            deviation(&p.after),
        ),
        _ => {
            let move_cost = programs::MOVE_COST_RATIO * mean(&p.before);
            let deviation = deviation(&p.after);
            (
                p.still_overloaded,
                deviation + p.moves.len() as f64 * move_cost,
                0.0,
            )
        }
    };
    cost(plan) < cost(greedy)
}

/// Which cachelets may move: those with a load that have not just moved.
fn movable(input: &LocalInput, stay_min: Duration) -> Vec<bool> {
    let has_stayed = |c: &HostedCachelet| {
        c.moved_at
            .is_none_or(|moved_at| input.now.since(moved_at) >= stay_min)
    };
    input
        .cachelets
        .iter()
        .map(|c| c.load > 0.0 && has_stayed(c))
        .collect()
}
