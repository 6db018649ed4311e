//! SPORE, Figures 1 and 6a: where imbalance comes from, and what replicating hot keys takes away of it.
//!
//! Small servers behind proxies, open loops of rising rates, the 90th percentile over the throughput. What
//! the paper plots by the number of closed-loop clients is plotted by the rate here: a slow server must not
//! slow its clients down.

use super::Experiment;
use crate::args::{Mode, Scale, SmallBy};
use crate::fleet::{Fleet, FleetPlan, LoadSpec, LoadedFleet, Pool, Smallness};
use crate::report::{Claim, Report};
use crate::run::Run;
use crate::trial::{Knee, Subject, Trial, find_knee, trials_table};
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_coordinator::api::Switch;
use evenkeel_workload::Popularity;
use std::time::Duration;

pub(super) const FIGURE_1: Experiment = Experiment {
    name: "spore-1",
    title: "Where imbalance comes from: skewed keys more than uneven hashing",
    source: "SPORE, Figure 1",
    modes: &[Mode::Real],
    run: figure_1,
};

pub(super) const FIGURE_6A: Experiment = Experiment {
    name: "spore-6a",
    title: "Replicated hot keys on 12 servers beside 12 and 16 without",
    source: "SPORE, Figure 6a",
    modes: &[Mode::Real],
    run: figure_6a,
};

pub(super) const FIGURE_6B: Experiment = Experiment {
    name: "spore-6b",
    title: "The same while other keys become hot again and again",
    source: "SPORE, Figure 6b",
    modes: &[Mode::Real],
    run: figure_6b,
};

/// Keys a second that a server can serve. Twelve of them leave two cores room for generator and
/// proxies.
const CAPACITY: u64 = 1_000;

/// What the 99th percentile of a throughput must keep to where one number is asked for, in microseconds: fifteen times
/// the time for one key.
const LIMIT_US: f64 = 15.0 * 1e6 / CAPACITY as f64;

/// Throughputs are found this exactly.
const PRECISION: f64 = 0.04;

/// Connections to each proxy: the paper's largest number of clients.
const CONNECTIONS: usize = 66;

/// Rates of a curve, by the capacity of all servers.
const RATES: [f64; 5] = [0.3, 0.45, 0.6, 0.75, 0.9];

/// A server that carries a thousand keys a second is a hotspot from half of that on; by default none is below a
/// thousand. At so few requests 3 % of them would be too small a sample.
const HOT_KEY_FLAGS: [&str; 4] = ["--hot-trigger-rps", "500", "--hot-sampling", "100"];

/// How keys get to plain servers: as spymemcached's Ketama, the paper's client, places them.
const KETAMA: Pool = Pool::Plain {
    distribution: "ketama_weighted",
};

/// One of the curves.
struct Setting {
    label: &'static str,
    servers: usize,
    pool: Pool,
    popularity: Popularity,
    /// Time for hot keys to be found before the first measurement.
    settle: Duration,
    /// Whether other keys become hot all the time.
    reshuffled: bool,
}

impl Setting {
    const fn plain(label: &'static str, servers: usize, popularity: Popularity) -> Setting {
        Setting {
            label,
            servers,
            pool: KETAMA,
            popularity,
            settle: Duration::ZERO,
            reshuffled: false,
        }
    }

    /// Keys by the coordinator's map.
    const fn mapped(label: &'static str, hot_keys: Switch, popularity: Popularity) -> Setting {
        Setting {
            pool: Pool::Cluster { hot_keys },
            settle: match hot_keys {
                Switch::On => Duration::from_secs(5),
                Switch::Off => Duration::ZERO,
            },
            ..Setting::plain(label, 12, popularity)
        }
    }

    const fn reshuffled(self) -> Setting {
        Setting {
            reshuffled: true,
            ..self
        }
    }
}

const ZIPF: Popularity = Popularity::Zipf { exponent: 0.99 };

/// What was found in one setting.
struct Found {
    label: &'static str,
    servers: usize,
    curve: Vec<Trial>,
    knee: Knee,
}

fn figure_1(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let settings = [
        Setting::mapped(
            "ideal: uniform keys, the same number for each server",
            Switch::Off,
            Popularity::Uniform,
        ),
        Setting::plain("semi-ideal: uniform keys, hashed", 12, Popularity::Uniform),
        Setting::plain("realistic: Zipf 0.99, hashed", 12, ZIPF),
    ];
    let found = measure(run, &settings)?;
    let mut report = report(experiment, run, &found);
    let efficiency = |index: usize| {
        found[index].knee.requests_per_second() / found[0].knee.requests_per_second()
    };
    let (hashing, both) = (efficiency(1), efficiency(2));
    report.claims = vec![
        Claim::new(
            "hashing alone costs throughput (semi-ideal by ideal)",
            "below 1",
            format!("{hashing:.2}"),
            Some(hashing < 1.0),
        ),
        Claim::new(
            "skewed keys cost more than hashing (realistic by ideal)",
            "far below semi-ideal",
            format!("{both:.2}"),
            Some(1.0 - both > 2.0 * (1.0 - hashing)),
        ),
    ];
    Ok(report)
}

fn figure_6a(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let settings = [
        Setting::plain("12 plain, Zipf 0.99", 12, ZIPF),
        Setting::plain("16 plain, Zipf 0.99", 16, ZIPF),
        Setting::mapped("12 with hot keys replicated, Zipf 0.99", Switch::On, ZIPF),
        Setting::mapped(
            "12 by the map, uniform keys",
            Switch::Off,
            Popularity::Uniform,
        ),
    ];
    let found = measure(run, &settings)?;
    let mut report = report(experiment, run, &found);
    let at = |index: usize| found[index].knee.requests_per_second();
    let (plain, more, replicated, ideal) = (at(0), at(1), at(2), at(3));
    report.claims = vec![
        Claim::new(
            "12 with replication carry at least what 16 plain ones do",
            "at least 1",
            format!("{:.2}", replicated / more),
            Some(replicated >= more),
        ),
        Claim::new(
            "balance efficiency of 12 plain servers (throughput by that of uniform keys)",
            "about 0.6",
            format!("{:.2}", plain / ideal),
            None,
        ),
        Claim::new(
            "balance efficiency with replication",
            "about 0.8",
            format!("{:.2}", replicated / ideal),
            Some(replicated / ideal >= 0.8),
        ),
    ];
    Ok(report)
}

fn figure_6b(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let settings = [
        Setting::plain("12 plain, Zipf 0.99", 12, ZIPF).reshuffled(),
        Setting::plain("16 plain, Zipf 0.99", 16, ZIPF).reshuffled(),
        Setting::mapped("12 with hot keys replicated, Zipf 0.99", Switch::On, ZIPF).reshuffled(),
    ];
    let found = measure(run, &settings)?;
    let mut report = report(experiment, run, &found);
    let at = |index: usize| found[index].knee.requests_per_second();
    let (plain, more, replicated) = (at(0), at(1), at(2));
    let interval = reshuffle_interval(run);
    report.settings.push((
        "other keys become hot every".into(),
        format!("{interval:?}"),
    ));
    report.claims = vec![
        Claim::new(
            "12 with replication carry more than 12 plain ones",
            "more",
            format!("{:.2} times as much", replicated / plain),
            Some(replicated > plain),
        ),
        Claim::new(
            "12 with replication beside 16 plain ones",
            "slightly less",
            format!("{:.2} times as much", replicated / more),
            None,
        ),
    ];
    Ok(report)
}

/// The paper's minute is longer than a small experiment's trials.
fn reshuffle_interval(run: &Run) -> Duration {
    Duration::from_millis(run.by_scale([100, 2_500, 60_000, 60_000]))
}

fn measure(run: &Run, settings: &[Setting]) -> anyhow::Result<Vec<Found>> {
    let precision = run.by_scale([1.0, PRECISION, PRECISION, PRECISION]);
    let prefixes = run.by_scale([1, 1, 6, 6]);
    let mut found = Vec::new();
    for setting in settings {
        run.progress.say(format!("{}: starting", setting.label));
        let servers = match run.scale {
            // Each process takes its time to start.
            Scale::Quick => setting.servers / 4,
            _ => setting.servers,
        };
        let fleet = Fleet::start(&FleetPlan {
            servers,
            smallness: smallness(run),
            memory_mb: 64,
            proxies: 1,
            pool: setting.pool,
            server_flags: HOT_KEY_FLAGS.map(String::from).to_vec(),
            connections: 2 * CONNECTIONS,
        })?;
        let capacity = (servers as u64 * CAPACITY) as f64;
        let mut curves: Vec<Vec<Trial>> = Vec::new();
        let mut knees = Vec::new();
        for prefix in 0..prefixes {
            let load = load(run, setting, prefix);
            run.progress.say(format!("{}: filling", setting.label));
            load.fill(&fleet)?;
            let mut subject = LoadedFleet {
                fleet: &fleet,
                load,
            };
            settle(&mut subject, setting, 0.5 * capacity)?;
            let mut curve = Vec::new();
            for &rate in run.by_scale([&RATES[..2], &RATES, &RATES, &RATES]) {
                run.progress.say(format!(
                    "{}: {:.0} requests/s",
                    setting.label,
                    rate * capacity
                ));
                curve.push(subject.trial(rate * capacity)?);
            }
            run.progress
                .say(format!("{}: looking for the knee", setting.label));
            knees.push(find_knee(
                &mut subject,
                limit_us(run),
                0.7 * capacity,
                precision,
            )?);
            curves.push(curve);
        }
        // The curve of the first names, and the middle one of the knees.
        knees.sort_by(|a, b| a.requests_per_second().total_cmp(&b.requests_per_second()));
        found.push(Found {
            label: setting.label,
            servers,
            curve: curves.swap_remove(0),
            knee: knees.swap_remove(knees.len() / 2),
        });
    }
    Ok(found)
}

fn smallness(run: &Run) -> Smallness {
    Smallness::of_capacity(run.small_by, CAPACITY)
}

/// The same for the servers of a run: one in a quota is kept waiting for most of a period, so that its latencies are
/// of that size.
fn limit_us(run: &Run) -> f64 {
    match run.small_by {
        SmallBy::Clock => LIMIT_US,
        SmallBy::Quota => 4.0 * LIMIT_US,
    }
}

/// Lets hot keys be found.
fn settle(subject: &mut LoadedFleet<'_>, setting: &Setting, rate: f64) -> anyhow::Result<()> {
    if setting.settle.is_zero() {
        return Ok(());
    }
    let duration = std::mem::replace(&mut subject.load.duration, setting.settle);
    subject.trial(rate)?;
    subject.load.duration = duration;
    Ok(())
}

fn load(run: &Run, setting: &Setting, prefix: u64) -> LoadSpec {
    LoadSpec {
        keys: run.by_scale([2_000, 60_000, 1_000_000, 10_000_000]),
        prefix: format!("{prefix}:"),
        key_len: 10,
        value_len: 200,
        popularity: setting.popularity,
        get_share: 0.99,
        reshuffle: setting.reshuffled.then(|| reshuffle_interval(run)),
        connections: CONNECTIONS,
        warm_up: Duration::from_millis(500),
        // Two changes of the hot keys in each trial.
        duration: match setting.reshuffled {
            true => 2 * reshuffle_interval(run),
            false => Duration::from_millis(run.by_scale([300, 2000, 10_000, 10_000])),
        },
        seed: run.seed.wrapping_add(prefix),
    }
}

fn report(experiment: &Experiment, run: &Run, found: &[Found]) -> Report {
    let mut report = run.report(experiment);
    let load = load(run, &Setting::plain("", 12, ZIPF), 0);
    report.settings = vec![
        (
            "servers".into(),
            format!(
                "real processes of one worker {} (a test option)",
                smallness(run)
            ),
        ),
        (
            "keys".into(),
            format!("{} of {} B", load.keys, load.key_len),
        ),
        ("values".into(), format!("{} B", load.value_len)),
        ("gets".into(), format!("{:.0} %", load.get_share * 100.0)),
        (
            "clients".into(),
            format!("{CONNECTIONS} connections of an open loop (Poisson) through one proxy"),
        ),
        ("each rate".into(), format!("{:?}", load.duration)),
        (
            "names of the keys".into(),
            run.by_scale(["1", "1", "6", "6"]).into(),
        ),
    ];
    let curves: Vec<_> = found
        .iter()
        .map(|f| (f.label.to_owned(), f.curve.clone()))
        .collect();
    report
        .tables
        .push(trials_table("Latency over throughput", &curves));
    let limit_us = limit_us(run);
    let mut knees = crate::report::Table::new(
        &format!("Highest throughput at a p99 of {:.0} ms", limit_us / 1000.0),
        &["", "requests/s", "by server", "max/mean load"],
    );
    for f in found {
        let rate = f.knee.requests_per_second();
        knees.row([
            f.label.to_owned(),
            format!("{rate:.0}"),
            format!("{:.0}", rate / f.servers as f64),
            f.knee
                .trial
                .as_ref()
                .map_or("-".into(), |trial| format!("{:.2}", trial.max_to_mean())),
        ]);
    }
    report.tables.push(knees);
    // Beyond saturation latency is a matter of how long one waits.
    let shown = |trial: &&Trial| trial.latency.latency_us_p90 < 10.0 * limit_us;
    report.plots.push(Plot {
        name: run.plot_name(experiment),
        title: experiment.title.into(),
        x: Axis::linear("requests/s"),
        y: Axis::log("90th percentile, ms"),
        curves: found
            .iter()
            .map(|f| Curve {
                label: f.label.into(),
                points: f
                    .curve
                    .iter()
                    .filter(shown)
                    .map(|trial| {
                        (
                            trial.requests_per_second,
                            trial.latency.latency_us_p90 / 1000.0,
                        )
                    })
                    .collect(),
            })
            .collect(),
    });
    report
}
