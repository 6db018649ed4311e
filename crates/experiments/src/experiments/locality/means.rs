//! All five architectures, measured beside the model.
//!
//! Real memcacheds stand in racks with a known distance between them, or all of them on the backbone; items have copies in two of the racks, or each is held by the one that wrote it last, as notes or a directory say. What the model is given is that distance
//! and what a request takes besides, the base, which is measured first at a short distance to central servers. Then its means have to come out.

use super::ground::{Ground, Plan};
use super::{Experiment, RACKS, reads_and_sets};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use anyhow::{Context, ensure};
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_bench::{Driver, Latency, LoadPlan, LoadStats, Source, Stop};
use evenkeel_schemes::locality::model::{Architecture, Distances, Network, Racks, shipped};
use evenkeel_workload::{Arrivals, KeySizes, Mix, Popularity, Rate, ValueSizes, WorkloadSpec};
use std::time::Duration;

pub(in crate::experiments) const MEANS: Experiment = Experiment {
    name: "locality-means",
    title: "All five architectures, measured beside the model",
    source: "ours",
    modes: &[Mode::Real],
    run,
};

/// The points at which each is measured.
const RACKS_MEASURED: [usize; 2] = [4, 5];
const SWITCHES_MS: [f64; 3] = [0.5, 1.0, 2.0];
const READS: [f64; 2] = [0.5, 0.9];

/// What a switch takes, in ms, where the base is measured: nearly nothing, but something, since a path that holds bytes up at all costs
/// time of its own.
const BASE_SWITCH: f64 = 0.1;

/// Means within this of the model are as it says.
const ERROR_MAX: f64 = 0.1;

/// Bytes within this of each other are the same.
const BYTES_ERROR_MAX: f64 = 0.02;

/// Requests a second of each rack: so few that none waits for another.
const RATE: f64 = 60.0;

/// Connections of each rack's load: so many that two requests hardly ever want the same one.
const CONNECTIONS: usize = 64;
/// So few that each is read and written many times in a trial: copies are then there as often as they ever are.
const KEYS: u64 = 50;
/// Where one rack holds each item: so many that hardly any is read while it moves.
const KEYS_HELD: u64 = 500;
/// The most of such reads that may miss: they came while the item moved.
const MISSES_MAX: f64 = 0.02;
/// Writes that bring each of these items about as often into each rack, before anything is measured.
const WRITES_BEFORE: u64 = 3 * KEYS_HELD;
const KEY_LEN: u32 = 24;
/// As MediaWiki's objects (Figure 7).
const VALUE_LEN: u32 = 870;

/// What was measured at a point.
struct Point {
    racks: usize,
    switch: f64,
    reads: f64,
    architecture: Architecture,
    mean_ms: f64,
    model_ms: f64,
}

impl Point {
    fn error(&self) -> f64 {
        self.mean_ms / self.model_ms - 1.0
    }
}

fn run(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let mut report = run.report(experiment);
    let duration = Duration::from_millis(run.by_scale([300, 5_000, 15_000, 30_000]));
    let base = base(run, duration)?;
    report.settings = vec![
        (
            "memcacheds",
            "one a rack, or as many on the backbone; SDR has two copies, Dir a central directory"
                .into(),
        ),
        ("proxies", "one a rack".into()),
        ("load", format!("{RATE} requests/s a rack, uniform keys")),
        (
            "items",
            format!(
                "{KEYS} of {KEY_LEN} + {VALUE_LEN} B; {KEYS_HELD} with Snoop and Dir, each in any rack at first"
            ),
        ),
        ("trials", format!("{duration:?}")),
        (
            "base",
            format!("{base:.3} ms, measured at {BASE_SWITCH} ms a switch"),
        ),
    ];
    let mut points = Vec::new();
    let mut bytes_error = 0f64;
    for racks in RACKS_MEASURED {
        for switch in SWITCHES_MS {
            for architecture in Architecture::ALL {
                let network = Network { switch, base };
                let plan = Plan {
                    racks,
                    architecture,
                    former: None,
                    local_copies: None,
                    network: Network {
                        base: 0.0,
                        ..network
                    },
                };
                let ground = started(run, plan)?;
                for reads in READS {
                    points.push(Point {
                        racks,
                        switch,
                        reads,
                        architecture,
                        mean_ms: measured(run, &ground, reads, duration)?,
                        model_ms: model(architecture, reads, network, racks)?,
                    });
                }
                let (relayed, counted) = (ground.relayed(), ground.counted()?);
                for (relayed, counted) in relayed.into_iter().zip(counted) {
                    bytes_error = bytes_error.max((counted as f64 / relayed as f64 - 1.0).abs());
                }
            }
        }
    }
    let furthest = points.iter().map(|point| point.error().abs());
    let furthest = furthest.fold(0.0, f64::max);
    report.claims = vec![
        Claim::new(
            "a mean furthest from the model",
            "10 %",
            format!("{:.1} %", furthest * 100.0),
            Some(furthest <= ERROR_MAX),
        ),
        Claim::new(
            "bytes out of racks and into them, by proxies and by the relay",
            "within 2 %",
            format!("{:.2} %", bytes_error * 100.0),
            Some(bytes_error <= BYTES_ERROR_MAX),
        ),
    ];
    report.tables.push(table(&points));
    report.plots.push(plot(experiment, run, &points));
    report.notes.push(
        "The model knows what a switch takes and the base; it knows nothing of what was measured with distance. Means are of all racks' requests, as clients see them."
            .into(),
    );
    Ok(report)
}

/// What a request takes besides the distance, in ms.
fn base(run: &Run, duration: Duration) -> anyhow::Result<f64> {
    let network = Network {
        switch: BASE_SWITCH,
        base: 0.0,
    };
    let ground = started(
        run,
        Plan {
            racks: RACKS_MEASURED[1],
            architecture: Architecture::Sdc,
            former: None,
            local_copies: None,
            network,
        },
    )?;
    let means = READS.map(|reads| measured(run, &ground, reads, duration));
    let means = means.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    Ok(means.iter().sum::<f64>() / means.len() as f64 - network.across(2))
}

/// The mean of the model.
fn model(
    architecture: Architecture,
    reads: f64,
    network: Network,
    racks: usize,
) -> anyhow::Result<f64> {
    // All racks ask for all items, so that one that is held is in the own rack as often as in any other.
    let usage = reads_and_sets(reads, 0.0, 1.0 / racks as f64);
    let racks = Racks {
        racks: racks as u32,
        ..RACKS
    };
    shipped::mean(architecture, &usage, Distances::from(network), racks)
        .context("the network has a central rack")
}

fn is_held(architecture: Architecture) -> bool {
    matches!(architecture, Architecture::Snoop | Architecture::Dir)
}

fn keys(architecture: Architecture) -> u64 {
    match is_held(architecture) {
        true => KEYS_HELD,
        false => KEYS,
    }
}

fn workload(keys: u64, reads: f64, seed: u64) -> anyhow::Result<WorkloadSpec> {
    Ok(WorkloadSpec {
        keys: Some(keys),
        mix: Mix::gets(reads)?,
        key_sizes: KeySizes::fixed(KEY_LEN)?,
        value_sizes: ValueSizes::fixed(VALUE_LEN)?,
        // With popular keys it would matter in whose rack they are.
        popularity: Popularity::Uniform,
        seed,
        ..WorkloadSpec::default()
    })
}

/// A ground with all keys stored.
fn started(run: &Run, plan: Plan) -> anyhow::Result<Ground> {
    let Plan {
        racks,
        architecture,
        network,
        ..
    } = plan;
    let switch = network.switch;
    let text = format!("{racks} racks, {architecture}, {switch} ms a switch");
    run.progress.say(text);
    let ground = Ground::start(plan)?;
    let target = ground.targets().next().context("a rack")?;
    let filling = LoadPlan {
        pipeline: 16,
        ..LoadPlan::new(
            target,
            Source::Fill(workload(keys(architecture), 1.0, run.seed)?),
        )
    };
    let stored = Driver::start(filling)?.wait()?.counters.sets;
    ensure!(stored == keys(architecture), "{stored} keys were stored");
    if is_held(architecture) {
        let seconds = WRITES_BEFORE as f64 / (RATE * racks as f64);
        measured(run, &ground, 0.0, Duration::from_secs_f64(seconds))?;
    }
    Ok(ground)
}

/// The mean latency of all racks' requests, in ms.
fn measured(run: &Run, ground: &Ground, reads: f64, duration: Duration) -> anyhow::Result<f64> {
    let architecture = ground.architecture();
    let start = |(number, target)| {
        // Another one in each trial: by the same each rack would read what it wrote in the one before.
        let trial = (reads * 100.0) as u64;
        let seed = run.seed.wrapping_add(number + 1_000 * trial);
        Driver::start(LoadPlan {
            connections_per_thread: CONNECTIONS,
            pipeline: 1,
            pace: Arrivals::Poisson(Rate::Constant(RATE)),
            stop: Stop::after(duration),
            // Connections are opened.
            warm_up: duration / 3,
            seed,
            ..LoadPlan::new(
                target,
                Source::Generated(workload(keys(architecture), reads, seed)?),
            )
        })
    };
    let running = (1..).zip(ground.targets()).map(start);
    let mut stats = LoadStats::default();
    for load in running.collect::<anyhow::Result<Vec<_>>>()? {
        stats.add(&load.wait()?);
    }
    let counters = &stats.counters;
    let misses = counters.misses as f64 / counters.gets.max(1) as f64;
    let may_miss = match is_held(architecture) {
        true => MISSES_MAX,
        false => 0.0,
    };
    ensure!(
        counters.errors == 0 && misses <= may_miss && counters.wrong_values == 0,
        "{} errors, {} misses and {} wrong values",
        counters.errors,
        counters.misses,
        counters.wrong_values
    );
    Ok(Latency::new(&stats.latency()).latency_us_mean / 1000.0)
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "Means of a command",
        "racks|switch, ms|reads|architecture|measured, ms|model, ms|off",
    );
    for point in points {
        table.row([
            point.racks.to_string(),
            point.switch.to_string(),
            format!("{} %", point.reads * 100.0),
            point.architecture.to_string(),
            format!("{:.2}", point.mean_ms),
            format!("{:.2}", point.model_ms),
            format!("{:+.1} %", point.error() * 100.0),
        ]);
    }
    table
}

fn plot(experiment: &Experiment, run: &Run, points: &[Point]) -> Plot {
    let curves = Architecture::ALL.iter().flat_map(|&architecture| {
        let of = move |value: fn(&Point) -> f64| {
            let points = points.iter().filter(move |point| {
                point.architecture == architecture && point.racks == 5 && point.reads == READS[1]
            });
            points.map(|point| (point.switch, value(point))).collect()
        };
        [
            Curve::new(
                format!("{architecture}, measured"),
                of(|point| point.mean_ms),
            ),
            Curve::new(format!("{architecture}, model"), of(|point| point.model_ms)),
        ]
    });
    Plot {
        name: run.plot_name(experiment),
        title: experiment.title.into(),
        x: Axis::linear("switch, ms"),
        y: Axis::linear("mean of a command, ms"),
        curves: curves.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_four_racks_three_in_four_items_are_elsewhere() {
        let network = Network {
            switch: 1.0,
            base: 0.0,
        };
        let mean =
            |architecture, reads| model(architecture, reads, network, 4).expect("it is central");
        let elsewhere = 0.75 * 3.0;
        assert_eq!(mean(Architecture::Snoop, 1.0), 1.0 + elsewhere);
        assert_eq!(mean(Architecture::Dir, 1.0), 1.0 + 0.75 * 2.0 + elsewhere);
        assert_eq!(mean(Architecture::Sdc, 0.5), 2.0);
    }
}
