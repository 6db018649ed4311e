//! Why nothing moves.

use std::collections::BTreeMap;

use evenkeel_balance::cluster::{self, Hold, Spread};
use evenkeel_types::Instant;
use serde::{Deserialize, Serialize};

use super::look::planner;
use super::{Known, PlanMode, PlanState, Plans, Verdict};
use crate::WorkerName;

/// What the coordinator thinks of the loads, and why it does nothing about them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlansExplained {
    /// What it thought at its last look.
    pub verdict: Verdict,
    /// How load is spread, if enough is known.
    pub spread: Option<Spread>,
    /// What the next plan waits for, in words; nothing where the verdict says it.
    pub waits: Vec<String>,
    /// Workers that would keep more than what is permissible if a plan was made now.
    pub kept: Vec<OverloadedWorkerView>,
}

/// A worker that would keep more than what is permissible.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverloadedWorkerView {
    /// Which.
    pub worker: WorkerName,
    /// The load that it would keep.
    pub load: f64,
    /// What is permissible.
    pub permissible: f64,
    /// How many of its cachelets would stay for which reason.
    pub holds: BTreeMap<Hold, usize>,
}

impl Plans {
    pub(crate) fn explain(&self, now: Instant, known: &Known<'_>) -> PlansExplained {
        let report = self.report(now, known);
        let kept = report.and_then(|report| {
            cluster::explain(&mut planner(), &report, &self.cluster_config()).ok()
        });
        let kept = kept.into_iter().flatten().map(|kept| OverloadedWorkerView {
            worker: known.members.name_of(kept.worker),
            load: kept.load,
            permissible: kept.permissible,
            holds: kept.holds,
        });
        PlansExplained {
            verdict: self.verdict,
            spread: self.spread,
            waits: self.waits(now, known),
            kept: kept.collect(),
        }
    }

    fn waits(&self, now: Instant, known: &Known<'_>) -> Vec<String> {
        let open = self
            .saved
            .open
            .as_ref()
            .filter(|plan| !plan.state.is_over());
        if let Some(plan) = open {
            let mode = self.saved.settings.mode;
            let why = match (plan.state, mode) {
                (PlanState::Proposed, PlanMode::Observe) => " and stays so in mode observe",
                (PlanState::Proposed, _) => " and waits for an operator",
                _ => "",
            };
            return vec![format!("plan {} is {}{why}", plan.id, plan.state)];
        }
        match self.verdict {
            Verdict::Unknown => {
                vec!["fewer than two servers have told their loads in the last seconds".to_owned()]
            }
            Verdict::Waiting => self.waits_for(now, known),
            _ => Vec::new(),
        }
    }
}
