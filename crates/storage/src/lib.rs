//! One worker's cache: cachelets, index, memory, expiry, eviction.
//!
//! A cache library without locks: each thread owns a [`Store`], and all stores of a process draw their
//! memory from one [`SegmentPool`], whose limit is strict.
//!
//! ```
//! use evenkeel_storage::{NEVER, NewItem, PoolConfig, SegmentPool, Store};
//! use evenkeel_types::{CacheletId, Version};
//!
//! // 16 MiB for the whole process, items of up to 1 MiB, eight cachelets on all threads together.
//! let pool = SegmentPool::new(PoolConfig {
//!     limit_bytes: 16 << 20,
//!     item_size_max: 1 << 20,
//!     cachelets_expected: 8,
//! });
//! // Each thread has a store of its own. The seed keys the hash of the index: take a secret one.
//! let mut store = Store::new(pool.clone(), 0x5eed);
//! let id = CacheletId(0);
//! store.create_cachelet(id);
//!
//! // A store reads no clock: each call is told the second. This item lives from second 5 to 64.
//! let item = NewItem {
//!     key: b"greeting",
//!     value: [b"hello, ", b"world"],
//!     flags: 0,
//!     expires_at: 65,
//!     version: Version(1),
//! };
//! store.insert(id, item, 5)?;
//! assert_eq!(store.read(id, b"greeting", 6).unwrap().value(), b"hello, world");
//! assert!(store.read(id, b"greeting", 65).is_none());
//!
//! // A batch of keys: first all index lines are on their way, then all items, then they are read.
//! store.insert(id, NewItem { expires_at: NEVER, ..item }, 70)?;
//! let keys = [b"greeting".as_slice(), b"farewell"];
//! let hashes = keys.map(|key| store.hash(key));
//! hashes.iter().for_each(|hash| store.prefetch(id, *hash));
//! let hints = hashes.map(|hash| store.prefetch_item(id, hash));
//! let batch = keys.iter().zip(hashes).zip(hints);
//! let found = batch.filter(|((key, hash), hint)| store.read_hinted(id, key, *hash, *hint, 70).is_some());
//! assert_eq!(found.count(), 1);
//!
//! // A cachelet moves to another thread with its items and memory, by pointer.
//! let cachelet = store.detach(id).unwrap();
//! let mut other = Store::new(pool.clone(), 0x5eed);
//! other.attach(cachelet);
//! assert!(other.peek(id, b"greeting", 71).is_some());
//!
//! // Between requests: expiry, smaller indexes, and what a lowered limit asks back.
//! pool.set_limit_bytes(8 << 20);
//! while other.maintain(71, 64) {}
//! assert!(pool.used_bytes() <= pool.limit_bytes());
//! # Ok::<(), evenkeel_storage::StoreError>(())
//! ```
//!
//! # Model
//!
//! A worker has one [`Store`]; the store has cachelets, each with an index and memory of its own, so
//! that a cachelet moves to another worker by pointer ([`Store::detach`], [`Store::attach`]).
//!
//! ```text
//!  SegmentPool ── bytes ──> Account ──> Cachelet ──> Index   (hash -> location)
//!  (process)               (worker)         └──────> Segment (items, one after another)
//! ```
//!
//! | to … | take |
//! |---|---|
//! | read as a client does | [`Store::read`] |
//! | see an item as it was before this read, or change it | [`Store::get`], then [`ItemMut`] |
//! | look without a trace | [`Store::peek`] |
//! | write | [`Store::insert`], [`Store::delete`], [`Store::flush`] |
//! | read a batch from a store larger than the processor's caches | [`Store::hash`], [`Store::prefetch`], [`Store::prefetch_item`], [`Store::read_hinted`] |
//! | go through all items | [`Store::items`], or [`Store::walk`] a step at a time |
//! | keep house | [`Store::maintain`], often |
//! | change the budget | [`SegmentPool::set_limit_bytes`] |
//!
//! The ideas come from Segcache (Yang et al., NSDI 2021): items are appended to segments, need no
//! links, and expire with their segment. Where it evicts by merging neighbours, a store does what
//! S3-FIFO (SOSP 2023) does with items, on segments; see `eviction.rs` and `ghosts.rs`. `index.rs` says
//! how an entry costs 6.4 bytes, `item.rs` how a header costs 12.
//!
//! A store is single-threaded, reads no clock and allocates nothing on a get or on a set that finds
//! room. Nothing here knows of sockets or protocols. `examples/density.rs` shows how many items fit,
//! `examples/threads.rs` what sharing nothing is worth, `examples/hit_ratio` what stays when memory is
//! short.
//!
//! What must hold at every moment, and [`Store::assert_invariants`] checks in tests: memory borrowed
//! never exceeds the pool's limit or the store's own cap; each index entry leads to a live item with
//! that hash, and each live item has one; the counters are what a recount gives.

#![deny(unsafe_code)]
// See clippy.toml.
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

mod band_stats;
mod bands;
mod bucket;
mod cachelet;
mod cursor;
mod eviction;
mod ghosts;
mod hash;
mod hint;
mod index;
mod invariants;
mod item;
mod item_mut;
mod look_ahead;
mod maintenance;
mod pool;
#[expect(
    unsafe_code,
    reason = "prefetching and comparing vectors have no safe names"
)]
mod processor;
mod same_bytes;
mod segment;
mod stats;
mod store;
mod walk;
mod worth;

pub use bands::{BandStats, Evicted, EvictionLog, SIZE_BANDS, band_bytes_max, size_band};
pub use cachelet::Cachelet;
pub use hash::TableHash;
pub use hint::Hint;
pub use item::{Item, MEMCACHED_FLAGS_SIZE, MEMCACHED_ITEM_OVERHEAD, NEVER, NewItem};
pub use item_mut::ItemMut;
pub use pool::{PoolConfig, SegmentPool};
pub use stats::{CacheletStats, StoreStats};
pub use store::{Store, StoreConfig, StoreError};
pub use walk::WalkCursor;

/// Whole seconds since the process started.
pub type Seconds = u32;
