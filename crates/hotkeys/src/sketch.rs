//! The most read keys of a stream in fixed memory: a Misra–Gries summary, whose counts decay.
//!
//! It keeps m counters. A read of a key that has one adds to it. A read of another key takes a free
//! counter, or, when there is none, is set off against one read of every counter, which is what may
//! free some (Misra and Gries, "Finding repeated elements", 1982). So a counter never says more than
//! is true, and all of them together have lost the same, the *slack*:
//!
//! ```text
//!   count <= true count <= count + slack        slack <= (total - sum of counts) / (m + 1)
//! ```
//!
//! To forget, all numbers are halved now and then. The bounds hold for halved counts just as well,
//! because everything in them is linear.

use evenkeel_types::KeyHash;

/// Counts smaller than this part of a read are dropped, so that idle keys do not stay for ever.
const COUNT_MIN: f64 = 1.0 / 64.0;

/// A key and how often it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct TopKey {
    /// The key.
    pub key: Vec<u8>,
    /// Its hash.
    pub hash: KeyHash,
    /// Reads, at least.
    pub reads: f64,
    /// Writes while it was counted.
    pub writes: f64,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct TopKeys {
    counters_max: usize,
    /// The counters, field by field, since most looks concern one field of all. A [tag](tag) of each hash is what is looked through for a key.
    tags: Vec<u8>,
    hashes: Vec<KeyHash>,
    /// Invariant: above zero.
    reads: Vec<f64>,
    writes: Vec<f64>,
    keys: Vec<Vec<u8>>,
    /// Buffers of keys that lost their counter.
    spare: Vec<Vec<u8>>,
    total: f64,
}

impl TopKeys {
    /// An empty summary of at least one counter.
    ///
    /// # Panics
    /// When it has none.
    pub fn new(counters_max: usize) -> Self {
        assert!(counters_max > 0, "a summary counts something");
        TopKeys {
            counters_max,
            tags: Vec::with_capacity(counters_max),
            hashes: Vec::with_capacity(counters_max),
            reads: Vec::with_capacity(counters_max),
            writes: Vec::with_capacity(counters_max),
            keys: Vec::with_capacity(counters_max),
            spare: Vec::new(),
            total: 0.0,
        }
    }

    /// Counts a read that stands for `weight` of them, above zero. O(counters).
    pub fn read(&mut self, hash: KeyHash, key: &[u8], weight: f64) {
        debug_assert!(weight > 0.0);
        self.total += weight;
        if let Some(at) = self.position(hash, key) {
            self.reads[at] += weight;
            return;
        }
        let rest = if self.hashes.len() < self.counters_max {
            weight
        } else {
            let least = self.reads.iter().copied().fold(weight, f64::min);
            self.set_off(least);
            weight - least
        };
        if rest > 0.0 {
            self.insert(hash, key, rest);
        }
    }

    /// Counts a write that stands for `weight` of them, if the key has a counter. O(counters).
    pub fn write(&mut self, hash: KeyHash, key: &[u8], weight: f64) {
        if let Some(at) = self.position(hash, key) {
            self.writes[at] += weight;
        }
    }

    /// Halves everything.
    pub fn decay(&mut self) {
        self.total /= 2.0;
        self.reads.iter_mut().for_each(|count| *count /= 2.0);
        self.writes.iter_mut().for_each(|count| *count /= 2.0);
        for at in (0..self.reads.len()).rev() {
            if self.reads[at] < COUNT_MIN {
                self.remove(at);
            }
        }
    }

    /// The keys that have a counter, the most read first. O(n log n).
    pub fn top(&self) -> Vec<TopKey> {
        let mut order: Vec<usize> = (0..self.reads.len()).collect();
        order.sort_by(|&a, &b| {
            let by_reads = self.reads[b].total_cmp(&self.reads[a]);
            by_reads.then_with(|| self.keys[a].cmp(&self.keys[b]))
        });
        let of = |at: usize| TopKey {
            key: self.keys[at].clone(),
            hash: self.hashes[at],
            reads: self.reads[at],
            writes: self.writes[at],
        };
        order.into_iter().map(of).collect()
    }

    /// Reads of a key, at least, and its writes; zero if it has no counter.
    pub fn count(&self, hash: KeyHash, key: &[u8]) -> (f64, f64) {
        self.position(hash, key)
            .map_or((0.0, 0.0), |at| (self.reads[at], self.writes[at]))
    }

    /// Reads of all keys.
    pub fn total(&self) -> f64 {
        self.total
    }

    fn position(&self, hash: KeyHash, key: &[u8]) -> Option<usize> {
        let mut with_tag = memchr::memchr_iter(tag(hash), &self.tags);
        with_tag.find(|&at| self.hashes[at] == hash && self.keys[at] == key)
    }

    fn insert(&mut self, hash: KeyHash, key: &[u8], reads: f64) {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(key);
        self.keys.push(buffer);
        self.tags.push(tag(hash));
        self.hashes.push(hash);
        self.reads.push(reads);
        self.writes.push(0.0);
    }

    /// Takes this many reads from every counter.
    fn set_off(&mut self, reads: f64) {
        for at in (0..self.reads.len()).rev() {
            if self.reads[at] <= reads {
                self.remove(at);
            } else {
                self.reads[at] -= reads;
            }
        }
    }

    fn remove(&mut self, at: usize) {
        self.tags.swap_remove(at);
        self.hashes.swap_remove(at);
        self.reads.swap_remove(at);
        self.writes.swap_remove(at);
        let key = self.keys.swap_remove(at);
        if self.spare.len() < self.counters_max {
            self.spare.push(key);
        }
    }
}

/// By which a hash is looked for among others: a byte from its middle, as keys of one place have others in common.
fn tag(hash: KeyHash) -> u8 {
    (hash.0 >> 24) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_testkit::seed;
    use evenkeel_types::random::SplitMix64;
    use std::collections::BTreeMap;

    /// Counts everything.
    #[derive(Default)]
    struct Exact {
        reads: BTreeMap<Vec<u8>, f64>,
        total: f64,
    }

    impl Exact {
        fn read(&mut self, key: &[u8], weight: f64) {
            *self.reads.entry(key.to_vec()).or_default() += weight;
            self.total += weight;
        }

        fn decay(&mut self) {
            self.reads.values_mut().for_each(|count| *count /= 2.0);
            self.total /= 2.0;
        }
    }

    /// Ranks by Zipf's law of exponent one, near enough: the rank is uniform on a logarithmic scale.
    fn zipf(random: &mut SplitMix64, keys: u64) -> Vec<u8> {
        let rank = (keys as f64).powf(random.unit()) as u64;
        format!("key{rank}").into_bytes()
    }

    fn check(sketch: &TopKeys, exact: &Exact, what: &str) {
        let near = 1e-6 * exact.total.max(1.0);
        assert!(
            (sketch.total() - exact.total).abs() <= near,
            "{what}: total"
        );
        let sum: f64 = sketch.reads.iter().sum();
        let bound = (exact.total - sum) / (sketch.counters_max as f64 + 1.0);
        // What is dropped for being small is not in the paper's bound.
        let dropped = 2.0 * COUNT_MIN;
        assert!(sketch.reads.len() <= sketch.counters_max, "{what}: size");
        assert!(sketch.reads.iter().all(|&count| count > 0.0), "{what}");
        for (key, &count) in &exact.reads {
            let (found, _) = sketch.count(KeyHash::of(key), key);
            assert!(found <= count + near, "{what}: {found} above {count}");
            assert!(
                count <= found + bound + dropped + near,
                "{what}: {count} above {found} + {bound}"
            );
        }
    }

    #[test]
    fn counts_keep_their_bounds_beside_exact_ones_whatever_is_read_and_forgotten() {
        let mut random = SplitMix64::new(seed(0x5eed));
        for counters_max in [1, 2, 7, 64, 256] {
            let (mut sketch, mut exact) = (TopKeys::new(counters_max), Exact::default());
            for step in 0..30_000 {
                let key = zipf(&mut random, 5000);
                let weight = [1.0, 1.0, 33.0, 0.25][random.below(4) as usize];
                sketch.read(KeyHash::of(&key), &key, weight);
                exact.read(&key, weight);
                if random.below(3000) == 0 {
                    sketch.decay();
                    exact.decay();
                }
                if step % 5000 == 4999 {
                    check(&sketch, &exact, &format!("{counters_max} counters, {step}"));
                }
            }
        }
    }

    #[test]
    fn keys_with_equal_hashes_are_told_apart_and_writes_count_for_known_keys_only() {
        let mut sketch = TopKeys::new(4);
        let hash = KeyHash(7);
        sketch.write(hash, b"a", 5.0);
        sketch.read(hash, b"a", 2.0);
        sketch.read(hash, b"b", 1.0);
        sketch.write(hash, b"a", 3.0);
        assert_eq!(sketch.count(hash, b"a"), (2.0, 3.0));
        assert_eq!(sketch.count(hash, b"b"), (1.0, 0.0));
        assert_eq!(sketch.count(hash, b"c"), (0.0, 0.0));
    }

    #[test]
    fn what_nobody_reads_any_more_is_forgotten() {
        let mut sketch = TopKeys::new(4);
        sketch.read(KeyHash(1), b"a", 1000.0);
        for _ in 0..20 {
            sketch.decay();
        }
        assert!(sketch.top().is_empty());
    }
}
