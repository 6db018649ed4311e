//! Space-Saving (Metwally, Agrawal and El Abbadi, ICDT 2005): m counters, of which a key that has none takes the
//! smallest over, with its count.
//!
//! ```text
//!   true count <= count <= true count + error        error <= total / m
//! ```
//!
//! For a comparison; what ships is in `policy`. A heap keeps the smallest counter at hand.

use super::{Counted, Detector, Key, Told};
use evenkeel_types::{Instant, KeyHash};
use std::collections::HashMap;

/// A key's counter.
#[derive(Clone, Debug)]
struct Counter {
    key: Key,
    count: f64,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct SpaceSaving {
    counters_max: usize,
    /// Invariant: a heap, the smallest count first.
    heap: Vec<Counter>,
    /// Invariant: where each key's counter is.
    places: HashMap<KeyHash, usize>,
    total: f64,
}

impl SpaceSaving {
    /// As many counters as fit into so many bytes, with keys of this length.
    pub fn of_bytes(bytes: usize, key_len: usize) -> SpaceSaving {
        SpaceSaving::new((bytes / Self::counter_bytes(key_len)).max(1))
    }

    fn new(counters_max: usize) -> SpaceSaving {
        SpaceSaving {
            counters_max,
            heap: Vec::with_capacity(counters_max),
            places: HashMap::new(),
            total: 0.0,
        }
    }

    /// A counter, its key, and two places of 16 bits in an index, as the SSM cache has them.
    fn counter_bytes(key_len: usize) -> usize {
        size_of::<Counter>() + key_len + 2 * size_of::<u16>()
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for at in [one, other] {
            self.places.insert(self.heap[at].key.hash, at);
        }
    }

    /// Restores the heap below a counter that has grown.
    fn sink(&mut self, mut at: usize) {
        loop {
            let children = [2 * at + 1, 2 * at + 2].into_iter();
            let smaller = children
                .filter(|&child| child < self.heap.len())
                .min_by(|&a, &b| self.heap[a].count.total_cmp(&self.heap[b].count));
            match smaller {
                Some(child) if self.heap[child].count < self.heap[at].count => {
                    self.swap(at, child);
                    at = child;
                }
                _ => return,
            }
        }
    }

    /// Restores the heap above a counter that is new.
    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.heap[at].count < self.heap[(at - 1) / 2].count {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }
}

impl Detector for SpaceSaving {
    fn entries(&self) -> usize {
        self.counters_max
    }

    fn read(&mut self, _now: Instant, key: &Key, told: Told) {
        let weight = told.weight;
        self.total += weight;
        if let Some(&at) = self.places.get(&key.hash) {
            self.heap[at].count += weight;
            return self.sink(at);
        }
        if self.heap.len() < self.counters_max {
            self.heap.push(Counter {
                key: key.clone(),
                count: weight,
            });
            let last = self.heap.len() - 1;
            self.places.insert(key.hash, last);
            return self.rise(last);
        }
        let smallest = &mut self.heap[0];
        self.places.remove(&smallest.key.hash);
        smallest.key.clone_from(key);
        smallest.count += weight;
        self.places.insert(key.hash, 0);
        self.sink(0);
    }

    fn forget_half(&mut self) {
        self.total /= 2.0;
        self.heap
            .iter_mut()
            .for_each(|counter| counter.count /= 2.0);
    }

    fn counted(&self) -> Vec<Counted> {
        let counter = |counter: &Counter| Counted {
            hash: counter.key.hash,
            share: counter.count / self.total,
        };
        self.heap.iter().map(counter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::detection::tests::{Exact, reads};

    #[test]
    fn counts_keep_their_bounds_beside_exact_ones() {
        for counters in [1, 2, 7, 64] {
            let (mut sketch, mut exact) = (SpaceSaving::new(counters), Exact::default());
            for (step, (key, weight)) in reads(20_000).into_iter().enumerate() {
                sketch.read(Instant(0), &key, Told { weight, bytes: 0 });
                exact.read(&key, weight);
                if step % 5_000 == 4_999 {
                    sketch.forget_half();
                    exact.forget_half();
                }
            }
            let total = exact.total();
            assert!((sketch.total - total).abs() < 1e-6 * total);
            assert!(sketch.heap.len() <= counters);
            let smallest = sketch.heap[0].count;
            assert!(smallest <= total / counters as f64 + 1e-6 * total);
            for counter in &sketch.heap {
                let truth = exact.count(counter.key.hash);
                let near = 1e-6 * total;
                assert!(counter.count >= truth - near, "{} {truth}", counter.count);
                assert!(counter.count <= truth + smallest + near);
                assert!(counter.count >= smallest, "a heap");
            }
            for hash in exact.hashes() {
                let known = sketch.places.contains_key(&hash);
                assert!(known || exact.count(hash) <= smallest + 1e-6 * total);
            }
        }
    }
}
