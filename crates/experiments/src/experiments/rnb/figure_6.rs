//! Replicate and Bundle, Figure 6: transactions of a request by the number of copies, when all copies are there.

use super::bundles::{Items, of_all_friends};
use super::sources::SOURCES;
use super::{COPIES_NAME, COST, Experiment, JUDGED_AT, PLACEMENT_NAME};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use evenkeel_bench::plot::{Axis, Curve, Plot};

pub(in crate::experiments) const FIGURE_6: Experiment = Experiment {
    name: "rnb-6",
    title: "Transactions of a request by the number of copies, all of them there",
    source: "Replicate and Bundle, Figure 6",
    modes: &[Mode::Sim],
    run: figure_6,
};

/// Most copies of an item, the home's included.
const COPIES_MAX: usize = 5;

/// Copies at which the paper has its claim.
const JUDGED_COPIES: usize = 4;

/// What transactions are to be at most with this many copies, by what they are without, of each graph; and what the
/// busiest server is to have at most, by the mean.
const TARGETS: [f64; 2] = [0.51, 0.55];
const BUSIEST: f64 = 1.15;

fn figure_6(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let mut report = run.report(experiment);
    report.settings = vec![
        ("homes", PLACEMENT_NAME.into()),
        ("copies", COPIES_NAME.into()),
        ("servers", JUDGED_AT.to_string()),
        (
            "requests",
            "one of each user, for the items of all friends".into(),
        ),
    ];
    let mut curves = Vec::new();
    for (source, target) in SOURCES.iter().zip(TARGETS) {
        run.progress.say(format!("{}: reading", source.name));
        let graph = source.load(run, &mut report.notes)?;
        let items = Items::new(graph.users() as u32, JUDGED_AT, COPIES_MAX)?;
        let mean = graph.edges() as f64 / graph.users() as f64;
        let mut table = Table::new(
            &format!("{}: {mean:.1} friends on average", source.name),
            "copies|transactions of a request|by those without copies|requests/s by those without, with the cost of items|busiest by mean",
        );
        let mut points = Vec::new();
        let mut plain = 0.0;
        for copies in 1..=COPIES_MAX {
            run.progress
                .say(format!("{}: {copies} copies", source.name));
            let tally = of_all_friends(&items, &graph, copies);
            let (tpr, busiest) = (tally.tpr(), tally.busiest());
            if copies == 1 {
                plain = tpr;
            }
            table.row([
                copies.to_string(),
                format!("{tpr:.2}"),
                format!("{:.3}", tpr / plain),
                format!("{:.2}", COST.of(plain, mean) / COST.of(tpr, mean)),
                format!("{busiest:.2}"),
            ]);
            points.push((copies as f64, tpr));
            if copies == JUDGED_COPIES {
                report.claims.push(Claim::new(
                    &format!(
                        "{}: transactions with {copies} copies, by those without",
                        source.name
                    ),
                    &format!("below 0.50 \"in some cases\"; ours: at most {target}"),
                    format!("{:.3}", tpr / plain),
                    Some(tpr / plain <= target),
                ));
                report.claims.push(Claim::new(
                    &format!("{}: the busiest server by the mean", source.name),
                    &format!("ours: at most {BUSIEST}"),
                    format!("{busiest:.2}"),
                    Some(busiest <= BUSIEST),
                ));
            }
        }
        report.tables.push(table);
        curves.push(Curve::new(source.name, points));
    }
    report.plots.push(Plot {
        name: run.plot_name(experiment),
        title: experiment.title.into(),
        x: Axis::linear("copies"),
        y: Axis::linear("transactions of a request"),
        curves,
    });
    report.note(
        "Users without friends are asked for, too, and cost nothing. A copy counts the home: one copy is none besides it.",
    );
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Scale;

    #[test]
    fn copies_save_what_is_asked_of_them() {
        let report = figure_6(&FIGURE_6, &Run::silent(Scale::Quick, Mode::Sim)).unwrap();
        for table in &report.tables {
            let by_plain: Vec<f64> = table
                .rows
                .iter()
                .map(|row| row[2].parse().unwrap())
                .collect();
            assert!(
                by_plain.is_sorted_by(|more, less| more > less),
                "{by_plain:?}"
            );
            assert!(by_plain[3] < 0.6, "{by_plain:?}");
        }
    }
}
