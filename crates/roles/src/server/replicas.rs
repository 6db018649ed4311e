//! The shadow's side of replication: copies of hot keys whose home is another server.
//!
//! Replicas live in an index of their own, apart from the keys that this server is home of: a read
//! must say that it wants a replica, and a replica is never sampled, never replicated again and
//! never found by a client that came here by a ring of its own.
//!
//! A replica is ordered by (epoch, version): versions of two homes cannot be compared, so the epoch
//! of the map by which the home wrote decides first. An older store never replaces a newer one, and
//! an older removal never removes it.

use super::time::{NEVER, Seconds};
use evenkeel_storage::{NewItem, Store};
use evenkeel_types::{CacheletId, Epoch, Version};

/// The replica index is one cachelet of a store of its own.
const CACHELET: CacheletId = CacheletId(0);

/// A replica's value is preceded by the epoch of its home's map, little-endian.
const EPOCH_LEN: usize = 8;

/// Set in the epoch of a blocked replica, which has no value. Epochs count maps and never come this far.
const BLOCKED: u64 = 1 << 63;

/// What a shadow holds of a key.
#[derive(Debug)]
pub struct Replica<'a> {
    /// The value.
    pub value: &'a [u8],
    /// Client flags.
    pub flags: u32,
    /// Version that the home gave it.
    pub version: Version,
}

/// What became of a replica that a home sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaStored {
    /// Stored, or renewed.
    Yes,
    /// Something newer is there.
    Older,
    /// It does not fit into the share of memory that replicas may take.
    NoRoom,
}

/// A replica as its home sends it.
#[derive(Debug)]
pub struct NewReplica<'a> {
    /// The key (the original one, not the renamed one that chose this server: S6).
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Client flags.
    pub flags: u32,
    /// Epoch of the map by which the home replicates.
    pub epoch: Epoch,
    /// The home's version.
    pub version: Version,
    /// When it vanishes unless the home renews it.
    pub expires_at: Seconds,
}

/// The replica index of one worker.
#[derive(Debug)]
pub struct Replicas {
    store: Store,
}

impl Replicas {
    /// Takes a store whose byte limit is the replicas' share.
    pub fn new(mut store: Store) -> Self {
        store.create_cachelet(CACHELET);
        Replicas { store }
    }

    /// Looks a replica up.
    pub fn get(&mut self, key: &[u8], now: Seconds) -> Option<Replica<'_>> {
        let mut item = self.store.get(CACHELET, key, now)?;
        item.touch_access(now);
        let item = item.into_item();
        let (epoch, value) = item.value().split_first_chunk::<EPOCH_LEN>()?;
        if u64::from_le_bytes(*epoch) & BLOCKED != 0 {
            return None;
        }
        Some(Replica {
            value,
            flags: item.flags(),
            version: item.version(),
        })
    }

    /// Stores or renews a replica unless a newer one is there.
    pub fn store(&mut self, new: &NewReplica<'_>, now: Seconds) -> ReplicaStored {
        if self
            .stamp(new.key, now)
            .is_some_and(|held| held > (new.epoch, new.version))
        {
            return ReplicaStored::Older;
        }
        let epoch = new.epoch.0.to_le_bytes();
        let item = NewItem {
            key: new.key,
            value: [&epoch, new.value],
            flags: new.flags,
            expires_at: new.expires_at,
            version: new.version,
        };
        match self.store.insert(CACHELET, item, now) {
            Ok(()) => ReplicaStored::Yes,
            Err(_) => ReplicaStored::NoRoom,
        }
    }

    /// Removes a replica unless a newer one is there. True when nothing as old is left.
    pub fn remove(&mut self, key: &[u8], epoch: Epoch, version: Version, now: Seconds) -> bool {
        match self.stamp(key, now) {
            Some(held) if held > (epoch, version) => false,
            Some(_) => {
                self.store.delete(CACHELET, key, now);
                true
            }
            None => true,
        }
    }

    /// Blocks a replica unless a newer one is there: nothing is served until the next store, and stores of
    /// what is older are refused meanwhile. True when nothing as old is served.
    pub fn block(
        &mut self,
        key: &[u8],
        epoch: Epoch,
        version: Version,
        expires_at: Seconds,
        now: Seconds,
    ) -> bool {
        if self
            .stamp(key, now)
            .is_some_and(|held| held > (epoch, version))
        {
            return false;
        }
        let stamp = (epoch.0 | BLOCKED).to_le_bytes();
        let item = NewItem {
            key,
            value: [&stamp, b""],
            flags: 0,
            expires_at,
            version,
        };
        if self.store.insert(CACHELET, item, now).is_err() {
            self.store.delete(CACHELET, key, now);
        }
        true
    }

    /// Removes everything.
    pub fn flush(&mut self) {
        self.store.flush();
    }

    /// Does a bounded step of expiry.
    pub fn maintain(&mut self, now: Seconds, work_limit: usize) -> bool {
        self.store.maintain(now, work_limit)
    }

    /// Number of replicas held and the bytes they take.
    pub fn held(&self) -> (u64, u64) {
        let stats = self.store.stats();
        (stats.items, stats.bytes)
    }

    /// Every replica that is not blocked: key, version, size of the value in bytes.
    pub fn list(&self, now: Seconds) -> impl Iterator<Item = (&[u8], Version, usize)> {
        self.store.items(CACHELET, now).filter_map(|item| {
            let (epoch, value) = item.value().split_first_chunk::<EPOCH_LEN>()?;
            let is_served = u64::from_le_bytes(*epoch) & BLOCKED == 0;
            is_served.then(|| (item.key(), item.version(), value.len()))
        })
    }

    /// (epoch, version) of what is held of a key.
    fn stamp(&self, key: &[u8], now: Seconds) -> Option<(Epoch, Version)> {
        let item = self.store.peek(CACHELET, key, now)?;
        let epoch = item.value().first_chunk::<EPOCH_LEN>()?;
        let epoch = Epoch(u64::from_le_bytes(*epoch) & !BLOCKED);
        Some((epoch, item.version()))
    }
}

/// When a replica vanishes: with its item, or after `lifetime_s` without renewal.
pub fn replica_expiry(item_expires_at: Seconds, now: Seconds, lifetime_s: Seconds) -> Seconds {
    let unrenewed = now.saturating_add(lifetime_s);
    if item_expires_at == NEVER {
        unrenewed
    } else {
        item_expires_at.min(unrenewed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_storage::{PoolConfig, SegmentPool};

    fn replicas() -> Replicas {
        let pool = SegmentPool::new(PoolConfig {
            limit_bytes: 8 << 20,
            item_size_max: 1 << 20,
            cachelets_expected: 1,
        });
        Replicas::new(Store::new(pool, 7))
    }

    fn new<'a>(value: &'a [u8], epoch: u64, version: u64) -> NewReplica<'a> {
        NewReplica {
            key: b"k",
            value,
            flags: 9,
            epoch: Epoch(epoch),
            version: Version(version),
            expires_at: 100,
        }
    }

    #[test]
    fn a_replica_is_replaced_by_a_newer_one_only() {
        let mut replicas = replicas();
        assert_eq!(replicas.store(&new(b"v5", 2, 5), 10), ReplicaStored::Yes);
        assert_eq!(replicas.store(&new(b"v4", 2, 4), 10), ReplicaStored::Older);
        assert_eq!(replicas.store(&new(b"v9", 1, 9), 10), ReplicaStored::Older);
        assert_eq!(
            replicas
                .get(b"k", 10)
                .map(|r| (r.value.to_vec(), r.version.0, r.flags)),
            Some((b"v5".to_vec(), 5, 9))
        );
        assert_eq!(replicas.store(&new(b"v5", 2, 5), 10), ReplicaStored::Yes);
        // A later home may count its versions from a lower number.
        assert_eq!(replicas.store(&new(b"v1", 3, 1), 10), ReplicaStored::Yes);
        assert_eq!(
            replicas.get(b"k", 10).map(|r| r.value.to_vec()),
            Some(b"v1".to_vec())
        );
    }

    #[test]
    fn an_old_removal_leaves_a_newer_replica_alone() {
        let mut replicas = replicas();
        replicas.store(&new(b"v5", 2, 5), 10);
        assert!(!replicas.remove(b"k", Epoch(2), Version(4), 10));
        assert!(replicas.get(b"k", 10).is_some());
        assert!(replicas.remove(b"k", Epoch(2), Version(6), 10));
        assert!(replicas.get(b"k", 10).is_none());
        assert!(replicas.remove(b"k", Epoch(2), Version(6), 10));
    }

    #[test]
    fn a_blocked_replica_serves_nothing_and_refuses_what_is_older() {
        let mut replicas = replicas();
        let block = |r: &mut Replicas, epoch, version| {
            r.block(b"k", Epoch(epoch), Version(version), 100, 10)
        };
        let stored =
            |r: &mut Replicas, value, epoch, version| r.store(&new(value, epoch, version), 10);
        assert!(block(&mut replicas, 2, 4), "there is nothing to be served");
        assert_eq!(stored(&mut replicas, b"v9", 1, 9), ReplicaStored::Older);
        assert_eq!(stored(&mut replicas, b"v3", 2, 3), ReplicaStored::Older);
        assert!(replicas.get(b"k", 10).is_none());
        assert_eq!(stored(&mut replicas, b"v4", 2, 4), ReplicaStored::Yes);
        assert!(replicas.get(b"k", 10).is_some());
        assert!(!block(&mut replicas, 2, 3), "a newer one is served");
        assert!(replicas.get(b"k", 10).is_some());
        assert!(block(&mut replicas, 2, 5));
        assert!(replicas.get(b"k", 10).is_none());
        assert_eq!(replicas.list(10).count(), 0);
        assert!(!replicas.remove(b"k", Epoch(2), Version(4), 10));
        assert_eq!(stored(&mut replicas, b"v4", 2, 4), ReplicaStored::Older);
        assert_eq!(stored(&mut replicas, b"v1", 3, 1), ReplicaStored::Yes);
    }

    #[test]
    fn a_replica_vanishes_when_nobody_renews_it() {
        let mut replicas = replicas();
        replicas.store(&new(b"v", 1, 1), 10);
        assert!(replicas.get(b"k", 99).is_some());
        assert!(replicas.get(b"k", 100).is_none());
        assert_eq!(replica_expiry(NEVER, 10, 60), 70);
        assert_eq!(replica_expiry(20, 10, 60), 20);
    }
}
