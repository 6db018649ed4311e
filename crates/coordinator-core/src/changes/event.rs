//! What has happened to changes of pools lately.

use core::fmt;

use evenkeel_schemes::stage::{Stage, Step};
use evenkeel_types::{Now, UnixSeconds};
use serde::{Deserialize, Serialize};

use super::ring_copy::CopiedKeys;
use crate::limits::CHANGE_EVENTS_MAX;
use crate::recent::Recent;

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeNews {
    /// All proxies had followed, and the next step was published.
    StepPublished,
    /// An operator has said how far the change is to go.
    GoalSet,
    /// An operator has taken the change back.
    Withdrawn,
    /// The coordinator has taken the change back, because requests would have waited for proxies that did not acknowledge.
    WithdrawnUnacknowledged,
    /// A proxy was told a newer step than this coordinator knew of.
    TakenOver,
    /// A proxy follows the pool that did not before.
    ProxyJoined,
    /// Another process has a proxy's name.
    ProxyReplaced,
    /// A proxy has ended, or has the pool in its file no more.
    ProxyLeft,
    /// An operator has said that a proxy's process has ended.
    ProxyRemoved,
    /// A silent proxy's process has ended: its control port refuses connections.
    ProxyEnded,
    /// A proxy was not heard for as long as it has said to end without a coordinator.
    ProxyGone,
    /// An operator has forgotten the pool, which nobody followed any more.
    PoolForgotten,
    /// A proxy has asked for a ring, and there is one.
    RingMade,
    /// An operator has ordered that parts of a ring move.
    PlanOrdered,
    /// Such an order has become the plan of the ring.
    PlanBegun,
    /// No proxy reaches a server of a ring, which goes by the next plan.
    ServerLost,
    /// A plan by which a server comes was taken back, because a proxy does not reach it.
    NewcomerUnreached,
    /// An operator has switched the copies of a pool on.
    BundleOn,
    /// An operator has switched them off.
    BundleOff,
}

impl ChangeNews {
    /// All of them, in order.
    pub const ALL: [ChangeNews; 19] = [
        ChangeNews::StepPublished,
        ChangeNews::GoalSet,
        ChangeNews::Withdrawn,
        ChangeNews::WithdrawnUnacknowledged,
        ChangeNews::TakenOver,
        ChangeNews::ProxyJoined,
        ChangeNews::ProxyReplaced,
        ChangeNews::ProxyLeft,
        ChangeNews::ProxyRemoved,
        ChangeNews::ProxyEnded,
        ChangeNews::ProxyGone,
        ChangeNews::PoolForgotten,
        ChangeNews::RingMade,
        ChangeNews::PlanOrdered,
        ChangeNews::PlanBegun,
        ChangeNews::ServerLost,
        ChangeNews::NewcomerUnreached,
        ChangeNews::BundleOn,
        ChangeNews::BundleOff,
    ];

    /// Its name in answers; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            ChangeNews::StepPublished => "step_published",
            ChangeNews::GoalSet => "goal_set",
            ChangeNews::Withdrawn => "withdrawn",
            ChangeNews::WithdrawnUnacknowledged => "withdrawn_unacknowledged",
            ChangeNews::TakenOver => "taken_over",
            ChangeNews::ProxyJoined => "proxy_joined",
            ChangeNews::ProxyReplaced => "proxy_replaced",
            ChangeNews::ProxyLeft => "proxy_left",
            ChangeNews::ProxyRemoved => "proxy_removed",
            ChangeNews::ProxyEnded => "proxy_ended",
            ChangeNews::ProxyGone => "proxy_gone",
            ChangeNews::PoolForgotten => "pool_forgotten",
            ChangeNews::RingMade => "ring_made",
            ChangeNews::PlanOrdered => "plan_ordered",
            ChangeNews::PlanBegun => "plan_begun",
            ChangeNews::ServerLost => "server_lost",
            ChangeNews::NewcomerUnreached => "newcomer_unreached",
            ChangeNews::BundleOn => "bundle_on",
            ChangeNews::BundleOff => "bundle_off",
        }
    }
}

impl fmt::Display for ChangeNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something that has happened to a pool's change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeEvent {
    /// Wall-clock time, in seconds since 1970.
    pub unix_s: UnixSeconds,
    /// The pool's name.
    pub pool: String,
    /// What.
    pub what: ChangeNews,
    /// The step that holds from then on.
    pub step: Step,
    /// The goal that was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Stage>,
    /// Number of the plan, of a ring or of copies, that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<u64>,
    /// The proxies that it is about: who came or went, or did not acknowledge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proxies: Vec<String>,
}

/// What is told of all events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeEventsBody {
    /// Oldest first.
    pub events: Vec<ChangeEvent>,
}

/// Counts since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeCounts {
    /// Steps that were published because all had followed.
    pub steps: u64,
    /// Changes that an operator has taken back.
    pub withdrawn: u64,
    /// Changes that the coordinator has taken back, because proxies did not acknowledge in time.
    pub unacknowledged: u64,
    /// Steps that were taken over from proxies.
    pub taken_over: u64,
    /// Counts of rings that cannot be true, which were not used.
    pub ring_reports_void: u64,
    /// Plans of rings that were begun.
    pub plans: u64,
    /// Servers of rings that were dead, and went by a plan.
    pub servers_lost: u64,
    /// Keys of rings that were asked for so that their items come along.
    pub copied: CopiedKeys,
    /// Times that operators have switched copies of a pool on.
    pub bundles_on: u64,
}

/// What has happened, and whether it is to be saved.
#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) events: Recent<ChangeEvent, CHANGE_EVENTS_MAX>,
    pub(super) counts: ChangeCounts,
    pub(super) has_news: bool,
}

impl Journal {
    /// Notes what is to be saved.
    pub(super) fn note(
        &mut self,
        now: Now,
        pool: &str,
        what: ChangeNews,
        proxies: Vec<String>,
        step: Step,
    ) {
        self.push(ChangeEvent {
            proxies,
            ..event(now, pool, what, step)
        });
    }

    /// Notes that an operator has set a goal.
    pub(super) fn note_goal(&mut self, now: Now, pool: &str, goal: Stage, step: Step) {
        self.push(ChangeEvent {
            goal: Some(goal),
            ..event(now, pool, ChangeNews::GoalSet, step)
        });
    }

    /// Notes what is to be saved of a plan, of a ring or of copies.
    pub(super) fn note_plan(
        &mut self,
        now: Now,
        pool: &str,
        what: ChangeNews,
        plan: u64,
        step: Step,
    ) {
        self.push(ChangeEvent {
            plan: Some(plan),
            ..event(now, pool, what, step)
        });
    }

    fn count(&mut self, what: ChangeNews) {
        match what {
            ChangeNews::StepPublished => self.counts.steps += 1,
            ChangeNews::Withdrawn => self.counts.withdrawn += 1,
            ChangeNews::WithdrawnUnacknowledged => self.counts.unacknowledged += 1,
            ChangeNews::TakenOver => self.counts.taken_over += 1,
            ChangeNews::PlanBegun => self.counts.plans += 1,
            ChangeNews::ServerLost => self.counts.servers_lost += 1,
            ChangeNews::BundleOn => self.counts.bundles_on += 1,
            _ => {}
        }
    }

    fn push(&mut self, event: ChangeEvent) {
        self.count(event.what);
        self.has_news = true;
        self.events.push(event);
    }
}

fn event(now: Now, pool: &str, what: ChangeNews, step: Step) -> ChangeEvent {
    ChangeEvent {
        unix_s: now.unix,
        pool: pool.to_owned(),
        what,
        step,
        goal: None,
        plan: None,
        proxies: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_have_the_same_name_everywhere() {
        for news in ChangeNews::ALL {
            let json = serde_json::to_string(&news).unwrap();
            assert_eq!(json, format!("\"{news}\""));
        }
    }
}
