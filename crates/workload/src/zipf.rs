//! Zipf's law: rank k (from 1) is drawn with probability k⁻ˢ / Σ i⁻ˢ.
//!
//! Two samplers with the same result. Small key spaces get an *alias table* (Walker 1977, built as
//! in Vose 1991): one random number, one memory access, exact up to 2⁻³² of a slot. Large ones use
//! *rejection-inversion* (Hörmann and Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", 1996): no table, about one and a half logarithms and
//! exponentials a draw, exact for any n. Inverting the cumulative sums was rejected: it needs a
//! table as large and a binary search on top.

use crate::rng::{WorkloadRng, unit};
use crate::{WorkloadError, refuse};
use rand_xoshiro::rand_core::Rng;

/// Largest exponent. At 2 the hottest key has more than 60 % of all requests; 47 of the 51 Twitter
/// clusters whose exponent was published lie below (Yang, Yue and Rashmi, OSDI 2020).
pub const EXPONENT_MAX: f64 = 2.0;

/// Most keys of a workload. The rank is a float inside the sampler, exact up to 2⁵³; a billion keys
/// is what memory and patience allow.
pub const KEYS_MAX: u64 = 1_000_000_000;

/// Most keys that get an alias table: 8 bytes a key, so 8 MiB, built in milliseconds.
pub const ALIAS_TABLE_KEYS_MAX: u64 = 1 << 20;

/// Draws ranks `0..n` by Zipf's law.
#[derive(Clone, Debug)]
pub(crate) enum Zipf {
    Table(AliasTable),
    Formula(RejectionInversion),
}

impl Zipf {
    /// O(n) time and memory up to [`ALIAS_TABLE_KEYS_MAX`] keys, O(1) above.
    pub(crate) fn new(n: u64, exponent: f64) -> Result<Self, WorkloadError> {
        if !(0.0..=EXPONENT_MAX).contains(&exponent) {
            return refuse(format!(
                "Zipf exponent {exponent} is not within 0 and {EXPONENT_MAX}"
            ));
        }
        assert!(
            (1..=KEYS_MAX).contains(&n),
            "the caller checks the number of keys"
        );
        if n <= ALIAS_TABLE_KEYS_MAX {
            let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-exponent)).collect();
            Ok(Zipf::Table(AliasTable::new(&weights)))
        } else {
            Ok(Zipf::Formula(RejectionInversion::new(n, exponent)))
        }
    }

    #[inline]
    pub(crate) fn sample(&self, rng: &mut WorkloadRng) -> u64 {
        match self {
            Zipf::Table(table) => table.sample(rng),
            Zipf::Formula(formula) => formula.sample(rng),
        }
    }
}

/// Every slot is hit equally often; it stands for itself below `keep`, else for its alias.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Probability of the slot's own rank, in units of 2⁻³².
    keep: u32,
    alias: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct AliasTable {
    slots: Box<[Slot]>,
}

impl AliasTable {
    /// A table that draws index `i` with probability `weights[i] / Σ weights`.
    fn new(weights: &[f64]) -> Self {
        assert!(!weights.is_empty() && weights.len() as u64 <= ALIAS_TABLE_KEYS_MAX);
        let scale = weights.len() as f64 / weights.iter().sum::<f64>();
        // What each index still has to give away, in slots.
        let mut left: Vec<f64> = weights.iter().map(|w| w * scale).collect();
        let mut slots: Box<[Slot]> = (0..weights.len())
            .map(|i| Slot {
                keep: u32::MAX,
                alias: i as u32,
            })
            .collect();
        let (mut poor, mut rich): (Vec<usize>, Vec<usize>) =
            (0..left.len()).partition(|&i| left[i] < 1.0);
        while let (Some(&small), Some(&large)) = (poor.last(), rich.last()) {
            poor.pop();
            slots[small] = Slot {
                keep: (left[small] * 2f64.powi(32)) as u32,
                alias: large as u32,
            };
            // The rich index fills the rest of the poor one's slot.
            left[large] -= 1.0 - left[small];
            if left[large] < 1.0 {
                rich.pop();
                poor.push(large);
            }
        }
        // Whoever remains has one slot but for rounding, and keeps it: alias == itself.
        AliasTable { slots }
    }

    #[inline]
    fn sample(&self, rng: &mut WorkloadRng) -> u64 {
        let random = rng.next_u64();
        // High half: the slot. Unrejected, so a slot is off by at most n / 2^32 < 2^-12 of its share.
        let index = ((random >> 32) * self.slots.len() as u64) >> 32;
        let slot = self.slots[index as usize];
        if (random as u32) < slot.keep {
            index
        } else {
            u64::from(slot.alias)
        }
    }
}

/// Names as in the paper: `H` is an antiderivative of the law's hat h(x) = x⁻ˢ.
#[derive(Clone, Debug)]
pub(crate) struct RejectionInversion {
    n: f64,
    exponent: f64,
    /// `H(n + 1/2)`, the upper end of the area to draw from.
    area_end: f64,
    /// `H(3/2) - h(1)`, its lower end: rank 1's area is exactly its probability.
    area_start: f64,
    /// Distance from the rank within which a draw needs no test.
    squeeze: f64,
}

impl RejectionInversion {
    fn new(n: u64, exponent: f64) -> Self {
        let mut law = RejectionInversion {
            n: n as f64,
            exponent,
            area_end: 0.0,
            area_start: 0.0,
            squeeze: 0.0,
        };
        law.area_end = law.antiderivative(law.n + 0.5);
        law.area_start = law.antiderivative(1.5) - 1.0;
        law.squeeze = 2.0 - law.inverse(law.antiderivative(2.5) - law.weight(2.0));
        law
    }

    #[inline]
    fn sample(&self, rng: &mut WorkloadRng) -> u64 {
        loop {
            let area = self.area_end + unit(rng) * (self.area_start - self.area_end);
            let x = self.inverse(area);
            let rank = (x + 0.5).floor().clamp(1.0, self.n);
            if rank - x <= self.squeeze
                || area >= self.antiderivative(rank + 0.5) - self.weight(rank)
            {
                return rank as u64 - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// ∫ t⁻ˢ dt from 1 to x = (x¹⁻ˢ − 1)/(1 − s), and ln x at s = 1. Written so that it loses no
    /// digits near s = 1.
    fn antiderivative(&self, x: f64) -> f64 {
        let log = x.ln();
        log * exp_m1_over((1.0 - self.exponent) * log)
    }

    /// Solves `antiderivative(x) = area` for x.
    fn inverse(&self, area: f64) -> f64 {
        // At s > 1 the area has an upper bound that rounding may touch.
        let t = (area * (1.0 - self.exponent)).max(-1.0);
        (area * ln_1p_over(t)).exp()
    }
}

/// Below this the two quotients are 1 to more digits than a float has after the linear term.
const SERIES_BELOW: f64 = 1e-8;

/// (eᵗ − 1)/t, and its limit 1 at 0.
fn exp_m1_over(t: f64) -> f64 {
    if t.abs() < SERIES_BELOW {
        1.0 + t / 2.0
    } else {
        t.exp_m1() / t
    }
}

/// ln(1 + t)/t, and its limit 1 at 0.
fn ln_1p_over(t: f64) -> f64 {
    if t.abs() < SERIES_BELOW {
        1.0 - t / 2.0
    } else {
        t.ln_1p() / t
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    const DRAWS: usize = 200_000;

    /// Twin: the exact cumulative sums. Kolmogorov–Smirnov at a level of about 10⁻⁶, for both
    /// samplers, at all exponents around the special case s = 1.
    #[test]
    fn both_samplers_follow_the_exact_cumulative_distribution() {
        let limit = 2.7 / (DRAWS as f64).sqrt();
        for (case, &exponent) in [
            0.0,
            0.2,
            0.5,
            0.99,
            0.999_999_999,
            1.0,
            1.000_000_001,
            1.2,
            2.0,
        ]
        .iter()
        .enumerate()
        {
            for n in [1u64, 2, 3, 10, 1000, 50_000] {
                let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-exponent)).collect();
                let total: f64 = weights.iter().sum();
                let seed = case as u64 * 1000 + n;
                println!("seed {seed}, exponent {exponent}, n {n}");
                for sampler in [
                    Zipf::new(n, exponent).unwrap(),
                    Zipf::Formula(RejectionInversion::new(n, exponent)),
                ] {
                    let mut rng = stream(seed, 0);
                    let mut drawn = vec![0u32; n as usize];
                    (0..DRAWS).for_each(|_| drawn[sampler.sample(&mut rng) as usize] += 1);
                    let (mut exact, mut seen, mut distance) = (0.0, 0.0, 0f64);
                    for k in 0..n as usize {
                        exact += weights[k] / total;
                        seen += f64::from(drawn[k]) / DRAWS as f64;
                        distance = distance.max((exact - seen).abs());
                    }
                    assert!(distance < limit, "{sampler:.0?}: {distance} >= {limit}");
                }
            }
        }
    }

    /// The table's own probabilities, summed slot by slot, against the law: no sampling error.
    #[test]
    fn the_alias_table_holds_the_law() {
        for exponent in [0.0, 0.7, 0.99, 1.0, 2.0] {
            let n = 20_000usize;
            let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-exponent)).collect();
            let total: f64 = weights.iter().sum();
            let table = AliasTable::new(&weights);
            let mut held = vec![0.0; n];
            for (index, slot) in table.slots.iter().enumerate() {
                let keep = f64::from(slot.keep) / 2f64.powi(32);
                held[index] += keep / n as f64;
                held[slot.alias as usize] += (1.0 - keep) / n as f64;
            }
            for k in 0..n {
                let exact = weights[k] / total;
                assert!(
                    (held[k] - exact).abs() < 1e-9 + exact * 1e-6,
                    "rank {k}, s {exponent}"
                );
            }
        }
    }

    /// A billion keys: the share of the hottest and the mean log-rank against integrals.
    #[test]
    fn a_billion_keys_need_no_table() {
        let (n, exponent) = (KEYS_MAX, 0.99);
        let sampler = Zipf::new(n, exponent).unwrap();
        assert!(matches!(sampler, Zipf::Formula(_)));
        // Euler–Maclaurin: exact sum of the first 1000, integral plus half the ends after.
        let head: f64 = (1..1000).map(|k| f64::from(k).powf(-exponent)).sum();
        let power = 1.0 - exponent;
        let tail = ((n as f64).powf(power) - 1000f64.powf(power)) / power
            + (1000f64.powf(-exponent) + (n as f64).powf(-exponent)) / 2.0;
        let seed = 77;
        println!("seed {seed}");
        let mut rng = stream(seed, 0);
        let ranks: Vec<u64> = (0..DRAWS).map(|_| sampler.sample(&mut rng)).collect();
        let share = |below: u64| ranks.iter().filter(|&&r| r < below).count() as f64 / DRAWS as f64;
        for (below, exact) in [(1, 1.0 / (head + tail)), (999, head / (head + tail))] {
            let deviation = 5.0 * (exact * (1.0 - exact) / DRAWS as f64).sqrt();
            assert!(
                (share(below) - exact).abs() < deviation,
                "{below}: {} vs {exact}",
                share(below)
            );
        }
        assert!(ranks.iter().any(|&r| r > n / 2), "the cold half is reached");
        assert!(ranks.iter().all(|&r| r < n));
    }

    #[test]
    fn exponents_out_of_range_are_refused() {
        for exponent in [-0.1, 2.01, f64::NAN, f64::INFINITY] {
            assert!(Zipf::new(10, exponent).is_err());
        }
    }
}
