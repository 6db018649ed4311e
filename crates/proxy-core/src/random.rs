//! Chance, from one seed.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Where a core has its random numbers from.
#[derive(Debug)]
pub(crate) struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(SplitMix64::seed_from_u64(seed))
    }

    /// A number in 0..1 for pauses.
    pub fn jitter(&mut self) -> f64 {
        // 53 bits are what an f64 holds exactly.
        (self.u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn u32(&mut self) -> u32 {
        (self.u64() >> 32) as u32
    }
}
