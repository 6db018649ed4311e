//! Miss-ratio curves: which share of gets would find what they ask for, had a pool less memory or more.
//!
//! Caches are simulated in miniature (Waldspurger et al., "Cache Modeling and Optimization using Miniature Simulations", ATC 2017): of
//! keys that are sampled by hash, one in n, in the n-th part of the memory, about as many gets find their item as of all keys in all of
//! it. What is replayed are the records of the keys' sample: a get reads, a store stores as many bytes as it had on the wire for as long
//! as it said, a delete deletes. A get that found its item in the recording and does not in the simulation is followed by a store, as
//! applications do it; one that found nothing is followed by the application's own, if it stores at all.
//!
//! Of more than [`CURVE_KEYS_MAX`] keys a part is followed (`followed.rs`): when it is halved, so are the simulated memories.
//!
//! **Hot keys.** A hot key is in the keys' sample or not by chance, and bends a share of the sample's gets; it hardly ever misses,
//! though. So misses are counted in the keys' sample, and set against the number of all gets, which the pages' sample tells (SHARDS-adj:
//! Waldspurger et al., FAST 2015, section 2.4). Without a sample of pages they are set against those of the keys' sample.
//!
//! **The beginning.** A recording begins in front of a full cache. Of a key's first get that finds its item nobody knows how large a
//! cache would have to be: it is counted apart, and the curve is of the others.
//!
//! The error is that of drawing keys: each is in the sample by itself, so that the variance of the misses is the sum of the squares of
//! each key's.
//!
//! Rejected: one stack of reuse distances for all sizes at once, as SHARDS has it: it knows LRU alone, and no ends of items.
//!
//! Not done: regression of misses on gets, with hot keys apart. It would help where no key is hot and most gets miss: there a sample with
//! too many gets by chance has too many misses, too, and is set against gets of which it knows nothing.

mod cache;
mod items;
#[cfg(test)]
mod tests;

use crate::followed::Followed;
use crate::head::Head;
use crate::lifetime::Lifetime;
use crate::record::{Flags, Record};
use crate::report::object_bytes;
use crate::sampling::Sampling;
use cache::{Cache, Policy};
use evenkeel_schemes::locality::Outcome;
use items::NEVER;
use serde::Serialize;

/// Most keys that are followed at once, of all pools. In each of 15 caches that it is in a key takes some 200 bytes, and one that has
/// left may be remembered in others: some 200 MiB at most.
pub const CURVE_KEYS_MAX: usize = 1 << 16;

/// Sizes of a pool whose memory is known, in quarters of it.
const QUARTERS: [u64; 5] = [1, 2, 4, 8, 16];

/// Sizes of a pool whose memory is not known, in bytes.
const SIZES: [u64; 5] = [64 << 20, 256 << 20, 1 << 30, 4 << 30, 16 << 30];

/// What an item takes besides its bytes on the wire: memcached's header has 48 bytes and the unique 8, and the words of a store or an
/// answer are some 24 of them.
const ITEM_BYTES: u64 = 32;

const POLICIES: [Policy; 3] = [Policy::Lru, Policy::Segmented, Policy::S3Fifo];

/// Caches that are simulated of a pool: each size, and for it each policy.
const CACHES: usize = SIZES.len() * POLICIES.len();

/// The curve of a pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// The pool.
    pub pool: String,
    /// The memory that it has, as it was given.
    pub memory_bytes: Option<u64>,
    /// Gets of which it tells, about.
    pub gets: u64,
    /// Share of all gets that it cannot tell of: they found what was there before the recording began.
    pub unknown: f64,
    /// Sizes from the smallest to the largest.
    pub points: Vec<Point>,
}

/// A size of memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Bytes of items with their headers.
    pub bytes: u64,
    /// Exact LRU.
    pub lru: Hits,
    /// memcached's segmented LRU.
    pub segmented: Hits,
    /// S3-FIFO, as Evenkeel's servers have it.
    pub s3_fifo: Hits,
}

/// A share of gets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hits {
    /// Of 1, those that find their item.
    pub share: f64,
    /// Twice the standard error of drawing keys. The share was off by no more in 82 to 94 of 100 cases (tests.rs), since the number of all
    /// gets is drawn as well.
    pub error: f64,
}

/// Simulates caches while records are read.
#[derive(Debug)]
pub struct Curves {
    sampling: Sampling,
    pools: Vec<Pool>,
    keys: Followed<(u8, u64), Key>,
    now_us: u64,
}

/// What is known of a key.
#[derive(Clone, Copy, Debug, Default)]
struct Key {
    is_known: bool,
    /// Its first get found what was there before.
    is_unknown: bool,
    lifetime: Lifetime,
    /// Gets of which the curve tells.
    gets: u32,
    /// Of them, those that missed in each simulated cache of the pool.
    misses: [u32; CACHES],
}

#[derive(Debug)]
struct Pool {
    name: String,
    memory_bytes: Option<u64>,
    /// Gets in the sample of pages, and in that of keys.
    gets_of_pages: u64,
    gets_of_keys: u64,
    simulated: Vec<Simulated>,
}

/// A cache of this many bytes, if all keys were in it.
#[derive(Debug)]
struct Simulated {
    bytes: u64,
    cache: Cache,
}

impl Curves {
    /// Nothing yet of a profile with this head. `memory_bytes` says what a pool has, if that is known.
    pub fn new(head: &Head, memory_bytes: impl Fn(&str) -> Option<u64>) -> Self {
        Self::bounded(head, memory_bytes, CURVE_KEYS_MAX)
    }

    pub(crate) fn bounded(
        head: &Head,
        memory_bytes: impl Fn(&str) -> Option<u64>,
        keys_max: usize,
    ) -> Self {
        let pool = |name: &String| {
            let memory_bytes = memory_bytes(name);
            let sizes = match memory_bytes {
                Some(bytes) => QUARTERS.map(|quarters| (bytes / 4).saturating_mul(quarters)),
                None => SIZES,
            };
            let part = |bytes: u64| bytes / u64::from(head.sampling.keys.max(1));
            let simulated = sizes.into_iter().flat_map(|bytes| {
                POLICIES.map(|policy| Simulated {
                    bytes,
                    cache: Cache::new(policy, part(bytes)),
                })
            });
            Pool {
                name: name.clone(),
                memory_bytes,
                gets_of_pages: 0,
                gets_of_keys: 0,
                simulated: simulated.collect(),
            }
        };
        Curves {
            sampling: head.sampling,
            pools: head.pools.iter().map(pool).collect(),
            keys: Followed::new(keys_max),
            now_us: 0,
        }
    }

    /// Takes a record. O(1) for each cache.
    pub fn add(&mut self, record: &Record) {
        let id = (record.pool, record.key);
        let Some(pool) = self.pools.get_mut(usize::from(record.pool)) else {
            return;
        };
        let is_of_keys = record.flags.has(Flags::OF_KEYS);
        if record.outcome.is_read() {
            pool.gets_of_pages += u64::from(record.flags.has(Flags::OF_PAGES));
            pool.gets_of_keys += u64::from(is_of_keys);
        }
        if !is_of_keys {
            return;
        }
        let before = self.keys.one_of();
        let is_followed = self.keys.follow(id).is_some();
        if self.keys.one_of() != before {
            self.halve(self.keys.one_of() / before);
        }
        if !is_followed {
            return;
        }
        self.now_us = self.now_us.max(record.unix_us);
        if let Some(key) = self.keys.follow(id) {
            self.pools[usize::from(record.pool)].replay(record, key, self.now_us);
        }
    }

    fn halve(&mut self, parts: u64) {
        for _ in 0..parts.ilog2() {
            for (number, pool) in self.pools.iter_mut().enumerate() {
                for simulated in &mut pool.simulated {
                    let keys = &self.keys;
                    let stays = |key: u64| keys.is_followed(&(number as u8, key));
                    simulated.cache.halve(stays);
                }
            }
        }
    }

    /// The curves of pools of which gets are in the keys' sample. O(keys).
    pub fn curves(&self) -> Vec<Curve> {
        let one_of = f64::from(self.sampling.keys) * self.keys.one_of() as f64;
        let curves = self.pools.iter().enumerate().filter_map(|(number, pool)| {
            let keys = self.keys.iter();
            let keys = keys.filter(|((of, _), _)| usize::from(*of) == number);
            let keys: Vec<&Key> = keys.map(|(_, key)| key).collect();
            pool.curve(&keys, one_of, self.sampling)
        });
        curves.collect()
    }
}

impl Pool {
    fn replay(&mut self, record: &Record, key: &mut Key, now_us: u64) {
        let hash = record.key;
        let is_unknown = !key.is_known && record.outcome == Outcome::GetHit;
        key.is_known = true;
        key.is_unknown |= is_unknown;
        if record.outcome.is_read() && !is_unknown {
            key.gets = key.gets.saturating_add(1);
        }
        let bytes = object_bytes(record).unwrap_or_default() + ITEM_BYTES;
        let is_prolonged = record.lifetime != Lifetime::FOREVER;
        let stores = matches!(
            record.outcome,
            Outcome::SetHit | Outcome::AddHit | Outcome::ReplaceHit | Outcome::CasStored
        );
        if stores || is_prolonged {
            key.lifetime = record.lifetime;
        }
        let ends_us = key
            .lifetime
            .seconds()
            .map_or(NEVER, |seconds| now_us + u64::from(seconds) * 1_000_000);
        for (Simulated { cache, .. }, misses) in self.simulated.iter_mut().zip(&mut key.misses) {
            cache.pass_time(now_us);
            match record.outcome {
                Outcome::GetHit | Outcome::GetMiss => {
                    let is_hit = cache.get(hash);
                    if !is_hit && !is_unknown {
                        *misses = misses.saturating_add(1);
                    }
                    if !is_hit && record.outcome == Outcome::GetHit {
                        cache.set(hash, bytes, ends_us);
                    }
                }
                _ if stores => cache.set(hash, bytes, ends_us),
                Outcome::DeleteHit | Outcome::DeleteMiss => cache.delete(hash),
                Outcome::IncrHit | Outcome::DecrHit | Outcome::AppendHit => {
                    cache.get(hash);
                }
                _ => {}
            }
            if is_prolonged && !stores {
                cache.prolong(hash, ends_us);
            }
        }
    }

    /// Of the pool's keys that are followed, which are one of this many.
    fn curve(&self, keys: &[&Key], one_of: f64, sampling: Sampling) -> Option<Curve> {
        let gets = match sampling.pages {
            0 => self.gets_of_keys as f64 * f64::from(sampling.keys),
            pages => self.gets_of_pages as f64 * f64::from(pages),
        };
        let unknown = keys.iter().filter(|key| key.is_unknown).count() as f64 * one_of;
        let known = gets - unknown;
        if self.gets_of_keys == 0 || known <= 0.0 {
            return None;
        }
        let hits = |place: usize| {
            let misses = keys.iter().map(|key| f64::from(key.misses[place]));
            let squares = misses.clone().map(|of_key| of_key * of_key).sum::<f64>();
            // Of all keys each is here with a chance of one in `one_of`.
            let variance = squares * one_of * (one_of - 1.0);
            Hits {
                share: (1.0 - misses.sum::<f64>() * one_of / known).clamp(0.0, 1.0),
                error: 2.0 * variance.sqrt() / known,
            }
        };
        let caches = self.simulated.chunks(POLICIES.len()).enumerate();
        let points = caches.map(|(size, caches)| {
            let first = size * POLICIES.len();
            Point {
                bytes: caches[0].bytes,
                lru: hits(first),
                segmented: hits(first + 1),
                s3_fifo: hits(first + 2),
            }
        });
        Some(Curve {
            pool: self.name.clone(),
            memory_bytes: self.memory_bytes,
            gets: known as u64,
            unknown: unknown / gets,
            points: points.collect(),
        })
    }
}
