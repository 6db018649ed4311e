//! Who makes plans of phase 3: MBal's planner, Slicer's, or bounded load.

use super::phases::{all, servers, size};
use super::story::{RATE, WORKLOADS};
use super::story_sim::plan;
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::experiments::curves::report;
use crate::report::{Report, Table};
use crate::run::Run;
use anyhow::{Context, anyhow};
use evenkeel_policy::migration::cluster::PlannerName;
use evenkeel_sim::load::{LoadPlan, Part, PartReport, fast};

pub(in crate::experiments) const PLANNERS: Experiment = Experiment {
    name: "mbal-planners",
    title: "Who plans the moves between servers: MBal's planner, Slicer's, bounded load",
    source: "ours, after MBal, Slicer and bounded load",
    modes: &[Mode::Sim],
    run: planners,
};

/// None moves nothing between servers.
const PLANNERS_COMPARED: [(&str, Option<PlannerName>); 4] = [
    ("none", None),
    ("MBal's", Some(PlannerName::Mbal)),
    ("Slicer's", Some(PlannerName::Slicer)),
    ("bounded load", Some(PlannerName::BoundedLoad)),
];

/// Looks before this many seconds are not averaged: nobody has planned anything yet.
const SETTLED: f64 = 10.0;

fn planners(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = size(run);
    let together = all(servers(run));
    let alone = together.clone().resting().moving();
    let mut report = run.report(experiment);
    report.settings = report::settings(run, &size, super::WORKERS);
    let seconds = run.by_scale([60, 200, 400, 60]);
    report.settings.extend([
        ("load".to_owned(), format!("{RATE} of the capacity")),
        ("each workload".into(), format!("{seconds} s")),
    ]);
    for (title, setting) in [("Phase 3 alone", &alone), ("All phases", &together)] {
        let mut table = table(title);
        for workload in &WORKLOADS {
            let part = Part {
                popularity: workload.popularity_in(setting),
                get_share: workload.get_share,
            };
            for (label, planner) in PLANNERS_COMPARED {
                run.progress
                    .say(format!("{title}, {}, {label}", workload.label));
                let plan = planned_by(plan(run, &size, setting), planner);
                let told = fast::tell(&plan, &[part], seconds * 1_000_000_000, 1_000_000_000);
                let told = told.map_err(|words| anyhow!(words))?;
                let told = told.first().context("there is one part")?;
                table.row(row(&plan, workload.label, label, told));
            }
        }
        report.tables.push(table);
    }
    Ok(report)
}

fn planned_by(plan: LoadPlan, planner: Option<PlannerName>) -> LoadPlan {
    let mut balancing = plan.balancing.unwrap_or_default();
    match planner {
        Some(planner) => balancing.plans.planner = planner,
        None => balancing.plans.mode = Default::default(),
    }
    LoadPlan {
        balancing: Some(balancing),
        ..plan
    }
}

fn table(title: &str) -> Table {
    let columns = [
        "",
        "planner",
        "max/mean, mean of all looks",
        "in the end",
        "p90 ms",
        "p99 ms",
        "cachelets moved",
        "of the data copied",
    ];
    Table::new(title, &columns)
}

fn row(plan: &LoadPlan, workload: &str, planner: &str, told: &PartReport) -> [String; 8] {
    let settled = || {
        told.moments
            .iter()
            .filter(|moment| moment.seconds >= SETTLED)
    };
    let sum: f64 = settled().map(|moment| moment.load_max_over_mean).sum();
    let last = told
        .moments
        .last()
        .map_or(0.0, |moment| moment.load_max_over_mean);
    let deeds = told.report.deeds.unwrap_or_default();
    let cachelets = (plan.workers() * plan.cachelets_per_worker) as f64;
    [
        workload.to_owned(),
        planner.to_owned(),
        format!("{:.2}", sum / settled().count().max(1) as f64),
        format!("{last:.2}"),
        format!("{:.1}", told.report.latency_us.p90 / 1000.0),
        format!("{:.1}", told.report.latency_us.p99 / 1000.0),
        deeds.moved.to_string(),
        // All cachelets have about as many keys, and keys are of one size.
        format!("{:.1} %", deeds.moved as f64 / cachelets * 100.0),
    ]
}
