//! Phase 3: cachelets move between the servers of a cluster (MBal, section 3.4).
//!
//! The coordinator knows the load and the memory of every cachelet. A planner says which of them move, and where
//! to, so that no worker has much more than the others. What moves is copied, and it stays where it went. So a plan
//! is short of two things, moves and bytes.
//!
//! [`Mbal`] decides: the most loaded worker gives to the least loaded server, by greedy search or by an integer program.
//! It proposes moves to a [`Draft`], which accepts those that keep the limits: a planner cannot break them.
//! The plan is nevertheless checked again by code that shares nothing with the draft ([`check`]).
//!
//! Rejected, after a comparison (`docs/experiments/mbal-planners.md`): Slicer's planner, by which the hottest worker gives to the coldest what brings most load
//! for the least churn (Adya and others, OSDI 2016, section 4.4), which copies less where loads are very skewed and is slower to cool
//! the hottest; and bounded load, by which what a worker has too much runs over to the next one on a ring (Mirrokni, Thorup and
//! Zadimoghaddam, SODA 2018), which moves two to three times as often. The integer programs see one source and one server and
//! spend bytes on it that the next source would need; they are worth it where a search within the same two is stuck, and greedy
//! search is the default.
//!
//! # What moving alone cannot do
//!
//! A cachelet that is too hot for any worker stays where it is, and everything else may leave its worker. Where the cluster as
//! a whole has too much, nothing helps but more servers ([`ClusterAnswer::AddServers`]).
//!
//! A plan may always move one cachelet, however large: with fewer than a hundred cachelets each is more than the hundredth
//! of the data that a plan may copy, and nothing would ever move.
//!
//! # Reports that cannot be true
//!
//! A load counts as at most [`LOAD_CLAMP`] times the median. Otherwise one worker that reports a thousand times its
//! load would raise the mean so far that nobody else is overloaded and everything may go anywhere. A worker that
//! claims to be idle gets load up to the limit and no more; what it can do counts as twice the usual capacity at most. Either way, a plan moves a hundredth of the data, or one cachelet.

mod check;
mod draft;
mod explain;
mod mbal;
mod program;
mod report;
#[cfg(test)]
mod tests;

use evenkeel_types::WorkerRef;
use serde::{Deserialize, Serialize};

use crate::share::Utilization;

pub use crate::load::{LOAD_CLAMP, LOAD_CLAMP_FLOOR_RPS};
pub use check::{Refusal, check};
pub use draft::{Draft, Hold};
pub use explain::{OverloadedWorker, explain};
pub use mbal::Mbal;
pub use report::{
    BadReport, CACHELET_BYTES_MAX, CacheletNumber, CacheletReport, ClusterReport, ServerReport,
    WorkerReport,
};

/// Settings of phase 3.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterConfig {
    /// A cluster that uses more than this part of its capacity is hot as a whole.
    pub busy_all_hot: f64,
    /// The part that it is to use after servers were added.
    pub busy_wanted: f64,
    /// A server is not filled beyond this part of its memory, so that nothing is evicted for what comes; unless that comes from
    /// one that is as full.
    pub memory_ratio_max: f64,
    /// Moves of one plan.
    pub moves_max: usize,
    /// Bytes that one plan may copy, in parts of all the data. Its first move may have more.
    pub bytes_ratio_max: f64,
    /// Bytes that one plan may copy however small a part of the data they may be.
    pub bytes_free: u64,
    /// Whether to relieve anyone who has more than what is permissible though nobody is overloaded: once a plan was made, until
    /// there is none. Where a worker was full, the first plan could not see how much it was asked for.
    pub finish: bool,
    /// A plan has to lower the deviation by this much, in parts of the mean load.
    pub gain_ratio_min: f64,
}

impl ClusterConfig {
    /// Bytes of a server's memory that plans fill.
    fn memory_max(&self, bytes: u64) -> u64 {
        (self.memory_ratio_max * bytes as f64) as u64
    }

    /// Bytes that one plan may copy of this many, but for its first move.
    fn bytes_max(&self, all: u64) -> u64 {
        ((self.bytes_ratio_max * all as f64) as u64).max(self.bytes_free)
    }
}

impl Default for ClusterConfig {
    fn default() -> Self {
        ClusterConfig {
            busy_all_hot: 0.85,
            busy_wanted: 0.6,
            memory_ratio_max: 0.95,
            moves_max: 256,
            bytes_ratio_max: 0.01,
            bytes_free: 0,
            finish: false,
            gain_ratio_min: 0.05,
        }
    }
}

/// How load is spread over the workers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Load of the most loaded worker.
    pub load_max: f64,
    /// Mean load.
    pub load_mean: f64,
    /// The part of its capacity that the cluster uses.
    #[serde(default)]
    pub utilization: Utilization,
    /// Sum of how far each worker is from its fair share.
    pub deviation: f64,
    /// Workers that are overloaded.
    pub overloaded: usize,
}

/// Load of a worker that a plan changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadChange {
    /// The worker.
    pub worker: WorkerRef,
    /// Its load.
    pub before: f64,
    /// The load that is predicted.
    pub after: f64,
}

/// A move of a plan: a cachelet gets another owner.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// The cachelet.
    pub cachelet: CacheletNumber,
    /// Its owner until then.
    pub from: WorkerRef,
    /// Its owner from then on.
    pub to: WorkerRef,
    /// The load that goes with it.
    pub load: f64,
    /// Bytes that are copied: none within a server.
    pub bytes: u64,
}

/// Moves within a cluster, with what they should lead to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterPlan {
    /// In the order in which they were found: what helps most comes first. A cachelet moves at most once.
    pub moves: Vec<Move>,
    /// The workers whose load changes, in ascending order.
    pub changes: Vec<LoadChange>,
    /// Now.
    pub before: Spread,
    /// As predicted.
    pub after: Spread,
    /// Bytes that are copied.
    pub bytes: u64,
}

impl ClusterPlan {
    /// By how much the deviation falls, in parts of the mean load.
    pub fn gain_ratio(&self) -> f64 {
        if self.before.load_mean == 0.0 {
            return 0.0;
        }
        (self.before.deviation - self.after.deviation) / self.before.load_mean
    }
}

/// What phase 3 says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusterAnswer {
    /// Nobody is overloaded.
    Even,
    /// Do this.
    Plan(ClusterPlan),
    /// Somebody is overloaded, and nothing within the limits helps.
    NoRoom {
        /// Workers that are overloaded.
        overloaded: usize,
    },
    /// The best that was found gains too little to be worth it.
    TooSmall {
        /// Its [`gain_ratio`](ClusterPlan::gain_ratio).
        gain_ratio: f64,
    },
    /// The cluster as a whole is hot, and moves are no help: only more servers are.
    AddServers {
        /// How many like the present ones would do.
        servers: usize,
    },
}

/// Somebody who proposes moves.
pub trait Planner {
    /// Relieves what overloaded workers it can.
    fn relieve(&mut self, draft: &mut Draft<'_>);
}

/// How load is spread over the workers of a cluster. O(c) for c cachelets.
///
/// # Errors
///
/// If the reports contradict themselves.
pub fn spread(report: &ClusterReport, config: &ClusterConfig) -> Result<Spread, BadReport> {
    report.validate()?;
    Ok(Draft::new(report, config).spread())
}

/// What to do with a cluster. The same reports give the same answer.
///
/// O(c log c) for c cachelets, and what the planner takes.
///
/// # Errors
///
/// If the reports contradict themselves.
///
/// # Panics
///
/// If the plan breaks the limits: the draft is broken.
pub fn plan(
    planner: &mut dyn Planner,
    report: &ClusterReport,
    config: &ClusterConfig,
) -> Result<ClusterAnswer, BadReport> {
    report.validate()?;
    let mut draft = Draft::new(report, config);
    let before = draft.spread();
    if before.overloaded == 0 && !config.finish {
        return Ok(ClusterAnswer::Even);
    }
    let servers_wanted = draft.servers_wanted();
    planner.relieve(&mut draft);
    let plan = ClusterPlan {
        after: draft.spread(),
        changes: draft.changes(),
        bytes: draft.bytes(),
        moves: draft.into_moves(),
        before,
    };
    check(report, config, &plan).expect("a draft keeps the limits");
    let gain_ratio = plan.gain_ratio();
    let overloaded = before.overloaded;
    Ok(match servers_wanted {
        _ if gain_ratio >= config.gain_ratio_min => ClusterAnswer::Plan(plan),
        Some(servers) if overloaded > 0 => ClusterAnswer::AddServers { servers },
        _ if overloaded == 0 => ClusterAnswer::Even,
        _ if plan.moves.is_empty() => ClusterAnswer::NoRoom { overloaded },
        _ => ClusterAnswer::TooSmall { gain_ratio },
    })
}
