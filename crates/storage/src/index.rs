//! The index of a cachelet: from a key's hash to the places where its item may lie.
//!
//! Picture a street of small houses, one cache line each. A key's hash names the street and the
//! house; the house holds twelve one-byte tags and twelve locations. A lookup compares the tags of
//! one line at a time and reads an item only where the tag fits. A house that is full sends guests
//! to the next one, counts them and remembers their tags in a small filter, so that a lookup knows
//! when to stop: at this load a count alone would let a miss read four lines.
//!
//! ```text
//! hash   63 ......... 40 | 39 ............... 8 | 7 ... 0
//!        street (shard)  |  house (bucket)      |  tag
//! ```
//!
//! It grows as extendible hashing does: a shard of at most [`SHARD_BUCKETS_MAX`] lines grows by a
//! sixth at a time and, when it is as large as it may be, splits in two. Each step touches a few
//! hundred items, so no request ever waits for a whole table, and the load stays between 80 and
//! 94 % at every size, which is what keeps an entry at about 6.4 bytes.
//!
//! Rejected: one table that doubles (half empty on average, and long pauses or two tables at once);
//! linear hashing bucket by bucket (buckets before and after the split pointer differ twofold in
//! load, so lines overflow); storing more of the hash to spare reading keys on growth (2 bytes an
//! item forever, for work done once).

use crate::bucket::{BUCKET_BYTES, BUCKET_SLOTS, Bucket, OVERFLOW_STUCK, tag_of};
use crate::hash::TableHash;

/// Largest shard, in buckets: 4 KiB and at most 720 items, so a step of growth takes microseconds.
const SHARD_BUCKETS_MAX: usize = 64;
/// A shard grows when it holds more than this part of its slots. With twelve slots a bucket, linear
/// probing at this load still finds most entries in their first line.
const LOAD_MAX: (usize, usize) = (15, 16);
/// A shard shrinks when it holds less than this part of its slots.
const LOAD_MIN: (usize, usize) = (6, 10);
/// A shard grows by this part of its buckets. Each entry is hashed again about as many times while a
/// shard doubles, so a finer step costs time; a coarser one costs memory. By a twelfth, a fresh insert
/// hashed twelve others and an entry took 0.3 bytes less.
const GROWTH_PART: usize = 6;
/// What a shard that shrinks or splits aims at, between the two.
const LOAD_AIM: (usize, usize) = (7, 8);
/// Bits of the hash that choose the shard, at most: 16 million shards, 10^10 items.
const DEPTH_MAX: u32 = 24;
const _: () = assert!(LOAD_MIN.0 < LOAD_AIM.0 && LOAD_AIM.0 < LOAD_MAX.0);

/// What a look at one line of the index tells of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guess {
    /// An item whose tag fits is at this location.
    At(u32),
    /// There is none.
    Nowhere,
    /// If there is one, it is in another line.
    Unknown,
}

/// A piece of the table that grows by itself.
#[derive(Debug)]
struct Shard {
    buckets: Box<[Bucket]>,
    items: u32,
    /// It grows before it holds more; follows from the number of buckets.
    items_max: u32,
    /// How many of the hash's upper bits all its entries have in common.
    depth: u32,
}

impl Shard {
    fn new(buckets: usize, depth: u32) -> Self {
        let items_max = buckets * BUCKET_SLOTS * LOAD_MAX.0 / LOAD_MAX.1;
        Shard {
            buckets: vec![Bucket::EMPTY; buckets].into_boxed_slice(),
            items: 0,
            // Without depth left to split at, a shard may grow on; 2^32 locations bound it.
            items_max: u32::try_from(items_max).unwrap_or(u32::MAX),
            depth,
        }
    }

    fn bytes(&self) -> usize {
        self.buckets.len() * BUCKET_BYTES
    }

    fn slots(&self) -> usize {
        self.buckets.len() * BUCKET_SLOTS
    }

    #[inline]
    fn home(&self, hash: TableHash) -> usize {
        let middle = (hash.0 >> 8) & 0xffff_ffff;
        // Less than the number of buckets, because `middle` is less than 2^32; no product of a number
        // of buckets and 2^32 comes near 2^64.
        (middle.wrapping_mul(self.buckets.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() {
            0
        } else {
            bucket + 1
        }
    }

    /// What the line that a lookup reads first says of a hash.
    // Without a loop, so that a lookup is a straight line of instructions.
    #[inline]
    fn guess(&self, hash: TableHash) -> Guess {
        let tag = tag_of(hash);
        let bucket = &self.buckets[self.home(hash)];
        match bucket.matches(tag).next() {
            Some(slot) => Guess::At(bucket.location(slot)),
            None if bucket.may_have_passed(tag) => Guess::Unknown,
            None => Guess::Nowhere,
        }
    }

    /// Bucket and slot of the entry whose tag fits and whose location `is_it`, looked for wherever it
    /// can be.
    #[inline]
    fn search(&self, hash: TableHash, is_it: impl Fn(u32) -> bool) -> Option<(usize, usize)> {
        let (tag, home) = (tag_of(hash), self.home(hash));
        let mut at = home;
        loop {
            let bucket = &self.buckets[at];
            for slot in bucket.matches(tag) {
                if is_it(bucket.location(slot)) {
                    return Some((at, slot));
                }
            }
            let next = self.after(at);
            if !bucket.may_have_passed(tag) || next == home {
                return None;
            }
            at = next;
        }
    }

    /// Bucket and slot of a location's entry.
    #[inline]
    fn slot_of(&self, hash: TableHash, location: u32) -> Option<(usize, usize)> {
        self.search(hash, |other| other == location)
    }

    /// Adds an entry. The caller has made sure of a free slot.
    #[inline]
    fn insert(&mut self, hash: TableHash, location: u32) {
        let mut at = self.home(hash);
        for _ in 0..self.buckets.len() {
            let next = self.after(at);
            let bucket = &mut self.buckets[at];
            if let Some(slot) = bucket.free_slot() {
                bucket.set(slot, tag_of(hash), location);
                self.items += 1;
                return;
            }
            bucket.pass_by(tag_of(hash));
            at = next;
        }
        unreachable!("an insert follows a check that the shard has a free slot");
    }

    fn remove(&mut self, hash: TableHash, at: usize, slot: usize) {
        let mut passed = self.home(hash);
        while passed != at {
            let next = self.after(passed);
            self.buckets[passed].forget_passing();
            passed = next;
        }
        self.buckets[at].clear(slot);
        self.items -= 1;
    }

    fn locations(&self) -> impl Iterator<Item = u32> + '_ {
        let of_bucket = |bucket: &'_ Bucket| {
            let bucket = *bucket;
            bucket.used().map(move |slot| bucket.location(slot))
        };
        self.buckets.iter().flat_map(of_bucket)
    }

    /// Every location with the hash of its item. Items are far apart in memory, so those of the next
    /// bucket are on their way while one is hashed.
    fn for_each(&self, items: &impl Items, mut visit: impl FnMut(TableHash, u32)) {
        for (at, bucket) in self.buckets.iter().enumerate() {
            if let Some(next) = self.buckets.get(at + 1) {
                for slot in next.used() {
                    items.prefetch(next.location(slot));
                }
            }
            for slot in bucket.used() {
                let location = bucket.location(slot);
                visit(items.hash(location), location);
            }
        }
    }

    fn is_above(&self, load: (usize, usize), items: usize) -> bool {
        items * load.1 > self.slots() * load.0
    }
}

/// Buckets for this many items at the load aimed at.
fn buckets_for(items: usize) -> usize {
    (items * LOAD_AIM.1)
        .div_ceil(BUCKET_SLOTS * LOAD_AIM.0)
        .max(1)
}

fn grown(buckets: usize) -> usize {
    buckets + (buckets / GROWTH_PART).max(1)
}

/// What the index asks about the items that its locations lead to.
pub(crate) trait Items {
    /// The hash of the item at a location.
    fn hash(&self, location: u32) -> TableHash;
    /// Starts loading the item at a location.
    fn prefetch(&self, location: u32);
}

/// Whether the index can take one more entry for a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Yes.
    Ready,
    /// It should grow first, which takes this many bytes more. If they cannot be had and
    /// `has_free_slot`, it can take the entry all the same.
    ShouldGrow { bytes: usize, has_free_slot: bool },
}

/// Maps hashes to locations. Several entries may have the same hash; the caller tells them apart.
#[derive(Debug)]
pub(crate) struct Index {
    /// Number of hash bits that choose an entry of `directory`.
    depth: u32,
    /// What that makes of the shift that leaves them: `63 - depth`, which is 39 to 63.
    prefix_shift: u32,
    /// Shard of each prefix of `depth` bits.
    directory: Vec<u32>,
    shards: Vec<Shard>,
    /// Bytes of all buckets.
    bucket_bytes: usize,
    /// Next shard that [`Index::shrink_step`] looks at.
    shrink_cursor: usize,
}

impl Index {
    pub fn new() -> Self {
        Index {
            depth: 0,
            prefix_shift: 63,
            directory: vec![0],
            shards: vec![Shard::new(1, 0)],
            bucket_bytes: BUCKET_BYTES,
            shrink_cursor: 0,
        }
    }

    /// Bytes that the index takes.
    pub fn bytes(&self) -> usize {
        self.bucket_bytes
            + self.shards.capacity() * size_of::<Shard>()
            + self.directory.capacity() * size_of::<u32>()
    }

    #[inline]
    fn prefix(&self, hash: u64) -> usize {
        // In two shifts, because a shift by 64 is none.
        (hash >> 1).wrapping_shr(self.prefix_shift) as usize
    }

    #[inline]
    fn shard_of(&self, hash: TableHash) -> usize {
        self.directory[self.prefix(hash.0)] as usize
    }

    /// Starts loading the line that a lookup of the hash reads first.
    #[inline]
    pub fn prefetch(&self, hash: TableHash) {
        let shard = &self.shards[self.shard_of(hash)];
        crate::processor::prefetch(&shard.buckets[shard.home(hash)]);
    }

    /// Where the item of a hash should be looked for first. In more than nine of ten lookups that is the
    /// answer.
    #[inline]
    pub fn guess(&self, hash: TableHash) -> Guess {
        self.shards[self.shard_of(hash)].guess(hash)
    }

    /// The location whose tag fits and that `is_it`, looked for wherever it can be: for when a guess was
    /// wrong or unknown, so it is kept out of the way.
    #[cold]
    pub fn search(&self, hash: TableHash, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let shard = &self.shards[self.shard_of(hash)];
        let (bucket, slot) = shard.search(hash, is_it)?;
        Some(shard.buckets[bucket].location(slot))
    }

    /// Whether one more entry for this hash has room, and what room would cost.
    #[inline]
    pub fn room(&self, hash: TableHash) -> Room {
        let shard = &self.shards[self.shard_of(hash)];
        if shard.items < shard.items_max {
            return Room::Ready;
        }
        let bytes = self.growth_bytes(shard);
        Room::ShouldGrow {
            bytes,
            has_free_slot: (shard.items as usize) < shard.slots(),
        }
    }

    fn splits(&self, shard: &Shard) -> bool {
        grown(shard.buckets.len()) > SHARD_BUCKETS_MAX && shard.depth < DEPTH_MAX
    }

    /// Most bytes that [`Index::grow`] adds.
    fn growth_bytes(&self, shard: &Shard) -> usize {
        if !self.splits(shard) {
            return (grown(shard.buckets.len()) - shard.buckets.len()) * BUCKET_BYTES;
        }
        let directory = if shard.depth == self.depth {
            self.directory.len() * size_of::<u32>()
        } else {
            0
        };
        let shards = self.shards_to_reserve() * size_of::<Shard>();
        // Each half may get all items.
        2 * buckets_for(shard.items as usize) * BUCKET_BYTES + directory + shards
    }

    /// Room for shards is made an eighth at a time.
    fn shards_to_reserve(&self) -> usize {
        let full = self.shards.len() == self.shards.capacity();
        if full {
            (self.shards.len() / 8).max(1)
        } else {
            0
        }
    }

    /// Makes the shard of this hash larger, or splits it. Takes time in proportion to one shard, and
    /// to the directory when it doubles.
    pub fn grow(&mut self, hash: TableHash, items: &impl Items) {
        let at = self.shard_of(hash);
        let shard = &self.shards[at];
        if self.splits(shard) {
            self.split(at, hash, items);
        } else {
            self.rebuild(at, grown(shard.buckets.len()), items);
        }
    }

    fn rebuild(&mut self, at: usize, buckets: usize, items: &impl Items) {
        let old = &self.shards[at];
        let mut new = Shard::new(buckets, old.depth);
        old.for_each(items, |hash, location| new.insert(hash, location));
        self.bucket_bytes = self.bucket_bytes - old.bytes() + new.bytes();
        self.shards[at] = new;
    }

    fn split(&mut self, at: usize, hash: TableHash, items: &impl Items) {
        let old = &self.shards[at];
        let depth = old.depth + 1;
        let mut entries: Vec<(TableHash, u32)> = Vec::with_capacity(old.items as usize);
        old.for_each(items, |hash, location| entries.push((hash, location)));
        let is_upper = |hash: TableHash| hash.0 >> (64 - depth) & 1 == 1;
        let upper_items = entries.iter().filter(|(hash, _)| is_upper(*hash)).count();
        let mut lower = Shard::new(buckets_for(entries.len() - upper_items), depth);
        let mut upper = Shard::new(buckets_for(upper_items), depth);
        for (hash, location) in entries {
            let half = if is_upper(hash) {
                &mut upper
            } else {
                &mut lower
            };
            half.insert(hash, location);
        }
        self.bucket_bytes = self.bucket_bytes - old.bytes() + lower.bytes() + upper.bytes();
        if depth > self.depth {
            let mut doubled = Vec::with_capacity(self.directory.len() * 2);
            doubled.extend(self.directory.iter().flat_map(|&shard| [shard, shard]));
            self.directory = doubled;
            self.depth = depth;
            self.prefix_shift = 63 - depth;
        }
        let reserve = self.shards_to_reserve();
        self.shards.reserve_exact(reserve);
        let new = u32::try_from(self.shards.len()).expect("DEPTH_MAX bounds the shards");
        self.shards[at] = lower;
        self.shards.push(upper);
        // The upper half of the prefixes that led to the old shard now lead to the new one.
        let span = 1usize << (self.depth - depth);
        let first = self.prefix(hash.0) & !(2 * span - 1);
        self.directory[first + span..first + 2 * span].fill(new);
    }

    /// Looks at one shard and makes it smaller if it is too empty. Bounded as one step of growth.
    pub fn shrink_step(&mut self, items: &impl Items) {
        let at = self.shrink_cursor;
        self.shrink_cursor = if at + 1 < self.shards.len() {
            at + 1
        } else {
            0
        };
        let shard = &self.shards[at];
        let buckets = buckets_for(shard.items as usize);
        if !shard.is_above(LOAD_MIN, shard.items as usize) && buckets < shard.buckets.len() {
            self.rebuild(at, buckets, items);
        }
    }

    /// Adds an entry. [`Index::room`] has said that there is a free slot.
    #[inline]
    pub fn insert(&mut self, hash: TableHash, location: u32) {
        let at = self.shard_of(hash);
        self.shards[at].insert(hash, location);
    }

    /// Removes the entry of a location.
    #[inline]
    pub fn remove(&mut self, hash: TableHash, location: u32) {
        let at = self.shard_of(hash);
        let shard = &mut self.shards[at];
        let (bucket, slot) = shard
            .slot_of(hash, location)
            .expect("a live item is in the index");
        shard.remove(hash, bucket, slot);
    }

    /// Changes the location of an entry.
    #[inline]
    pub fn relocate(&mut self, hash: TableHash, old: u32, new: u32) {
        let at = self.shard_of(hash);
        let shard = &mut self.shards[at];
        let (bucket, slot) = shard
            .slot_of(hash, old)
            .expect("a live item is in the index");
        shard.buckets[bucket].relocate(slot, new);
    }

    /// Every location.
    pub fn locations(&self) -> impl Iterator<Item = u32> + '_ {
        self.shards.iter().flat_map(Shard::locations)
    }

    /// The locations of the shard that covers a point of the hash space, and the point where the
    /// next shard begins, if there is one. Stable while shards grow and split, because each covers a
    /// range of hashes.
    pub fn locations_from(&self, point: u64) -> (impl Iterator<Item = u32> + '_, Option<u64>) {
        let shard = &self.shards[self.directory[self.prefix(point)] as usize];
        let next = match shard.depth {
            0 => None,
            depth => {
                let width = 1u64 << (64 - depth);
                (point & !(width - 1)).checked_add(width)
            }
        };
        (shard.locations(), next)
    }

    /// Walks the whole structure. For tests.
    pub fn assert_invariants(&self, hash_of: impl Fn(u32) -> TableHash) {
        assert_eq!(self.directory.len(), 1 << self.depth);
        assert_eq!(self.prefix_shift, 63 - self.depth);
        assert_eq!(
            self.bucket_bytes,
            self.shards.iter().map(Shard::bytes).sum::<usize>()
        );
        for (at, shard) in self.shards.iter().enumerate() {
            let led_here = self
                .directory
                .iter()
                .filter(|&&other| other as usize == at)
                .count();
            assert_eq!(
                led_here,
                1 << (self.depth - shard.depth),
                "prefixes of a shard"
            );
            assert_eq!(
                shard.locations().count(),
                shard.items as usize,
                "items of a shard"
            );
            let mut passed = vec![0usize; shard.buckets.len()];
            for location in shard.locations() {
                let hash = hash_of(location);
                assert_eq!(
                    self.shard_of(hash),
                    at,
                    "an entry is in the shard of its hash"
                );
                let (bucket, _) = shard
                    .slot_of(hash, location)
                    .expect("every entry can be found");
                let mut step = shard.home(hash);
                while step != bucket {
                    passed[step] += 1;
                    step = shard.after(step);
                }
            }
            for (bucket, passed) in shard.buckets.iter().zip(passed) {
                let exact = usize::from(bucket.overflow()) == passed;
                assert!(
                    exact || bucket.overflow() == OVERFLOW_STUCK,
                    "overflow count"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    impl Items for Vec<TableHash> {
        fn hash(&self, location: u32) -> TableHash {
            self[location as usize]
        }

        fn prefetch(&self, _: u32) {}
    }

    /// A location is its own number; its hash comes from a table.
    struct Twin {
        index: Index,
        hashes: Vec<TableHash>,
    }

    impl Twin {
        fn with(items: usize, seed: u64) -> Self {
            println!("seed {seed}");
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut twin = Twin {
                index: Index::new(),
                hashes: Vec::new(),
            };
            for location in 0..items {
                let hash = TableHash(rng.next_u64());
                twin.hashes.push(hash);
                if let Room::ShouldGrow { bytes, .. } = twin.index.room(hash) {
                    let before = twin.index.bytes();
                    twin.index.grow(hash, &twin.hashes);
                    assert!(twin.index.bytes() <= before + bytes, "growth was announced");
                }
                twin.index.insert(hash, u32::try_from(location).unwrap());
            }
            twin
        }

        fn check(&self) {
            self.index
                .assert_invariants(|location| self.hashes[location as usize]);
        }
    }

    #[test]
    fn entries_survive_growth_removal_and_shrinking() {
        let mut twin = Twin::with(20_000, 1);
        twin.check();
        let full = twin.index.bytes();
        for location in 0..20_000u32 {
            let hash = twin.hashes[location as usize];
            assert_eq!(
                twin.index.search(hash, |other| other == location),
                Some(location)
            );
            if location % 50 != 0 {
                twin.index.remove(hash, location);
            }
        }
        for _ in 0..twin.index.shards.len() {
            twin.index.shrink_step(&twin.hashes);
        }
        twin.check();
        assert_eq!(twin.index.locations().count(), 400);
        assert!(
            twin.index.bytes() < full / 10,
            "{} of {full}",
            twin.index.bytes()
        );
    }

    #[test]
    fn an_entry_takes_less_than_seven_bytes_at_any_size() {
        for items in [50_000, 60_000, 70_000, 80_000, 90_000, 100_000] {
            let bytes = Twin::with(items, 2).index.bytes() as f64 / items as f64;
            println!("{items} items: {bytes:.2} bytes an entry");
            assert!(bytes < 7.0, "{bytes}");
        }
    }

    #[test]
    fn equal_hashes_fill_a_shard_and_no_more_are_promised() {
        let mut index = Index::new();
        let hash = TableHash(7);
        for location in 0..12 {
            assert_ne!(
                index.room(hash),
                Room::ShouldGrow {
                    bytes: 64,
                    has_free_slot: false
                }
            );
            index.insert(hash, location);
        }
        assert_eq!(
            index.room(hash),
            Room::ShouldGrow {
                bytes: 64,
                has_free_slot: false
            }
        );
        for location in (0..12).rev() {
            index.remove(hash, location);
        }
        index.assert_invariants(|_| hash);
    }

    #[test]
    fn a_walk_in_steps_meets_each_entry_once() {
        let twin = Twin::with(5_000, 3);
        let mut met = vec![0; 5_000];
        let mut cursor = Some(0);
        while let Some(point) = cursor {
            let (locations, next) = twin.index.locations_from(point);
            locations.for_each(|location| met[location as usize] += 1);
            cursor = next;
        }
        assert!(met.iter().all(|&times| times == 1));
    }
}
