//! Figure 6: replicated hot keys beside more servers, with a popularity that stays (a) and one that changes (b).

use super::Experiment;
use crate::args::Mode;
use crate::experiments::curves::report::{Latencies, Measured};
use crate::experiments::curves::setting::{MORE_SERVERS, SERVERS, Setting};
use crate::experiments::curves::size::Size;
use crate::report::{Claim, Report};
use crate::run::Run;
use evenkeel_bench::Percentile;

pub(in crate::experiments) const FIGURE_6A: Experiment = Experiment {
    name: "spore-6a",
    title: "Replicated hot keys on 12 servers beside 12 and 16 without",
    source: "SPORE, Figure 6a",
    modes: &[Mode::Real, Mode::Sim],
    run: figure_6a,
};

pub(in crate::experiments) const FIGURE_6B: Experiment = Experiment {
    name: "spore-6b",
    title: "The same while other keys become hot again and again",
    source: "SPORE, Figure 6b",
    modes: &[Mode::Real, Mode::Sim],
    run: figure_6b,
};

const PLAIN: &str = "12 plain, Zipf 0.99";
const MORE: &str = "16 plain, Zipf 0.99";
const REPLICATED: &str = "12 with hot keys replicated, Zipf 0.99";
const IDEAL: &str = "12 by the map, uniform keys";

fn figure_6a(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size::of(run);
    let measured = Measured::new(
        run,
        &size,
        Latencies::Together,
        IDEAL,
        &[
            (PLAIN, Setting::plain(SERVERS)),
            (MORE, Setting::plain(MORE_SERVERS)),
            (REPLICATED, Setting::replicated(SERVERS)),
            (IDEAL, Setting::ideal(SERVERS)),
        ],
    )?;
    let mut report = measured.report(experiment, run);
    let gain = measured.ratio(REPLICATED, MORE);
    report.claims = vec![
        Claim::new(
            "12 with replication carry at least what 16 plain ones do",
            "at least 1",
            format!("{gain:.2}"),
            Some(gain >= 1.0),
        ),
        measured.efficiency_claim("of 12 plain servers", PLAIN, "about 0.6", None),
        measured.efficiency_claim("with replication", REPLICATED, "about 0.8", Some(0.8)),
    ];
    Ok(report)
}

fn figure_6b(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size {
        // While the new hot keys are found latencies are those of plain servers. That is more than one request in
        // a hundred of any minute, so that a 99th percentile would tell nothing else; the paper shows the 90th.
        limit_of: Percentile::P90,
        ..Size::of(run).coarse(run, &[0.3, 0.6, 0.9], 0.1)
    };
    let measured = Measured::new(
        run,
        &size,
        Latencies::Together,
        IDEAL,
        &[
            (PLAIN, Setting::plain(SERVERS).reshuffled()),
            (MORE, Setting::plain(MORE_SERVERS).reshuffled()),
            (REPLICATED, Setting::replicated(SERVERS).reshuffled()),
            (IDEAL, Setting::ideal(SERVERS)),
        ],
    )?;
    let mut report = measured.report(experiment, run);
    let (gain, beside) = (
        measured.ratio(REPLICATED, PLAIN),
        measured.ratio(REPLICATED, MORE),
    );
    report.claims = vec![
        Claim::new(
            "12 with replication carry more than 12 plain ones",
            "more",
            format!("{gain:.2} times as much"),
            Some(gain > 1.0),
        ),
        Claim::new(
            "12 with replication beside 16 plain ones",
            "slightly less",
            format!("{beside:.2} times as much"),
            None,
        ),
        measured.efficiency_claim("with replication", REPLICATED, "", None),
    ];
    Ok(report)
}
