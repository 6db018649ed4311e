//! A cachelet of 64 MB that passes to another server under load, again and again: how long it takes, and what the
//! others notice.

use super::{GET_SHARE, KEY_LEN, SOURCE};
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::experiments::watch::{PART_COLUMNS, Part, Watch, part_row};
use crate::fleet::{Fleet, FleetPlan, LoadSpec, PIPELINE, Smallness};
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use anyhow::Context;
use evenkeel_bench::{Target, median};
use evenkeel_coordinator_core::{
    EndedMigration, MigrationEnd, MigrationRequest, WorkerName, limits,
};
use evenkeel_types::CacheletId;
use evenkeel_workload::Popularity;
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

pub(in crate::experiments) const CACHELET: Experiment = Experiment {
    name: "moves-cachelet",
    title: "A cachelet of 64 MB moves to another server under load: time, and latency meanwhile",
    source: SOURCE,
    modes: &[Mode::Real],
    run: cachelet,
};

/// Two servers of one worker, with few and therefore large cachelets.
const SERVERS: usize = 2;
const CACHELETS_PER_WORKER: usize = 4;
const VALUE_LEN: usize = 1_000;
const MEMORY_MB: usize = 2_048;
const CONNECTIONS: usize = 32;

/// What is copied in a second at most; 0 for no limit.
const FREE: (&str, u64) = ("no limit", 0);
const SHIPPED: (&str, u64) = ("128 MiB/s, as shipped", limits::MIGRATION_BYTES_PER_SECOND);
const SLOW: (&str, u64) = ("16 MiB/s", 16 << 20);

/// The targets.
const SECONDS: f64 = 1.0;
const TIMES_P99: f64 = 2.0;

/// Longest time for one move.
const MOVE_LIMIT: Duration = Duration::from_secs(120);

/// Time of the load that is not looked at.
const WARM_UP: Duration = Duration::from_millis(1_000);

/// The load is looked at in moments of this length.
const STEP: Duration = Duration::from_millis(250);

/// Parts: nothing moves, and something does; the label of the limit stands before.
const STILL: &str = "still";
const MOVING: &str = "moving";

/// How much there is of everything.
#[derive(Clone, Copy, Debug)]
struct Size {
    keys: u64,
    requests_per_second: f64,
    /// Moves with each limit.
    moves: usize,
    /// Time between two moves.
    rest: Duration,
}

impl Size {
    fn of(run: &Run) -> Size {
        Size {
            keys: run.by_scale([4_000, 500_000, 500_000, 4_000_000]),
            requests_per_second: run.by_scale([500.0, 10_000.0, 40_000.0, 40_000.0]),
            moves: run.by_scale([1, 6, 10, 10]),
            rest: Duration::from_secs(run.by_scale([1, 1, 5, 5])),
        }
    }
}

/// Moves with one limit.
struct Moved {
    label: &'static str,
    /// Those that passed.
    passed: Vec<EndedMigration>,
    /// Microseconds for which a cachelet was served by nobody, on average.
    unserved_us: f64,
}

/// The same with the load while nothing moved, and while something did.
struct Seen {
    moved: Moved,
    still: Part,
    moving: Part,
    /// The 99th percentile while something moves by when nothing does: the median over the moves, each beside the rest
    /// before it. A machine has bad moments, and one of them in either part would decide what they all show together.
    times_p99: f64,
}

fn cachelet(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size::of(run);
    run.progress.say("starting");
    let fleet = Fleet::start(&fleet_plan())?;
    run.progress.say("filling");
    let load = load(run, &size);
    load.fill(&fleet)?;
    let targets: Vec<Target> = fleet.targets().collect();
    let running = load.start(&targets, size.requests_per_second, None)?;
    thread::sleep(WARM_UP);
    let mut watch = Watch::start(running, STEP, "begun");
    let moved = [FREE, SHIPPED, SLOW]
        .into_iter()
        .map(|(label, limit)| {
            run.progress.say(format!("moving with {label}"));
            move_often(&fleet, &mut watch, &size, label, limit)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let watched = watch.end()?;
    let (failed, wrong) = (watched.failed, watched.wrong_values);
    let times_p99 = |label: &str| {
        let of = |what| {
            let name = part_name(label, what);
            let parts = watched.parts.iter().filter(move |part| part.label == name);
            parts.map(|part| part.latency_us(0.99))
        };
        let times = of(MOVING).zip(of(STILL));
        median(times.map(|(moving, still)| moving / still).collect())
    };
    let times: BTreeMap<_, _> = moved
        .iter()
        .map(|moved| (moved.label, times_p99(moved.label)))
        .collect();
    let parts = watched.joined();
    let seen = moved
        .into_iter()
        .map(|moved| {
            let part = |what| {
                let name = part_name(moved.label, what);
                let part = parts.iter().find(|part| part.label == name);
                part.cloned().context("each part has been begun")
            };
            let (still, moving) = (part(STILL)?, part(MOVING)?);
            Ok(Seen {
                times_p99: times[moved.label],
                moved,
                still,
                moving,
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut report = run.report(experiment);
    report.settings = settings(&size);
    report.tables = tables(&seen);
    report.claims = claims(&seen);
    report.claims.push(Claim::new(
        "requests that failed, and values that nobody wrote",
        "target: none",
        format!("{failed}, {wrong}"),
        Some(failed + wrong == 0),
    ));
    report.note("Latencies are of all keys, those of the cachelet that moves among them: an eighth. Figures of the load come ten \
         times a second, so that a tenth of a second before a move counts to it.");
    report.note("The time is the coordinator's, from the order until both servers' heartbeats have told the end, a tenth of a \
         second apart.");
    Ok(report)
}

fn part_name(label: &str, what: &str) -> String {
    format!("{label}: {what}")
}

fn fleet_plan() -> FleetPlan {
    FleetPlan {
        servers: SERVERS,
        memory_mb: MEMORY_MB,
        coordinator_flags: vec![
            "--cachelets-per-worker".into(),
            CACHELETS_PER_WORKER.to_string(),
        ],
        connections: 2 * CONNECTIONS,
        ..FleetPlan::default()
    }
}

fn load(run: &Run, size: &Size) -> LoadSpec {
    LoadSpec {
        keys: size.keys,
        prefix: "m:".into(),
        key_len: KEY_LEN,
        value_len: VALUE_LEN,
        popularity: Popularity::Uniform,
        get_share: GET_SHARE,
        cache_aside: false,
        read_only: None,
        reshuffle: None,
        connections: CONNECTIONS,
        pipeline: PIPELINE,
        warm_up: WARM_UP,
        duration: Duration::ZERO,
        seed: run.seed,
    }
}

/// Moves a cachelet to and fro with a limit, and looks at the load between and while.
fn move_often(
    fleet: &Fleet,
    watch: &mut Watch,
    size: &Size,
    label: &'static str,
    limit: u64,
) -> anyhow::Result<Moved> {
    let unserved = || fleet.count("migration_pass_us");
    let before = unserved()?;
    let mut passed = Vec::new();
    for _ in 0..size.moves {
        watch.begin(&part_name(label, STILL));
        watch.go_on(size.rest)?;
        watch.begin(&part_name(label, MOVING));
        passed.extend(move_once(fleet, watch, limit)?);
    }
    let unserved_us = (unserved()? - before) as f64 / passed.len().max(1) as f64;
    Ok(Moved {
        label,
        passed,
        unserved_us,
    })
}

/// Moves a cachelet to the other server and waits for the end; nothing if it came to nothing.
fn move_once(
    fleet: &Fleet,
    watch: &mut Watch,
    limit: u64,
) -> anyhow::Result<Option<EndedMigration>> {
    let (map, cachelet) = (fleet.map()?, CacheletId(0));
    let owner = map.owner(cachelet).context("the cachelet has an owner")?;
    let other = map.servers_up().find(|server| server.id != owner.server);
    fleet.order_move(&MigrationRequest {
        cachelet,
        to: WorkerName {
            server: other.context("there is another server")?.name.clone(),
            worker: 0,
        },
        bytes_per_second: limit,
    })?;
    watch.until("the end of a move", MOVE_LIMIT, || {
        let migrations = fleet.migrations();
        migrations.is_ok_and(|view| view.migrations.is_empty())
    })?;
    let ended = fleet.migrations()?.ended.into_iter().next_back();
    Ok(ended.filter(|ended| ended.end == MigrationEnd::Moved))
}

impl Moved {
    fn seconds(&self) -> f64 {
        median(self.passed.iter().map(|ended| ended.seconds).collect())
    }

    fn bytes(&self) -> f64 {
        median(self.passed.iter().map(|ended| ended.bytes as f64).collect())
    }
}

fn settings(size: &Size) -> Vec<(&'static str, String)> {
    vec![
        (
            "servers",
            format!(
                "{SERVERS} of one worker {}, {CACHELETS_PER_WORKER} cachelets each",
                Smallness::Not
            ),
        ),
        (
            "data",
            format!(
                "{} keys of {KEY_LEN} bytes with {VALUE_LEN} bytes",
                size.keys
            ),
        ),
        (
            "load",
            format!(
                "{:.0} requests/s through a proxy, {:.0} % gets, all keys alike",
                size.requests_per_second,
                100.0 * GET_SHARE
            ),
        ),
        ("moves with each limit", size.moves.to_string()),
    ]
}

fn tables(seen: &[Seen]) -> Vec<Table> {
    let columns = "copied at most|moved|MB each|seconds, median|MB/s|µs unserved|p99 while it moves, by before (median)";
    let mut moves = Table::new("Moves of a cachelet", columns);
    let mut latencies = Table::new("The load", PART_COLUMNS);
    for one in seen {
        let moved = &one.moved;
        moves.row([
            moved.label.to_owned(),
            moved.passed.len().to_string(),
            format!("{:.1}", moved.bytes() / 1e6),
            format!("{:.2}", moved.seconds()),
            format!("{:.0}", moved.bytes() / 1e6 / moved.seconds()),
            format!("{:.0}", moved.unserved_us),
            format!("{:.2}", one.times_p99),
        ]);
        latencies.row(part_row(&one.still));
        latencies.row(part_row(&one.moving));
    }
    vec![moves, latencies]
}

fn claims(seen: &[Seen]) -> Vec<Claim> {
    let free = seen.iter().find(|one| one.moved.label == FREE.0);
    let quick = free.map(|Seen { moved, .. }| {
        Claim::new(
            &format!(
                "seconds for a cachelet of {:.0} MB, {}",
                moved.bytes() / 1e6,
                FREE.0
            ),
            &format!("5 to 6; target: at most {SECONDS}"),
            format!("{:.2}", moved.seconds()),
            Some(!moved.passed.is_empty() && moved.seconds() <= SECONDS),
        )
    });
    let latencies = seen.iter().map(|one| {
        Claim::new(
            &format!("p99 while it moves, by before, {}", one.moved.label),
            &format!("target: below {TIMES_P99}"),
            format!("{:.2}", one.times_p99),
            Some(one.times_p99 < TIMES_P99),
        )
    });
    quick.into_iter().chain(latencies).collect()
}
