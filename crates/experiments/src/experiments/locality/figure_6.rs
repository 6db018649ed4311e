//! Figure 6: what it is worth that more is read, at three shares of keys that are a session's own.

use super::{Experiment, NETWORK, PS, Sweep, from_on, mean, mediawiki, place, reads_and_sets};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use evenkeel_schemes::locality::Outcome;
use evenkeel_schemes::locality::model::Architecture;

pub(in crate::experiments) const FIGURE_6: Experiment = Experiment {
    name: "locality-6",
    title: "Mean latency by the share of reads",
    source: "Locality architectures, Figure 6",
    modes: &[Mode::Sim],
    run: figure_6,
};

/// The share of reads that find nothing. The paper does not say what it took; with this its figure comes out.
const MISSES: f64 = 0.1;

/// The share of reads from which on the text has Snoop outperform SDC.
const OVERTAKES: f64 = 0.75;

fn figure_6(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let mut report = run.report(experiment);
    report.settings = vec![
        (
            "commands",
            "gets, of which 10 % find nothing, and sets".into(),
        ),
        ("racks", "5, SDR with 2 copies".into()),
        ("switch", "1.0 ms".into()),
        ("base", "4.4 ms".into()),
    ];
    for ps in PS {
        let sweep = Sweep {
            architectures: &Architecture::ALL,
            over: "share of reads",
            range: (0.0, 1.0),
            mean: &|one, reads| mean(one, &reads_and_sets(reads, MISSES, ps), NETWORK),
        };
        let title = format!("ps {:.0} %", ps * 100.0);
        report
            .tables
            .push(sweep.table(&title, &[0.0, 0.25, 0.5, 0.75, 0.9, 1.0]));
        let name = format!("{}-ps{:.0}", run.plot_name(experiment), ps * 100.0);
        let title = format!("{}: {title}", experiment.title);
        report.plots.push(sweep.plot(name, title));
    }

    let overtakes = |ps, misses| {
        from_on(0.0, 1.0, |reads| {
            let usage = reads_and_sets(reads, misses, ps);
            mean(Architecture::Snoop, &usage, NETWORK) < mean(Architecture::Sdc, &usage, NETWORK)
        })
    };
    let profile = mediawiki(0.0);
    let measured = profile.share(Outcome::GetMiss) / profile.reads();
    let mut table = Table::new(
        "Snoop is faster than SDC from this share of reads on",
        "reads that find nothing|ps 10 %|ps 50 %|ps 90 %",
    );
    for misses in [0.0, MISSES, measured] {
        let cells = PS.map(|ps| place(overtakes(ps, misses)));
        table.row(
            [format!("{:.0} %", misses * 100.0)]
                .into_iter()
                .chain(cells),
        );
    }
    report.tables.push(table);
    let found = overtakes(PS[2], MISSES);
    report.claims.push(Claim::new(
        "ps 90 %: Snoop is faster than SDC from this share of reads on",
        "0.75",
        place(found),
        Some(found.is_some_and(|at| (at - OVERTAKES).abs() < 0.005)),
    ));
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Scale;

    #[test]
    fn what_is_missed_moves_the_turn() {
        let report = figure_6(&FIGURE_6, &Run::silent(Scale::Quick, Mode::Sim)).unwrap();
        assert_eq!(report.claims[0].holds, Some(true));
        let turns = report.tables.last().unwrap().rows.iter();
        let at_most: Vec<_> = turns.map(|row| &row[3][..]).collect();
        assert_eq!(at_most, ["0.794", "0.750", "0.728"]);
    }
}
