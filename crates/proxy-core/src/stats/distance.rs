//! How far away a server is: the shortest time that it took to answer lately.
//!
//! Any answer counts, as memcached answers all but the largest as fast as `version`. What the kernel measures of a connection would end
//! at the first relay on the way.

use core::time::Duration;
use evenkeel_types::Instant;

/// Seconds of half a memory: what is older than two of them is forgotten.
const HALF_S: u64 = 30;

/// The shortest of the last half minute to minute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Distance {
    /// Which half minute is the present one.
    half: u64,
    /// Microseconds of the half minute before, and of the present one; the most if there was none.
    shortest: [u32; 2],
}

const NONE: u32 = u32::MAX;

impl Default for Distance {
    fn default() -> Self {
        Distance {
            half: 0,
            shortest: [NONE; 2],
        }
    }
}

impl Distance {
    /// It has answered.
    pub fn see(&mut self, now: Instant, took: Duration) {
        *self = self.at(now);
        let us = u32::try_from(took.as_micros()).unwrap_or(NONE);
        self.shortest[1] = self.shortest[1].min(us);
    }

    /// Microseconds; `None` if it has answered nothing lately.
    pub fn us(&self, now: Instant) -> Option<u64> {
        let [before, present] = self.at(now).shortest;
        let shortest = before.min(present);
        (shortest != NONE).then_some(shortest.into())
    }

    fn at(&self, now: Instant) -> Distance {
        let half = now.as_secs() / HALF_S;
        let [_, present] = self.shortest;
        let shortest = match half.saturating_sub(self.half) {
            0 => return *self,
            1 => [present, NONE],
            _ => [NONE; 2],
        };
        Distance { half, shortest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_types::random::SplitMix64;

    #[test]
    fn it_is_the_shortest_of_half_a_minute_to_a_minute() {
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
                distance.see(now, Duration::from_micros(us));
                all.push((second, us));
            }
            let from = (second / HALF_S).saturating_sub(1) * HALF_S;
            let lately = all.iter().filter(|(at, _)| *at >= from);
            let shortest = lately.map(|(_, us)| *us).min();
            assert_eq!(distance.us(now), shortest, "second {second}");
        }
    }
}
