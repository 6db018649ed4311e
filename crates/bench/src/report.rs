//! What a run found out, as a table and as JSON.

use crate::LoadArgs;
use crate::driver::Finished;
use crate::engine::stats::Counters;
use crate::plot::{Axis, Curve, Plot, write_plots};
use crate::series::Moment;
use crate::table::framed;
use evenkeel_workload::{Operation, WorkloadSpec};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::path::Path;

/// Above this share of its processor time the generator may be what limits the throughput.
pub(crate) const GENERATOR_BUSY_SHARE: f64 = 0.9;

/// Result of a whole run.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// What was asked for.
    pub settings: Settings,
    /// Each target in the order given.
    pub targets: Vec<TargetReport>,
    /// Each further target against the first.
    pub ratios: Vec<Ratios>,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// Threads of the generator.
    pub threads: usize,
    /// Connections of each thread.
    pub connections_per_thread: usize,
    /// Requests in flight on each connection.
    pub pipeline: usize,
    /// `classic` or `meta`.
    pub protocol: String,
    /// The workload in words, or nothing with a trace.
    pub workload: Option<String>,
    /// Keys of each get.
    pub multiget: String,
    /// The law of popularity, or nothing with a trace.
    pub popularity: Option<String>,
    /// Number of keys, or nothing with a trace.
    pub keys: Option<u64>,
    /// Share of gets, or nothing with a trace.
    pub get_share: Option<f64>,
    /// Length of keys in bytes: a number, a range or a distribution; or nothing with a trace.
    pub key_size_bytes: Option<String>,
    /// Size of values in bytes: a number, a range or a distribution.
    pub value_size_bytes: String,
    /// The trace, or nothing.
    pub trace: Option<String>,
    /// Requests a second of an open loop on average, or nothing in a closed loop.
    pub rate_per_second: Option<f64>,
    /// Whether the requests were drawn and encoded before each measurement and sent round and round.
    pub prepared: bool,
    /// Rounds.
    pub rounds: usize,
    /// Seed.
    pub seed: u64,
}

/// One target's measurements.
#[derive(Clone, Debug, Serialize)]
pub struct TargetReport {
    /// Its address as given, or its name.
    pub target: String,
    /// Each round.
    pub rounds: Vec<RoundReport>,
    /// The middle of the rounds.
    pub medians: Medians,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct RoundReport {
    /// From 1.
    pub round: usize,
    /// From the end of the warm-up to the last answer, the longest of all threads.
    pub seconds: f64,
    /// Requests answered a second; a get of many keys is one request.
    pub requests_per_second: f64,
    /// Keys read and written a second.
    pub keys_per_second: f64,
    /// Keys found of keys asked for.
    pub hit_ratio: f64,
    /// How often what happened.
    #[serde(flatten)]
    pub counters: Counters,
    /// Latency of all requests.
    #[serde(flatten)]
    pub latency: Latency,
    /// Latency of gets.
    pub get: Latency,
    /// Latency of sets.
    pub set: Latency,
    /// How late the generator sent requests of a schedule, 99th percentile; 0 in a closed loop.
    pub send_lag_us_p99: f64,
    /// Processor time of the generator's threads by their elapsed time.
    pub generator_cpu_share: f64,
    /// The first error in words.
    pub first_error: Option<String>,
    /// How it went on. Empty where nobody watched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Moment>,
}

/// Percentiles of latency, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub latency_us_mean: f64,
    /// Half of the requests were at most this slow.
    pub latency_us_p50: f64,
    /// 90 % were.
    pub latency_us_p90: f64,
    /// 95 % were.
    pub latency_us_p95: f64,
    /// 99 % were.
    pub latency_us_p99: f64,
    /// 99.9 % were.
    pub latency_us_p99_9: f64,
    /// 99.99 % were.
    pub latency_us_p99_99: f64,
    /// The slowest.
    pub latency_us_max: f64,
}

/// Medians over a target's rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Medians {
    /// Throughput.
    pub requests_per_second: f64,
    /// Median latency.
    pub latency_us_p50: f64,
    /// 99th percentile.
    pub latency_us_p99: f64,
    /// 99.9th percentile.
    pub latency_us_p99_9: f64,
}

/// Medians over the rounds, divided by those of the first target: above 1 is more. Rounds of the two took turns, so
/// that each round has a ratio of its own, too: the spread says how far the machine was still.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratios {
    /// The target.
    pub target: String,
    /// The first target.
    pub baseline: String,
    /// Ratio of throughputs.
    pub requests_per_second: f64,
    /// The lowest and the highest of the rounds' ratios of throughputs.
    pub requests_per_second_spread: [f64; 2],
    /// Ratio of median latencies.
    pub latency_us_p50: f64,
    /// Ratio of 99th percentiles.
    pub latency_us_p99: f64,
    /// The lowest and the highest of the rounds' ratios of 99th percentiles.
    pub latency_us_p99_spread: [f64; 2],
    /// Ratio of 99.9th percentiles.
    pub latency_us_p99_9: f64,
}

impl Latency {
    /// Of latencies in nanoseconds; zeros of none.
    pub fn new(histogram: &Histogram<u64>) -> Self {
        let us = |share: f64| histogram.value_at_quantile(share) as f64 / 1000.0;
        if histogram.is_empty() {
            return Latency::default();
        }
        Latency {
            latency_us_mean: histogram.mean() / 1000.0,
            latency_us_p50: us(0.5),
            latency_us_p90: us(0.9),
            latency_us_p95: us(0.95),
            latency_us_p99: us(0.99),
            latency_us_p99_9: us(0.999),
            latency_us_p99_99: us(0.9999),
            latency_us_max: histogram.max() as f64 / 1000.0,
        }
    }
}

impl RoundReport {
    pub(crate) fn new(round: usize, threads: usize, finished: &Finished) -> Self {
        let counters = finished.stats.counters;
        let elapsed = finished.outcomes.iter().map(|outcome| outcome.elapsed);
        let seconds = elapsed.max().unwrap_or_default().as_secs_f64();
        let cpu: f64 = finished
            .outcomes
            .iter()
            .map(|outcome| outcome.cpu.as_secs_f64())
            .sum();
        let per_second = |count: u64| {
            if seconds > 0.0 {
                count as f64 / seconds
            } else {
                0.0
            }
        };
        RoundReport {
            round,
            seconds,
            requests_per_second: per_second(counters.requests),
            keys_per_second: per_second(counters.gets + counters.sets),
            hit_ratio: counters.hit_ratio(),
            counters,
            latency: Latency::new(&finished.stats.latency()),
            get: Latency::new(&finished.stats.get_latency),
            set: Latency::new(&finished.stats.set_latency),
            send_lag_us_p99: finished.stats.send_lag.value_at_quantile(0.99) as f64 / 1000.0,
            generator_cpu_share: if seconds > 0.0 {
                cpu / (seconds * threads as f64)
            } else {
                0.0
            },
            first_error: finished.stats.first_error.clone(),
            series: Vec::new(),
        }
    }
}

impl TargetReport {
    pub(crate) fn new(target: String, rounds: Vec<RoundReport>) -> Self {
        let median = |figure: fn(&RoundReport) -> f64| median(rounds.iter().map(figure).collect());
        let medians = Medians {
            requests_per_second: median(|round| round.requests_per_second),
            latency_us_p50: median(|round| round.latency.latency_us_p50),
            latency_us_p99: median(|round| round.latency.latency_us_p99),
            latency_us_p99_9: median(|round| round.latency.latency_us_p99_9),
        };
        TargetReport {
            target,
            rounds,
            medians,
        }
    }
}

impl TargetReport {
    /// Latencies over how many requests there are for each slower one.
    fn percentiles(&self) -> Curve {
        type Figure = fn(&Latency) -> f64;
        let figures: [(f64, Figure); 6] = [
            (2.0, |latency| latency.latency_us_p50),
            (10.0, |latency| latency.latency_us_p90),
            (20.0, |latency| latency.latency_us_p95),
            (100.0, |latency| latency.latency_us_p99),
            (1_000.0, |latency| latency.latency_us_p99_9),
            (10_000.0, |latency| latency.latency_us_p99_99),
        ];
        let middle = |figure: fn(&Latency) -> f64| {
            median(
                self.rounds
                    .iter()
                    .map(|round| figure(&round.latency))
                    .collect(),
            )
        };
        Curve {
            label: self.target.clone(),
            points: figures
                .map(|(one_in, figure)| (one_in, middle(figure)))
                .into_iter()
                .filter(|point| point.1 > 0.0)
                .collect(),
        }
    }
}

/// The middle number, or the mean of the two in the middle; 0 of none.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => 0.0,
        len if len % 2 == 1 => numbers[middle],
        _ => (numbers[middle - 1] + numbers[middle]) / 2.0,
    }
}

impl RunReport {
    pub(crate) fn new(args: &LoadArgs, spec: &WorkloadSpec, targets: Vec<TargetReport>) -> Self {
        let generated = args.trace.is_none();
        let ratios = match targets.split_first() {
            None => Vec::new(),
            Some((baseline, others)) => others
                .iter()
                .map(|target| Ratios::new(target, baseline))
                .collect(),
        };
        RunReport {
            settings: Settings {
                threads: args.traffic.threads,
                connections_per_thread: args.traffic.connections,
                pipeline: args.traffic.pipeline,
                protocol: args.traffic.protocol.to_string(),
                workload: generated.then(|| spec.to_string()),
                multiget: spec.multiget.to_string(),
                popularity: generated.then(|| spec.popularity.to_string()),
                keys: generated.then(|| spec.keys()),
                get_share: generated.then(|| spec.mix.share(Operation::Get)),
                key_size_bytes: generated.then(|| spec.key_sizes.to_string()),
                value_size_bytes: spec.value_sizes.to_string(),
                trace: args.trace.as_ref().map(|path| path.display().to_string()),
                rate_per_second: spec.arrivals.rate().map(|rate| rate.mean()),
                prepared: args.prepared,
                rounds: args.rounds,
                seed: spec.seed,
            },
            targets,
            ratios,
        }
    }

    /// 0, or 1 where a wrong value was read or a target answered nothing.
    pub fn exit_code(&self) -> u8 {
        let mut rounds = self.targets.iter().flat_map(|target| &target.rounds);
        let failed = |round: &RoundReport| {
            round.counters.wrong_values > 0 || round.counters.requests <= round.counters.errors
        };
        u8::from(rounds.any(failed))
    }

    /// The report as JSON, units in the names.
    ///
    /// # Errors
    /// Never in practice; serialising has an error type.
    pub fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// Writes plots into a folder: `latency.svg` by percentile, `throughput-over-time.svg` and
    /// `latency-over-time.svg` of each target's first round, where it took long enough to tell.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write_plots(&self, folder: &Path) -> anyhow::Result<()> {
        write_plots(&self.plots(), folder)
    }

    fn plots(&self) -> Vec<Plot> {
        let over_time = |name: &str, title: &str, label: &str, of: fn(&Moment) -> f64| Plot {
            name: name.into(),
            title: title.into(),
            x: Axis::linear("seconds"),
            y: Axis::linear(label),
            curves: self
                .targets
                .iter()
                .filter_map(|target| {
                    let moments = &target.rounds.first()?.series;
                    let points = moments.iter().map(|m| (m.seconds, of(m)));
                    Some(Curve::new(&target.target, points.collect()))
                })
                .collect(),
        };
        let by_percentile = Plot {
            name: "latency".into(),
            title: "Latency by percentile (medians of the rounds)".into(),
            x: Axis::log("one in this many requests is slower"),
            y: Axis::log("latency, µs"),
            curves: self.targets.iter().map(TargetReport::percentiles).collect(),
        };
        let throughput = over_time(
            "throughput-over-time",
            "Throughput over time",
            "requests/s",
            |m| m.requests_per_second,
        );
        let latency = over_time(
            "latency-over-time",
            "99th percentile over time",
            "p99, µs",
            |m| m.latency_us_p99,
        );
        let plots = [by_percentile, throughput, latency];
        let drawable = |plot: &Plot| plot.curves.iter().any(|curve| !curve.points.is_empty());
        plots.into_iter().filter(drawable).collect()
    }

    /// The report for people: a table, the ratios of medians, and what went wrong.
    pub fn to_table(&self) -> String {
        let rounds = || {
            let targets = self.targets.iter();
            targets.flat_map(|of| of.rounds.iter().map(|round| (&*of.target, round)))
        };
        let rates = framed(
            "target|#|requests/s|keys/s|hits|errors|wrong|generator",
            rounds().map(|(target, round)| round.rates(target)),
            1..usize::MAX,
        );
        let latencies = framed(
            "latency, µs|#|p50|p90|p99|p99.9|p99.99|max",
            rounds().map(|(target, round)| round.latencies(target)),
            1..usize::MAX,
        );
        let notes: String = rounds()
            .map(|(target, round)| round.notes(target))
            .collect();
        let mut text = format!("{rates}\n{latencies}");
        for ratios in &self.ratios {
            text += &format!(
                "\n{} / {} (medians): requests/s {:.3} ({:.3} to {:.3}),\n  p50 {:.3}, p99 {:.3} ({:.3} to {:.3}), \
                 p99.9 {:.3}",
                ratios.target,
                ratios.baseline,
                ratios.requests_per_second,
                ratios.requests_per_second_spread[0],
                ratios.requests_per_second_spread[1],
                ratios.latency_us_p50,
                ratios.latency_us_p99,
                ratios.latency_us_p99_spread[0],
                ratios.latency_us_p99_spread[1],
                ratios.latency_us_p99_9,
            );
        }
        text + &notes
    }
}

impl RoundReport {
    fn rates(&self, target: &str) -> Vec<String> {
        vec![
            target.to_owned(),
            self.round.to_string(),
            format!("{:.0}", self.requests_per_second),
            format!("{:.0}", self.keys_per_second),
            format!("{:.1} %", self.hit_ratio * 100.0),
            self.counters.errors.to_string(),
            self.counters.wrong_values.to_string(),
            format!("{:.0} %", self.generator_cpu_share * 100.0),
        ]
    }

    fn latencies(&self, target: &str) -> Vec<String> {
        let latency = &self.latency;
        let percentiles = [
            latency.latency_us_p50,
            latency.latency_us_p90,
            latency.latency_us_p99,
            latency.latency_us_p99_9,
            latency.latency_us_p99_99,
            latency.latency_us_max,
        ];
        let mut cells = vec![target.to_owned(), self.round.to_string()];
        cells.extend(percentiles.map(|us| match us {
            us if us < 1000.0 => format!("{us:.1}"),
            us => format!("{us:.0}"),
        }));
        cells
    }

    fn notes(&self, target: &str) -> String {
        let mut notes = String::new();
        let place = format!("{target} round {}", self.round);
        if let Some(error) = &self.first_error {
            notes += &format!("\n{place}: first error: {error}");
        }
        if self.counters.unsent > 0 {
            let unsent = self.counters.unsent;
            notes += &format!("\n{place}: {unsent} requests were due but never sent");
        }
        if self.send_lag_us_p99 > self.latency.latency_us_p50 && self.send_lag_us_p99 > 0.0 {
            let lag = self.send_lag_us_p99;
            notes += &format!("\n{place}: sent up to {lag:.0} µs late (p99): part of the latency");
        }
        if self.generator_cpu_share > GENERATOR_BUSY_SHARE {
            let share = self.generator_cpu_share * 100.0;
            notes +=
                &format!("\n{place}: the generator was {share:.0} % busy: give it more threads");
        }
        notes
    }
}

impl Ratios {
    fn new(target: &TargetReport, baseline: &TargetReport) -> Self {
        let ratio = |figure: fn(&Medians) -> f64| {
            let of = figure(&baseline.medians);
            if of > 0.0 {
                figure(&target.medians) / of
            } else {
                0.0
            }
        };
        let spread = |figure: fn(&RoundReport) -> f64| {
            let rounds = target.rounds.iter().zip(&baseline.rounds);
            let ratios = rounds.filter(|(_, of)| figure(of) > 0.0);
            let ratios = ratios.map(|(round, of)| figure(round) / figure(of));
            let outside = [f64::INFINITY, 0.0];
            ratios.fold(outside, |[low, high], ratio| {
                [low.min(ratio), high.max(ratio)]
            })
        };
        Ratios {
            target: target.target.clone(),
            baseline: baseline.target.clone(),
            requests_per_second: ratio(|medians| medians.requests_per_second),
            requests_per_second_spread: spread(|round| round.requests_per_second),
            latency_us_p50: ratio(|medians| medians.latency_us_p50),
            latency_us_p99: ratio(|medians| medians.latency_us_p99),
            latency_us_p99_spread: spread(|round| round.latency.latency_us_p99),
            latency_us_p99_9: ratio(|medians| medians.latency_us_p99_9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_the_middle() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn latencies_are_in_microseconds() {
        let mut histogram = Histogram::new_with_max(10_000_000, 3).unwrap();
        (1..=1000u64).for_each(|n| histogram.saturating_record(n * 1000));
        let latency = Latency::new(&histogram);
        for (found, exact) in [
            (latency.latency_us_p50, 500.0),
            (latency.latency_us_p90, 900.0),
            (latency.latency_us_p99, 990.0),
            (latency.latency_us_p99_9, 999.0),
            (latency.latency_us_max, 1000.0),
            (latency.latency_us_mean, 500.5),
        ] {
            assert!(
                (found - exact).abs() <= exact * 0.002,
                "{found} is not {exact}"
            );
        }
    }
}
