//! Plans: load is evened out between servers, in steps that an operator can see, check, stop.
//!
//! Every second the coordinator looks at the loads that servers tell. When workers have been overloaded for a number
//! of looks in a row, a planner ([`evenkeel_balance::cluster`]) says which cachelets should move where. That
//! is a *plan*: a value with a number, with what it should lead to and what it costs. What becomes of it depends on
//! the mode: it is shown and nothing else (`observe`), waits for an operator (`approve`), or is executed
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
//! Moves within a server are not executed: it finds them by itself and makes them without copying.

mod explain;
mod look;
mod plan;
mod refusal;
mod run;
mod settings;
mod view;

use evenkeel_balance::share::Utilization;
use std::collections::{BTreeMap, VecDeque};

pub use evenkeel_balance::cluster::Spread;
use evenkeel_types::{CacheletId, Instant};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::cluster_loads::ClusterLoads;
use crate::map_draft::MapDraft;
use crate::members::Members;
use crate::migrating::Migrations;

pub use evenkeel_balance::cluster::Hold;
pub use explain::{OverloadedWorkerView, PlansExplained};
pub use plan::{MoveState, Plan, PlanMove, PlanState, WorkerChange};
pub use refusal::PlanRefusal;
pub use settings::{PlanMode, PlanSettings};
pub use view::{PlanCounts, PlanSummary, PlansView, Verdict};

/// What outlives the process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedPlans {
    /// What the operator has chosen.
    #[serde(deserialize_with = "settings_of_any_version")]
    pub settings: PlanSettings,
    /// Plans so far.
    pub count: u64,
    /// The one that is not over.
    pub open: Option<Plan>,
}

impl SavedPlans {
    /// Of a new cluster.
    pub(crate) fn of_mode(mode: PlanMode) -> Self {
        let settings = PlanSettings {
            mode,
            ..PlanSettings::default()
        };
        SavedPlans {
            settings,
            ..SavedPlans::default()
        }
    }
}

/// Former versions saved who makes plans, too.
fn settings_of_any_version<'de, D>(saved: D) -> Result<PlanSettings, D::Error>
where
    D: Deserializer<'de>,
{
    let mut saved = serde_json::Map::deserialize(saved)?;
    saved.remove("planner");
    serde_json::from_value(saved.into()).map_err(D::Error::custom)
}

/// Everything about plans.
#[derive(Debug)]
pub(crate) struct Plans {
    saved: SavedPlans,
    /// Those that are over, oldest first.
    over: VecDeque<Plan>,
    counts: PlanCounts,
    /// When the loads were last looked at.
    looked_at: Option<Instant>,
    lasting: u32,
    /// Plans that may follow the one before without being asked for, until nobody has more than what is permissible.
    follow_ups: u32,
    /// Whether the open plan is one of these.
    is_follow_up: bool,
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
    pub(crate) fn new(saved: SavedPlans) -> Self {
        Plans {
            saved,
            over: VecDeque::new(),
            counts: PlanCounts {
                verdicts: Verdict::ALL.into_iter().map(|v| (v, 0)).collect(),
                states: PlanState::ALL.into_iter().map(|s| (s, 0)).collect(),
                moves: MoveState::ALL.into_iter().map(|s| (s, 0)).collect(),
            },
            looked_at: None,
            lasting: 0,
            follow_ups: 0,
            is_follow_up: false,
            verdict: Verdict::Unknown,
            servers_wanted: None,
            spread: None,
            pause_until: None,
            expires_at: None,
            settling: None,
            moved_at: BTreeMap::new(),
        }
    }

    /// What is to be saved.
    pub(crate) fn saved(&self) -> &SavedPlans {
        &self.saved
    }

    /// The open plan and the last [`PLANS_MAX`](crate::limits::PLANS_MAX) that are over, newest first, at most this many.
    pub(crate) fn view(&self, most: usize) -> PlansView {
        let all = self.saved.open.iter().chain(self.over.iter().rev());
        PlansView {
            settings: self.saved.settings,
            verdict: self.verdict,
            servers_wanted: self.servers_wanted,
            spread: self.spread,
            lasting_intervals: self.lasting,
            plans: all.take(most).map(PlanSummary::from).collect(),
        }
    }

    /// A plan with its moves, if there is one of that number still.
    pub(crate) fn find(&self, id: u64) -> Result<&Plan, PlanRefusal> {
        let all = self.over.iter().rev().chain(&self.saved.open);
        let plan = all.into_iter().find(|plan| plan.id == id);
        plan.ok_or(PlanRefusal::Unknown { id })
    }

    /// The part of its capacity that the cluster used at the last look.
    pub(crate) fn utilization(&self) -> Option<Utilization> {
        self.spread.map(|spread| spread.utilization)
    }

    pub(crate) fn counts(&self) -> &PlanCounts {
        &self.counts
    }

    pub(crate) fn settings(&self) -> PlanSettings {
        self.saved.settings
    }

    /// Takes an operator's choice. Gives whether it differs from the one before.
    pub(crate) fn set_settings(&mut self, settings: PlanSettings) -> Result<bool, PlanRefusal> {
        settings.validate()?;
        let differs = self.saved.settings != settings;
        self.saved.settings = settings;
        Ok(differs)
    }
}

/// What plans are made of, and executed in.
pub(crate) struct Cluster<'a> {
    pub(crate) members: &'a Members,
    pub(crate) loads: &'a ClusterLoads,
    pub(crate) draft: &'a mut MapDraft,
    pub(crate) migrations: &'a mut Migrations,
}

/// The same, where nothing is changed.
pub(crate) struct Known<'a> {
    pub(crate) members: &'a Members,
    pub(crate) loads: &'a ClusterLoads,
    pub(crate) draft: &'a MapDraft,
    pub(crate) migrations: &'a Migrations,
}

impl Cluster<'_> {
    fn known(&self) -> Known<'_> {
        Known {
            members: self.members,
            loads: self.loads,
            draft: self.draft,
            migrations: self.migrations,
        }
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
    fn settings_that_a_former_version_has_saved_are_read() {
        let saved = r#"{"settings": {"mode": "automatic", "planner": "slicer", "pause_ms": 5}, "count": 3}"#;
        let saved: SavedPlans = serde_json::from_str(saved).unwrap();
        let settings = saved.settings;
        assert_eq!((settings.mode, settings.pause_ms), (PlanMode::Automatic, 5));
        assert_eq!(saved.count, 3);
        assert!(serde_json::from_str::<PlanSettings>(r#"{"planner": "mbal"}"#).is_err());
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
