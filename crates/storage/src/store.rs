//! A worker's cachelets behind one interface.

use crate::Seconds;
use crate::bands::Fates;
use crate::cachelet::{Cachelet, Context, Entry, Inner, Place, Replaced};
use crate::cursor::RoundCursor;
use crate::ghosts::Returning;
use crate::hash::{TableHash, TableHasher};
use crate::hint::Hint;
use crate::item::{self, Item, MEMCACHED_FLAGS_SIZE, MEMCACHED_ITEM_OVERHEAD, Meta, NewItem};
use crate::pool::{Account, SegmentPool};
use crate::segment::QueueName;
use crate::stats::{CacheletStats, StoreStats};
use core::fmt;
use evenkeel_types::CacheletId;
use std::sync::Arc;

/// Longest key that the layout has room for; the protocol's limit is lower (`KEY_LEN_MAX`).
const KEY_BYTES_MAX: usize = 255;
const _: () = assert!(evenkeel_types::limits::KEY_LEN_MAX <= KEY_BYTES_MAX);
/// Largest item whatever the pool's limit: sizes inside a segment are 32-bit numbers.
const ITEM_BYTES_MAX: usize = 1 << 31;
/// An insert may need an index step, a longer segment table and a segment, each twice when eviction
/// for one takes away another. Beyond this the budget is too small for the item.
const INSERT_ATTEMPTS: usize = 8;

/// How a [`Store`] behaves.
#[derive(Clone, Copy)]
pub struct StoreConfig {
    /// Secret seed of the table hash. Stores that exchange cachelets must have the same.
    pub hash_seed: u64,
    /// Whether a full store makes room by eviction (memcached's default) or refuses (`-M`).
    pub evict: bool,
    /// Most bytes that this store may hold of the pool; `None` for no limit but the pool's.
    pub bytes_max: Option<usize>,
    /// Whether the item of a key is a copy of one that stands elsewhere (Replicate and Bundle, section III-D: two classes). Copies
    /// take what other items leave, are the first to go whatever `evict` says, and no other item is evicted for them.
    pub is_copy: fn(&[u8]) -> bool,
}

impl Default for StoreConfig {
    fn default() -> Self {
        StoreConfig {
            hash_seed: 0,
            evict: true,
            bytes_max: None,
            is_copy: |_| false,
        }
    }
}

impl fmt::Debug for StoreConfig {
    /// Keeps the seed out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreConfig")
            .field("evict", &self.evict)
            .field("bytes_max", &self.bytes_max)
            .finish_non_exhaustive()
    }
}

/// Why an item was not stored. Whatever had the key before is gone, as with memcached, so that
/// nobody reads an older value than a client tried to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The client's fault: larger than [`SegmentPool::item_size_max`]. A retry fails as well.
    TooLarge,
    /// The environment's: no memory, and nothing can or may (`-M`) be evicted. May pass.
    OutOfMemory,
    /// The caller's: this store has no such cachelet.
    NoCachelet,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StoreError::TooLarge => "object too large for cache",
            StoreError::OutOfMemory => "out of memory storing object",
            StoreError::NoCachelet => "no such cachelet in this store",
        })
    }
}

impl core::error::Error for StoreError {}

/// The cachelets of one worker. Times are [`Seconds`] since the process started and never go
/// backwards from call to call.
#[derive(Debug)]
pub struct Store {
    pub(crate) config: StoreConfig,
    pub(crate) context: Context,
    /// By id.
    pub(crate) cachelets: Vec<Option<Cachelet>>,
    /// Ids of the cachelets that are here.
    pub(crate) ids: Vec<CacheletId>,
    pub(crate) expiry_cursor: RoundCursor,
    pub(crate) waste_cursor: RoundCursor,
    /// The pool's limit for items, and that of the layout.
    item_size_max: usize,
    /// An item on its way from one place to another, kept to spare allocations.
    pub(crate) scratch: Vec<u8>,
}

impl Store {
    /// A store that evicts and has no limit but the pool's.
    pub fn new(pool: Arc<SegmentPool>, hash_seed: u64) -> Self {
        Self::with_config(
            pool,
            StoreConfig {
                hash_seed,
                ..StoreConfig::default()
            },
        )
    }

    /// A store without cachelets. Takes a small reserve from the pool at once, if there is any.
    pub fn with_config(pool: Arc<SegmentPool>, config: StoreConfig) -> Self {
        let context = Context {
            account: Account::new(pool, config.bytes_max),
            hasher: TableHasher::new(config.hash_seed),
            counters: StoreStats::default(),
            fates: Fates::default(),
            changes: 0,
            returning: Returning::default(),
            is_copy: config.is_copy,
        };
        Store {
            config,
            item_size_max: context.account.pool().item_size_max().min(ITEM_BYTES_MAX),
            context,
            cachelets: Vec::new(),
            ids: Vec::new(),
            expiry_cursor: RoundCursor::default(),
            waste_cursor: RoundCursor::default(),
            scratch: Vec::new(),
        }
    }

    // Cachelets.

    /// Makes an empty cachelet; false when there is one of that id already.
    pub fn create_cachelet(&mut self, id: CacheletId) -> bool {
        let absent = !self.has(id);
        if absent {
            let pool = self.context.account.pool().clone();
            let inner = Inner::new(id, pool, self.config.hash_seed);
            self.attach(Cachelet {
                inner: Box::new(inner),
            });
        }
        absent
    }

    /// Takes a cachelet with its memory. Returns the one of the same id that it displaces, if any.
    ///
    /// # Panics
    ///
    /// When the cachelet comes from a store with another hash seed or another pool.
    pub fn attach(&mut self, cachelet: Cachelet) -> Option<Cachelet> {
        assert_eq!(
            cachelet.inner.hash_seed,
            self.context.hasher.seed(),
            "stores share a seed"
        );
        assert!(
            cachelet.inner.is_of(self.context.account.pool()),
            "stores share a pool"
        );
        self.context.changes += 1;
        let id = cachelet.id();
        let displaced = self.detach(id);
        let slot = usize::from(id.0);
        if slot >= self.cachelets.len() {
            self.cachelets.resize_with(slot + 1, || None);
        }
        self.context.account.take_over(cachelet.inner.held);
        self.cachelets[slot] = Some(cachelet);
        self.ids.push(id);
        displaced
    }

    /// Takes a cachelet out, with its items and their memory.
    pub fn detach(&mut self, id: CacheletId) -> Option<Cachelet> {
        let cachelet = self.cachelets.get_mut(usize::from(id.0))?.take()?;
        self.context.changes += 1;
        self.ids.retain(|&other| other != id);
        self.context.account.hand_over(cachelet.inner.held);
        Some(cachelet)
    }

    /// Drops a cachelet; its memory goes back to the pool. False when it is not here.
    pub fn drop_cachelet(&mut self, id: CacheletId) -> bool {
        self.detach(id).is_some()
    }

    /// Whether the cachelet is here.
    #[inline]
    pub fn has(&self, id: CacheletId) -> bool {
        self.inner(usize::from(id.0)).is_some()
    }

    /// The cachelets that are here, in no particular order.
    pub fn cachelet_ids(&self) -> impl Iterator<Item = CacheletId> + '_ {
        self.ids.iter().copied()
    }

    #[inline]
    pub(crate) fn inner(&self, slot: usize) -> Option<&Inner> {
        Some(&self.cachelets.get(slot)?.as_ref()?.inner)
    }

    pub(crate) fn inners(&self) -> impl Iterator<Item = (usize, &Inner)> + '_ {
        let slots = self.ids.iter().map(|id| usize::from(id.0));
        slots.filter_map(|slot| Some((slot, self.inner(slot)?)))
    }

    // Lookups.

    /// The hash of a key in the index, for the calls that take one. Good for all cachelets.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> TableHash {
        self.context.hasher.hash(key)
    }

    /// Reads an item: finds it, counts the use, and notes that it was fetched and when. An expired item
    /// is removed and not found.
    ///
    /// What the item says of itself includes this read; to see what was before, take [`Store::get`],
    /// which costs more.
    #[inline]
    pub fn read(&mut self, id: CacheletId, key: &[u8], now: Seconds) -> Option<Item<'_>> {
        let hash = self.hash(key);
        self.read_hashed(id, key, hash, now)
    }

    /// As [`Store::read`], with the key's hash.
    #[inline]
    pub fn read_hashed(
        &mut self,
        id: CacheletId,
        key: &[u8],
        hash: TableHash,
        now: Seconds,
    ) -> Option<Item<'_>> {
        let Store {
            cachelets, context, ..
        } = self;
        let inner = &mut *cachelets.get_mut(usize::from(id.0))?.as_mut()?.inner;
        inner.look_up(key, hash, now, context)
    }

    /// Finds an item and leaves no trace. An expired item is not found.
    #[inline]
    pub fn peek(&self, id: CacheletId, key: &[u8], now: Seconds) -> Option<Item<'_>> {
        self.peek_hashed(id, key, self.hash(key), now)
    }

    /// As [`Store::peek`], with the key's hash.
    #[inline]
    pub fn peek_hashed(
        &self,
        id: CacheletId,
        key: &[u8],
        hash: TableHash,
        now: Seconds,
    ) -> Option<Item<'_>> {
        let inner = self.inner(usize::from(id.0))?;
        let item = inner.item(inner.find(key, hash)?, now);
        (!item::is_expired(item.expires_at(), now)).then_some(item)
    }

    // Changes.

    /// Stores an item in place of any of the same key. It starts unread, fresh and last accessed now.
    #[inline]
    pub fn insert(
        &mut self,
        id: CacheletId,
        item: NewItem<'_>,
        now: Seconds,
    ) -> Result<(), StoreError> {
        let hash = self.hash(item.key);
        self.insert_hashed(id, item, hash, now)
    }

    /// As [`Store::insert`], with the key's hash.
    #[inline]
    pub fn insert_hashed(
        &mut self,
        id: CacheletId,
        item: NewItem<'_>,
        hash: TableHash,
        now: Seconds,
    ) -> Result<(), StoreError> {
        self.insert_hinted(id, item, hash, Hint::NONE, now)
    }

    /// As [`Store::insert_hashed`], with what [`Store::prefetch_item`] said of the same key. An outdated
    /// hint changes nothing but the time it takes.
    pub fn insert_hinted(
        &mut self,
        id: CacheletId,
        item: NewItem<'_>,
        hash: TableHash,
        hint: Hint,
        now: Seconds,
    ) -> Result<(), StoreError> {
        let slot = usize::from(id.0);
        let too_large = self.is_too_large(&item);
        let cachelet = self.cachelets.get_mut(slot).and_then(Option::as_mut);
        let inner = &mut cachelet.ok_or(StoreError::NoCachelet)?.inner;
        // Nobody counts 2^64 of anything, and the lengths of two slices do not wrap.
        inner.writes = inner.writes.wrapping_add(1);
        let bytes = item.value[0].len().wrapping_add(item.value[1].len());
        inner.bytes_in = inner.bytes_in.wrapping_add(bytes as u64);
        if too_large {
            if let Some(place) = inner.find(item.key, hash) {
                inner.remove(hash, place, &mut self.context);
            }
            self.context.counters.too_large += 1;
            return Err(StoreError::TooLarge);
        }
        let found = match hint.guess(id, &self.context) {
            Some(guess) => inner.location_guessed(guess, item.key, hash),
            None => inner.location_of(item.key, hash),
        };
        let replaced = inner.replace(hash, found, &item, now, &mut self.context);
        if let Replaced::Gone { queue, frequency } = replaced {
            let meta = Meta {
                frequency,
                ..Meta::of(&item, now)
            };
            let NewItem { key, value, .. } = item;
            self.append(
                slot,
                &Entry {
                    hash,
                    meta,
                    key,
                    value,
                    queue,
                },
                now,
            )?;
        }
        let total = &mut self.context.counters.total_items;
        *total = total.wrapping_add(1);
        Ok(())
    }

    #[inline]
    fn is_too_large(&self, item: &NewItem<'_>) -> bool {
        let flags = if item.flags != 0 {
            MEMCACHED_FLAGS_SIZE
        } else {
            0
        };
        // Lengths of slices: none is more than half of all numbers, so two of them do not wrap.
        let values = item.value[0].len().wrapping_add(item.value[1].len());
        item.key.len() > KEY_BYTES_MAX
            || values > self.item_size_max
            || values + item.key.len() + MEMCACHED_ITEM_OVERHEAD + flags > self.item_size_max
    }

    /// Appends an item to a cachelet, making room as long as it takes.
    pub(crate) fn append(
        &mut self,
        slot: usize,
        entry: &Entry<'_>,
        now: Seconds,
    ) -> Result<Place, StoreError> {
        self.context.account.asks = entry.queue != QueueName::Copies;
        for _ in 0..INSERT_ATTEMPTS {
            let cachelet = self.cachelets.get_mut(slot).and_then(Option::as_mut);
            let inner = &mut cachelet.ok_or(StoreError::NoCachelet)?.inner;
            match inner.append(entry, now, &mut self.context) {
                Ok(place) => return Ok(place),
                Err(need) => {
                    if !self.make_room(need, slot, entry.queue, now) {
                        break;
                    }
                }
            }
        }
        if entry.queue == QueueName::Copies {
            self.context.counters.copies_refused += 1;
            return Err(StoreError::OutOfMemory);
        }
        self.context.counters.out_of_memory += 1;
        let geometry = self.context.account.pool().geometry();
        let bytes = geometry.align_up(entry.layout(0).size());
        self.context.fates.refused(bytes);
        Err(StoreError::OutOfMemory)
    }

    /// Removes an item; false when there was none. An expired item is removed and counts as none.
    pub fn delete(&mut self, id: CacheletId, key: &[u8], now: Seconds) -> bool {
        let hash = self.hash(key);
        self.delete_hashed(id, key, hash, now)
    }

    /// As [`Store::delete`], with the key's hash.
    pub fn delete_hashed(
        &mut self,
        id: CacheletId,
        key: &[u8],
        hash: TableHash,
        now: Seconds,
    ) -> bool {
        let Some(cachelet) = self
            .cachelets
            .get_mut(usize::from(id.0))
            .and_then(Option::as_mut)
        else {
            return false;
        };
        let inner = &mut cachelet.inner;
        inner.writes += 1;
        let Some(place) = inner.find(key, hash) else {
            return false;
        };
        if item::is_expired(inner.item(place, now).expires_at(), now) {
            inner.expire(hash, place, &mut self.context);
            return false;
        }
        inner.remove(hash, place, &mut self.context);
        true
    }

    /// Removes every item of this store. Takes time in proportion to segments, not items.
    pub fn flush(&mut self) {
        for cachelet in self.cachelets.iter_mut().flatten() {
            cachelet.inner.flush(&mut self.context);
        }
        self.context.account.trim();
        self.context.counters.flushes += 1;
    }

    /// Removes every item of one cachelet; false when it is not here.
    pub fn flush_cachelet(&mut self, id: CacheletId) -> bool {
        let cachelet = self
            .cachelets
            .get_mut(usize::from(id.0))
            .and_then(Option::as_mut);
        let found = cachelet
            .map(|cachelet| cachelet.inner.flush(&mut self.context))
            .is_some();
        self.context.account.trim();
        found
    }

    // Counters.

    /// Counters and gauges of this store. Takes time in proportion to its cachelets.
    pub fn stats(&self) -> StoreStats {
        let mut stats = self.context.counters;
        stats.held_bytes = self.held_bytes();
        for (_, inner) in self.inners() {
            let of_cachelet = inner.stats();
            stats.items += of_cachelet.items;
            stats.bytes += of_cachelet.bytes;
            stats.segments += of_cachelet.segments;
            stats.index_bytes += of_cachelet.index_bytes;
            stats.copies += inner.copies as u64;
            stats.copies_bytes += inner.copies_bytes as u64;
            stats.dead_bytes += (inner.segment_bytes - inner.live_bytes) as u64;
        }
        stats
    }

    /// Bytes that this store has borrowed of the pool.
    pub fn held_bytes(&self) -> u64 {
        self.context.account.held() as u64
    }

    /// Counters and gauges of one cachelet.
    pub fn cachelet_stats(&self, id: CacheletId) -> Option<CacheletStats> {
        self.inner(usize::from(id.0)).map(Inner::stats)
    }
}
