//! The SSM cache: the keys that a worker tracks (S1).
//!
//! A fixed number of slots; an open-addressed index finds the slot of a key, and a list through the
//! slots keeps those that may be evicted in order of use. Entries that hold more than a popularity
//! (replicas) are taken off that list and stay until they are put back.

use evenkeel_types::{Instant, KeyHash};

use super::popularity::Popularity;
use super::replication::Replication;
use super::state::State;

/// Position of an entry in the table; valid until the entry is removed.
pub(crate) type Slot = u16;

/// No slot. `SSM_ENTRIES_MAX` keeps clear of it.
const NONE: Slot = Slot::MAX;

const _: () = assert!(super::config::SSM_ENTRIES_MAX < NONE as usize);

/// A tracked key.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Entry {
    pub(crate) hash: KeyHash,
    pub(crate) key: Vec<u8>,
    pub(crate) popularity: Popularity,
    pub(crate) state: State,
    /// When `state` was entered.
    pub(crate) since: Instant,
    /// Not promoted before this time.
    pub(crate) promote_after: Instant,
    /// Invariant: `Some` if and only if the state is one in which shadow servers may hold replicas.
    pub(crate) replication: Option<Box<Replication>>,
    /// Neighbours in the list of evictable entries, if it is there.
    newer: Slot,
    older: Slot,
    evictable: bool,
}

/// The table.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Table {
    entries: Vec<Entry>,
    /// Slots whose entry is gone; their buffers are reused.
    free: Vec<Slot>,
    /// Open-addressed with linear probing, at most half full; `NONE` where empty.
    index: Vec<Slot>,
    entries_max: usize,
    newest: Slot,
    oldest: Slot,
}

impl Table {
    pub(crate) fn new(entries_max: usize) -> Self {
        Table {
            entries: Vec::new(),
            free: Vec::new(),
            index: vec![NONE; (2 * entries_max).next_power_of_two()],
            entries_max,
            newest: NONE,
            oldest: NONE,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == self.entries_max
    }

    /// Bytes that the table holds, keys included.
    pub(crate) fn bytes(&self) -> usize {
        let keys: usize = self.entries.iter().map(|entry| entry.key.capacity()).sum();
        self.entries.capacity() * size_of::<Entry>() + keys + self.index.len() * size_of::<Slot>()
    }

    pub(crate) fn find(&self, hash: KeyHash, key: &[u8]) -> Option<Slot> {
        let mut at = self.ideal(hash);
        loop {
            let slot = self.index[at];
            if slot == NONE {
                return None;
            }
            let entry = &self.entries[usize::from(slot)];
            if entry.hash == hash && entry.key == key {
                return Some(slot);
            }
            at = self.after(at);
        }
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Entry> {
        self.entries.get_mut(usize::from(slot))
    }

    /// Adds a key that is not in the table, as evictable and just used. The table must not be full.
    pub(crate) fn insert(&mut self, now: Instant, hash: KeyHash, key: &[u8]) -> Slot {
        debug_assert!(!self.is_full() && self.find(hash, key).is_none());
        let slot = match self.free.pop() {
            Some(slot) => {
                let entry = &mut self.entries[usize::from(slot)];
                entry.hash = hash;
                entry.key.clear();
                entry.key.extend_from_slice(key);
                entry.popularity = Popularity::default();
                entry.since = now;
                entry.promote_after = Instant(0);
                slot
            }
            None => {
                self.entries.push(Entry {
                    hash,
                    key: key.to_vec(),
                    popularity: Popularity::default(),
                    state: State::Invalid,
                    since: now,
                    promote_after: Instant(0),
                    replication: None,
                    newer: NONE,
                    older: NONE,
                    evictable: false,
                });
                (self.entries.len() - 1) as Slot
            }
        };
        let mut at = self.ideal(hash);
        while self.index[at] != NONE {
            at = self.after(at);
        }
        self.index[at] = slot;
        self.set_evictable(slot, true);
        slot
    }

    /// Removes an evictable entry.
    pub(crate) fn remove(&mut self, slot: Slot) {
        debug_assert!(self[slot].evictable && self[slot].replication.is_none());
        self.set_evictable(slot, false);
        let mut hole = self.ideal(self[slot].hash);
        while self.index[hole] != slot {
            hole = self.after(hole);
        }
        // Close the gap, so that every entry stays reachable from its ideal place.
        let mut at = hole;
        loop {
            at = self.after(at);
            let moved = self.index[at];
            if moved == NONE {
                break;
            }
            let mask = self.index.len() - 1;
            let distance = at.wrapping_sub(self.ideal(self[moved].hash)) & mask;
            if distance >= (at.wrapping_sub(hole) & mask) {
                self.index[hole] = moved;
                hole = at;
            }
        }
        self.index[hole] = NONE;
        self.free.push(slot);
    }

    /// The evictable entry that was not used for longest.
    pub(crate) fn victim(&self) -> Option<Slot> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Marks an entry as just used.
    pub(crate) fn touch(&mut self, slot: Slot) {
        if self[slot].evictable && self.newest != slot {
            self.set_evictable(slot, false);
            self.set_evictable(slot, true);
        }
    }

    /// Puts an entry on the list of those that may be evicted, as just used, or takes it off.
    pub(crate) fn set_evictable(&mut self, slot: Slot, evictable: bool) {
        if self[slot].evictable == evictable {
            return;
        }
        if evictable {
            let second = core::mem::replace(&mut self.newest, slot);
            let entry = &mut self[slot];
            entry.newer = NONE;
            entry.older = second;
            match second {
                NONE => self.oldest = slot,
                second => self[second].newer = slot,
            }
        } else {
            let (newer, older) = (self[slot].newer, self[slot].older);
            match newer {
                NONE => self.newest = older,
                newer => self[newer].older = older,
            }
            match older {
                NONE => self.oldest = newer,
                older => self[older].newer = newer,
            }
        }
        self[slot].evictable = evictable;
    }

    /// The slots in use, in ascending order, as they are when they are reached.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let used = |slot: &Slot| self[*slot].state != State::Invalid;
        (0..self.entries.len() as Slot).filter(used).collect()
    }

    fn ideal(&self, hash: KeyHash) -> usize {
        // The highest bits chose the virtual node, and the filter uses the lowest.
        (hash.0 >> 12) as usize & (self.index.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.index.len() - 1)
    }
}

impl core::ops::Index<Slot> for Table {
    type Output = Entry;

    #[inline]
    fn index(&self, slot: Slot) -> &Entry {
        &self.entries[usize::from(slot)]
    }
}

impl core::ops::IndexMut<Slot> for Table {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.entries[usize::from(slot)]
    }
}

/// Says of most keys without replicas that they have none, for the price of one look at 512 bytes.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Filter([u64; FILTER_WORDS]);

/// With 64 replicated keys, one other key in 64 looks like one of them.
const FILTER_WORDS: usize = 64;

impl Filter {
    pub(crate) fn new() -> Self {
        Filter([0; FILTER_WORDS])
    }

    #[inline]
    pub(crate) fn may_hold(&self, hash: KeyHash) -> bool {
        self.0[Self::word(hash)] & Self::bit(hash) != 0
    }

    pub(crate) fn insert(&mut self, hash: KeyHash) {
        self.0[Self::word(hash)] |= Self::bit(hash);
    }

    #[inline]
    fn word(hash: KeyHash) -> usize {
        (hash.0 >> 6) as usize % FILTER_WORDS
    }

    #[inline]
    fn bit(hash: KeyHash) -> u64 {
        1 << (hash.0 % 64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_types::random::SplitMix64;

    const NOW: Instant = Instant(1);

    /// A list of keys, most recently used first, and those that may not be evicted.
    #[derive(Default)]
    struct Twin {
        recent: Vec<Vec<u8>>,
        pinned: Vec<Vec<u8>>,
    }

    /// Few hashes and a small table, so that entries collide, wrap around and share hashes.
    fn hash_of(key: &[u8]) -> KeyHash {
        KeyHash(u64::from(key[0] % 13) << 12)
    }

    #[test]
    fn the_table_agrees_with_a_list() {
        let seed = 0x5eed_0002;
        println!("seed {seed:#x}");
        let mut random = SplitMix64::new(seed);
        for entries_max in [1, 2, 7, 8] {
            let mut table = Table::new(entries_max);
            let mut twin = Twin::default();
            for step in 0..20_000 {
                let key = vec![random.below(30) as u8, b'k'];
                let hash = hash_of(&key);
                let found = table.find(hash, &key);
                let known = twin.recent.contains(&key) || twin.pinned.contains(&key);
                assert_eq!(found.is_some(), known, "step {step}");
                match (found, random.below(5)) {
                    (None, _) => {
                        if table.is_full() {
                            let Some(victim) = table.victim() else {
                                assert!(twin.recent.is_empty());
                                continue;
                            };
                            assert_eq!(Some(&table[victim].key), twin.recent.last());
                            twin.recent.pop();
                            table[victim].state = State::Invalid;
                            table.remove(victim);
                        }
                        let slot = table.insert(NOW, hash, &key);
                        table[slot].state = State::Cold;
                        twin.recent.insert(0, key);
                    }
                    (Some(slot), 0) if table[slot].evictable => {
                        table[slot].state = State::Invalid;
                        table.remove(slot);
                        twin.recent.retain(|k| *k != key);
                    }
                    (Some(slot), 1) => {
                        table.set_evictable(slot, false);
                        twin.recent.retain(|k| *k != key);
                        twin.pinned.retain(|k| *k != key);
                        twin.pinned.push(key);
                    }
                    (Some(slot), 2 | 3) if !table[slot].evictable => {
                        table.set_evictable(slot, true);
                        twin.pinned.retain(|k| *k != key);
                        twin.recent.insert(0, key);
                    }
                    (Some(slot), _) => {
                        table.touch(slot);
                        if table[slot].evictable {
                            twin.recent.retain(|k| *k != key);
                            twin.recent.insert(0, key);
                        }
                    }
                }
                assert_eq!(table.len(), twin.recent.len() + twin.pinned.len());
                assert_eq!(table.slots().len(), table.len());
                assert!(table.entries.len() <= entries_max);
            }
        }
    }

    #[test]
    fn a_full_table_of_usual_keys_takes_about_60_kb() {
        let count = crate::config::SSM_ENTRIES_PER_SERVER;
        let mut table = Table::new(count);
        for i in 0..count {
            let key = format!("page:title:{i:012}");
            let slot = table.insert(NOW, KeyHash::of(key.as_bytes()), key.as_bytes());
            table[slot].state = State::Cold;
        }
        assert!(
            (40_000..=66_000).contains(&table.bytes()),
            "{}",
            table.bytes()
        );
    }

    #[test]
    fn the_filter_never_misses_and_seldom_errs() {
        let mut filter = Filter::new();
        let hashes: Vec<KeyHash> = (0u64..64).map(|i| KeyHash::of(&i.to_le_bytes())).collect();
        hashes.iter().for_each(|&hash| filter.insert(hash));
        assert!(hashes.iter().all(|&hash| filter.may_hold(hash)));
        let others = (1000u64..101_000).map(|i| KeyHash::of(&i.to_le_bytes()));
        let errors = others.filter(|&hash| filter.may_hold(hash)).count();
        assert!(errors < 2000, "{errors} of 100,000");
    }
}
