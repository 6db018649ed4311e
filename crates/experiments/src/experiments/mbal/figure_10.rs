//! Figures 10 and 11: what each phase alone is worth.

use super::phases::{MEMCACHED, OFF, PHASE_1, PHASE_2, PHASE_3, UNIFORM, each_alone, size};
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::experiments::curves::report::{Latencies, Measured};
use crate::experiments::curves::size::Size;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use crate::trial::{Trial, mean};

pub(in crate::experiments) const FIGURE_10: Experiment = Experiment {
    name: "mbal-10",
    title: "Each phase of balancing alone: throughput and 99th percentile",
    source: "MBal, Figure 10",
    modes: &[Mode::Real, Mode::Sim],
    run: figure_10,
};

pub(in crate::experiments) const FIGURE_11: Experiment = Experiment {
    name: "mbal-11",
    title: "Each phase of balancing alone: percentiles of reads at the same load",
    source: "MBal, Figure 11",
    modes: &[Mode::Real, Mode::Sim],
    run: figure_11,
};

/// Latencies are compared at the rate next to this part of the capacity.
const COMPARED_AT: f64 = 0.4;

/// What a phase is to be worth, by servers without any: a throughput of at least this much, and a 99th percentile of at
/// most this much.
struct Worth {
    label: &'static str,
    throughput: f64,
    p99: f64,
}

/// Section 4.2.1.
const PAPER: [Worth; 3] = [
    Worth {
        label: PHASE_1,
        throughput: 1.17,
        p99: 0.76,
    },
    Worth {
        label: PHASE_2,
        throughput: 1.08,
        p99: 0.86,
    },
    Worth {
        label: PHASE_3,
        throughput: 1.14,
        p99: 0.76,
    },
];

/// Shared by both figures: what the second shows is known from the first.
fn measured<'m>(run: &Run, size: &'m Size) -> anyhow::Result<Measured<'m>> {
    Measured::new(
        run,
        size,
        Latencies::ReadsAndWrites,
        UNIFORM,
        &each_alone(run),
    )
}

fn figure_10(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = size(run);
    let measured = measured(run, &size)?;
    let mut report = measured.report(experiment, run);
    report.claims.push(Claim::new(
        "throughput without any phase, by memcacheds",
        "1.05",
        format!("{:.2}", measured.ratio(OFF, MEMCACHED)),
        None,
    ));
    for worth in &PAPER {
        let label = worth.label;
        let throughput = measured.ratio(label, OFF);
        report.claims.push(Claim::new(
            &format!("throughput with {label}, by none"),
            &format!("{:.2}", worth.throughput),
            format!("{throughput:.2}"),
            Some(throughput >= worth.throughput),
        ));
        let [with, without] = [label, OFF].map(|label| {
            let trials = measured.of(label).at(&size, COMPARED_AT);
            mean(&trials, |trial| trial.reads.latency_us_p99)
        });
        report.claims.push(Claim::new(
            &format!(
                "99th percentile of reads with {label}, by none, at {COMPARED_AT} of the capacity"
            ),
            &format!("{:.2}", worth.p99),
            format!("{:.2}", with / without),
            Some(with <= worth.p99 * without),
        ));
    }
    report.notes.extend(notes(run));
    Ok(report)
}

fn figure_11(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = size(run);
    let measured = measured(run, &size)?;
    let mut report = measured.report(experiment, run);
    report.tables = vec![breakdown(&measured, &size)];
    report.plots.clear();
    for (what, paper, figure) in [
        ("90th", "0.96", P90),
        ("95th", "0.95", P95),
        ("99th", "0.96", P99),
    ] {
        let [first, second] = [PHASE_1, PHASE_2].map(|label| {
            let trials = measured.of(label).at(&size, COMPARED_AT);
            mean(&trials, figure)
        });
        report.claims.push(Claim::new(
            &format!("{what} percentile of reads, phase 1 alone by phase 2 alone"),
            paper,
            format!("{:.2}", first / second),
            Some(first <= second),
        ));
    }
    report.notes.extend(notes(run));
    Ok(report)
}

const P50: fn(&Trial) -> f64 = |trial| trial.reads.latency_us_p50;
const P90: fn(&Trial) -> f64 = |trial| trial.reads.latency_us_p90;
const P95: fn(&Trial) -> f64 = |trial| trial.reads.latency_us_p95;
const P99: fn(&Trial) -> f64 = |trial| trial.reads.latency_us_p99;

fn breakdown(measured: &Measured<'_>, size: &Size) -> Table {
    let columns = "|requests/s|p50 ms|p90 ms|p95 ms|p99 ms|max/mean load";
    let title = format!("Reads at {COMPARED_AT} of the capacity");
    let mut table = Table::new(&title, columns);
    for found in measured.all() {
        let trials = found.at(size, COMPARED_AT);
        let ms = |figure| format!("{:.2}", mean(&trials, figure) / 1000.0);
        table.row([
            found.label.to_owned(),
            format!("{:.0}", mean(&trials, |trial| trial.requests_per_second)),
            ms(P50),
            ms(P90),
            ms(P95),
            ms(P99),
            format!("{:.2}", mean(&trials, Trial::max_to_mean)),
        ]);
    }
    table
}

fn notes(run: &Run) -> Vec<String> {
    let mut notes = vec![
        "A memcached of two threads is a server of one worker that is twice as fast: either thread serves any key, which \
         costs nothing here. Real ones pay for it with locks, so that the paper's are slower than its workers without \
         any phase; these are not."
            .to_owned(),
        "The load of workers is what they told their coordinator; of memcacheds and in the simulator it is the keys that \
         were served."
            .into(),
    ];
    if run.mode == Mode::Sim {
        notes.push(
            "Nobody in the simulator waits for a time-out: what a worker cannot serve piles up before it."
                .into(),
        );
    }
    notes
}
