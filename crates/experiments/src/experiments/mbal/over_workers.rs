//! Figures over the number of workers: their table, plots, and the two claims that they have in common.

use super::machine::{Figures, Kind, Load, Rounds, measure, notes, worker_counts};
use crate::experiments::Experiment;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use evenkeel_bench::plot::{Axis, Curve, Plot};

/// All of a figure: each load with each number of workers.
#[derive(Debug)]
pub(super) struct OverWorkers<'f> {
    labels: Vec<&'f str>,
    /// By load: all numbers of workers one after the other, all kinds of each.
    figures: Vec<Vec<Figures>>,
    counts: Vec<u16>,
}

impl<'f> OverWorkers<'f> {
    /// Measures each load, by its label, with each number of workers.
    pub fn measure(
        run: &Run,
        rounds: Rounds,
        kinds: &[Kind],
        loads: &[(&'f str, Load)],
    ) -> anyhow::Result<OverWorkers<'f>> {
        let counts = worker_counts(run)?;
        let (labels, loads): (Vec<_>, Vec<_>) = loads.iter().cloned().unzip();
        let mut figures = vec![Vec::new(); loads.len()];
        for &workers in &counts {
            let measured = measure(run, rounds, kinds, workers, &loads)?;
            for (figures, measured) in figures.iter_mut().zip(measured) {
                figures.extend(measured);
            }
        }
        Ok(OverWorkers {
            labels,
            figures,
            counts,
        })
    }

    /// The most workers.
    pub fn workers_max(&self) -> u16 {
        self.counts.iter().copied().max().unwrap_or(1)
    }

    /// The fewest.
    pub fn workers_min(&self) -> u16 {
        self.counts.iter().copied().min().unwrap_or(1)
    }

    /// The figures of a load and a kind with this many workers.
    pub fn of(&self, label: &str, kind: Kind, workers: u16) -> &Figures {
        let load = self.labels.iter().position(|&other| other == label);
        let figures = &self.figures[load.expect("a figure asks for its own loads alone")];
        let wanted = |figures: &&Figures| figures.kind == kind && figures.workers == workers;
        figures
            .iter()
            .find(wanted)
            .expect("each kind is measured with each number of workers")
    }

    /// Claims that one kind carries at least `least` times what another does, with the most workers.
    pub fn more_claim(
        &self,
        label: &str,
        [one, other]: [Kind; 2],
        paper: &str,
        least: f64,
    ) -> Claim {
        let most = self.workers_max();
        let ratio = self.of(label, one, most).by(self.of(label, other, most));
        let what = format!(
            "{label}, {most} workers: {} by {}",
            one.label(),
            other.label()
        );
        Claim::new(&what, paper, format!("{ratio:.2}"), Some(ratio >= least))
    }

    /// Claims that a worker carries as much among many as among the fewest, at least this part of it.
    pub fn scaling_claim(&self, label: &str, kind: Kind, paper: &str, least: f64) -> Claim {
        let (few, most) = (self.workers_min(), self.workers_max());
        let of_worker = |workers| self.of(label, kind, workers).carried() / f64::from(workers);
        let share = of_worker(most) / of_worker(few);
        let what = format!(
            "{label}, {}: what a worker of {most} carries by one of {few}",
            kind.label()
        );
        // One number of workers says nothing about scaling.
        let holds = (most > few).then_some(share >= least);
        Claim::new(&what, paper, format!("{share:.2}"), holds)
    }

    /// The report, without claims.
    pub fn report(&self, experiment: &Experiment, run: &Run) -> Report {
        let mut report = run.report(experiment);
        for (label, figures) in self.labels.iter().zip(&self.figures) {
            report.tables.push(table(label, figures));
        }
        report.plots = self.plots(experiment, run);
        report.notes = notes(&self.figures.concat());
        report
    }

    fn plots(&self, experiment: &Experiment, run: &Run) -> Vec<Plot> {
        let plot = |(number, (label, figures)): (usize, (&&str, &Vec<Figures>))| Plot {
            name: format!("{}-{}", run.plot_name(experiment), number + 1),
            title: format!("{}: {label}", experiment.title),
            x: Axis::linear("workers"),
            y: Axis::linear("keys/s that they carry"),
            curves: curves(figures),
        };
        let all = self.labels.iter().zip(&self.figures);
        all.enumerate().map(plot).collect()
    }
}

fn curves(figures: &[Figures]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for figures in figures {
        let label = figures.kind.label();
        let point = (f64::from(figures.workers), figures.carried());
        match curves.iter_mut().find(|curve| curve.label == label) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve::new(label, vec![point])),
        }
    }
    curves
}

fn table(label: &str, figures: &[Figures]) -> Table {
    let columns = "|workers|keys/s|server µs a key|keys/s that they carry|of them a worker|hits";
    let mut table = Table::new(label, columns);
    for figures in figures {
        let carried = figures.carried();
        table.row([
            figures.kind.label().to_owned(),
            figures.workers.to_string(),
            format!("{:.0}", figures.middle(|round| round.keys_per_second)),
            format!("{:.3}", figures.middle(|round| round.cpu_us)),
            format!("{carried:.0}"),
            format!("{:.0}", carried / f64::from(figures.workers)),
            format!("{:.1} %", figures.middle(|round| round.hit_ratio) * 100.0),
        ]);
    }
    table
}

/// Settings that all of these figures have.
pub(super) fn settings(load: &Load, rounds: Rounds) -> Vec<(&'static str, String)> {
    let Rounds { rounds, duration } = rounds;
    vec![
        ("servers", "real processes at their own speed".to_owned()),
        ("memory", format!("{} MB", load.memory_mb)),
        (
            "keys",
            match load.misses {
                None => format!("{} of {} B", load.keys, load.key_len),
                Some(misses) => format!(
                    "of {} B, so many that {:.0} % of the gets miss",
                    load.key_len,
                    misses * 100.0
                ),
            },
        ),
        ("popularity", load.popularity.to_string()),
        ("values", format!("{} B", load.value_len)),
        ("keys of a get", load.multiget.to_string()),
        (
            "rounds",
            format!("{rounds} of {duration:?} for each server and load, in turns"),
        ),
    ]
}
