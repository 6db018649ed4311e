//! Loads without a single hot key, which replicas cannot even out: cachelets have to move, within servers and between
//! them. With the settings that a cluster starts with.

mod cell;
mod keys;
mod seen;

use self::cell::{CELLS, Cell, Shape};
use self::keys::{keys_of, write_requests};
use self::seen::{AFTER, BEFORE, Look, SHIFT, Seen, claims, table};
use crate::args::{Mode, Scale};
use crate::experiments::Experiment;
use crate::experiments::watch::Watch;
use crate::fleet::{Fleet, LoadSpec, PIPELINE};
use crate::report::Report;
use crate::run::Run;
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_bench::{LoadHandle, Target};
use evenkeel_types::{CacheletId, WorkerRef};
use evenkeel_workload::Popularity;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(in crate::experiments) const PHASES: Experiment = Experiment {
    name: "phases",
    title: "Lukewarm keys, hot regions, hot cachelets, slow servers: how soon and how far the load is evened out",
    source: "ours, after MBal",
    modes: &[Mode::Real],
    run: phases,
};

/// Length of each key and value, in bytes.
const KEY_LEN: usize = 24;
const VALUE_LEN: usize = 1_000;

/// Connections of the load on all keys, and of that on some.
const CONNECTIONS: usize = 32;

/// Distance of looks at loads.
const STEP: Duration = Duration::from_millis(500);

/// How much there is of everything.
#[derive(Clone, Copy, Debug)]
struct Size {
    keys: u64,
    before: Duration,
    /// How long a load stays, and how much of that counts as its beginning.
    stays: Duration,
    begins: Duration,
    cells: usize,
}

impl Size {
    fn of(run: &Run) -> Size {
        let ms = |values| Duration::from_millis(run.by_scale(values));
        Size {
            keys: run.by_scale([500, 20_000, 20_000, 200_000]),
            before: ms([500, 4_000, 8_000, 8_000]),
            stays: ms([1_500, 25_000, 40_000, 60_000]),
            begins: ms([500, 10_000, 10_000, 10_000]),
            cells: run.by_scale([1, usize::MAX, usize::MAX, usize::MAX]),
        }
    }
}

fn phases(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let size = Size::of(run);
    let wanted = |cell: &&Cell| {
        let name = cell.to_string();
        run.cells.is_empty() || run.cells.iter().any(|word| name.contains(word.as_str()))
    };
    let mut seen = Vec::new();
    for cell in CELLS.iter().filter(wanted).take(size.cells) {
        run.progress.say(cell.to_string());
        seen.push(measure(run, &size, cell)?);
    }
    let mut report = run.report(experiment);
    report.settings = vec![
        (
            "servers",
            format!("of workers of {} keys/s", cell::CAPACITY),
        ),
        ("data", format!("{} keys of {VALUE_LEN} bytes", size.keys)),
    ];
    report.tables = vec![table(&seen)];
    if run.scale != Scale::Quick {
        report.claims = claims(&seen);
    }
    let curve = |seen: &Seen| Curve::new(seen.cell.to_string(), seen.curve());
    report.plots = vec![Plot {
        name: run.plot_name(experiment),
        title: experiment.title.to_owned(),
        x: Axis::linear("seconds since some keys became warm"),
        y: Axis::linear("busiest worker's load by the mean"),
        curves: seen.iter().map(curve).collect(),
    }];
    report.note("Loads of workers are averages with a time constant of 1.5 s. Latencies are those of a load on all keys alike.");
    Ok(report)
}

fn measure(run: &Run, size: &Size, cell: &Cell) -> anyhow::Result<Seen> {
    let keys = size.keys * cell.data_factor();
    let fleet = Fleet::start(&cell.plan(keys * VALUE_LEN as u64, 3 * CONNECTIONS))?;
    let load = base_load(keys, run.seed);
    load.fill(&fleet)?;
    let targets: Vec<Target> = fleet.targets().collect();
    let base = load.start(&targets, cell.base_rate(), None)?;
    let mut watch = Watch::start(base, STEP, BEFORE);
    watch.go_on(size.before)?;
    let data = fleet.bytes()?;
    watch.begin(SHIFT);
    let begun = Instant::now();
    let mut looks = Vec::new();
    for turn in 0..cell.turns() {
        let folder = TempDir::new()?;
        let warm = warm_load(&fleet, cell, &load, turn, &folder)?;
        let turned = Instant::now();
        let mut is_beginning = turn == 0;
        while turned.elapsed() < size.stays {
            watch.go_on(STEP)?;
            looks.push(Look {
                seconds: begun.elapsed().as_secs_f64(),
                since_turn: turned.elapsed().as_secs_f64(),
                loads: fleet.loads_of_workers()?,
            });
            if is_beginning && turned.elapsed() >= size.begins {
                watch.begin(AFTER);
                is_beginning = false;
            }
        }
        for load in warm {
            load.stop()?;
        }
    }
    let moved = fleet.bytes_moved()?;
    Ok(Seen {
        cell: *cell,
        looks,
        stays: size.stays,
        watched: watch.end()?,
        moved: moved as f64 / data.max(1) as f64,
    })
}

/// On all keys alike.
fn base_load(keys: u64, seed: u64) -> LoadSpec {
    LoadSpec {
        keys,
        prefix: "k:".into(),
        key_len: KEY_LEN,
        value_len: VALUE_LEN,
        popularity: Popularity::Uniform,
        get_share: 0.95,
        cache_aside: true,
        read_only: None,
        reshuffle: None,
        connections: CONNECTIONS,
        pipeline: PIPELINE,
        warm_up: Duration::ZERO,
        duration: Duration::ZERO,
        seed,
    }
}

/// On the keys that become warm in this turn; none where the servers differ and not the keys.
fn warm_load(
    fleet: &Fleet,
    cell: &Cell,
    load: &LoadSpec,
    turn: usize,
    folder: &TempDir,
) -> anyhow::Result<Vec<LoadHandle>> {
    let map = fleet.map()?;
    let of_worker = |server: usize, worker: u16| -> Vec<CacheletId> {
        let id = map.servers()[server].id;
        let at = WorkerRef { server: id, worker };
        map.cachelets_of(at).collect()
    };
    let all = |groups: std::collections::BTreeMap<CacheletId, Vec<String>>| -> Vec<String> {
        groups.into_values().flatten().collect()
    };
    let groups = match cell.shape {
        Shape::Slow => return Ok(Vec::new()),
        Shape::OneServer | Shape::Full | Shape::Drift => {
            let server = turn % cell.servers;
            let its = (0..cell.workers).flat_map(|worker| of_worker(server, worker));
            let keys = keys_of(&map, &its.collect::<Vec<_>>(), cell::LUKEWARM)?;
            vec![(1.0, all(keys))]
        }
        Shape::Region => {
            let count = map.document().cachelets.len();
            let region = (0..count / cell::REGION_PART).map(|id| CacheletId(id as u16));
            let keys = keys_of(&map, &region.collect::<Vec<_>>(), cell::REGION_KEYS)?;
            vec![(1.0, all(keys))]
        }
        Shape::Cachelets => {
            let workers = (0..cell.servers).flat_map(|s| (0..cell.workers).map(move |w| (s, w)));
            let first = workers.map(|(server, worker)| of_worker(server, worker)[0]);
            let first: Vec<CacheletId> = first.collect();
            let keys = keys_of(&map, &first, cell::LUKEWARM * first.len())?;
            let weighted = keys.into_values().enumerate();
            weighted.map(|(place, keys)| (place as f64, keys)).collect()
        }
    };
    let requests = folder.path().join("requests");
    write_requests(&requests, &groups, load.seed)?;
    let targets: Vec<Target> = fleet.targets().collect();
    load.start_by(&targets, Some(cell.warm_rate()), Some(&requests), None)
}
