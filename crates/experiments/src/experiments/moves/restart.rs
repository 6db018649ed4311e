//! Every server of a cluster restarted, one after the other: told to end, so that it hands over what it has, or killed.

use super::SOURCE;
use super::ground::{
    CHANGE_LIMIT, Ground, Moves, Seen, Size, claims, fleet_plan, hits_claim, moves_table, settings,
};
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::experiments::watch::{PART_COLUMNS, Part, hits_plot, part_row};
use crate::fleet::{Fleet, FleetPlan};
use crate::report::{Report, Table};
use crate::run::Run;
use evenkeel_coordinator_core::plans::PlanMode;
use evenkeel_hotkeys::config::Mode as Replicate;
use evenkeel_workload::Popularity;
use std::time::{Duration, Instant};

pub(in crate::experiments) const RESTART: Experiment = Experiment {
    name: "moves-restart",
    title: "A whole cluster restarted server by server, told to end or killed: hits over time",
    source: SOURCE,
    modes: &[Mode::Real],
    run: restart,
};

const SERVERS: usize = 4;

/// Cachelets of each worker: each takes part of a second to move, however small it is, and all of them move twice.
/// Few of them are uneven shares, and a worker that has too much fails requests without any move.
const CACHELETS_PER_WORKER: [usize; 4] = [8, 8, 16, 16];

const TOLD: &str = "each told to end";
const KILLED: &str = "each killed";

/// The parts.
const RESTARTING: &str = "restarting";
const AFTER: &str = "after";

fn restart(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let cachelets = run.by_scale(CACHELETS_PER_WORKER);
    let plan = FleetPlan {
        coordinator_flags: vec!["--cachelets-per-worker".into(), cachelets.to_string()],
        ..fleet_plan(SERVERS, Replicate::Off, PlanMode::Observe, false)
    };
    let told = restart_all(run, &plan, Fleet::stop_server)?;
    let killed = restart_all(run, &plan, Fleet::kill_server)?;
    let mut report = run.report(experiment);
    report.settings = settings(run, &plan);
    report
        .settings
        .push(("cachelets of each worker", cachelets.to_string()));
    let both = [(TOLD, &told), (KILLED, &killed)];
    let mut table = Table::new("The load while servers are restarted", PART_COLUMNS);
    for (label, restarted) in both {
        for part in &restarted.seen.watched.parts {
            table.row(part_row(&Part {
                label: format!("{label}: {}", part.label),
                ..part.clone()
            }));
        }
    }
    report.tables = vec![
        table,
        moves_table(&both.map(|(label, restarted)| (label, restarted.took, restarted.moves))),
    ];
    report.claims = vec![hits_claim(
        "keys found where servers are told, lowest half second by before",
        &told.seen.watched,
    )];
    report
        .claims
        .extend(claims(&told.seen.watched, &told.seen.users));
    report.plots = vec![hits_plot(
        run.plot_name(experiment),
        experiment.title,
        both.map(|(label, restarted)| restarted.seen.watched.hits_curve(label))
            .to_vec(),
    )];
    let (watched, users) = (&killed.seen.watched, &killed.seen.users);
    report.note(format!(
        "Where they are killed, {} requests failed, {} keys of users were gone, and the share that hits fell by {:.1} points.",
        watched.failed + users.failures,
        users.misses,
        watched.hit_points_lost()
    ));
    Ok(report)
}

struct Restarted {
    seen: Seen,
    /// From the first server's to the last's taking part again.
    took: Duration,
    moves: Moves,
}

/// Ends a server of this name, in one way or another.
type EndServer = fn(&mut Fleet, &str) -> anyhow::Result<()>;

fn restart_all(run: &Run, plan: &FleetPlan, end: EndServer) -> anyhow::Result<Restarted> {
    let size = Size::of(run);
    let mut ground = Ground::start(run, plan, Popularity::Zipf { exponent: 0.99 })?;
    ground.watch.go_on(size.rest)?;
    let before = ground.fleet.map()?;
    ground.watch.begin(RESTARTING);
    let begun = Instant::now();
    for name in ground.fleet.server_names() {
        run.progress.say(name.as_str());
        let life = ground.fleet.life(&name)?;
        end(&mut ground.fleet, &name)?;
        ground.fleet.start_server(&name)?;
        ground
            .watch
            .until("a server that is back", CHANGE_LIMIT, || {
                ground.fleet.life(&name).is_ok_and(|now| now != life)
                    && ground.fleet.is_even(SERVERS)
            })?;
    }
    let took = begun.elapsed();
    let moves = Moves::since(&ground.fleet, &before)?;
    ground.watch.begin(AFTER);
    ground.watch.go_on(size.rest)?;
    let (seen, _fleet) = ground.end()?;
    Ok(Restarted { seen, took, moves })
}
