//! Replicate and Bundle, Figure 2: the multi-get hole. A request for many items asks nearly every server
//! however many there are, so that more servers do not make more requests a second.

use super::{Experiment, PLACEMENT_NAME, doublings, placement};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use anyhow::Context;
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_placement::cost;
use evenkeel_placement::pool::Placement;
use evenkeel_workload::rng;

pub(in crate::experiments) const FIGURE_2: Experiment = Experiment {
    name: "rnb-2",
    title: "What twice as many servers bring to requests for many items",
    source: "Replicate and Bundle, Figure 2",
    modes: &[Mode::Sim],
    run: figure_2,
};

/// Items of a request.
const ITEMS: [u32; 4] = [1, 10, 50, 100];

fn figure_2(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let servers_max: u32 = run.by_scale([64, 64, 128, 1024]);
    let requests = run.by_scale([200, 2_000, 20_000, 50_000]);
    let mut report = run.report(experiment);
    report.settings = vec![
        ("placement", PLACEMENT_NAME.into()),
        ("random requests for each point", requests.to_string()),
    ];
    let sizes = doublings(servers_max);
    let placements = sizes
        .iter()
        .chain([&(2 * servers_max)])
        .map(|&servers| placement(servers))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut table = Table::new(
        "Factor by which the requests/s that transactions allow grow with twice the servers",
        "servers|1 item|10 items|50 items|100 items|worked out: 10 items|100 items",
    );
    let mut rows: Vec<Vec<String>> = sizes.iter().map(|n| vec![n.to_string()]).collect();
    let mut curves = Vec::new();
    let mut worst: f64 = 0.0;
    for items in ITEMS {
        // Transactions of a request by the number of servers: what each server has to do for it.
        let mut load = Vec::new();
        for (servers, placement) in sizes
            .iter()
            .copied()
            .chain([2 * servers_max])
            .zip(&placements)
        {
            run.progress
                .say(format!("{items} items, {servers} servers"));
            let transactions = transactions(placement, items, requests, run.seed);
            load.push(transactions / f64::from(servers));
        }
        let factors: Vec<f64> = load.windows(2).map(|pair| pair[0] / pair[1]).collect();
        for ((&servers, row), factor) in sizes.iter().zip(&mut rows).zip(&factors) {
            row.push(format!("{factor:.2}"));
            let exact = cost::scaling(servers, items);
            worst = worst.max((factor / exact - 1.0).abs());
        }
        curves.push(Curve::new(
            format!("{items} items"),
            sizes.iter().map(|&n| f64::from(n)).zip(factors).collect(),
        ));
    }
    for (&servers, row) in sizes.iter().zip(&mut rows) {
        for items in [10, 100] {
            row.push(format!("{:.2}", cost::scaling(servers, items)));
        }
    }
    for row in rows {
        table.row(row);
    }
    // Eight servers are in every scale.
    let at_eight = sizes.iter().position(|&servers| servers == 8);
    let at_eight = at_eight.context("no point at eight servers")?;
    let [one, equal, _, many] = [0, 1, 2, 3].map(|curve: usize| curves[curve].points[at_eight].1);
    report.claims = vec![
        Claim::new(
            "one item: twice the servers bring",
            "2.00",
            format!("{one:.2}"),
            Some((one - 2.0).abs() < 0.1),
        ),
        Claim::new(
            "100 items on 8 servers: twice the servers bring",
            "nearly nothing (1.00)",
            format!("{many:.2}"),
            Some(many < 1.05),
        ),
        Claim::new(
            "about as many items as servers: twice the servers bring",
            "about 1.5",
            format!("{equal:.2}"),
            Some((1.3..1.7).contains(&equal)),
        ),
    ];
    report.tables.push(table);
    report.plots.push(Plot {
        name: run.plot_name(experiment),
        title: experiment.title.into(),
        x: Axis::log("servers before"),
        y: Axis::linear("factor"),
        curves,
    });
    report.note(format!(
        "Largest difference between what the placement gives and what is worked out for equally likely servers: \
         {:.1} %.",
        worst * 100.0
    ));
    Ok(report)
}

/// Servers that a request for random items asks, on average.
fn transactions(placement: &Placement, items: u32, requests: u32, seed: u64) -> f64 {
    let mut random = rng::stream(seed, u64::from(items));
    let mut asked = vec![u32::MAX; placement.len()];
    let mut transactions = 0u64;
    for request in 0..requests {
        for _ in 0..items {
            let key = format!("item:{}", rng::below(&mut random, 1 << 40));
            let server = &mut asked[placement.server(key.as_bytes())];
            if *server != request {
                *server = request;
                transactions += 1;
            }
        }
    }
    transactions as f64 / f64::from(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_requests_come_near_it() {
        let placement = placement(16).unwrap();
        let found = transactions(&placement, 10, 5_000, 1);
        let exact = cost::transactions(16, 10);
        assert!((found / exact - 1.0).abs() < 0.05, "{found} of {exact}");
    }
}
