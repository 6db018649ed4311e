//! Tests of distributions: chi-square against exact probabilities and Kolmogorov–Smirnov against exact
//! cumulative ones, both refused below one chance in a million. Every test prints its seed; a run with
//! `EVENKEEL_SEED` takes another one.

use statrs::distribution::{ChiSquared, ContinuousCDF};

/// A right sampler fails a test with this probability.
const SIGNIFICANCE: f64 = 1e-6;

/// Bins that expect fewer draws than this are put together: below, the statistic is not chi-square
/// distributed.
const EXPECTED_MIN: f64 = 8.0;

/// The seed of a random test, printed.
pub(crate) fn seed() -> u64 {
    let seed = match std::env::var("EVENKEEL_SEED") {
        Ok(seed) => seed.parse().expect("EVENKEEL_SEED must be a number"),
        Err(_) => 20_261_122,
    };
    println!("EVENKEEL_SEED={seed}");
    seed
}

/// Chi-square test of draws from `0..n` with the given exact probabilities.
pub(crate) fn assert_fits(
    what: &str,
    n: u64,
    exact: impl Fn(u64) -> f64,
    draws: u64,
    mut draw: impl FnMut() -> u64,
) {
    let mut drawn = vec![0u64; n as usize];
    (0..draws).for_each(|_| drawn[draw() as usize] += 1);
    let weights: Vec<f64> = (0..n).map(exact).collect();
    assert_fits_counts(what, &weights, &drawn);
}

/// Chi-square test of counts against weights; neighbouring bins are put together where they expect
/// little.
pub(crate) fn assert_fits_counts(what: &str, weights: &[f64], drawn: &[u64]) {
    let p = chi_square(weights, drawn);
    assert!(p >= SIGNIFICANCE, "{what}: chi-square test says {p:e}");
}

/// Probability that draws by these weights differ from them as much as these counts do.
fn chi_square(weights: &[f64], drawn: &[u64]) -> f64 {
    let total: f64 = weights.iter().sum();
    let draws: u64 = drawn.iter().sum();
    let (mut statistic, mut bins) = (0.0, 0u32);
    let (mut expected, mut seen) = (0.0, 0);
    // What is left at the end goes into the last full bin.
    let mut last = (0.0, 0u64);
    let add = |(expected, seen): (f64, u64)| {
        let distance: f64 = seen as f64 - expected;
        distance * distance / expected
    };
    for (weight, &count) in weights.iter().zip(drawn) {
        if *weight == 0.0 && count > 0 {
            return 0.0;
        }
        expected += weight / total * draws as f64;
        seen += count;
        if expected >= EXPECTED_MIN {
            if bins > 0 {
                statistic += add(last);
            }
            last = (expected, seen);
            bins += 1;
            (expected, seen) = (0.0, 0);
        }
    }
    last = (last.0 + expected, last.1 + seen);
    statistic += add(last);
    if bins < 2 {
        return if seen == 0 || expected > 0.0 {
            1.0
        } else {
            0.0
        };
    }
    ChiSquared::new(f64::from(bins - 1))
        .expect("there are two bins")
        .sf(statistic)
}

/// Kolmogorov–Smirnov test of draws against an exact cumulative distribution, for distributions with
/// or without steps (with steps it is the more lenient).
pub(crate) fn assert_fits_cdf(what: &str, mut drawn: Vec<f64>, cdf: impl Fn(f64) -> f64) {
    drawn.sort_by(f64::total_cmp);
    let n = drawn.len() as f64;
    let mut distance = 0f64;
    let mut from = 0;
    while from < drawn.len() {
        let value = drawn[from];
        let to = from + drawn[from..].partition_point(|&other| other <= value);
        distance = distance.max((cdf(value) - to as f64 / n).abs());
        from = to;
    }
    // P(√n·D > x) is about 2·exp(−2x²) for large n (Kolmogorov 1933).
    let limit = (-(SIGNIFICANCE / 2.0).ln() / 2.0).sqrt() / n.sqrt();
    assert!(distance < limit, "{what}: distance {distance} >= {limit}");
}

/// The tests themselves tell wrong from right.
#[test]
fn a_wrong_distribution_is_found() {
    assert!(chi_square(&[1.0, 1.0], &[5000, 5000]) > 0.9);
    assert!(chi_square(&[1.0, 1.0], &[5300, 4700]) < SIGNIFICANCE);
    assert!(chi_square(&[1.0, 0.0], &[5000, 1]) == 0.0);
    assert!(chi_square(&[1.0; 4], &[2500, 2500, 2500, 2500]) > 0.9);
    let even: Vec<f64> = (0..10_000).map(|n| f64::from(n) / 1e4).collect();
    assert_fits_cdf("even", even.clone(), |x| x + 1e-4);
    let other = std::panic::catch_unwind(|| assert_fits_cdf("other", even, |x| x * x));
    assert!(other.is_err());
}
