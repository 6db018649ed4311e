//! What a load came to.

use super::BalancingCounts;
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
    /// Copies that there are in the end.
    pub replicas: u64,
    /// Keys that each worker served.
    pub served: Vec<u64>,
    /// How long reads took.
    reads: Latencies,
    /// How long writes took.
    writes: Latencies,
    /// The same for all of them from moment to moment, if that is wanted.
    pub timeline: Option<Timeline>,
}

/// Longest latency that is told apart, in nanoseconds: ten virtual minutes.
const LATENCY_MAX: Nanos = 600_000_000_000;

/// Latencies are told apart to one part in 2 to the power of this many.
const PRECISION_BITS: u32 = 10;

/// The same where there are many counts, of moments.
const MOMENT_BITS: u32 = 6;

/// Counts of latencies. Becomes a [`Histogram`] in the end; to count into one takes five times as many
/// instructions, of which a request of the fast mode has few.
#[derive(Clone, Debug)]
struct Latencies<const BITS: u32 = PRECISION_BITS> {
    counts: Vec<u64>,
}

impl<const BITS: u32> Latencies<BITS> {
    fn new() -> Self {
        Latencies {
            counts: vec![0; Self::place(LATENCY_MAX) + 1],
        }
    }

    /// Where a latency is counted: by its highest bits.
    #[inline]
    fn place(nanos: Nanos) -> usize {
        let low_bits = (nanos | 1 << BITS).ilog2() - BITS;
        ((low_bits as usize) << BITS) + (nanos >> low_bits) as usize
    }

    /// The least latency that is counted there.
    fn least(place: usize) -> Nanos {
        let low_bits = (place >> BITS).saturating_sub(1);
        let high = place - (low_bits << BITS);
        (high as Nanos) << low_bits
    }

    #[inline]
    fn record(&mut self, nanos: Nanos) {
        self.counts[Self::place(nanos.min(LATENCY_MAX))] += 1;
    }

    fn histogram(&self) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("sound bounds");
        for (place, &count) in self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            histogram.saturating_record_n(Self::least(place), count);
        }
        histogram
    }
}

/// Latencies of what was answered from moment to moment.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    step: Nanos,
    moments: Vec<Latencies<MOMENT_BITS>>,
}

impl Timeline {
    /// This many moments of this length.
    pub fn new(step: Nanos, moments: usize) -> Self {
        Timeline {
            step,
            moments: vec![Latencies::new(); moments],
        }
    }

    fn record(&mut self, at: Nanos, took: Nanos) {
        if let Some(moment) = self.moments.get_mut((at / self.step) as usize) {
            moment.record(took);
        }
    }

    /// What of the requests that were answered in a moment were at most, in this part of them.
    pub fn latency_us(&self, moment: usize, share: f64) -> f64 {
        self.moments[moment].histogram().value_at_quantile(share) as f64 / 1000.0
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A get that found something.
    Hit,
    /// A get that found nothing.
    Miss,
    /// A set that was executed.
    Stored,
    /// A get whose answer is an error.
    FailedGet,
    /// A set whose answer is an error.
    FailedSet,
}

impl Tally {
    /// Nothing yet, and nothing until it is said when it is measured.
    pub fn new(workers: usize) -> Self {
        Tally {
            from: 0,
            length: 0,
            hits: 0,
            errors: 0,
            replica_reads: 0,
            replicas: 0,
            served: vec![0; workers],
            reads: Latencies::new(),
            writes: Latencies::new(),
            timeline: None,
        }
    }

    /// It is measured from a time on, for this long.
    pub fn measure(&mut self, from: Nanos, length: Nanos) {
        (self.from, self.length) = (from, length);
    }

    /// Whether a time is within what is measured.
    #[inline]
    pub fn measures(&self, at: Nanos) -> bool {
        at.wrapping_sub(self.from) < self.length
    }

    /// A request was answered at a time, after this long.
    #[inline]
    pub fn answered(&mut self, at: Nanos, took: Nanos, outcome: Outcome) {
        if let Some(timeline) = &mut self.timeline {
            timeline.record(at, took);
        }
        if !self.measures(at) {
            return;
        }
        self.hits += u64::from(outcome == Outcome::Hit);
        self.errors += u64::from(matches!(outcome, Outcome::FailedGet | Outcome::FailedSet));
        let latency = match outcome {
            Outcome::Hit | Outcome::Miss | Outcome::FailedGet => &mut self.reads,
            Outcome::Stored | Outcome::FailedSet => &mut self.writes,
        };
        latency.record(took);
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
    /// Requests a virtual second that were answered without an error.
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
    /// Copies in the end, those at homes not counted.
    pub replicas: u64,
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
    /// What was done to even out the load, from the beginning on: before it was measured, too. The whole mode does
    /// not tell.
    #[serde(rename = "deeds")]
    pub balancing: Option<BalancingCounts>,
    /// Seconds that the simulation took.
    pub elapsed_seconds: f64,
}

impl LoadReport {
    pub(super) fn new(
        length: Nanos,
        tally: &Tally,
        simulated: u64,
        elapsed: f64,
        balancing: Option<BalancingCounts>,
    ) -> Self {
        let part = |count: u64, of: u64| count as f64 / of.max(1) as f64;
        let a_second = |count: u64| count as f64 * 1e9 / length as f64;
        let served: u64 = tally.served.iter().sum();
        let most = tally.served.iter().max().copied().unwrap_or(0);
        let [reads, writes] = [&tally.reads, &tally.writes].map(Latencies::histogram);
        let mut all = reads.clone();
        all.add(&writes).expect("they have the same bounds");
        LoadReport {
            requests: all.len(),
            requests_simulated: simulated,
            requests_per_second: a_second(all.len() - tally.errors),
            reads: reads.len(),
            writes: writes.len(),
            errors: tally.errors,
            hit_ratio: part(tally.hits, reads.len()),
            replica_read_share: part(tally.replica_reads, served),
            replicas: tally.replicas,
            load_max_over_mean: part(most * tally.served.len() as u64, served),
            worker_keys_per_second: tally.served.iter().map(|&n| a_second(n)).collect(),
            latency_us: LatencyUs::of(&all),
            read_latency_us: LatencyUs::of(&reads),
            write_latency_us: LatencyUs::of(&writes),
            balancing,
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
        line("errors", self.errors.to_string())?;
        line("hit ratio", format!("{:.4}", self.hit_ratio))?;
        line("reads of copies", format!("{:.4}", self.replica_read_share))?;
        line("copies in the end", self.replicas.to_string())?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Twin: the histogram itself.
    #[test]
    fn latencies_are_counted_where_they_belong() {
        let near = |nanos: Nanos| [nanos.saturating_sub(1), nanos, nanos + 1];
        let powers = (0..40).flat_map(|bit| near(1 << bit));
        let all: Vec<Nanos> = powers.chain((0..5_000).map(|i| i * 120_000_007)).collect();
        let mut counted = Latencies::<PRECISION_BITS>::new();
        let mut exact = Histogram::<u64>::new_with_bounds(1, LATENCY_MAX, 3).unwrap();
        let mut last = 0;
        for &nanos in &all {
            counted.record(nanos);
            exact.saturating_record(nanos);
            let place = Latencies::<PRECISION_BITS>::place(nanos);
            let least = Latencies::<PRECISION_BITS>::least(place);
            assert!(
                least <= nanos && nanos - least <= nanos >> PRECISION_BITS,
                "{nanos}"
            );
            assert!(
                Latencies::<PRECISION_BITS>::least(place + 1) > nanos,
                "{nanos}"
            );
            last = last.max(place);
        }
        assert!(last < counted.counts.len());
        let counted = counted.histogram();
        assert_eq!(counted.len(), all.len() as u64);
        for share in [0.01, 0.25, 0.5, 0.9, 0.99, 1.0] {
            let [one, other] = [&counted, &exact].map(|h| h.value_at_quantile(share) as f64);
            assert!(
                (one / other - 1.0).abs() < 0.003,
                "{share}: {one} and {other}"
            );
        }
    }
}
