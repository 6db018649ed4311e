//! What is shown of plans.

use evenkeel_balance::cluster::Spread;
use evenkeel_types::UnixSeconds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::plan::{MoveState, Plan, PlanState};
use super::settings::PlanSettings;

/// A plan without its moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanSummary {
    /// See [`Plan::id`], and so on.
    pub id: u64,
    /// How far it has come.
    pub state: PlanState,
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
}
