//! Who was evicted lately: what comes back soon was evicted too early.
//!
//! S3-FIFO (section 4.1) keeps a *ghost queue* of the keys that left the small queue unread. A key that
//! is stored again while it is remembered enters the main queue at once: it is asked for at distances
//! that the small queue is too short for. Without ghosts such keys never reach the main queue. A large item
//! (`worth.rs`) does not: where sizes differ, large ones that return would crowd out many small ones.
//!
//! A ghost is a fingerprint of 16 bits in one of many lines of a cache line each, and each line forgets
//! its oldest first, so that all of them together forget about in order. One in some two thousand
//! keys is taken for one that it is not, which does no harm: it starts in the main queue.
//!
//! One in sixty-four keys is remembered for longer, in lines of its own. How many of those come back at
//! all tells a load that goes through more keys than fit, again and again (a loop, a repeated scan), from
//! one whose keys come once: see [`Returning`].
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

/// One of this many keys is remembered for longer.
const SAMPLE: u64 = 64;
/// Lines for those, to each of the others: they reach back sixteen times as far.
const SAMPLED_LINES_PART: usize = 4;
/// What a sampled insert counts for after the next: about the last thirty count.
const RETURNING_DECAY: f32 = 0.97;
/// Fewer sampled inserts than this say nothing.
const RETURNING_SEEN_MIN: f32 = 4.0;

/// How many of the keys that are stored had been evicted before, near or far back.
#[derive(Debug, Default)]
pub(crate) struct Returning {
    seen: f32,
    returned: f32,
}

impl Returning {
    fn count(&mut self, returned: bool) {
        self.seen = self.seen * RETURNING_DECAY + 1.0;
        self.returned = self.returned * RETURNING_DECAY + f32::from(u8::from(returned));
    }

    /// Whether most keys that are stored are old acquaintances, so that what misses is not who comes
    /// once but who comes back too late.
    pub fn is_the_rule(&self) -> bool {
        self.seen >= RETURNING_SEEN_MIN && self.returned * 2.0 >= self.seen
    }
}

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

/// A cache line's place in a list of them, by the upper half of the hash.
#[inline]
fn line_of(lines: &mut [Line], hash: TableHash) -> Option<&mut Line> {
    let at = (hash.0 >> 32).wrapping_mul(lines.len() as u64) >> 32;
    lines.get_mut(at as usize)
}

impl Line {
    const EMPTY: Line = Line {
        prints: [0; LINE_PRINTS],
        oldest: 0,
    };

    #[inline]
    fn put(&mut self, print: u16) {
        let at = usize::from(self.oldest) % LINE_PRINTS;
        self.prints[at] = print;
        self.oldest = (at + 1) as u16;
    }

    #[inline]
    fn take(&mut self, print: u16) -> bool {
        // In one go over the line, which vectors do; a search would stop at each.
        let found = self
            .prints
            .iter()
            .fold(false, |found, &other| found | (other == print));
        if found {
            for other in &mut self.prints {
                *other = if *other == print { 0 } else { *other };
            }
        }
        found
    }
}

/// Fingerprints of items that were evicted.
#[derive(Debug, Default)]
pub(crate) struct Ghosts {
    lines: Vec<Line>,
    /// Of the sampled keys.
    sampled: Vec<Line>,
}

#[inline]
fn print_of(hash: TableHash) -> u16 {
    // The lowest bits; zero is taken, so it shares with one.
    (hash.0 as u16).max(1)
}

impl Ghosts {
    /// Bytes that the fingerprints take.
    pub fn bytes(&self) -> usize {
        (self.lines.capacity() + self.sampled.capacity()) * LINE_BYTES
    }

    /// How many bytes the fingerprints of a cachelet of this size should take, if that is quite
    /// different from what they take now.
    pub fn bytes_wanted(&self, segment_bytes: usize, items: usize) -> Option<usize> {
        let for_items = (items * ITEMS_PART.0).div_ceil(ITEMS_PART.1 * LINE_PRINTS);
        let with_sampled = for_items + for_items.div_ceil(SAMPLED_LINES_PART);
        let wanted = with_sampled.min(segment_bytes / BYTES_PART / LINE_BYTES);
        let now = self.lines.len() + self.sampled.len();
        let differs = wanted * 4 >= now * REMAKE_QUARTERS || now * 4 >= wanted * REMAKE_QUARTERS;
        (differs && wanted != now).then_some(wanted * LINE_BYTES)
    }

    /// Forgets all and takes this much memory from now on.
    pub fn remake(&mut self, bytes: usize) {
        let lines = bytes / LINE_BYTES;
        let sampled = lines.div_ceil(SAMPLED_LINES_PART + 1);
        self.lines = vec![Line::EMPTY; lines - sampled];
        self.sampled = vec![Line::EMPTY; sampled];
    }

    #[inline]
    fn is_sampled(hash: TableHash) -> bool {
        // Bits that neither the fingerprint nor the choice of the line uses.
        (hash.0 >> 16).is_multiple_of(SAMPLE)
    }

    /// Remembers an item.
    #[inline]
    pub fn put(&mut self, hash: TableHash) {
        if let Some(line) = line_of(&mut self.lines, hash) {
            line.put(print_of(hash));
        }
        if Self::is_sampled(hash)
            && let Some(line) = line_of(&mut self.sampled, hash)
        {
            line.put(print_of(hash));
        }
    }

    /// Whether an item that is stored left lately; it is no longer remembered afterwards. Counts
    /// whether it left at all, if it is of the sample.
    #[inline]
    pub fn take(&mut self, hash: TableHash, returning: &mut Returning) -> bool {
        if Self::is_sampled(hash)
            && let Some(line) = line_of(&mut self.sampled, hash)
        {
            returning.count(line.take(print_of(hash)));
        }
        line_of(&mut self.lines, hash).is_some_and(|line| line.take(print_of(hash)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::QueueName;
    use crate::{NEVER, NewItem, PoolConfig, SegmentPool, Store};
    use evenkeel_types::{CacheletId, Version};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    #[test]
    fn the_latest_are_remembered_and_taken_once() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
        let mut ghosts = Ghosts::default();
        let mut returning = Returning::default();
        assert!(
            !ghosts.take(TableHash(5), &mut returning),
            "without lines nobody is remembered"
        );
        ghosts.remake(1_250 * LINE_BYTES);
        let hashes: Vec<TableHash> = (0..60_000).map(|_| TableHash(rng.next_u64())).collect();
        hashes.iter().for_each(|&hash| ghosts.put(hash));
        let mut taken = |hashes: &[TableHash]| {
            let taken = hashes.iter().filter(|&&h| ghosts.take(h, &mut returning));
            (taken.count(), returning.is_the_rule())
        };
        let strangers: Vec<TableHash> = (0..20_000).map(|_| TableHash(rng.next_u64())).collect();
        let (mistaken, rule) = taken(&strangers);
        assert!(!rule, "strangers do not return");
        let (old, late) = hashes.split_at(45_000);
        let (late_taken, rule) = taken(late);
        assert!(rule, "who left lately returns");
        let (old_taken, rule) = taken(&old[..20_000]);
        assert!(rule, "the sample knows also who left long ago");
        println!("{mistaken} strangers, {late_taken} late, {old_taken} old");
        assert!(mistaken < 40, "one in two thousand");
        assert!(late_taken > 14_500 && old_taken < 1_000);
        assert!(taken(late).0 < 20, "nobody is taken twice");
    }

    #[test]
    fn they_are_as_many_as_fit_the_items_and_the_memory() {
        let mut ghosts = Ghosts::default();
        assert_eq!(ghosts.bytes_wanted(1 << 20, 0), None);
        let of_large = ghosts.bytes_wanted(64 << 20, 31_000).unwrap();
        assert_eq!(of_large, (900 + 225) * LINE_BYTES);
        ghosts.remake(of_large);
        assert_eq!(ghosts.bytes(), of_large);
        assert_eq!(ghosts.bytes_wanted(64 << 20, 35_000), None);
        assert_eq!(ghosts.bytes_wanted(16 << 10, 35_000), Some(2 * LINE_BYTES));
        assert_eq!(ghosts.bytes_wanted(64 << 20, 0), Some(0));
    }

    /// What is stored again soon after it was evicted goes to the main queue, unless it is large.
    #[test]
    fn who_returns_is_no_newcomer_unless_it_is_large() {
        let pool = SegmentPool::new(PoolConfig {
            limit_bytes: 4 << 20,
            item_size_max: 1 << 20,
            cachelets_expected: 1,
        });
        let mut store = Store::new(pool, 11);
        let id = CacheletId(0);
        store.create_cachelet(id);
        let is_large = |number: u32| number.is_multiple_of(50);
        let value = [b'v'; 3_000];
        // Some three times as many as fit; nobody reads them, so the oldest go.
        let insert = |store: &mut Store, number: u32| {
            let len = if is_large(number) { value.len() } else { 270 };
            let key = number.to_le_bytes();
            let new = NewItem {
                key: &key,
                value: [&value[..len], &[]],
                flags: 0,
                expires_at: NEVER,
                version: Version(1),
            };
            let was_there = store.peek(id, &key, 1).is_some();
            store.insert(id, new, 1).expect("a store that evicts");
            let inner = store.inner(0).expect("it was created");
            let place = inner.find(&key, store.hash(&key)).expect("just stored");
            assert!(!was_there, "it had been evicted, or never stored");
            inner.segments[place.segment as usize].queue
        };
        let queues = (0..36_000).map(|number| insert(&mut store, number));
        let mistaken = queues.filter(|queue| *queue == QueueName::Main).count();
        assert!(mistaken < 60, "{mistaken}: one in two thousand");
        let (mut small_in_main, mut large) = (0, 0);
        for number in 18_000..20_000 {
            match insert(&mut store, number) {
                QueueName::Main if is_large(number) => panic!("a large item came back to stay"),
                QueueName::Main => small_in_main += 1,
                QueueName::Small => large += u32::from(is_large(number)),
                QueueName::Copies => panic!("nothing here is a copy"),
            }
        }
        println!("{small_in_main} small ones in the main queue, {large} large ones not");
        assert_eq!(large, 40);
        assert!(small_in_main > 1_500, "{small_in_main} of 1,960");
    }
}
