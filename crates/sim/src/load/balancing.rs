//! What servers and their coordinator did to even out a load.

use evenkeel_balance::phase::PhaseCounts;
use serde::Serialize;
use std::ops::Sub;

/// What was done from the beginning of a run on, or in some of its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BalancingCounts {
    /// Intervals of all servers by the phase that had to act.
    pub intervals: PhaseCounts,
    /// Keys that became replicated.
    pub promoted: u64,
    /// Cachelets that were lent to another worker of their server.
    pub lent: u64,
    /// Those that were sent home.
    pub sent_home: u64,
    /// Cachelets that passed to another server.
    pub moved: u64,
    /// Their bytes.
    pub bytes_moved: u64,
    /// Plans of the coordinator that came to their end.
    pub plans: u64,
    /// What the plan that copied most copied, in parts of all data.
    pub plan_ratio_max: f64,
    /// Requests that were sent to a worker that no longer had their key.
    pub redirects: u64,
}

/// What was done since. The plan that copied most may have been before.
impl Sub for BalancingCounts {
    type Output = BalancingCounts;

    fn sub(self, before: BalancingCounts) -> BalancingCounts {
        let (now, then) = (self.intervals, before.intervals);
        BalancingCounts {
            intervals: PhaseCounts {
                idle: now.idle - then.idle,
                replicating: now.replicating - then.replicating,
                local: now.local - then.local,
                coordinated: now.coordinated - then.coordinated,
            },
            promoted: self.promoted - before.promoted,
            lent: self.lent - before.lent,
            sent_home: self.sent_home - before.sent_home,
            moved: self.moved - before.moved,
            bytes_moved: self.bytes_moved - before.bytes_moved,
            plans: self.plans - before.plans,
            plan_ratio_max: self.plan_ratio_max,
            redirects: self.redirects - before.redirects,
        }
    }
}
