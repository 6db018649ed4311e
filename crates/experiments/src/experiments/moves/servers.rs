//! A cluster that grows from four servers to eight and shrinks back, under load.

use super::SOURCE;
use super::ground::{
    CHANGE_LIMIT, Ground, Moves, Size, claims, fleet_plan, hits_claim, moves_table, settings,
};
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::experiments::watch::hits_plot;
use crate::report::Report;
use crate::run::Run;
use evenkeel_coordinator_core::plans::PlanMode;
use evenkeel_hotkeys::config::Mode as Replicate;
use evenkeel_workload::Popularity;
use std::collections::BTreeSet;

pub(in crate::experiments) const SERVERS: Experiment = Experiment {
    name: "moves-servers",
    title: "From 4 servers to 8 and back under load: hits, bytes moved, lost writes",
    source: SOURCE,
    modes: &[Mode::Real],
    run: servers,
};

const FEW: usize = 4;
const MANY: usize = 8;

const GROWING: &str = "from 4 to 8";
const GROWN: &str = "8 servers";
const DRAINING: &str = "from 8 to 4";
const DRAINED: &str = "4 servers again";

fn servers(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size::of(run);
    // Hot keys and plans off: what moves, moves because servers come and go.
    let plan = fleet_plan(FEW, Replicate::Off, PlanMode::Observe, false);
    let mut ground = Ground::start(run, &plan, Popularity::Zipf { exponent: 0.99 })?;
    let few: BTreeSet<String> = ground.fleet.server_names().into_iter().collect();
    ground.watch.go_on(size.rest)?;

    run.progress.say(GROWING);
    let before = ground.fleet.map()?;
    ground.watch.begin(GROWING);
    for _ in FEW..MANY {
        ground.fleet.add_server()?;
    }
    let grown_in = ground
        .watch
        .until("even shares", CHANGE_LIMIT, || ground.fleet.is_even(MANY))?;
    let grown = Moves::since(&ground.fleet, &before)?;
    ground.watch.begin(GROWN);
    ground.watch.go_on(size.rest)?;

    run.progress.say(DRAINING);
    let before = ground.fleet.map()?;
    ground.watch.begin(DRAINING);
    let mut leaving = ground.fleet.server_names();
    leaving.retain(|name| !few.contains(name));
    for name in &leaving {
        ground.fleet.drain(name)?;
    }
    let drained_in = ground
        .watch
        .until("the end of all drains", CHANGE_LIMIT, || {
            leaving.iter().all(|name| ground.fleet.may_stop(name))
        })?;
    let drained = Moves::since(&ground.fleet, &before)?;
    ground.watch.begin(DRAINED);
    for name in &leaving {
        ground.fleet.stop_server(name)?;
    }
    ground.watch.go_on(size.rest)?;

    let (seen, _fleet) = ground.end()?;
    let mut report = run.report(experiment);
    report.settings = settings(run, &plan);
    report.tables = vec![
        seen.watched.table("The load while servers come and go"),
        moves_table(&[(GROWING, grown_in, grown), (DRAINING, drained_in, drained)]),
    ];
    report.claims = vec![hits_claim(
        "keys found, lowest half second by before",
        &seen.watched,
    )];
    report.claims.extend(claims(&seen.watched, &seen.users));
    report.plots = vec![hits_plot(
        run.plot_name(experiment),
        experiment.title,
        vec![seen.watched.hits_curve("4, 8 and 4 servers")],
    )];
    report.note("Servers begin to leave at the same time, and are stopped when the last is empty. The load is a third of what \
         four servers can do.");
    Ok(report)
}
