//! Real servers under load up to their capacity and past it, whatever the keys' popularity: what is served, how fast, and
//! what happens to it when something happens.
//!
//! Everything is measured by what uniform keys carry on the same servers. A [`cell`] is one load on a fleet of its own
//! ([`measure`]), and is judged by the [`targets`].

mod cell;
mod measure;
mod targets;

use self::cell::{Cell, Deployment, Keys};
use self::measure::{Outcome, Size, measure};
use super::Experiment;
use crate::args::{Mode, Scale};
use crate::fleet::{Fleet, LoadSpec, LoadedFleet};
use crate::report::{Report, Table};
use crate::run::Run;
use crate::small::LIMIT_SERVICES;
use crate::trial::{Knee, Subject, find_knee};
use core::time::Duration;
use evenkeel_bench::{Objective, Percentile};

pub(super) const OVERLOAD: Experiment = Experiment {
    name: "overload",
    title: "Load to the capacity and past it: hot keys, bursts, crowds, lost servers",
    source: "Evenkeel",
    modes: &[Mode::Real],
    run: overload,
};

/// Part of the sum of all servers at which a capacity is looked for first.
const KNEE_AT: f64 = 0.9;

/// Time of a rate that is not judged, by the time that is.
const KNEE_WARM_UP: f64 = 0.5;

/// What is offered where counts have to come out the same on any machine, by the sum of all servers.
const PATIENT_AT: f64 = 0.02;

/// The most that servers carry of keys of some popularity.
#[derive(Clone, Debug)]
struct Capacity {
    deployment: Deployment,
    keys: Keys,
    knee: Knee,
}

fn overload(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size::of(run);
    let cells = match run.scale {
        Scale::Quick => cell::fewest(),
        Scale::Small => cell::with_references(cell::named(cell::few(), &run.cells)?),
        Scale::Paper | Scale::Beyond => {
            cell::with_references(cell::named(cell::all(), &run.cells)?)
        }
    };
    let mut capacities: Vec<Capacity> = Vec::new();
    for (deployment, keys) in wanted(run, &cells) {
        capacities.push(find_capacity(run, &size, deployment, keys)?);
    }
    let mut outcomes = Vec::with_capacity(cells.len());
    for cell in &cells {
        let carried = match size.patient {
            true => PATIENT_AT * cell.deployment.nominal(),
            false => uniform(&capacities, cell.deployment),
        };
        outcomes.push(measure(run, &size, cell, carried)?);
    }

    let mut report = run.report(experiment);
    report.settings = vec![
        (
            "servers".into(),
            "8 of 2,500 keys/s or 12 of 1,000 keys/s, one worker each".into(),
        ),
        ("data".into(), format!("{} keys with 100 bytes", size.keys)),
        ("load".into(), "open loop, Poisson arrivals".into()),
    ];
    report.tables = vec![parts_table(&outcomes)];
    if !capacities.is_empty() {
        report.tables.insert(0, capacities_table(&capacities));
        report.claims = targets::efficiencies(&capacities);
        let carried = |deployment| uniform(&capacities, deployment);
        report.claims.extend(targets::of_cells(&outcomes, carried));
    }
    report.notes = vec![
        format!(
            "A capacity is the highest rate at a 99th percentile of at most {LIMIT_SERVICES} times the time for one key. What is \
             offered is told by the one of uniform keys on the same servers."
        ),
        "Latency counts from when a request was meant to be sent. Each load begins at its full rate, on servers and proxies that \
         have just been started and filled, and is steady from its second second on."
            .into(),
        "Failed are requests that were refused, or not answered.".into(),
    ];
    Ok(report)
}

/// The capacities that are needed: of uniform keys on all deployments, and, unless cells are named, of others where targets are.
fn wanted(run: &Run, cells: &[Cell]) -> Vec<(Deployment, Keys)> {
    let uneven: &[Keys] = match run.scale {
        Scale::Quick => return Vec::new(),
        _ if !run.cells.is_empty() => &[],
        Scale::Small => &[Keys::One],
        Scale::Paper | Scale::Beyond => &[Keys::Zipf(0.99), Keys::Zipf(1.2), Keys::One, Keys::Two],
    };
    let mut wanted: Vec<(Deployment, Keys)> = Vec::new();
    for deployment in cells.iter().map(|cell| cell.deployment) {
        if wanted.iter().any(|(other, _)| *other == deployment) {
            continue;
        }
        wanted.push((deployment, Keys::Uniform));
        if deployment.hot_keys == Cell::BASE.deployment.hot_keys {
            wanted.extend(uneven.iter().map(|&keys| (deployment, keys)));
        }
    }
    wanted
}

/// What uniform keys carry there; the sum of all servers where that was not measured.
fn uniform(capacities: &[Capacity], deployment: Deployment) -> f64 {
    let mut of_deployment = capacities
        .iter()
        .filter(|found| found.deployment == deployment);
    let found = of_deployment.find(|found| found.keys == Keys::Uniform);
    found.map_or(deployment.nominal(), |found| {
        found.knee.requests_per_second()
    })
}

fn find_capacity(
    run: &Run,
    size: &Size,
    deployment: Deployment,
    keys: Keys,
) -> anyhow::Result<Capacity> {
    run.progress
        .say(format!("{deployment}: the most of {keys} keys"));
    let cell = Cell {
        deployment,
        keys,
        ..Cell::BASE
    };
    let plan = deployment.plan(run.small_by, cell.connections_max(), size.patient);
    let fleet = Fleet::start(&plan)?;
    let load = LoadSpec {
        warm_up: size.trial.mul_f64(KNEE_WARM_UP),
        duration: size.trial,
        ..cell.load(size.keys, run.seed)
    };
    load.fill(&fleet)?;
    let mut subject = LoadedFleet {
        fleet: &fleet,
        load,
    };
    let first = subject.trial(KNEE_AT * deployment.nominal())?;
    let objective = Objective {
        percentile: Percentile::P99,
        within: Duration::from_secs_f64(LIMIT_SERVICES / deployment.capacity as f64),
    };
    Ok(Capacity {
        deployment,
        keys,
        knee: find_knee(&mut subject, objective, &[first], size.precision)?,
    })
}

fn capacities_table(capacities: &[Capacity]) -> Table {
    let mut table = Table::new(
        "Capacity",
        &["", "requests/s", "by uniform keys", "max/mean"],
    );
    for found in capacities {
        let rate = found.knee.requests_per_second();
        let even = found.knee.trial.as_ref().map(|trial| trial.max_to_mean());
        table.row([
            format!("{}: {}", found.deployment, found.keys),
            format!("{rate:.0}"),
            format!("{:.2}", rate / uniform(capacities, found.deployment)),
            even.map_or_else(|| "-".into(), |even| format!("{even:.2}")),
        ]);
    }
    table
}

fn parts_table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(
        "Cells",
        &[
            "",
            "",
            "offered/s",
            "served/s",
            "p50 ms",
            "p99 ms",
            "failed",
            "misses",
            "wrong",
            "max/mean",
        ],
    );
    for outcome in outcomes {
        for (at, part) in outcome.parts.iter().enumerate() {
            let ms = |share| format!("{:.1}", part.latency_us(share) / 1000.0);
            let once = |text: String| if at == 0 { text } else { String::new() };
            table.row([
                once(outcome.cell.to_string()),
                part.label.clone(),
                once(format!("{:.0}", outcome.offered_per_second)),
                format!("{:.0}", part.requests_per_second()),
                ms(0.5),
                ms(0.99),
                part.errors().to_string(),
                part.misses().to_string(),
                once(outcome.wrong_values.to_string()),
                once(format!("{:.2}", outcome.max_to_mean)),
            ]);
        }
    }
    table
}
