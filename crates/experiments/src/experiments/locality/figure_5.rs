//! Figure 5: what it is worth that keys are a session's own.

use super::{Experiment, NETWORK, Sweep, from_on, mean, mediawiki, place};
use crate::args::Mode;
use crate::report::{Claim, Report};
use crate::run::Run;
use evenkeel_schemes::locality::Outcome;
use evenkeel_schemes::locality::model::{Architecture, Distances};

pub(in crate::experiments) const FIGURE_5: Experiment = Experiment {
    name: "locality-5",
    title: "Mean latency by the share of keys that are a session's own",
    source: "Locality architectures, Figure 5",
    modes: &[Mode::Sim],
    run: figure_5,
};

/// The ps from which on the text has Snoop overtake SDC.
const OVERTAKES: f64 = 0.86;

fn figure_5(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let mut report = run.report(experiment);
    report.settings = vec![
        ("profile", "MediaWiki, full caching (Figure 7)".into()),
        ("racks", "5, SDR with 2 copies".into()),
        ("switch", "1.0 ms".into()),
        ("base", "4.4 ms".into()),
    ];
    let mean_at = |one, ps: f64| mean(one, &mediawiki(ps), NETWORK);
    let sweep = Sweep {
        architectures: &Architecture::ALL,
        over: "ps",
        range: (0.0, 1.0),
        mean: &mean_at,
    };
    report
        .tables
        .push(sweep.table("Mean of a command, ms", &[0.0, 0.25, 0.5, 0.75, 0.86, 1.0]));
    report
        .plots
        .push(sweep.plot(run.plot_name(experiment), experiment.title.into()));

    let is_overtaken =
        |ps, more: f64| mean_at(Architecture::Snoop, ps) + more < mean_at(Architecture::Sdc, ps);
    let found = from_on(0.0, 1.0, |ps| is_overtaken(ps, 0.0));
    report.claims.push(Claim::new(
        "Snoop is faster than SDC from this ps on, a set taking l3",
        "0.86",
        place(found),
        Some(found.is_some_and(|at| (at - OVERTAKES).abs() < 0.01)),
    ));
    let sets = mediawiki(0.0).share(Outcome::SetHit);
    let own = Distances::from(NETWORK).own;
    let found = from_on(0.0, 1.0, |ps| is_overtaken(ps, sets * own));
    report.claims.push(Claim::new(
        "the same, a set taking l1 + l3 as in the text",
        "0.86",
        place(found),
        Some(found.is_some_and(|at| (at - OVERTAKES).abs() < 0.01)),
    ));
    let change = |one| mean_at(one, 1.0) - mean_at(one, 0.0);
    let averse = [Architecture::Sdc, Architecture::Sds, Architecture::Sdr];
    report.claims.push(Claim::new(
        "SDC, SDS and SDR: what ps 1 changes beside ps 0, ms",
        "nothing",
        averse.map(|one| format!("{:.2}", change(one))).join(", "),
        Some(averse.iter().all(|&one| change(one).abs() < 1e-9)),
    ));
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Scale;

    #[test]
    fn the_curves_meet_where_the_paper_says_by_one_reading_alone() {
        let report = figure_5(&FIGURE_5, &Run::silent(Scale::Quick, Mode::Sim)).unwrap();
        let ours: Vec<_> = report.claims.iter().map(|claim| &claim.ours[..]).collect();
        assert_eq!(ours, ["0.853", "nowhere", "0.00, 0.00, 0.00"]);
        let holds: Vec<_> = report.claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [Some(true), Some(false), Some(true)]);
    }
}
