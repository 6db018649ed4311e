//! HeavyKeeper (Gong et al., USENIX ATC 2018): rows of buckets with a fingerprint and a count each. A key that meets
//! another one's bucket wears its count off with a probability that falls with it, b to the power of −count, and takes
//! the bucket over once it is zero: large counts are hardly touched by the many small keys.
//!
//! For a comparison; what ships is in `policy`. Beside the buckets stand the names of the keys that were found.

use super::{Counted, Detector, Key, Told};
use evenkeel_types::{Instant, KeyHash};
use evenkeel_workload::rng::{WorkloadRng, mix64, stream, unit};
use std::collections::HashMap;

/// Rows, and the base of the probability, as in the paper (sections 3 and 5).
const ROWS: usize = 2;
const BASE: f64 = 1.08;

/// Part of the memory that the names of the keys take.
const NAMES_SHARE: f64 = 0.25;

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    fingerprint: u32,
    count: f32,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct HeavyKeeper {
    buckets: [Vec<Bucket>; ROWS],
    /// Keys that were found, and their counts. Invariant: at most `names_max`.
    names: HashMap<KeyHash, (Key, f32)>,
    names_max: usize,
    total: f64,
    random: WorkloadRng,
}

impl HeavyKeeper {
    /// As many buckets and names as fit into so many bytes, with keys of this length.
    pub fn of_bytes(bytes: usize, key_len: usize, seed: u64) -> HeavyKeeper {
        let name = size_of::<Key>() + size_of::<f32>() + key_len + 2 * size_of::<u16>();
        let names_max = ((NAMES_SHARE * bytes as f64) as usize / name).max(1);
        let rest = bytes.saturating_sub(names_max * name);
        HeavyKeeper::new((rest / size_of::<Bucket>() / ROWS).max(1), names_max, seed)
    }

    fn new(buckets: usize, names_max: usize, seed: u64) -> HeavyKeeper {
        HeavyKeeper {
            buckets: [(); ROWS].map(|()| vec![Bucket::default(); buckets]),
            names: HashMap::new(),
            names_max,
            total: 0.0,
            random: stream(seed, 0),
        }
    }

    /// A weight as it wears off: so many reads of one each, in one step.
    fn wear_off(&mut self, count: f32, weight: f64) -> f32 {
        let probability = BASE.powf(-f64::from(count));
        match unit(&mut self.random) < probability {
            true => (count - weight as f32).max(0.0),
            false => count,
        }
    }

    /// Adds to a key's buckets; gives its count.
    fn add(&mut self, hash: KeyHash, weight: f64) -> f32 {
        let fingerprint = (hash.0 >> 32) as u32;
        let mut most: f32 = 0.0;
        for row in 0..ROWS {
            let place = mix64(hash.0 ^ row as u64) % self.buckets[row].len() as u64;
            let bucket = self.buckets[row][place as usize];
            let mut after = bucket;
            if bucket.count > 0.0 && bucket.fingerprint != fingerprint {
                after.count = self.wear_off(bucket.count, weight);
            }
            if after.count == 0.0 {
                (after.fingerprint, after.count) = (fingerprint, 0.0);
            }
            if after.fingerprint == fingerprint {
                after.count += weight as f32;
                most = most.max(after.count);
            }
            self.buckets[row][place as usize] = after;
        }
        most
    }
}

impl Detector for HeavyKeeper {
    fn entries(&self) -> usize {
        self.names_max
    }

    fn read(&mut self, _now: Instant, key: &Key, told: Told) {
        let weight = told.weight;
        self.total += weight;
        let count = self.add(key.hash, weight);
        if let Some((_, known)) = self.names.get_mut(&key.hash) {
            *known = known.max(count);
            return;
        }
        if self.names.len() < self.names_max {
            self.names.insert(key.hash, (key.clone(), count));
            return;
        }
        // Few reads get here: a key without a name seldom has a bucket with a large count.
        let smallest = self.names.iter().min_by(|a, b| a.1.1.total_cmp(&b.1.1));
        if let Some((&smallest, &(_, least))) = smallest
            && count > least
        {
            self.names.remove(&smallest);
            self.names.insert(key.hash, (key.clone(), count));
        }
    }

    fn forget_half(&mut self) {
        self.total /= 2.0;
        let buckets = self.buckets.iter_mut().flatten();
        buckets.for_each(|bucket| bucket.count /= 2.0);
        self.names.values_mut().for_each(|(_, count)| *count /= 2.0);
    }

    fn counted(&self) -> Vec<Counted> {
        let counted = |(&hash, &(_, count)): (&KeyHash, &(Key, f32))| Counted {
            hash,
            share: f64::from(count) / self.total,
        };
        self.names.iter().map(counted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::detection::tests::{Exact, reads};

    #[test]
    fn counts_of_hot_keys_are_near_exact_ones_and_hardly_ever_above() {
        let (mut sketch, mut exact) = (HeavyKeeper::new(256, 32, 1), Exact::default());
        for (key, _) in reads(50_000) {
            let told = Told {
                weight: 1.0,
                bytes: 0,
            };
            sketch.read(Instant(0), &key, told);
            exact.read(&key, 1.0);
        }
        let total = exact.total();
        for hash in exact.hashes() {
            let truth = exact.count(hash) / total;
            let counted = sketch.counted();
            let found = counted.iter().find(|counted| counted.hash == hash);
            if truth >= 0.02 {
                let found = found.expect("a hot key has a name");
                assert!(found.share >= 0.9 * truth, "{} {truth}", found.share);
            }
            if let Some(found) = found {
                // Two keys of one bucket and one fingerprint are not told apart.
                assert!(found.share <= truth + 0.01, "{} {truth}", found.share);
            }
        }
    }
}
