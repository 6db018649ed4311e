//! Draws ranks: rank 0 is the hottest.
//!
//! Ranks are cut into *classes* of neighbours. An alias table picks the class by its exact weight, a
//! second random number the rank in it. Inside a class all ranks are equally likely (uniform, hotspot,
//! measured tables), or fall off by a power (Zipf): there a rank is proposed uniformly and accepted in
//! proportion to its weight. Zipf's classes grow with their ranks by 1/32, so that at least 97 % of the
//! proposals at exponent 1 are accepted by one comparison of integers, without a logarithm. A billion
//! ranks make a thousand classes, 40 KiB, that stay in the processor's cache.
//!
//! Rejected: an alias table over all ranks, which misses the cache on most draws and is out of the
//! question for a billion; rejection-inversion (Hörmann and Derflinger, 1996), which needs a logarithm
//! and an exponential for each draw; the approximation in YCSB's generator (Gray et al., SIGMOD 1994),
//! which is not exact from rank 3 on.

use crate::alias::AliasTable;
use crate::rng::WorkloadRng;
use rand_xoshiro::rand_core::Rng;

/// Ranks of Zipf's law that have a class of their own.
const ZIPF_SINGLES: u64 = 512;

/// Share by which Zipf's classes grow.
const ZIPF_GROWTH: u64 = 32;

/// Neighbouring ranks.
#[derive(Clone, Copy, Debug)]
struct Class {
    first: u64,
    len: u64,
    /// A proposal whose fraction is not above this, in units of 2⁻⁶⁴, is accepted unseen: the weight of
    /// the last rank in units of the first's.
    sure: u64,
}

/// A law over ranks.
#[derive(Clone, Debug)]
pub(crate) struct Ranks {
    table: AliasTable,
    classes: Box<[Class]>,
    /// Share of each class, for [`Ranks::probability`].
    shares: Box<[f64]>,
    /// Weights inside a class fall off by this power; 0 where they are equal.
    exponent: f64,
}

impl Ranks {
    /// Classes of `(ranks, weight)` in the order of ranks; inside a class every rank is equally likely.
    ///
    /// # Panics
    /// When there is no class, or one without ranks.
    pub(crate) fn of_classes(classes: &[(u64, f64)]) -> Self {
        let mut first = 0;
        let mut built = Vec::with_capacity(classes.len());
        for &(len, _) in classes {
            assert!(len > 0, "a class has ranks");
            built.push(Class {
                first,
                len,
                sure: u64::MAX,
            });
            first += len;
        }
        let weights: Vec<f64> = classes.iter().map(|&(_, weight)| weight).collect();
        Ranks::new(built, &weights, 0.0)
    }

    /// Zipf's law: rank k (from 1) has probability k⁻ˢ / Σ i⁻ˢ, for any s from 0.
    pub(crate) fn zipf(n: u64, exponent: f64) -> Self {
        let (mut classes, mut weights) = (Vec::new(), Vec::new());
        let mut first = 0;
        while first < n {
            let len = if first < ZIPF_SINGLES {
                1
            } else {
                (first / ZIPF_GROWTH).min(n - first)
            };
            let (low, high) = ((first + 1) as f64, (first + len) as f64);
            weights.push(power_sum(low, high, exponent));
            let ratio = (high / low).powf(-exponent);
            let sure = if len == 1 {
                u64::MAX
            } else {
                // A little less than the truth: what is sure must not be wrong by rounding.
                (ratio * (1.0 - 1e-12) * 2f64.powi(64)) as u64
            };
            classes.push(Class { first, len, sure });
            first += len;
        }
        Ranks::new(classes, &weights, exponent)
    }

    fn new(classes: Vec<Class>, weights: &[f64], exponent: f64) -> Self {
        let total: f64 = weights.iter().sum();
        Ranks {
            table: AliasTable::new(weights),
            classes: classes.into(),
            shares: weights.iter().map(|weight| weight / total).collect(),
            exponent,
        }
    }

    /// The next rank.
    #[inline(always)]
    pub(crate) fn sample(&self, rng: &mut WorkloadRng) -> u64 {
        let class = match &*self.classes {
            [only] => only,
            classes => &classes[self.table.pick(rng.next_u64())],
        };
        // A class of one rank takes a random number, too: whether it needs one is what a processor cannot
        // foretell, and a wrong guess takes longer than the number.
        loop {
            // Whole part: the rank. Fraction: uniform whatever the rank, in steps of len / 2^64.
            let product = u128::from(rng.next_u64()) * u128::from(class.len);
            let (offset, fraction) = ((product >> 64) as u64, product as u64);
            if fraction <= class.sure || self.accepts(class, offset, fraction) {
                return class.first + offset;
            }
        }
    }

    #[cold]
    fn accepts(&self, class: &Class, offset: u64, fraction: u64) -> bool {
        let ratio = (class.first + 1 + offset) as f64 / (class.first + 1) as f64;
        fraction as f64 / 2f64.powi(64) < ratio.powf(-self.exponent)
    }

    /// How many ranks there are.
    pub(crate) fn len(&self) -> u64 {
        self.classes
            .last()
            .map_or(0, |class| class.first + class.len)
    }

    /// Probability of a rank; 0 beyond the last.
    pub(crate) fn probability(&self, rank: u64) -> f64 {
        let index = self.classes.partition_point(|class| class.first <= rank) - 1;
        let class = &self.classes[index];
        if rank >= class.first + class.len {
            return 0.0;
        }
        if self.exponent == 0.0 || class.len == 1 {
            return self.shares[index] / class.len as f64;
        }
        let (low, high) = ((class.first + 1) as f64, (class.first + class.len) as f64);
        let weight = ((rank + 1) as f64).powf(-self.exponent);
        self.shares[index] * weight / power_sum(low, high, self.exponent)
    }
}

/// Σ k⁻ˢ for k from `low` to `high`: the single term, or the Euler–Maclaurin formula, whose remainder
/// is below 10⁻¹⁴ of the sum where `low` is above [`ZIPF_SINGLES`] and s up to 5.
fn power_sum(low: f64, high: f64, exponent: f64) -> f64 {
    let f = |x: f64| x.powf(-exponent);
    if low == high {
        return f(low);
    }
    // ∫ x⁻ˢ dx = low¹⁻ˢ · (rᵗ − 1)/t with r = high/low and t = 1 − s, whose limit at t = 0 is ln r.
    let log = (high / low).ln();
    let t = (1.0 - exponent) * log;
    let quotient = if t.abs() < 1e-8 {
        1.0 + t / 2.0
    } else {
        t.exp_m1() / t
    };
    let integral = low * f(low) * log * quotient;
    let first = |x: f64| -exponent * f(x) / x;
    let third = |x: f64| first(x) * (exponent + 1.0) * (exponent + 2.0) / (x * x);
    integral + (f(low) + f(high)) / 2.0 + (first(high) - first(low)) / 12.0
        - (third(high) - third(low)) / 720.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;
    use crate::statistics::{assert_fits, assert_fits_counts, seed};

    const EXPONENTS: [f64; 11] = [
        0.0,
        0.2,
        0.5,
        0.99,
        0.999_999_999,
        1.0,
        1.000_000_001,
        1.2,
        2.0,
        2.6774,
        5.0,
    ];

    /// Twin: adding term by term.
    #[test]
    fn sums_of_powers_are_sums() {
        for exponent in EXPONENTS {
            for (low, high) in [(513, 528), (1000, 1031), (1_000_000, 1_031_250)] {
                let exact: f64 = (low..=high).map(|k| f64::from(k).powf(-exponent)).sum();
                let formula = power_sum(f64::from(low), f64::from(high), exponent);
                assert!((formula / exact - 1.0).abs() < 1e-11, "{exponent}, {low}");
            }
        }
    }

    /// Twin: the law's definition, rank by rank, over classes of all kinds.
    #[test]
    fn probabilities_are_those_of_the_law() {
        for exponent in EXPONENTS {
            for n in [1, 2, 511, 512, 513, 529, 100_000] {
                let ranks = Ranks::zipf(n, exponent);
                assert_eq!(ranks.len(), n);
                let total: f64 = (1..=n).map(|k| (k as f64).powf(-exponent)).sum();
                for rank in (0..n).step_by((n as usize / 1000).max(1)) {
                    let exact = ((rank + 1) as f64).powf(-exponent) / total;
                    let ratio = ranks.probability(rank) / exact;
                    assert!((ratio - 1.0).abs() < 1e-9, "s {exponent}, n {n}, {rank}");
                }
                assert_eq!(ranks.probability(n), 0.0);
            }
        }
    }

    /// Chi-square against the exact probabilities, every rank its own bin where it is expected often
    /// enough.
    #[test]
    fn zipf_is_drawn_as_it_is_defined() {
        let seed = seed();
        for (case, &exponent) in EXPONENTS.iter().enumerate() {
            for n in [1u64, 2, 3, 10, 1000, 50_000] {
                let total: f64 = (1..=n).map(|k| (k as f64).powf(-exponent)).sum();
                let exact = |rank: u64| ((rank + 1) as f64).powf(-exponent) / total;
                let ranks = Ranks::zipf(n, exponent);
                let mut rng = stream(seed, case as u64 * 100_000 + n);
                let what = format!("zipf({exponent}) over {n}");
                assert_fits(&what, n, exact, 200_000, || ranks.sample(&mut rng));
            }
        }
    }

    /// A billion ranks, in bins at powers of two whose weights are added by the twin's formula in
    /// pieces of another length than the sampler's classes.
    #[test]
    fn zipf_over_a_billion_ranks_is_drawn_as_it_is_defined() {
        let seed = seed();
        let n = 1_000_000_000u64;
        for (case, exponent) in [0.0, 0.5, 0.99, 1.0, 1.5, 2.0].into_iter().enumerate() {
            let ranks = Ranks::zipf(n, exponent);
            let mut rng = stream(seed, case as u64);
            let bins = 30;
            let bin = |rank: u64| (rank + 1).ilog2() as usize;
            let weights: Vec<f64> = (0..bins)
                .map(|bin| {
                    let (low, high) = (1u64 << bin, ((2u64 << bin) - 1).min(n));
                    if high < 1 << 16 {
                        (low..=high).map(|k| (k as f64).powf(-exponent)).sum()
                    } else {
                        let step = (high - low) / 1000 + 1;
                        (low..=high)
                            .step_by(step as usize)
                            .map(|from| {
                                let to = (from + step - 1).min(high);
                                power_sum(from as f64, to as f64, exponent)
                            })
                            .sum::<f64>()
                    }
                })
                .collect();
            let mut drawn = vec![0u64; bins];
            (0..300_000).for_each(|_| drawn[bin(ranks.sample(&mut rng))] += 1);
            assert_fits_counts(&format!("zipf({exponent}) over 10^9"), &weights, &drawn);
        }
    }

    #[test]
    fn classes_are_drawn_by_their_weights() {
        let seed = seed();
        let classes = [(3u64, 5.0), (1, 1.0), (10, 2.0), (2, 0.0)];
        let ranks = Ranks::of_classes(&classes);
        let exact = |rank: u64| match rank {
            0..3 => 5.0 / 8.0 / 3.0,
            3 => 1.0 / 8.0,
            4..14 => 2.0 / 8.0 / 10.0,
            _ => 0.0,
        };
        assert!((0..17).all(|rank| (ranks.probability(rank) - exact(rank)).abs() < 1e-12));
        let mut rng = stream(seed, 0);
        assert_fits("classes", 16, exact, 100_000, || ranks.sample(&mut rng));
    }
}
