//! What is kept of autoscaling: of each ring, and what was decided lately of all.

use std::collections::BTreeMap;

use evenkeel_types::{Instant, Now, UnixSeconds};
use serde::{Deserialize, Serialize};

use crate::limits::CHANGE_EVENTS_MAX;
use crate::recent::Recent;
use crate::scale::{Act, After, Outcome, Phase, Scale, ScaleSettings};

/// The autoscaling of a ring, as it is saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedScale {
    /// What the operator has chosen.
    pub settings: ScaleSettings,
    /// How far it is.
    pub scale: Scale,
}

/// The autoscaling of a ring.
#[derive(Debug)]
pub(super) struct Scaling {
    pub(super) led: LedScale,
    /// What the last decision asks for of others than the ring.
    pub(super) act: Option<Act>,
    /// What came of an order to the ring since.
    pub(super) outcome: Option<Outcome>,
    /// Why it is as it is, in one sentence.
    pub(super) why: String,
}

/// What an actuator is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScaleWork {
    /// What it runs.
    List,
    /// To start or to stop a server, for this pool.
    Act {
        /// The pool.
        pool: String,
        /// What.
        act: Act,
    },
}

/// What all rings have in common.
#[derive(Debug, Default)]
pub(super) struct Scaled {
    /// The place of each server that the actuator runs, by name, as it has said last; `None` while it says nothing of use.
    pub(super) listed: Option<BTreeMap<String, String>>,
    /// When it was asked last.
    pub(super) asked: Option<Instant>,
    /// When it was last decided of all rings.
    pub(super) decided: Instant,
    pub(super) journal: ScaleJournal,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleEvent {
    /// Wall-clock time, in seconds since 1970.
    pub unix_s: UnixSeconds,
    /// The pool's name.
    pub pool: String,
    /// The phase that has begun.
    pub phase: Phase,
    /// Why, in one sentence.
    pub why: String,
}

/// How decisions have ended, since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScaleCounts {
    /// Servers were added.
    pub added: u64,
    /// One was removed.
    pub removed: u64,
    /// One was to be removed, and stays.
    pub kept: u64,
    /// One was started in vain.
    pub failed: u64,
    /// It was only said what would have been done.
    pub observed: u64,
}

/// What was decided lately.
#[derive(Debug, Default)]
pub(super) struct ScaleJournal {
    pub(super) events: Recent<ScaleEvent, CHANGE_EVENTS_MAX>,
    pub(super) counts: ScaleCounts,
}

impl LedScale {
    /// What about it contradicts itself, if anything.
    pub(super) fn contradiction(&self, pool: &str) -> Option<&'static str> {
        if self.scale.pool() != pool {
            return Some("autoscaling is of another pool");
        }
        if self.settings.validate().is_err() {
            return Some("a setting of autoscaling is out of its range");
        }
        self.scale.contradiction()
    }
}

impl Scaling {
    /// What was saved goes on.
    pub(super) fn restored(now: Instant, saved: LedScale) -> Self {
        let scale = saved.scale.restored(now);
        Scaling::of(LedScale { scale, ..saved })
    }

    pub(super) fn of(led: LedScale) -> Self {
        Scaling {
            led,
            act: None,
            outcome: None,
            why: String::new(),
        }
    }

    /// This process has not run for a while: waits begin anew.
    pub(super) fn notice_pause(&mut self, now: Instant) {
        self.led.scale = self.led.scale.clone().restored(now);
    }
}

impl ScaleJournal {
    /// A phase may have followed another. That a threshold is passed, and is no more, is no decision yet.
    pub(super) fn note(&mut self, now: Now, pool: &str, (from, to): (&Phase, &Phase), why: &str) {
        let is_same = from.name() == to.name() && from.server() == to.server();
        if is_same || matches!(to, Phase::Steady | Phase::Past { .. }) {
            return;
        }
        if let Phase::Cooling { after, .. } = to {
            let counts = &mut self.counts;
            let count = match (from, after) {
                (Phase::Past { .. }, _) => &mut counts.observed,
                (_, After::Added) => &mut counts.added,
                (_, After::Removed) => &mut counts.removed,
                (_, After::Kept) => &mut counts.kept,
                (_, After::Failed) => &mut counts.failed,
            };
            *count += 1;
        }
        self.events.push(ScaleEvent {
            unix_s: now.unix,
            pool: pool.to_owned(),
            phase: to.clone(),
            why: why.to_owned(),
        });
    }
}
