//! Replicate and Bundle beyond the paper's sizes: up to ten thousand servers, which its section V calls for; and where the gain
//! ends.

use super::bundles::{Items, of_uniform};
use super::{COPIES_NAME, COST, Experiment, PLACEMENT_NAME};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use evenkeel_bench::plot::{Axis, Curve, Plot};

pub(in crate::experiments) const SCALE: Experiment = Experiment {
    name: "rnb-scale",
    title: "Transactions of a request by servers, items and copies, far beyond 16 servers",
    source: "Replicate and Bundle, section V",
    modes: &[Mode::Sim],
    run: scale,
};

/// Items of a request.
const ITEMS: [usize; 5] = [10, 50, 100, 500, 1_000];

/// Copies of an item, the home's included.
const COPIES: [usize; 4] = [2, 3, 4, 8];

/// Items that requests are drawn from, all equally likely: a hundred for each of the most servers.
const ALL_ITEMS: u32 = 1_000_000;

/// Where the paper's gain at 16 servers, half of the transactions with four copies, is looked for.
const HALF: f64 = 0.5;
const JUDGED_COPIES: usize = 4;

fn scale(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let most = run.by_scale([64, 10_000, 10_000, 10_000]);
    let sizes = [16, 64, 256, 1_000, 4_000, 10_000];
    let asked_for = run.by_scale([2_000, 1_000_000, 2_000_000, 5_000_000]);
    let all_items = run.by_scale([20_000, ALL_ITEMS, ALL_ITEMS, ALL_ITEMS]);
    let mut report = run.report(experiment);
    report.settings = vec![
        ("homes", PLACEMENT_NAME.into()),
        ("copies", COPIES_NAME.into()),
        ("items", format!("{all_items}, all equally likely")),
        ("items asked for, for each figure", asked_for.to_string()),
    ];
    let names = COPIES.map(|copies| copies.to_string()).join("|");
    let mut tables = ITEMS.map(|count| {
        Table::new(
            &format!("Requests for {count} items: transactions by those without copies"),
            &format!(
                "servers|transactions without copies|by copies: {names}|requests/s with {JUDGED_COPIES}, with the cost of items|busiest by mean with {JUDGED_COPIES}|without"
            ),
        )
    });
    let mut curves = ITEMS.map(|count| Curve::new(format!("{count} items"), Vec::new()));
    // The most servers at which this much is saved.
    let mut halved = [None; ITEMS.len()];
    for servers in sizes.into_iter().filter(|&servers| servers <= most) {
        let items = Items::new(all_items, servers, COPIES[COPIES.len() - 1])?;
        for (n, count) in ITEMS.into_iter().enumerate() {
            run.progress
                .say(format!("{servers} servers, {count} items"));
            let requests = asked_for / count as u32;
            let tally = |copies| of_uniform(&items, run.seed, requests, (count, count), copies);
            let plain = tally(1);
            let with = COPIES.map(tally);
            let by_plain = with.each_ref().map(|with| with.tpr() / plain.tpr());
            let judged = COPIES.iter().position(|&copies| copies == JUDGED_COPIES);
            let (judged, saved) = judged
                .map(|at| (&with[at], by_plain[at]))
                .unwrap_or((&plain, 1.0));
            let cost = |tpr| COST.of(tpr, count as f64);
            let cells = by_plain.map(|part| format!("{part:.2}"));
            tables[n].row(
                [servers.to_string(), format!("{:.2}", plain.tpr())]
                    .into_iter()
                    .chain(cells)
                    .chain([
                        format!("{:.2}", cost(plain.tpr()) / cost(judged.tpr())),
                        format!("{:.2}", judged.busiest()),
                        format!("{:.2}", plain.busiest()),
                    ]),
            );
            curves[n].points.push((f64::from(servers), saved));
            if saved <= HALF {
                halved[n] = Some(servers);
            }
        }
    }
    report.tables.extend(tables);
    for (count, servers) in ITEMS.iter().zip(halved) {
        report.claims.push(Claim::new(
            &format!("requests for {count} items: {JUDGED_COPIES} copies save half of the transactions up to this many servers"),
            "16 servers studied",
            servers.map_or("none of these".to_owned(), |servers: u32| servers.to_string()),
            None,
        ));
    }
    report.plots.push(Plot {
        name: run.plot_name(experiment),
        title: format!("Transactions with {JUDGED_COPIES} copies by those without"),
        x: Axis::log("servers"),
        y: Axis::linear("transactions by those without copies"),
        curves: curves.into(),
    });
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Scale;

    #[test]
    fn more_copies_save_more_at_every_size() {
        let report = scale(&SCALE, &Run::silent(Scale::Quick, Mode::Sim)).unwrap();
        for row in report.tables.iter().flat_map(|table| &table.rows) {
            let by_plain: Vec<f64> = row[2..6].iter().map(|cell| cell.parse().unwrap()).collect();
            assert!(
                by_plain.is_sorted_by(|few, more| few >= more) && by_plain[3] < 1.0,
                "{row:?}"
            );
        }
    }
}
