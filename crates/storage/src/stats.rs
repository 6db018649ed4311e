//! What a store and a cachelet count.

/// Counters (since the store was made) and gauges (now) of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Gauge: items. Expired ones count until they are found (memcached `curr_items`).
    pub items: u64,
    /// Gauge: bytes of these items in memory (memcached `bytes`).
    pub bytes: u64,
    /// Gauge: segments, ordinary and right-sized.
    pub segments: u64,
    /// Gauge: bytes of the indexes (memcached `hash_bytes`).
    pub index_bytes: u64,
    /// Gauge: bytes borrowed of the pool, in use or at hand.
    pub held_bytes: u64,
    /// Gauge: bytes of segments that no item uses: overwritten, deleted, or not written yet.
    pub dead_bytes: u64,
    /// Items ever stored (memcached `total_items`).
    pub total_items: u64,
    /// Items that had not expired and went to make room (memcached `evictions`).
    pub evictions: u64,
    /// Of them, never read (memcached `evicted_unfetched`).
    pub evicted_unfetched: u64,
    /// Of them, read again lately (memcached `evicted_active`).
    pub evicted_active: u64,
    /// Expired items found that had never been read (memcached `expired_unfetched`).
    pub expired_unfetched: u64,
    /// Expired items found and removed (memcached `reclaimed` and `crawler_reclaimed`).
    pub reclaimed: u64,
    /// Of them, found by a read (memcached `get_expired`).
    pub get_expired: u64,
    /// Items refused for lack of memory (memcached `store_no_memory`).
    pub out_of_memory: u64,
    /// Items refused for their size (memcached `store_too_large`).
    pub too_large: u64,
    /// Items that changed their place in memory to stay or to gather free space.
    pub moved_items: u64,
    /// Flushes of the whole store.
    pub flushes: u64,
    /// Gauge: of the items, [copies](crate::StoreConfig::is_copy).
    pub copies: u64,
    /// Gauge: their bytes in memory.
    pub copies_bytes: u64,
    /// Copies that had not expired and went to make room; none of them is in `evictions`.
    pub copies_evicted: u64,
    /// Copies that were refused, because other items need the memory; none of them is in `out_of_memory`.
    pub copies_refused: u64,
}

/// Counters (since the cachelet was made, wherever it was) and gauges (now) of a cachelet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheletStats {
    /// Gauge: items.
    pub items: u64,
    /// Gauge: bytes of these items in memory.
    pub bytes: u64,
    /// Gauge: segments, ordinary and right-sized.
    pub segments: u64,
    /// Gauge: bytes of the index.
    pub index_bytes: u64,
    /// Gauge: bytes of segments, their descriptions and the index.
    pub held_bytes: u64,
    /// Gets.
    pub reads: u64,
    /// Gets that found an item.
    pub hits: u64,
    /// Inserts and deletes, changes of an item's expiry or version, and look-ups for any of these that
    /// found nothing.
    pub writes: u64,
    /// Bytes of the values that gets found.
    pub bytes_out: u64,
    /// Bytes of the values that were to be inserted.
    pub bytes_in: u64,
}
