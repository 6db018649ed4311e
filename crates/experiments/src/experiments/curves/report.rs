//! The tables and plots of a figure.

use super::measure::{Found, measure};
use super::setting::{Setting, Workers};
use super::size::Size;
use super::subject::smallness;
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use crate::trial::{TableCurve, Trial, mean, reads_and_writes_table, trials_table};
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_sim::load::KEY_LEN as SIMULATED_KEY_LEN;

/// Beyond saturation latency is a matter of how long one waits: what is above this many times the limit is not
/// drawn.
const SHOWN: f64 = 10.0;

/// Of which requests latencies are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Latencies {
    Together,
    ReadsAndWrites,
}

/// What a figure was made of.
#[derive(Debug)]
pub(crate) struct Measured<'m> {
    size: &'m Size,
    found: Vec<Found>,
    /// Perfect balance is the setting of this label.
    ideal: &'static str,
    latencies: Latencies,
}

impl<'m> Measured<'m> {
    /// Measures the settings, each by its label, one of which is `ideal`, perfect balance.
    pub fn new(
        run: &Run,
        size: &'m Size,
        latencies: Latencies,
        ideal: &'static str,
        settings: &[(&'static str, Setting)],
    ) -> anyhow::Result<Measured<'m>> {
        Ok(Measured {
            size,
            found: measure(run, size, settings)?,
            ideal,
            latencies,
        })
    }

    /// What was found in the setting of this label.
    pub fn of(&self, label: &str) -> &Found {
        let labelled = self.found.iter().find(|found| found.label == label);
        labelled.expect("a figure asks for its own settings alone")
    }

    /// What was found in all settings.
    pub fn all(&self) -> &[Found] {
        &self.found
    }

    /// A setting's throughput for each server by that of perfect balance.
    pub fn efficiency(&self, label: &str) -> f64 {
        self.of(label).rate_of_server() / self.of(self.ideal).rate_of_server()
    }

    /// How many times the throughput of one setting another has.
    pub fn ratio(&self, one: &str, other: &str) -> f64 {
        self.of(one).rate() / self.of(other).rate()
    }

    /// The claim that every figure is judged by: the balance efficiency of a setting.
    pub fn efficiency_claim(
        &self,
        what: &str,
        label: &str,
        paper: &str,
        least: Option<f64>,
    ) -> Claim {
        let efficiency = self.efficiency(label);
        Claim::new(
            &format!("balance efficiency {what}"),
            paper,
            format!("{efficiency:.2}"),
            least.map(|least| efficiency >= least),
        )
    }

    /// The report, without claims.
    pub fn report(&self, experiment: &Experiment, run: &Run) -> Report {
        let mut report = run.report(experiment);
        report.settings = self.settings(run);
        report.tables.push(self.curves_table());
        report.tables.push(self.knees_table());
        report.plots = self.plots(experiment, run);
        let again: Vec<_> = self.found.iter().filter(|found| found.again).collect();
        if !again.is_empty() {
            let labels: Vec<_> = again.iter().map(|found| found.label).collect();
            report.note(format!(
                "Measured once in this run, for an earlier figure: {}.",
                labels.join("; ")
            ));
        }
        report.note(format!(
            "Balance efficiency is the throughput for each server at {}, by the one of \"{}\" in this run.",
            self.size.objective(), self.ideal
        ));
        report
    }

    fn settings(&self, run: &Run) -> Vec<(&'static str, String)> {
        let size = self.size;
        let workers = self.found.iter().map(|found| found.setting.workers.count());
        let mut settings = settings(run, size, workers.max().unwrap_or(1));
        let mut tell = |what, value| settings.push((what, value));
        let trials = self.found.iter().map(|found| size.trial(&found.setting));
        tell(
            "each rate",
            format!("{:?}", trials.max().unwrap_or_default()),
        );
        if self.found.iter().any(|found| found.setting.reshuffled) {
            tell(
                "other keys become hot every",
                format!("{:?}", size.reshuffle),
            );
        }
        settings
    }

    fn curves_table(&self) -> Table {
        let curves: Vec<TableCurve<'_>> = self
            .found
            .iter()
            .map(|found| (found.label, found.curve()))
            .collect();
        let title = "Latency over throughput";
        match self.latencies {
            Latencies::Together => trials_table(title, &curves),
            Latencies::ReadsAndWrites => reads_and_writes_table(title, &curves),
        }
    }

    fn knees_table(&self) -> Table {
        let mut table = Table::new(
            &format!("Highest throughput at {}", self.size.objective()),
            "|requests/s|least and most of the names|by server|balance efficiency|max/mean load",
        );
        for found in &self.found {
            let mut rates = found.rates();
            rates.sort_by(f64::total_cmp);
            let trials: Vec<&Trial> = found
                .knees()
                .filter_map(|knee| knee.trial.as_ref())
                .collect();
            table.row([
                found.label.to_owned(),
                format!("{:.0}", found.rate()),
                match &rates[..] {
                    [least, .., most] => format!("{least:.0} to {most:.0}"),
                    _ => "-".into(),
                },
                format!("{:.0}", found.rate_of_server()),
                format!("{:.2}", self.efficiency(found.label)),
                match trials.is_empty() {
                    true => "-".into(),
                    false => format!("{:.2}", mean(&trials, Trial::max_to_mean)),
                },
            ]);
        }
        table
    }

    fn plots(&self, experiment: &Experiment, run: &Run) -> Vec<Plot> {
        let name = run.plot_name(experiment);
        match self.latencies {
            Latencies::Together => vec![self.plot(experiment, name, "90th percentile", |trial| {
                trial.latency.latency_us_p90
            })],
            Latencies::ReadsAndWrites => vec![
                self.plot(
                    experiment,
                    format!("{name}-reads"),
                    "90th percentile of reads",
                    |trial| trial.reads.latency_us_p90,
                ),
                self.plot(
                    experiment,
                    format!("{name}-writes"),
                    "90th percentile of writes",
                    |trial| trial.writes.latency_us_p90,
                ),
            ],
        }
    }

    fn plot(
        &self,
        experiment: &Experiment,
        name: String,
        what: &str,
        latency_us: fn(&Trial) -> f64,
    ) -> Plot {
        let points = |found: &Found| {
            let curve = found.curve().into_iter();
            curve
                .map(|trials| {
                    (
                        mean(&trials, |trial| trial.requests_per_second),
                        mean(&trials, latency_us) / 1000.0,
                    )
                })
                // A set that was never sampled has no percentile.
                .filter(|&(_, ms)| {
                    ms > 0.0 && ms < SHOWN * 1e3 * self.size.objective().within.as_secs_f64()
                })
                .collect()
        };
        Plot {
            name,
            title: experiment.title.into(),
            x: Axis::linear("requests/s"),
            y: Axis::log(&format!("{what}, ms")),
            curves: self
                .found
                .iter()
                .map(|found| Curve::new(found.label, points(found)))
                .collect(),
        }
    }
}

/// What is the same for all curves of a size.
pub(crate) fn settings(run: &Run, size: &Size, workers: u16) -> Vec<(&'static str, String)> {
    let workers = match workers {
        1 => "one worker".to_owned(),
        several => format!("{several} workers"),
    };
    let (servers, key_len) = match run.mode {
        Mode::Real => {
            let how = smallness(size, Workers::Own(1));
            (
                format!("real processes of {workers} {how} (a test option)"),
                size.key_len,
            )
        }
        Mode::Sim => {
            let (what, micros) = (size.fidelity, 1_000_000 / size.capacity);
            (
                format!("simulated ({what}) of {workers}, {micros} µs for each key"),
                SIMULATED_KEY_LEN,
            )
        }
    };
    let clients = size.connections;
    vec![
        ("servers", servers),
        ("keys", format!("{} of {key_len} B", size.keys)),
        ("values", format!("{} B", size.value_len)),
        (
            "clients",
            format!("{clients} connections of an open loop (Poisson) through one proxy"),
        ),
        ("sets of names of the keys", size.names.to_string()),
    ]
}
