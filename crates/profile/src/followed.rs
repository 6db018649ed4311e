//! What is followed of more things than memory holds.
//!
//! As SHARDS bounds its memory (Waldspurger et al., FAST 2015, section 3.3): a thing is followed if its hash is below a threshold, and
//! when there are too many, the threshold is halved and those above it are dropped. What stays is a sample by hash at every time, as if the
//! threshold had been that low from the beginning.

use core::hash::{BuildHasher, Hash};
use foldhash::quality::FixedState;
use std::collections::HashMap;

/// At most this many things with what is known of each.
#[derive(Debug)]
pub(crate) struct Followed<K, V> {
    entries: HashMap<K, V, FixedState>,
    entries_max: usize,
    halvings: u32,
}

/// Another hash than the table's own, whose upper bits are used, too.
const THRESHOLD_SEED: u64 = 0x5348_4152_4453;

impl<K: Hash + Eq, V: Default> Followed<K, V> {
    /// Nothing yet, and never more than `entries_max` > 0 things.
    pub fn new(entries_max: usize) -> Self {
        Followed {
            entries: HashMap::default(),
            entries_max,
            halvings: 0,
        }
    }

    /// What is known of a thing, which is followed from now on; `None` if it is not. O(1), and O(n) when the threshold is halved.
    pub fn follow(&mut self, key: K) -> Option<&mut V> {
        if self.entries.len() >= self.entries_max && !self.entries.contains_key(&key) {
            while self.entries.len() >= self.entries_max {
                self.halvings += 1;
                let halvings = self.halvings;
                self.entries.retain(|key, _| stays(key, halvings));
            }
        }
        stays(&key, self.halvings).then(|| self.entries.entry(key).or_default())
    }

    /// Whether a thing is.
    pub fn is_followed(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// How many things were seen for each that is followed, on average: a power of two.
    pub fn one_of(&self) -> u64 {
        1 << self.halvings.min(63)
    }

    /// All that are followed, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter()
    }
}

fn stays<K: Hash>(key: &K, halvings: u32) -> bool {
    let hash = FixedState::with_seed(THRESHOLD_SEED).hash_one(key);
    // From 64 on nothing stays: the loop above ends whatever the keys are.
    hash.checked_shr(64 - halvings.min(64)).unwrap_or(0) == 0 && halvings < 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_below_the_threshold_are_followed_from_their_first_time_on() {
        for (entries_max, things) in [(1000, 900), (1000, 20_000), (1, 50)] {
            let mut followed = Followed::<u64, u32>::new(entries_max);
            for round in 0..4 {
                for thing in 0..things {
                    if let Some(times) = followed.follow(thing) {
                        assert!(*times <= round);
                        *times += 1;
                    }
                    assert!(followed.entries.len() <= entries_max);
                }
            }
            // Anyone who is left was never dropped.
            assert!(followed.iter().all(|(_, times)| *times == 4));
            let count = followed.iter().count() as u64 * followed.one_of();
            let about = count as f64 / things as f64;
            match entries_max {
                1 => assert!(followed.one_of() > 1),
                _ if things < 1000 => assert_eq!(count, things),
                _ => assert!((0.8..1.2).contains(&about), "{about}"),
            }
        }
    }
}
