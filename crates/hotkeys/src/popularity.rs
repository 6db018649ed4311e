//! How popular a key is: requests per slot, averaged over the last four slots, and the sampling that
//! keeps this off the hot path (SPORE, sections 3.3 and 3.5).
//!
//! All counts are in *estimated requests*: a read sampled with probability p stands for 1/p reads, a
//! read of a replicated key for itself, as do those at its replicas of which clients tell, a write for minus its
//! weight. So figures taken in different ways can be added and compared.

use core::time::Duration;

use evenkeel_balance::load::cost_of;
use evenkeel_types::random::SplitMix64;

/// Length of a slot. Short enough that a key that becomes hot has its first copies within 300 ms, long enough that the
/// reads sampled of a key that matters are more than one or two.
pub const SLOT: Duration = Duration::from_millis(250);

/// Time constant of what a worker carries: two slots, as what a key is worth is mostly that of the last two. A worker whose
/// averages were slower than those of its keys would learn late that it has too much, and give away too little meanwhile.
pub(crate) const LOAD_TIME_CONSTANT: Duration = SLOT.saturating_mul(2);

/// Slot counters of a key (SPORE, section 3.3).
pub const SLOTS: usize = 4;

/// Weights of the complete slots, newest first: halves, with the rest given to the last, so that
/// they add up to one.
const WEIGHTS: [f32; SLOTS] = [0.5, 0.25, 0.125, 0.125];

/// Variance of the average of a steady key by that of a slot: the sum of the squared weights.
const AVERAGE_VARIANCE: f32 = {
    let [a, b, c, d] = WEIGHTS;
    a * a + b * b + c * c + d * d
};

/// The popularity of one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Popularity {
    /// Estimated requests, less the weight of writes, in each slot; the first is not complete.
    slots: [f32; SLOTS],
    /// Weighted mean of the slots when the first was last completed.
    average: f32,
    /// What a read adds to the load, by the values of late; 0 before the first.
    cost: f32,
}

/// Weight of the newest read in what a read costs: values of one key seldom differ much.
const COST_WEIGHT: f32 = 0.25;

impl Popularity {
    #[inline]
    pub(crate) fn add(&mut self, requests: f32) {
        self.slots[0] += requests;
    }

    /// Tells of the value of a read that is counted.
    #[inline]
    pub(crate) fn see_value(&mut self, bytes: usize) {
        let cost = cost_of(bytes) as f32;
        let weight = if self.cost == 0.0 { 1.0 } else { COST_WEIGHT };
        self.cost += weight * (cost - self.cost);
    }

    /// Completes the current slot. If nobody called for `slots` > 1 slots, what was counted is spread
    /// over them.
    pub(crate) fn roll(&mut self, slots: u64) {
        debug_assert!(slots > 0);
        let share = self.slots[0] / slots as f32;
        let spread = slots.min(SLOTS as u64) as usize;
        self.slots.copy_within(1..SLOTS + 1 - spread, spread);
        self.slots[..spread].fill(share);
        self.average = self
            .slots
            .iter()
            .zip(WEIGHTS)
            .map(|(count, weight)| count * weight)
            .sum();
        self.slots.copy_within(..SLOTS - 1, 1);
        self.slots[0] = 0.0;
    }

    /// Estimated requests per slot, less the weight of writes.
    #[inline]
    pub(crate) fn per_slot(&self) -> f64 {
        f64::from(self.average)
    }

    /// Standard error of [`per_slot`](Self::per_slot), if each read that was seen was counted as this many: by Poisson's
    /// law, of a key that has been as popular for four slots. 0 where writes outweigh reads.
    pub(crate) fn error(&self, counted_as: f64) -> f64 {
        if self.average <= 0.0 {
            return 0.0;
        }
        (f64::from(AVERAGE_VARIANCE) * self.per_slot() * counted_as).sqrt()
    }

    /// What a read adds to the load.
    pub(crate) fn cost(&self) -> f64 {
        f64::from(self.cost).max(1.0)
    }

    /// Load per slot: requests, each as many times as it costs.
    #[inline]
    pub(crate) fn load_per_slot(&self) -> f64 {
        self.per_slot() * self.cost()
    }

    /// Which counts are not zero: all that matters where thresholds and the weight of writes are.
    #[cfg(test)]
    pub(crate) fn signs(&self) -> ([bool; SLOTS], bool) {
        (self.slots.map(|count| count != 0.0), self.average != 0.0)
    }

    /// Whether nothing was counted within reach.
    pub(crate) fn is_zero(&self) -> bool {
        self.average == 0.0 && self.slots.iter().all(|&count| count == 0.0)
    }
}

/// Chooses the reads to look at, each with the same probability and independently of the others.
///
/// Instead of a random number for each read it draws how many reads to let pass, so that a read
/// costs a decrement.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    /// Reads until the next sampled one, that one included. Never 0 between calls.
    gap: u64,
    probability: f64,
    random: SplitMix64,
}

impl Sampler {
    /// A sampler that takes nothing yet.
    pub(crate) fn new(probability: f64, seed: u64) -> Self {
        Sampler {
            gap: u64::MAX,
            probability,
            random: SplitMix64::new(seed),
        }
    }

    /// Whether to look at this read.
    #[inline]
    pub(crate) fn take(&mut self) -> bool {
        self.gap -= 1;
        if self.gap != 0 {
            return false;
        }
        self.gap = self.draw();
        true
    }

    /// Counts a read that is not to be looked at. False, and not counted, when it is.
    #[inline]
    pub(crate) fn skip(&mut self) -> bool {
        let skips = self.gap > 1;
        self.gap -= u64::from(skips);
        skips
    }

    pub(crate) fn set_active(&mut self, active: bool) {
        if !active || self.probability == 0.0 {
            self.gap = u64::MAX;
        } else if self.gap > u64::MAX / 2 {
            self.gap = self.draw();
        }
    }

    /// Samples with this probability from now on.
    pub(crate) fn set_probability(&mut self, probability: f64) {
        self.probability = probability;
        if self.gap <= u64::MAX / 2 {
            // The gap that is left is as long as a new one, on average: it has no memory.
            self.gap = self.draw();
        }
    }

    pub(crate) fn probability(&self) -> f64 {
        self.probability
    }

    /// What one sampled read stands for.
    #[inline]
    pub(crate) fn weight(&self) -> f32 {
        (1.0 / self.probability) as f32
    }

    /// A geometric number, by inversion.
    fn draw(&mut self) -> u64 {
        if self.probability == 0.0 {
            return u64::MAX;
        }
        if self.probability >= 1.0 {
            return 1;
        }
        let gap = self.random.unit().ln() / (-self.probability).ln_1p();
        // Below 2^53 / probability; casts saturate.
        gap as u64 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition: a list of slots, newest first.
    fn twin(slots: &[f32]) -> f64 {
        let slot = |i: usize| f64::from(slots.get(i).copied().unwrap_or(0.0));
        slot(0) / 2.0 + slot(1) / 4.0 + slot(2) / 8.0 + slot(3) / 8.0
    }

    #[test]
    fn popularity_is_the_weighted_mean_of_the_last_four_slots() {
        let mut random = SplitMix64::new(3);
        let mut popularity = Popularity::default();
        let mut slots: Vec<f32> = Vec::new();
        for _ in 0..2000 {
            let count = random.below(1000) as f32 - 300.0;
            popularity.add(count);
            // Multiples of four can be spread over up to four slots exactly.
            let elapsed = 1 + random.below(7).saturating_sub(4);
            popularity.roll(elapsed);
            for _ in 0..elapsed {
                slots.insert(0, count / elapsed as f32);
            }
            slots.truncate(4);
            let error = (popularity.per_slot() - twin(&slots)).abs();
            assert!(error < 1e-3, "{} {slots:?}", popularity.per_slot());
        }
    }

    #[test]
    fn the_error_is_how_far_estimates_are_from_the_truth() {
        let seed = 0x5eed_0078;
        println!("seed {seed:#x}");
        let mut random = SplitMix64::new(seed);
        // This many reads in a slot, of which each is seen with that probability.
        for (reads, probability) in [(2_000, 0.001), (2_000, 0.01), (100, 0.5)] {
            let mut popularity = Popularity::default();
            let (mut squares, mut errors) = (0.0, 0.0);
            let rounds = 4_000;
            for round in 0..rounds + SLOTS {
                for _ in 0..reads {
                    if random.unit() < probability {
                        popularity.add((1.0 / probability) as f32);
                    }
                }
                popularity.roll(1);
                if round >= SLOTS {
                    squares += (popularity.per_slot() - f64::from(reads)).powi(2);
                    errors += popularity.error(1.0 / probability).powi(2);
                }
            }
            // Of reads that are not few of many, less is left to chance.
            let expected = (1.0 - probability).sqrt();
            let ratio = (squares / errors).sqrt() / expected;
            println!("{reads} {probability}: {ratio}");
            assert!((0.93..1.07).contains(&ratio), "{ratio}");
        }
        let mut written = Popularity::default();
        written.add(-9.0);
        written.roll(1);
        assert_eq!(written.error(1.0), 0.0);
    }

    #[test]
    fn a_steady_key_is_worth_its_rate_and_a_forgotten_one_nothing() {
        let mut popularity = Popularity::default();
        for _ in 0..4 {
            popularity.add(100.0);
            popularity.roll(1);
        }
        assert_eq!(popularity.per_slot(), 100.0);
        for _ in 0..3 {
            popularity.roll(1);
            assert!(popularity.per_slot() > 0.0 && !popularity.is_zero());
        }
        popularity.roll(1);
        assert!(popularity.is_zero());
    }

    #[test]
    fn a_key_with_large_values_is_more_load_than_its_requests() {
        let mut popularity = Popularity::default();
        assert_eq!(popularity.cost(), 1.0, "nothing is known");
        popularity.see_value(100 << 10);
        assert_eq!(popularity.cost(), 26.0);
        for _ in 0..4 {
            popularity.add(1000.0);
            popularity.roll(1);
        }
        assert_eq!(popularity.load_per_slot(), 26_000.0);
        for _ in 0..50 {
            popularity.see_value(0);
        }
        assert!((popularity.cost() - 1.0).abs() < 0.001, "values got small");
    }

    #[test]
    fn a_very_late_call_spreads_what_was_counted() {
        let mut popularity = Popularity::default();
        popularity.add(1000.0);
        popularity.roll(1000);
        assert_eq!(popularity.per_slot(), 1.0);
    }

    #[test]
    fn sampling_takes_the_asked_share_without_a_pattern() {
        for probability in [0.01, 0.03, 0.5, 1.0] {
            let mut sampler = Sampler::new(probability, 5);
            sampler.set_active(true);
            let total = 400_000;
            let mut taken = 0;
            let mut pairs = 0;
            let mut last = false;
            for _ in 0..total {
                let take = sampler.take();
                taken += u32::from(take);
                pairs += u32::from(take && last);
                last = take;
            }
            let share = f64::from(taken) / f64::from(total);
            assert!(
                (share / probability - 1.0).abs() < 0.05,
                "{share} for {probability}"
            );
            // Five standard deviations around what independence gives.
            let expected = f64::from(taken) * probability;
            let error = (f64::from(pairs) - expected).abs();
            assert!(
                error <= 5.0 * expected.sqrt(),
                "{pairs} pairs, not {expected}"
            );
        }
    }

    #[test]
    fn another_probability_counts_from_the_next_read_on() {
        let mut sampler = Sampler::new(0.01, 5);
        sampler.set_probability(1.0);
        assert!((0..100).all(|_| !sampler.take()), "it is not active");
        sampler.set_active(true);
        assert!((0..100).all(|_| sampler.take()));
        sampler.set_probability(0.1);
        let taken = (0..100_000).filter(|_| sampler.take()).count();
        assert!((9_500..10_500).contains(&taken), "{taken}");
        assert_eq!((sampler.probability(), sampler.weight()), (0.1, 10.0));
        sampler.set_probability(0.0);
        assert!((0..1000).all(|_| !sampler.take()));
    }

    #[test]
    fn an_inactive_sampler_takes_nothing_and_can_be_woken() {
        let mut sampler = Sampler::new(1.0, 5);
        assert!((0..1000).all(|_| !sampler.take()));
        sampler.set_active(true);
        assert!((0..1000).all(|_| sampler.take()));
        sampler.set_active(false);
        assert!(!sampler.take());
        let mut never = Sampler::new(0.0, 5);
        never.set_active(true);
        assert!((0..1000).all(|_| !never.take()));
    }
}
