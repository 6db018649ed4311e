//! Generations of a ring's slices: under which names their items are stored, and as what their CAS uniques are shown.
//!
//! A slice that changes hands has a new *generation*. Its items go by names that hold it, so what a former owner still has is never read
//! again, and nothing need be deleted there. Generation 0 is what was there before the ring: its items go by the application's keys.
//!
//! Two servers give the same CAS uniques to different items. So applications see a unique with the generation in its
//! [highest bits](mask): one that was read before a move meets nothing behind it.

use crate::name::{Kind, MARK, number_of, prefix};

/// Bits of a ring's incarnation: eight letters of six.
pub const INCARNATION_BITS: u32 = 48;

/// The last generation that has a name: four letters of six bits. A plan each five seconds takes two years and a half to get there.
pub const GENERATION_MAX: u64 = (1 << 24) - 1;

/// Bytes before the key of an item of a generation.
pub const PREFIX_LEN: usize = Kind::Generation.prefix_len();

/// Where the letters of the generation stand in a name: behind those of the incarnation.
const GENERATION_AT: core::ops::Range<usize> = PREFIX_LEN - 5..PREFIX_LEN - 1;

/// Bits of a unique below the generation. A server that stores 100,000 items a second counts for two months to fill them.
const UNIQUE_BITS: u32 = 39;

/// What names of a generation begin with. Nothing for generation 0.
pub fn name_prefix(incarnation: u64, generation: u64) -> Option<[u8; PREFIX_LEN]> {
    let incarnation = incarnation & ((1 << INCARNATION_BITS) - 1);
    let token = u128::from(incarnation) | u128::from(generation) << INCARNATION_BITS;
    (generation > 0).then(|| prefix(Kind::Generation, token))
}

/// The generation and the application's key in what a server calls an item of a ring. What only looks like a name is no application's key
/// there, so that the letters are not looked at one by one.
#[inline]
pub fn taken_apart(name: &[u8]) -> (u64, &[u8]) {
    match name.split_at_checked(PREFIX_LEN) {
        Some((prefix, key)) if is_prefix(prefix) && !key.is_empty() => {
            (number_of(&prefix[GENERATION_AT]), key)
        }
        _ => (0, name),
    }
}

#[inline]
fn is_prefix(prefix: &[u8]) -> bool {
    prefix.starts_with(&[MARK, Kind::Generation.letter()]) && prefix.ends_with(b":")
}

/// What uniques of a generation are combined with (exclusive or) where an application sees them, and what those it names are combined with
/// again. No generation has another's.
#[inline]
pub fn mask(generation: u64) -> u64 {
    (generation & GENERATION_MAX) << UNIQUE_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_key_is_found_again_in_the_names_of_all_generations() {
        let mut names = BTreeSet::new();
        for incarnation in [0, 1, (1 << INCARNATION_BITS) - 1] {
            assert_eq!(name_prefix(incarnation, 0), None);
            for generation in [1, 2, 63, 64, GENERATION_MAX] {
                let prefix = name_prefix(incarnation, generation).expect("a prefix");
                let name = [&prefix[..], b"key"].concat();
                assert_eq!(taken_apart(&name), (generation, &b"key"[..]));
                assert!(names.insert(name), "two have one name");
            }
        }
        assert_eq!(taken_apart(b"key"), (0, &b"key"[..]));
    }

    #[test]
    fn a_unique_of_one_generation_is_none_of_another() {
        let mut shown = BTreeSet::new();
        for generation in [0, 1, 2, GENERATION_MAX] {
            for unique in [1, 2, (1 << UNIQUE_BITS) - 1] {
                let seen = unique ^ mask(generation);
                assert!(shown.insert(seen), "two are shown alike");
                assert_eq!(seen ^ mask(generation), unique);
                assert!(seen < 1 << 63, "clients count with signs");
            }
        }
    }
}
