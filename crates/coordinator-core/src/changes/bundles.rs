//! Copies of pools' items: how a plan switches them on and off, and which plans of proxies are believed.
//!
//! A plan is executed by a [`Change`](evenkeel_schemes::change::Change) like that of any pool; [`Switch`](evenkeel_schemes::copies::Switch) says what each stage means for copies.
//!
//! ```text
//!                on                 all have           all have            off                 all have
//!   former, done ──> former ··· quiesced ────> warming ········ (rests) ··········> closing ────────> done
//!                                  │        acknowledged                                  acknowledged
//!   former <────────── off ────────┘
//! ```
//!
//! - Each switching on is a plan of its own, with a token that no other has, also if it is taken back before copies are on. It begins with a
//!   `former` of its own once everybody works by the last step of the plan before. So each version has one plan, and the first has none.
//! - All proxies have to say the same of copies when these are switched on. Who says otherwise later is told the plan all the same, does not
//!   take it over, and so holds it up; it is named.
//! - Nobody waits for anything at any stage. So no plan takes too long: a silent proxy holds it up, and that is all.
//! - A coordinator that has lost its state takes step and plan over from a proxy, as a step of a change without plans: a plan is a few
//!   numbers, which each proxy has whole, and the newest step says all that holds. (A ring is not taken over: its generations are known to the
//!   coordinator alone.) It goes no further before an operator has said how many proxies there are.
//! - That ends when a proxy has begun here without copies: what it writes deletes none of those that others may still have, so nobody may be
//!   told of them any more. Anyone who comes then with a plan that is not known is a *stranger*, as with rings: it is refused, and as long as it
//!   is known nobody begins with the pool and nothing is switched.

use core::cmp::Ordering;
use std::collections::BTreeMap;

use evenkeel_control::bundles::{BundlePlan, BundleStep, BundleWish, FollowedBundle};
use evenkeel_schemes::stage::{Stage, Step};
use serde::{Deserialize, Serialize};

use super::words::{NAMED_MAX, named};

/// What a pool's copies are and were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedBundle {
    /// The newest plan; none before copies are switched on for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<BundlePlan>,
    /// What the files of those that follow say, by name, as far as this process has heard.
    #[serde(skip)]
    pub(super) wishes: BTreeMap<String, BundleWish>,
    /// A proxy was told by this process, as its first word, that there are no copies.
    #[serde(skip)]
    has_beginner: bool,
}

impl LedBundle {
    /// The newest plan's number; 0 for none.
    pub(super) fn number(&self) -> u64 {
        self.plan.map_or(0, |plan| plan.number)
    }

    /// Whether a proxy that was told this version can have this plan, where a version is the newest that is known.
    pub(super) fn believes(
        &self,
        theirs: Option<BundlePlan>,
        told: u64,
        newest: u64,
        is_lost: bool,
    ) -> bool {
        let number = theirs.map_or(0, |plan| plan.number);
        match number.cmp(&self.number()) {
            Ordering::Less => told < newest,
            Ordering::Equal => theirs == self.plan,
            Ordering::Greater => told > newest && is_lost,
        }
    }

    /// Whether others may know of a later plan than this coordinator, because it has lost its state.
    pub(super) fn may_be_lost(&self) -> bool {
        self.plan.is_none() && !self.has_beginner
    }

    /// A proxy says by which plan it works, which is believed. One of a newer step than is known is taken over with it.
    pub(super) fn handle(&mut self, proxy: &str, theirs: &FollowedBundle, is_newer: bool) {
        self.wishes.insert(proxy.to_owned(), theirs.wish);
        if is_newer {
            self.plan = theirs.plan;
        }
    }

    /// What is told with a step to a proxy that was told this one before, where this many follow.
    pub(super) fn tell(&mut self, told: Option<Step>, followers: usize) -> Option<BundleStep> {
        self.has_beginner |= told.is_none() && self.plan.is_none();
        let proxies = u32::try_from(followers).unwrap_or(u32::MAX);
        self.plan.map(|plan| BundleStep { plan, proxies })
    }

    /// What the files of all say, if they say the same; otherwise who says what.
    pub(super) fn wish_of_all(&self) -> Result<BundleWish, String> {
        let mut by_wish: BTreeMap<BundleWish, Vec<&str>> = BTreeMap::new();
        for (proxy, wish) in &self.wishes {
            by_wish.entry(*wish).or_default().push(proxy);
        }
        if let (1, Some((wish, _))) = (by_wish.len(), by_wish.first_key_value()) {
            return Ok(*wish);
        }
        let shown = by_wish.iter().take(NAMED_MAX);
        let shown = shown.map(|(wish, proxies)| format!("{}: {wish}", named(proxies)));
        Err(shown.collect::<Vec<_>>().join("; "))
    }

    /// What about it contradicts itself or the change that executes it, if anything.
    pub(super) fn contradiction(
        &self,
        step: Step,
        goal: Stage,
        is_taken_over: bool,
    ) -> Option<&'static str> {
        let Some(plan) = self.plan else {
            let is_first = step == Step::FIRST && goal == Stage::Former;
            return (!is_first).then_some("a pool has a step of a plan of copies, and no plan");
        };
        if !plan.is_sound() || plan.number >= step.version {
            return Some("the plan of a pool's copies is none");
        }
        let rests = matches!(goal, Stage::Former | Stage::Warming | Stage::Done);
        (!rests && !is_taken_over).then_some("a plan of copies ends in the middle")
    }
}
