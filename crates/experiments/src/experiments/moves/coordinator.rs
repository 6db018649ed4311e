//! A coordinator that is away for a while, and what happens when it is back.

use super::SOURCE;
use super::ground::{CHANGE_LIMIT, Ground, Moves, Size, claims, fleet_plan, moves_table, settings};
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::report::{Claim, Report};
use crate::run::Run;
use evenkeel_coordinator_core::plans::PlanMode;
use evenkeel_hotkeys::config::Mode as Replicate;
use evenkeel_types::map::ClusterMap;
use evenkeel_workload::Popularity;
use std::time::Duration;

pub(in crate::experiments) const COORDINATOR: Experiment = Experiment {
    name: "moves-coordinator",
    title: "A coordinator that is away: requests that fail, and what moves when it is back",
    source: SOURCE,
    modes: &[Mode::Real],
    run: coordinator,
};

const SERVERS: usize = 4;

const AWAY: &str = "away";
const BACK: &str = "back";

/// Of all data, what may move when it is back: as much as one plan.
const MOVED_MAX: f64 = 0.01;

fn coordinator(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size::of(run);
    let away = Duration::from_secs(run.by_scale([5, 20, 600, 600]));
    // Longer than it takes until a server counts as dead, and a plan is made.
    let back = Duration::from_secs(run.by_scale([5, 8, 60, 60]));
    let plan = fleet_plan(SERVERS, Replicate::On, PlanMode::Automatic, true);
    let mut ground = Ground::start(run, &plan, Popularity::Zipf { exponent: 0.99 })?;
    ground.watch.go_on(size.rest)?;

    run.progress
        .say(format!("the coordinator is away for {away:?}"));
    let before = ground.fleet.map()?;
    ground.watch.begin(AWAY);
    ground.fleet.stop_coordinator()?;
    ground.watch.go_on(away)?;

    run.progress.say("the coordinator is back");
    ground.watch.begin(BACK);
    ground.fleet.start_coordinator()?;
    ground.watch.go_on(back)?;
    ground
        .watch
        .until("servers that work by the map", CHANGE_LIMIT, || {
            ground.fleet.works_by_one_map()
        })?;
    let (after, moves) = (ground.fleet.map()?, Moves::since(&ground.fleet, &before)?);
    let votes = ground.fleet.count("leases_by_votes")?;
    let lost = ground.fleet.count("leases_lost")?;
    let data = ground.fleet.bytes()?;

    let (seen, _fleet) = ground.end()?;
    let others = other_owners(&before, &after);
    let moved = moves.bytes as f64 / data.max(1) as f64;
    let mut report = run.report(experiment);
    report.settings = settings(run, &plan);
    report
        .settings
        .push(("coordinator away", format!("{away:?}")));
    report.tables = vec![
        seen.watched
            .table("The load without a coordinator and after"),
        moves_table(&[("since it went", away + back, moves)]),
    ];
    report.claims = vec![Claim::new(
        "data that moved when it was back",
        "target: no mass move",
        format!(
            "{:.2} %, {others} cachelets with another owner",
            100.0 * moved
        ),
        Some(moved <= MOVED_MAX && moves.emptied == 0),
    )];
    report.claims.extend(claims(&seen.watched, &seen.users));
    report.note(format!(
        "Servers got {votes} leases by the votes of others, and lost {lost}. All phases of balancing are on, and plans \
         are executed: what moved is what one plan may move at most."
    ));
    Ok(report)
}

/// Cachelets that have another owner in the second map.
fn other_owners(before: &ClusterMap, after: &ClusterMap) -> usize {
    let owners = |map: &ClusterMap| map.document().cachelets.clone();
    let (before, after) = (owners(before), owners(after));
    before
        .iter()
        .zip(&after)
        .filter(|(one, two)| one != two)
        .count()
}
