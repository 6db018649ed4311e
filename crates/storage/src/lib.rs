//! One worker's cache: cachelets, index, memory, expiry, eviction.
//!
//! A worker has one [`Store`]; the store has cachelets, each with an index and memory of its own, so
//! that a cachelet moves to another worker by pointer ([`Store::detach`], [`Store::attach`]). All
//! stores of a process draw on one [`SegmentPool`], whose limit is strict.
//!
//! ```text
//!  SegmentPool ── bytes ──> Account ──> Cachelet ──> Index   (hash -> location)
//!  (process)               (worker)         └──────> Segment (items, one after another)
//! ```
//!
//! The ideas come from Segcache (Yang et al., NSDI 2021): items are appended to segments, need no
//! links, and expire with their segment. Where it evicts by merging neighbours, a store does what
//! S3-FIFO (SOSP 2023) does with items, on segments; see `eviction.rs`. `index.rs` says how an entry
//! costs 6.2 bytes, `item.rs` how a header costs 12.
//!
//! A store is single-threaded, reads no clock (each call is told the second) and allocates nothing
//! on a get or on a set that finds room. Nothing here knows of sockets or protocols.
//!
//! What must hold at every moment, and [`Store::assert_invariants`] checks in tests: memory borrowed
//! never exceeds the pool's limit or the store's own cap; each index entry leads to a live item with
//! that hash, and each live item has one; the counters are what a recount gives.

#![deny(unsafe_code)]

mod bands;
mod bucket;
mod cachelet;
mod eviction;
mod hash;
mod index;
mod invariants;
mod item;
mod item_mut;
mod maintenance;
mod pool;
#[expect(
    unsafe_code,
    reason = "prefetching and comparing vectors have no safe names"
)]
mod processor;
mod segment;
mod stats;
mod store;
mod walk;

pub use bands::{
    BandCounters, BandGauge, BandStats, Evicted, EvictionLog, SIZE_BANDS, band_bytes_max, size_band,
};
pub use cachelet::Cachelet;
pub use hash::TableHash;
pub use item::{Item, MEMCACHED_FLAGS_SIZE, MEMCACHED_ITEM_OVERHEAD, NEVER, NewItem};
pub use item_mut::ItemMut;
pub use pool::{PoolConfig, SegmentPool};
pub use stats::{CacheletStats, StoreStats};
pub use store::{Store, StoreConfig, StoreError};
pub use walk::WalkCursor;

/// Whole seconds since the process started.
pub type Seconds = u32;
