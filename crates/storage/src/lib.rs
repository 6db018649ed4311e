//! One worker's cache: cachelets, index, memory, expiry, eviction.
//!
//! This first version settles the interface and the semantics on top of the standard map; the
//! segment memory replaces what is behind it.

use evenkeel_types::{CacheletId, Version};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whole seconds since the process started.
pub type Seconds = u32;
/// The expiry of an item that never expires.
pub const NEVER: Seconds = 0;
/// Bytes counted for an item besides its key and value.
const ITEM_OVERHEAD: usize = 64;

/// What a [`SegmentPool`] is made of.
#[derive(Clone, Copy, Debug)]
pub struct PoolConfig {
    /// Most bytes that all stores together may hold.
    pub limit_bytes: usize,
    /// Largest item, key and value and overhead, in bytes.
    pub item_size_max: usize,
    /// How many cachelets will share the pool.
    pub cachelets_expected: usize,
}

/// The memory budget of a process.
#[derive(Debug)]
pub struct SegmentPool {
    config: PoolConfig,
    used: AtomicUsize,
}

impl SegmentPool {
    /// Makes a pool.
    pub fn new(config: PoolConfig) -> Arc<Self> {
        Arc::new(SegmentPool {
            config,
            used: AtomicUsize::new(0),
        })
    }
    /// The budget in bytes.
    pub fn limit_bytes(&self) -> usize {
        self.config.limit_bytes
    }
    /// Bytes handed out.
    pub fn used_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
    /// Size of an ordinary segment in bytes.
    pub fn segment_bytes(&self) -> usize {
        64 << 10
    }
    /// Largest item in bytes.
    pub fn item_size_max(&self) -> usize {
        self.config.item_size_max
    }
    fn take(&self, bytes: usize) -> bool {
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes)
                    .filter(|&sum| sum <= self.config.limit_bytes)
            })
            .is_ok()
    }
    fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// How a [`Store`] behaves.
#[derive(Clone, Copy, Debug)]
pub struct StoreConfig {
    /// Secret seed of the table hash.
    pub hash_seed: u64,
    /// Whether a full store makes room by eviction (memcached's default) or refuses (`-M`).
    pub evict: bool,
    /// Own cap in bytes, below the pool's.
    pub bytes_max: Option<usize>,
}

impl Default for StoreConfig {
    fn default() -> Self {
        StoreConfig {
            hash_seed: 0,
            evict: true,
            bytes_max: None,
        }
    }
}

/// Why an item was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// Larger than the pool's largest item.
    TooLarge,
    /// No memory, and nothing may be or can be evicted.
    OutOfMemory,
    /// This store has no such cachelet.
    NoCachelet,
}

impl core::fmt::Display for StoreError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            StoreError::TooLarge => "object too large for cache",
            StoreError::OutOfMemory => "out of memory storing object",
            StoreError::NoCachelet => "no such cachelet here",
        })
    }
}

impl core::error::Error for StoreError {}

/// A key's hash in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableHash(u64);

/// An item to store.
#[derive(Clone, Copy, Debug)]
pub struct NewItem<'a> {
    /// Key.
    pub key: &'a [u8],
    /// Value, as two pieces that are joined.
    pub value: [&'a [u8]; 2],
    /// The client's flags.
    pub flags: u32,
    /// Expiry, or [`NEVER`].
    pub expires_at: Seconds,
    /// CAS unique.
    pub version: Version,
}

/// Counters of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Items now.
    pub items: u64,
    /// Bytes of the items now.
    pub bytes: u64,
    /// Segments now.
    pub segments: u64,
    /// Bytes of the indexes now.
    pub index_bytes: u64,
    /// Bytes held of the pool now.
    pub held_bytes: u64,
    /// Bytes of overwritten and deleted items that are not reclaimed yet.
    pub dead_bytes: u64,
    /// Items ever stored.
    pub total_items: u64,
    /// Valid items removed for room.
    pub evictions: u64,
    /// Of them, never fetched.
    pub evicted_unfetched: u64,
    /// Of them, fetched lately.
    pub evicted_active: u64,
    /// Expired items never fetched.
    pub expired_unfetched: u64,
    /// Expired items whose memory came back.
    pub reclaimed: u64,
    /// Reads that met an expired item.
    pub get_expired: u64,
    /// Items refused for lack of memory.
    pub out_of_memory: u64,
    /// Items refused for their size.
    pub too_large: u64,
    /// Items moved to gather free space.
    pub moved_items: u64,
    /// Flushes of the whole store.
    pub flushes: u64,
}

/// Counters of a cachelet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheletStats {
    /// Items now.
    pub items: u64,
    /// Bytes of the items now.
    pub bytes: u64,
    /// Segments now.
    pub segments: u64,
    /// Bytes of the index now.
    pub index_bytes: u64,
    /// Bytes held of the pool now.
    pub held_bytes: u64,
    /// Gets since it was made.
    pub reads: u64,
    /// Gets that found an item.
    pub hits: u64,
    /// Inserts and deletes since it was made.
    pub writes: u64,
}

#[derive(Debug)]
struct Entry {
    key: Box<[u8]>,
    value: Vec<u8>,
    flags: u32,
    expires_at: Seconds,
    version: Version,
    last_access: Seconds,
    fetched: bool,
    stale: bool,
    win_sent: bool,
}

fn expired(at: Seconds, now: Seconds) -> bool {
    at != NEVER && at <= now
}

/// Index and items of one cachelet.
#[derive(Debug)]
pub struct Cachelet {
    id: CacheletId,
    pool: Arc<SegmentPool>,
    map: HashMap<Box<[u8]>, Entry>,
    order: VecDeque<Box<[u8]>>,
    stats: CacheletStats,
}

impl Drop for Cachelet {
    fn drop(&mut self) {
        self.pool.give(self.stats.bytes as usize);
    }
}

impl Cachelet {
    /// Which cachelet this is.
    pub fn id(&self) -> CacheletId {
        self.id
    }
    /// Its counters.
    pub fn stats(&self) -> CacheletStats {
        self.stats
    }
    fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        let entry = self.map.remove(key)?;
        let size = size_of(key, entry.value.len());
        self.pool.give(size);
        self.stats.items -= 1;
        self.stats.bytes -= size as u64;
        self.stats.held_bytes -= size as u64;
        Some(entry)
    }
    fn item<'a>(&'a self, key: &[u8]) -> Option<Item<'a>> {
        let (key, entry) = self.map.get_key_value(key)?;
        Some(Item { key, entry })
    }
}

fn size_of(key: &[u8], value_len: usize) -> usize {
    key.len() + value_len + ITEM_OVERHEAD
}

/// An item, read-only.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    key: &'a [u8],
    entry: &'a Entry,
}

impl<'a> Item<'a> {
    /// Key.
    pub fn key(&self) -> &'a [u8] {
        self.key
    }
    /// Value.
    pub fn value(&self) -> &'a [u8] {
        &self.entry.value
    }
    /// The client's flags.
    pub fn flags(&self) -> u32 {
        self.entry.flags
    }
    /// CAS unique.
    pub fn version(&self) -> Version {
        self.entry.version
    }
    /// Expiry or [`NEVER`].
    pub fn expires_at(&self) -> Seconds {
        self.entry.expires_at
    }
    /// When it was last read or written.
    pub fn last_access(&self) -> Seconds {
        self.entry.last_access
    }
    /// Whether it has been read since it was written.
    pub fn fetched(&self) -> bool {
        self.entry.fetched
    }
    /// Whether it was marked stale.
    pub fn stale(&self) -> bool {
        self.entry.stale
    }
    /// Whether a client has won the right to refresh it.
    pub fn win_sent(&self) -> bool {
        self.entry.win_sent
    }
    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        size_of(self.key, self.entry.value.len())
    }
}

/// An item that was asked for.
#[derive(Debug)]
pub struct ItemMut<'a> {
    entry: &'a mut Entry,
}

impl<'a> ItemMut<'a> {
    fn item(&self) -> Item<'_> {
        Item {
            key: &self.entry.key,
            entry: self.entry,
        }
    }
    /// Key.
    pub fn key(&self) -> &[u8] {
        &self.entry.key
    }
    /// Value.
    pub fn value(&self) -> &[u8] {
        &self.entry.value
    }
    /// The client's flags.
    pub fn flags(&self) -> u32 {
        self.item().flags()
    }
    /// CAS unique.
    pub fn version(&self) -> Version {
        self.item().version()
    }
    /// Expiry or [`NEVER`].
    pub fn expires_at(&self) -> Seconds {
        self.item().expires_at()
    }
    /// When it was last read or written, before this access.
    pub fn last_access(&self) -> Seconds {
        self.item().last_access()
    }
    /// Whether it has been read before this access.
    pub fn fetched(&self) -> bool {
        self.item().fetched()
    }
    /// Whether it was marked stale.
    pub fn stale(&self) -> bool {
        self.item().stale()
    }
    /// Whether a client has won the right to refresh it.
    pub fn win_sent(&self) -> bool {
        self.item().win_sent()
    }
    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        self.item().size()
    }
    /// Sets the expiry. On failure the item is unchanged.
    pub fn set_expires_at(&mut self, at: Seconds) -> Result<(), StoreError> {
        self.entry.expires_at = at;
        Ok(())
    }
    /// Sets the CAS unique. On failure the item is unchanged.
    pub fn set_version(&mut self, version: Version) -> Result<(), StoreError> {
        self.entry.version = version;
        Ok(())
    }
    /// Marks the item stale or fresh.
    pub fn set_stale(&mut self, stale: bool) {
        self.entry.stale = stale;
    }
    /// Notes that a client has won the right to refresh it.
    pub fn set_win_sent(&mut self, win_sent: bool) {
        self.entry.win_sent = win_sent;
    }
    /// Writes a value of the same length in place.
    pub fn overwrite_value_same_len(&mut self, value: &[u8]) {
        self.entry.value.copy_from_slice(value);
    }
    /// Notes a read: sets `fetched` and the time of the last access.
    pub fn touch_access(&mut self, now: Seconds) {
        self.entry.fetched = true;
        self.entry.last_access = now;
    }
    /// A read-only view that lives as long as the borrow of the store.
    pub fn into_item(self) -> Item<'a> {
        Item {
            key: &self.entry.key,
            entry: self.entry,
        }
    }
}

/// Where a walk over a cachelet has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkCursor(u64);

/// The cachelets of one worker.
#[derive(Debug)]
pub struct Store {
    pool: Arc<SegmentPool>,
    config: StoreConfig,
    cachelets: BTreeMap<CacheletId, Cachelet>,
    stats: StoreStats,
}

impl Store {
    /// A store that evicts and has no cap of its own.
    pub fn new(pool: Arc<SegmentPool>, hash_seed: u64) -> Self {
        Self::with_config(
            pool,
            StoreConfig {
                hash_seed,
                ..StoreConfig::default()
            },
        )
    }
    /// A store.
    pub fn with_config(pool: Arc<SegmentPool>, config: StoreConfig) -> Self {
        Store {
            pool,
            config,
            cachelets: BTreeMap::new(),
            stats: StoreStats::default(),
        }
    }
    /// Makes an empty cachelet; false when there is one of that id.
    pub fn create_cachelet(&mut self, id: CacheletId) -> bool {
        if self.has(id) {
            return false;
        }
        let cachelet = Cachelet {
            id,
            pool: self.pool.clone(),
            map: HashMap::new(),
            order: VecDeque::new(),
            stats: CacheletStats::default(),
        };
        self.cachelets.insert(id, cachelet);
        true
    }
    /// Takes a cachelet of another store; returns the one it displaces.
    pub fn attach(&mut self, cachelet: Cachelet) -> Option<Cachelet> {
        self.cachelets.insert(cachelet.id, cachelet)
    }
    /// Takes a cachelet out.
    pub fn detach(&mut self, id: CacheletId) -> Option<Cachelet> {
        self.cachelets.remove(&id)
    }
    /// Drops a cachelet and its items.
    pub fn drop_cachelet(&mut self, id: CacheletId) -> bool {
        self.detach(id).is_some()
    }
    /// Whether this store has the cachelet.
    pub fn has(&self, id: CacheletId) -> bool {
        self.cachelets.contains_key(&id)
    }
    /// The cachelets here.
    pub fn cachelet_ids(&self) -> impl Iterator<Item = CacheletId> + '_ {
        self.cachelets.keys().copied()
    }
    /// The hash of a key in the index.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> TableHash {
        use core::hash::Hasher;
        let mut hasher = foldhash::quality::FoldHasher::with_seed(
            self.config.hash_seed,
            foldhash::SharedSeed::global_fixed(),
        );
        hasher.write(key);
        TableHash(hasher.finish())
    }
    /// Fetches the index line of a hash ahead of its use.
    #[inline]
    pub fn prefetch(&self, _id: CacheletId, _hash: TableHash) {}
    /// Fetches the item of a hash ahead of its use.
    #[inline]
    pub fn prefetch_item(&self, _id: CacheletId, _hash: TableHash) {}
    /// Finds an item and notes the read.
    pub fn get(&mut self, id: CacheletId, key: &[u8], now: Seconds) -> Option<ItemMut<'_>> {
        let hash = self.hash(key);
        self.get_hashed(id, key, hash, now)
    }
    /// As [`Store::get`], with the key's hash.
    pub fn get_hashed(
        &mut self,
        id: CacheletId,
        key: &[u8],
        _hash: TableHash,
        now: Seconds,
    ) -> Option<ItemMut<'_>> {
        let cachelet = self.cachelets.get_mut(&id)?;
        cachelet.stats.reads += 1;
        if cachelet
            .map
            .get(key)
            .is_some_and(|entry| expired(entry.expires_at, now))
        {
            let entry = cachelet.remove(key)?;
            self.stats.get_expired += 1;
            self.stats.reclaimed += 1;
            self.stats.expired_unfetched += u64::from(!entry.fetched);
        }
        let entry = cachelet.map.get_mut(key)?;
        cachelet.stats.hits += 1;
        Some(ItemMut { entry })
    }
    /// Finds an item without a trace.
    pub fn peek(&self, id: CacheletId, key: &[u8], now: Seconds) -> Option<Item<'_>> {
        self.peek_hashed(id, key, self.hash(key), now)
    }
    /// As [`Store::peek`], with the key's hash.
    pub fn peek_hashed(
        &self,
        id: CacheletId,
        key: &[u8],
        _hash: TableHash,
        now: Seconds,
    ) -> Option<Item<'_>> {
        let item = self.cachelets.get(&id)?.item(key)?;
        (!expired(item.expires_at(), now)).then_some(item)
    }
    /// Stores an item in place of any of the same key. On failure the old item is gone.
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
    pub fn insert_hashed(
        &mut self,
        id: CacheletId,
        item: NewItem<'_>,
        _hash: TableHash,
        now: Seconds,
    ) -> Result<(), StoreError> {
        let cachelet = self.cachelets.get_mut(&id).ok_or(StoreError::NoCachelet)?;
        cachelet.stats.writes += 1;
        cachelet.remove(item.key);
        let value = item.value.concat();
        let size = size_of(item.key, value.len());
        if size > self.pool.item_size_max() {
            self.stats.too_large += 1;
            return Err(StoreError::TooLarge);
        }
        while !self.pool.take(size) {
            let victim = if self.config.evict {
                cachelet.order.pop_front()
            } else {
                None
            };
            let Some(victim) = victim else {
                self.stats.out_of_memory += 1;
                return Err(StoreError::OutOfMemory);
            };
            if let Some(entry) = cachelet.remove(&victim) {
                self.stats.evictions += 1;
                self.stats.evicted_unfetched += u64::from(!entry.fetched);
            }
        }
        let entry = Entry {
            key: item.key.into(),
            value,
            flags: item.flags,
            expires_at: item.expires_at,
            version: item.version,
            last_access: now,
            fetched: false,
            stale: false,
            win_sent: false,
        };
        cachelet.order.push_back(item.key.into());
        cachelet.map.insert(item.key.into(), entry);
        cachelet.stats.items += 1;
        cachelet.stats.bytes += size as u64;
        cachelet.stats.held_bytes += size as u64;
        self.stats.total_items += 1;
        Ok(())
    }
    /// Removes an item; false when there was none (an expired one is none).
    pub fn delete(&mut self, id: CacheletId, key: &[u8], now: Seconds) -> bool {
        let hash = self.hash(key);
        self.delete_hashed(id, key, hash, now)
    }
    /// As [`Store::delete`], with the key's hash.
    pub fn delete_hashed(
        &mut self,
        id: CacheletId,
        key: &[u8],
        _hash: TableHash,
        now: Seconds,
    ) -> bool {
        let Some(cachelet) = self.cachelets.get_mut(&id) else {
            return false;
        };
        cachelet.stats.writes += 1;
        cachelet
            .remove(key)
            .is_some_and(|entry| !expired(entry.expires_at, now))
    }
    /// Removes every item of this store.
    pub fn flush(&mut self) {
        let ids: Vec<_> = self.cachelet_ids().collect();
        for id in ids {
            self.flush_cachelet(id);
        }
        self.stats.flushes += 1;
    }
    /// Removes every item of one cachelet; false when it is not here.
    pub fn flush_cachelet(&mut self, id: CacheletId) -> bool {
        let existed = self.drop_cachelet(id);
        if existed {
            self.create_cachelet(id);
        }
        existed
    }
    /// Gives expired items' memory back, in bounded steps; true when there is more to do.
    pub fn maintain(&mut self, now: Seconds, work_limit: usize) -> bool {
        let mut left = work_limit;
        for cachelet in self.cachelets.values_mut() {
            let gone: Vec<_> = cachelet
                .map
                .iter()
                .filter(|(_, entry)| expired(entry.expires_at, now))
                .map(|(key, _)| key.clone())
                .take(left)
                .collect();
            left -= gone.len();
            for key in gone {
                if let Some(entry) = cachelet.remove(&key) {
                    self.stats.reclaimed += 1;
                    self.stats.expired_unfetched += u64::from(!entry.fetched);
                }
            }
        }
        left == 0
    }
    /// Counters and gauges.
    pub fn stats(&self) -> StoreStats {
        let mut stats = self.stats;
        for cachelet in self.cachelets.values() {
            stats.items += cachelet.stats.items;
            stats.bytes += cachelet.stats.bytes;
            stats.held_bytes += cachelet.stats.held_bytes;
        }
        stats
    }
    /// Counters and gauges of one cachelet.
    pub fn cachelet_stats(&self, id: CacheletId) -> Option<CacheletStats> {
        self.cachelets.get(&id).map(Cachelet::stats)
    }
    /// Every live item of a cachelet.
    pub fn items(&self, id: CacheletId, now: Seconds) -> impl Iterator<Item = Item<'_>> {
        self.cachelets
            .get(&id)
            .into_iter()
            .flat_map(move |cachelet| {
                cachelet
                    .map
                    .iter()
                    .filter(move |(_, entry)| !expired(entry.expires_at, now))
                    .map(|(key, entry)| Item { key, entry })
            })
    }
    /// Visits a bounded number of items; `None` when the walk is done.
    pub fn walk(
        &self,
        id: CacheletId,
        cursor: WalkCursor,
        now: Seconds,
        visit: impl FnMut(Item<'_>),
    ) -> Option<WalkCursor> {
        let _ = cursor;
        self.items(id, now).for_each(visit);
        None
    }
}
