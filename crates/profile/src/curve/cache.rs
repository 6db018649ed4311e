//! Caches that are simulated: exact LRU, memcached's segmented LRU, and S3-FIFO as Evenkeel's servers have it.
//!
//! Items are of any size and share one memory. Of all of them what is past its end is gone at once, as memcached's crawler and Evenkeel's
//! expiry have it within seconds.
//!
//! **Segmented** is memcached's (doc/new_lru.txt): what is stored is *hot*; hot may have a fifth of the memory, *warm* two fifths, *cold*
//! has the rest. An item that was read twice is active. At the old end of hot an active one becomes warm and others cold, at that of warm
//! an active one goes round and others become cold; a cold one that is active becomes warm at once. Cold ones are evicted. Left out:
//! classes by size, of which each has lists of its own, the limits on age, and that all this is done by a thread a little later.
//!
//! **S3-FIFO** (Yang et al., SOSP 2023, section 4) with what `evenkeel_storage` adds for sizes: newcomers wait in *small*, a tenth of the
//! memory; who is read there goes to *main*, where items go round as often as they are read, up to three times; who leaves small unread
//! and comes back goes to main. Smaller items than the mean begin with credit and pay for a round now and then, much larger ones need two
//! reads. Left out: segments, cachelets, and the few that are kept by chance when everything returns too late.

use super::items::{At, Items};
use foldhash::fast::FixedState;
use std::collections::{HashMap, VecDeque};

/// What decides who is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Lru,
    Segmented,
    S3Fifo,
}

/// Lists of the segmented LRU. LRU has the first alone.
const HOT: usize = 0;
const WARM: usize = 1;
const COLD: usize = 2;
/// memcached's hot_lru_pct and warm_lru_pct.
const HOT_PERCENT: u64 = 20;
const WARM_PERCENT: u64 = 40;
/// Reads after which memcached calls an item active.
const ACTIVE_FROM: u8 = 2;

/// Lists of S3-FIFO.
const SMALL: usize = 0;
const MAIN: usize = 1;
/// The small list's part of the memory.
const SMALL_PART: u64 = 10;
/// Reads are counted up to this.
const READS_MAX: u8 = 3;
/// How many times smaller than the mean an item is that begins with one read, two, three.
const CREDIT_FROM: [u64; 3] = [2, 4, 8];
/// How many times larger than the mean an item is that one read does not keep.
const LARGE_FROM: u64 = 4;
/// Of this part of the mean or more an item pays for each round.
const PAYS_ALWAYS_FROM: u64 = 2;

/// A cache of this many bytes.
#[derive(Debug)]
pub(super) struct Cache {
    policy: Policy,
    bytes_max: u64,
    items: Items,
    ghosts: Ghosts,
    /// Rounds of items, for what is drawn.
    rounds: u64,
}

impl Cache {
    pub fn new(policy: Policy, bytes_max: u64) -> Self {
        Cache {
            policy,
            bytes_max,
            items: Items::new(),
            ghosts: Ghosts::default(),
            rounds: 0,
        }
    }

    /// Removes what has ended.
    pub fn pass_time(&mut self, now_us: u64) {
        self.items.expire(now_us);
    }

    /// Reads an item: whether it is there. O(1).
    pub fn get(&mut self, key: u64) -> bool {
        let Some(at) = self.items.find(key) else {
            return false;
        };
        let item = self.items.get_mut(at);
        match self.policy {
            Policy::Lru => self.items.renew(at, HOT),
            Policy::S3Fifo => item.reads = (item.reads + 1).min(READS_MAX),
            Policy::Segmented => {
                item.reads = (item.reads + 1).min(ACTIVE_FROM);
                if item.reads == ACTIVE_FROM && self.items.list(at) == COLD {
                    self.make_warm(at);
                }
            }
        }
        true
    }

    /// Stores an item, and evicts others for it. One that is larger than the cache is not stored. O(1) over many, O(log n) if it has an
    /// end.
    pub fn set(&mut self, key: u64, bytes: u64, ends_us: u64) {
        let former = self.items.find(key).map(|at| {
            let list = self.items.list(at);
            (list, self.items.remove(at))
        });
        if bytes > self.bytes_max {
            return;
        }
        while self.items.bytes() + bytes > self.bytes_max && self.evict_one() {}
        let list = match (self.policy, former) {
            (Policy::Lru | Policy::Segmented, _) => HOT,
            (Policy::S3Fifo, Some((list, _))) => list,
            (Policy::S3Fifo, None) if self.ghosts.take(key) && !self.is_large(bytes) => MAIN,
            (Policy::S3Fifo, None) => SMALL,
        };
        let at = self.items.insert(list, key, bytes, ends_us);
        match (self.policy, former) {
            (Policy::Lru, _) => {}
            (Policy::Segmented, _) => self.keep_shares(),
            (Policy::S3Fifo, former) => {
                let credit = self.credit(bytes);
                let reads = former.map_or(credit, |(_, item)| item.reads);
                self.items.get_mut(at).reads = reads;
            }
        }
    }

    /// Gives an item another end, if it is there.
    pub fn prolong(&mut self, key: u64, ends_us: u64) {
        if let Some(at) = self.items.find(key) {
            self.items.end_at(at, ends_us);
        }
    }

    /// Removes an item, if it is there.
    pub fn delete(&mut self, key: u64) {
        if let Some(at) = self.items.find(key) {
            self.items.remove(at);
        }
    }

    /// Half the keys are no longer simulated, and half the memory.
    pub fn halve(&mut self, stays: impl Fn(u64) -> bool) {
        self.items.retain(stays);
        self.bytes_max /= 2;
        while self.items.bytes() > self.bytes_max && self.evict_one() {}
    }

    /// Evicts an item, or moves one that stays; false if there is none.
    fn evict_one(&mut self) -> bool {
        match self.policy {
            Policy::Lru | Policy::Segmented => {
                let oldest = [COLD, WARM, HOT].into_iter();
                let oldest = oldest.filter_map(|list| self.items.oldest(list)).next();
                let evicted = oldest.map(|at| self.items.remove(at));
                evicted.is_some()
            }
            Policy::S3Fifo => self.look_at_oldest(),
        }
    }

    fn make_warm(&mut self, at: At) {
        self.items.get_mut(at).reads = 0;
        self.items.renew(at, WARM);
        self.keep_shares();
    }

    /// Hot and warm ones that are more than their share become warm or cold.
    fn keep_shares(&mut self) {
        let share = |percent: u64| self.bytes_max / 100 * percent;
        let (hot_max, warm_max) = (share(HOT_PERCENT), share(WARM_PERCENT));
        while self.items.bytes_of(HOT) > hot_max
            && let Some(at) = self.items.oldest(HOT)
        {
            self.move_on(at);
        }
        while self.items.bytes_of(WARM) > warm_max
            && let Some(at) = self.items.oldest(WARM)
        {
            self.move_on(at);
        }
    }

    fn move_on(&mut self, at: At) {
        let item = self.items.get_mut(at);
        let is_active = item.reads == ACTIVE_FROM;
        if is_active {
            item.reads = 0;
        }
        self.items.renew(at, if is_active { WARM } else { COLD });
    }

    /// The oldest of the list whose turn it is stays, or goes.
    fn look_at_oldest(&mut self) -> bool {
        let is_small_large = self.items.bytes_of(SMALL) > self.items.bytes() / SMALL_PART;
        let lists = if is_small_large {
            [SMALL, MAIN]
        } else {
            [MAIN, SMALL]
        };
        let oldest = lists.into_iter();
        let oldest = oldest.filter_map(|list| self.items.oldest(list)).next();
        let Some(at) = oldest else {
            return false;
        };
        self.rounds += 1;
        let item = *self.items.get(at);
        let is_small = self.items.list(at) == SMALL;
        let needed = u8::from(is_small && self.is_large(item.bytes));
        if item.reads > needed {
            if !is_small && self.round_costs(item.key, item.bytes) {
                self.items.get_mut(at).reads -= 1;
            }
            self.items.renew(at, MAIN);
        } else {
            self.items.remove(at);
            if is_small {
                self.ghosts.put(item.key, self.items.len() * 9 / 10);
            }
        }
        true
    }

    fn mean(&self) -> u64 {
        self.items.bytes() / (self.items.len() as u64).max(1)
    }

    fn credit(&self, bytes: u64) -> u8 {
        let mean = self.mean();
        let smaller = CREDIT_FROM.iter().filter(|times| bytes * **times <= mean);
        smaller.count() as u8
    }

    fn is_large(&self, bytes: u64) -> bool {
        bytes > self.mean() * LARGE_FROM
    }

    /// Drawn from the key and the round.
    fn round_costs(&self, key: u64, bytes: u64) -> bool {
        let draw = (key ^ self.rounds).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        u128::from(draw) * u128::from(self.mean()) < u128::from(bytes * PAYS_ALWAYS_FROM) << 16
    }
}

/// Keys that left the small list unread, the oldest forgotten first.
#[derive(Debug, Default)]
struct Ghosts {
    /// In the order in which they left; some are no longer remembered.
    keys: VecDeque<(u64, u64)>,
    /// When each left.
    by_key: HashMap<u64, u64, FixedState>,
    left: u64,
}

impl Ghosts {
    fn put(&mut self, key: u64, count_max: usize) {
        self.left += 1;
        self.keys.push_back((key, self.left));
        self.by_key.insert(key, self.left);
        while self.keys.len() > count_max.max(1) {
            let Some((key, left)) = self.keys.pop_front() else {
                return;
            };
            if self.by_key.get(&key) == Some(&left) {
                self.by_key.remove(&key);
            }
        }
    }

    fn take(&mut self, key: u64) -> bool {
        self.by_key.remove(&key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::items::NEVER;
    use super::*;
    use evenkeel_testkit::seed;
    use evenkeel_types::random::SplitMix64;

    /// Twin: a list of keys, sizes and ends, the newest last.
    #[test]
    fn lru_holds_what_a_plain_list_holds() {
        let mut random = SplitMix64::new(seed(0x51));
        let mut cache = Cache::new(Policy::Lru, 400);
        let mut plain: Vec<(u64, u64, u64)> = Vec::new();
        for now in 0..60_000 {
            cache.pass_time(now);
            plain.retain(|(_, _, ends)| *ends > now);
            let key = random.below(30);
            let ends = match random.below(3) {
                0 => now + 1 + random.below(100),
                _ => NEVER,
            };
            match random.below(6) {
                0 => {
                    cache.delete(key);
                    plain.retain(|(other, ..)| *other != key);
                }
                1 => {
                    let bytes = 1 + random.below(60) * 8;
                    cache.set(key, bytes, ends);
                    plain.retain(|(other, ..)| *other != key);
                    if bytes <= 400 {
                        while plain.iter().map(|it| it.1).sum::<u64>() + bytes > 400 {
                            plain.remove(0);
                        }
                        plain.push((key, bytes, ends));
                    }
                }
                2 => {
                    cache.prolong(key, ends);
                    for it in plain.iter_mut().filter(|it| it.0 == key) {
                        it.2 = ends;
                    }
                }
                _ => {
                    let found = plain.iter().position(|it| it.0 == key);
                    assert_eq!(cache.get(key), found.is_some());
                    if let Some(at) = found {
                        let item = plain.remove(at);
                        plain.push(item);
                    }
                }
            }
            assert_eq!(cache.items.len(), plain.len());
        }
    }

    fn holds(cache: &Cache, keys: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let held = keys
            .into_iter()
            .filter(|key| cache.items.find(*key).is_some());
        held.collect()
    }

    #[test]
    fn what_is_read_twice_becomes_warm_and_outlives_a_scan() {
        let mut cache = Cache::new(Policy::Segmented, 1000);
        for key in 0..10 {
            cache.set(key, 10, NEVER);
        }
        for _ in 0..2 {
            assert!(cache.get(3) && cache.get(5));
        }
        assert!(cache.get(7), "read once");
        for key in 100..300 {
            cache.set(key, 10, NEVER);
        }
        assert_eq!(holds(&cache, 0..10), [3, 5]);
        assert!(cache.items.bytes() <= 1000);
        let warm = [3, 5].map(|key| cache.items.find(key).map(|at| cache.items.list(at)));
        assert_eq!(warm, [Some(WARM); 2]);
        // Cold ones that become active are warm at once.
        let cold = cache.items.oldest(COLD).expect("most are");
        let key = cache.items.get(cold).key;
        assert!(cache.get(key) && cache.get(key));
        assert_eq!(cache.items.list(cold), WARM);
    }

    #[test]
    fn who_is_read_or_returns_is_in_the_main_list_and_a_scan_passes_through_the_small_one() {
        let mut cache = Cache::new(Policy::S3Fifo, 1000);
        for key in 0..20 {
            cache.set(key, 10, NEVER);
        }
        assert!((0..5).all(|key| cache.get(key)));
        for key in 100..300 {
            cache.set(key, 10, NEVER);
        }
        assert_eq!(holds(&cache, 0..20), [0, 1, 2, 3, 4]);
        // One that left lately.
        let gone = (100..300)
            .rev()
            .find(|key| cache.items.find(*key).is_none());
        let gone = gone.expect("most are gone");
        cache.set(gone, 10, NEVER);
        let at = cache.items.find(gone).expect("it was stored");
        assert_eq!(cache.items.list(at), MAIN);
    }

    #[test]
    fn none_takes_more_than_its_memory_whatever_is_done() {
        let mut random = SplitMix64::new(seed(0x52));
        for policy in [Policy::Lru, Policy::Segmented, Policy::S3Fifo] {
            let mut cache = Cache::new(policy, 10_000);
            for now in 0..30_000 {
                cache.pass_time(now);
                let key = random.below(400).min(random.below(400));
                match random.below(10) {
                    0 => cache.delete(key),
                    1..5 => cache.set(key, 1 + random.below(300), now + random.below(3000)),
                    _ => {
                        cache.get(key);
                    }
                }
                if now % 10_000 == 9_999 {
                    cache.halve(|key| key % 2 == 0);
                    assert!(holds(&cache, 0..400).iter().all(|key| key % 2 == 0));
                }
                assert!(cache.items.bytes() <= cache.bytes_max, "{policy:?}");
            }
            assert!(cache.items.len() > 5, "{policy:?}");
        }
    }
}
