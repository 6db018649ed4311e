//! One worker's cache: cachelets, index, memory, expiry, eviction
