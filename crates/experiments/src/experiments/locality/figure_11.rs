//! Figure 11: two data centres, at either coast.

use super::{Experiment, Sweep, from_on, place, reads_and_sets};
use crate::args::Mode;
use crate::report::{Claim, Report};
use crate::run::Run;
use evenkeel_schemes::locality::model::{Architecture, Distances, Racks, paper};

pub(in crate::experiments) const FIGURE_11: Experiment = Experiment {
    name: "locality-11",
    title: "Mean latency over two data centres by the share of keys that are a session's own",
    source: "Locality architectures, Figure 11",
    modes: &[Mode::Sim],
    run: figure_11,
};

/// Round trips in ms within a data centre and between both. Nothing is central.
pub(super) const COASTS: Distances = Distances {
    own: 5.0,
    central: None,
    other: 40.0,
};

/// Those that need no central server.
pub(super) const ARCHITECTURES: [Architecture; 4] = [
    Architecture::Sds,
    Architecture::Sdr,
    Architecture::Snoop,
    Architecture::Dir,
];

/// Shares of reads that are drawn.
const READS: [f64; 3] = [0.75, 0.9, 1.0];

/// The share of reads at which SDR is looked at.
const MANY_READS: f64 = 0.95;

/// The ps above which the text has Snoop and Dir outperform SDS.
const OUTPERFORM: f64 = 0.5;

/// The mean in ms over this many data centres, of which two have each item in SDR.
fn mean(architecture: Architecture, reads: f64, ps: f64, centres: u32) -> f64 {
    let racks = Racks {
        racks: centres,
        copies: 2,
    };
    let usage = reads_and_sets(reads, 0.0, ps);
    paper::mean(architecture, &usage, COASTS, racks).unwrap_or(f64::NAN)
}

fn figure_11(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let mut report = run.report(experiment);
    report.settings = vec![
        (
            "commands",
            "gets, all of which find something, and sets".into(),
        ),
        ("data centres", "2, SDR with a copy in each".into()),
        ("round trips", "5 ms within one, 40 ms between both".into()),
        ("Dir's directory", "spread over both".into()),
    ];
    for reads in READS {
        let sweep = Sweep {
            architectures: &ARCHITECTURES,
            over: "ps",
            range: (0.0, 1.0),
            mean: &|one, ps| mean(one, reads, ps, 2),
        };
        let title = format!("{:.0} % reads", reads * 100.0);
        report
            .tables
            .push(sweep.table(&title, &[0.0, 0.25, 0.5, 0.75, 0.9, 1.0]));
        let name = format!("{}-reads{:.0}", run.plot_name(experiment), reads * 100.0);
        let title = format!("{}: {title}", experiment.title);
        report.plots.push(sweep.plot(name, title));
    }

    for (name, one) in [("Snoop", Architecture::Snoop), ("Dir", Architecture::Dir)] {
        let found = READS.map(|reads| {
            from_on(0.0, 1.0, |ps| {
                mean(one, reads, ps, 2) < mean(Architecture::Sds, reads, ps, 2)
            })
        });
        report.claims.push(Claim::new(
            &format!("{name} is faster than SDS from this ps on: 75 %, 90 % and 100 % reads"),
            "0.5",
            found.map(place).join(", "),
            Some(found.iter().all(|at| at.is_some_and(|at| at <= OUTPERFORM))),
        ));
    }
    let sds = |centres| mean(Architecture::Sds, READS[0], 0.0, centres);
    report.claims.push(Claim::new(
        "SDS with 2, 3 and 4 data centres, ms",
        "worse with more",
        [2, 3, 4]
            .map(|centres| format!("{:.1}", sds(centres)))
            .join(", "),
        Some(sds(2) < sds(3) && sds(3) < sds(4)),
    ));
    let many = |one| mean(one, MANY_READS, OUTPERFORM, 2);
    let (sdr, sds) = (many(Architecture::Sdr), many(Architecture::Sds));
    report.claims.push(Claim::new(
        "SDR with 95 % reads, beside SDS, ms",
        "poor",
        format!("{sdr:.1}, {sds:.1}"),
        Some(sdr > sds),
    ));
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Scale;

    #[test]
    fn curves_meet_later_than_the_text_says() {
        let report = figure_11(&FIGURE_11, &Run::silent(Scale::Quick, Mode::Sim)).unwrap();
        let ours: Vec<_> = report.claims.iter().map(|claim| &claim.ours[..]).collect();
        assert_eq!(ours[..2], ["0.708, 0.611, 0.563", "0.910, 0.791, 0.720"]);
        assert_eq!(ours[3], "6.8, 22.5");
        let holds: Vec<_> = report.claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [Some(false), Some(false), Some(true), Some(false)]);
    }
}
