//! What copies in the racks that read save, with popular keys, and what they cost where half of the commands write.

use super::Experiment;
use super::ground::{Ground, Plan};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use anyhow::{Context, ensure};
use evenkeel_bench::{Driver, Latency, LoadPlan, LoadStats, Source, Stop};
use evenkeel_schemes::locality::model::{Architecture, Network};
use evenkeel_workload::{Arrivals, KeySizes, Mix, Popularity, Rate, ValueSizes, WorkloadSpec};
use std::time::Duration;

pub(in crate::experiments) const LOCAL_COPIES: Experiment = Experiment {
    name: "locality-copies",
    title: "Copies in the racks that read",
    source: "7.3, not measured there",
    modes: &[Mode::Real],
    run,
};

const RACKS: usize = 5;

/// What a switch takes, in ms.
const SWITCH_MS: f64 = 1.0;

/// Requests a second of each rack.
const RATE: f64 = 1_500.0;
const CONNECTIONS: usize = 32;
const READS: [f64; 2] = [0.95, 0.5];
const ARCHITECTURES: [Architecture; 2] = [Architecture::Snoop, Architecture::Dir];

const KEYS: u64 = 1_000;
const ALPHA: f64 = 0.99;
const KEY_LEN: u32 = 24;
const VALUE_LEN: u32 = 200;

/// How old copies may be: none are kept, as long as where nothing is said, and longer.
const TTLS: [Option<&str>; 3] = [None, Some("1s"), Some("10s")];

/// Writes that bring items into racks before anything is measured, of each rack.
const BEFORE: Duration = Duration::from_secs(3);

/// Of nearly all reads this many are to be answered in the own rack, where copies may be ten seconds old.
const NEAR_MIN: f64 = 0.7;
/// Where half write, a mean may be this much longer than without copies.
const WORSE_MAX: f64 = 0.02;

/// What was measured.
struct Cell {
    architecture: Architecture,
    reads: f64,
    ttl: Option<&'static str>,
    /// The part of the hits that the own rack has answered.
    near: f64,
    mean_ms: f64,
    p99_ms: f64,
    /// Copies that were shown and stored, of all hits.
    shown: f64,
    stored: f64,
    /// The part of the commands that were refused, because other racks kept changing their keys.
    busy: f64,
}

fn run(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let duration = Duration::from_millis(run.by_scale([300, 10_000, 30_000, 60_000]));
    let mut cells = Vec::new();
    for architecture in ARCHITECTURES {
        for reads in READS {
            for ttl in TTLS {
                cells.push(cell(run, (architecture, reads, ttl), duration)?);
            }
        }
    }
    let mut report = run.report(experiment);
    report.settings = vec![
        (
            "memcacheds",
            "one a rack; one on the backbone for the directory".into(),
        ),
        (
            "racks",
            format!("{RACKS}, with a proxy each; {SWITCH_MS} ms a switch"),
        ),
        (
            "load",
            format!("{RATE} requests/s a rack, Zipf {ALPHA} over {KEYS} keys"),
        ),
        ("items", format!("{KEY_LEN} + {VALUE_LEN} B")),
        ("each load", format!("{duration:?}")),
    ];
    report.tables.push(table(&cells));
    report.claims = claims(&cells);
    report.notes.push(
        "Reads near are the hits that the own rack has answered, be it the holder or by a copy. Means are of all commands. A write is busy when other racks have changed its key four times while it was on its way.".into(),
    );
    Ok(report)
}

fn claims(cells: &[Cell]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for architecture in ARCHITECTURES {
        let of = |reads: f64, ttl: Option<&str>| {
            let mut cells = cells
                .iter()
                .filter(|cell| cell.architecture == architecture);
            cells.find(|cell| cell.reads == reads && cell.ttl == ttl)
        };
        let longest = TTLS[TTLS.len() - 1];
        if let Some(cell) = of(READS[0], longest) {
            claims.push(Claim::new(
                &format!("{architecture}: hits of the own rack, 95 % reads"),
                &format!("{NEAR_MIN}"),
                format!("{:.2}", cell.near),
                Some(cell.near >= NEAR_MIN),
            ));
        }
        for ttl in TTLS.iter().filter(|ttl| ttl.is_some()) {
            if let (Some(off), Some(on)) = (of(READS[1], None), of(READS[1], *ttl)) {
                let worse = on.mean_ms / off.mean_ms - 1.0;
                claims.push(Claim::new(
                    &format!(
                        "{architecture}: mean with copies of {}, 50 % reads",
                        ttl.unwrap_or_default()
                    ),
                    "at most 2 % worse than without",
                    format!("{:+.1} %", 100.0 * worse),
                    Some(worse <= WORSE_MAX),
                ));
            }
        }
    }
    claims
}

fn table(cells: &[Cell]) -> Table {
    let mut table = Table::new(
        "Reads near, and what a command takes",
        "architecture|reads|copies may be|reads near|mean, ms|p99, ms|answered by copies|copies stored, of hits|busy",
    );
    for cell in cells {
        table.row([
            cell.architecture.to_string(),
            format!("{} %", cell.reads * 100.0),
            cell.ttl.map_or("none".into(), |ttl| format!("{ttl} old")),
            format!("{:.1} %", 100.0 * cell.near),
            format!("{:.2}", cell.mean_ms),
            format!("{:.1}", cell.p99_ms),
            format!("{:.1} %", 100.0 * cell.shown),
            format!("{:.2} %", 100.0 * cell.stored),
            format!("{:.2} %", 100.0 * cell.busy),
        ]);
    }
    table
}

fn workload(reads: f64, seed: u64) -> anyhow::Result<WorkloadSpec> {
    Ok(WorkloadSpec {
        keys: Some(KEYS),
        mix: Mix::gets(reads)?,
        key_sizes: KeySizes::fixed(KEY_LEN)?,
        value_sizes: ValueSizes::fixed(VALUE_LEN)?,
        popularity: Popularity::Zipf { exponent: ALPHA },
        seed,
        ..WorkloadSpec::default()
    })
}

fn cell(
    run: &Run,
    (architecture, reads, ttl): (Architecture, f64, Option<&'static str>),
    duration: Duration,
) -> anyhow::Result<Cell> {
    run.progress
        .say(format!("{architecture}, {reads} reads, copies {ttl:?}"));
    let ground = Ground::start(Plan {
        racks: RACKS,
        architecture,
        former: None,
        network: Network {
            switch: SWITCH_MS,
            base: 0.0,
        },
        local_copies: ttl,
    })?;
    let target = ground.targets().next().context("a rack")?;
    let filling = LoadPlan {
        pipeline: 16,
        ..LoadPlan::new(target, Source::Fill(workload(1.0, run.seed)?))
    };
    let stored = Driver::start(filling)?.wait()?.counters.sets;
    ensure!(stored == KEYS, "{stored} keys were stored");
    under_load(run, &ground, (1, 0.0), BEFORE)?;
    let names = [
        ("", "get_hits"),
        ("proxy", "crossing_hits"),
        ("proxy", "local_copies_shown"),
        ("proxy", "local_copies_stored"),
    ];
    let count = || {
        let counts = names.map(|(list, name)| ground.count(list, name));
        counts.into_iter().collect::<anyhow::Result<Vec<_>>>()
    };
    let before = count()?;
    let stats = under_load(run, &ground, (2, reads), duration)?;
    let counted: Vec<f64> = count()?
        .iter()
        .zip(before)
        .map(|(now, before)| (now - before) as f64)
        .collect();
    let of_hits = |number: usize| counted[number] / counted[0].max(1.0);
    let latency = Latency::new(&stats.latency());
    Ok(Cell {
        architecture,
        reads,
        ttl,
        near: 1.0 - of_hits(1),
        mean_ms: latency.latency_us_mean / 1000.0,
        p99_ms: latency.latency_us_p99 / 1000.0,
        shown: of_hits(2),
        stored: of_hits(3),
        busy: stats.counters.errors as f64 / stats.counters.requests.max(1) as f64,
    })
}

/// What all racks' loads have seen.
fn under_load(
    run: &Run,
    ground: &Ground,
    (number, reads): (u64, f64),
    duration: Duration,
) -> anyhow::Result<LoadStats> {
    let start = |(rack, target)| {
        let seed = run.seed.wrapping_add(1_000 * number + rack);
        Driver::start(LoadPlan {
            connections_per_thread: CONNECTIONS,
            pipeline: 1,
            pace: Arrivals::Poisson(Rate::Constant(RATE)),
            stop: Stop::after(duration),
            // Copies are there.
            warm_up: duration / 3,
            seed,
            ..LoadPlan::new(target, Source::Generated(workload(reads, seed)?))
        })
    };
    let running = (1..).zip(ground.targets()).map(start);
    let mut stats = LoadStats::default();
    for load in running.collect::<anyhow::Result<Vec<_>>>()? {
        stats.add(&load.wait()?);
    }
    let counters = &stats.counters;
    ensure!(
        counters.wrong_values == 0,
        "{} wrong values",
        counters.wrong_values
    );
    Ok(stats)
}
