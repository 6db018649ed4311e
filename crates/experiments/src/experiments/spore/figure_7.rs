//! Figure 7: what replication does to reads (a) and to writes (b), each with latencies of its own.

use super::Experiment;
use super::measure::{Found, measure};
use super::report::{Latencies, Measured};
use super::setting::{SERVERS, Setting};
use super::size::Size;
use crate::args::Mode;
use crate::report::{Claim, Report};
use crate::run::Run;
use crate::trial::{Trial, mean};

pub(in crate::experiments) const FIGURE_7: Experiment = Experiment {
    name: "spore-7",
    title: "Latency of reads and of writes, 99 % reads",
    source: "SPORE, Figure 7",
    modes: &[Mode::Real, Mode::Sim],
    run: figure_7,
};

const PLAIN: &str = "12 plain";
const REPLICATED: &str = "12 with hot keys replicated";
const IDEAL: &str = "12 by the map, uniform keys";

/// Latencies are compared at this part of the capacity, where a plain pool has a hotspot.
const COMPARED_AT: f64 = 0.6;

fn figure_7(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size::of(run);
    let found = measure(
        run,
        &size,
        &[
            (PLAIN, Setting::plain(SERVERS)),
            (REPLICATED, Setting::replicated(SERVERS)),
            (IDEAL, Setting::ideal(SERVERS)),
        ],
    )?;
    let measured = Measured {
        size: &size,
        found: &found,
        ideal: IDEAL,
        latencies: Latencies::ReadsAndWrites,
    };
    let mut report = measured.report(experiment, run);
    let gain = measured.ratio(REPLICATED, PLAIN);
    let ms = |found: &Found, p90_us: fn(&Trial) -> f64| {
        mean(&found.at(&size, COMPARED_AT), p90_us) / 1000.0
    };
    let compared = |what: &str, p90_us: fn(&Trial) -> f64| {
        let [plain, replicated] = [PLAIN, REPLICATED].map(|label| ms(measured.of(label), p90_us));
        Claim::new(
            &format!(
                "90th percentile of {what} at {:.0} % of the capacity, plain and with replication",
                COMPARED_AT * 100.0
            ),
            "lower with replication",
            format!("{plain:.1} ms and {replicated:.1} ms"),
            Some(replicated < plain),
        )
    };
    report.claims = vec![
        Claim::new(
            "replication carries more than plain servers",
            "more",
            format!("{gain:.2} times as much"),
            Some(gain > 1.0),
        ),
        compared("reads", |trial| trial.reads.latency_us_p90),
        compared("writes", |trial| trial.writes.latency_us_p90),
        measured.efficiency_claim("with replication", REPLICATED, "", None),
    ];
    report.notes.push(
        "The paper's third curve, SE-SPORE, is missing: Evenkeel has no atomic writes to all copies yet.".into(),
    );
    Ok(report)
}
