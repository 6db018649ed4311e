//! How many slots the paper's planner takes where nothing is random: every hash of the first server is asked for 2.5 times as
//! often as every other.

use super::{DIVIDED, SKEW, deviation, paper};
use evenkeel_balance::mean;
use evenkeel_balance::ring::{GrainCounts, RingPlanner, SlotReport};
use evenkeel_placement::ring::{HASHES, Ring};

/// What all servers are asked for in a slot.
const REQUESTS: f64 = 1e9;

/// The servers are even when none has more than this many times the mean.
const EVEN: f64 = 1.05;

/// Slots until something is so; `None` where it did not come to that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Converged {
    /// The deviation of the servers' loads is the 8.5th of what it was.
    pub divided: Option<u32>,
    /// The most loaded server has at most 1.05 times the mean.
    pub even: Option<u32>,
}

/// Plans with α = 0 and β = 0.01 until both are so, for this many slots at most.
pub(super) fn converged(
    servers: usize,
    virtual_nodes: usize,
    slots_max: u32,
) -> anyhow::Result<Converged> {
    let original = Ring::even(servers, virtual_nodes)?;
    let mut ring = original.clone();
    let mut planner = paper(0.0, 0.01)?;
    let mut found = Converged::default();
    let mut wanted = None;
    for slot in 0..slots_max {
        let report = report(&ring, &original);
        let loads = report.loads(&ring);
        let off = deviation(&loads);
        if off <= *wanted.get_or_insert(off / DIVIDED) {
            found.divided.get_or_insert(slot);
        }
        if loads.iter().all(|&load| load <= EVEN * mean(&loads)) {
            found.even.get_or_insert(slot);
        }
        if found.divided.is_some() && found.even.is_some() {
            break;
        }
        let plan = planner.plan(&ring, &report)?;
        ring = ring.moved(&plan.to_moves())?;
        ring = ring.joined().unwrap_or(ring);
    }
    Ok(found)
}

fn report(ring: &Ring, original: &Ring) -> SlotReport {
    let counts = ring.grains().into_iter().map(|grain| {
        let density = match original.owner(grain.part.first) {
            0 => SKEW,
            _ => 1.0,
        };
        let load = density * grain.part.width() as f64 / HASHES as f64 * REQUESTS;
        GrainCounts {
            gets: load.round() as u64,
            hits: load.round() as u64,
            sets: 0,
            load,
        }
    });
    SlotReport {
        grains: counts.collect(),
        utilization: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_servers_take_some_hundred_slots() {
        let found = converged(3, 1, 1_000).unwrap();
        assert!((330..=350).contains(&found.even.unwrap()), "{found:?}");
        assert!(found.divided < found.even, "{found:?}");
        assert_eq!(converged(3, 1, 10).unwrap(), Converged::default());
    }
}
