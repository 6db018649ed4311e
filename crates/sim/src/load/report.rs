//! What a load came to.

use super::LoadPlan;
use crate::history::Nanos;
use core::fmt;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Counts while a load runs, of what happens in the time that is measured.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    /// When that time begins.
    from: Nanos,
    /// How long it is.
    length: Nanos,
    /// Gets that found something.
    hits: u64,
    /// Requests that were answered with errors.
    errors: u64,
    /// Reads of copies.
    pub replica_reads: u64,
    /// Keys that each worker served.
    pub served: Vec<u64>,
    /// How long reads took, in nanoseconds.
    reads: Histogram<u64>,
    /// How long writes took, in nanoseconds.
    writes: Histogram<u64>,
}

/// Longest latency that is told apart: ten virtual minutes.
const LATENCY_MAX: Nanos = 600_000_000_000;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A get that found something.
    Hit,
    /// A get that found nothing.
    Miss,
    /// A set that was carried out.
    Stored,
    /// A get whose answer is an error.
    FailedGet,
    /// A set whose answer is an error.
    FailedSet,
}

impl Tally {
    /// Nothing yet, and nothing until it is said when it is measured.
    pub fn new(workers: usize) -> Self {
        let none = Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("sound bounds");
        Tally {
            from: 0,
            length: 0,
            hits: 0,
            errors: 0,
            replica_reads: 0,
            served: vec![0; workers],
            reads: none.clone(),
            writes: none,
        }
    }

    /// It is measured from a time on, for so long.
    pub fn measure(&mut self, from: Nanos, length: Nanos) {
        (self.from, self.length) = (from, length);
    }

    /// Whether a time is within what is measured.
    #[inline]
    pub fn measures(&self, at: Nanos) -> bool {
        at.wrapping_sub(self.from) < self.length
    }

    /// A request was answered at a time, after so long.
    #[inline]
    pub fn answered(&mut self, at: Nanos, took: Nanos, outcome: Outcome) {
        if !self.measures(at) {
            return;
        }
        self.hits += u64::from(outcome == Outcome::Hit);
        self.errors += u64::from(matches!(outcome, Outcome::FailedGet | Outcome::FailedSet));
        let latency = match outcome {
            Outcome::Hit | Outcome::Miss | Outcome::FailedGet => &mut self.reads,
            Outcome::Stored | Outcome::FailedSet => &mut self.writes,
        };
        latency.saturating_record(took);
    }
}

/// Percentiles of a latency, in microseconds; 0 where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencyUs {
    /// Mean of all.
    pub mean: f64,
    /// Half took at most this.
    pub p50: f64,
    /// 90 % did.
    pub p90: f64,
    /// 95 % did.
    pub p95: f64,
    /// 99 % did.
    pub p99: f64,
    /// 99.9 % did.
    pub p99_9: f64,
    /// 99.99 % did.
    pub p99_99: f64,
    /// All did.
    pub max: f64,
}

impl LatencyUs {
    fn of(nanos: &Histogram<u64>) -> Self {
        let us = |share: f64| nanos.value_at_quantile(share) as f64 / 1000.0;
        LatencyUs {
            mean: nanos.mean() / 1000.0,
            p50: us(0.5),
            p90: us(0.9),
            p95: us(0.95),
            p99: us(0.99),
            p99_9: us(0.999),
            p99_99: us(0.9999),
            max: nanos.max() as f64 / 1000.0,
        }
    }
}

/// What a load came to: everything but `simulated` and `elapsed_seconds` is of the time that was
/// measured.
#[derive(Clone, Debug, Serialize)]
pub struct LoadReport {
    /// Requests that were answered.
    pub requests: u64,
    /// Requests simulated, those of the warm-up included.
    pub requests_simulated: u64,
    /// Requests a virtual second.
    pub requests_per_second: f64,
    /// Gets that were answered.
    pub reads: u64,
    /// Sets that were answered, those after misses included.
    pub writes: u64,
    /// Requests that were answered with errors.
    pub errors: u64,
    /// Gets that found something, of all.
    pub hit_ratio: f64,
    /// Reads of copies, of all keys served.
    pub replica_read_share: f64,
    /// The most loaded worker's load by the mean.
    pub load_max_over_mean: f64,
    /// Keys that each worker served a virtual second, those that it served as a copy and the stores
    /// of copies included. Workers of one server follow each other.
    pub worker_keys_per_second: Vec<f64>,
    /// How long requests took.
    pub latency_us: LatencyUs,
    /// How long gets took.
    pub read_latency_us: LatencyUs,
    /// How long sets took.
    pub write_latency_us: LatencyUs,
    /// Seconds that the simulation took.
    pub elapsed_seconds: f64,
}

impl LoadReport {
    pub(super) fn new(plan: &LoadPlan, tally: &Tally, simulated: u64, elapsed: f64) -> Self {
        let part = |count: u64, of: u64| count as f64 / of.max(1) as f64;
        let a_second = |count: u64| count as f64 * 1e9 / plan.length as f64;
        let served: u64 = tally.served.iter().sum();
        let most = tally.served.iter().max().copied().unwrap_or(0);
        let mut all = tally.reads.clone();
        all.add(&tally.writes).expect("they have the same bounds");
        LoadReport {
            requests: all.len(),
            requests_simulated: simulated,
            requests_per_second: a_second(all.len()),
            reads: tally.reads.len(),
            writes: tally.writes.len(),
            errors: tally.errors,
            hit_ratio: part(tally.hits, tally.reads.len()),
            replica_read_share: part(tally.replica_reads, served),
            load_max_over_mean: part(most * tally.served.len() as u64, served),
            worker_keys_per_second: tally.served.iter().map(|&n| a_second(n)).collect(),
            latency_us: LatencyUs::of(&all),
            read_latency_us: LatencyUs::of(&tally.reads),
            write_latency_us: LatencyUs::of(&tally.writes),
            elapsed_seconds: elapsed,
        }
    }

    /// Each worker's part of all keys served.
    pub fn worker_shares(&self) -> Vec<f64> {
        let sum: f64 = self.worker_keys_per_second.iter().sum();
        let share = |rate: &f64| if sum > 0.0 { rate / sum } else { 0.0 };
        self.worker_keys_per_second.iter().map(share).collect()
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: String| writeln!(f, "{name:<28} {value}");
        line(
            "requests a virtual second",
            format!("{:.0}", self.requests_per_second),
        )?;
        line("errors", self.errors.to_string())?;
        line("hit ratio", format!("{:.4}", self.hit_ratio))?;
        line("reads of copies", format!("{:.4}", self.replica_read_share))?;
        line(
            "most loaded worker / mean",
            format!("{:.3}", self.load_max_over_mean),
        )?;
        writeln!(
            f,
            "{:<28} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "latency, us", "p50", "p90", "p95", "p99", "p99.9"
        )?;
        for (name, of) in [
            ("  all", self.latency_us),
            ("  reads", self.read_latency_us),
            ("  writes", self.write_latency_us),
        ] {
            writeln!(
                f,
                "{name:<28} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>10.1}",
                of.p50, of.p90, of.p95, of.p99, of.p99_9
            )?;
        }
        write!(
            f,
            "{} requests simulated in {:.2} s, {:.2} million a second",
            self.requests_simulated,
            self.elapsed_seconds,
            self.requests_simulated as f64 / self.elapsed_seconds.max(1e-9) / 1e6
        )
    }
}
