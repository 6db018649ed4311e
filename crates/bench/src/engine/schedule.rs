//! When the next request of an open loop is due.

use crate::Pace;
use evenkeel_workload::rng::{self, WorkloadRng};

/// Streams of arrivals are numbered apart from those of keys.
const ARRIVAL_STREAM: u64 = 1 << 32;

const NS_PER_S: f64 = 1e9;

/// The due times of one thread, in nanoseconds from the start of the load. They depend on nothing
/// that the server does.
#[derive(Debug)]
pub(crate) struct Schedule {
    next_ns: f64,
    mean_gap_ns: f64,
    /// `None`: equal distances.
    arrivals: Option<WorkloadRng>,
}

impl Schedule {
    /// The schedule of thread `thread` of `threads`; `None` in a closed loop. Threads with equal
    /// distances are staggered, so that together they are at equal distances too.
    pub(crate) fn new(pace: Pace, thread: usize, threads: usize, seed: u64) -> Option<Self> {
        let (per_second, arrivals) = match pace {
            Pace::Closed => return None,
            Pace::Fixed { per_second } => (per_second, None),
            Pace::Poisson { per_second } => (
                per_second,
                Some(rng::stream(seed, ARRIVAL_STREAM + thread as u64)),
            ),
        };
        let mean_gap_ns = NS_PER_S * threads as f64 / per_second;
        let mut schedule = Schedule {
            next_ns: 0.0,
            mean_gap_ns,
            arrivals,
        };
        if schedule.arrivals.is_some() {
            schedule.advance();
        } else {
            schedule.next_ns = mean_gap_ns * thread as f64 / threads as f64;
        }
        Some(schedule)
    }

    /// When the next request is due.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }

    /// Goes on to the request after.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.next_ns += match &mut self.arrivals {
            None => self.mean_gap_ns,
            // 1 - u is never 0.
            Some(rng) => -(1.0 - rng::unit(rng)).ln() * self.mean_gap_ns,
        };
    }

    /// How many requests are due up to `end_ns`, forgetting them.
    pub(crate) fn drain_until(&mut self, end_ns: u64) -> u64 {
        let mut due = 0;
        while self.next_ns() <= end_ns {
            self.advance();
            due += 1;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn equal_distances_interleave_over_threads() {
        let mut due = Vec::new();
        for thread in 0..4 {
            let pace = Pace::Fixed { per_second: 1000.0 };
            let mut schedule = Schedule::new(pace, thread, 4, 0).unwrap();
            while schedule.next_ns() < SECOND {
                due.push(schedule.next_ns());
                schedule.advance();
            }
        }
        due.sort_unstable();
        assert_eq!(due.len(), 1000);
        assert!(due.windows(2).all(|pair| pair[1] - pair[0] == 1_000_000));
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread_of_a_poisson_process() {
        let seed = 4;
        println!("seed {seed}");
        let pace = Pace::Poisson {
            per_second: 10_000.0,
        };
        let mut schedule = Schedule::new(pace, 1, 2, seed).unwrap();
        // One of two threads: 5000 a second. Counts of a Poisson process have variance = mean.
        let counts: Vec<f64> = (1..=400)
            .map(|n| schedule.drain_until(n * SECOND / 100) as f64)
            .collect();
        let mean = counts.iter().sum::<f64>() / 400.0;
        let variance = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 399.0;
        assert!((48.5..51.5).contains(&mean), "{mean}");
        assert!((37.0..65.0).contains(&variance), "{variance}");
    }

    #[test]
    fn a_closed_loop_has_no_schedule() {
        assert!(Schedule::new(Pace::Closed, 0, 1, 0).is_none());
    }
}
