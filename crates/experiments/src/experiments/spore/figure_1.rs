//! Figure 1: where imbalance comes from.

use super::Experiment;
use crate::args::Mode;
use crate::experiments::curves::report::{Latencies, Measured};
use crate::experiments::curves::setting::{SERVERS, Setting};
use crate::experiments::curves::size::Size;
use crate::report::{Claim, Report};
use crate::run::Run;

pub(in crate::experiments) const FIGURE_1: Experiment = Experiment {
    name: "spore-1",
    title: "Where imbalance comes from: skewed keys more than uneven hashing",
    source: "SPORE, Figure 1",
    modes: &[Mode::Real, Mode::Sim],
    run: figure_1,
};

const IDEAL: &str = "ideal: uniform keys, the same number for each server";
const SEMI_IDEAL: &str = "semi-ideal: uniform keys, hashed";
const REALISTIC: &str = "realistic: Zipf 0.99, hashed";

fn figure_1(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size::of(run);
    let measured = Measured::new(
        run,
        &size,
        Latencies::Together,
        IDEAL,
        &[
            (IDEAL, Setting::ideal(SERVERS)),
            (SEMI_IDEAL, Setting::plain(SERVERS).uniform()),
            (REALISTIC, Setting::plain(SERVERS)),
        ],
    )?;
    let mut report = measured.report(experiment, run);
    let [hashing, both] = [SEMI_IDEAL, REALISTIC].map(|label| measured.efficiency(label));
    report.claims = vec![
        Claim::new(
            "hashing alone costs throughput (semi-ideal by ideal)",
            "below 1",
            format!("{hashing:.2}"),
            Some(hashing < 1.0),
        ),
        Claim::new(
            "skewed keys cost more than hashing (realistic by ideal)",
            "far below semi-ideal",
            format!("{both:.2}"),
            Some(both < hashing - 0.1),
        ),
    ];
    Ok(report)
}
