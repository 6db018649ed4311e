//! What proxies say of rings and are told of them, and when the next plan begins.

use std::sync::Arc;

use evenkeel_control::rings::FollowedRing;
use evenkeel_control::{FollowedPool, Heartbeat, PoolStep, Refusal};
use evenkeel_schemes::generation::INCARNATION_BITS;
use evenkeel_schemes::stage::Stage;
use evenkeel_types::random::SplitMix64;
use evenkeel_types::{Instant, Now};

use super::rings::first_ring;
use super::{ChangeNews, Changes, Led};
use crate::limits::YOUNG_FOR;

impl Led {
    /// Begins the plan that waits, if everybody works by the last step of the one before. True if it did.
    pub(super) fn begin_plan(&mut self) -> bool {
        let stage = self.change.step().stage;
        let Some(ring) = self.ring.as_mut().filter(|ring| !ring.waiting.is_empty()) else {
            return false;
        };
        if !self.change.begin_next() {
            return false;
        }
        let moves = core::mem::take(&mut ring.waiting);
        let plan = ring.next(stage, &moves);
        ring.plan = Arc::new(plan.expect("an order is checked when it is taken or read"));
        let followers = self.change.followers().len();
        let set = self.change.set_goal(Stage::Done, followers);
        set.expect("a plan that has just begun is not done, and so many follow");
        true
    }

    /// What a proxy is told of a pool, if a plan that it has not can be told with it.
    pub(super) fn told(&self, followed: &FollowedPool, has_room: bool) -> Option<PoolStep> {
        let told = self.ring.as_ref().zip(followed.ring.as_ref());
        let ring = told.map(|(ring, theirs)| ring.step_for(theirs));
        let brings_plan = ring.as_ref().is_some_and(|step| step.plan.is_some());
        (has_room || !brings_plan).then(|| PoolStep {
            pool: followed.pool.clone(),
            step: self.change.step(),
            ring,
        })
    }
}

impl Changes {
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

    /// A proxy was refused: if it works by another ring, that is not forgotten.
    pub(crate) fn note_refused(&mut self, now: Instant, heartbeat: &Heartbeat, why: &Refusal) {
        if let Refusal::ForeignRing { pool } = why {
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
        // What makes none was refused before.
        let Ok(ring) = first_ring(theirs, self.new_incarnation(now)) else {
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

    /// A name that no ring had: not of this process, whose clock goes on, and not of one before it, whose day was another.
    fn new_incarnation(&self, now: Now) -> u64 {
        let seeds = [self.lineage, now.unix.into(), now.monotonic.0];
        let mix = |mixed: u64, seed: u64| SplitMix64::new(mixed ^ seed).next_u64();
        seeds.into_iter().fold(self.pools.len() as u64, mix) >> (u64::BITS - INCARNATION_BITS)
    }
}
