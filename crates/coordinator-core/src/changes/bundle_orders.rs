//! What operators order of copies, and which of what proxies say of them is used.

use evenkeel_control::bundles::{BUNDLE_TOKEN_BITS, BundlePlan};
use evenkeel_control::{FollowedPool, Refusal};
use evenkeel_schemes::copies::Switch;
use evenkeel_schemes::stage::{Stage, Step};
use evenkeel_types::Now;
use evenkeel_types::random::SplitMix64;
use serde::{Deserialize, Serialize};

use super::words::named;
use super::{ChangeNews, ChangeRefusal, Changes, Led, LedBundle};

/// How many proxies there are whose copies are to be switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleSwitchRequest {
    /// How many proxies have the pool, as the operator knows. At least 1.
    pub proxies: usize,
}

impl Changes {
    /// Copies of a pool are to be switched on; this many proxies follow it, as an operator says. The proxies follow by themselves.
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

    /// A pool that keeps copies, and of which an operator may order something who knows of this many proxies.
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
            let believes = |it: &LedBundle| {
                let is_lost = led.is_taken_over || it.may_be_lost();
                it.believes(theirs.plan, told, newest, is_lost)
            };
            led.bundle.as_ref().is_none_or(believes)
        };
        match led.is_none_or(is_known) {
            true => Ok(()),
            false => Err(Refusal::ForeignBundle { pool: pool() }),
        }
    }
}

impl Led {
    /// Whether it waits for a proxy whose file says otherwise than the plan: it does not take that over, however long one waits.
    pub(super) fn awaits_odd(&self) -> bool {
        let Some((bundle, plan)) = self
            .bundle
            .as_ref()
            .and_then(|it| it.plan.map(|plan| (it, plan)))
        else {
            return false;
        };
        let is_odd = |name| bundle.wishes.get(name).is_some_and(|wish| *wish != plan.of);
        self.change.waits_for().any(is_odd)
    }
}
