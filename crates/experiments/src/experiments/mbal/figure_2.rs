//! Figure 2: what skewed popularity costs a plain cluster.

use crate::args::Mode;
use crate::experiments::Experiment;
use crate::experiments::curves::measure::Found;
use crate::experiments::curves::report::{Latencies, Measured};
use crate::experiments::curves::setting::Setting;
use crate::experiments::curves::size::{Size, is_small_and_real};
use crate::experiments::mbal::memcacheds;
use crate::report::{Claim, Report};
use crate::run::Run;
use crate::trial::{Trial, mean};
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_workload::Popularity;
use std::time::Duration;

pub(in crate::experiments) const FIGURE_2: Experiment = Experiment {
    name: "mbal-2",
    title: "What skewed popularity costs a cluster of 20 plain servers",
    source: "MBal, Figure 2",
    modes: &[Mode::Real, Mode::Sim],
    run: figure_2,
};

/// The paper's cluster.
const SERVERS: usize = 20;

/// Keys a second of each thread of a real server: twenty servers of them must leave two cores room for generator and proxy.
const CAPACITY_REAL: u64 = 250;

/// Popularities by the Zipf constant; 0 is uniform.
const CONSTANTS: [(&str, f64); 5] = [
    (UNIFORM, 0.0),
    ("Zipf 0.4", 0.4),
    ("Zipf 0.8", 0.8),
    ("Zipf 0.9", 0.9),
    (SKEWED, 0.99),
];

/// Those for which small real servers have time.
const CONSTANTS_FEW: [(&str, f64); 3] = [(UNIFORM, 0.0), ("Zipf 0.8", 0.8), (SKEWED, 0.99)];

const UNIFORM: &str = "uniform";
const SKEWED: &str = "Zipf 0.99";

/// Latencies are compared at the rate next to this part of the capacity, which every popularity sustains for a while.
const COMPARED_AT: f64 = 0.3;

/// The paper: a throughput of less than two fifths, and up to three times the 99th percentile.
const PAPER_THROUGHPUT: f64 = 0.4;

fn figure_2(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = size(run);
    let constants: &[(&str, f64)] = match is_small_and_real(run) {
        true => &CONSTANTS_FEW,
        false => &CONSTANTS,
    };
    let settings: Vec<_> = constants
        .iter()
        .map(|&(label, exponent)| (label, setting(exponent)))
        .collect();
    let measured = Measured::new(run, &size, Latencies::Together, UNIFORM, &settings)?;
    let mut report = measured.report(experiment, run);
    let throughput = measured.ratio(SKEWED, UNIFORM);
    let [even, skewed] = [UNIFORM, SKEWED].map(|label| p99_ms(measured.of(label), &size));
    report.claims = vec![
        Claim::new(
            "throughput at Zipf 0.99, by uniform keys",
            "below 0.4 (of a client)",
            format!("{throughput:.2}"),
            Some(throughput < PAPER_THROUGHPUT),
        ),
        Claim::new(
            &format!(
                "99th percentile at Zipf 0.99, by uniform keys, at {COMPARED_AT} of the capacity"
            ),
            "up to 3",
            format!("{:.2} ({skewed:.2} by {even:.2} ms)", skewed / even),
            Some(skewed > even),
        ),
    ];
    let points = |figure: &dyn Fn(&Found) -> f64| {
        let point = |&(label, exponent)| (exponent, figure(measured.of(label)));
        constants.iter().map(point).collect()
    };
    report.plots.push(Plot {
        name: format!("{}-throughput", run.plot_name(experiment)),
        title: experiment.title.into(),
        x: Axis::linear("Zipf constant (0: uniform)"),
        y: Axis::linear("requests/s"),
        curves: vec![Curve::new(
            format!("highest throughput at {}", size.objective()),
            points(&Found::rate),
        )],
    });
    report.note("A server of two threads that both serve any key is one that is twice as fast, without the locks and the \
         waiting that two threads cost each other.");
    report.note("The paper's clients are closed loops: with hot servers they ask less, which holds the 99th percentile down and \
         takes throughput instead. Here the load is an open loop, so that the same is seen at the throughput that keeps \
         to the limit.");
    Ok(report)
}

fn setting(exponent: f64) -> Setting {
    let popularity = match exponent {
        0.0 => Popularity::Uniform,
        exponent => Popularity::Zipf { exponent },
    };
    memcacheds(SERVERS).popularity(popularity)
}

fn size(run: &Run) -> Size {
    super::size(run, CAPACITY_REAL, |size| Size {
        keys: 10_000,
        duration: Duration::from_secs(1),
        rates: &[COMPARED_AT, 0.6, 0.9],
        precision: 0.15,
        ..size
    })
}

fn p99_ms(found: &Found, size: &Size) -> f64 {
    let trials: Vec<&Trial> = found.at(size, COMPARED_AT);
    mean(&trials, |trial| trial.latency.latency_us_p99) / 1000.0
}
