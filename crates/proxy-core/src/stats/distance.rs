//! How far away a server is: the shortest time that it took to answer lately.
//!
//! Any answer counts, as memcached answers all but the largest as fast as `version`. What the kernel measures of a connection would end
//! at the first relay on the way.

use evenkeel_types::Instant;

/// Half of the memory is 2^35 ns, 34 s: a shift tells it from the next, for this is looked at with each answer. What is older than two halves is
/// forgotten.
const HALF_BITS: u32 = 35;

/// The shortest of the last 34 to 69 seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Distance {
    /// Which half is the present one.
    half: u64,
    /// Nanoseconds in the half before, and in the present one; the most if there was no answer.
    shortest: [u64; 2],
}

const NONE: u64 = u64::MAX;

impl Default for Distance {
    fn default() -> Self {
        Distance {
            half: 0,
            shortest: [NONE; 2],
        }
    }
}

impl Distance {
    /// It has answered now what was written then.
    #[inline]
    pub fn see(&mut self, written: Instant, now: Instant) {
        if now.0 >> HALF_BITS != self.half {
            self.shortest = self.shortest_at(now);
            self.half = now.0 >> HALF_BITS;
        }
        let [_, present] = &mut self.shortest;
        *present = (*present).min(now.0.saturating_sub(written.0));
    }

    /// Microseconds; `None` if it has answered nothing lately.
    pub fn us(&self, now: Instant) -> Option<u64> {
        let [before, present] = self.shortest_at(now);
        let shortest = before.min(present);
        (shortest != NONE).then_some(shortest / 1000)
    }

    fn shortest_at(&self, now: Instant) -> [u64; 2] {
        match (now.0 >> HALF_BITS).saturating_sub(self.half) {
            0 => self.shortest,
            1 => [self.shortest[1], NONE],
            _ => [NONE; 2],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_types::random::SplitMix64;

    #[test]
    fn it_is_the_shortest_of_the_present_half_and_the_one_before() {
        let mut random = SplitMix64::new(39);
        let mut distance = Distance::default();
        let mut all: Vec<(u64, u64)> = Vec::new();
        let mut second = 0;
        assert_eq!(distance.us(Instant(0)), None);
        for _ in 0..10_000 {
            second += random.below(20) * random.below(2);
            let now = Instant::from_millis(second * 1000);
            if random.below(3) > 0 {
                let us = random.below(1000);
                distance.see(Instant(now.0.saturating_sub(us * 1000)), now);
                // At the very beginning nothing was written before.
                all.push((now.0, us.min(now.0 / 1000)));
            }
            let from = (now.0 >> HALF_BITS).saturating_sub(1) << HALF_BITS;
            let lately = all.iter().filter(|(at, _)| *at >= from);
            let shortest = lately.map(|(_, us)| *us).min();
            assert_eq!(distance.us(now), shortest, "second {second}");
        }
    }
}
