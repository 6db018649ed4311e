//! What an item's size counts for when memory is short: a small item is cheap to keep.
//!
//! A cache is judged by how many reads it answers, and a byte given to small items answers more of
//! them. GDSF (Cherkasova, 1998) therefore orders items by reads over size. Queues can come close to
//! that without an order: an item starts with more credit the smaller it is, a large one must be read
//! twice to leave the small queue, and a round through the main queue costs a small item only now and
//! then. Everything is measured against the mean item of the cachelet, so where all items have about
//! the same size this is S3-FIFO unchanged.
//!
//! Anyone who is small and never read goes too: after as many times more rounds as it is smaller than half
//! the mean.

use crate::hash::TableHash;

/// How many times smaller than the mean an item is that starts with a frequency of one, two, three.
const CREDIT_FROM: [u64; 3] = [2, 4, 8];
/// How many times larger than the mean an item is that one read does not keep.
const LARGE_FROM: u64 = 4;
/// An item of this part of the mean or more pays for each round.
const PAYS_ALWAYS_FROM: u64 = 2;
/// An odd number without a pattern (the golden ratio), which spreads bits over all bits.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// What sizes are measured against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    mean: u64,
}

impl Scale {
    /// The scale of so many items that take this many bytes.
    #[inline]
    pub fn of(bytes: usize, items: usize) -> Self {
        Scale {
            mean: bytes as u64 / (items as u64).max(1),
        }
    }

    /// The frequency that a newcomer starts with.
    #[inline]
    pub fn credit(self, size: usize) -> u8 {
        let smaller = |times: &&u64| (size as u64).saturating_mul(**times) <= self.mean;
        // At most three.
        CREDIT_FROM.iter().filter(smaller).count() as u8
    }

    /// How many reads a newcomer needs beyond those that others need to stay.
    #[inline]
    pub fn reads_more(self, size: usize) -> u8 {
        u8::from(size as u64 > self.mean.saturating_mul(LARGE_FROM))
    }

    /// Whether this round costs an item one of its frequency. Drawn from the item's hash and the stamp
    /// of its segment, which is another in each round.
    #[inline]
    pub fn round_costs(self, size: usize, hash: TableHash, stamp: u64) -> bool {
        let draw = (hash.0 ^ stamp).wrapping_mul(MIX) >> 48;
        // The draw is below 2^16, sizes below 2^32.
        draw * self.mean.min(u64::from(u32::MAX)) < (size as u64 * PAYS_ALWAYS_FROM) << 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sizes_are_treated_as_if_there_were_none() {
        let scale = Scale::of(100_000, 1_000);
        for size in [51, 100, 400] {
            assert_eq!((scale.credit(size), scale.reads_more(size)), (0, 0));
            assert!((0..1_000).all(|stamp| scale.round_costs(size, TableHash(7), stamp)));
        }
        assert_eq!(Scale::of(0, 0).credit(1), 0);
    }

    #[test]
    fn the_smaller_the_longer() {
        let scale = Scale::of(100_000, 1_000);
        assert_eq!([50, 25, 12].map(|size| scale.credit(size)), [1, 2, 3]);
        assert_eq!(scale.reads_more(401), 1);
        let costs = |size| {
            let rounds = 0..100_000u64;
            rounds
                .filter(|stamp| {
                    // Hashes have no pattern; neither must these.
                    let hash = TableHash((stamp + 1).wrapping_mul(MIX).rotate_left(29));
                    scale.round_costs(size, hash, *stamp)
                })
                .count()
        };
        for (size, expected) in [(25, 50_000), (10, 20_000), (1, 2_000)] {
            let costs = costs(size);
            println!("{size} bytes pay for {costs} rounds");
            assert!(costs.abs_diff(expected) < expected / 10);
        }
    }
}
