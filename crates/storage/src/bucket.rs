//! One cache line of the index: twelve tags, twelve locations, and who passed by.

use crate::hash::TableHash;
use crate::processor::equal_bytes;

/// Entries of a bucket: tags, overflow and locations fill a cache line.
pub(crate) const BUCKET_SLOTS: usize = 12;
/// An overflow count that stays until the shard is rebuilt.
pub(crate) const OVERFLOW_STUCK: u8 = u8::MAX;
/// The tag of a free slot.
const FREE: u8 = 0;
/// Bits of the filter of tags that passed by.
const FILTER_BITS: u32 = 24;

/// One cache line of the index.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    /// Tags of the twelve slots, [`FREE`] for a free one.
    tags: [u8; BUCKET_SLOTS],
    /// Entries that passed by here because it was full.
    overflow: u8,
    /// Tags of the entries that passed by, as a filter of 24 bits; empty when `overflow` is zero.
    passed: [u8; 3],
    locations: [u32; BUCKET_SLOTS],
}

pub(crate) const BUCKET_BYTES: usize = size_of::<Bucket>();
const _: () = assert!(BUCKET_BYTES == 64);

/// A hash's tag: its lowest eight bits; zero is taken, so it shares with one.
#[inline]
pub(crate) fn tag_of(hash: TableHash) -> u8 {
    (hash.0 as u8).max(1)
}

impl Bucket {
    pub const EMPTY: Bucket = Bucket {
        tags: [FREE; BUCKET_SLOTS],
        overflow: 0,
        passed: [0; 3],
        locations: [0; BUCKET_SLOTS],
    };

    /// The slots that have this tag.
    #[inline]
    pub fn matches(&self, tag: u8) -> Slots {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.tags;
        let first = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let rest = u32::from_le_bytes([i, j, k, l]);
        Slots(equal_bytes(first, rest, tag) & ALL_SLOTS)
    }

    /// The slots that hold an entry.
    #[inline]
    pub fn used(&self) -> Slots {
        Slots(self.matches(FREE).0 ^ ALL_SLOTS)
    }

    #[inline]
    pub fn free_slot(&self) -> Option<usize> {
        self.matches(FREE).next()
    }

    #[inline]
    pub fn location(&self, slot: usize) -> u32 {
        self.locations[slot]
    }

    #[inline]
    pub fn set(&mut self, slot: usize, tag: u8, location: u32) {
        self.tags[slot] = tag;
        self.locations[slot] = location;
    }

    #[inline]
    pub fn relocate(&mut self, slot: usize, location: u32) {
        self.locations[slot] = location;
    }

    #[inline]
    pub fn clear(&mut self, slot: usize) {
        self.tags[slot] = FREE;
    }

    /// Entries that passed by because it was full; [`OVERFLOW_STUCK`] stands for that many or more.
    pub fn overflow(&self) -> u8 {
        self.overflow
    }

    /// The bit of the filter that stands for a tag.
    #[inline]
    fn filter_bit(tag: u8) -> u32 {
        (u32::from(tag) * FILTER_BITS) >> 8
    }

    /// The filter, in the upper three bytes.
    #[inline]
    fn filter(&self) -> u32 {
        let [low, middle, high] = self.passed;
        u32::from_le_bytes([self.overflow, low, middle, high])
    }

    /// Whether an entry with this tag may stand in a later bucket because this one was full.
    #[inline]
    pub fn may_have_passed(&self, tag: u8) -> bool {
        (self.filter() >> 8) >> Self::filter_bit(tag) & 1 != 0
    }

    pub fn pass_by(&mut self, tag: u8) {
        let bit = Self::filter_bit(tag);
        self.passed[bit as usize >> 3] |= 1 << (bit & 7);
        self.overflow = self.overflow.saturating_add(1);
    }

    /// One entry that passed by is gone. The filter is cleared with the last.
    pub fn forget_passing(&mut self) {
        if self.overflow != OVERFLOW_STUCK {
            self.overflow -= 1;
        }
        if self.overflow == 0 {
            self.passed = [0; 3];
        }
    }
}

/// A set of a bucket's slots: bit i for slot i.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots(u32);

const ALL_SLOTS: u32 = (1 << BUCKET_SLOTS) - 1;

impl Iterator for Slots {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let slot = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (slot < BUCKET_SLOTS).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::equal_bytes_in_words;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    #[test]
    fn matches_agrees_with_looking_at_each_tag() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
        for _ in 0..10_000 {
            let mut bucket = Bucket::EMPTY;
            bucket.overflow = 3;
            bucket.tags.fill_with(|| (rng.next_u64() % 4 * 85) as u8);
            for tag in [0, 1, 84, 85, 86, 128, 170, 254, 255] {
                let expected: Vec<usize> = (0..12).filter(|&i| bucket.tags[i] == tag).collect();
                assert_eq!(bucket.matches(tag).collect::<Vec<_>>(), expected);
                let (first, rest) = bucket.tags.split_at(8);
                let first = u64::from_le_bytes(first.try_into().unwrap());
                let rest = u32::from_le_bytes(rest.try_into().unwrap());
                let portable = Slots(equal_bytes_in_words(first, rest, tag) & ALL_SLOTS);
                assert_eq!(portable.collect::<Vec<_>>(), expected);
            }
            let used: Vec<usize> = (0..12).filter(|&i| bucket.tags[i] != FREE).collect();
            assert_eq!(bucket.used().collect::<Vec<_>>(), used);
        }
    }

    #[test]
    fn the_filter_forgets_when_the_last_has_gone() {
        for tag in 1..=255u8 {
            let mut bucket = Bucket::EMPTY;
            assert!(!bucket.may_have_passed(tag));
            bucket.pass_by(tag);
            bucket.pass_by(tag ^ 0x80);
            assert!(bucket.may_have_passed(tag) && bucket.may_have_passed(tag ^ 0x80));
            bucket.forget_passing();
            assert!(bucket.may_have_passed(tag), "a filter cannot take one out");
            bucket.forget_passing();
            assert_eq!((bucket.overflow(), bucket.passed), (0, [0; 3]));
        }
    }
}
