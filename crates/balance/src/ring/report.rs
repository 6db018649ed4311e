//! What was counted in a slot, and what cannot be true.

use evenkeel_placement::ring::{Grain, Part, Ring};
use serde::{Deserialize, Serialize};

use crate::is_load;

/// Largest count of a grain and slot that is believed. Sums of 2¹⁷ of them never overflow.
const COUNT_MAX: u64 = 1 << 40;

/// What a grain carried in a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrainCounts {
    /// Keys that were asked for.
    pub gets: u64,
    /// Those of them that were there.
    pub hits: u64,
    /// Items that were stored.
    pub sets: u64,
    /// What that was to do, in small requests a second (see [`crate::load`]).
    pub load: f64,
}

/// What all grains of a ring carried in a slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotReport {
    /// One for each of [`Ring::grains`], in their order.
    pub grains: Vec<GrainCounts>,
    /// The part of what all servers together can do that they were asked for, where anybody knows it.
    pub utilization: Option<f64>,
}

/// Why a slot's numbers void it. Anyone who counted is at fault.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadSlot {
    /// Counts of another ring.
    #[error("counts of {given} grains for a ring with {grains}")]
    Grains {
        /// How many were told.
        given: usize,
        /// How many the ring has.
        grains: usize,
    },
    /// A load that is no number, below 0 or beyond belief.
    #[error("grain {grain} has a load of {load}")]
    Load {
        /// Which, from 0.
        grain: usize,
        /// What it says.
        load: f64,
    },
    /// More hits than gets.
    #[error("grain {grain} has {hits} hits of {gets} gets")]
    Hits {
        /// Which, from 0.
        grain: usize,
        /// What it says.
        hits: u64,
        /// What it says.
        gets: u64,
    },
    /// A count beyond belief.
    #[error("grain {grain} has {gets} gets and {sets} sets in a slot")]
    Count {
        /// Which, from 0.
        grain: usize,
        /// What it says.
        gets: u64,
        /// What it says.
        sets: u64,
    },
    /// A utilization that is no number or not above 0.
    #[error("a utilization of {0}")]
    Utilization(f64),
}

impl SlotReport {
    /// Says whether the numbers can be true of a ring with these grains. O(g).
    ///
    /// # Errors
    ///
    /// See [`BadSlot`].
    pub fn check(&self, grains: &[Grain]) -> Result<(), BadSlot> {
        if self.grains.len() != grains.len() {
            let (given, grains) = (self.grains.len(), grains.len());
            return Err(BadSlot::Grains { given, grains });
        }
        if let Some(utilization) = self.utilization
            && !(utilization.is_finite() && utilization > 0.0)
        {
            return Err(BadSlot::Utilization(utilization));
        }
        for (grain, counts) in self.grains.iter().enumerate() {
            let GrainCounts {
                gets,
                hits,
                sets,
                load,
            } = *counts;
            if !is_load(load) {
                return Err(BadSlot::Load { grain, load });
            }
            if gets > COUNT_MAX || sets > COUNT_MAX {
                return Err(BadSlot::Count { grain, gets, sets });
            }
            if hits > gets {
                return Err(BadSlot::Hits { grain, hits, gets });
            }
        }
        Ok(())
    }

    /// Load of each server of the ring that was counted by. O(g).
    pub fn loads(&self, ring: &Ring) -> Vec<f64> {
        let servers = self.of_servers(ring);
        servers.iter().map(|counts| counts.load).collect()
    }

    /// What each server of the ring that was counted by carried. O(g).
    pub fn of_servers(&self, ring: &Ring) -> Vec<GrainCounts> {
        let mut servers = vec![GrainCounts::default(); ring.servers()];
        for (grain, counts) in ring.grains().iter().zip(&self.grains) {
            let server = &mut servers[usize::from(grain.owner)];
            server.gets += counts.gets;
            server.hits += counts.hits;
            server.sets += counts.sets;
            server.load += counts.load;
        }
        servers
    }

    /// Load of a part, if it is spread evenly within each grain. O(g).
    pub(super) fn load_of(&self, grains: &[Grain], part: &Part) -> f64 {
        let (first, width) = (u64::from(part.first), part.width());
        let within = |grain: &Grain, from: u64| {
            let begin = from.max(u64::from(grain.part.first));
            let end = (from + width).min(u64::from(grain.part.last) + 1);
            end.saturating_sub(begin)
        };
        let loads = grains.iter().zip(&self.grains).map(|(grain, counts)| {
            // What lies behind 0 is found one turn earlier.
            let hashes = within(grain, first) + within_turned(grain, first, width);
            counts.load * hashes as f64 / grain.part.width() as f64
        });
        loads.sum()
    }
}

/// Hashes of a grain in a part that goes around 0, of what lies behind it.
fn within_turned(grain: &Grain, first: u64, width: u64) -> u64 {
    let end = (first + width).saturating_sub(evenkeel_placement::ring::HASHES);
    let last = u64::from(grain.part.last) + 1;
    end.min(last).saturating_sub(u64::from(grain.part.first))
}
