//! Which key is the hottest: a seeded bijection from ranks to key numbers.
//!
//! A shuffled array would do, but costs eight bytes for every key of a billion, and a cache miss for
//! each draw. Here a number is a place in a grid of about √n × √n, and its row and column take turns at
//! being moved on, around the end, by a hash of the other (a Feistel network whose halves are not equal;
//! Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). Each step can be undone, so
//! that the whole is a bijection whatever the hash. Columns are a power of two, so that nothing is
//! divided; the grid has less than one row more than `n`. Walking on from places beyond `n` (they
//! form cycles that come back) makes it a bijection of `0..n`.

use crate::rng::mix64;

/// Rounds of the network. Three make it look random to anyone who sees its results (Luby and Rackoff,
/// "How to construct pseudorandom permutations from pseudorandom functions", 1988).
const ROUNDS: usize = 3;

/// Odd numbers whose products spread low bits into high ones, from SplitMix64 as [`mix64`] has it.
const SPREAD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9];

/// A bijection of `0..n`, in O(1) memory.
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    rows: u64,
    /// Logarithm of the number of columns, 1 to 31.
    column_bits: u32,
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
        let column_bits = (n.ilog2() / 2).max(1);
        let base = mix64(seed ^ mix64(generation ^ 0x7065_726d));
        Permutation {
            n,
            rows: n.div_ceil(1 << column_bits),
            column_bits,
            round_keys: core::array::from_fn(|round| mix64(base.wrapping_add(round as u64))),
        }
    }

    /// Where `rank` goes.
    ///
    /// # Panics
    /// When `rank` is not in `0..n`.
    #[inline(always)]
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
        let mask = (1u64 << self.column_bits) - 1;
        let (mut row, mut column) = (number >> self.column_bits, number & mask);
        // The hottest ranks share a row: it is moved first.
        row = self.moved_row(row, spread(column ^ self.round_keys[0]));
        column = (column + (spread(row ^ self.round_keys[1]) >> (64 - self.column_bits))) & mask;
        row = self.moved_row(row, spread(column ^ self.round_keys[2]));
        row << self.column_bits | column
    }

    /// A row moved on by a share of all rows, around the end.
    #[inline]
    fn moved_row(&self, row: u64, hash: u64) -> u64 {
        let to = row + ((u128::from(hash) * u128::from(self.rows)) >> 64) as u64;
        if to < self.rows { to } else { to - self.rows }
    }
}

/// A hash whose high bits depend on all of the number's.
#[inline]
fn spread(number: u64) -> u64 {
    // One product alone is nearly linear: neighbours would stay at a few fixed distances.
    let hash = number.wrapping_mul(SPREAD[0]);
    (hash ^ (hash >> 32)).wrapping_mul(SPREAD[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{assert_fits_counts, seed};

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

    /// Neighbouring ranks, and so the hottest, go to places that look independent: chi-square over
    /// where a rank goes in many generations, and over the distance between neighbours.
    #[test]
    fn places_look_random() {
        let seed = seed();
        let n = 1_000_003;
        let bins = 64;
        let mut of_rank = [[0u64; 64]; 3];
        let mut of_distance = [0u64; 64];
        for generation in 0..40_000 {
            let permutation = Permutation::new(n, seed, generation);
            let places: Vec<u64> = (0..3).map(|rank| permutation.apply(rank)).collect();
            for (counts, place) in of_rank.iter_mut().zip(&places) {
                counts[(place * bins / n) as usize] += 1;
            }
            let distance = (places[1] + n - places[0]) % n;
            of_distance[(distance * bins / n) as usize] += 1;
        }
        for counts in of_rank.iter().chain([&of_distance]) {
            assert_fits_counts("places", &[1.0; 64], counts);
        }
        // Within one permutation: thousand neighbours fall evenly too.
        let permutation = Permutation::new(n, seed, 0);
        let mut counts = [0u64; 64];
        (0..20_000).for_each(|rank| counts[(permutation.apply(rank) * bins / n) as usize] += 1);
        assert_fits_counts("neighbours", &[1.0; 64], &counts);
    }

    #[test]
    fn large_domains_need_no_memory() {
        for n in [1_000_000_000, u64::from(u32::MAX) + 5, 1 << 62] {
            let permutation = Permutation::new(n, 3, 0);
            let ids: std::collections::HashSet<u64> = (0..10_000)
                .map(|rank| permutation.apply(rank * (n / 10_000)))
                .collect();
            assert_eq!(ids.len(), 10_000);
        }
    }
}
