//! What a worker should carry: its part of the load by what it can do, and how far above that it may be.
//!
//! The *capacity* of a worker is the load at which it would be busy all the time: its load by the part of its time that it
//! is busy. The *utilization* of a cluster is the load of all by the capacity of all. A worker that uses more of its
//! capacity than the cluster does has more than its share, whether it is asked for more than the others or slower than
//! they are.
//!
//! How much more is tolerated depends on the headroom. Half of what is left of the capacity, so that a worker is relieved
//! before it is full, and a tenth of it at most: at a utilization of 0.5 a worker is overloaded from 0.60 on, at 0.9 from
//! 0.95 on. A threshold by the mean load, as the papers have it, lies beyond the capacity where balance
//! matters most: 1.15 times the mean is more than a worker can do from a utilization of 0.87 on.

use serde::{Deserialize, Serialize};

use crate::mean;

/// A worker that uses this much more of its capacity than the cluster is overloaded, however much headroom there is.
pub const TOLERANCE_MAX: f64 = 0.10;

/// A worker that uses less than this more is not, however little there is: loads waver by as much.
pub const TOLERANCE_MIN: f64 = 0.02;

/// Plans relieve down to this much above the utilization, or half of what is tolerated if that is less.
pub const PLANNED_MAX: f64 = 0.02;

/// A worker that is busy for less than this part of its time is not overloaded, and says little about its capacity.
pub const BUSY_MIN: f64 = 0.3;

/// Capacities that differ by less than this factor count as the same: a worker does more requests in a wakeup the more it
/// is asked for, and workers of one kind should carry the same.
pub const ALIKE: f64 = 4.0 / 3.0;

/// A capacity counts as at most this many times the usual one: a worker that reports to be hardly busy whatever it does
/// would draw everything to it.
pub const CAPACITY_CLAMP: f64 = 2.0;

/// What a worker was measured at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Its load.
    pub load: f64,
    /// Part of its time that it has something to do.
    pub busy: f64,
}

impl Measured {
    fn capacity(&self) -> Option<f64> {
        let is_known = self.busy >= BUSY_MIN && self.load > 0.0;
        is_known.then(|| self.load / self.busy.min(1.0))
    }
}

/// The capacity of each worker. One that sleeps most of the time is taken for a usual one. All are above 0. O(n log n).
pub fn capacities(workers: &[Measured]) -> Vec<f64> {
    let usual = usual_capacity(workers);
    let own = workers
        .iter()
        .map(|worker| worker.capacity().unwrap_or(usual));
    own.map(|own| capacity_beside(own, usual)).collect()
}

/// The median of the capacities that are known, if any is.
pub fn known_capacity(workers: &[Measured]) -> Option<f64> {
    let mut known: Vec<f64> = workers.iter().filter_map(Measured::capacity).collect();
    known.sort_unstable_by(f64::total_cmp);
    known.get(known.len().saturating_sub(1) / 2).copied()
}

/// The same; where nobody's is known, what all do by the time that they are busy for. Above 0.
pub fn usual_capacity(workers: &[Measured]) -> f64 {
    if let Some(known) = known_capacity(workers) {
        return known;
    }
    let load: f64 = workers.iter().map(|worker| worker.load).sum();
    let busy: f64 = workers.iter().map(|worker| worker.busy).sum();
    match load > 0.0 && busy > 0.0 {
        true => load / busy,
        false => 1.0,
    }
}

/// A measured capacity as it counts where another is usual.
pub fn capacity_beside(own: f64, usual: f64) -> f64 {
    match own > usual / ALIKE && own < usual * ALIKE {
        true => usual,
        false => own.min(usual * CAPACITY_CLAMP),
    }
}

/// How much of what its workers can do a cluster is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Utilization(pub f64);

impl Utilization {
    /// Of workers with these loads and capacities. 0 for none.
    pub fn of(loads: &[f64], capacities: &[f64]) -> Self {
        let capacity = mean(capacities);
        Utilization(match capacity > 0.0 {
            true => mean(loads) / capacity,
            false => 0.0,
        })
    }

    /// What a worker of this capacity should carry.
    pub fn share(self, capacity: f64) -> Share {
        let tolerance = ((1.0 - self.0) / 2.0).clamp(TOLERANCE_MIN, TOLERANCE_MAX);
        Share {
            fair: self.0 * capacity,
            permissible: (self.0 + PLANNED_MAX.min(tolerance / 2.0)) * capacity,
            overloaded: (self.0 + tolerance) * capacity,
        }
    }
}

/// What the workers of a cluster carry together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterLoad {
    /// Mean load.
    pub mean: f64,
    /// The part of its capacity that the cluster uses, where the coordinator tells it.
    pub utilization: Option<Utilization>,
}

/// What a worker should carry. All are loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Where everybody uses the same part of his capacity.
    pub fair: f64,
    /// A worker that is overloaded is relieved down to this, and nobody is loaded beyond it if that can be helped.
    pub permissible: f64,
    /// A worker with more is overloaded.
    pub overloaded: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(workers: &[(f64, f64)]) -> Vec<Measured> {
        let of = |&(load, busy): &(f64, f64)| Measured { load, busy };
        workers.iter().map(of).collect()
    }

    #[test]
    fn workers_of_one_kind_have_one_capacity_whatever_they_are_asked_for() {
        let workers = measured(&[(900.0, 0.9), (500.0, 0.55), (300.0, 0.36), (5.0, 0.1)]);
        assert_eq!(capacities(&workers), [500.0 / 0.55; 4]);
    }

    #[test]
    fn a_slow_worker_has_its_own_capacity_and_a_fast_one_is_believed_up_to_a_limit() {
        let workers = measured(&[(600.0, 0.6), (600.0, 0.6), (400.0, 0.8), (9000.0, 0.9)]);
        assert_eq!(capacities(&workers), [1000.0, 1000.0, 500.0, 2000.0]);
    }

    #[test]
    fn where_everybody_sleeps_all_are_alike() {
        assert_eq!(
            capacities(&measured(&[(30.0, 0.2), (10.0, 0.0)])),
            [200.0; 2]
        );
        assert_eq!(capacities(&measured(&[(0.0, 0.0), (10.0, 0.0)])), [1.0; 2]);
        assert!(capacities(&[]).is_empty());
    }

    #[test]
    fn what_is_tolerated_shrinks_with_the_headroom() {
        let overloaded = |utilization: f64| Utilization(utilization).share(1000.0).overloaded;
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b}");
        near(overloaded(0.3), 400.0);
        near(overloaded(0.8), 900.0);
        near(overloaded(0.9), 950.0);
        near(overloaded(0.95), 975.0);
        near(overloaded(1.0), 1020.0);
        let share = Utilization(0.95).share(1000.0);
        near(share.fair, 950.0);
        near(share.permissible, 962.5);
        near(Utilization(0.5).share(1000.0).permissible, 520.0);
    }

    #[test]
    fn a_cluster_is_used_as_much_as_its_capacity_is() {
        assert_eq!(
            Utilization::of(&[900.0, 300.0], &[1000.0, 1000.0]),
            Utilization(0.6)
        );
        assert_eq!(Utilization::of(&[], &[]), Utilization(0.0));
    }
}
