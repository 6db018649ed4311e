//! Replicate and Bundle, Figures 13 and 14: a server is limited by transactions, not by items, so that larger
//! multi-gets fetch more items a second.
//!
//! One server with one worker on a core of its own, and memcached in its place, in turns; the generator on
//! the other cores asks for as many items at once as it says. The paper's Figure 14 adds a second
//! client to show that the client is not the limit; here the generator says how busy it was.

use super::Experiment;
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use anyhow::Context;
use evenkeel_bench::beside::{First, fill, in_turns, two_sides, with_cpu_us};
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_bench::process::Server;
use evenkeel_bench::{LoadPlan, Source, Stop, Target, median};
use evenkeel_workload::{KeySizes, Mix, MultiGet, Popularity, ValueSizes, WorkloadSpec};
use std::path::Path;
use std::time::Duration;

pub(in crate::experiments) const FIGURE_13: Experiment = Experiment {
    name: "rnb-13",
    title: "Items a second by items in a transaction, of one server",
    source: "Replicate and Bundle, Figures 13 and 14",
    modes: &[Mode::Real],
    run,
};

/// Items of a transaction.
const ITEMS: [usize; 9] = [1, 2, 5, 10, 20, 50, 100, 200, 500];

/// Connections, each with one transaction at a time.
const CONNECTIONS: usize = 16;

/// Keys in all, and their lengths and those of values, in bytes: the paper asks for ten-byte values.
const KEYS: u64 = 100_000;
const KEY_LEN: usize = 16;
const VALUE_LEN: usize = 10;

/// Up to this many items in a transaction the paper calls the growth linear.
const LINEAR_UNTIL: usize = 20;

/// The program that is measured beside ours, if it is installed.
const MEMCACHED: &str = "memcached";

fn run(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let (server_core, generator_cores) = two_sides()?;
    let rounds = run.by_scale([1, 3, 5, 9]);
    let duration = Duration::from_millis(run.by_scale([50, 400, 2000, 5000]));
    let mut report = run.report(experiment);
    let mut peers = vec![(
        "Evenkeel",
        Server::evenkeel_server(1, &["-m", "256"], &server_core)?,
    )];
    let arguments = ["-t", "1", "-m", "256"];
    match Server::memcached(Path::new(MEMCACHED), &arguments, &server_core) {
        Ok(server) => peers.push(("memcached", server)),
        Err(error) => report.note(format!("memcached was not measured: {error:#}")),
    }
    for (_, server) in &peers {
        fill(server, workload(1, 0)?, 0, &generator_cores)?;
    }
    let mut points: Vec<Vec<Point>> = vec![Vec::new(); peers.len()];
    for items in ITEMS {
        let measured = in_turns(&peers, 1..=rounds, First::Same, |round, (name, server)| {
            run.progress
                .say(format!("{name}, {items} items, round {round}/{rounds}"));
            measure(server, items, duration, &generator_cores, run.seed)
        })?;
        for (points, measured) in points.iter_mut().zip(measured) {
            points.push(Point::median(items, &measured));
        }
    }
    report.settings = vec![
        ("connections", CONNECTIONS.to_string()),
        ("keys", format!("{KEYS} of {KEY_LEN} B")),
        ("values", format!("{VALUE_LEN} B")),
        ("rounds", format!("{rounds} of {duration:?}, medians")),
    ];
    for ((name, _), points) in peers.iter().zip(&points) {
        report.tables.push(table(name, points));
        report.claims.push(linear(name, points)?);
    }
    let curves = peers.iter().zip(&points);
    report.plots.push(Plot {
        name: run.plot_name(experiment),
        title: experiment.title.into(),
        x: Axis::log("items in a transaction"),
        y: Axis::log("items/s"),
        curves: curves
            .map(|((name, _), points)| {
                Curve::new(
                    *name,
                    points
                        .iter()
                        .map(|point| (point.items as f64, point.items_per_second))
                        .collect(),
                )
            })
            .collect(),
    });
    report.note("The generator shares no core with the server; where it was more than 90 % busy, it was the limit.");
    Ok(report)
}

/// A measurement.
#[derive(Clone, Copy, Debug)]
struct Point {
    items: usize,
    items_per_second: f64,
    /// The server's processor time for a transaction, in microseconds.
    cpu_us: f64,
    generator_share: f64,
}

impl Point {
    fn median(items: usize, measured: &[Point]) -> Point {
        let middle = |figure: fn(&Point) -> f64| median(measured.iter().map(figure).collect());
        Point {
            items,
            items_per_second: middle(|point| point.items_per_second),
            cpu_us: middle(|point| point.cpu_us),
            generator_share: middle(|point| point.generator_share),
        }
    }
}

/// Gets of this many keys, all alike.
fn workload(items: usize, seed: u64) -> anyhow::Result<WorkloadSpec> {
    Ok(WorkloadSpec {
        keys: Some(KEYS),
        popularity: Popularity::Uniform,
        mix: Mix::gets(1.0)?,
        multiget: MultiGet::Keys(items as u64),
        prefix: String::new(),
        key_sizes: KeySizes::fixed(KEY_LEN as u32)?,
        value_sizes: ValueSizes::fixed(VALUE_LEN as u32)?,
        seed,
        ..WorkloadSpec::default()
    })
}

fn measure(
    server: &Server,
    items: usize,
    duration: Duration,
    cores: &[usize],
    seed: u64,
) -> anyhow::Result<Point> {
    let source = Source::Generated(workload(items, seed)?);
    let plan = LoadPlan {
        connections_per_thread: CONNECTIONS,
        pin: cores.to_vec(),
        stop: Stop::after(duration),
        ..LoadPlan::new(Target::from(server.address), source)
    };
    let (report, cpu_us) = with_cpu_us([server], || evenkeel_bench::measure(plan)?.all_right())?;
    Ok(Point {
        items,
        items_per_second: report.keys_per_second,
        cpu_us: cpu_us / report.counters.requests as f64,
        generator_share: report.generator_cpu_share,
    })
}

fn table(name: &str, points: &[Point]) -> Table {
    let mut table = Table::new(
        name,
        "items|items/s|transactions/s|server µs a transaction|server µs an item|generator busy",
    );
    for point in points {
        table.row([
            point.items.to_string(),
            format!("{:.0}", point.items_per_second),
            format!("{:.0}", point.items_per_second / point.items as f64),
            format!("{:.2}", point.cpu_us),
            format!("{:.2}", point.cpu_us / point.items as f64),
            format!("{:.0} %", point.generator_share * 100.0),
        ]);
    }
    table
}

/// How much more items a second larger transactions bring, by as much as they are larger.
fn linear(name: &str, points: &[Point]) -> anyhow::Result<Claim> {
    let at = |items: usize| points.iter().find(|point| point.items == items);
    let (one, many) = (
        at(1).context("one item")?,
        at(LINEAR_UNTIL).context("some items")?,
    );
    let gain = many.items_per_second / one.items_per_second;
    Ok(Claim::new(
        &format!(
            "{name}: {LINEAR_UNTIL} items in a transaction bring how many times the items/s of one"
        ),
        &format!("{LINEAR_UNTIL} (linear)"),
        format!("{gain:.1}"),
        Some(gain >= 0.8 * LINEAR_UNTIL as f64),
    ))
}
