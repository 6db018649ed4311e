//! What a worker holds and the small things that all its commands share.

use crate::shard::classes::ClassStats;
use crate::shard::counters::Counters;
use crate::shard::replicas::Replicas;
use crate::shard::rewritten::Rewritten;
use crate::shard::time::{NEVER, Seconds, TimeBase};
use evenkeel_balance::cachelet_load::{CacheletCounts, CacheletLoad, LoadMeter, WorkerLoad};
use evenkeel_hotkeys::hottest::Hottest;
use evenkeel_hotkeys::server::{HotKeys, HotKeysStats, ReadAdvice, Reader, WriteKind};
use evenkeel_protocol::Limits;
use evenkeel_storage::{
    CacheletStats, Hint, Item, NewItem, Store, StoreError, StoreStats, TableHash,
};
use evenkeel_types::{CacheletId, Epoch, Instant, KeyHash, Now, Version};

/// Bits of the first version. Clients exist that keep CAS uniques in 32 bits, and memcached's own
/// start from 1, so versions start low; but not from 1 each time, because a client may come back
/// after a restart with a CAS unique of the life before.
const FIRST_VERSION_BITS: u32 = 31;

/// Bits of how many versions are left out when a worker gets keys that another server had: many enough, and so few that
/// versions stay within 32 bits for a thousand times.
const SKIPPED_BITS: u32 = 22;

/// Bounded work on expiry and index growth per turn, in items.
const MAINTENANCE_STEP: usize = 64;

/// The version before the first one of a process, spread over 31 bits by `entropy`, so that a CAS
/// unique of another life of the server is taken for one of this life once in two billion times.
///
/// Versions of different lives cannot be ordered, and nobody tries to: replicas are ordered by the
/// epoch of the map first, and a server that comes back is given a new one.
pub fn first_version(entropy: u64) -> Version {
    Version(mixed(entropy) >> (u64::BITS - FIRST_VERSION_BITS))
}

/// Multiplying by an odd constant (2^64 / golden ratio) carries every bit into the upper ones.
fn mixed(entropy: u64) -> u64 {
    entropy.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Who asks, where the key is, and when.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The time.
    pub now: Now,
    /// The same on the store's clock.
    pub seconds: Seconds,
    /// The cachelet that holds the key.
    pub cachelet: CacheletId,
    /// The key's hash in the store's index.
    pub table: TableHash,
    /// The key's placement hash, if it was needed to find the key's place.
    pub placement: Option<KeyHash>,
    /// What the asker knows of leases.
    pub reader: Reader,
    /// False for a key whose home is elsewhere: it is never found to be hot here.
    pub owned: bool,
    /// Epoch from which on this server holds the key's cachelet without a break.
    pub since: Epoch,
}

impl At {
    /// The same for a key that came in binary or in base64. What no line of text can hold is never
    /// found to be hot: replicas travel in lines.
    pub fn confined_to(self, key: &[u8]) -> At {
        let fits_a_line = !key.iter().any(|byte| matches!(byte, b' ' | b'\n'));
        At {
            owned: self.owned && fits_a_line,
            ..self
        }
    }

    /// The key's placement hash.
    #[inline]
    pub fn key_hash(&self, key: &[u8]) -> KeyHash {
        self.placement.unwrap_or_else(|| KeyHash::of(key))
    }
}

/// How an [`Engine`] begins.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    /// The first reading of the clocks.
    pub start: Now,
    /// What the protocol allows.
    pub limits: Limits,
    /// The version before the first one handed out.
    pub first_version: Version,
    /// Whether clients are shown CAS uniques.
    pub cas_shown: bool,
    /// Tells this worker's life from others.
    pub life: [u64; 2],
}

/// The state of one worker that commands work on.
#[derive(Debug)]
pub struct Engine {
    /// The items this worker holds.
    pub store: Store,
    /// What it holds for other homes.
    pub replicas: Replicas,
    /// The hot keys among its own.
    pub hot: HotKeys,
    /// Those that get most, at any load.
    pub hottest: Hottest,
    /// What it counts.
    pub counters: Counters,
    /// Relates the store's clock to the wall clock.
    pub time: TimeBase,
    /// What the protocol allows.
    pub limits: Limits,
    /// What was written of the cachelet that is being copied to another server.
    pub rewritten: Rewritten,
    /// The newest version handed out.
    version: Version,
    /// Whether clients are shown CAS uniques (`-C` hides them). Agreed peers always are.
    pub cas_shown: bool,
    /// The list of servers for clients that look for it, as the value of
    /// [`CLUSTER_KEY`](crate::admin::CLUSTER_KEY); empty when there is none.
    pub cluster_config: Vec<u8>,
    /// What the store had counted when `stats reset` was last said.
    baseline: StoreStats,
    baseline_classes: ClassStats,
    /// The same of the hot keys: their counts and the overwritten entries of their log.
    baseline_hot: (HotKeysStats, u64),
    /// How much each cachelet adds to the load.
    pub meter: LoadMeter,
    /// The second of the last round of housekeeping, and whether that round is over.
    round: (Seconds, bool),
    /// Tells this worker's life from others: see [`Engine::skip_versions`].
    life: [u64; 2],
    /// Old values on their way into new items (append, prepend, incr).
    pub scratch: Vec<u8>,
}

impl Engine {
    /// Puts the parts together.
    pub fn new(store: Store, replicas: Replicas, hot: HotKeys, config: &EngineConfig) -> Self {
        let start = config.start;
        let mut engine = Engine {
            store,
            replicas,
            hot,
            hottest: Hottest::new(config.life[0] ^ config.life[1], start.monotonic),
            counters: Counters::default(),
            time: TimeBase::new(start),
            limits: config.limits,
            rewritten: Rewritten::default(),
            version: config.first_version,
            cas_shown: config.cas_shown,
            cluster_config: Vec::new(),
            baseline: StoreStats::default(),
            baseline_classes: ClassStats::default(),
            baseline_hot: Default::default(),
            meter: LoadMeter::new(start.monotonic),
            round: (0, true),
            life: config.life,
            scratch: Vec::new(),
        };
        engine.update_meters(start.monotonic);
        engine
    }

    /// A version newer than all before.
    #[inline]
    pub fn next_version(&mut self) -> Version {
        self.version.0 += 1;
        self.version
    }

    /// Versions from now on are newer than this one of a worker whose items come here.
    pub fn adopt_version(&mut self, newest: Version) {
        self.version.0 = self.version.0.max(newest.0);
    }

    /// Leaves some versions out. Servers between which cachelets pass count on from each other's versions; should
    /// contents get lost later, no home of a key gives it a version again that another home gave to another
    /// value lately, but with the odds of one in a million. `reason` is the map or the migration by which they pass.
    pub fn skip_versions(&mut self, reason: Epoch) {
        let add = |sum: u64, part: u64| mixed(sum.rotate_left(27) ^ part);
        let sum = self.life.into_iter().chain([reason.0]).fold(0, add);
        self.version.0 += 1 + (mixed(sum) >> (u64::BITS - SKIPPED_BITS));
    }

    /// The newest version handed out.
    pub fn newest_version(&self) -> Version {
        self.version
    }

    /// Adopts a version that a client set (`E`), so that later ones are newer.
    pub fn version_for(&mut self, chosen: Option<u64>) -> Version {
        match chosen {
            Some(version) => {
                self.version.0 = self.version.0.max(version.min(VERSION_ADOPT_MAX));
                Version(version)
            }
            None => self.next_version(),
        }
    }

    /// Tells the hot keys of a write that was executed; before the answer leaves (S4, S8).
    #[inline]
    pub fn saw_write(&mut self, at: &At, key: &[u8], kind: WriteKind) {
        self.saw_write_of(at, key, kind, 0);
    }

    /// The same of a write of a value of this many bytes.
    #[inline]
    fn saw_write_of(&mut self, at: &At, key: &[u8], kind: WriteKind, bytes: usize) {
        if kind == WriteKind::Delete {
            // What a miss tells (`V`) and what replicas are removed by must be newer than the value
            // that is gone.
            self.next_version();
        }
        if self.rewritten.is_about(at.cachelet) {
            self.rewritten.add(key);
        }
        if !at.owned {
            return;
        }
        self.hottest.written(key, bytes);
        self.hot.handle_stored(bytes);
        if !self.hot.pass_write() {
            let hash = at.key_hash(key);
            self.hot.handle_write(at.now.monotonic, hash, key, kind);
        }
    }

    /// Stores an item under a new or chosen version. On failure the old item of the key is gone,
    /// as with memcached, so that nobody reads what the client meant to replace.
    pub fn put(&mut self, at: &At, item: NewItem<'_>) -> Result<Version, PutError> {
        self.put_hinted(at, item, Hint::NONE)
    }

    /// As [`Engine::put`], with what the store said of the key when its memory was asked for ahead.
    // Each plain `set` comes by here.
    #[inline(always)]
    pub fn put_hinted(
        &mut self,
        at: &At,
        item: NewItem<'_>,
        hint: Hint,
    ) -> Result<Version, PutError> {
        let (key, version) = (item.key, item.version);
        let bytes = item.value[0].len() + item.value[1].len();
        // An item that has expired already need not be stored to be found missing.
        if item.expires_at != NEVER && item.expires_at <= at.seconds {
            self.store
                .delete_hashed(at.cachelet, key, at.table, at.seconds);
            self.saw_write(at, key, WriteKind::Delete);
            return Ok(version);
        }
        match self
            .store
            .insert_hinted(at.cachelet, item, at.table, hint, at.seconds)
        {
            Ok(()) => {
                self.saw_write_of(at, key, WriteKind::Update, bytes);
                Ok(version)
            }
            Err(error) => {
                self.saw_write(at, key, WriteKind::Delete);
                Err(match error {
                    StoreError::TooLarge => {
                        self.counters.store_too_large += 1;
                        PutError::TooLarge
                    }
                    StoreError::OutOfMemory | StoreError::NoCachelet => {
                        self.counters.store_no_memory += 1;
                        PutError::NoMemory
                    }
                })
            }
        }
    }

    /// Takes the scratch area back after use, unless it has grown large.
    pub fn keep_scratch(&mut self, scratch: Vec<u8>) {
        if scratch.capacity() <= SCRATCH_KEEP_MAX {
            self.scratch = scratch;
        }
    }

    /// The load of this worker and of its cachelets, of which rates are as the last interval left them.
    /// Takes time in proportion to the cachelets.
    pub fn cachelet_loads(&self, worker: u16) -> WorkerLoad {
        let (hot, store) = (&self.hot, &self.store);
        let mut cachelets = Vec::new();
        for id in store.cachelet_ids() {
            let load = self.meter.load_of(id);
            let stats = store.cachelet_stats(id).unwrap_or_default();
            cachelets.push(CacheletLoad {
                memory_bytes: stats.held_bytes,
                items: stats.items,
                ..load
            });
        }
        cachelets.sort_by_key(|load| load.cachelet);
        let mut loads = WorkerLoad {
            worker,
            intervals: self.meter.intervals(),
            load: cachelets.iter().map(|load| load.load).sum(),
            replica_load: hot.replica_load(),
            diverted_load: hot.diverted_load(),
            busy: hot.busy(),
            replicated_keys: hot.replicated_count() as u64,
            memory_bytes: store.held_bytes() + self.replicas.held_bytes(),
            cachelets,
        };
        loads.divide_busy();
        loads
    }

    /// Measures the cachelets that have come since from now on, and those that have gone no more.
    pub fn update_meters(&mut self, now: Instant) {
        self.meter.set_cachelets(now, counts(&self.store));
    }

    /// Ends an interval of measuring, if it is over.
    pub fn measure(&mut self, now: Instant) {
        if self.meter.is_due(now) {
            self.meter.roll(now, counts(&self.store));
        }
    }
    /// A bounded step of housekeeping. True when there is more to do at once. Items expire by the second, so the round that
    /// looks for them begins once a second.
    pub fn maintain(&mut self, now: Now) -> bool {
        let seconds = TimeBase::seconds(now);
        let (begun, over) = self.round;
        if over && begun == seconds {
            self.store.maintain(seconds, 0);
            self.replicas.maintain(seconds, 0);
            return false;
        }
        let items = self.store.maintain(seconds, MAINTENANCE_STEP);
        let replicas = self.replicas.maintain(seconds, MAINTENANCE_STEP);
        let over = !(items || replicas);
        self.round = (if over { seconds } else { begun }, over);
        !over
    }

    /// Deletes everything.
    pub fn flush(&mut self, now: Now) {
        self.store.flush();
        self.replicas.flush();
        self.flushed(now);
    }

    /// A `flush_all` was executed: versions from now on are newer than everything that is gone, as after a delete.
    pub fn flushed(&mut self, now: Now) {
        self.next_version();
        self.hot.handle_flush(now.monotonic);
    }

    /// Counts from here on.
    pub fn reset_counts(&mut self, now: Now) {
        self.counters = Counters::default();
        self.baseline = self.store.stats();
        self.baseline_classes = ClassStats::of(&self.store, now);
        self.baseline_hot = (self.hot.stats(), self.hot.log().counts().1);
    }

    /// What is held and was evicted, by size.
    pub fn classes(&self, now: Now) -> ClassStats {
        ClassStats::of(&self.store, now).since(self.baseline_classes)
    }

    /// The current counts, those of the store included.
    pub fn counts(&self) -> Counters {
        let store = self.store.stats();
        let before = &self.baseline;
        let (replica_items, replica_bytes) = self.replicas.held();
        let (hot, overwritten) = (self.hot.stats(), self.hot.log().counts().1);
        let (hot_before, overwritten_before) = &self.baseline_hot;
        Counters {
            hot_keys_tracked: self.hot.tracked_count() as u64,
            hot_keys_replicated: self.hot.replicated_count() as u64,
            hot_keys_observed: self.hot.proposed_count() as u64,
            hot_keys_promoted: hot.promoted - hot_before.promoted,
            hot_keys_widened: hot.widened - hot_before.widened,
            hot_keys_retired: hot.retired - hot_before.retired,
            hot_keys_would_promote: hot.would_promote - hot_before.would_promote,
            hot_reads_sampled: hot.reads_sampled - hot_before.reads_sampled,
            hot_keys_untracked_full: hot.untracked_full - hot_before.untracked_full,
            hot_keys_unpromoted_full: hot.unpromoted_full - hot_before.unpromoted_full,
            hot_keys_unpromoted_alone: hot.unpromoted_alone - hot_before.unpromoted_alone,
            hot_log_overwritten: overwritten - overwritten_before,
            copies_unconfirmed: hot.copies_unconfirmed - hot_before.copies_unconfirmed,
            copies_behind: hot.copies_behind.since(&hot_before.copies_behind),
            replica_items,
            replica_bytes,
            curr_items: store.items,
            bytes: store.bytes,
            evictions: store.evictions - before.evictions,
            evicted_unfetched: store.evicted_unfetched - before.evicted_unfetched,
            evicted_active: store.evicted_active - before.evicted_active,
            expired_unfetched: store.expired_unfetched - before.expired_unfetched,
            reclaimed: store.reclaimed - before.reclaimed,
            get_expired: store.get_expired - before.get_expired,
            bundle_copies: store.copies,
            bundle_copies_bytes: store.copies_bytes,
            bundle_copies_evicted: store.copies_evicted - before.copies_evicted,
            bundle_copies_refused: store.copies_refused - before.copies_refused,
            segments: store.segments,
            segment_bytes: store.held_bytes,
            index_bytes: store.index_bytes,
            ..self.counters
        }
    }
}

/// What the cachelets of a store have counted.
fn counts(store: &Store) -> impl Iterator<Item = (CacheletId, CacheletCounts)> + '_ {
    store.cachelet_ids().map(|id| {
        let stats: CacheletStats = store.cachelet_stats(id).unwrap_or_default();
        let counts = CacheletCounts {
            reads: stats.reads,
            hits: stats.hits,
            writes: stats.writes,
            bytes_in: stats.bytes_in,
            bytes_out: stats.bytes_out,
        };
        (id, counts)
    })
}

/// A client may not push the version counter further than this with `E`: half of what is left to
/// an unsigned 64-bit number stays for the versions that follow.
const VERSION_ADOPT_MAX: u64 = 1 << 63;

/// A scratch area larger than this, in bytes, is given back to the allocator after use.
const SCRATCH_KEEP_MAX: usize = 64 * 1024;

/// Why an item was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutError {
    /// Larger than `-I` allows.
    TooLarge,
    /// No memory could be had.
    NoMemory,
}

/// Tells the hot keys of a read at the home, and how many bytes the value has if the key was found. Takes the
/// parts of an [`Engine`] that it needs, so that the item that was found may still be borrowed.
#[inline]
pub fn saw_read(
    (hot, hottest): (&mut HotKeys, &mut Hottest),
    counters: &mut Counters,
    at: &At,
    key: &[u8],
    found: Option<usize>,
) -> ReadAdvice {
    if !at.owned {
        return ReadAdvice::default();
    }
    hottest.read(key, found.unwrap_or(0));
    if hot.pass_read(found.unwrap_or(0)) {
        return ReadAdvice::default();
    }
    let advice = hot.handle_read(at.now.monotonic, at.key_hash(key), key, at.reader, found);
    counters.leases_granted += u64::from(advice.gamma > 0);
    counters.leases_shortened += u64::from(advice.left.is_some());
    advice
}

/// An item's version as a reader is shown it: always to agreed peers, otherwise unless `-C` hides it.
#[inline]
pub fn shown_version(cas_shown: bool, at: &At, version: Version) -> Version {
    if matches!(at.reader, Reader::Aware { .. }) {
        version
    } else {
        shown_cas(cas_shown, version)
    }
}

/// An item's version as anybody is shown it, unless `-C` hides it.
#[inline]
pub fn shown_cas(cas_shown: bool, version: Version) -> Version {
    if cas_shown { version } else { Version(0) }
}

/// Seconds an item has left; `None` when it never expires.
pub fn ttl(item: &Item<'_>, now: Seconds) -> Option<Seconds> {
    (item.expires_at() != NEVER).then(|| item.expires_at().saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_start_from_different_low_versions() {
        let starts: std::collections::BTreeSet<u64> = (0..1000)
            .map(|ms| first_version(1_800_000_000_000 + ms).0)
            .collect();
        assert_eq!(starts.len(), 1000);
        assert!(starts.iter().all(|start| *start < 1 << FIRST_VERSION_BITS));
    }
}
