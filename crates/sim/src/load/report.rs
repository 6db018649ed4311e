//! What a load came to.

use super::LoadPlan;
use crate::history::Nanos;
use core::fmt;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Counts while a load runs.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Requests answered.
    pub requests: u64,
    /// Gets.
    pub gets: u64,
    /// Gets that found something.
    pub hits: u64,
    /// Reads of copies.
    pub replica_reads: u64,
    /// What each worker served.
    pub served: Vec<u64>,
    /// How long each request took, in nanoseconds.
    pub latency: Histogram<u64>,
}

/// Longest latency that is told apart: ten virtual minutes.
const LATENCY_MAX: Nanos = 600_000_000_000;

impl Tally {
    /// Nothing yet.
    pub fn new(workers: usize) -> Self {
        let latency = Histogram::new_with_bounds(1, LATENCY_MAX, 3);
        Tally {
            requests: 0,
            gets: 0,
            hits: 0,
            replica_reads: 0,
            served: vec![0; workers],
            latency: latency.expect("sound bounds"),
        }
    }

    /// A request was answered after so long.
    #[inline]
    pub fn answered(&mut self, took: Nanos) {
        self.requests += 1;
        self.latency.saturating_record(took);
    }

    /// From here on it is measured.
    pub fn reset(&mut self) {
        *self = Tally::new(self.served.len());
    }
}

/// What a load came to.
#[derive(Clone, Debug, Serialize)]
pub struct LoadReport {
    /// Requests that were measured.
    pub requests: u64,
    /// Requests simulated, those of the warm-up included.
    pub requests_simulated: u64,
    /// Requests a virtual second.
    pub requests_per_second: f64,
    /// Gets that found something, of all.
    pub hit_ratio: f64,
    /// Reads of copies, of all requests.
    pub replica_read_share: f64,
    /// The most loaded worker's load by the mean.
    pub load_max_over_mean: f64,
    /// Each worker's part of all requests.
    pub worker_shares: Vec<f64>,
    /// Percentiles, in microseconds.
    pub latency_us_p50: f64,
    /// 90 % took at most this.
    pub latency_us_p90: f64,
    /// 99 % did.
    pub latency_us_p99: f64,
    /// 99.9 % did.
    pub latency_us_p99_9: f64,
    /// Seconds that the simulation took.
    pub elapsed_seconds: f64,
}

impl LoadReport {
    pub(super) fn new(plan: &LoadPlan, tally: &Tally, simulated: u64, elapsed: f64) -> Self {
        let served: u64 = tally.served.iter().sum();
        let part = |count: u64, of: u64| count as f64 / of.max(1) as f64;
        let worker_shares: Vec<f64> = tally.served.iter().map(|&n| part(n, served)).collect();
        let most = worker_shares.iter().copied().fold(0.0, f64::max);
        let us = |share: f64| tally.latency.value_at_quantile(share) as f64 / 1000.0;
        LoadReport {
            requests: tally.requests,
            requests_simulated: simulated,
            requests_per_second: tally.requests as f64 * 1e9 / plan.length as f64,
            hit_ratio: part(tally.hits, tally.gets),
            replica_read_share: part(tally.replica_reads, served),
            load_max_over_mean: most * worker_shares.len() as f64,
            worker_shares,
            latency_us_p50: us(0.5),
            latency_us_p90: us(0.9),
            latency_us_p99: us(0.99),
            latency_us_p99_9: us(0.999),
            elapsed_seconds: elapsed,
        }
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: String| writeln!(f, "{name:<28} {value}");
        line(
            "requests a virtual second",
            format!("{:.0}", self.requests_per_second),
        )?;
        line("hit ratio", format!("{:.4}", self.hit_ratio))?;
        line("reads of copies", format!("{:.4}", self.replica_read_share))?;
        line(
            "most loaded worker / mean",
            format!("{:.3}", self.load_max_over_mean),
        )?;
        line("latency p50", format!("{:.1} us", self.latency_us_p50))?;
        line("latency p90", format!("{:.1} us", self.latency_us_p90))?;
        line("latency p99", format!("{:.1} us", self.latency_us_p99))?;
        line("latency p99.9", format!("{:.1} us", self.latency_us_p99_9))?;
        write!(
            f,
            "{} requests simulated in {:.2} s, {:.2} million a second",
            self.requests_simulated,
            self.elapsed_seconds,
            self.requests_simulated as f64 / self.elapsed_seconds.max(1e-9) / 1e6
        )
    }
}
