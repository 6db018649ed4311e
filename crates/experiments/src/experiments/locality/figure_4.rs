//! Figure 4: what switches cost, at three shares of keys that are a session's own.

use super::{Experiment, NETWORK, PS, Sweep, from_on, mean, mediawiki, place};
use crate::args::Mode;
use crate::report::{Claim, Report};
use crate::run::Run;
use evenkeel_schemes::locality::model::{Architecture, Network};

pub(in crate::experiments) const FIGURE_4: Experiment = Experiment {
    name: "locality-4",
    title: "Mean latency by the switches' speed",
    source: "Locality architectures, Figure 4",
    modes: &[Mode::Sim],
    run: figure_4,
};

/// What a switch adds to a round trip, in ms, in the paper's plots.
pub(super) const SWITCH: (f64, f64) = (0.025, 3.7);

/// Where the text says that Snoop and SDS are equivalent, in ms, at the highest ps.
const EQUIVALENT: f64 = 0.3;

fn figure_4(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let mut report = run.report(experiment);
    report.settings = vec![
        ("profile", "MediaWiki, full caching (Figure 7)".into()),
        ("racks", "5, SDR with 2 copies".into()),
        ("base", "4.4 ms".into()),
    ];
    let mean_at = |ps: f64, one, switch| mean(one, &mediawiki(ps), Network { switch, ..NETWORK });
    for ps in PS {
        let sweep = Sweep {
            architectures: &Architecture::ALL,
            over: "switch, ms",
            range: SWITCH,
            mean: &|one, switch| mean_at(ps, one, switch),
        };
        let title = format!("ps {:.0} %", ps * 100.0);
        report
            .tables
            .push(sweep.table(&title, &[0.025, 0.1, 0.3, 1.0, 2.0, 3.7]));
        let name = format!("{}-ps{:.0}", run.plot_name(experiment), ps * 100.0);
        let title = format!("{}: {title}", experiment.title);
        report.plots.push(sweep.plot(name, title));
    }

    let [least, _, most] = PS;
    let found = from_on(SWITCH.0, SWITCH.1, |switch| {
        mean_at(most, Architecture::Snoop, switch) < mean_at(most, Architecture::Sds, switch)
    });
    report.claims.push(Claim::new(
        "ps 90 %: Snoop is faster than SDS from this switch on, ms",
        "0.3",
        place(found),
        Some(found.is_some_and(|at| (at - EQUIVALENT).abs() < 0.05)),
    ));
    let slow = |ps, one| mean_at(ps, one, SWITCH.1);
    let fastest = Architecture::ALL
        .into_iter()
        .min_by(|&a, &b| slow(most, a).total_cmp(&slow(most, b)));
    report.claims.push(Claim::new(
        "ps near one, slow switches: the fastest of all",
        "snoop",
        fastest.map_or(String::new(), |fastest| fastest.to_string()),
        Some(fastest == Some(Architecture::Snoop)),
    ));
    for (name, one) in [("Snoop", Architecture::Snoop), ("Dir", Architecture::Dir)] {
        report.claims.push(Claim::new(
            &format!("{name} at the slowest switch, ms: ps 10 %, and 90 %"),
            "better with more",
            format!("{:.2}, {:.2}", slow(least, one), slow(most, one)),
            Some(slow(most, one) < slow(least, one)),
        ));
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Scale;

    #[test]
    fn one_claim_does_not_hold() {
        let report = figure_4(&FIGURE_4, &Run::silent(Scale::Quick, Mode::Sim)).unwrap();
        let holds: Vec<_> = report.claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [Some(false), Some(true), Some(true), Some(true)]);
        assert_eq!(report.claims[0].ours, "0.204");
        assert_eq!(report.plots.len(), PS.len());
    }
}
