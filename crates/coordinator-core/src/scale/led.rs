//! What is kept of autoscaling: of each pool, and what was decided lately of all.

use std::collections::BTreeMap;

use evenkeel_placement::config::Server;
use evenkeel_types::{Instant, Now, UnixSeconds};
use serde::{Deserialize, Serialize};

use super::decide::decide;
use super::limits;
use super::seen::{Act, Outcome, Seen};
use super::settings::{ScaleMode, ScaleSettings};
use super::state::{After, Phase, Scale};
use crate::limits::CHANGE_EVENTS_MAX;
use crate::recent::Recent;

/// The autoscaling of a pool, as it is saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedScale {
    /// What the operator has chosen.
    pub settings: ScaleSettings,
    /// How far it is.
    pub scale: Scale,
}

/// The autoscaling of a pool.
#[derive(Debug)]
pub(crate) struct Scaling {
    pub(crate) led: LedScale,
    /// What the last decision asks for of others than the pool.
    pub(crate) act: Option<Act>,
    /// What came of an order to the pool since.
    pub(crate) outcome: Option<Outcome>,
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

/// What all pools have in common.
#[derive(Debug, Default)]
pub(crate) struct Scaled {
    /// The place of each server that the actuator runs, by name, as it has said last; `None` while it says nothing of use.
    pub(super) listed: Option<BTreeMap<String, String>>,
    /// When it was asked last.
    asked: Option<Instant>,
    /// When it was last decided of all pools.
    decided: Instant,
    events: Recent<ScaleEvent, CHANGE_EVENTS_MAX>,
    counts: ScaleCounts,
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

impl LedScale {
    /// What about it contradicts itself, if anything.
    pub(crate) fn contradiction(&self, pool: &str) -> Option<&'static str> {
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
    /// Nothing was chosen yet.
    pub(crate) fn new(pool: &str) -> Self {
        Scaling::of(LedScale {
            settings: ScaleSettings::default(),
            scale: Scale::new(pool),
        })
    }

    /// What was saved goes on.
    pub(crate) fn restored(now: Instant, saved: LedScale) -> Self {
        let scale = saved.scale.restored(now);
        Scaling::of(LedScale { scale, ..saved })
    }

    fn of(led: LedScale) -> Self {
        Scaling {
            led,
            act: None,
            outcome: None,
            why: String::new(),
        }
    }

    /// This process has not run for a while: waits begin anew.
    pub(crate) fn notice_pause(&mut self, now: Instant) {
        self.led.scale = self.led.scale.clone().restored(now);
    }

    /// Whether an operator is asked for approval: a threshold has been passed for long enough.
    pub(crate) fn waits_for_approval(&self, now: Instant) -> bool {
        let LedScale { settings, scale } = &self.led;
        let lasts = match scale.phase() {
            Phase::Past { since, .. } => now.since(*since) >= settings.sustain(),
            _ => false,
        };
        settings.mode == ScaleMode::Approve && lasts
    }

    /// Decides what is next, by what is seen of the pool, of the actuator, and of what came of the act before; `seen` has nothing of the last
    /// but an actuator's or a trial's outcome. Gives whether it is to be saved.
    pub(crate) fn decide(&mut self, now: Now, seen: Seen, all: &mut Scaled) -> bool {
        let seen = Seen {
            listed: all.listed.clone(),
            outcome: seen.outcome.or(self.outcome.take()),
            ..seen
        };
        let LedScale { settings, scale } = &mut self.led;
        let decision = decide(now.monotonic, scale, settings, &seen);
        let phases = (scale.phase(), decision.scale.phase());
        all.note(now, scale.pool(), phases, &decision.why);
        (*scale, self.why) = (decision.scale, decision.why);
        self.act = decision.act;
        decision.is_to_save
    }
}

impl Scaled {
    /// Whether it is time to decide of all pools. It is not again before [`LOOK`](limits::LOOK) is over.
    pub(crate) fn take_turn(&mut self, now: Instant) -> bool {
        let is_due = now >= self.due();
        if is_due {
            self.decided = now;
        }
        is_due
    }

    /// When that is due.
    pub(crate) fn due(&self) -> Instant {
        self.decided + limits::LOOK
    }

    /// What the actuator is to be asked next, if anything, where pools ask for these acts.
    pub(crate) fn work<'a>(
        &self,
        now: Instant,
        mut acts: impl Iterator<Item = (&'a str, &'a Act)>,
    ) -> Option<ScaleWork> {
        let is_known = |at: Instant| now.since(at) < limits::LIST_EVERY;
        if !self.asked.is_some_and(is_known) {
            return Some(ScaleWork::List);
        }
        let is_its = |(_, act): &(&str, &Act)| matches!(act, Act::Start { .. } | Act::Stop { .. });
        let (pool, act) = acts.find(is_its)?;
        Some(ScaleWork::Act {
            pool: pool.to_owned(),
            act: act.clone(),
        })
    }

    /// The actuator has said what it runs, by name, or nothing of use.
    pub(crate) fn handle_listed(&mut self, now: Instant, listed: Option<BTreeMap<String, String>>) {
        let placed = |listed: BTreeMap<String, String>| {
            let listed = listed.into_iter();
            listed
                .map(|(name, at)| (name, place_said(at)))
                .collect::<BTreeMap<_, _>>()
        };
        self.listed = listed.map(placed);
        self.asked = Some(now);
    }

    /// The last decisions, oldest first.
    pub(crate) fn events(&self) -> &Recent<ScaleEvent, CHANGE_EVENTS_MAX> {
        &self.events
    }

    /// Counts since the process started.
    pub(crate) fn counts(&self) -> ScaleCounts {
        self.counts
    }

    /// A phase may have followed another. That a threshold is passed, and is no more, is no decision yet.
    fn note(&mut self, now: Now, pool: &str, (from, to): (&Phase, &Phase), why: &str) {
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

impl Outcome {
    /// The same, with a place in place of what an actuator has said.
    pub(crate) fn placed(self) -> Self {
        match self {
            Outcome::Started { name, address } => Outcome::Started {
                name,
                address: place_said(address),
            },
            other => other,
        }
    }
}

/// Where a server is reached: servers are known by it to an actuator, to trials, and here.
pub(crate) fn place(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// The same of what an actuator says.
fn place_said(address: String) -> String {
    match address.parse::<Server>() {
        Ok(server) => place(&server.host, server.port),
        // Nothing answers there, so it comes no further than its trial.
        Err(_) => address,
    }
}
