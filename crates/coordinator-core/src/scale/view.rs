//! What is shown of autoscaling: where it is and why, what it has done, and what that costs.

use std::collections::BTreeMap;

use evenkeel_types::Instant;
use serde::{Deserialize, Serialize};

use super::decide::decide;
use super::led::{ScaleEvent, Scaled, Scaling};
use super::measure::Measures;
use super::seen::{Part, Seen};
use super::settings::ScaleSettings;
use super::state::{Phase, Scale};

/// Milliseconds of an hour.
const HOUR_MS: f64 = 3_600_000.0;

/// The autoscaling of all pools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScalesView {
    /// By the pool's name; those that an operator has set up.
    pub pools: Vec<ScaleView>,
    /// Where each server is that the actuator runs, by name, as it has said last. Absent while it says nothing of use, and where the
    /// coordinator has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<BTreeMap<String, String>>,
}

/// The autoscaling of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleView {
    /// The pool.
    pub pool: String,
    /// What the operator has chosen.
    pub settings: ScaleSettings,
    /// How far it is.
    pub phase: Phase,
    /// Why, in one sentence.
    pub why: String,
    /// Nothing more is done before an operator approves.
    #[serde(default)]
    pub waits_for_approval: bool,
    /// What was measured last.
    pub measures: Measures,
    /// Servers that own a part of the pool and are to keep it.
    pub servers: usize,
    /// Servers that there will be when what is under way has ended. Where it only observes: that there would be.
    pub wanted: usize,
    /// Hours that servers have run, all together, as far as leaders have counted.
    pub server_hours: f64,
    /// The same of servers that observed decisions would have added, less those of servers that they would have removed.
    pub would_hours: f64,
    /// Hours fewer than if there had always been as many servers as there were at most.
    pub saved_hours: f64,
}

/// What would be decided by settings that are not set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleTryView {
    /// The pool.
    pub pool: String,
    /// What, and why, in one sentence.
    pub why: String,
}

/// What is told of all events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleEventsBody {
    /// Oldest first.
    pub events: Vec<ScaleEvent>,
}

impl Scaled {
    /// All that is shown of these pools.
    pub(crate) fn view(&self, pools: Vec<ScaleView>) -> ScalesView {
        ScalesView {
            pools,
            listed: self.listed.clone(),
        }
    }
}

impl Scaling {
    /// How far it is, by what is seen of its pool. O(servers · log servers).
    pub(crate) fn view(&self, now: Instant, seen: &Seen) -> ScaleView {
        let scale = &self.led.scale;
        let account = scale.account();
        let owns = |at: &str| seen.part(at) == Some(Part::Owns);
        let servers = seen.servers();
        let more = match scale.phase() {
            Phase::Starting { more, .. } => 1 + *more as i64,
            Phase::Joining { address, more, .. } => {
                i64::from(!owns(address)) + more.unwrap_or(0) as i64
            }
            Phase::Draining { address, .. } => -i64::from(owns(address)),
            _ => scale.would(),
        };
        ScaleView {
            pool: scale.pool().to_owned(),
            settings: self.led.settings,
            phase: scale.phase().clone(),
            why: self.why.clone(),
            waits_for_approval: self.waits_for_approval(now),
            measures: seen.measures,
            servers,
            wanted: usize::try_from(servers as i64 + more).unwrap_or(0),
            server_hours: account.server_ms as f64 / HOUR_MS,
            would_hours: account.would_ms as f64 / HOUR_MS,
            saved_hours: account.saved_ms() as f64 / HOUR_MS,
        }
    }
}

impl ScaleTryView {
    /// What would be decided at this moment by these settings, which are not set.
    pub(crate) fn of(now: Instant, pool: &str, settings: &ScaleSettings, seen: &Seen) -> Self {
        let tried = settings.tried();
        ScaleTryView {
            pool: pool.to_owned(),
            why: decide(now, &Scale::new(pool), &tried, seen).why,
        }
    }
}
