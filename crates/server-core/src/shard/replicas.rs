//! The shadow's side of replication: copies of hot keys whose home is another server.
//!
//! Replicas live in an index of their own, apart from the keys that this server is home of: a read
//! must say that it wants a replica, and a replica is never sampled, never replicated again and
//! never found by a client that came here by a ring of its own.
//!
//! Which orders about a replica take effect is decided by [`NewestHeard::judge`].

use crate::shard::time::{NEVER, Seconds};
use evenkeel_hotkeys::shadow::{NewestHeard, Stamp, Verdict};
use evenkeel_storage::{NewItem, Store};
use evenkeel_types::{CacheletId, Epoch, Version};

/// The replica index is one cachelet of a store of its own.
const CACHELET: CacheletId = CacheletId(0);

/// A replica's value is preceded by the epoch of its home's map, little-endian, ...
const EPOCH_LEN: usize = 8;

/// ... and by the position of what is counted of it.
const FACTS_LEN: usize = 4;

const HEAD_LEN: usize = EPOCH_LEN + FACTS_LEN;

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
    /// Whether somebody is about to put another value in its place, who was asked to by the home.
    pub win_sent: bool,
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
    /// As in [`Replica`].
    pub win_sent: bool,
    /// When it vanishes unless the home renews it.
    pub expires_at: Seconds,
}

/// What is counted of a replica.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// Since when it has been here without a break.
    since: Seconds,
    /// When it was last stored or renewed.
    stored: Seconds,
    /// Reads that found it.
    reads: u64,
}

/// A replica, to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaFacts<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Epoch of the map by which its home replicates it.
    pub epoch: Epoch,
    /// Version that the home gave it.
    pub version: Version,
    /// Size of the value.
    pub bytes: usize,
    /// For how long it has been here.
    pub age_s: Seconds,
    /// For how long its home has not stored or renewed it.
    pub stored_s: Seconds,
    /// Reads that found it.
    pub reads: u64,
}

/// The replica index of one worker.
#[derive(Debug)]
pub struct Replicas {
    store: Store,
    /// Apart from the items, so that a read counts without another look-up: an item knows its position.
    facts: Vec<Facts>,
    /// Positions of which no item knows.
    free: Vec<u32>,
    /// Never newer than the server's own map, see `early.rs`.
    heard: NewestHeard,
}

/// Positions below which nobody looks for those that expiry and eviction have left behind.
const FACTS_SWEPT_FROM: usize = 64;

impl Replicas {
    /// Takes a store whose byte limit is the replicas' share.
    pub fn new(mut store: Store) -> Self {
        store.create_cachelet(CACHELET);
        Replicas {
            store,
            facts: Vec::new(),
            free: Vec::new(),
            heard: NewestHeard::default(),
        }
    }

    /// Hears an order about a key. If it is to take effect: the position of the facts of what is held, if anything is.
    fn judge(&mut self, key: &[u8], order: Stamp, now: Seconds) -> Option<Option<u32>> {
        let (held, position) = self.stamp(key, now).unzip();
        (self.heard.judge(order, held) == Verdict::Applies).then_some(position)
    }

    /// Looks a replica up.
    pub fn get(&mut self, key: &[u8], now: Seconds) -> Option<Replica<'_>> {
        let mut item = self.store.get(CACHELET, key, now)?;
        item.touch_access(now);
        let item = item.into_item();
        let (head, value) = item.value().split_first_chunk::<HEAD_LEN>()?;
        if is_blocked(head) {
            return None;
        }
        if let Some(facts) = self.facts.get_mut(position(head)) {
            facts.reads += 1;
        }
        Some(Replica {
            value,
            flags: item.flags(),
            version: item.version(),
            win_sent: item.win_sent(),
        })
    }

    /// Stores or renews a replica unless a newer one is there.
    pub fn store(&mut self, new: &NewReplica<'_>, now: Seconds) -> ReplicaStored {
        let (epoch, version) = (new.epoch, new.version);
        let Some(held) = self.judge(new.key, Stamp { epoch, version }, now) else {
            return ReplicaStored::Older;
        };
        let position = held.unwrap_or_else(|| self.make_facts(now));
        if let Some(facts) = self.facts.get_mut(position as usize) {
            facts.stored = now;
        }
        let head = head(new.epoch, position);
        let item = NewItem {
            key: new.key,
            value: [&head, new.value],
            flags: new.flags,
            expires_at: new.expires_at,
            version: new.version,
        };
        match self.store.insert(CACHELET, item, now) {
            Ok(()) => {
                if new.win_sent
                    && let Some(mut item) = self.store.get(CACHELET, new.key, now)
                {
                    item.set_win_sent(true);
                }
                ReplicaStored::Yes
            }
            Err(_) => {
                // The replica that it was to replace is gone, too.
                self.free.push(position);
                ReplicaStored::NoRoom
            }
        }
    }

    /// A position for the facts of a replica that is new here.
    fn make_facts(&mut self, now: Seconds) -> u32 {
        let facts = Facts {
            since: now,
            stored: now,
            reads: 0,
        };
        if self.free.is_empty() && self.facts.len() >= FACTS_SWEPT_FROM {
            self.sweep_facts(now);
        }
        match self.free.pop() {
            Some(position) => {
                self.facts[position as usize] = facts;
                position
            }
            None => {
                self.facts.push(facts);
                // Positions are fewer than twice the items of a store, which counts them in 32 bits.
                (self.facts.len() - 1) as u32
            }
        }
    }

    /// Finds the positions that expired and evicted replicas have left behind. When it finds few, there
    /// is room for as many again, so that it is not called for each new replica.
    fn sweep_facts(&mut self, now: Seconds) {
        let mut used = vec![false; self.facts.len()];
        for item in self.store.items(CACHELET, now) {
            if let Some(head) = item.value().first_chunk::<HEAD_LEN>()
                && let Some(used) = used.get_mut(position(head))
            {
                *used = true;
            }
        }
        let unused = (0u32..).zip(&used).filter(|(_, used)| !**used);
        self.free = unused.map(|(position, _)| position).collect();
        if self.free.len() < self.facts.len() / 2 {
            let (len, more) = (self.facts.len(), self.facts.len() / 2);
            let empty = Facts {
                since: now,
                stored: now,
                reads: 0,
            };
            self.facts.resize(len + more, empty);
            self.free.extend(len as u32..(len + more) as u32);
        }
    }

    /// Removes a replica unless a newer one is there. True when nothing as old is left.
    pub fn remove(&mut self, key: &[u8], epoch: Epoch, version: Version, now: Seconds) -> bool {
        let Some(held) = self.judge(key, Stamp { epoch, version }, now) else {
            return false;
        };
        if let Some(position) = held {
            self.store.delete(CACHELET, key, now);
            self.free.push(position);
        }
        true
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
        let Some(held) = self.judge(key, Stamp { epoch, version }, now) else {
            return false;
        };
        let position = held.unwrap_or_else(|| self.make_facts(now));
        let stamp = head(Epoch(epoch.0 | BLOCKED), position);
        let item = NewItem {
            key,
            value: [&stamp, b""],
            flags: 0,
            expires_at,
            version,
        };
        if self.store.insert(CACHELET, item, now).is_err() {
            self.store.delete(CACHELET, key, now);
            self.free.push(position);
        }
        true
    }

    /// Removes everything.
    pub fn flush(&mut self) {
        self.store.flush();
        self.facts.clear();
        self.free.clear();
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

    /// Bytes of the memory limit that they take.
    pub fn held_bytes(&self) -> u64 {
        self.store.held_bytes()
    }

    /// Every replica that is not blocked, to be shown.
    pub fn list(&self, now: Seconds) -> impl Iterator<Item = ReplicaFacts<'_>> {
        self.store.items(CACHELET, now).filter_map(move |item| {
            let (head, value) = item.value().split_first_chunk::<HEAD_LEN>()?;
            let facts = self
                .facts
                .get(position(head))
                .filter(|_| !is_blocked(head))?;
            Some(ReplicaFacts {
                key: item.key(),
                epoch: epoch(head),
                version: item.version(),
                bytes: value.len(),
                age_s: now.saturating_sub(facts.since),
                stored_s: now.saturating_sub(facts.stored),
                reads: facts.reads,
            })
        })
    }

    /// The stamp of what is held of a key, and the position of its facts.
    fn stamp(&self, key: &[u8], now: Seconds) -> Option<(Stamp, u32)> {
        let item = self.store.peek(CACHELET, key, now)?;
        let head = item.value().first_chunk::<HEAD_LEN>()?;
        let (epoch, version) = (epoch(head), item.version());
        Some((Stamp { epoch, version }, position(head) as u32))
    }
}

/// The epoch of a replica's home's map.
fn epoch(head: &[u8; HEAD_LEN]) -> Epoch {
    let [a, b, c, d, e, f, g, h, ..] = *head;
    Epoch(u64::from_le_bytes([a, b, c, d, e, f, g, h]) & !BLOCKED)
}

/// Whether it is of a blocked replica.
fn is_blocked(head: &[u8; HEAD_LEN]) -> bool {
    let [.., last, _, _, _, _] = *head;
    u64::from(last) << 56 & BLOCKED != 0
}

/// The head of a replica's value.
fn head(epoch: Epoch, position: u32) -> [u8; HEAD_LEN] {
    let mut head = [0; HEAD_LEN];
    head[..EPOCH_LEN].copy_from_slice(&epoch.0.to_le_bytes());
    head[EPOCH_LEN..].copy_from_slice(&position.to_le_bytes());
    head
}

/// The position of a replica's facts.
fn position(head: &[u8; HEAD_LEN]) -> usize {
    let [.., a, b, c, d] = *head;
    u32::from_le_bytes([a, b, c, d]) as usize
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
            win_sent: false,
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
    fn what_is_counted_of_replicas_follows_them_and_takes_no_more_room_than_they_do() {
        let mut replicas = replicas();
        replicas.store(&new(b"v", 2, 5), 10);
        replicas.get(b"k", 11);
        replicas.store(&new(b"vv", 2, 6), 15);
        replicas.get(b"k", 16);
        let facts = replicas.list(20).next().expect("one");
        let expected = ReplicaFacts {
            key: b"k",
            epoch: Epoch(2),
            version: Version(6),
            bytes: 2,
            age_s: 10,
            stored_s: 5,
            reads: 2,
        };
        assert_eq!(facts, expected);
        // Thousands come and go, by removal and by expiry, and a few stay.
        for i in 0..5_000u32 {
            let key = format!("x{i}");
            let item = NewReplica {
                key: key.as_bytes(),
                expires_at: 20 + i / 100,
                ..new(b"v", 2, 1)
            };
            let now = 12 + i / 100;
            replicas.store(&item, now);
            if i % 2 == 0 {
                replicas.remove(key.as_bytes(), Epoch(2), Version(1), now);
            }
        }
        assert!(replicas.facts.len() < 2_000, "{}", replicas.facts.len());
        let shown = replicas.list(61).count();
        assert_eq!(
            shown as u64,
            1 + replicas.list(61).filter(|f| f.key != b"k").count() as u64
        );
        assert_eq!(
            replicas.list(61).find(|f| f.key == b"k").map(|f| f.reads),
            Some(2)
        );
        let mut positions: Vec<_> = replicas
            .store
            .items(CACHELET, 61)
            .map(|item| position(item.value().first_chunk().expect("a head")))
            .collect();
        positions.sort_unstable();
        assert!(
            positions.windows(2).all(|pair| pair[0] != pair[1]),
            "no two share"
        );
        replicas.flush();
        assert_eq!(replicas.list(61).count(), 0);
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
    fn nothing_of_a_former_home_comes_after_what_is_gone() {
        let mut replicas = replicas();
        assert_eq!(replicas.store(&new(b"v5", 3, 5), 10), ReplicaStored::Yes);
        assert!(replicas.remove(b"k", Epoch(3), Version(6), 10));
        assert_eq!(replicas.store(&new(b"v9", 2, 9), 10), ReplicaStored::Older);
        assert_eq!(replicas.store(&new(b"v7", 3, 7), 10), ReplicaStored::Yes);
        replicas.flush();
        assert_eq!(replicas.store(&new(b"v9", 2, 9), 10), ReplicaStored::Older);
        assert!(!replicas.remove(b"k", Epoch(2), Version(9), 10));
        assert!(!replicas.block(b"k", Epoch(2), Version(9), 100, 10));
        assert!(replicas.get(b"k", 10).is_none());
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
