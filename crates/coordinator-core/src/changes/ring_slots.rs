//! What a ring carries, slot by slot, and what is to move because of it.
//!
//! Once a slot every proxy is asked for what it has counted since it works by the present ring. The difference to what it told before, by the
//! time between the two on its own clock, is what it carried. So a heartbeat that is lost or late does no harm, and no clocks are
//! compared. At the end of a slot a [planner](evenkeel_balance::ring) is told the sum, if enough proxies have reported, and plans what moves
//! next. What cannot be true of a proxy's counts voids its report.

use core::mem;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use evenkeel_balance::load::BYTES_PER_REQUEST;
use evenkeel_balance::ring::{GrainCounts, Hold, Measured, RingPlan, RingPlanner, SlotReport};
use evenkeel_control::rings::{GrainCounted, RingCounts, RingMove};
use evenkeel_placement::ring::Ring;
use evenkeel_types::{BootId, Instant};
use serde::{Deserialize, Serialize};

use crate::limits::{
    RING_COPY_KEYS_MAX, RING_DEAD_AFTER, RING_DEAD_AFTER_MAX, RING_DEAD_AFTER_MIN,
    RING_OUTCOMES_MAX, RING_SLOT, RING_SLOT_MAX, RING_SLOT_MIN, RING_TOLD_OF_FIVE,
    RING_TOLD_SPAN_MIN, RING_WARMING, RING_WARMING_MAX,
};

/// What is done about what a ring carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RingMode {
    /// Nothing is measured.
    Off,
    /// Plans are made and shown.
    #[default]
    Observe,
    /// They are executed.
    Automatic,
}

/// How a ring follows its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RingSettings {
    /// What is done.
    pub mode: RingMode,
    /// How many proxies have the pool, as the operator knows. In mode `automatic` nothing moves while another number follows.
    pub proxies: usize,
    /// Length of a slot in milliseconds: [`RING_SLOT_MIN`] to [`RING_SLOT_MAX`].
    pub slot_ms: u64,
    /// For how long a plan stands at `warming`, in milliseconds, at most [`RING_WARMING_MAX`]: items that are asked for meanwhile come along,
    /// the others are left behind.
    pub warming_ms: u64,
    /// Most keys in a second, up to [`RING_COPY_KEYS_MAX`], that are asked for by themselves while a plan stands at `warming`, so that all its items come
    /// along. Then it stands there until all were asked for, for [`RING_WARMING_MAX`] at most. 0: none are.
    pub copy_keys_per_second: u32,
    /// For how long no proxy has reached a server before it is dead, in milliseconds: [`RING_DEAD_AFTER_MIN`] to [`RING_DEAD_AFTER_MAX`].
    pub dead_after_ms: u64,
}

/// What an operator wants to be changed of [`RingSettings`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RingSettingsRequest {
    /// What is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<RingMode>,
    /// How many proxies have the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxies: Option<usize>,
    /// Length of a slot in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_ms: Option<u64>,
    /// For how long a plan stands at `warming`, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warming_ms: Option<u64>,
    /// Most keys in a second that are asked for by themselves while a plan stands at `warming`; 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_keys_per_second: Option<u32>,
    /// For how long no proxy has reached a server before it is dead, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_after_ms: Option<u64>,
}

impl Default for RingSettings {
    fn default() -> Self {
        RingSettings {
            mode: RingMode::Observe,
            proxies: 0,
            slot_ms: RING_SLOT.as_millis() as u64,
            warming_ms: RING_WARMING.as_millis() as u64,
            copy_keys_per_second: 0,
            dead_after_ms: RING_DEAD_AFTER.as_millis() as u64,
        }
    }
}

impl RingSettings {
    /// The settings after a change, or what is wrong with it.
    pub(super) fn changed(&self, request: &RingSettingsRequest) -> Result<Self, String> {
        let changed = RingSettings {
            mode: request.mode.unwrap_or(self.mode),
            proxies: request.proxies.unwrap_or(self.proxies),
            slot_ms: request.slot_ms.unwrap_or(self.slot_ms),
            warming_ms: request.warming_ms.unwrap_or(self.warming_ms),
            copy_keys_per_second: request
                .copy_keys_per_second
                .unwrap_or(self.copy_keys_per_second),
            dead_after_ms: request.dead_after_ms.unwrap_or(self.dead_after_ms),
        };
        match changed.unsound() {
            None => Ok(changed),
            Some(why) => Err(why),
        }
    }

    /// What is wrong with them, if anything.
    pub(super) fn unsound(&self) -> Option<String> {
        if !(RING_SLOT_MIN..=RING_SLOT_MAX).contains(&self.slot()) {
            let (min, max) = (RING_SLOT_MIN.as_millis(), RING_SLOT_MAX.as_millis());
            return Some(format!("slot_ms is {min} to {max}, not {}", self.slot_ms));
        }
        if self.warming() > RING_WARMING_MAX {
            let max = RING_WARMING_MAX.as_millis();
            return Some(format!(
                "warming_ms is at most {max}, not {}",
                self.warming_ms
            ));
        }
        if self.copy_keys_per_second > RING_COPY_KEYS_MAX {
            return Some(format!(
                "copy_keys_per_second is at most {RING_COPY_KEYS_MAX}, not {}",
                self.copy_keys_per_second
            ));
        }
        if !(RING_DEAD_AFTER_MIN..=RING_DEAD_AFTER_MAX).contains(&self.dead_after()) {
            let (min, max) = (
                RING_DEAD_AFTER_MIN.as_millis(),
                RING_DEAD_AFTER_MAX.as_millis(),
            );
            let said = self.dead_after_ms;
            return Some(format!("dead_after_ms is {min} to {max}, not {said}"));
        }
        let needs_count = self.mode == RingMode::Automatic && self.proxies == 0;
        needs_count.then(|| "mode automatic needs proxies: how many have the pool".into())
    }

    pub(super) fn warming(&self) -> Duration {
        Duration::from_millis(self.warming_ms)
    }

    pub(super) fn dead_after(&self) -> Duration {
        Duration::from_millis(self.dead_after_ms)
    }

    pub(super) fn slot(&self) -> Duration {
        Duration::from_millis(self.slot_ms)
    }
}

/// What the proxies of one ring tell, slot by slot.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// The number of the one that runs; 0 before the first.
    slot: u64,
    began: Instant,
    told: BTreeMap<String, Reported>,
    /// How many grains the ring has that is said by plan and side: to count them takes milliseconds where they are many.
    grains: Option<((u64, bool), usize)>,
    planner: Measured,
    /// The planner before its newest plan was ordered.
    before: Measured,
    /// What came of the last one.
    pub(super) last: Option<Slot>,
    /// Plans that were made of slots and ordered, oldest first: at most [`RING_OUTCOMES_MAX`].
    pub(super) outcomes: VecDeque<RingOutcome>,
}

/// What a plan was to bring that was made of a slot, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingOutcome {
    /// Its number.
    pub plan: u64,
    /// How many parts were to move by it.
    pub moves: usize,
    /// The most loaded server by the mean of all, in the slot of which it was made.
    pub before: f64,
    /// The same once it was done, if everything went on being asked for as in that slot.
    pub predicted: f64,
    /// The same in the second slot at whose end it was done. Absent until then, and for good where another plan followed at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<f64>,
    /// How many such slots were over.
    #[serde(skip)]
    slots: u32,
}

/// What one proxy has told.
#[derive(Debug)]
struct Reported {
    boot: BootId,
    newest: RingCounts,
    /// For a slot, what its grains carried a second.
    rates: Option<(u64, Vec<(usize, Rates)>)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    gets: f64,
    hits: f64,
    sets: f64,
    bytes: f64,
}

/// A slot that is over.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slot {
    /// Its number.
    pub number: u64,
    /// How many proxies had told what they carried.
    pub told: usize,
    /// How many there were.
    pub followers: usize,
    /// Servers that some proxy does not ask, since they do not answer. Then nothing is planned: they are not idle.
    pub down: BTreeSet<u16>,
    /// The greatest 99th percentile of answer times that a proxy has told, in microseconds.
    pub p99_us: Option<u64>,
    /// What each server carried; `None` where too few had told.
    pub carried: Option<Carried>,
}

/// What a ring carried in a slot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Carried {
    /// By server: counts in a second.
    pub servers: Vec<GrainCounts>,
    /// The most loaded of them by the mean of all that own something; `None` if nothing was asked.
    pub max_by_mean: Option<f64>,
    /// What is to move, and what that is to bring.
    pub plan: RingPlan,
    /// What `max_by_mean` becomes by the plan; `None` without one.
    pub predicted_max_by_mean: Option<f64>,
    /// The planner that remembers that its plan is executed.
    carried_out: Measured,
}

impl Slots {
    /// The slot for which a proxy is to tell what it has counted, if it has not.
    pub(super) fn wanted_of(&self, proxy: &str, boot: BootId) -> Option<u64> {
        let told = self.told.get(proxy).filter(|told| told.boot == boot);
        let is_told = told.is_some_and(|told| told.newest.slot == self.slot);
        (self.slot > 0 && !is_told).then_some(self.slot)
    }

    /// How many grains the ring has that is said by plan and side; `count` counts them once.
    pub(super) fn grains_of(&mut self, of: (u64, bool), count: impl FnOnce() -> usize) -> usize {
        match self.grains {
            Some((known, grains)) if known == of => grains,
            _ => self.grains.insert((of, count())).1,
        }
    }

    /// A proxy tells what it has counted of the ring that is said by plan and side, which has this many servers and grains. False if it cannot be true, so
    /// that it is not used. O(grains told).
    pub(super) fn handle(
        &mut self,
        proxy: &str,
        boot: BootId,
        counts: &RingCounts,
        (plan, moved): (u64, bool),
        (servers, grains): (usize, usize),
    ) -> bool {
        // Of another ring, or too late: that is no fault.
        if counts.slot != self.slot || (counts.plan, counts.moved) != (plan, moved) {
            return true;
        }
        if !is_sound(counts, grains, servers) {
            return false;
        }
        let before = self.told.remove(proxy).filter(|told| told.boot == boot);
        let before = before.map(|told| told.newest);
        let before = before.filter(|newest| (newest.plan, newest.moved) == (plan, moved));
        let rates = rates(before.as_ref(), counts).map(|rates| (self.slot, rates));
        let is_used = rates.is_some() || before.is_none();
        let told = Reported {
            boot,
            newest: counts.clone(),
            rates,
        };
        self.told.insert(proxy.to_owned(), told);
        is_used
    }

    /// When the slot that runs is over; before the first that is now.
    pub(super) fn ends(&self, length: Duration) -> Instant {
        match self.slot {
            0 => Instant(0),
            _ => self.began + length,
        }
    }

    /// Ends the slot that runs, and begins the next, by the ring that is said by plan and side. Plans what is to move, if the ring rests. O(proxies · grains).
    pub(super) fn end(
        &mut self,
        now: Instant,
        (ring, of, rests): (&Ring, (u64, bool), bool),
        followers: &[&str],
    ) {
        let number = self.slot;
        self.slot += 1;
        self.began = now;
        self.told
            .retain(|proxy, _| followers.contains(&proxy.as_str()));
        if number == 0 {
            return;
        }
        // What was told of the ring before it changed in this slot is of other grains.
        let is_present = |told: &&Reported| (told.newest.plan, told.newest.moved) == of;
        let present = self.told.values().filter(is_present);
        let of_slot = present.filter_map(|told| {
            let (slot, rates) = told.rates.as_ref()?;
            (*slot == number).then_some(rates)
        });
        let newest = self.told.values().map(|told| &told.newest);
        let of_number = newest.clone().filter(|newest| newest.slot == number);
        let p99_us = of_number.filter_map(|newest| newest.p99_us).max();
        let down = newest.flat_map(|told| told.down.iter().copied());
        let shares = ring.shares();
        // Servers that own nothing may be away.
        let owns = |server: &u16| shares.get(usize::from(*server)).is_some_and(|it| *it > 0);
        let down: BTreeSet<u16> = down.filter(owns).collect();
        let mut sum = vec![Rates::default(); ring.grains().len()];
        let mut told = 0;
        for rates in of_slot {
            told += 1;
            for &(grain, rate) in rates {
                sum[grain].add(rate);
            }
        }
        if rests {
            self.notice_taken_back(of);
        }
        let is_enough = told > 0 && told * 5 >= followers.len() * RING_TOLD_OF_FIVE;
        let carried = is_enough.then(|| self.plan(ring, rests && down.is_empty(), &sum));
        if let Some(max) = carried
            .as_ref()
            .and_then(|it| it.max_by_mean)
            .filter(|_| rests)
        {
            self.judge(of, max);
        }
        self.last = Some(Slot {
            number,
            told,
            followers: followers.len(),
            down,
            p99_us,
            carried,
        });
    }

    fn plan(&mut self, ring: &Ring, rests: bool, sum: &[Rates]) -> Carried {
        let report = SlotReport {
            grains: sum.iter().map(Rates::counts).collect(),
            utilization: None,
        };
        let servers = report.of_servers(ring);
        let mut planner = self.planner.clone();
        // What cannot be was refused when it was told.
        let plan = match rests {
            true => planner.plan(ring, &report).unwrap_or_default(),
            false => RingPlan::default(),
        };
        let has_moves = !plan.moves.is_empty();
        // It is taken for executed when it is ordered.
        if !has_moves {
            self.planner = planner.clone();
        }
        let loads: Vec<f64> = servers.iter().map(|of| of.load).collect();
        let predicted = has_moves.then(|| max_by_mean(&plan.predicted, ring));
        Carried {
            servers,
            max_by_mean: max_by_mean(&loads, ring),
            predicted_max_by_mean: predicted.flatten(),
            plan,
            carried_out: planner,
        }
    }

    /// What the last slot has planned and nobody has ordered yet.
    pub(super) fn planned(&self) -> Vec<RingMove> {
        let carried = self.last.as_ref().and_then(|slot| slot.carried.as_ref());
        let moves = carried.map_or(&[][..], |carried| &carried.plan.moves);
        let moves = moves.iter().map(|of| RingMove {
            first: of.part.first,
            last: of.part.last,
            to: of.to,
        });
        moves.collect()
    }

    /// What was planned is executed by the plan of this number.
    pub(super) fn apply(&mut self, plan: u64) {
        let carried = self.last.as_ref().and_then(|slot| slot.carried.as_ref());
        let Some(carried) = carried.filter(|carried| !carried.plan.moves.is_empty()) else {
            return;
        };
        self.before = mem::replace(&mut self.planner, carried.carried_out.clone());
        let maxima = carried.max_by_mean.zip(carried.predicted_max_by_mean);
        let Some((before, predicted)) = maxima else {
            return;
        };
        if self.outcomes.len() == RING_OUTCOMES_MAX {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back(RingOutcome {
            plan,
            moves: carried.plan.moves.len(),
            before,
            predicted,
            after: None,
            slots: 0,
        });
    }

    /// The ring changes: what was planned for the one before is not to be ordered any more.
    pub(super) fn forget_planned(&mut self) {
        let carried = self.last.as_mut().and_then(|slot| slot.carried.as_mut());
        if let Some(carried) = carried {
            carried.plan.moves.clear();
            carried.predicted_max_by_mean = None;
        }
    }

    /// The ring rests that is said by plan and side. If that is not what the newest plan has brought, it was taken back, and nothing has moved.
    fn notice_taken_back(&mut self, of: (u64, bool)) {
        let newest = self.outcomes.back();
        let is_open = |it: &RingOutcome| it.after.is_none() && it.slots == 0;
        if newest.is_some_and(|it| is_open(it) && of < (it.plan, true)) {
            self.outcomes.pop_back();
            self.planner = self.before.clone();
        }
    }

    /// Such was the most loaded server by the mean in a slot at whose end the ring rested that is said by plan and side.
    fn judge(&mut self, (plan, moved): (u64, bool), max: f64) {
        let newest = self.outcomes.back_mut();
        let open = newest.filter(|it| moved && it.plan == plan && it.after.is_none());
        if let Some(outcome) = open {
            outcome.slots += 1;
            outcome.after = (outcome.slots == OUTCOME_SLOTS).then_some(max);
        }
    }
}

/// The outcome of a plan is what the second slot carries at whose end it is done: the first has begun before.
const OUTCOME_SLOTS: u32 = 2;

/// The largest by the mean of all that own something.
fn max_by_mean(loads: &[f64], ring: &Ring) -> Option<f64> {
    let shares = ring.shares();
    let owning = shares.iter().filter(|share| **share > 0).count();
    let (sum, max) = loads.iter().fold((0.0, 0.0f64), |(sum, max), load| {
        (sum + load, max.max(*load))
    });
    (sum > 0.0).then(|| max * owning as f64 / sum)
}

impl Rates {
    fn add(&mut self, other: Rates) {
        self.gets += other.gets;
        self.hits += other.hits;
        self.sets += other.sets;
        self.bytes += other.bytes;
    }

    /// In whole requests a second, and the load in small ones.
    fn counts(&self) -> GrainCounts {
        let gets = self.gets.round() as u64;
        GrainCounts {
            gets,
            hits: (self.hits.round() as u64).min(gets),
            sets: self.sets.round() as u64,
            load: self.gets + self.sets + self.bytes / BYTES_PER_REQUEST as f64,
        }
    }
}

/// Largest count of a grain that is believed.
const COUNT_MAX: u64 = 1 << 50;

/// Whether counts can be true of a ring with this many grains and servers.
fn is_sound(counts: &RingCounts, grains: usize, servers: usize) -> bool {
    let is_count = |of: &GrainCounted| {
        let GrainCounted(grain, gets, hits, sets, bytes) = *of;
        let is_small = [gets, sets, bytes].iter().all(|count| *count < COUNT_MAX);
        (grain as usize) < grains && hits <= gets && is_small
    };
    let is_ascending = counts.grains.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let are_servers = counts
        .down
        .iter()
        .all(|server| usize::from(*server) < servers);
    is_ascending && are_servers && counts.grains.iter().all(is_count)
}

/// What grains carried a second between two reports, or since counting began; `None` where the time is too short, or the counts went back.
fn rates(before: Option<&RingCounts>, now: &RingCounts) -> Option<Vec<(usize, Rates)>> {
    let micros = now
        .micros
        .checked_sub(before.map_or(0, |before| before.micros))?;
    if Duration::from_micros(micros) < RING_TOLD_SPAN_MIN {
        return None;
    }
    let seconds = micros as f64 / 1e6;
    let known = before.map_or(&[][..], |before| &before.grains);
    let known: BTreeMap<u32, GrainCounted> = known.iter().map(|of| (of.0, *of)).collect();
    let none = GrainCounted(0, 0, 0, 0, 0);
    let rates = now.grains.iter().map(|of| {
        let was = known.get(&of.0).unwrap_or(&none);
        let rate = |now: u64, was: u64| Some(now.checked_sub(was)? as f64 / seconds);
        let rates = Rates {
            gets: rate(of.1, was.1)?,
            hits: rate(of.2, was.2)?,
            sets: rate(of.3, was.3)?,
            bytes: rate(of.4, was.4)?,
        };
        Some((of.0 as usize, rates))
    });
    rates.collect()
}

/// Why a server keeps more than it should, for people.
pub(super) fn why_kept(hold: Hold) -> &'static str {
    match hold {
        Hold::Limit => "a plan moves no more: the next one goes on",
        Hold::Resting => "what would move has moved lately, and rests",
        Hold::TooHeavy => {
            "each of its grains alone is more than the gap: only copies of hot keys help"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a slot a ring may change that has fewer grains then: what was told of the one before is not laid over it.
    #[test]
    fn what_was_told_of_a_ring_that_has_changed_since_is_left_out() {
        let (large, small) = (Ring::even(12, 100).unwrap(), Ring::even(1, 1).unwrap());
        let (before, after) = (large.grains().len(), small.grains().len());
        assert!(after < before);
        let mut slots = Slots::default();
        slots.end(Instant(0), (&large, (1, false), true), &["p"]);
        let counts = RingCounts {
            slot: 1,
            plan: 1,
            moved: false,
            micros: 1_000_000,
            grains: vec![GrainCounted(before as u32 - 1, 1, 1, 1, 1)],
            down: Vec::new(),
            p99_us: None,
        };
        assert!(slots.handle("p", BootId(1), &counts, (1, false), (12, before)));
        slots.end(Instant(1), (&small, (1, true), true), &["p"]);
        let last = slots.last.unwrap();
        assert_eq!((last.number, last.told, last.carried), (1, 0, None));
    }
}
