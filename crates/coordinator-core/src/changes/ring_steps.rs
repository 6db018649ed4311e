//! What proxies say of rings and are told of them, and when the next plan begins.

use std::sync::Arc;

use evenkeel_control::rings::{FollowedRing, RingPlan};
use evenkeel_control::{FollowedPool, Heartbeat, PoolStep, Refusal};
use evenkeel_schemes::generation::INCARNATION_BITS;
use evenkeel_schemes::stage::Stage;
use evenkeel_types::random::SplitMix64;
use evenkeel_types::{BootId, Instant, Now};

use super::rings::{Ordered, first_ring};
use super::scaling::measures_of;
use super::{ChangeNews, ChangeRefusal, Changes, Led, LedRing, RingMode, RingSettingsRequest};
use crate::limits::YOUNG_FOR;

impl Led {
    /// Begins the plan that waits, if everybody works by the last step of the one before. True if it did.
    pub(super) fn begin_plan(&mut self) -> bool {
        let Some(ring) = self.ring.as_mut().filter(|ring| ring.waits()) else {
            return false;
        };
        if !self.change.begin_next() {
            return false;
        }
        if let Some(plan) = ring.waiting.take() {
            // Another server may have had this place.
            plan.newcomer().inspect(|it| self.reach.forget(*it));
            ring.plan = plan;
        }
        let followers = self.change.followers().len();
        let set = self.change.set_goal(Stage::Done, followers);
        set.expect("a plan that has just begun is not done, and this many follow");
        true
    }

    /// What a proxy is told of a pool, if a plan that it has not can be told with it.
    pub(super) fn told(
        &mut self,
        heartbeat: &Heartbeat,
        followed: &FollowedPool,
        has_room: bool,
    ) -> Option<PoolStep> {
        let told = self.ring.as_ref().zip(followed.ring.as_ref());
        let slot = |ring: &LedRing| {
            let wanted = self.slots.wanted_of(&heartbeat.name, heartbeat.boot);
            wanted.filter(|_| ring.settings.mode != RingMode::Off)
        };
        let ring = told.map(|(ring, theirs)| ring.step_for(theirs, slot(ring)));
        let brings_plan = ring.as_ref().is_some_and(|step| step.plan.is_some());
        if brings_plan && !has_room {
            return None;
        }
        let followers = self.change.followers().len();
        let bundle = self.bundle.as_mut();
        Some(PoolStep {
            pool: followed.pool.clone(),
            step: self.change.step(),
            ring,
            bundle: bundle.and_then(|bundle| bundle.tell(followed.told, followers)),
        })
    }

    /// A proxy may tell what its ring carried. False if that cannot be true.
    pub(super) fn handle_counts(
        &mut self,
        name: &str,
        boot: BootId,
        followed: &FollowedPool,
    ) -> bool {
        let counts = followed.ring.as_ref().and_then(|ring| ring.counts.as_ref());
        let (Some(ring), Some(counts)) = (&self.ring, counts) else {
            return true;
        };
        let stage = self.change.step().stage;
        let of = (ring.plan.number, stage >= Stage::Warming);
        let count = || ring.present(stage).map_or(0, |ring| ring.grains().len());
        let grains = self.slots.grains_of(of, count);
        let sizes = (ring.plan.placement.servers.len(), grains);
        self.slots.handle(name, boot, counts, of, sizes)
    }

    /// When the slot that runs is over, where a ring is measured.
    pub(super) fn slot_ends(&self) -> Option<Instant> {
        let ring = self.ring.as_ref()?;
        let is_measured = ring.settings.mode != RingMode::Off;
        is_measured.then(|| self.slots.ends(ring.settings.slot()))
    }

    /// Ends the slot that runs. The plan to be executed now, if there is any.
    fn end_slot(&mut self, now: Instant) -> Option<RingPlan> {
        let step = self.change.step();
        let ring = self.ring.as_ref()?;
        let present = ring.present(step.stage).ok()?;
        let followers: Vec<&str> = self.change.followers().keys().map(String::as_str).collect();
        let rests = !self.change.is_under_way() && !ring.waits();
        let settings = ring.settings;
        let is_carried_out =
            settings.mode == RingMode::Automatic && settings.proxies == followers.len();
        let of = (ring.plan.number, step.stage >= Stage::Warming);
        self.slots.end(now, (&present, of, rests), &followers);
        let newest = self.slots.last.as_ref();
        let measures = newest.and_then(|slot| measures_of(slot, &present));
        self.measured = measures.map(|it| (now, it)).or(self.measured);
        let next = || {
            let planned = Ordered::Moves(self.slots.planned());
            ring.next(step.stage, planned).ok()
        };
        let next = is_carried_out.then(next).flatten();
        let next = next.filter(RingPlan::moves_anything);
        next.inspect(|next| self.slots.apply(next.number))
    }
}

impl Changes {
    /// Ends slots that are over, and lets move what is to move because of what they carried.
    pub(super) fn end_slots(&mut self, now: Now) {
        let has_ended = |(_, led): &(&String, &Led)| {
            let ends = led.slot_ends();
            ends.is_some_and(|ends| ends <= now.monotonic)
        };
        let ended = self.pools.iter().filter(has_ended);
        let ended: Vec<String> = ended.map(|(pool, _)| pool.clone()).collect();
        for pool in ended {
            let is_strange = self.strangers.of(&pool).is_some();
            let Some(led) = self.pools.get_mut(&pool) else {
                continue;
            };
            if let Some(plan) = led.end_slot(now.monotonic).filter(|_| !is_strange) {
                self.order(now, &pool, plan, ChangeNews::PlanOrdered);
            }
        }
    }

    /// A plan is to follow the present one.
    pub(super) fn order(&mut self, now: Now, pool: &str, plan: RingPlan, why: ChangeNews) {
        let Some(led) = self.pools.get_mut(pool) else {
            return;
        };
        let (number, step) = (plan.number, led.change.step());
        if let Some(ring) = &mut led.ring {
            ring.waiting = Some(Arc::new(plan));
        }
        led.slots.forget_planned();
        (self.journal).note_plan(now, pool, why, number, step);
        self.go_on(now, pool);
    }

    /// Changes how a ring follows its load.
    pub(crate) fn set_ring(
        &mut self,
        pool: &str,
        request: &RingSettingsRequest,
    ) -> Result<(), ChangeRefusal> {
        let Some(ring) = self.led(pool)?.ring.as_mut() else {
            return Err(ChangeRefusal::NoRing { pool: pool.into() });
        };
        let changed = ring.settings.changed(request);
        ring.settings = changed.map_err(|why| ChangeRefusal::BadSettings { why })?;
        self.journal.has_news = true;
        Ok(())
    }

    /// Whether what a proxy says of a pool's ring can be used. Makes the ring that it wishes, if there is none: O(points).
    pub(super) fn check_ring(&self, followed: &FollowedPool) -> Result<(), Refusal> {
        let pool = || followed.pool.clone();
        let led = self.pools.get(&followed.pool);
        let known = led.map(|led| led.ring.as_ref());
        let Some(theirs) = &followed.ring else {
            return match known.flatten() {
                Some(_) => Err(Refusal::MixedRing { pool: pool() }),
                None => Ok(()),
            };
        };
        if (theirs.number == 0) != followed.told.is_none() {
            return Err(Refusal::ForeignStep { pool: pool() });
        }
        let told = followed.told.map_or(0, |step| step.version);
        let newest = led.map_or(0, |led| led.change.step().version);
        match known {
            Some(None) => Err(Refusal::MixedRing { pool: pool() }),
            Some(Some(ring)) => {
                let plan = &ring.plan;
                let is_known = theirs.number <= plan.number
                    && theirs.incarnation == plan.incarnation
                    && told <= newest;
                match theirs.number == 0 || is_known {
                    true => Ok(()),
                    false => Err(Refusal::ForeignRing { pool: pool() }),
                }
            }
            None if theirs.number > 0 => Err(Refusal::ForeignRing { pool: pool() }),
            None => {
                let ring = first_ring(theirs, 0);
                ring.map_err(|why| Refusal::BadRing { pool: pool(), why })?;
                Ok(())
            }
        }
    }

    /// A proxy was refused: if it works by another plan, that is not forgotten.
    pub(crate) fn note_refused(&mut self, now: Instant, heartbeat: &Heartbeat, why: &Refusal) {
        if let Refusal::ForeignRing { pool } | Refusal::ForeignBundle { pool } = why {
            self.strangers.note(now, pool, heartbeat);
        }
    }

    /// Makes the ring that a proxy wishes, if there is none and nobody may be about to say that there was one. True if the pool is led then.
    pub(super) fn make_ring(&mut self, now: Now, pool: &str, theirs: &FollowedRing) -> bool {
        if self.pools.contains_key(pool) {
            return true;
        }
        let is_young = now.monotonic.since(self.began) < YOUNG_FOR;
        if is_young || self.strangers.of(pool).is_some() {
            return false;
        }
        let pools = self.pools.len() as u64;
        // What makes none was refused before.
        let Ok(ring) = first_ring(theirs, self.new_name(now, pools, INCARNATION_BITS)) else {
            return false;
        };
        let led = Led {
            ring: Some(ring),
            ..Led::new(now.monotonic)
        };
        (self.journal).note_plan(now, pool, ChangeNews::RingMade, 1, led.change.step());
        self.pools.insert(pool.to_owned(), led);
        true
    }

    /// A name of so many bits that nothing had before: not of this process, whose clock goes on, and not of one before it, whose day was
    /// another. What is named at the same moment has another seed.
    pub(super) fn new_name(&self, now: Now, seed: u64, bits: u32) -> u64 {
        let seeds = [self.lineage, now.unix.into(), now.monotonic.0];
        let mix = |mixed: u64, seed: u64| SplitMix64::new(mixed ^ seed).next_u64();
        seeds.into_iter().fold(seed, mix) >> (u64::BITS - bits)
    }
}
