//! How much depends on how hot keys are found: on the trigger, on the threshold, on what is sampled.

use super::Experiment;
use crate::args::Mode;
use crate::experiments::curves::report::{Latencies, Measured};
use crate::experiments::curves::setting::{Finding, SERVERS, Setting};
use crate::experiments::curves::size::Size;
use crate::report::{Claim, Report};
use crate::run::Run;

pub(in crate::experiments) const FINDING: Experiment = Experiment {
    name: "spore-finding",
    title: "How hot keys are found: trigger, threshold, sampling",
    source: "SPORE, sections 4 and 6",
    modes: &[Mode::Real, Mode::Sim],
    run: finding,
};

const PLAIN: &str = "12 plain";
const IDEAL: &str = "12 by the map, uniform keys";
const DEFAULT: &str = "as shipped: by the mean load, 1 %, 2,000 reads a second";
const ALWAYS: &str = "no trigger: every worker looks, whatever its load";
const LOW: &str = "hot from a quarter of a per cent on";
const HIGH: &str = "hot from 4 % on";
const ALL: &str = "every read is looked at";
const THREE_PERCENT: &str = "3 % of the reads are looked at";

/// Throughputs that differ by less are not told apart.
const INSIGNIFICANT: f64 = 0.05;

fn finding(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size::of(run);
    let found = |finding| Setting::replicated(SERVERS).finding(finding);
    let share = |share| {
        found(Finding {
            share: Some(share),
            ..Finding::default()
        })
    };
    let sampling = |sampling| {
        found(Finding {
            sampling: Some(sampling),
            ..Finding::default()
        })
    };
    let always = found(Finding {
        trigger_rps: Some(0.0),
        ..Finding::default()
    });
    let settings = [
        (PLAIN, Setting::plain(SERVERS)),
        (DEFAULT, Setting::replicated(SERVERS)),
        (ALWAYS, always),
        (LOW, share(0.0025)),
        (HIGH, share(0.04)),
        (ALL, sampling(1.0)),
        (THREE_PERCENT, sampling(0.03)),
        (IDEAL, Setting::ideal(SERVERS)),
    ];
    let measured = Measured::new(run, &size, Latencies::Together, IDEAL, &settings)?;
    let mut report = measured.report(experiment, run);
    let by_default = |label| measured.ratio(label, DEFAULT);
    let compared = |what: &str, paper: &str, label| {
        let ratio = format!("{:.2} times as much", by_default(label));
        Claim::new(what, paper, ratio, None)
    };
    let gain = measured.ratio(DEFAULT, PLAIN);
    let all = by_default(ALL);
    report.claims = vec![
        Claim::new(
            "replication carries more than none",
            "more",
            format!("{gain:.2} times as much"),
            Some(gain > 1.0),
        ),
        compared(
            "without a trigger, by what is shipped",
            "most of the gain goes",
            ALWAYS,
        ),
        compared("with a threshold of a quarter of a per cent", "", LOW),
        compared("with a threshold of 4 %", "", HIGH),
        Claim::new(
            "with every read looked at, as an oracle of popularity would",
            "no significant change",
            format!("{all:.2} times as much"),
            Some((1.0 - INSIGNIFICANT..=1.0 + INSIGNIFICANT).contains(&all)),
        ),
        compared(
            "with 3 % of the reads, as the paper's default",
            "",
            THREE_PERCENT,
        ),
    ];
    for label in [DEFAULT, ALWAYS, LOW, HIGH, ALL, THREE_PERCENT] {
        let claim = measured.efficiency_claim(&format!("with {label}"), label, "", None);
        report.claims.push(claim);
    }
    Ok(report)
}
