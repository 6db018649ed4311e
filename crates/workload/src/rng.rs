//! Random numbers that stay the same for ever.
//!
//! The generator is xoshiro256++ by name (Blackman and Vigna, "Scrambled linear pseudorandom number
//! generators", 2021), and the two draws that everything else is made of stand here and not in a
//! library whose algorithms may change between versions. Golden values in the tests pin both.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The generator of every workload.
pub type WorkloadRng = Xoshiro256PlusPlus;

/// The generator of one stream: the same seed gives unrelated numbers to each stream.
pub fn stream(seed: u64, stream: u64) -> WorkloadRng {
    Xoshiro256PlusPlus::seed_from_u64(mix64(seed ^ mix64(stream)))
}

/// A number in `[0, 1)`, a multiple of 2⁻⁵³.
#[inline]
pub fn unit(rng: &mut WorkloadRng) -> f64 {
    unit_of(rng.next_u64())
}

/// The number in `[0, 1)` that belongs to a random number or a hash.
#[inline]
pub fn unit_of(random: u64) -> f64 {
    const SCALE: f64 = 1.0 / (1u64 << 53) as f64;
    (random >> 11) as f64 * SCALE
}

/// A number in `0..bound`, each equally likely (Lemire, "Fast random integer generation in an
/// interval", 2019).
///
/// # Panics
/// When `bound` is 0.
#[inline]
pub fn below(rng: &mut WorkloadRng, bound: u64) -> u64 {
    assert!(bound > 0, "a range has at least one member");
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(bound);
        let low = product as u64;
        // The lowest 2^64 mod bound products belong to values that came up once too often.
        if low >= bound || low >= bound.wrapping_neg() % bound {
            return (product >> 64) as u64;
        }
    }
}

/// A bijection of 64-bit numbers that spreads every input bit over the whole output (the output
/// function of SplitMix64; Steele, Lea and Flood, 2014).
#[inline]
pub fn mix64(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workload of last year must be the workload of today.
    #[test]
    fn the_generator_is_pinned() {
        assert_eq!(
            mix64(0),
            0xe220_a839_7b1d_cdaf,
            "first output of SplitMix64 from 0"
        );
        let mut rng = stream(42, 7);
        let drawn: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        // Computed by a second implementation of SplitMix64 seeding and xoshiro256++.
        assert_eq!(
            drawn,
            [
                714_532_490_285_697_850,
                14_734_027_452_058_226_545,
                17_787_581_430_263_840_407
            ]
        );
    }

    #[test]
    fn draws_stay_inside_their_range_and_reach_both_ends() {
        let mut rng = stream(1, 0);
        for bound in [1, 2, 3, 7, 1 << 40, u64::MAX] {
            assert!((0..1000).all(|_| below(&mut rng, bound) < bound));
        }
        let mut seen = [0u32; 6];
        (0..6000).for_each(|_| seen[below(&mut rng, 6) as usize] += 1);
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
        assert!(
            (0..10_000)
                .map(|_| unit(&mut rng))
                .all(|u| (0.0..1.0).contains(&u))
        );
    }
}
