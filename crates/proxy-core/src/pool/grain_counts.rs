//! What grains of a pool's ring carry, as far as one worker asks for it.

use crate::ring::PlannedRing;
use crate::stats::counters::Tally;
use evenkeel_control::rings::GrainCounted;
use evenkeel_control::times::Histogram;
use evenkeel_types::Instant;
use std::sync::Arc;

/// Counts by grain, of the ring before a plan's moves or of the one behind them.
#[derive(Debug)]
pub(crate) struct GrainCounts {
    /// The plan, and whether it is its ring behind the moves.
    of: (Arc<PlannedRing>, bool),
    since: Instant,
    counts: Vec<GrainCounted>,
}

impl GrainCounts {
    /// Nothing of a ring has been counted yet.
    pub fn new(ring: Arc<PlannedRing>, has_moved: bool, now: Instant) -> Self {
        let count = ring.grains(has_moved).len();
        let counts = (0..count as u32).map(|grain| GrainCounted(grain, 0, 0, 0, 0));
        GrainCounts {
            of: (ring, has_moved),
            since: now,
            counts: counts.collect(),
        }
    }

    /// Whether this is what is counted by.
    pub fn is_of(&self, ring: &PlannedRing, has_moved: bool) -> bool {
        (self.of.0.number(), self.of.1) == (ring.number(), has_moved)
    }

    /// A server has answered a request for a key of this hash, of this many bytes, its answer counted in.
    #[inline]
    pub fn count(&mut self, hash: u64, is_read: bool, outcome: Tally, bytes: usize) {
        let (ring, has_moved) = &self.of;
        let grain = ring.grains(*has_moved).find(hash as u32);
        let Some(GrainCounted(_, gets, hits, sets, all)) = self.counts.get_mut(grain) else {
            return;
        };
        *all += bytes as u64;
        if is_read {
            *gets += 1;
            *hits += u64::from(outcome == Tally::GetHit);
        } else {
            *sets += 1;
        }
    }

    /// All that was counted, and for how many microseconds.
    pub fn counted(&self, now: Instant, down: Vec<u16>, answers: Histogram) -> RingCounted {
        let is_any = |of: &&GrainCounted| of.1 + of.3 > 0;
        let micros = now.since(self.since).as_micros();
        RingCounted {
            plan: self.of.0.number(),
            moved: self.of.1,
            micros: u64::try_from(micros).unwrap_or(u64::MAX),
            down,
            answers,
            grains: self.counts.iter().filter(is_any).copied().collect(),
        }
    }
}

/// What one worker has counted of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingCounted {
    /// Number of the plan.
    pub plan: u64,
    /// Of the ring behind its moves, and not of the one before.
    pub moved: bool,
    /// For how long.
    pub micros: u64,
    /// In ascending order; those of which nothing was counted are left out.
    pub grains: Vec<GrainCounted>,
    /// Servers, by their places in the list, that are out of use.
    pub down: Vec<u16>,
    /// How long requests have taken from when they were written to a server to when they were answered, since the worker began or counts
    /// were set back.
    pub answers: Histogram,
}
