//! The three workloads, one after the other, on the servers of a setting.

use super::phases::{self, servers};
use super::story_sim;
use super::workloads::{Moment, Pace, Part, RATE, WORKLOADS};
use crate::args::Mode;
use crate::experiments::curves::setting::Setting;
use crate::experiments::curves::size::Size;
use crate::experiments::curves::subject::{fleet_plan, load};
use crate::fleet::{Fleet, LoadSpec, LoadedFleet, look};
use crate::run::Run;
use crate::trial::max_to_mean;
use anyhow::Context;
use evenkeel_bench::{Latency, LoadHandle, LoadStats};
use std::thread;
use std::time::{Duration, Instant};

/// All workloads on the servers of a setting.
#[derive(Clone, Debug)]
pub(super) struct Story {
    pub label: &'static str,
    /// One for each of [`WORKLOADS`].
    pub parts: Vec<Part>,
}

/// What is told at a scale: small real servers have time for all phases beside none.
pub(super) fn settings(run: &Run) -> Vec<(&'static str, Setting)> {
    let mut settings = phases::each_alone(run);
    settings.push((phases::ALL, phases::all(servers(run))));
    if crate::experiments::curves::size::is_small_and_real(run) {
        settings.retain(|(label, _)| [phases::OFF, phases::ALL].contains(label));
    }
    settings
}

/// Runs all workloads in a setting, or takes what has been measured of it in this run.
pub(super) fn tell(
    run: &Run,
    size: &Size,
    label: &'static str,
    setting: &Setting,
) -> anyhow::Result<Story> {
    let pace = Pace::of(run);
    let key = format!("story {} {size:?} {setting:?} {pace:?}", run.mode);
    if let Some(story) = run.measured.get(&key) {
        return Ok(story);
    }
    let parts = match run.mode {
        Mode::Real => parts_real(run, size, label, setting, pace)?,
        Mode::Sim => story_sim::parts(run, size, label, setting, pace)?,
    };
    let story = Story { label, parts };
    run.measured.put(key, &story);
    Ok(story)
}

/// All workloads on real servers.
fn parts_real(
    run: &Run,
    size: &Size,
    label: &'static str,
    setting: &Setting,
    pace: Pace,
) -> anyhow::Result<Vec<Part>> {
    run.progress.say(format!("{label}: starting"));
    let fleet = Fleet::start(&fleet_plan(size, setting))?;
    let base = LoadSpec {
        warm_up: Duration::ZERO,
        ..load(run, size, setting, 0)
    };
    base.fill(&fleet)?;
    let rate = RATE * size.capacity(setting);
    let mut running: Vec<LoadHandle> = Vec::new();
    let mut parts = Vec::new();
    for workload in &WORKLOADS {
        run.progress.say(format!("{label}: {}", workload.label));
        let subject = LoadedFleet {
            fleet: &fleet,
            load: LoadSpec {
                popularity: workload.popularity_in(setting),
                get_share: workload.get_share,
                ..base.clone()
            },
        };
        let before = fleet.balancing()?;
        // The next begins before the last has its last answers, or servers would idle between them.
        let next = subject.start(rate, None)?;
        for load in running {
            load.stop()?;
        }
        running = next;
        let (moments, stats, seconds) = watch(&fleet, &mut running, pace)?;
        let counters = stats.counters;
        let answered = counters.requests - (counters.errors - counters.unanswered);
        parts.push(Part {
            moments,
            requests_per_second: answered as f64 / seconds,
            latency: Latency::new(&stats.latency()),
            errors: counters.errors,
            wrong_values: counters.wrong_values,
            balancing: fleet.balancing()? - before,
        });
    }
    for load in running {
        load.stop()?;
    }
    Ok(parts)
}

/// Looks at running loads again and again; what was seen, everything until the last look, and how long that was.
fn watch(
    fleet: &Fleet,
    running: &mut [LoadHandle],
    pace: Pace,
) -> anyhow::Result<(Vec<Moment>, LoadStats, f64)> {
    let begun = Instant::now();
    let mut moments = Vec::new();
    let mut due = begun + pace.step;
    while due <= begun + pace.each {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let sample = look(running).context("there is a proxy")?;
        let loads = fleet.loads_of_workers()?;
        moments.push(Moment {
            seconds: begun.elapsed().as_secs_f64(),
            latency_us_p90: sample.latency_us(0.9),
            max_to_mean: max_to_mean(&loads),
        });
        due += pace.step;
    }
    let mut sum = LoadStats::default();
    running.iter().for_each(|load| sum.add(load.totals()));
    Ok((moments, sum, begun.elapsed().as_secs_f64()))
}
