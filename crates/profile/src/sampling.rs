//! Which commands are recorded: whole pages, and all commands of some keys.
//!
//! A sample of commands would get both wrong: a page would look smaller than it is, and a key would look as if
//! fewer sessions used it. So there are two samples, each complete in itself; a command is recorded if either has it.

use serde::{Deserialize, Serialize};

/// One of how many pages, and one of how many keys, are recorded. 1 is all, 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Anyone who has the same seed picks the same.
    pub seed: u64,
    /// One of this many pages of sessions.
    pub pages: u32,
    /// One of this many keys.
    pub keys: u32,
}

impl Sampling {
    /// All of everything.
    pub const FULL: Sampling = Sampling {
        seed: 0,
        pages: 1,
        keys: 1,
    };

    /// Whether this page of this session is recorded.
    #[inline]
    pub fn picks_page(&self, session: u64, page: u32) -> bool {
        // Apart from the keys' sample.
        picks(
            mixed(session, self.seed ^ u64::from(page) << 32 ^ 1),
            self.pages,
        )
    }

    /// Whether the key with this hash is recorded: any hash of a key's bytes, as long as it is always the same one.
    #[inline]
    pub fn picks_key(&self, hash: u64) -> bool {
        picks(mixed(hash, self.seed), self.keys)
    }
}

#[inline]
fn picks(mixed: u64, one_of: u32) -> bool {
    match one_of {
        0 => false,
        // Whether it is in the first of this many parts of all numbers, without a division.
        one_of => (u128::from(mixed) * u128::from(one_of)) >> 64 == 0,
    }
}

/// One multiplication whose halves are put together, as wyhash does: hashes of 32 bits are spread over 64.
#[inline]
fn mixed(hash: u64, seed: u64) -> u64 {
    let product =
        u128::from(hash ^ 0xa076_1d64_78bd_642f) * u128::from(seed ^ 0xe703_7ed1_a0b4_28db);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_so_many_is_picked_by_hashes_of_32_and_of_64_bits() {
        for (one_of, least, most) in [(2, 49_000, 51_000), (10, 9_500, 10_500), (100, 880, 1_120)] {
            for seed in [0, 1, 77, u64::MAX] {
                let sampling = Sampling {
                    seed,
                    pages: one_of,
                    keys: one_of,
                };
                let short = |n: u64| n.wrapping_mul(0x9e37_79b9) & 0xffff_ffff;
                let long = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let keys = (0..100_000)
                    .filter(|n| sampling.picks_key(short(*n)))
                    .count();
                assert!(
                    (least..most).contains(&keys),
                    "1 of {one_of}, seed {seed}: {keys}"
                );
                let keys = (0..100_000)
                    .filter(|n| sampling.picks_key(long(*n)))
                    .count();
                assert!(
                    (least..most).contains(&keys),
                    "1 of {one_of}, seed {seed}: {keys}"
                );
                let pages = (0..100_000u32)
                    .filter(|n| sampling.picks_page(long(u64::from(n / 10)), n % 10));
                let pages = pages.count();
                assert!(
                    (least..most).contains(&pages),
                    "1 of {one_of}, seed {seed}: {pages}"
                );
            }
        }
    }

    #[test]
    fn all_and_none() {
        let none = Sampling {
            pages: 0,
            keys: 0,
            ..Sampling::FULL
        };
        for n in 0..1000 {
            assert!(Sampling::FULL.picks_key(n) && Sampling::FULL.picks_page(n, 3));
            assert!(!none.picks_key(n) && !none.picks_page(n, 3));
        }
    }
}
