//! Generated requests: a law of popularity, a mix of gets and sets, one seed.

use crate::rng::{self, WorkloadRng};
use crate::{Operation, Permutation, Popularity, RankSampler, WorkloadError, refuse};
use std::sync::Arc;

/// A generated workload in numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SyntheticSpec {
    /// Number of keys, 1 to [`crate::KEYS_MAX`].
    pub keys: u64,
    /// How unevenly requests fall on keys.
    pub popularity: Popularity,
    /// Share of the requests that are gets, 0 to 1; the rest are sets.
    pub get_share: f64,
    /// Fixes the whole workload.
    pub seed: u64,
}

impl SyntheticSpec {
    /// Prepares the workload: up to a few milliseconds and MiB for a large Zipf table.
    ///
    /// # Errors
    /// When a number is outside its range.
    pub fn build(self) -> Result<Synthetic, WorkloadError> {
        if !(0.0..=1.0).contains(&self.get_share) {
            return refuse(format!(
                "share of gets {} is not within 0 and 1",
                self.get_share
            ));
        }
        let sampler = Arc::new(RankSampler::new(self.keys, self.popularity)?);
        Ok(Synthetic {
            spec: self,
            sampler,
        })
    }
}

/// A workload ready to be drawn from by any number of threads.
#[derive(Clone, Debug)]
pub struct Synthetic {
    spec: SyntheticSpec,
    sampler: Arc<RankSampler>,
}

impl Synthetic {
    /// Stream number `index`: its own random numbers, the same keys and the same hot keys.
    pub fn stream(&self, index: u64) -> SyntheticStream {
        SyntheticStream {
            rng: rng::stream(self.spec.seed, index),
            permutation: Permutation::new(self.spec.keys, self.spec.seed, 0),
            sampler: Arc::clone(&self.sampler),
            spec: self.spec,
        }
    }

    /// The numbers it was built from.
    pub fn spec(&self) -> SyntheticSpec {
        self.spec
    }
}

/// An endless stream of requests.
#[derive(Clone, Debug)]
pub struct SyntheticStream {
    rng: WorkloadRng,
    permutation: Permutation,
    sampler: Arc<RankSampler>,
    spec: SyntheticSpec,
}

impl SyntheticStream {
    /// The next operation.
    #[inline]
    pub fn next_operation(&mut self) -> Operation {
        if rng::unit(&mut self.rng) < self.spec.get_share {
            Operation::Get
        } else {
            Operation::Set
        }
    }

    /// The number of the next key.
    #[inline]
    pub fn next_key(&mut self) -> u64 {
        self.permutation.apply(self.sampler.sample(&mut self.rng))
    }

    /// Makes other keys hot: generation 0 is where every stream starts, streams of the same
    /// generation agree.
    pub fn switch_to(&mut self, generation: u64) {
        self.permutation = Permutation::new(self.spec.keys, self.spec.seed, generation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn spec() -> SyntheticSpec {
        SyntheticSpec {
            keys: 1000,
            popularity: Popularity::Zipf { exponent: 0.99 },
            get_share: 0.95,
            seed: 11,
        }
    }

    fn hottest(stream: &mut SyntheticStream) -> u64 {
        let mut drawn: HashMap<u64, u32> = HashMap::new();
        (0..20_000).for_each(|_| *drawn.entry(stream.next_key()).or_default() += 1);
        drawn
            .into_iter()
            .max_by_key(|&(_, n)| n)
            .map(|(key, _)| key)
            .unwrap()
    }

    #[test]
    fn one_seed_is_one_workload() {
        let draw = |seed, index| {
            let mut stream = SyntheticSpec { seed, ..spec() }
                .build()
                .unwrap()
                .stream(index);
            (0..100)
                .map(|_| (stream.next_operation(), stream.next_key()))
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(11, 0), draw(11, 0));
        assert_ne!(draw(11, 0), draw(11, 1));
        assert_ne!(draw(11, 0), draw(12, 0));
    }

    #[test]
    fn streams_share_their_hot_keys_and_switch_them_together() {
        let workload = spec().build().unwrap();
        let (mut one, mut two) = (workload.stream(0), workload.stream(1));
        let before = hottest(&mut one);
        assert_eq!(before, hottest(&mut two));
        one.switch_to(1);
        two.switch_to(1);
        let after = hottest(&mut one);
        assert_eq!(after, hottest(&mut two));
        assert_ne!(before, after);
        one.switch_to(0);
        assert_eq!(before, hottest(&mut one));
    }

    #[test]
    fn the_mix_is_what_was_asked_for() {
        let mut stream = spec().build().unwrap().stream(0);
        let gets = (0..100_000)
            .filter(|_| stream.next_operation() == Operation::Get)
            .count();
        // Six standard deviations of a binomial with p = 0.95.
        assert!((94_586..95_414).contains(&gets), "{gets}");
        for share in [-0.1, 1.1, f64::NAN] {
            assert!(
                SyntheticSpec {
                    get_share: share,
                    ..spec()
                }
                .build()
                .is_err()
            );
        }
    }
}
