//! The most that servers carry of keys of some popularity.

use super::cell::{Cell, Deployment, Keys};
use super::measure::Size;
use crate::fleet::{Fleet, LoadSpec, LoadedFleet};
use crate::run::Run;
use crate::small::LIMIT_SERVICES;
use crate::trial::{Subject, find_knee};
use core::time::Duration;
use evenkeel_bench::{Objective, Percentile};
use serde::{Deserialize, Serialize};

/// Part of the sum of all servers at which a capacity is looked for first.
const KNEE_AT: f64 = 0.9;

/// Time of a rate that is not judged, by the time that is.
const KNEE_WARM_UP: f64 = 0.5;

/// What was found with one seed.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    pub deployment: Deployment,
    pub keys: Keys,
    pub seed: u64,
    pub found: Found,
}

/// The highest rate that kept to the limit.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Found {
    pub requests_per_second: f64,
    /// Of its trial; none where no rate kept to the limit.
    pub max_to_mean: Option<f64>,
}

/// All that were found.
#[derive(Debug, Default)]
pub(super) struct Capacities(Vec<Capacity>);

impl Capacities {
    pub fn push(&mut self, capacity: Capacity) {
        self.0.push(capacity);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What uniform keys carry there with this seed, or with the first that was measured; the sum of all servers where none
    /// was.
    pub fn uniform(&self, deployment: Deployment, seed: u64) -> f64 {
        let uniform =
            |found: &&Capacity| found.deployment == deployment && found.keys == Keys::Uniform;
        let all = || self.0.iter().filter(uniform);
        let found = all().find(|found| found.seed == seed).or(all().next());
        found.map_or(deployment.nominal(), |found| {
            found.found.requests_per_second
        })
    }

    /// All seeds together, in the order in which each kind was measured first.
    pub fn by_kind(&self) -> Vec<(Deployment, Keys, Vec<&Capacity>)> {
        let mut kinds: Vec<(Deployment, Keys, Vec<&Capacity>)> = Vec::new();
        for found in &self.0 {
            let same = |kind: &&mut (Deployment, Keys, Vec<&Capacity>)| {
                (kind.0, kind.1) == (found.deployment, found.keys)
            };
            match kinds.iter_mut().find(same) {
                Some((_, _, all)) => all.push(found),
                None => kinds.push((found.deployment, found.keys, vec![found])),
            }
        }
        kinds
    }
}

/// Looks for one.
///
/// # Errors
/// When something does not start.
pub(super) fn find(
    run: &Run,
    size: &Size,
    deployment: Deployment,
    keys: Keys,
    seed: u64,
) -> anyhow::Result<Found> {
    run.progress
        .say(format!("{deployment}: the most of {keys} keys"));
    let cell = Cell {
        deployment,
        keys,
        ..Cell::BASE
    };
    let fleet = Fleet::start(&cell.plan(size.long_timeouts))?;
    let load = LoadSpec {
        warm_up: size.trial.mul_f64(KNEE_WARM_UP),
        duration: size.trial,
        ..cell.load(size.keys, seed)
    };
    load.fill(&fleet)?;
    let mut subject = LoadedFleet {
        fleet: &fleet,
        load,
    };
    let first = subject.trial(KNEE_AT * deployment.nominal())?;
    let objective = Objective {
        percentile: Percentile::P99,
        within: Duration::from_secs_f64(LIMIT_SERVICES / deployment.capacity as f64),
    };
    let knee = find_knee(&mut subject, objective, &[first], size.precision)?;
    let requests_per_second = knee.requests_per_second();
    run.progress
        .say(format!("{keys} keys: {requests_per_second:.0} requests/s"));
    Ok(Found {
        requests_per_second,
        max_to_mean: knee.trial.as_ref().map(|trial| trial.max_to_mean()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_goes_by_its_own_capacity_or_by_the_first() {
        let mut capacities = Capacities::default();
        let nominal = Deployment::EIGHT.nominal();
        assert_eq!(capacities.uniform(Deployment::EIGHT, 1), nominal);
        for (keys, seed, requests_per_second) in [
            (Keys::One, 1, 9.0),
            (Keys::Uniform, 1, 10.0),
            (Keys::Uniform, 2, 11.0),
        ] {
            let found = Found {
                requests_per_second,
                max_to_mean: None,
            };
            capacities.push(Capacity {
                deployment: Deployment::EIGHT,
                keys,
                seed,
                found,
            });
        }
        let uniform = |seed| capacities.uniform(Deployment::EIGHT, seed);
        assert_eq!([1, 2, 3].map(uniform), [10.0, 11.0, 10.0]);
        let kinds = capacities.by_kind();
        let counts: Vec<_> = kinds.iter().map(|(_, _, found)| found.len()).collect();
        assert_eq!(counts, [1, 2]);
    }
}
