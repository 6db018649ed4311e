//! Which key is the hottest: a seeded bijection from ranks to key numbers.
//!
//! A shuffled array would do, but costs eight bytes for every key of a billion. A Feistel network
//! is a bijection of 2^(2b) numbers whatever its round function; walking on from results outside
//! `0..n` (they form cycles that come back) makes it one of `0..n`. The domain is less than four
//! times `n`, so a walk takes less than four steps on average.

use crate::rng::mix64;

/// Rounds of the network. Four make it look random (Luby and Rackoff, 1988).
const ROUNDS: usize = 4;

/// A bijection of `0..n`, in O(1) memory.
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    half_bits: u32,
    round_keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..n` that belongs to `seed` and `generation`.
    ///
    /// # Panics
    /// When `n` is 0 or above 2⁶².
    pub fn new(n: u64, seed: u64, generation: u64) -> Self {
        assert!(
            (1..=1 << 62).contains(&n),
            "permutations have 1 to 2^62 members, not {n}"
        );
        let bits = u64::BITS - (n - 1).leading_zeros();
        let base = mix64(seed ^ mix64(generation ^ 0x7065_726d));
        Permutation {
            n,
            half_bits: bits.div_ceil(2).max(1),
            round_keys: core::array::from_fn(|round| mix64(base.wrapping_add(round as u64))),
        }
    }

    /// Where `rank` goes.
    ///
    /// # Panics
    /// When `rank` is not in `0..n`.
    #[inline]
    pub fn apply(&self, rank: u64) -> u64 {
        assert!(rank < self.n, "rank {rank} of {}", self.n);
        let mut number = rank;
        loop {
            number = self.network(number);
            if number < self.n {
                return number;
            }
        }
    }

    #[inline]
    fn network(&self, number: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.round_keys {
            (left, right) = (right, left ^ (mix64(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twin: an array of marks.
    #[test]
    fn every_number_is_reached_once() {
        for n in (1..70).chain([255, 256, 257, 1000, 65_537]) {
            for seed in 0..3 {
                let permutation = Permutation::new(n, seed, 0);
                let mut reached = vec![false; n as usize];
                for rank in 0..n {
                    let id = permutation.apply(rank) as usize;
                    assert!(!reached[id], "n {n}, seed {seed}: {id} reached twice");
                    reached[id] = true;
                }
            }
        }
    }

    #[test]
    fn a_generation_moves_nearly_every_key() {
        let n = 200_000;
        let (before, after) = (Permutation::new(n, 9, 0), Permutation::new(n, 9, 1));
        let hottest: std::collections::HashSet<u64> = (0..100).map(|r| before.apply(r)).collect();
        let still = (0..100)
            .filter(|&r| hottest.contains(&after.apply(r)))
            .count();
        assert!(still <= 2, "{still} of the 100 hottest keys stayed hot");
        // The switch keeps the seed's promise: the same generation is the same permutation.
        assert!((0..1000).all(|r| Permutation::new(n, 9, 1).apply(r) == after.apply(r)));
    }

    #[test]
    fn large_domains_need_no_memory() {
        let permutation = Permutation::new(1_000_000_000, 3, 0);
        let ids: std::collections::HashSet<u64> =
            (0..10_000).map(|r| permutation.apply(r)).collect();
        assert_eq!(ids.len(), 10_000);
    }
}
