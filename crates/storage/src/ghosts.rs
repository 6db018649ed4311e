//! Who was evicted lately: what comes back soon was evicted too early.
//!
//! S3-FIFO (section 4.1) keeps a *ghost queue* of the keys that left the small queue unread. A key that
//! is stored again while it is remembered enters the main queue at once: it is asked for at distances
//! that the small queue is too short for. Without ghosts such keys never reach the main queue.
//!
//! A ghost is a fingerprint of 16 bits in one of many lines of a cache line each, and each line forgets
//! its oldest first, so that all of them together forget about in order. One in some two thousand
//! keys is taken for one that it is not, which does no harm: it starts in the main queue.
//!
//! Rejected: ghosts in the free slots of the index, which cost no memory but are a tenth of the items,
//! and a tenth of the items remembered is worth little (`docs/performance.md`).

use crate::hash::TableHash;

/// Fingerprints of a line.
const LINE_PRINTS: usize = 31;
/// Ghosts take at most this part of a cachelet's segments. With items of 300 bytes, as many are
/// remembered as there are; with smaller items fewer, because density counts for more there.
const BYTES_PART: usize = 128;
/// More ghosts than nine for ten items would keep what is asked for too rarely to stay (S3-FIFO: as
/// many as the main queue has items, which is nine tenths).
const ITEMS_PART: (usize, usize) = (9, 10);
/// The lines are made anew when they should be this many quarters of what they are, or more.
const REMAKE_QUARTERS: usize = 6;

/// A cache line of fingerprints; zero is none.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line {
    prints: [u16; LINE_PRINTS],
    /// Which one is overwritten next.
    oldest: u16,
}

const LINE_BYTES: usize = size_of::<Line>();
const _: () = assert!(LINE_BYTES == 64);

/// Fingerprints of items that were evicted.
#[derive(Debug, Default)]
pub(crate) struct Ghosts {
    lines: Vec<Line>,
}

#[inline]
fn print_of(hash: TableHash) -> u16 {
    // The lowest bits; zero is taken, so it shares with one.
    (hash.0 as u16).max(1)
}

impl Ghosts {
    /// Bytes that the fingerprints take.
    pub fn bytes(&self) -> usize {
        self.lines.capacity() * LINE_BYTES
    }

    /// How many bytes the fingerprints of a cachelet of this size should take, if that is quite
    /// different from what they take now.
    pub fn bytes_wanted(&self, segment_bytes: usize, items: usize) -> Option<usize> {
        let for_items = (items * ITEMS_PART.0).div_ceil(ITEMS_PART.1 * LINE_PRINTS);
        let wanted = for_items.min(segment_bytes / BYTES_PART / LINE_BYTES);
        let now = self.lines.len();
        let differs = wanted * 4 >= now * REMAKE_QUARTERS || now * 4 >= wanted * REMAKE_QUARTERS;
        (differs && wanted != now).then_some(wanted * LINE_BYTES)
    }

    /// Forgets all and takes this much memory from now on.
    pub fn remake(&mut self, bytes: usize) {
        let empty = Line {
            prints: [0; LINE_PRINTS],
            oldest: 0,
        };
        self.lines = vec![empty; bytes / LINE_BYTES];
    }

    #[inline]
    fn line_of(&mut self, hash: TableHash) -> Option<&mut Line> {
        // The upper half of the hash, scaled to the number of lines.
        let at = (hash.0 >> 32).wrapping_mul(self.lines.len() as u64) >> 32;
        self.lines.get_mut(at as usize)
    }

    /// Remembers an item.
    #[inline]
    pub fn put(&mut self, hash: TableHash) {
        let Some(line) = self.line_of(hash) else {
            return;
        };
        let at = usize::from(line.oldest) % LINE_PRINTS;
        line.prints[at] = print_of(hash);
        line.oldest = (at + 1) as u16;
    }

    /// Whether the item is remembered; it no longer is afterwards.
    #[inline]
    pub fn take(&mut self, hash: TableHash) -> bool {
        let print = print_of(hash);
        let Some(line) = self.line_of(hash) else {
            return false;
        };
        // In one go over the line, which vectors do; a search would stop at each.
        let found = line
            .prints
            .iter()
            .fold(false, |found, &other| found | (other == print));
        if found {
            for other in &mut line.prints {
                *other = if *other == print { 0 } else { *other };
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    #[test]
    fn the_latest_are_remembered_and_taken_once() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
        let mut ghosts = Ghosts::default();
        assert!(
            !ghosts.take(TableHash(5)),
            "without lines nobody is remembered"
        );
        ghosts.remake(1_000 * LINE_BYTES);
        let hashes: Vec<TableHash> = (0..60_000).map(|_| TableHash(rng.next_u64())).collect();
        hashes.iter().for_each(|&hash| ghosts.put(hash));
        let taken = |ghosts: &mut Ghosts, hashes: &[TableHash]| {
            hashes.iter().filter(|&&hash| ghosts.take(hash)).count()
        };
        let strangers: Vec<TableHash> = (0..20_000).map(|_| TableHash(rng.next_u64())).collect();
        let mistaken = taken(&mut ghosts, &strangers);
        let (old, late) = hashes.split_at(45_000);
        let late_taken = taken(&mut ghosts, late);
        let old_taken = taken(&mut ghosts, &old[..20_000]);
        println!("{mistaken} strangers, {late_taken} late, {old_taken} old");
        assert!(mistaken < 40, "one in two thousand");
        assert!(late_taken > 14_500 && old_taken < 1_000);
        assert!(taken(&mut ghosts, late) < 20, "nobody is taken twice");
    }

    #[test]
    fn they_are_as_many_as_fit_the_items_and_the_memory() {
        let mut ghosts = Ghosts::default();
        assert_eq!(ghosts.bytes_wanted(1 << 20, 0), None);
        let of_large = ghosts.bytes_wanted(64 << 20, 31_000).unwrap();
        assert_eq!(of_large, 900 * LINE_BYTES);
        ghosts.remake(of_large);
        assert_eq!(ghosts.bytes_wanted(64 << 20, 35_000), None);
        assert_eq!(ghosts.bytes_wanted(16 << 10, 35_000), Some(2 * LINE_BYTES));
        assert_eq!(ghosts.bytes_wanted(64 << 20, 0), Some(0));
    }
}
