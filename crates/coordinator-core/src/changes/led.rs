//! A change that is led here: what belongs to it, and when it goes on, rests, or has taken too long.

use core::time::Duration;
use evenkeel_schemes::change::Change;
use evenkeel_schemes::stage::Stage;
use evenkeel_schemes::warmth::Warmth;
use evenkeel_types::{BootId, Instant};

use evenkeel_control::FollowedPool;

use super::bundles::LedBundle;
use super::ring_copy::RingCopy;
use super::ring_reach::Reach;
use super::ring_slots::Slots;
use super::rings::LedRing;
use crate::limits::{CLOSING_MIN, PAUSE_MAX, RING_JOIN_LOOK};
use crate::scale::{Measures, Scaling};

/// A change that is led here.
#[derive(Debug)]
pub(super) struct Led {
    pub(super) change: Change,
    /// What the change is a plan of, in a pool whose hash space follows the load.
    pub(super) ring: Option<LedRing>,
    /// Or of which copies of its items, in a pool that keeps some.
    pub(super) bundle: Option<LedBundle>,
    /// It goes on from `warming` as soon as the pool is warm, and after this time at the latest.
    pub(super) when_warm: Option<Duration>,
    /// How warm the pool is, in `warming`.
    pub(super) warmth: Warmth,
    /// How far the items of a plan were copied that nobody asks for.
    pub(super) copy: Option<RingCopy>,
    /// What the ring carries.
    pub(super) slots: Slots,
    /// What the last slot that enough proxies have told of says of the number of its servers, and when that was over.
    pub(super) measured: Option<(Instant, Measures)>,
    /// How the number of its servers follows that, where an operator has set it up.
    pub(super) scaling: Option<Scaling>,
    /// Which of its servers are not reached.
    pub(super) reach: Reach,
    /// One of them is dead, and goes as soon as no plan is under way.
    pub(super) has_dead: bool,
    /// It was among what this process began with.
    pub(super) is_restored: bool,
    /// Its step was taken over from a proxy, and no operator has said since how many there are.
    pub(super) is_taken_over: bool,
    /// A proxy is silent, or does not take the plan over, so that nobody need report often before that is over.
    pub(super) is_held_up: bool,
    /// Since when its step stands, as far as this process knows.
    pub(super) since: Instant,
}

impl Led {
    pub(super) fn new(now: Instant) -> Self {
        Led {
            change: Change::default(),
            ring: None,
            bundle: None,
            when_warm: None,
            warmth: Warmth::default(),
            copy: None,
            slots: Slots::default(),
            measured: None,
            scaling: None,
            reach: Reach::default(),
            has_dead: false,
            is_restored: false,
            is_taken_over: false,
            is_held_up: false,
            since: now,
        }
    }

    pub(super) fn boot_of(&self, proxy: &str) -> Option<BootId> {
        self.change.followers().get(proxy).map(|known| known.boot)
    }

    /// Whether requests have waited for too long.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.may_be_overdue() && now.since(self.since) >= PAUSE_MAX
    }

    /// Whether everybody is to report often, as it goes on when all do.
    pub(super) fn is_changing(&self, now: Instant) -> bool {
        self.change.is_under_way() && !self.is_held_up && self.rests_until() <= Some(now)
    }

    /// Until when nothing goes on, no matter who has acknowledged.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        if self.bundle.is_some() {
            return None;
        }
        let rest = match (self.change.step().stage, &self.ring) {
            // Nothing is brought, and no placeholder is left.
            (_, Some(ring)) if ring.plan.is_loss() => return None,
            // All proxies connect to who comes, and say so if that fails.
            (Stage::Former, Some(ring)) => {
                ring.plan.newcomer()?;
                RING_JOIN_LOOK
            }
            (Stage::Closing, _) => CLOSING_MIN,
            // What is asked for meanwhile is brought; what is not is copied, or left behind.
            (Stage::Warming, Some(ring)) if !self.has_dead => self.warming(ring)?,
            (Stage::Warming, None) if !self.warmth.is_warm() => self.when_warm?,
            _ => return None,
        };
        Some(self.since + rest)
    }

    /// Until when it waits for the pool to be warm, if it does.
    pub(super) fn warms_until(&self) -> Option<Instant> {
        let is_warming = self.change.step().stage == Stage::Warming && self.ring.is_none();
        self.rests_until()
            .filter(|_| is_warming && self.change.is_under_way())
    }

    /// A proxy tells what reads of the pool have found.
    pub(super) fn handle_found(&mut self, now: Instant, proxy: &str, followed: &FollowedPool) {
        match (self.change.step().stage, followed.found) {
            (Stage::Warming, Some(found)) => {
                if let Some(boot) = self.boot_of(proxy) {
                    self.warmth.handle(now, proxy, boot, found);
                }
            }
            // Elsewhere all is found at the same servers.
            (Stage::Warming, None) => {}
            _ => self.warmth = Warmth::default(),
        }
    }

    /// A proxy holds it up for long, or none does any more. It goes on when all have been asked again to report often.
    pub(super) fn hold_up(&mut self, is_held_up: bool) {
        if is_held_up && !self.is_held_up {
            let (goal, followers) = (self.change.goal(), self.change.followers().len());
            // To set the same goal again forgets who reports often, and it can be set because it is not reached.
            let _ = self.change.set_goal(goal, followers);
        }
        self.is_held_up = is_held_up;
    }

    pub(super) fn may_be_overdue(&self) -> bool {
        self.lets_wait() && !self.is_taken_over
    }

    /// Whether requests wait. Those for a server that is lost fail at once, and copies are nothing that anybody waits for.
    pub(super) fn lets_wait(&self) -> bool {
        let is_loss = self.ring.as_ref().is_some_and(|ring| ring.plan.is_loss());
        self.change.step().stage == Stage::Quiesced && !is_loss && self.bundle.is_none()
    }

    /// Whether its steps are of plans, which a proxy may have from elsewhere.
    pub(super) fn has_plans(&self) -> bool {
        self.ring.is_some() || self.bundle.is_some()
    }

    /// Whether nothing of it need be remembered. A ring is not made anew by proxies that come back: its parts are where they have moved to. Nor
    /// is a number of a plan of copies given out again.
    pub(super) fn is_over(&self) -> bool {
        let has_plan = self.bundle.as_ref().is_some_and(|it| it.plan.is_some());
        let is_at_beginning = self.change.step().stage == Stage::Former;
        self.change.is_over() && is_at_beginning && self.ring.is_none() && !has_plan
    }

    /// A proxy has ended, or another process has its name.
    pub(super) fn forget_proxy(&mut self, proxy: &str) {
        self.reach.forget_proxy(proxy);
        if let Some(bundle) = &mut self.bundle {
            bundle.wishes.remove(proxy);
        }
    }
}
