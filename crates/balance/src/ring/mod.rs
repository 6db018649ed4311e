//! Which parts of the hash space change hands, in a pool whose ring follows the load (adaptive hashing).
//!
//! Time goes by in slots. After each a planner is told what every grain of the ring carried in it ([`SlotReport`]), and answers with
//! a plan: which parts move, and where to. There are two planners:
//!
//! - [`Paper`] does what the paper says (Hwang and Wood, "Adaptive performance-aware distributed memory caching",
//!   ICAC 2013, section 3.3): once a slot the server of largest cost gives a hundredth of a slice to the one of least cost. It
//!   knows nothing of what the hundredth carries, and takes hundreds of slots.
//! - [`Measured`] knows what grains carry and moves the fewest that even it out.
//!
//! A planner remembers what it needs of the slots before: tell it all slots, in their order, and the ring that was served by in each.

mod cost;
mod measured;
mod paper;
mod report;
mod servers;
#[cfg(test)]
mod tests;

use evenkeel_placement::ring::{Move, Part, Ring};

pub use cost::{BadWeight, CostSettings, Costs};
pub use measured::{GRAINS_MAX, Measured, REST_SLOTS, SLOTS_BEFORE, SPACE_RATIO_MAX};
pub use paper::{Paper, PaperSettings};
pub use report::{BadSlot, GrainCounts, SlotReport};
pub use servers::{costs, gives};

/// Says what moves after a slot.
pub trait RingPlanner {
    /// The plan after a slot that was served by this ring. It is taken for executed before the next one is made.
    ///
    /// # Errors
    ///
    /// If the numbers cannot be: then nothing is planned and nothing of the slot is remembered.
    fn plan(&mut self, ring: &Ring, slot: &SlotReport) -> Result<RingPlan, BadSlot>;
}

/// What moves after a slot, and what that is to bring.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RingPlan {
    /// What moves. No hash moves twice.
    pub moves: Vec<PlannedMove>,
    /// Load of each server once that is done, if everything is asked for as in this slot.
    pub predicted: Vec<f64>,
    /// Who keeps too much, and why.
    pub kept: Vec<OverloadedServer>,
}

impl RingPlan {
    /// A plan by which nothing moves.
    fn nothing(slot: &SlotReport, ring: &Ring) -> RingPlan {
        RingPlan {
            predicted: slot.loads(ring),
            ..RingPlan::default()
        }
    }

    /// The moves as [`Ring::moved`] takes them.
    pub fn to_moves(&self) -> Vec<Move> {
        let moves = self
            .moves
            .iter()
            .map(|&PlannedMove { part, to, .. }| Move { part, to });
        moves.collect()
    }
}

/// A part that is to move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedMove {
    /// Which.
    pub part: Part,
    /// Whose it is.
    pub from: u16,
    /// Who gets it.
    pub to: u16,
    /// The load that it takes along.
    pub load: f64,
}

/// A server that keeps more than it should.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OverloadedServer {
    /// Which.
    pub server: u16,
    /// The load that it keeps.
    pub load: f64,
    /// What it should have at most.
    pub permissible: f64,
    /// The heaviest grain that it keeps, and its load.
    pub heaviest: Option<(Part, f64)>,
    /// Why no more moves.
    pub why: Hold,
}

/// Why a server keeps what it has too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The plan is as long as a plan may be: the next one goes on.
    Limit,
    /// What fits has moved in the last slots and rests.
    Resting,
    /// Each of its grains alone is more than the gap: only copies of hot keys help.
    TooHeavy,
}
