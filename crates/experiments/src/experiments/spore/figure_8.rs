//! Figure 8: popular keys that are never written among keys that are, at three shares of reads.

use super::Experiment;
use crate::args::Mode;
use crate::experiments::curves::report::{Latencies, Measured};
use crate::experiments::curves::setting::{SERVERS, Setting};
use crate::experiments::curves::size::Size;
use crate::report::{Claim, Report};
use crate::run::Run;
use evenkeel_workload::ReadOnly;

pub(in crate::experiments) const FIGURE_8: Experiment = Experiment {
    name: "spore-8",
    title: "Every fifth popular key read-only, the others with many writes",
    source: "SPORE, Figure 8",
    modes: &[Mode::Real, Mode::Sim],
    run: figure_8,
};

/// Section 5.1.3.
const READ_ONLY: ReadOnly = ReadOnly {
    every: 5,
    among: 500,
};

/// Reads of the keys that are written, and the names of the curves without and with replication.
const MIXES: [(f64, &str, &str); 3] = [
    (0.5, "50 % reads, plain", "50 % reads, replicated"),
    (0.7, "70 % reads, plain", "70 % reads, replicated"),
    (0.9, "90 % reads, plain", "90 % reads, replicated"),
];

/// A read and a write cost a server the same here, so that perfect balance is the same for each mix.
const IDEAL: &str = "uniform keys by the map, 70 % reads";

fn figure_8(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size::of(run).coarse(run, &[0.3, 0.6, 0.9], 0.1);
    let mixed = |setting: Setting, reads| setting.get_share(reads).read_only(READ_ONLY);
    // First all of plain servers, so that these are started once.
    let plain = MIXES.map(|(reads, plain, _)| (plain, mixed(Setting::plain(SERVERS), reads)));
    let replicated =
        MIXES.map(|(reads, _, label)| (label, mixed(Setting::replicated(SERVERS), reads)));
    let mut settings = [plain, replicated].concat();
    settings.push((IDEAL, Setting::ideal(SERVERS).get_share(0.7)));
    let measured = Measured::new(run, &size, Latencies::ReadsAndWrites, IDEAL, &settings)?;
    let mut report = measured.report(experiment, run);
    for (reads, plain, replicated) in MIXES {
        let gain = measured.ratio(replicated, plain);
        let mix = format!("{:.0} % reads", reads * 100.0);
        report.claims.push(Claim::new(
            &format!("{mix}: replication carries more than plain servers"),
            "more",
            format!("{gain:.2} times as much"),
            Some(gain > 1.0),
        ));
        report.claims.push(measured.efficiency_claim(
            &format!("with replication, {mix}"),
            replicated,
            "",
            None,
        ));
    }
    Ok(report)
}
