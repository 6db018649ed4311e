//! Counts of ages and delays, in a few bounds that suit leases and propagations.

use core::time::Duration;

/// Upper bounds of the counts, in microseconds: three to a power of ten would hardly tell more of
/// what is compared with a lease of 50 ms to 10 s.
pub const AGE_BOUNDS_US: [u64; 11] = [
    100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000,
];

/// One count for each bound, and one for what is above the last.
pub const AGE_COUNTS: usize = AGE_BOUNDS_US.len() + 1;

/// How many ages were how great.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    counts: [u64; AGE_COUNTS],
    sum_us: u64,
    max_us: u64,
}

impl Ages {
    /// Counts an age.
    #[inline]
    pub fn record(&mut self, age: Duration) {
        let us = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        let at = AGE_BOUNDS_US.partition_point(|&bound| bound < us);
        self.counts[at] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
        self.max_us = self.max_us.max(us);
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Ages) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        self.max_us = self.max_us.max(other.max_us);
    }

    /// What was counted since `before`, which is an earlier state of the same counts. The greatest age
    /// is that of all time.
    pub fn since(mut self, before: &Ages) -> Ages {
        for (count, less) in self.counts.iter_mut().zip(before.counts) {
            *count = count.saturating_sub(less);
        }
        self.sum_us = self.sum_us.saturating_sub(before.sum_us);
        self
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// The greatest, in microseconds; 0 without any.
    pub fn max_us(&self) -> u64 {
        self.max_us
    }

    /// Each bound in microseconds, and how many were not above it.
    pub fn within(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut sum = 0;
        AGE_BOUNDS_US
            .iter()
            .zip(self.counts)
            .map(move |(&bound, count)| {
                sum += count;
                (bound, sum)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_testkit::seed;
    use evenkeel_types::random::SplitMix64;

    #[test]
    fn counts_agree_with_a_sorted_list_and_add_up() {
        let seed = seed(0x5eed);
        let mut random = SplitMix64::new(seed);
        let (mut ages, mut all) = ([Ages::default(), Ages::default()], Vec::new());
        for i in 0..2000 {
            // All sizes, and the bounds themselves.
            let us = match random.below(4) {
                0 => AGE_BOUNDS_US[random.below(11) as usize] + random.below(3) - 1,
                _ => {
                    let bits = 1 + random.below(26);
                    random.below(1 << bits)
                }
            };
            ages[i % 2].record(Duration::from_micros(us));
            all.push(us);
        }
        let [mut sum, other] = ages;
        sum.add(&other);
        for (bound, count) in sum.within() {
            let twin = all.iter().filter(|&&us| us <= bound).count() as u64;
            assert_eq!(count, twin, "{bound} µs, seed {seed}");
        }
        assert_eq!(sum.count(), all.len() as u64);
        assert_eq!(sum.sum_us(), all.iter().sum::<u64>());
        assert_eq!(Some(sum.max_us()), all.iter().copied().max());
        assert_eq!(sum.since(&other).count(), 1000);
    }
}
