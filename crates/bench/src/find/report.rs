//! What a search has found: a number, what stopped it, and every step on the way.

use super::{FindOptions, Limit, Objective};
use crate::Source;
use crate::plot::{Axis, Curve, Plot, write_plots};
use crate::report::RoundReport;
use crate::series::Moment;
use crate::table::framed;
use crate::units::show_duration;
use serde::Serialize;
use std::path::Path;

/// Result of a search.
#[derive(Clone, Debug, Serialize)]
pub struct FindReport {
    /// The server.
    pub target: String,
    /// What was asked for.
    pub settings: FindSettings,
    /// The highest rate that held, in requests a second; nothing where none did.
    pub requests_per_second: Option<f64>,
    /// The lowest rate above it that did not hold, nor when it was tried again; nothing where the highest
    /// that was allowed held.
    pub failed_per_second: Option<f64>,
    /// What stopped the search there.
    pub stopped_by: StoppedBy,
    /// The same in a sentence.
    pub summary: String,
    /// Every step, in order.
    pub steps: Vec<Step>,
}

/// Why no higher rate held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    /// Everything held up to the highest rate that was allowed.
    MaxRate,
    /// The lowest rate that did not hold broke these.
    Broken(Vec<Limit>),
}

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct FindSettings {
    /// What had to hold, such as `p99=5ms`.
    pub objective: Objective,
    /// Its bound, in microseconds.
    pub objective_us: f64,
    /// The first rate.
    pub start_per_second: f64,
    /// The highest rate that was allowed.
    pub max_per_second: f64,
    /// How close the search was to come, as a part of the rate.
    pub precision: f64,
    /// How long each step was judged.
    pub step_seconds: f64,
    /// Threads of the generator.
    pub threads: usize,
    /// Connections of each thread.
    pub connections_per_thread: usize,
    /// Requests in flight on each connection.
    pub pipeline: usize,
    /// `classic` or `meta`.
    pub protocol: String,
    /// The workload in words, or nothing where it was not generated.
    pub workload: Option<String>,
}

/// A rate that was held for a while.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Requests a second that were to be sent.
    pub asked_per_second: f64,
    /// Requests a second that were answered without an error.
    pub answered_per_second: f64,
    /// Requests that were answered without an error by those that were due, 1 at most.
    pub answered_share: f64,
    /// Requests that failed by those that were sent.
    pub failed_share: f64,
    /// What did not hold; empty where the rate held.
    pub broken: Vec<Limit>,
    /// From the start of the search to the moment that the step was judged from.
    pub judged_from_seconds: f64,
    /// What was measured, as in a round of `evenkeel bench run`.
    #[serde(flatten)]
    pub measured: RoundReport,
}

impl Step {
    /// Whether the rate held.
    pub fn held(&self) -> bool {
        self.broken.is_empty()
    }

    /// The latency that the objective is about, such as `1.23 ms`.
    pub(super) fn latency_text(&self, objective: &Objective) -> String {
        show_us(objective.percentile.of_us(&self.measured.latency))
    }

    /// In a few words.
    pub(super) fn verdict(&self) -> String {
        if self.held() {
            return "holds".into();
        }
        let words = self.broken.iter().map(|limit| match limit {
            Limit::Latency => "latency",
            Limit::Answers => "too few answers",
            Limit::Errors => "errors",
            Limit::Generator => "busy generator",
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// What did not hold, in whole words with figures.
    fn reasons(&self, objective: &Objective) -> String {
        let measured = &self.measured;
        let reasons = self.broken.iter().map(|limit| match limit {
            Limit::Latency => {
                let latency = self.latency_text(objective);
                format!("{} was {latency}", objective.percentile)
            }
            Limit::Answers => {
                let share = self.answered_share * 100.0;
                format!("{share:.1} % of what was due was answered")
            }
            Limit::Errors => {
                let share = self.failed_share * 100.0;
                let error = measured.first_error.as_deref();
                let error = error.unwrap_or("no answer when the step had ended");
                format!("{share:.2} % failed (first error: {error})")
            }
            Limit::Generator => {
                let share = measured.generator_cpu_share * 100.0;
                format!("the generator was {share:.0} % busy and may be the limit")
            }
        });
        let late = measured.send_lag_us_p99 > objective.within.as_secs_f64() * 1e6;
        let late = late.then(|| {
            let lag = show_us(measured.send_lag_us_p99);
            format!(
                "requests left the generator up to {lag} late (p99), for want of room on its connections or of \
                 processor time"
            )
        });
        let reasons: Vec<_> = reasons.chain(late).collect();
        reasons.join(", ")
    }

    fn cells(&self) -> Vec<String> {
        let latency = &self.measured.latency;
        let percentiles = [
            latency.latency_us_p50,
            latency.latency_us_p90,
            latency.latency_us_p99,
            latency.latency_us_p99_9,
        ];
        let mut cells = vec![
            self.measured.round.to_string(),
            format!("{:.0}", self.asked_per_second),
            format!("{:.0}", self.answered_per_second),
        ];
        cells.extend(percentiles.map(|us| format!("{us:.1}")));
        cells.push(self.measured.counters.errors.to_string());
        cells.push(format!(
            "{:.0} %",
            self.measured.generator_cpu_share * 100.0
        ));
        cells.push(self.verdict());
        cells
    }
}

impl FindReport {
    pub(super) fn new(
        options: &FindOptions,
        held: Option<f64>,
        failed: Option<f64>,
        steps: Vec<Step>,
    ) -> FindReport {
        let plan = &options.plan;
        let objective = &options.objective;
        // Tried twice; the second time is the one that counted.
        let stopped_at = failed.and_then(|rate| {
            let mut latest = steps.iter().rev();
            latest.find(|step| step.asked_per_second == rate && !step.held())
        });
        FindReport {
            target: plan.target.to_string(),
            settings: FindSettings {
                objective: *objective,
                objective_us: objective.within.as_secs_f64() * 1e6,
                start_per_second: options.start_per_second,
                max_per_second: options.max_per_second,
                precision: options.precision,
                step_seconds: options.step.as_secs_f64(),
                threads: plan.threads,
                connections_per_thread: plan.connections_per_thread,
                pipeline: plan.pipeline,
                protocol: plan.protocol.to_string(),
                workload: match &plan.source {
                    Source::Generated(spec) => Some(spec.to_string()),
                    _ => None,
                },
            },
            requests_per_second: held,
            failed_per_second: failed,
            stopped_by: stopped_at.map_or(StoppedBy::MaxRate, |step| {
                StoppedBy::Broken(step.broken.clone())
            }),
            summary: summary(options, held, stopped_at),
            steps,
        }
    }

    /// 0, or 1 where no rate held or a wrong value was read.
    pub fn exit_code(&self) -> u8 {
        let mut steps = self.steps.iter();
        let wrong_values = steps.any(|step| step.measured.counters.wrong_values > 0);
        u8::from(self.requests_per_second.is_none() || wrong_values)
    }

    /// The report as JSON, units in the names.
    ///
    /// # Errors
    /// Never in practice; serialising has an error type.
    pub fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// The report for people: a table of the steps, and what was found.
    pub fn to_table(&self) -> String {
        let heads =
            "step|asked/s|answered/s|p50 µs|p90 µs|p99 µs|p99.9 µs|errors|generator|verdict";
        let table = framed(heads, self.steps.iter().map(Step::cells), 0..9);
        format!("{table}\n{}", self.summary)
    }

    /// Writes plots into a folder: `latency-by-rate.svg` of all steps, `throughput-over-time.svg` and
    /// `latency-over-time.svg` of the whole search, where steps were long enough to tell.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write_plots(&self, folder: &Path) -> anyhow::Result<()> {
        write_plots(&self.plots(), folder)
    }

    fn plots(&self) -> Vec<Plot> {
        let plots = [
            self.latency_by_rate(),
            self.over_time(
                "throughput-over-time",
                "Requests answered over time",
                Axis::linear("requests/s"),
                |moment| moment.requests_per_second,
            ),
            self.over_time(
                "latency-over-time",
                "99th percentile over time",
                Axis::log("p99, µs"),
                |moment| moment.latency_us_p99,
            ),
        ];
        let drawable = |plot: &Plot| plot.curves.iter().any(|curve| !curve.points.is_empty());
        plots.into_iter().filter(drawable).collect()
    }

    fn latency_by_rate(&self) -> Plot {
        let Objective { percentile, within } = self.settings.objective;
        let steps = |held: bool| {
            let steps = self.steps.iter().filter(|step| step.held() == held);
            let points = steps.map(|step| {
                let latency = percentile.of_us(&step.measured.latency);
                (step.asked_per_second, latency)
            });
            // Where nothing was answered there is no latency.
            let mut points: Vec<_> = points.filter(|point| point.1 > 0.0).collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            points
        };
        let rates = || self.steps.iter().map(|step| step.asked_per_second);
        let bound_us = within.as_secs_f64() * 1e6;
        let ends = [rates().reduce(f64::min), rates().reduce(f64::max)];
        Plot {
            name: "latency-by-rate".into(),
            title: format!("Latency by rate: {}", self.target),
            x: Axis::log("requests/s asked"),
            y: Axis::log(&format!("{percentile}, µs")),
            curves: vec![
                Curve::new("held", steps(true)),
                Curve::new("did not hold", steps(false)),
                Curve::new(
                    self.settings.objective.to_string(),
                    ends.into_iter()
                        .flatten()
                        .map(|rate| (rate, bound_us))
                        .collect(),
                ),
            ],
        }
    }

    /// A figure in each moment of all steps, one after the other.
    fn over_time(&self, name: &str, title: &str, y: Axis, of: fn(&Moment) -> f64) -> Plot {
        let steps = self.steps.iter().flat_map(|step| {
            let moments = step.measured.series.iter();
            moments.map(|moment| (step.judged_from_seconds + moment.seconds, of(moment)))
        });
        Plot {
            name: name.into(),
            title: format!("{title}: {}", self.target),
            x: Axis::linear("seconds"),
            y,
            curves: vec![Curve::new(
                &self.target,
                steps.filter(|point| point.1 > 0.0).collect(),
            )],
        }
    }
}

/// The result in a sentence.
fn summary(options: &FindOptions, held: Option<f64>, stopped_at: Option<&Step>) -> String {
    let Objective { percentile, within } = options.objective;
    let bound = format!("{percentile} <= {}", show_duration(within));
    let Some(step) = stopped_at else {
        let max = options.max_per_second;
        return format!(
            "{bound} held up to {max:.0} requests/s, the max rate: nothing else stopped the search"
        );
    };
    let (failed, reasons) = (step.asked_per_second, step.reasons(&options.objective));
    match held {
        Some(held) => {
            format!("{bound} held up to {held:.0} requests/s; at {failed:.0} requests/s {reasons}")
        }
        None => format!("no rate held {bound}: at {failed:.0} requests/s {reasons}"),
    }
}

/// A latency for people.
fn show_us(us: f64) -> String {
    match us {
        _ if us >= 1e6 => format!("{:.2} s", us / 1e6),
        _ if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        _ => format!("{us:.1} µs"),
    }
}
