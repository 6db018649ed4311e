//! What is shown of autoscaling: where it is and why, what it has done, and what that costs.

use crate::limits::CHANGE_EVENTS_MAX;
use crate::recent::Recent;
use std::collections::BTreeMap;

use evenkeel_types::Instant;
use serde::{Deserialize, Serialize};

use super::scaled::{ScaleCounts, ScaleEvent, Scaling};
use super::{Changes, Led};
use crate::scale::{Measures, Part, Phase, ScaleSettings};

/// Milliseconds of an hour.
const HOUR_MS: f64 = 3_600_000.0;

/// The autoscaling of all rings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScalesView {
    /// By the pool's name; those that an operator has set up.
    pub pools: Vec<ScaleView>,
    /// Where each server is that the actuator runs, by name, as it has said last. Absent while it says nothing of use, and where the
    /// coordinator has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<BTreeMap<String, String>>,
}

/// The autoscaling of a ring.
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
    /// What was measured last.
    pub measures: Measures,
    /// Servers that own a part of the ring and are to keep it.
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

impl Changes {
    /// The autoscaling of all rings, to be shown. O(pools · (slices + servers)).
    pub(crate) fn scales(&self, now: Instant) -> ScalesView {
        let pools = self
            .pools
            .keys()
            .filter_map(|pool| self.scale_of(now, pool));
        ScalesView {
            pools: pools.collect(),
            listed: self.scaled.listed.clone(),
        }
    }

    /// That of one of them.
    pub(crate) fn scale_of(&self, now: Instant, pool: &str) -> Option<ScaleView> {
        let led = self.pools.get(pool)?;
        led.scaling.as_ref().map(|it| led.scale_view(now, it))
    }

    /// The last [`CHANGE_EVENTS_MAX`](crate::limits::CHANGE_EVENTS_MAX) decisions, oldest first.
    pub(crate) fn scale_events(&self) -> &Recent<ScaleEvent, CHANGE_EVENTS_MAX> {
        &self.scaled.journal.events
    }

    /// Counts since the process started.
    pub(crate) fn scale_counts(&self) -> ScaleCounts {
        self.scaled.journal.counts
    }
}

impl Led {
    fn scale_view(&self, now: Instant, scaling: &Scaling) -> ScaleView {
        let scale = &scaling.led.scale;
        let (ring, account) = (self.ring_seen(), scale.account());
        let owns = |at: &String| ring.get(at).is_some_and(|it| it.part == Part::Owns);
        let servers = ring.keys().filter(|at| owns(at)).count();
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
            settings: scaling.led.settings,
            phase: scale.phase().clone(),
            why: scaling.why.clone(),
            measures: self.measures(now),
            servers,
            wanted: usize::try_from(servers as i64 + more).unwrap_or(0),
            server_hours: account.server_ms as f64 / HOUR_MS,
            would_hours: account.would_ms as f64 / HOUR_MS,
            saved_hours: account.saved_ms() as f64 / HOUR_MS,
        }
    }
}
