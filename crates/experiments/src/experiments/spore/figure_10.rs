//! Figure 10: how much depends on the number of replicas (a) and on the length of leases (b).

use super::Experiment;
use crate::args::Mode;
use crate::experiments::curves::report::{Latencies, Measured};
use crate::experiments::curves::setting::{SERVERS, Setting};
use crate::experiments::curves::size::Size;
use crate::report::{Claim, Report};
use crate::run::Run;
use std::time::Duration;

pub(in crate::experiments) const FIGURE_10A: Experiment = Experiment {
    name: "spore-10a",
    title: "The number of replicas, read-only",
    source: "SPORE, Figure 10a",
    modes: &[Mode::Sim],
    run: figure_10a,
};

pub(in crate::experiments) const FIGURE_10B: Experiment = Experiment {
    name: "spore-10b",
    title: "The length of leases",
    source: "SPORE, Figure 10b",
    modes: &[Mode::Sim],
    run: figure_10b,
};

const PLAIN: &str = "12 plain";
const IDEAL: &str = "12 by the map, uniform keys";

const ONE: &str = "at most 1 replica";
const TWO: &str = "at most 2 replicas";
const THREE: &str = "at most 3 replicas";
const DEFAULT: &str = "as many as a key deserves (the default)";

/// One replica is said to bring a large part of what three do: this is taken for it.
const LARGE_PART: f64 = 0.5;

fn figure_10a(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size::of(run);
    let replicated = Setting::replicated(SERVERS).get_share(1.0);
    let measured = Measured::new(
        run,
        &size,
        Latencies::Together,
        IDEAL,
        &[
            (PLAIN, Setting::plain(SERVERS).get_share(1.0)),
            (ONE, replicated.clone().gamma_max(1)),
            (TWO, replicated.clone().gamma_max(2)),
            (THREE, replicated.clone().gamma_max(3)),
            (DEFAULT, replicated),
            (IDEAL, Setting::ideal(SERVERS).get_share(1.0)),
        ],
    )?;
    let mut report = measured.report(experiment, run);
    let gain = |label: &str| measured.of(label).rate() - measured.of(PLAIN).rate();
    let part = gain(ONE) / gain(THREE);
    let one = measured.ratio(ONE, PLAIN);
    report.claims = vec![
        Claim::new(
            "one replica carries more than none",
            "more",
            format!("{one:.2} times as much"),
            Some(one > 1.0),
        ),
        Claim::new(
            "one replica brings what part of what three do",
            "a large fraction",
            format!("{part:.2}"),
            Some(part >= LARGE_PART),
        ),
        Claim::new(
            "a third replica beside two",
            "modest improvements",
            format!("{:.2} times as much", measured.ratio(THREE, TWO)),
            None,
        ),
        Claim::new(
            "as many as a key deserves beside three",
            "",
            format!("{:.2} times as much", measured.ratio(DEFAULT, THREE)),
            None,
        ),
        measured.efficiency_claim("with one replica", ONE, "", None),
        measured.efficiency_claim("with as many as a key deserves", DEFAULT, "", None),
    ];
    Ok(report)
}

/// Leases, and the names of their curves.
const LEASES: [(u64, &str); 4] = [
    (1, "leases of 1 s (the default)"),
    (2, "leases of 2 s"),
    (5, "leases of 5 s"),
    (10, "leases of 10 s"),
];

/// Throughputs that differ by less are not told apart.
const INSIGNIFICANT: f64 = 0.05;

fn figure_10b(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size {
        // Several of the longest leases.
        duration: Duration::from_secs(run.by_scale([12, 40, 60, 60])),
        ..Size::of(run)
    };
    let mut settings = vec![(PLAIN, Setting::plain(SERVERS))];
    for (seconds, label) in LEASES {
        let lease = Duration::from_secs(seconds);
        settings.push((label, Setting::replicated(SERVERS).lease(lease)));
    }
    settings.push((IDEAL, Setting::ideal(SERVERS)));
    let measured = Measured::new(run, &size, Latencies::Together, IDEAL, &settings)?;
    let mut report = measured.report(experiment, run);
    let rates = LEASES.map(|(_, label)| measured.of(label).rate());
    let (least, most) = rates
        .iter()
        .fold((f64::INFINITY, 0.0), |(least, most), &rate| {
            (rate.min(least), rate.max(most))
        });
    report.claims = vec![Claim::new(
        "least throughput by the most, with leases of 1 to 10 s",
        "no significant change",
        format!("{:.2}", least / most),
        Some(least >= (1.0 - INSIGNIFICANT) * most),
    )];
    for (_, label) in LEASES {
        let claim = measured.efficiency_claim(&format!("with {label}"), label, "", None);
        report.claims.push(claim);
    }
    Ok(report)
}
