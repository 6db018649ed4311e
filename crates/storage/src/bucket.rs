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

/// Words before the locations: three of tags, one about who passed by.
const HEAD_WORDS: usize = 4;
const PASSED: usize = HEAD_WORDS - 1;
/// In the last word of the head, the filter stands above the count.
const FILTER_SHIFT: u32 = 8;

/// One cache line of the index.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    /// From the lowest byte of the first word on, twelve tags of a byte each, [`FREE`] for a free slot. In
    /// the last word, the entries that passed by here because it was full: their number in the lowest
    /// byte, their tags as a filter of 24 bits above. In one piece, so that a lookup loads it at once.
    head: [u32; HEAD_WORDS],
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
    pub(crate) const EMPTY: Bucket = Bucket {
        head: [0; HEAD_WORDS],
        locations: [0; BUCKET_SLOTS],
    };

    /// The slots that have this tag.
    #[inline]
    pub(crate) fn matches(&self, tag: u8) -> Slots {
        Slots(equal_bytes(&self.head, tag))
    }

    /// The slots that hold an entry.
    #[inline]
    pub(crate) fn used(&self) -> Slots {
        Slots(!self.matches(FREE).0 & ALL_SLOTS)
    }

    #[inline]
    pub(crate) fn free_slot(&self) -> Option<usize> {
        self.matches(FREE).next()
    }

    #[inline]
    pub(crate) fn location(&self, slot: usize) -> u32 {
        self.locations[slot]
    }

    #[inline]
    pub(crate) fn set(&mut self, slot: usize, tag: u8, location: u32) {
        self.set_tag(slot, tag);
        self.locations[slot] = location;
    }

    #[inline]
    fn set_tag(&mut self, slot: usize, tag: u8) {
        let (word, shift) = (&mut self.head[slot / 4], slot % 4 * 8);
        *word = *word & !(0xff << shift) | u32::from(tag) << shift;
    }

    #[inline]
    pub(crate) fn relocate(&mut self, slot: usize, location: u32) {
        self.locations[slot] = location;
    }

    #[inline]
    pub(crate) fn clear(&mut self, slot: usize) {
        self.set_tag(slot, FREE);
    }

    /// Entries that passed by because it was full; [`OVERFLOW_STUCK`] stands for that many or more.
    #[inline]
    pub(crate) fn overflow(&self) -> u8 {
        // The lowest byte.
        self.head[PASSED] as u8
    }

    /// The bit of the filter that stands for a tag.
    #[inline]
    fn filter_bit(tag: u8) -> u32 {
        (u32::from(tag) * FILTER_BITS) >> 8
    }

    /// Whether an entry with this tag may stand in a later bucket because this one was full.
    #[inline]
    pub(crate) fn may_have_passed(&self, tag: u8) -> bool {
        self.head[PASSED] >> (Self::filter_bit(tag) + FILTER_SHIFT) & 1 != 0
    }

    pub(crate) fn pass_by(&mut self, tag: u8) {
        let passed = &mut self.head[PASSED];
        *passed |= 1 << (Self::filter_bit(tag) + FILTER_SHIFT);
        *passed += u32::from(*passed as u8 != OVERFLOW_STUCK);
    }

    /// One entry that passed by is gone. The filter is cleared with the last.
    pub(crate) fn forget_passing(&mut self) {
        if self.overflow() != OVERFLOW_STUCK {
            self.head[PASSED] -= 1;
        }
        if self.overflow() == 0 {
            self.head[PASSED] = 0;
        }
    }
}

/// A set of a bucket's slots: bit i for slot i. Higher bits count for nothing.
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
            let mut tags = [0; BUCKET_SLOTS];
            tags.fill_with(|| (rng.next_u64() % 4 * 85) as u8);
            let mut bucket = Bucket::EMPTY;
            bucket.head[PASSED] = rng.next_u64() as u32;
            for (slot, tag) in tags.iter().enumerate() {
                // Over another, whose bits must not stay.
                bucket.set(slot, rng.next_u64() as u8, 0);
                bucket.set(slot, *tag, slot as u32);
            }
            let bytes: Vec<u8> = bucket.head.iter().flat_map(|w| w.to_le_bytes()).collect();
            assert_eq!(bytes[..BUCKET_SLOTS], tags);
            for tag in [0, 1, 84, 85, 86, 128, 170, 254, 255] {
                let expected: Vec<usize> = (0..12).filter(|&i| tags[i] == tag).collect();
                assert_eq!(bucket.matches(tag).collect::<Vec<_>>(), expected);
                let of_all = (0..16).filter(|&i| bytes[i] == tag).map(|i| 1 << i);
                let of_all = of_all.sum::<u32>();
                assert_eq!(equal_bytes(&bucket.head, tag), of_all);
                assert_eq!(equal_bytes_in_words(&bucket.head, tag), of_all);
            }
            let used: Vec<usize> = (0..12).filter(|&i| tags[i] != FREE).collect();
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
            assert_eq!(bucket.head, Bucket::EMPTY.head);
        }
    }
}
