//! How long things took, counted in buckets of a quarter of a power of two: small enough to be kept for each server and route, and to be
//! told each second.

use evenkeel_types::Instant;

/// Parts that each power of two is divided into: a value is known to a quarter.
const PARTS: usize = 4;

/// Longest time that is told apart, in microseconds: 134 s, more than the longest request timeout.
pub const TIME_MAX_US: u64 = (1 << 27) - 1;

/// 0, 1, 2 and 3 µs, and the parts of each power of two from 4 µs on.
pub(crate) const BUCKETS: usize = bucket(TIME_MAX_US) + 1;

/// Counts of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    sum_us: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: [0; BUCKETS],
            sum_us: 0,
        }
    }
}

/// A time as histograms count it.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    bucket: usize,
    /// In microseconds.
    pub us: u64,
}

impl Spot {
    /// This many microseconds.
    #[inline]
    pub fn of(us: u64) -> Self {
        Spot {
            bucket: bucket(us),
            us,
        }
    }

    /// The time from one instant to another; none if it is not later.
    #[inline]
    pub fn between(from: Instant, to: Instant) -> Self {
        // Most requests are written in the turn in which they were asked.
        if from >= to {
            return Spot { bucket: 0, us: 0 };
        }
        Spot::of((to.0 - from.0) / 1000)
    }
}

impl Histogram {
    /// Counts a time this many times.
    #[inline]
    pub fn record(&mut self, spot: Spot, times: u64) {
        self.counts[spot.bucket] += times;
        self.sum_us += spot.us * times;
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }

    /// What was counted since there was another one. Of what was taken back meanwhile there is none.
    pub fn since(&self, before: &Histogram) -> Histogram {
        let mut since = self.clone();
        for (count, before) in since.counts.iter_mut().zip(&before.counts) {
            *count = count.saturating_sub(*before);
        }
        since.sum_us = since.sum_us.saturating_sub(before.sum_us);
        since
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.counts
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Their sum, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// How many are below 2^`exponent` microseconds; `exponent` is 2 to 26.
    pub fn below(&self, exponent: u32) -> u64 {
        self.counts[..bucket(1 << exponent)].iter().sum()
    }

    /// The time, in microseconds, that such a part of them does not exceed, to a quarter above; 0 without any.
    pub fn quantile_us(&self, part: f64) -> u64 {
        let rank = ((self.count() as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen = count.saturating_add(seen);
            if seen >= rank {
                return last_of(index);
            }
        }
        0
    }
}

/// Times in the order of their buckets, as they travel: the number of each that is not empty, and how many are in it.
pub type Counted = Vec<(u8, u64)>;

impl Histogram {
    /// What is to be told. At most a number for each bucket.
    pub fn counted(&self) -> Counted {
        let all = (0..).zip(self.counts);
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// What was told, without the sum. Numbers of no bucket are left out.
    pub fn of_counted(counted: &[(u8, u64)]) -> Histogram {
        let mut histogram = Histogram::default();
        for &(bucket, more) in counted {
            if let Some(count) = histogram.counts.get_mut(usize::from(bucket)) {
                *count = count.saturating_add(more);
            }
        }
        histogram
    }
}

/// The bucket of a time in microseconds.
#[inline]
const fn bucket(us: u64) -> usize {
    let us = if us > TIME_MAX_US { TIME_MAX_US } else { us };
    if us < PARTS as u64 {
        return us as usize;
    }
    let exponent = us.ilog2() as usize;
    (exponent - 1) * PARTS + ((us >> (exponent - 2)) as usize & (PARTS - 1))
}

/// The longest time in a bucket, in microseconds.
fn last_of(index: usize) -> u64 {
    if index < PARTS {
        return index as u64;
    }
    let (exponent, part) = (index / PARTS + 1, index % PARTS);
    (((PARTS + part + 1) as u64) << (exponent - 2)) - 1
}

const _: () = assert!(BUCKETS <= 1 << 8);

#[cfg(test)]
mod tests {
    use super::*;

    /// Each bucket begins where the one before it ends, and none is wider than a quarter of its times.
    #[test]
    fn buckets_follow_each_other() {
        let mut first = 0;
        for index in 0..BUCKETS {
            let last = last_of(index);
            assert_eq!(
                (bucket(first), bucket(last)),
                (index, index),
                "{first}..={last}"
            );
            assert!((last - first) * PARTS as u64 <= first, "{first}..={last}");
            first = last + 1;
        }
        assert_eq!(first, TIME_MAX_US + 1);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_a_sorted_list_to_a_quarter() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_us(0.5), 0);
        let mut random = 1u64;
        let mut times = Vec::new();
        for _ in 0..10_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let us = (random >> 33) >> (random % 29);
            times.push(us.min(TIME_MAX_US));
            histogram.record(Spot::between(Instant(5), Instant(5 + us * 1000)), 1);
        }
        times.sort_unstable();
        for part in [0.001, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = times[(times.len() as f64 * part).ceil() as usize - 1];
            let told = histogram.quantile_us(part);
            assert!(
                told >= exact && told <= exact + exact / 4,
                "{part}: {told} for {exact}"
            );
        }
        for exponent in 2..=26 {
            let exact = times.iter().filter(|us| **us < 1 << exponent).count() as u64;
            assert_eq!(histogram.below(exponent), exact);
        }
        let mut twice = histogram.clone();
        twice.add(&histogram);
        assert_eq!(
            (twice.count(), twice.sum_us()),
            (20_000, 2 * histogram.sum_us())
        );
        assert_eq!(twice.since(&histogram), histogram);
        assert_eq!(histogram.since(&twice), Histogram::default());
    }

    #[test]
    fn what_is_told_is_what_was_counted() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.counted(), []);
        histogram.record(Spot::of(3), 2);
        histogram.record(Spot::of(TIME_MAX_US), 1);
        assert_eq!(histogram.counted(), [(3, 2), (BUCKETS as u8 - 1, 1)]);
        let told = Histogram::of_counted(&histogram.counted());
        assert_eq!((told.count(), told.quantile_us(0.5)), (3, 3));
        let none = Histogram::of_counted(&[(BUCKETS as u8, 1), (255, 1)]);
        assert_eq!(none.count(), 0);
        let many = Histogram::of_counted(&[(1, u64::MAX), (1, 1), (2, 1)]);
        assert_eq!(many.quantile_us(0.99), 1);
        let half = u64::MAX / 2 + 1;
        let most = Histogram::of_counted(&[(1, half), (2, half), (3, half)]);
        assert_eq!((most.quantile_us(0.5), most.quantile_us(1.0)), (1, 2));
    }
}
