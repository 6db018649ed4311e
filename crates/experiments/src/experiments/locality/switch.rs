//! One architecture takes the place of another under load, at the same servers: each pair of them.
//!
//! A pool of either is started in racks with a proxy each, and all keys are stored. Then a load goes on while the coordinator leads the pool to the
//! other: for as long before anything is led, from the beginning of the change on, and from its end on.

use super::Experiment;
use super::ground::{Ground, Plan};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use anyhow::{Context, ensure};
use evenkeel_bench::{Driver, Latency, LoadPlan, LoadStats, Source, Stop};
use evenkeel_coordinator_core::Stage;
use evenkeel_schemes::locality::model::{Architecture, Network};
use evenkeel_workload::{Arrivals, KeySizes, Mix, Popularity, Rate, ValueSizes, WorkloadSpec};
use std::thread;
use std::time::Duration;

pub(in crate::experiments) const SWITCH: Experiment = Experiment {
    name: "locality-switch",
    title: "From one architecture to another while it serves",
    source: "ours",
    modes: &[Mode::Real],
    run,
};

const RACKS: usize = 3;

/// What a switch takes, in ms.
const SWITCH_MS: f64 = 0.2;

/// Requests a second of each rack.
const RATE: f64 = 300.0;
const CONNECTIONS: usize = 32;
const READS: f64 = 0.9;

/// So few that each is asked for many times before the change ends.
const KEYS: u64 = 200;

/// Connections are opened before anything is led.
const WARM_UP: Duration = Duration::from_millis(500);

/// The most by which hits may fall, in points, and a p99 may rise, in ms.
const POINTS_MAX: f64 = 1.0;
const HELD_MS_MAX: f64 = 20.0;

/// What a load has seen.
struct Seen {
    hits: f64,
    p99_ms: f64,
    slowest_ms: f64,
    failed: u64,
}

/// What a change has cost.
struct Cost {
    from: Architecture,
    to: Architecture,
    /// Before, from its beginning on, and from its end on.
    seen: [Seen; 3],
    /// How long it took until all proxies bring items, and until all have ended it.
    led: [Duration; 2],
    /// Hits that the former architecture had of those from the beginning on.
    former_hits: u64,
}

fn run(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let duration = Duration::from_millis(run.by_scale([1_000, 4_000, 10_000, 20_000]));
    let pairs = Architecture::ALL.iter().flat_map(|&from| {
        let others = Architecture::ALL.iter().filter(move |&&to| to != from);
        // SDR is SDS whose copies are switched on.
        let others = others.filter(|&&to| to != Architecture::Sdr);
        others.map(move |&to| (from, to))
    });
    let mut costs = Vec::new();
    for (from, to) in pairs {
        let label = format!("{from} to {to}");
        if !run.cells.is_empty() && !run.cells.iter().any(|cell| label.contains(cell)) {
            continue;
        }
        run.progress.say(label);
        costs.push(cost(run, (from, to), duration)?);
    }
    let mut report = run.report(experiment);
    report.settings = vec![
        (
            "memcacheds",
            "one a rack, as many on the backbone with SDC; one for the directory".into(),
        ),
        (
            "racks",
            format!("{RACKS}, with a proxy each; {SWITCH_MS} ms a switch"),
        ),
        (
            "load",
            format!("{RATE} requests/s a rack, {READS} of them gets, uniform keys"),
        ),
        ("items", KEYS.to_string()),
        ("each load", format!("{duration:?}")),
    ];
    report.tables.push(table(&costs));
    report.claims = claims(&costs);
    report.notes.push(
        "Led to warming and to done is the time from the order until all proxies have acknowledged. Hits of the former architecture are those from the beginning of the change to its end."
            .into(),
    );
    Ok(report)
}

fn claims(costs: &[Cost]) -> Vec<Claim> {
    let worst = |of: fn(&Cost) -> f64| costs.iter().map(of).fold(0.0, f64::max);
    let failed: u64 = costs
        .iter()
        .flat_map(|cost| &cost.seen)
        .map(|seen| seen.failed)
        .sum();
    let lost = worst(|cost| {
        let after = cost.seen[1..].iter().map(|seen| seen.hits);
        100.0 * (cost.seen[0].hits - after.fold(1.0, f64::min))
    });
    let held = worst(|cost| {
        let after = cost.seen[1..].iter().map(|seen| seen.p99_ms);
        after.fold(0.0, f64::max) - cost.seen[0].p99_ms
    });
    vec![
        Claim::new(
            "failed requests",
            "0",
            failed.to_string(),
            Some(failed == 0),
        ),
        Claim::new(
            "hits lost, the pair that loses most",
            &format!("{POINTS_MAX} point"),
            format!("{lost:.2} points"),
            Some(lost <= POINTS_MAX),
        ),
        Claim::new(
            "p99 over the one before, the pair with the most",
            &format!("{HELD_MS_MAX} ms"),
            format!("{held:.1} ms"),
            Some(held <= HELD_MS_MAX),
        ),
    ]
}

fn table(costs: &[Cost]) -> Table {
    let mut table = Table::new(
        "Before, from the beginning of the change on, and from its end on",
        "from|to|hits before, %|changing|ending|p99 before, ms|changing|ending|slowest before, ms|changing|ending|led to warming, ms|to done, ms|hits of the former",
    );
    for cost in costs {
        let [before, begun, ended] = &cost.seen;
        let all = [before, begun, ended];
        let led = cost
            .led
            .map(|led| format!("{:.0}", led.as_secs_f64() * 1000.0));
        let mut row = vec![cost.from.to_string(), cost.to.to_string()];
        row.extend(all.map(|seen| format!("{:.2}", 100.0 * seen.hits)));
        row.extend(all.map(|seen| format!("{:.1}", seen.p99_ms)));
        row.extend(all.map(|seen| format!("{:.1}", seen.slowest_ms)));
        row.extend(led);
        row.push(cost.former_hits.to_string());
        table.row(row);
    }
    table
}

fn workload(reads: f64, seed: u64) -> anyhow::Result<WorkloadSpec> {
    Ok(WorkloadSpec {
        keys: Some(KEYS),
        mix: Mix::gets(reads)?,
        key_sizes: KeySizes::fixed(24)?,
        value_sizes: ValueSizes::fixed(200)?,
        popularity: Popularity::Uniform,
        seed,
        ..WorkloadSpec::default()
    })
}

fn cost(
    run: &Run,
    (from, to): (Architecture, Architecture),
    duration: Duration,
) -> anyhow::Result<Cost> {
    let ground = Ground::start(Plan {
        racks: RACKS,
        architecture: to,
        former: Some(from),
        local_copies: None,
        network: Network {
            switch: SWITCH_MS,
            base: 0.0,
        },
    })?;
    ground.wait_for_followers()?;
    let target = ground.targets().next().context("a rack")?;
    let filling = LoadPlan {
        pipeline: 16,
        ..LoadPlan::new(target, Source::Fill(workload(1.0, run.seed)?))
    };
    let stored = Driver::start(filling)?.wait()?.counters.sets;
    ensure!(stored == KEYS, "{stored} keys were stored");
    let (before, _) = under_load(run, &ground, 1, duration, None)?;
    let (begun, warming) = under_load(run, &ground, 2, duration, Some(Stage::Warming))?;
    let former_hits = ground.count("proxy", "former_hits")?;
    let (ended, done) = under_load(run, &ground, 3, duration, Some(Stage::Done))?;
    Ok(Cost {
        from,
        to,
        seen: [before, begun, ended],
        led: [warming, done],
        former_hits,
    })
}

/// What a load sees while the pool is led to a stage, and how long that takes.
fn under_load(
    run: &Run,
    ground: &Ground,
    number: u64,
    duration: Duration,
    goal: Option<Stage>,
) -> anyhow::Result<(Seen, Duration)> {
    let start = |(rack, target)| {
        let seed = run.seed.wrapping_add(1_000 * number + rack);
        Driver::start(LoadPlan {
            connections_per_thread: CONNECTIONS,
            pipeline: 1,
            pace: Arrivals::Poisson(Rate::Constant(RATE)),
            stop: Stop::after(duration),
            warm_up: WARM_UP,
            seed,
            ..LoadPlan::new(target, Source::Generated(workload(READS, seed)?))
        })
    };
    let running = (1..).zip(ground.targets()).map(start);
    let running = running.collect::<anyhow::Result<Vec<_>>>()?;
    thread::sleep(WARM_UP);
    let led = match goal {
        Some(goal) => ground.lead(goal)?,
        None => Duration::ZERO,
    };
    let mut stats = LoadStats::default();
    for load in running {
        stats.add(&load.wait()?);
    }
    let counters = &stats.counters;
    ensure!(
        counters.wrong_values == 0,
        "{} wrong values",
        counters.wrong_values
    );
    let latency = Latency::new(&stats.latency());
    let seen = Seen {
        hits: counters.hit_ratio(),
        p99_ms: latency.latency_us_p99 / 1000.0,
        slowest_ms: latency.latency_us_max / 1000.0,
        failed: counters.errors,
    };
    Ok((seen, led))
}
