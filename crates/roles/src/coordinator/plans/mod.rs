//! Plans: load is evened out between servers, in steps that an operator can see, check, stop.
//!
//! Every second the coordinator looks at the loads that servers tell. When workers have been overloaded for a number
//! of looks in a row, a planner ([`evenkeel_policy::migration::cluster`]) says which cachelets should move where. That
//! is a *plan*: a value with a number, with what it should lead to and what it costs. What becomes of it depends on
//! the mode: it is shown and nothing else (`observe`), waits for an operator (`approve`), or is carried out
//! (`automatic`).
//!
//! ```text
//!   proposed ──approve──> approved ──checked again──> running ──all moves over──> done
//!      │  │                  │  │                      │   │
//!      │  └─too old─> expired│  └─does not help─> failed <─┘ no move succeeded
//!      └──────cancel─────────┴──> cancelled <── cancelling <──cancel── running
//! ```
//!
//! Loads change while a plan waits, so that it is checked again before anything moves, against what is measured
//! then: moves that do not fit any more are left out. Its moves are migrations, begun a few at a time, so that no
//! server has to copy for many others beside its clients. Between two plans there is a pause: loads are averages,
//! and show what a move has brought after some seconds.
//!
//! At most one plan is open. It is saved, and goes on under another coordinator; those that are over are kept to be
//! shown, with what was measured before and after.
//!
//! Cachelets that are split and merged change the map and nothing else, all at once, before the moves of their plan. Moves
//! within a server are not carried out: it finds them by itself and makes them without copying.

mod look;
mod run;

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

pub use evenkeel_policy::migration::cluster::{ClusterCause, PlannerName, SplitCause, Spread};
use evenkeel_policy::placement::map::MIGRATIONS_MAX;
use evenkeel_types::{CacheletId, Epoch, Instant, UnixSeconds};
use serde::{Deserialize, Serialize};

use super::{CoordinatorCore, WorkerName, limits};

/// What becomes of plans that the coordinator makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanMode {
    /// They are shown.
    #[default]
    Observe,
    /// They wait until an operator approves them.
    Approve,
    /// They are carried out.
    Automatic,
}

impl PlanMode {
    /// All of them, in order.
    pub const ALL: [PlanMode; 3] = [PlanMode::Observe, PlanMode::Approve, PlanMode::Automatic];

    /// Its name everywhere; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            PlanMode::Observe => "observe",
            PlanMode::Approve => "approve",
            PlanMode::Automatic => "automatic",
        }
    }
}

impl fmt::Display for PlanMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl core::str::FromStr for PlanMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = PlanMode::ALL.into_iter().find(|mode| mode.as_str() == text);
        known.ok_or_else(|| format!("{text:?} is none of observe, approve, automatic"))
    }
}

/// What an operator can choose about plans.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlanSettings {
    /// What becomes of plans.
    pub mode: PlanMode,
    /// Who makes them.
    pub planner: PlannerName,
    /// Looks in a row, one a second, for which workers have to be overloaded. 1 to [`limits::PLAN_INTERVALS_MAX`].
    pub intervals: u32,
    /// Milliseconds between the end of a plan and the next. At most a day.
    pub pause_ms: u64,
    /// Bytes that one plan may copy, in parts of all the data: 0 to 1.
    pub bytes_ratio_max: f64,
    /// Migrations at one time, 1 to [`MIGRATIONS_MAX`].
    pub migrations_max: usize,
    /// Migrations of which one server is the source or the target, at one time; at least 1.
    pub migrations_per_server_max: usize,
    /// What each copies in a second; 0 for no limit.
    pub bytes_per_second: u64,
}

impl Default for PlanSettings {
    fn default() -> Self {
        PlanSettings {
            mode: PlanMode::Observe,
            planner: PlannerName::Mbal,
            intervals: limits::PLAN_INTERVALS,
            pause_ms: limits::PLAN_PAUSE.as_millis() as u64,
            bytes_ratio_max: limits::PLAN_BYTES_RATIO_MAX,
            migrations_max: limits::PLAN_MIGRATIONS,
            migrations_per_server_max: limits::PLAN_MIGRATIONS_PER_SERVER,
            bytes_per_second: limits::MIGRATION_BYTES_PER_SECOND,
        }
    }
}

impl PlanSettings {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Says which value is out of range.
    pub fn validate(&self) -> Result<(), PlanRefusal> {
        let bad = |what| Err(PlanRefusal::BadSettings { what });
        if !(1..=limits::PLAN_INTERVALS_MAX).contains(&self.intervals) {
            return bad("intervals");
        }
        if Duration::from_millis(self.pause_ms) > limits::PLAN_PAUSE_MAX {
            return bad("pause_ms");
        }
        // NaN is in no range.
        if !(0.0..=1.0).contains(&self.bytes_ratio_max) {
            return bad("bytes_ratio_max");
        }
        if !(1..=MIGRATIONS_MAX).contains(&self.migrations_max) {
            return bad("migrations_max");
        }
        if !(1..=MIGRATIONS_MAX).contains(&self.migrations_per_server_max) {
            return bad("migrations_per_server_max");
        }
        Ok(())
    }
}

/// How far a plan has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// It was made, and nobody has said anything to it.
    Proposed,
    /// It is to be carried out.
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

    const fn is_over(self) -> bool {
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
    /// What names its [`Migration`](evenkeel_policy::placement::map::Migration), once there is one.
    pub began: Option<Epoch>,
    /// Why it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A cachelet that a plan makes two of, or one of two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRecut {
    /// Which. Of two that are merged, the one that stays.
    pub cachelet: CacheletId,
    /// What is done.
    #[serde(flatten)]
    pub kind: Recutting,
    /// How far it has come.
    pub state: RecutState,
    /// The other half, once it is split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half: Option<CacheletId>,
    /// Why it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl PlanRecut {
    fn skip(&mut self, why: String) {
        self.state = RecutState::Skipped;
        self.note = Some(why);
    }
}

/// Whether a cachelet is split or merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Recutting {
    /// It becomes two, each with half of its virtual nodes.
    Split {
        /// Why.
        cause: SplitCause,
    },
    /// It gets another one's virtual nodes.
    Merge {
        /// The other one.
        with: CacheletId,
    },
}

/// How far a split or a merge of a plan has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecutState {
    /// It is not in the map.
    Waiting,
    /// It is.
    Done,
    /// It was not possible, did not help any more, or the plan was cancelled.
    Skipped,
}

impl RecutState {
    /// All of them, in order.
    pub const ALL: [RecutState; 3] = [RecutState::Waiting, RecutState::Done, RecutState::Skipped];

    /// Its name everywhere; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            RecutState::Waiting => "waiting",
            RecutState::Done => "done",
            RecutState::Skipped => "skipped",
        }
    }

    const fn is_over(self) -> bool {
        !matches!(self, RecutState::Waiting)
    }
}

impl fmt::Display for RecutState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
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
    /// Why it was made.
    pub cause: ClusterCause,
    /// Who made it.
    pub planner: PlannerName,
    /// When it was made.
    pub proposed_unix_s: UnixSeconds,
    /// When it was over.
    pub ended_unix_s: Option<UnixSeconds>,
    /// In the order in which they are begun: what helps most comes first.
    pub moves: Vec<PlanMove>,
    /// What is split and merged.
    #[serde(default)]
    pub recuts: Vec<PlanRecut>,
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

/// A plan without its moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanSummary {
    /// See [`Plan::id`], and so on.
    pub id: u64,
    /// How far it has come.
    pub state: PlanState,
    /// Why it was made.
    pub cause: ClusterCause,
    /// Who made it.
    pub planner: PlannerName,
    /// When it was made.
    pub proposed_unix_s: UnixSeconds,
    /// When it was over.
    pub ended_unix_s: Option<UnixSeconds>,
    /// How many moves it has.
    pub moves: usize,
    /// How many of them succeeded.
    pub moved: usize,
    /// Bytes that are copied.
    pub bytes: u64,
    /// What was measured before.
    pub before: Spread,
    /// What it should lead to.
    pub predicted: Spread,
    /// What was measured afterwards.
    pub measured: Option<Spread>,
    /// Why it ended as it did.
    pub note: Option<String>,
}

impl From<&Plan> for PlanSummary {
    fn from(plan: &Plan) -> Self {
        PlanSummary {
            id: plan.id,
            state: plan.state,
            cause: plan.cause,
            planner: plan.planner,
            proposed_unix_s: plan.proposed_unix_s,
            ended_unix_s: plan.ended_unix_s,
            moves: plan.moves.len(),
            moved: plan.moves_in(MoveState::Moved),
            bytes: plan.bytes,
            before: plan.before,
            predicted: plan.predicted,
            measured: plan.measured,
            note: plan.note.clone(),
        }
    }
}

/// What the coordinator thought of the loads when it last could have made a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Too little is known of the loads.
    Unknown,
    /// Nobody is overloaded.
    Even,
    /// Workers are overloaded, and have not been so for long, or the last plan is not long ago.
    Waiting,
    /// There is a plan.
    Planned,
    /// Nothing within the limits helps.
    NoRoom,
    /// The best plan would gain too little.
    TooSmall,
    /// The cluster as a whole is hot: only more servers help.
    AddServers,
}

impl Verdict {
    /// All of them, in order.
    pub const ALL: [Verdict; 7] = [
        Verdict::Unknown,
        Verdict::Even,
        Verdict::Waiting,
        Verdict::Planned,
        Verdict::NoRoom,
        Verdict::TooSmall,
        Verdict::AddServers,
    ];

    /// Its name everywhere; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Unknown => "unknown",
            Verdict::Even => "even",
            Verdict::Waiting => "waiting",
            Verdict::Planned => "planned",
            Verdict::NoRoom => "no_room",
            Verdict::TooSmall => "too_small",
            Verdict::AddServers => "add_servers",
        }
    }
}

/// All plans, to be shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlansView {
    /// What the operator has chosen.
    pub settings: PlanSettings,
    /// What the coordinator thinks of the loads.
    pub verdict: Verdict,
    /// Servers that should be added, where that is the verdict.
    pub servers_wanted: Option<usize>,
    /// How load is spread, if enough is known.
    pub spread: Option<Spread>,
    /// Looks in a row that found overloaded workers.
    pub lasting_intervals: u32,
    /// The plan that is open, and those that are over; the newest first.
    pub plans: Vec<PlanSummary>,
}

/// Counts since the process started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanCounts {
    /// Looks at the loads, each verdict present.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// Plans that got into a state, each present.
    pub states: BTreeMap<PlanState, u64>,
    /// Moves of plans that are over, each state present.
    pub moves: BTreeMap<MoveState, u64>,
    /// What they were to split and merge, each state present.
    pub recuts: BTreeMap<RecutState, u64>,
}

/// Why something is not done with a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanRefusal {
    /// There is no such plan, or not any more.
    #[error("there is no plan {id}")]
    Unknown {
        /// The number.
        id: u64,
    },
    /// It is not in the state for that.
    #[error("plan {id} is {state}")]
    WrongState {
        /// The number.
        id: u64,
        /// Its state.
        state: PlanState,
    },
    /// A setting is out of range.
    #[error("{what} is out of range")]
    BadSettings {
        /// Which.
        what: &'static str,
    },
}

/// What outlives the process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedPlans {
    /// What the operator has chosen.
    pub settings: PlanSettings,
    /// Plans so far.
    pub count: u64,
    /// The one that is not over.
    pub open: Option<Plan>,
}

/// Everything about plans.
#[derive(Debug)]
pub(super) struct Plans {
    pub(super) saved: SavedPlans,
    /// Those that are over, oldest first.
    over: VecDeque<Plan>,
    counts: PlanCounts,
    /// When the loads were last looked at.
    looked_at: Option<Instant>,
    lasting: u32,
    verdict: Verdict,
    servers_wanted: Option<usize>,
    spread: Option<Spread>,
    /// No plan is made before.
    pause_until: Option<Instant>,
    /// The open plan is too old from then on.
    expires_at: Option<Instant>,
    /// A plan that is over, and looks until its effect is measured.
    settling: Option<(u64, u32)>,
    /// When cachelets moved last. What they carry now is not known before some seconds have passed.
    moved_at: BTreeMap<CacheletId, Instant>,
}

impl Plans {
    /// Goes on with what a former coordinator has saved.
    pub(super) fn new(saved: SavedPlans) -> Self {
        Plans {
            saved,
            over: VecDeque::new(),
            counts: PlanCounts {
                verdicts: Verdict::ALL.into_iter().map(|v| (v, 0)).collect(),
                states: PlanState::ALL.into_iter().map(|s| (s, 0)).collect(),
                moves: MoveState::ALL.into_iter().map(|s| (s, 0)).collect(),
                recuts: RecutState::ALL.into_iter().map(|s| (s, 0)).collect(),
            },
            looked_at: None,
            lasting: 0,
            verdict: Verdict::Unknown,
            servers_wanted: None,
            spread: None,
            pause_until: None,
            expires_at: None,
            settling: None,
            moved_at: BTreeMap::new(),
        }
    }

    fn find(&self, id: u64) -> Option<&Plan> {
        let all = self.over.iter().rev().chain(&self.saved.open);
        all.into_iter().find(|plan| plan.id == id)
    }
}

impl CoordinatorCore {
    /// The open plan and the last [`limits::PLANS_MAX`] that are over, newest first, at most so many.
    pub fn plans(&self, most: usize) -> PlansView {
        let plans = &self.plans;
        let all = plans.saved.open.iter().chain(plans.over.iter().rev());
        PlansView {
            settings: plans.saved.settings,
            verdict: plans.verdict,
            servers_wanted: plans.servers_wanted,
            spread: plans.spread,
            lasting_intervals: plans.lasting,
            plans: all.take(most).map(PlanSummary::from).collect(),
        }
    }

    /// A plan with its moves.
    ///
    /// # Errors
    ///
    /// There is none of that number, or not any more.
    pub fn plan(&self, id: u64) -> Result<&Plan, PlanRefusal> {
        self.plans.find(id).ok_or(PlanRefusal::Unknown { id })
    }

    /// Counts since the process started.
    pub fn plan_counts(&self) -> &PlanCounts {
        &self.plans.counts
    }

    /// Takes an operator's choice.
    ///
    /// # Errors
    ///
    /// A value is out of range; then nothing has changed.
    pub fn set_plan_settings(&mut self, settings: PlanSettings) -> Result<(), PlanRefusal> {
        settings.validate()?;
        if self.plans.saved.settings != settings {
            self.plans.saved.settings = settings;
            self.revision += 1;
        }
        Ok(())
    }

    /// The operator's choice.
    pub fn plan_settings(&self) -> PlanSettings {
        self.plans.saved.settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_is_what_becomes_of_plans() {
        let mut table = String::new();
        for from in PlanState::ALL {
            let next = PlanState::ALL.into_iter().filter(|&to| from.may_become(to));
            let next: Vec<_> = next.map(PlanState::as_str).collect();
            assert_eq!(next.is_empty(), from.is_over());
            table += format!("{from}: {}", next.join(" ")).trim_end();
            table += "\n";
        }
        println!("{table}");
        assert_eq!(
            table,
            "proposed: approved cancelled expired\n\
             approved: running cancelled failed\n\
             running: cancelling done failed\n\
             cancelling: cancelled\n\
             done:\ncancelled:\nfailed:\nexpired:\n"
        );
    }

    #[test]
    fn names_are_the_same_everywhere() {
        let json = |value| serde_json::to_value(value).unwrap();
        for state in PlanState::ALL {
            assert_eq!(json(serde_json::to_value(state).unwrap()), state.as_str());
        }
        for state in MoveState::ALL {
            assert_eq!(json(serde_json::to_value(state).unwrap()), state.as_str());
        }
        for verdict in Verdict::ALL {
            assert_eq!(
                json(serde_json::to_value(verdict).unwrap()),
                verdict.as_str()
            );
        }
        for mode in PlanMode::ALL {
            assert_eq!(json(serde_json::to_value(mode).unwrap()), mode.as_str());
            assert_eq!(mode.as_str().parse(), Ok(mode));
        }
    }
}
