//! The keys that get most requests and bytes, at any load, whether anything is done about them or not.
//!
//! One of some requests is looked at: all of them while there are few, so that somebody who tries a cache out sees the
//! keys, and one of five hundred at the most, so that a busy worker does not feel it. Each of three [summaries](crate::sketch) counts what
//! it is about. Counts are halved every [`HALVED_AFTER`]; a rate is a count by the seconds that are in it.

use core::time::Duration;

use evenkeel_balance::load::BYTES_PER_REQUEST;
use evenkeel_types::{Instant, KeyHash};

use crate::popularity::Sampler;
use crate::sketch::TopKeys;

/// Counters of each summary. Of a million keys by Zipf's law with an exponent of 0.99 the first ten get 0.7 % each or more;
/// a count misses 0.2 % at most.
const COUNTERS: usize = 256;

/// How often the part that is looked at is chosen anew.
const SAMPLING_CHOSEN_AFTER: Duration = Duration::from_millis(500);

/// Requests that are looked at in that time, if there are this many.
const SAMPLES: f64 = 500.0;

/// The part that is looked at in any case.
const SAMPLING_MIN: f64 = 0.002;

/// After this long counts are halved.
pub const HALVED_AFTER: Duration = Duration::from_secs(5);

/// Halvings after which nothing is left of a count, however long nobody has looked at the clock.
const HALVINGS_MAX: usize = 64;

/// What a key gets in a second, as was sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct HottestKey {
    /// The key.
    pub key: Vec<u8>,
    /// Its hash.
    pub hash: KeyHash,
    /// Reads of it, whether it was found or not.
    pub gets: f64,
    /// Writes of it, deletes among them.
    pub sets: f64,
    /// Bytes of the values that were read and written.
    pub bytes: f64,
    /// What that adds to the load, in small requests; see [`cost_of`](evenkeel_balance::load::cost_of).
    pub load: f64,
    /// The part of all requests that it gets.
    pub share: f64,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Hottest {
    sampler: Sampler,
    gets: TopKeys,
    sets: TopKeys,
    bytes: TopKeys,
    /// Requests that were looked at since the part was chosen, by their weight.
    seen: f64,
    next_choice: Instant,
    /// Seconds that are in the counts up to then.
    seconds: f64,
    seconds_to: Instant,
    next_halving: Instant,
}

impl Hottest {
    /// A worker that starts now. The seed decides which requests are looked at.
    pub fn new(seed: u64, now: Instant) -> Self {
        let mut sampler = Sampler::new(1.0, seed);
        sampler.set_active(true);
        Hottest {
            sampler,
            gets: TopKeys::new(COUNTERS),
            sets: TopKeys::new(COUNTERS),
            bytes: TopKeys::new(COUNTERS),
            seen: 0.0,
            next_choice: now + SAMPLING_CHOSEN_AFTER,
            seconds: 0.0,
            seconds_to: now,
            next_halving: now + HALVED_AFTER,
        }
    }

    /// A key was read; `bytes` are those of its value, 0 if there is none. A few instructions for most.
    #[inline]
    pub fn read(&mut self, key: &[u8], bytes: usize) {
        if self.picks() {
            self.count_read(key, bytes);
        }
    }

    /// Whether a request is looked at: for a read whose value is not known yet, which is [counted](Hottest::count_read) when it is.
    #[inline]
    pub fn picks(&mut self) -> bool {
        self.sampler.take()
    }

    /// A read that was [picked](Hottest::picks) is over.
    pub fn count_read(&mut self, key: &[u8], bytes: usize) {
        self.count(Kind::Get, key, bytes);
    }

    /// A key was written; `bytes` are those of its new value, 0 if there is none. A few instructions for most.
    #[inline]
    pub fn written(&mut self, key: &[u8], bytes: usize) {
        if self.picks() {
            self.count_written(key, bytes);
        }
    }

    /// A key was written by a request that was [picked](Hottest::picks).
    pub fn count_written(&mut self, key: &[u8], bytes: usize) {
        self.count(Kind::Set, key, bytes);
    }

    /// Whether nothing was asked lately.
    pub fn is_quiet(&self) -> bool {
        self.gets.total() + self.sets.total() < 1.0
    }

    #[cold]
    fn count(&mut self, kind: Kind, key: &[u8], bytes: usize) {
        let hash = KeyHash::of(key);
        let weight = f64::from(self.sampler.weight());
        self.seen += weight;
        let summary = match kind {
            Kind::Get => &mut self.gets,
            Kind::Set => &mut self.sets,
        };
        summary.read(hash, key, weight);
        if bytes > 0 {
            self.bytes.read(hash, key, weight * bytes as f64);
        }
    }

    /// Time has passed. To be called now and then, twice a second while there is anything to do.
    pub fn roll(&mut self, now: Instant) {
        if now < self.next_choice {
            return;
        }
        let late = now.since(self.next_choice).as_secs_f64();
        let times = 1.0 + late / SAMPLING_CHOSEN_AFTER.as_secs_f64();
        self.next_choice = now + SAMPLING_CHOSEN_AFTER;
        let requests = core::mem::take(&mut self.seen) / times;
        let sampling = SAMPLES / requests.max(1.0);
        self.sampler
            .set_probability(sampling.clamp(SAMPLING_MIN, 1.0));
        for _ in 0..HALVINGS_MAX {
            if now < self.next_halving {
                break;
            }
            self.count_seconds_to(self.next_halving);
            self.seconds /= 2.0;
            for summary in [&mut self.gets, &mut self.sets, &mut self.bytes] {
                summary.decay();
            }
            self.next_halving = self.next_halving + HALVED_AFTER;
        }
        if now >= self.next_halving {
            self.seconds_to = now;
            self.next_halving = now + HALVED_AFTER;
        }
        self.count_seconds_to(now);
    }

    fn count_seconds_to(&mut self, until: Instant) {
        self.seconds += until.since(self.seconds_to).as_secs_f64();
        self.seconds_to = until;
    }

    fn seconds(&self, now: Instant) -> f64 {
        let seconds = self.seconds + now.since(self.seconds_to).as_secs_f64();
        seconds.max(SAMPLING_CHOSEN_AFTER.as_secs_f64())
    }

    /// All requests in a second.
    pub fn requests_per_second(&self, now: Instant) -> f64 {
        (self.gets.total() + self.sets.total()) / self.seconds(now)
    }

    /// The `most` keys with most gets, with most sets and with most bytes, the greatest load first. O(n log n).
    pub fn list(&self, now: Instant, most: usize) -> Vec<HottestKey> {
        let seconds = self.seconds(now);
        let total = (self.gets.total() + self.sets.total()).max(1.0);
        let mut list: Vec<HottestKey> = Vec::new();
        for summary in [&self.gets, &self.sets, &self.bytes] {
            for top in summary.top().into_iter().take(most) {
                if list.iter().any(|known| known.key == top.key) {
                    continue;
                }
                let of = |summary: &TopKeys| summary.count(top.hash, &top.key).0;
                let (gets, sets) = (of(&self.gets), of(&self.sets));
                let bytes = of(&self.bytes);
                list.push(HottestKey {
                    gets: gets / seconds,
                    sets: sets / seconds,
                    bytes: bytes / seconds,
                    load: (gets + sets + bytes / BYTES_PER_REQUEST as f64) / seconds,
                    share: (gets + sets) / total,
                    hash: top.hash,
                    key: top.key,
                });
            }
        }
        list.sort_by(|a, b| {
            let by_load = b.load.total_cmp(&a.load);
            by_load.then_with(|| a.key.cmp(&b.key))
        });
        list
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Get,
    Set,
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_testkit::seed;
    use evenkeel_types::random::SplitMix64;
    use std::collections::BTreeMap;

    /// Asks by Zipf's law at that rate for this long, one of ten requests a write, and gives what was really asked.
    fn ask(
        hottest: &mut Hottest,
        random: &mut SplitMix64,
        (rate, seconds, keys): (u64, u64, usize),
    ) -> BTreeMap<Vec<u8>, u64> {
        let mut sum = 0.0;
        let sums: Vec<f64> = (1..=keys)
            .map(|rank| {
                sum += (rank as f64).powf(-0.99);
                sum
            })
            .collect();
        let mut truth = BTreeMap::new();
        for number in 0..rate * seconds {
            let at = random.unit() * sum;
            let key = format!("key{}", sums.partition_point(|&upto| upto < at)).into_bytes();
            match number % 10 {
                0 => hottest.written(&key, 100),
                _ => hottest.read(&key, 100),
            }
            *truth.entry(key).or_default() += 1;
            hottest.roll(Instant(number * 1_000_000_000 / rate));
        }
        truth
    }

    fn top_of(truth: &BTreeMap<Vec<u8>, u64>, most: usize) -> Vec<Vec<u8>> {
        let mut keys: Vec<_> = truth.iter().collect();
        keys.sort_by_key(|&(_, &count)| core::cmp::Reverse(count));
        keys.into_iter()
            .take(most)
            .map(|(key, _)| key.clone())
            .collect()
    }

    #[test]
    fn the_hottest_are_known_after_five_seconds_of_little_load() {
        let seed = seed(0x5eed_0042);
        let mut random = SplitMix64::new(seed);
        let mut hottest = Hottest::new(seed, Instant(0));
        let truth = ask(&mut hottest, &mut random, (1_000, 5, 100_000));
        let list = hottest.list(Instant(5_000_000_000), 20);
        let listed: Vec<_> = list.iter().take(20).map(|it| it.key.clone()).collect();
        for key in top_of(&truth, 10) {
            assert!(listed.contains(&key), "{}", String::from_utf8_lossy(&key));
        }
        // A summary counts no key too often, and misses little.
        for it in &list[..3] {
            let really = truth[&it.key] as f64 / 5.0;
            let asked = it.gets + it.sets;
            assert!(
                asked <= really * 1.01 && asked > really * 0.7,
                "{it:?} {really}"
            );
            assert!((it.bytes / asked - 100.0).abs() < 30.0, "{it:?}");
        }
    }

    #[test]
    fn much_load_is_sampled_and_what_has_cooled_is_forgotten() {
        let seed = seed(0x5eed_0042);
        let mut random = SplitMix64::new(seed);
        let mut hottest = Hottest::new(seed, Instant(0));
        let rate = 100_000;
        let truth = ask(&mut hottest, &mut random, (rate, 6, 10_000));
        let first = &hottest.list(Instant(6_000_000_000), 5)[0];
        assert_eq!(first.key, top_of(&truth, 1)[0]);
        let really = truth[&first.key] as f64 / 6.0;
        let asked = first.gets + first.sets;
        assert!((asked / really - 1.0).abs() < 0.25, "{asked} of {really}");
        assert!((first.share / (really / rate as f64) - 1.0).abs() < 0.25);
        for second in 6..120 {
            hottest.roll(Instant(second * 1_000_000_000));
        }
        let left = hottest.list(Instant(120_000_000_000), 5);
        assert!(left.iter().all(|it| it.gets < 1.0), "{left:?}");
    }
}
