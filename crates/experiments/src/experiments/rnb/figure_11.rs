//! Replicate and Bundle, Figures 11 and 12: requests that are content with some of their items.

use super::bundles::{Items, of_uniform};
use super::{COPIES_NAME, Experiment, PLACEMENT_NAME};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use anyhow::Context;
use evenkeel_bench::plot::{Axis, Curve, Plot};

pub(in crate::experiments) const FIGURE_11: Experiment = Experiment {
    name: "rnb-11",
    title: "Transactions of requests for some of their items, without copies",
    source: "Replicate and Bundle, Figure 11",
    modes: &[Mode::Sim],
    run: figure_11,
};

pub(in crate::experiments) const FIGURE_12: Experiment = Experiment {
    name: "rnb-12",
    title: "Transactions of requests for some of their items, with copies",
    source: "Replicate and Bundle, Figure 12",
    modes: &[Mode::Sim],
    run: figure_12,
};

/// Items of a request, and how many per cent of them are enough.
const ITEMS: [usize; 3] = [10, 50, 100];
const ENOUGH: [usize; 4] = [100, 95, 90, 50];

/// Most copies of an item, the home's included.
const COPIES_MAX: usize = 5;

/// Items that requests are drawn from, all equally likely.
const ALL_ITEMS: u32 = 50_000;

/// At most this much of the transactions of a request for all its items without copies: with this many copies, 90 % being enough.
const TARGETS: [(usize, f64); 2] = [(2, 0.65), (5, 0.30)];

/// Where those are judged.
const JUDGED_AT: [u32; 2] = [8, 16];

/// Numbers of servers.
fn sizes(run: &Run) -> Vec<u32> {
    let most = run.by_scale([16, 1_000, 1_000, 10_000]);
    let sizes = [4, 8, 16, 32, 64, 128, 256, 1_000, 10_000];
    sizes
        .into_iter()
        .filter(|&servers| servers <= most)
        .collect()
}

/// How many of this many items are enough.
fn enough(items: usize, percent: usize) -> usize {
    (items * percent).div_ceil(100)
}

/// Transactions of a request by the number of servers, by items, by how many are enough, by copies from 1.
struct Measured {
    sizes: Vec<u32>,
    tpr: Vec<[[Vec<f64>; ENOUGH.len()]; ITEMS.len()]>,
}

impl Measured {
    fn of(run: &Run, copies_max: usize) -> anyhow::Result<Measured> {
        let sizes = sizes(run);
        let requests = run.by_scale([100, 2_000, 10_000, 10_000]);
        let mut tpr = Vec::new();
        for &servers in &sizes {
            run.progress.say(format!("{servers} servers"));
            let items = Items::new(ALL_ITEMS, servers, copies_max)?;
            tpr.push(ITEMS.map(|count| {
                ENOUGH.map(|percent| {
                    let wanted = (count, enough(count, percent));
                    (1..=copies_max)
                        .map(|copies| of_uniform(&items, run.seed, requests, wanted, copies).tpr())
                        .collect()
                })
            }));
        }
        Ok(Measured { sizes, tpr })
    }

    fn settings(run: &Run) -> Vec<(&'static str, String)> {
        vec![
            ("homes", PLACEMENT_NAME.into()),
            ("copies", COPIES_NAME.into()),
            ("items", format!("{ALL_ITEMS}, all equally likely")),
            (
                "requests for each figure",
                run.by_scale([100, 2_000, 10_000, 10_000]).to_string(),
            ),
        ]
    }
}

fn figure_11(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let measured = Measured::of(run, 1)?;
    let mut report = run.report(experiment);
    report.settings = Measured::settings(run);
    let mut curves = Vec::new();
    for (n, items) in ITEMS.iter().enumerate() {
        let columns = ENOUGH.map(|percent| format!("|{percent} %"));
        let mut table = Table::new(
            &format!(
                "Transactions of a request for {items} items, if this many of them are enough"
            ),
            &format!("servers{}", columns.concat()),
        );
        for (servers, tpr) in measured.sizes.iter().zip(&measured.tpr) {
            let cells = tpr[n]
                .iter()
                .map(|by_copies| format!("{:.2}", by_copies[0]));
            table.row([servers.to_string()].into_iter().chain(cells));
        }
        report.tables.push(table);
        if [10, 100].contains(items) {
            for (m, percent) in ENOUGH.iter().enumerate() {
                let points = measured.sizes.iter().zip(&measured.tpr);
                curves.push(Curve::new(
                    format!("{items} items, {percent} %"),
                    points
                        .map(|(&servers, tpr)| (f64::from(servers), tpr[n][m][0]))
                        .collect(),
                ));
            }
        }
    }
    let at = measured.sizes.iter().position(|&servers| servers == 16);
    let at = &measured.tpr[at.context("no point at 16 servers")?];
    let saved = |n: usize| at[n][2][0] / at[n][0][0];
    report.claims.push(Claim::new(
        "16 servers: 90 % of 10, 50 and 100 items, by the transactions for all of them",
        "a significant reduction",
        [0, 1, 2].map(|n| format!("{:.2}", saved(n))).join(", "),
        Some((0..ITEMS.len()).all(|n| saved(n) < 0.95)),
    ));
    report.plots.push(Plot {
        name: run.plot_name(experiment),
        title: experiment.title.into(),
        x: Axis::log("servers"),
        y: Axis::log("transactions of a request"),
        curves,
    });
    Ok(report)
}

fn figure_12(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let measured = Measured::of(run, COPIES_MAX)?;
    let mut report = run.report(experiment);
    report.settings = Measured::settings(run);
    for (n, items) in ITEMS.iter().enumerate() {
        for (m, percent) in ENOUGH.iter().enumerate().skip(1) {
            let columns: Vec<String> = (1..=COPIES_MAX).map(|copies| copies.to_string()).collect();
            let columns = columns.join("|");
            let mut table = Table::new(
                &format!(
                    "{percent} % of {items} items, by the transactions for all of them without copies"
                ),
                &format!("servers|all without copies|by copies: {columns}"),
            );
            for (servers, tpr) in measured.sizes.iter().zip(&measured.tpr) {
                let plain = tpr[n][0][0];
                let cells = tpr[n][m].iter().map(|tpr| format!("{:.2}", tpr / plain));
                let begin = [servers.to_string(), format!("{plain:.2}")];
                table.row(begin.into_iter().chain(cells));
            }
            report.tables.push(table);
        }
    }
    for servers in JUDGED_AT {
        let at = measured.sizes.iter().position(|&size| size == servers);
        let at = &measured.tpr[at.context("no point where it is judged")?];
        for (copies, target) in TARGETS {
            let found = |n: usize| at[n][2][copies - 1] / at[n][0][0];
            report.claims.push(Claim::new(
                &format!("{servers} servers, {copies} copies: 90 % of 10, 50 and 100 items, by all without copies"),
                &format!("about {target:.2}"),
                [0, 1, 2].map(|n| format!("{:.2}", found(n))).join(", "),
                Some((0..ITEMS.len()).all(|n| found(n) <= target)),
            ));
        }
    }
    let curve = |copies: usize| {
        let points = measured.sizes.iter().zip(&measured.tpr);
        Curve::new(
            format!("90 %, {copies} copies"),
            points
                .map(|(&servers, tpr)| (f64::from(servers), tpr[2][2][copies - 1]))
                .collect(),
        )
    };
    let mut curves: Vec<Curve> = (1..=COPIES_MAX).map(curve).collect();
    let points = measured.sizes.iter().zip(&measured.tpr);
    curves.push(Curve::new(
        "all, 1 copy",
        points
            .map(|(&servers, tpr)| (f64::from(servers), tpr[2][0][0]))
            .collect(),
    ));
    report.plots.push(Plot {
        name: run.plot_name(experiment),
        title: format!("{}: of 100", experiment.title),
        x: Axis::log("servers"),
        y: Axis::log("transactions of a request"),
        curves,
    });
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Scale;

    #[test]
    fn both_figures_tell_of_all_sizes() {
        let run = Run::silent(Scale::Quick, Mode::Sim);
        let [without, with] = [
            figure_11(&FIGURE_11, &run).unwrap(),
            figure_12(&FIGURE_12, &run).unwrap(),
        ];
        assert_eq!((without.tables.len(), with.tables.len()), (3, 3 * 3));
        for table in without.tables.iter().chain(&with.tables) {
            let sizes: Vec<&str> = table.rows.iter().map(|row| row[0].as_str()).collect();
            assert_eq!(sizes, ["4", "8", "16"]);
            assert!(
                table
                    .rows
                    .iter()
                    .all(|row| row.len() == table.columns.len())
            );
        }
        assert_eq!(with.claims.len(), 2 * 2);
        assert!(
            without.claims[0].holds == Some(true),
            "{:?}",
            without.claims
        );
    }

    #[test]
    fn less_is_asked_of_fewer_and_copies_save_more() {
        let measured = Measured::of(&Run::silent(Scale::Quick, Mode::Sim), 2).unwrap();
        for tpr in measured.tpr.iter().flatten() {
            for percents in tpr.windows(2) {
                assert!(percents[0][0] >= percents[1][0] && percents[0][1] >= percents[1][1]);
                assert!(percents[0][0] >= percents[0][1]);
            }
        }
        assert_eq!(
            (enough(10, 95), enough(10, 90), enough(50, 50)),
            (10, 9, 25)
        );
    }
}
