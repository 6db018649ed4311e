//! A plan and its parts as values, and what becomes of them.

use core::fmt;

use evenkeel_balance::cluster::Spread;
use evenkeel_types::{CacheletId, Epoch, UnixSeconds};
use serde::{Deserialize, Serialize};

use crate::members::WorkerName;

/// How far a plan has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// It was made, and nobody has said anything to it.
    Proposed,
    /// It is to be executed.
    Approved,
    /// Its moves are being made.
    Running,
    /// It is to be given up; moves that have begun come to their ends.
    Cancelling,
    /// All of its moves are over, and some of them succeeded.
    Done,
    /// It was given up.
    Cancelled,
    /// Nothing of it could be done, or it does not help any more.
    Failed,
    /// Nobody approved it while it was new.
    Expired,
}

impl PlanState {
    /// All of them, in order.
    pub const ALL: [PlanState; 8] = [
        PlanState::Proposed,
        PlanState::Approved,
        PlanState::Running,
        PlanState::Cancelling,
        PlanState::Done,
        PlanState::Cancelled,
        PlanState::Failed,
        PlanState::Expired,
    ];

    /// Its name everywhere; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            PlanState::Proposed => "proposed",
            PlanState::Approved => "approved",
            PlanState::Running => "running",
            PlanState::Cancelling => "cancelling",
            PlanState::Done => "done",
            PlanState::Cancelled => "cancelled",
            PlanState::Failed => "failed",
            PlanState::Expired => "expired",
        }
    }

    /// Whether nothing becomes of it any more.
    pub const fn is_over(self) -> bool {
        use PlanState::{Cancelled, Done, Expired, Failed};
        matches!(self, Done | Cancelled | Failed | Expired)
    }

    /// Whether a plan in this state may get into that one.
    pub const fn may_become(self, next: PlanState) -> bool {
        use PlanState::{
            Approved, Cancelled, Cancelling, Done, Expired, Failed, Proposed, Running,
        };
        match self {
            Proposed => matches!(next, Approved | Cancelled | Expired),
            Approved => matches!(next, Running | Cancelled | Failed),
            Running => matches!(next, Cancelling | Done | Failed),
            Cancelling => matches!(next, Cancelled),
            Done | Cancelled | Failed | Expired => false,
        }
    }
}

impl fmt::Display for PlanState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How far a move of a plan has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveState {
    /// It has not begun.
    Waiting,
    /// The cachelet is moving.
    Moving,
    /// The cachelet has moved.
    Moved,
    /// The source gave it up.
    Aborted,
    /// The source was lost with what it knew.
    SourceLost,
    /// It was not begun: it did not fit any more, was not possible, or the plan was cancelled.
    Skipped,
}

impl MoveState {
    /// All of them, in order.
    pub const ALL: [MoveState; 6] = [
        MoveState::Waiting,
        MoveState::Moving,
        MoveState::Moved,
        MoveState::Aborted,
        MoveState::SourceLost,
        MoveState::Skipped,
    ];

    /// Its name everywhere; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            MoveState::Waiting => "waiting",
            MoveState::Moving => "moving",
            MoveState::Moved => "moved",
            MoveState::Aborted => "aborted",
            MoveState::SourceLost => "source_lost",
            MoveState::Skipped => "skipped",
        }
    }

    pub(super) const fn is_over(self) -> bool {
        !matches!(self, MoveState::Waiting | MoveState::Moving)
    }
}

/// A move of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanMove {
    /// Which cachelet.
    pub cachelet: CacheletId,
    /// Its owner until then.
    pub from: WorkerName,
    /// Its owner from then on.
    pub to: WorkerName,
    /// The load that goes with it, in small requests a second.
    pub load: f64,
    /// Bytes that are copied.
    pub bytes: u64,
    /// How far it has come.
    pub state: MoveState,
    /// What names its [`Migration`](evenkeel_types::map::Migration), once there is one.
    pub began: Option<Epoch>,
    /// Why it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What a plan does to the load of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerChange {
    /// Which.
    pub worker: WorkerName,
    /// Its load when the plan was made, or checked.
    pub before: f64,
    /// As predicted.
    pub after: f64,
}

/// A plan, and what has become of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Counts from 1 over all coordinators of a cluster.
    pub id: u64,
    /// How far it has come.
    pub state: PlanState,
    /// When it was made.
    pub proposed_unix_s: UnixSeconds,
    /// When it was over.
    pub ended_unix_s: Option<UnixSeconds>,
    /// In the order in which they are begun: what helps most comes first.
    pub moves: Vec<PlanMove>,
    /// The workers whose load changes.
    pub changes: Vec<WorkerChange>,
    /// Bytes that are copied.
    pub bytes: u64,
    /// What was measured when it was made, or checked.
    pub before: Spread,
    /// What it should lead to.
    pub predicted: Spread,
    /// What was measured some seconds after it was over; of plans that moved something.
    pub measured: Option<Spread>,
    /// Moves within servers, which the planner wanted beside these and which are the servers' own.
    pub left_out: usize,
    /// Why it ended as it did, where that is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Plan {
    /// How many of its moves are in that state.
    pub fn moves_in(&self, state: MoveState) -> usize {
        self.moves.iter().filter(|m| m.state == state).count()
    }
}
