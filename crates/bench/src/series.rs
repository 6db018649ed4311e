//! How a load went on: what happened in each moment of it.

use crate::engine::stats::LoadStats;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Shortest moment that is told: figures come from the threads ten times a second.
const MOMENT_MIN: Duration = Duration::from_millis(500);

/// A load is told in about this many moments, longer ones in a longer load.
const MOMENTS: u32 = 120;

/// What happened in a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Moment {
    /// When it ended, in seconds from the end of the warm-up.
    pub seconds: f64,
    /// Requests answered a second.
    pub requests_per_second: f64,
    /// Half of them were at most this slow, in microseconds.
    pub latency_us_p50: f64,
    /// 99 % were.
    pub latency_us_p99: f64,
    /// The slowest.
    pub latency_us_max: f64,
    /// Requests that failed.
    pub errors: u64,
}

/// Collects moments from what is published.
#[derive(Debug)]
pub struct Series {
    begun: Instant,
    last: Instant,
    length: Duration,
    gathered: LoadStats,
    moments: Vec<Moment>,
}

impl Series {
    /// Of a load that is measured from `begun` on, for so long where that is known.
    pub fn new(begun: Instant, after: Option<Duration>) -> Series {
        let length = after.map_or(MOMENT_MIN, |after| after / MOMENTS);
        Series {
            begun,
            last: begun,
            length: length.max(MOMENT_MIN),
            gathered: LoadStats::default(),
            moments: Vec::new(),
        }
    }

    /// This has come since the last call.
    pub fn add(&mut self, now: Instant, stats: &LoadStats) {
        self.gathered.add(stats);
        if now.saturating_duration_since(self.last) >= self.length {
            self.end_moment(now);
        }
    }

    fn end_moment(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.last).as_secs_f64();
        let (latency, counters) = (self.gathered.latency(), self.gathered.counters);
        let us = |nanos: u64| nanos as f64 / 1000.0;
        self.moments.push(Moment {
            seconds: now.saturating_duration_since(self.begun).as_secs_f64(),
            requests_per_second: counters.requests as f64 / seconds,
            latency_us_p50: us(latency.value_at_quantile(0.5)),
            latency_us_p99: us(latency.value_at_quantile(0.99)),
            latency_us_max: us(latency.max()),
            errors: counters.errors,
        });
        self.gathered.clear();
        self.last = now;
    }

    /// The moments, in order. What came after the last whole one is left out.
    pub fn finish(self) -> Vec<Moment> {
        self.moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_as_long_as_they_should_be() {
        let begun = Instant::now();
        let mut series = Series::new(begun, Some(Duration::from_secs(240)));
        let mut stats = LoadStats::default();
        stats.counters.requests = 100;
        stats.get_latency.record(5_000).expect("in bounds");
        for tick in 1..=16 {
            series.add(begun + tick * Duration::from_millis(250), &stats);
        }
        let moments = series.finish();
        assert_eq!(moments.len(), 2, "two seconds each");
        for (moment, seconds) in moments.iter().zip([2.0, 4.0]) {
            assert!((moment.seconds - seconds).abs() < 1e-9);
            assert!((moment.requests_per_second - 400.0).abs() < 1e-6);
            assert!((moment.latency_us_p50 - 5.0).abs() < 0.1);
        }
    }
}
