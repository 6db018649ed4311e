//! Copies of pools' items: how a plan switches them on and off, and which plans of proxies are believed.
//!
//! A plan is carried out by a [`Change`](evenkeel_schemes::change::Change) like that of any pool; [`Switch`] says what each stage means for copies.
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
//!   told of them any more. Whoever comes then with a plan that is not known is a *stranger*, as with rings: it is refused, and as long as it
//!   is known nobody begins with the pool and nothing is switched.

use core::cmp::Ordering;
use std::collections::BTreeMap;

use evenkeel_control::bundles::{BUNDLE_TOKEN_BITS, BundlePlan, BundleWish, FollowedBundle};
use evenkeel_control::{FollowedPool, Refusal};
use evenkeel_schemes::copies::Switch;
use evenkeel_schemes::stage::{Stage, Step};
use evenkeel_types::Now;
use evenkeel_types::random::SplitMix64;
use serde::{Deserialize, Serialize};

use super::view::{NAMED_MAX, named};
use super::{ChangeNews, ChangeRefusal, Changes, Led};

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

/// How many proxies there are whose copies are to be switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleSwitchRequest {
    /// How many proxies have the pool, as the operator knows. At least 1.
    pub proxies: usize,
}

impl LedBundle {
    fn number(&self) -> u64 {
        self.plan.map_or(0, |plan| plan.number)
    }

    /// Whether a proxy that was told this version can have this plan, where a version is the newest that is known.
    fn believes(&self, theirs: Option<BundlePlan>, told: u64, newest: u64, is_lost: bool) -> bool {
        let number = theirs.map_or(0, |plan| plan.number);
        match number.cmp(&self.number()) {
            Ordering::Less => told < newest,
            Ordering::Equal => theirs == self.plan,
            Ordering::Greater => told > newest && is_lost,
        }
    }

    /// A proxy says by which plan it works, which is believed. One of a newer step than is known is taken over with it.
    pub(super) fn hear(&mut self, proxy: &str, theirs: &FollowedBundle, is_newer: bool) {
        self.wishes.insert(proxy.to_owned(), theirs.wish);
        if is_newer {
            self.plan = theirs.plan;
        }
    }

    /// What is told with a step to a proxy that was told this one before.
    pub(super) fn tell(&mut self, told: Option<Step>) -> Option<BundlePlan> {
        self.has_beginner |= told.is_none() && self.plan.is_none();
        self.plan
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

    /// What about it contradicts itself or the change that carries it out, if anything.
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

impl Changes {
    /// Copies of a pool are to be switched on; so many proxies follow it, as an operator says. The proxies follow by themselves.
    pub(crate) fn switch_on(
        &mut self,
        now: Now,
        pool: &str,
        proxies: usize,
    ) -> Result<(), ChangeRefusal> {
        let led = self.led_bundle(pool, proxies)?;
        let stage = led.change.step().stage;
        match (stage, led.change.goal()) {
            (_, Stage::Warming) => {
                let (pool, switch) = (pool.to_owned(), Switch::On);
                return Err(ChangeRefusal::Switched { pool, switch });
            }
            (Stage::Warming | Stage::Closing, _) => {
                let pool = pool.to_owned();
                return Err(ChangeRefusal::SwitchingOff { pool });
            }
            // A plan that was taken over there goes on.
            (Stage::Quiesced, _) => {}
            (Stage::Former | Stage::Done, _) => self.begin_bundle(now, pool)?,
        }
        self.set_switch(now, pool, Stage::Warming, ChangeNews::BundleOn)
    }

    /// Likewise off.
    pub(crate) fn switch_off(
        &mut self,
        now: Now,
        pool: &str,
        proxies: usize,
    ) -> Result<(), ChangeRefusal> {
        let led = self.led_bundle(pool, proxies)?;
        let goal = match (led.change.step().stage, led.change.goal()) {
            (_, Stage::Done) | (Stage::Former, Stage::Former) => {
                let (pool, switch) = (pool.to_owned(), Switch::Off);
                return Err(ChangeRefusal::Switched { pool, switch });
            }
            // Nobody has read or filled a copy yet.
            (Stage::Former | Stage::Quiesced, _) => Stage::Former,
            _ => Stage::Done,
        };
        self.set_switch(now, pool, goal, ChangeNews::BundleOff)
    }

    /// A pool that keeps copies, and of which an operator may order something who knows of so many proxies.
    fn led_bundle(&mut self, pool: &str, proxies: usize) -> Result<&mut Led, ChangeRefusal> {
        if self.led(pool)?.bundle.is_none() {
            return Err(ChangeRefusal::NoBundle { pool: pool.into() });
        }
        self.led_for(pool, proxies)
    }

    /// Another plan begins, behind the one that has come to rest, of what all proxies' files say.
    fn begin_bundle(&mut self, now: Now, pool: &str) -> Result<(), ChangeRefusal> {
        let led = self.led(pool)?;
        let behind: Vec<&str> = led.change.waits_for().collect();
        if !behind.is_empty() {
            let (pool, proxies) = (pool.to_owned(), named(&behind));
            return Err(ChangeRefusal::Behind { pool, proxies });
        }
        let Some(bundle) = &led.bundle else {
            return Err(ChangeRefusal::NoBundle { pool: pool.into() });
        };
        let of = bundle.wish_of_all();
        let of = of.map_err(|wishes| ChangeRefusal::OtherWishes {
            pool: pool.to_owned(),
            wishes,
        })?;
        let number = bundle.number() + 1;
        let token = self.new_token(now, pool, number);
        let led = self.led(pool)?;
        if let Some(bundle) = &mut led.bundle {
            bundle.plan = Some(BundlePlan { number, token, of });
        }
        let has_begun = led.change.begin_next();
        assert!(has_begun, "it rests, and nobody is behind");
        led.since = now.monotonic;
        Ok(())
    }

    /// The plan of a pool's copies is to end at this stage.
    fn set_switch(
        &mut self,
        now: Now,
        pool: &str,
        goal: Stage,
        why: ChangeNews,
    ) -> Result<(), ChangeRefusal> {
        let led = self.led(pool)?;
        let (before, followers) = (led.change.step(), led.change.followers().len());
        let set = match goal {
            Stage::Former => led.change.withdraw(),
            _ => led.change.set_goal(goal, followers),
        };
        set.map_err(|refused| ChangeRefusal::of(pool, followers, &refused))?;
        led.is_taken_over = false;
        let step = led.change.step();
        if step != before {
            led.since = now.monotonic;
        }
        let number = led.bundle.as_ref().map_or(0, LedBundle::number);
        self.journal.note_plan(now, pool, why, number, step);
        self.go_on(now, pool);
        Ok(())
    }

    /// A token that no other plan has, of whatever pool: the same servers may be in several.
    fn new_token(&self, now: Now, pool: &str, number: u64) -> u64 {
        let mix = |mixed: u64, more: u64| SplitMix64::new(mixed ^ more).next_u64();
        let seed = pool.bytes().map(u64::from).fold(0, mix);
        self.new_name(now, mix(seed, number), BUNDLE_TOKEN_BITS)
    }

    /// Whether what a proxy says of a pool's copies can be used.
    pub(super) fn check_bundle(&self, followed: &FollowedPool) -> Result<(), Refusal> {
        let pool = || followed.pool.clone();
        let led = self.pools.get(&followed.pool);
        let is_kept = led.map(|led| led.bundle.is_some());
        let Some(theirs) = &followed.bundle else {
            return match is_kept {
                Some(true) => Err(Refusal::MixedBundle { pool: pool() }),
                _ => Ok(()),
            };
        };
        if followed.ring.is_some() || is_kept == Some(false) {
            return Err(Refusal::MixedBundle { pool: pool() });
        }
        let told = followed.told.map_or(0, |step| step.version);
        let is_too_great = theirs.plan.is_some_and(|plan| plan.number >= told);
        if theirs.plan.is_some() != (told > Step::FIRST.version) || is_too_great {
            return Err(Refusal::ForeignStep { pool: pool() });
        }
        let is_known = |led: &Led| {
            let newest = led.change.step().version;
            let bundle = led.bundle.as_ref();
            bundle.is_none_or(|it| it.believes(theirs.plan, told, newest, led.has_lost_plan()))
        };
        match led.is_none_or(is_known) {
            true => Ok(()),
            false => Err(Refusal::ForeignBundle { pool: pool() }),
        }
    }
}

impl Led {
    /// Whether proxies may know of a later plan of copies than this coordinator, because it has lost its state.
    fn has_lost_plan(&self) -> bool {
        let knows_none = |it: &LedBundle| it.plan.is_none() && !it.has_beginner;
        self.is_taken_over || self.bundle.as_ref().is_some_and(knows_none)
    }
}
