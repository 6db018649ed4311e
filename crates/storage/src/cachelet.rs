//! One cachelet: its index, its segments and the items in them.
//!
//! A cachelet owns everything that belongs to it, so it changes worker by moving one box. What it
//! shares with the other cachelets of its worker comes with each call as a [`Context`]: the account
//! that memory is charged to, the hasher, the counters.
//!
//! ```text
//! index ──location──> segment table ──> item
//!                      │ small queue   oldest … newest (open: newcomers are appended here)
//!                      └ main queue    oldest … newest (open: survivors are appended here)
//! ```

mod reading;
mod segments;

use crate::bands::{Fates, Gauges};
use crate::ghosts::{Ghosts, Returning};
use crate::hash::{TableHash, TableHasher};
use crate::index::{Guess, Index, Items, Room};
use crate::item::{self, Item, Layout, Meta};
use crate::pool::{Account, Geometry, SegmentPool};
use crate::segment::{NONE, QUEUES, Queue, QueueName, Segment, TtlClass};
use crate::stats::{CacheletStats, StoreStats};
use crate::worth::Scale;
use crate::{NewItem, Seconds};
use evenkeel_types::CacheletId;
use std::sync::Arc;

/// What the cachelets of a worker share.
#[derive(Debug)]
pub(crate) struct Context {
    pub account: Account,
    pub hasher: TableHasher,
    /// Counters alone; gauges are summed when asked for.
    pub counters: StoreStats,
    /// What became of items, by size.
    pub fates: Fates,
    /// Whether what is stored had been here before.
    pub returning: Returning,
    /// Counts what makes a [`Hint`](crate::Hint) outdated: items that came, went or moved, and cachelets.
    pub changes: u64,
    /// See [`StoreConfig::is_copy`](crate::StoreConfig::is_copy).
    pub is_copy: fn(&[u8]) -> bool,
}

/// What has to be freed before a call can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// This many bytes, of any cachelet.
    Bytes(usize),
    /// A slot in this cachelet's segment table.
    Slot,
}

/// What became of an older item under the key of a new one.
pub(crate) enum Replaced {
    /// The new item was written over it.
    InPlace,
    /// It is gone (or never was); the new item inherits where it stood and how often it was used.
    Gone { queue: QueueName, frequency: u8 },
}

/// A segment that items are appended to, with what decides which items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    segment: u32,
    queue: QueueName,
    class: TtlClass,
}

/// An item on its way into a cachelet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub hash: TableHash,
    pub meta: Meta,
    pub key: &'a [u8],
    pub value: [&'a [u8]; 2],
    pub queue: QueueName,
}

impl Entry<'_> {
    /// Bytes of an item without any of its extra words: near enough to judge its size.
    #[inline]
    fn least_bytes(new: &NewItem<'_>) -> usize {
        item::FIXED_BYTES + new.key.len() + new.value[0].len() + new.value[1].len()
    }

    /// Bytes of the item with all extra words and padding that there may be.
    #[inline]
    fn bytes_max(&self) -> usize {
        let value_len = self.value[0].len() + self.value[1].len();
        item::BESIDES_BYTES_MAX + self.key.len() + value_len
    }

    #[inline]
    pub fn layout(&self, segment_version_high: u32) -> Layout {
        let value_len = self.value[0].len() + self.value[1].len();
        Layout::of(&self.meta, self.key.len(), value_len, segment_version_high)
    }
}

/// Where an item lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub segment: u32,
    pub offset: u32,
}

/// Index and items of one cachelet. `Send`: it moves between the stores of a process by pointer and
/// keeps its memory; dropped, it gives the memory back to the pool.
#[derive(Debug)]
pub struct Cachelet {
    // Boxed, so that moving a cachelet moves a pointer.
    pub(crate) inner: Box<Inner>,
}

impl Cachelet {
    /// Which cachelet this is.
    pub fn id(&self) -> CacheletId {
        self.inner.id
    }

    /// Its counters and gauges.
    pub fn stats(&self) -> CacheletStats {
        self.inner.stats()
    }
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub id: CacheletId,
    pool: Arc<SegmentPool>,
    /// Seed of the hasher that the index was built with.
    pub hash_seed: u64,
    pub geometry: Geometry,
    pub index: Index,
    pub segments: Vec<Segment>,
    /// First unused slot of the segment table.
    free_slot: u32,
    pub queues: [Queue; QUEUES],
    /// Items that left the small queue unread.
    pub ghosts: Ghosts,
    /// Segments that items are appended to, newest last.
    pub open: Vec<Open>,
    /// Bytes charged: segments, their descriptions, the index, the ghosts.
    pub held: usize,
    /// Bytes of all segments.
    pub segment_bytes: usize,
    pub live_bytes: usize,
    pub live_items: usize,
    /// Of them, copies.
    pub copies: usize,
    pub copies_bytes: usize,
    /// All items by size.
    pub bands: Gauges,
    pub segments_in_use: usize,
    pub reads: u64,
    /// Reads that found nothing: a hit has less to count.
    pub misses: u64,
    pub writes: u64,
    /// Bytes of values read.
    pub bytes_out: u64,
    /// Bytes of values written.
    pub bytes_in: u64,
}

#[inline]
fn place_of(geometry: Geometry, location: u32) -> Place {
    // The shift is below 32 and an offset below the size of a segment, so nothing wraps.
    Place {
        segment: location.wrapping_shr(geometry.offset_bits),
        offset: (location & geometry.offset_mask).wrapping_mul(geometry.align as u32),
    }
}

/// The items of a cachelet, as its index asks for them.
struct ItemsOf<'a> {
    segments: &'a [Segment],
    geometry: Geometry,
    hasher: &'a TableHasher,
}

impl ItemsOf<'_> {
    #[inline]
    fn data(&self, location: u32) -> &[u8] {
        let place = place_of(self.geometry, location);
        &self.segments[place.segment as usize].data[place.offset as usize..]
    }
}

impl Items for ItemsOf<'_> {
    #[inline]
    fn hash(&self, location: u32) -> TableHash {
        let data = self.data(location);
        self.hasher.hash(Layout::read(data).key(data))
    }

    #[inline]
    fn prefetch(&self, location: u32) {
        crate::processor::prefetch(&self.data(location)[0]);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.pool.give(self.held);
    }
}

impl Inner {
    /// An empty cachelet. Its few first bytes are not charged before there are items.
    pub fn new(id: CacheletId, pool: Arc<SegmentPool>, hash_seed: u64) -> Self {
        Inner {
            id,
            hash_seed,
            geometry: pool.geometry(),
            pool,
            index: Index::new(),
            segments: Vec::new(),
            free_slot: NONE,
            queues: [Queue::EMPTY; QUEUES],
            ghosts: Ghosts::default(),
            open: Vec::new(),
            held: 0,
            segment_bytes: 0,
            live_bytes: 0,
            live_items: 0,
            copies: 0,
            copies_bytes: 0,
            bands: Gauges::default(),
            segments_in_use: 0,
            reads: 0,
            misses: 0,
            writes: 0,
            bytes_out: 0,
            bytes_in: 0,
        }
    }

    pub fn is_of(&self, pool: &Arc<SegmentPool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    pub fn stats(&self) -> CacheletStats {
        CacheletStats {
            items: self.live_items as u64,
            bytes: self.live_bytes as u64,
            segments: self.segments_in_use as u64,
            index_bytes: self.index.bytes() as u64,
            held_bytes: self.held as u64,
            reads: self.reads,
            hits: self.reads - self.misses,
            writes: self.writes,
            bytes_out: self.bytes_out,
            bytes_in: self.bytes_in,
        }
    }

    // Locations.

    #[inline]
    pub fn location(&self, place: Place) -> u32 {
        place.segment << self.geometry.offset_bits | place.offset >> self.geometry.align_shift
    }

    #[inline]
    pub fn place(&self, location: u32) -> Place {
        place_of(self.geometry, location)
    }

    /// The item's bytes and whatever follows it in its segment.
    #[inline]
    pub fn data(&self, place: Place) -> &[u8] {
        &self.segments[place.segment as usize].data[place.offset as usize..]
    }

    #[inline]
    pub fn data_mut(&mut self, place: Place) -> &mut [u8] {
        &mut self.segments[place.segment as usize].data[place.offset as usize..]
    }

    /// What the sizes of this cachelet's items are measured against.
    #[inline]
    pub fn scale(&self) -> Scale {
        Scale::of(self.live_bytes, self.live_items)
    }

    #[inline]
    pub fn item(&self, place: Place, now: Seconds) -> Item<'_> {
        let segment = &self.segments[place.segment as usize];
        let data = &segment.data[place.offset as usize..];
        Item {
            data,
            layout: Layout::read(data),
            segment_version_high: segment.version_high,
            now,
            align: self.geometry.align,
        }
    }

    /// Finds an item of the key that lies elsewhere than `here`.
    pub fn find_other(&self, key: &[u8], hash: TableHash, here: Place) -> Option<Place> {
        let here = self.location(here);
        let is_it = |location| location != here && self.has_key(location, key);
        let location = self.index.search(hash, is_it);
        location.map(|location| self.place(location))
    }

    /// Finds an item, expired or not.
    #[inline]
    pub fn find(&self, key: &[u8], hash: TableHash) -> Option<Place> {
        self.location_of(key, hash)
            .map(|location| self.place(location))
    }

    /// The location of the item that has this key, expired or not.
    // Not inlined: it is long. A number comes back in registers, which a place would not.
    #[inline(never)]
    pub fn location_of(&self, key: &[u8], hash: TableHash) -> Option<u32> {
        self.location_guessed(self.index.guess(hash), key, hash)
    }

    /// As [`Inner::location_of`], with what the index guesses.
    #[inline(always)]
    pub fn location_guessed(&self, guess: Guess, key: &[u8], hash: TableHash) -> Option<u32> {
        match guess {
            Guess::At(location) if self.has_key(location, key) => Some(location),
            Guess::Nowhere => None,
            _ => self.search(key, hash),
        }
    }

    /// As [`Inner::location_of`], where a guess was wrong or unknown.
    #[cold]
    #[inline(never)]
    pub fn search(&self, key: &[u8], hash: TableHash) -> Option<u32> {
        self.index
            .search(hash, |location| self.has_key(location, key))
    }

    /// Whether the item at a location has this key.
    // Inlined, as all that it calls, so that what it looks at is not looked at again afterwards.
    #[inline(always)]
    pub fn has_key(&self, location: u32, key: &[u8]) -> bool {
        item::has_key(self.data(self.place(location)), key)
    }

    /// Starts loading the item that a lookup of the hash would look at first.
    #[inline]
    pub fn prefetch_item(&self, hash: TableHash) -> Guess {
        let guess = self.index.guess(hash);
        if let Guess::At(location) = guess {
            crate::processor::prefetch(&self.data(self.place(location))[0]);
        }
        guess
    }

    // Removal.

    /// Takes an item out of the index and marks it dead. A segment whose last item goes is freed.
    pub fn remove(&mut self, hash: TableHash, place: Place, context: &mut Context) {
        context.changes += 1;
        self.index.remove(hash, self.location(place));
        self.bury(place, context);
    }

    /// As [`Inner::remove`], for an item that the index no longer knows.
    fn bury(&mut self, place: Place, context: &mut Context) {
        let data = self.data_mut(place);
        item::kill(data);
        let size = Layout::read(data).size();
        let bytes = self.geometry.align_up(size);
        let segment = &mut self.segments[place.segment as usize];
        segment.live_bytes -= bytes as u32;
        segment.live_items -= 1;
        let is_empty = segment.live_items == 0;
        if is_empty && segment.open {
            // It stays open: the next item would need one again.
            segment.used = 0;
        }
        let (queue, is_over) = (segment.queue, is_empty && !segment.open);
        self.discount(queue, bytes);
        if is_over {
            self.free_segment(place.segment, context);
        }
    }

    /// Counts an item that a queue has got.
    #[inline]
    pub fn count(&mut self, queue: QueueName, bytes: usize) {
        self.live_bytes += bytes;
        self.live_items += 1;
        self.bands.add(bytes);
        if queue == QueueName::Copies {
            self.copies += 1;
            self.copies_bytes += bytes;
        }
    }

    /// Counts an item that a queue has no more.
    #[inline]
    pub fn discount(&mut self, queue: QueueName, bytes: usize) {
        self.live_bytes -= bytes;
        self.live_items -= 1;
        self.bands.remove(bytes);
        if queue == QueueName::Copies {
            self.copies -= 1;
            self.copies_bytes -= bytes;
        }
    }

    /// Empties the cachelet in time proportional to its segments and shards.
    pub fn flush(&mut self, context: &mut Context) {
        if self.held == 0 && self.segments.is_empty() {
            // As it was made, or as the last flush left it: anybody may ask for many.
            return;
        }
        context.changes += 1;
        for segment in core::mem::take(&mut self.segments) {
            if segment.is_in_use() {
                context.account.release(segment.data);
            }
        }
        context.account.refund(self.held - self.segment_bytes);
        self.held = 0;
        self.segment_bytes = 0;
        self.segments_in_use = 0;
        self.live_bytes = 0;
        self.live_items = 0;
        self.copies = 0;
        self.copies_bytes = 0;
        self.bands.clear();
        self.index = Index::new();
        self.free_slot = NONE;
        self.queues = [Queue::EMPTY; QUEUES];
        self.ghosts = Ghosts::default();
        self.open.clear();
    }

    // Writing.

    /// Deals with the item that has the key of a new one: writes over it where the new one has the
    /// same size and lives about as long, and removes it otherwise.
    pub fn replace(
        &mut self,
        hash: TableHash,
        found: Option<u32>,
        new: &NewItem<'_>,
        now: Seconds,
        context: &mut Context,
    ) -> Replaced {
        let newcomer = |queue| Replaced::Gone {
            queue,
            frequency: 0,
        };
        let Some(location) = found else {
            if (context.is_copy)(new.key) {
                return newcomer(QueueName::Copies);
            }
            let size = self.geometry.align_up(Entry::least_bytes(new));
            let scale = self.scale();
            // What was evicted too early is no newcomer. But one large item takes the place of many: it
            // must be read again like any other large one before it may stay.
            let returns = self.ghosts.take(hash, &mut context.returning);
            let queue = if returns && scale.reads_more(size) == 0 {
                QueueName::Main
            } else {
                QueueName::Small
            };
            return Replaced::Gone {
                queue,
                frequency: scale.credit(size),
            };
        };
        let place = self.place(location);
        let segment = &mut self.segments[place.segment as usize];
        let data = &mut segment.data[place.offset as usize..];
        let old = Layout::read(data);
        if item::is_expired(old.expires_at(data), now) {
            let queue = match segment.queue {
                QueueName::Copies => QueueName::Copies,
                QueueName::Small | QueueName::Main => QueueName::Small,
            };
            self.expire(hash, place, context);
            return newcomer(queue);
        }
        let frequency = old.frequency();
        let meta = Meta {
            frequency,
            ..Meta::of(new, now)
        };
        let value_len = new.value[0].len() + new.value[1].len();
        let layout = Layout::of(&meta, new.key.len(), value_len, segment.version_high);
        let fits = self.geometry.align_up(layout.size()) == self.geometry.align_up(old.size());
        if fits && segment.class == TtlClass::of(new.expires_at, now) {
            layout.write_over(old, data, &meta, new);
            segment.widen_expiry(new.expires_at);
            return Replaced::InPlace;
        }
        let queue = match segment.queue {
            QueueName::Small if frequency > 0 => QueueName::Main,
            queue => queue,
        };
        self.remove(hash, place, context);
        Replaced::Gone { queue, frequency }
    }

    /// Removes an item that has expired, and counts it.
    pub fn expire(&mut self, hash: TableHash, place: Place, context: &mut Context) {
        context.counters.reclaimed += 1;
        let layout = Layout::read(self.data(place));
        context.counters.expired_unfetched += u64::from(!layout.fetched());
        self.remove(hash, place, context);
    }

    /// Removes an item that a read found to have expired.
    #[cold]
    pub fn expire_read(&mut self, hash: TableHash, place: Place, context: &mut Context) {
        self.misses += 1;
        self.expire_found(hash, place, context);
    }

    /// Removes an item that a look-up found to have expired.
    #[cold]
    pub fn expire_found(&mut self, hash: TableHash, place: Place, context: &mut Context) {
        context.counters.get_expired += 1;
        self.expire(hash, place, context);
    }

    /// Appends an item and enters it into the index.
    pub fn append(
        &mut self,
        entry: &Entry<'_>,
        now: Seconds,
        context: &mut Context,
    ) -> Result<Place, Need> {
        context.changes += 1;
        self.make_index_room(entry.hash, context)?;
        let place = self.write(entry, now, context)?;
        self.index.insert(entry.hash, self.location(place));
        Ok(place)
    }

    fn make_index_room(&mut self, hash: TableHash, context: &mut Context) -> Result<(), Need> {
        let Room::ShouldGrow {
            bytes,
            has_free_slot,
        } = self.index.room(hash)
        else {
            return Ok(());
        };
        if context.account.has_room_for(bytes) {
            self.change_index(context, |index, items| index.grow(hash, items));
            Ok(())
        } else if has_free_slot {
            Ok(())
        } else {
            Err(Need::Bytes(bytes))
        }
    }

    /// Gives index memory back that is no longer needed, a bounded step at a time.
    pub fn shrink_index(&mut self, context: &mut Context) {
        self.change_index(context, |index, items| index.shrink_step(items));
    }

    /// Makes the ghosts fit a cachelet that has grown or shrunk, if there is memory for it.
    pub fn fit_ghosts(&mut self, context: &mut Context) {
        let wanted = self
            .ghosts
            .bytes_wanted(self.segment_bytes, self.live_items);
        let Some(bytes) = wanted else { return };
        let before = self.ghosts.bytes();
        if bytes <= before || context.account.has_room_for(bytes - before) {
            self.ghosts.remake(bytes);
            self.held = self.held + bytes - before;
            context.account.adjust(before, bytes);
        }
    }

    /// Runs a change of the index and accounts for what it takes. Growth has room in the account.
    fn change_index(
        &mut self,
        context: &mut Context,
        change: impl FnOnce(&mut Index, &ItemsOf<'_>),
    ) {
        let items = ItemsOf {
            segments: &self.segments,
            geometry: self.geometry,
            hasher: &context.hasher,
        };
        let before = self.index.bytes();
        change(&mut self.index, &items);
        let after = self.index.bytes();
        self.held = self.held + after - before;
        context.account.adjust(before, after);
    }
}
