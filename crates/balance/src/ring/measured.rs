//! The planner that knows what grains carry: the fewest that even it out.
//!
//! The most loaded server gives to the least loaded one the heaviest grain that is not more than the gap: than what the
//! one has above the mean, and than what the other lacks. So few grains move, and none makes a new hot spot. That goes on until all servers
//! are within what is permissible, or the plan is as long as it may be.
//!
//! What is tolerated shrinks with the headroom, as in the phases of balancing ([`crate::share`]): servers
//! that have much to spare may differ, servers that are nearly full may not.
//!
//! Noise: a plan is made when some server was off in two slots in a row, both of them since the last plan; and what has moved rests for
//! ten slots.

use std::collections::VecDeque;

use evenkeel_placement::ring::{Grain, HASHES, Part, Ring};

use super::{BadSlot, Hold, OverloadedServer, PlannedMove, RingPlan, RingPlanner, SlotReport};
use crate::share::{Share, Utilization};

/// Most grains of a plan: what is moved at once is four at a time.
pub const GRAINS_MAX: usize = 64;

/// The most of the hash space that a plan moves. Hashes spread items evenly, so it is that part of the items, too.
pub const SPACE_RATIO_MAX: f64 = 0.01;

/// Slots in a row in which a server has to be off before something moves.
pub const SLOTS_BEFORE: u32 = 2;

/// For this many slots what has moved stays.
pub const REST_SLOTS: u64 = 10;

/// The utilization where nobody knows it: then a server is off by an eighth more or less than the mean.
const UTILIZATION_ASSUMED: f64 = 0.8;

/// The planner that knows what grains carry. O(g log g).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Slots told.
    slots: u64,
    /// In how many of the last ones a server was off, since the last plan.
    off: u32,
    /// What has moved in the last slots, and after which.
    moved: VecDeque<(u64, Part)>,
}

impl RingPlanner for Measured {
    fn plan(&mut self, ring: &Ring, slot: &SlotReport) -> Result<RingPlan, BadSlot> {
        let grains = ring.grains();
        slot.check(&grains)?;
        self.slots += 1;
        while self
            .moved
            .front()
            .is_some_and(|&(after, _)| after + REST_SLOTS < self.slots)
        {
            self.moved.pop_front();
        }
        let mut draft = Draft::new(ring, slot, &grains);
        self.off = match draft.is_off() {
            true => self.off + 1,
            false => 0,
        };
        if self.off < SLOTS_BEFORE {
            return Ok(RingPlan::nothing(slot, ring));
        }
        draft.even_out(&self.moved);
        let plan = draft.plan;
        if !plan.moves.is_empty() {
            self.off = 0;
            self.moved
                .extend(plan.moves.iter().map(|of| (self.slots, of.part)));
        }
        Ok(plan)
    }
}

/// A plan that is being made.
struct Draft<'a> {
    grains: &'a [Grain],
    slot: &'a SlotReport,
    share: Share,
    /// The servers that have a place on the ring.
    servers: Vec<u16>,
    /// Grains of each server that carry something, heaviest first; sorted when it first gives.
    of_server: Vec<Option<Vec<usize>>>,
    /// Hashes that may still move.
    space: u64,
    plan: RingPlan,
}

impl<'a> Draft<'a> {
    fn new(ring: &Ring, slot: &'a SlotReport, grains: &'a [Grain]) -> Self {
        let mut servers: Vec<u16> = ring.slices().iter().map(|slice| slice.owner).collect();
        servers.sort_unstable();
        servers.dedup();
        let plan = RingPlan::nothing(slot, ring);
        let mean = plan.predicted.iter().sum::<f64>() / servers.len() as f64;
        let utilization = slot.utilization.unwrap_or(UTILIZATION_ASSUMED);
        Draft {
            grains,
            slot,
            share: Utilization(utilization).share(mean / utilization),
            servers,
            of_server: vec![None; ring.servers()],
            space: (HASHES as f64 * SPACE_RATIO_MAX) as u64,
            plan,
        }
    }

    fn load(&self, server: u16) -> f64 {
        self.plan.predicted[usize::from(server)]
    }

    /// Whether a server has more than is tolerated, or as much less.
    fn is_off(&self) -> bool {
        let tolerated = self.share.overloaded - self.share.fair;
        let off = |&server: &u16| (self.load(server) - self.share.fair).abs() > tolerated;
        self.servers.iter().any(off)
    }

    fn even_out(&mut self, moved: &VecDeque<(u64, Part)>) {
        let slack = self.share.permissible - self.share.fair;
        // Servers that may give; those that cannot are taken out.
        let mut giving = self.servers.clone();
        let by_load =
            |draft: &Self, a: u16, b: u16| draft.load(a).total_cmp(&draft.load(b)).then(b.cmp(&a));
        loop {
            let from = giving.iter().copied().max_by(|&a, &b| by_load(self, a, b));
            let to = self
                .servers
                .iter()
                .copied()
                .min_by(|&a, &b| by_load(self, a, b));
            let (Some(from), Some(to)) = (from, to) else {
                return;
            };
            let above = self.load(from) - self.share.fair;
            let below = self.share.fair - self.load(to);
            let is_wanted = above > slack || below > slack;
            if !is_wanted || above <= 0.0 || from == to {
                return;
            }
            if self.plan.moves.len() == GRAINS_MAX {
                return self.keep(from, Hold::Limit);
            }
            let gap = above.min(below) + slack;
            match self.heaviest_within(from, gap, moved) {
                Ok(grain) => self.give(grain, from, to),
                Err(why) => {
                    giving.retain(|&server| server != from);
                    self.keep(from, why);
                }
            }
        }
    }

    /// The heaviest grain of a server that may move and is no more than this; why there is none.
    fn heaviest_within(
        &mut self,
        from: u16,
        gap: f64,
        moved: &VecDeque<(u64, Part)>,
    ) -> Result<usize, Hold> {
        let (grains, slot) = (self.grains, self.slot);
        let load = |grain: usize| slot.grains[grain].load;
        let sorted = self.of_server[usize::from(from)].get_or_insert_with(|| {
            let own =
                (0..grains.len()).filter(|&grain| grains[grain].owner == from && load(grain) > 0.0);
            let mut own: Vec<usize> = own.collect();
            own.sort_by(|&a, &b| load(b).total_cmp(&load(a)));
            own
        });
        let begin = sorted.partition_point(|&grain| load(grain) > gap);
        let mut why = Hold::TooHeavy;
        for at in begin..sorted.len() {
            let part = grains[sorted[at]].part;
            if part.width() > self.space {
                why = Hold::Limit;
            } else if moved.iter().any(|(_, other)| other.overlaps(&part)) {
                why = if why == Hold::Limit {
                    why
                } else {
                    Hold::Resting
                };
            } else {
                return Ok(sorted.remove(at));
            }
        }
        Err(why)
    }

    fn give(&mut self, grain: usize, from: u16, to: u16) {
        let (part, load) = (self.grains[grain].part, self.slot.grains[grain].load);
        self.space -= part.width();
        self.plan.predicted[usize::from(from)] -= load;
        self.plan.predicted[usize::from(to)] += load;
        self.plan.moves.push(PlannedMove {
            part,
            from,
            to,
            load,
        });
    }

    /// Says of a server that has too much why it keeps it.
    fn keep(&mut self, server: u16, why: Hold) {
        let load = self.load(server);
        if load <= self.share.permissible {
            return;
        }
        let own = (0..self.grains.len()).filter(|&grain| {
            let is_going = |of: &PlannedMove| of.part == self.grains[grain].part;
            self.grains[grain].owner == server && !self.plan.moves.iter().any(is_going)
        });
        let of = |grain: usize| (self.grains[grain].part, self.slot.grains[grain].load);
        let heaviest = own.map(of).max_by(|a, b| a.1.total_cmp(&b.1));
        self.plan.kept.push(OverloadedServer {
            server,
            load,
            permissible: self.share.permissible,
            heaviest,
            why,
        });
    }
}
