//! The paper's planner (section 3.3): the server of largest cost gives a little to the one of least cost.
//!
//! Of all pairs in which one can give to the other the pair with the largest difference is taken; in a ring in which all are
//! adjacent that is the server of largest and the one of least cost. Of the runs of i that lie behind one of j the widest gives
//! its lower β(1 − cj/ci) to j. What that part carries is not looked at.

use evenkeel_placement::ring::Ring;

use super::cost::{BadWeight, CostSettings, Costs, in_range};
use super::{BadSlot, PlannedMove, RingPlan, RingPlanner, SlotReport};

/// Settings of [`Paper`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaperSettings {
    /// How costs are weighed.
    pub cost: CostSettings,
    /// The part of a run that moves from a server that costs something to one that costs nothing: above 0, at most 1.
    pub beta: f64,
}

impl Default for PaperSettings {
    /// The paper's.
    fn default() -> Self {
        PaperSettings {
            cost: CostSettings::default(),
            beta: 0.01,
        }
    }
}

/// The paper's planner. One move a slot. O(g log s).
#[derive(Clone, Debug)]
pub struct Paper {
    costs: Costs,
    beta: f64,
}

impl Paper {
    /// A planner that has seen no slot.
    ///
    /// # Errors
    ///
    /// If a setting is out of its range.
    pub fn new(settings: PaperSettings) -> Result<Self, BadWeight> {
        let beta = settings.beta;
        in_range("beta", beta, "above 0 and at most 1", |b| {
            b > 0.0 && b <= 1.0
        })?;
        Ok(Paper {
            costs: Costs::new(settings.cost)?,
            beta,
        })
    }
}

impl RingPlanner for Paper {
    fn plan(&mut self, ring: &Ring, slot: &SlotReport) -> Result<RingPlan, BadSlot> {
        let grains = ring.grains();
        slot.check(&grains)?;
        let costs = self.costs.after(&slot.of_servers(ring));
        let cost = |server: u16| costs[usize::from(server)];
        let mut plan = RingPlan::nothing(slot, ring);
        let runs = ring.runs();
        let widest = runs.iter().max_by(|a, b| {
            let [of_a, of_b] = [a, b].map(|run| cost(run.owner) - cost(run.behind));
            of_a.total_cmp(&of_b).then(a.width.cmp(&b.width))
        });
        let Some(run) = widest.filter(|run| cost(run.owner) > cost(run.behind)) else {
            return Ok(plan);
        };
        let (from, to) = (run.owner, run.behind);
        let ratio = self.beta * (1.0 - cost(to) / cost(from));
        let Some(part) = run.lower((run.width as f64 * ratio) as u64) else {
            return Ok(plan);
        };
        let load = slot.load_of(&grains, &part);
        plan.predicted[usize::from(from)] -= load;
        plan.predicted[usize::from(to)] += load;
        plan.moves.push(PlannedMove {
            part,
            from,
            to,
            load,
        });
        Ok(plan)
    }
}
