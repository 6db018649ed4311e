//! How the load goes after other keys have become hot: how uneven it is, second by second.

use crate::args::Mode;
use crate::experiments::curves::setting::Setting;
use crate::experiments::curves::size::Size;
use crate::experiments::curves::subject::{Ground, SETTLE_AT, load_plan};
use crate::run::Run;
use crate::simulated::Fidelity;
use crate::trial::max_to_mean;
use anyhow::anyhow;
use evenkeel_sim::load::{Arrivals, LoadPlan, fast, whole};
use std::time::Duration;

/// At the end of each window, in seconds since the change: the busiest server's load by the mean.
pub(super) type Recovery = Vec<(f64, f64)>;

/// Length of a window, and the distance of two. With shorter ones chance would make loads uneven.
const WINDOW: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(250);

/// How long it is watched after the change, and before it on real servers.
const WATCHED: Duration = Duration::from_secs(5);
const BEFORE: Duration = Duration::from_secs(1);

/// Makes other keys hot once, for each set of names, and says how the load went. Half of the capacity is asked.
pub(super) fn recoveries(
    run: &Run,
    size: &Size,
    setting: &Setting,
) -> anyhow::Result<Vec<Recovery>> {
    match run.mode {
        Mode::Real => on_real_servers(run, size, setting),
        Mode::Sim => (0..size.names)
            .map(|names| simulated(run, size, setting, names))
            .collect(),
    }
}

fn on_real_servers(run: &Run, size: &Size, setting: &Setting) -> anyhow::Result<Vec<Recovery>> {
    let mut ground = Ground::default();
    let say = |what: &str| run.progress.say(format!("other keys become hot: {what}"));
    let windows = |names| {
        let subject = ground.ready(run, size, setting, names, &say)?;
        let rate = SETTLE_AT * size.capacity(setting);
        let watched = subject.watch_switch(rate, BEFORE, WATCHED, STEP)?;
        Ok(watched
            .loads(WINDOW)
            .into_iter()
            .filter(|(end, _)| *end >= WINDOW.as_secs_f64())
            .map(|(end, loads)| (end, max_to_mean(&loads)))
            .collect())
    };
    (0..size.names).map(windows).collect()
}

/// Virtual time goes the same way again, so that each window is a run of its own which is measured for that long.
fn simulated(run: &Run, size: &Size, setting: &Setting, names: u64) -> anyhow::Result<Recovery> {
    let nanos = |duration: Duration| duration.as_nanos() as u64;
    let base = LoadPlan {
        // Once: the next time is beyond what is watched.
        reshuffle: Some(nanos(size.warm_up.max(2 * WATCHED))),
        arrivals: Arrivals::Open {
            rate: SETTLE_AT * size.capacity(setting),
        },
        length: nanos(WINDOW),
        ..load_plan(run.seed.wrapping_add(names), size, setting)
    };
    let changed = base.reshuffle.unwrap_or_default();
    let mut recovery = Recovery::new();
    let mut begin = Duration::ZERO;
    while begin + WINDOW <= WATCHED {
        let end = (begin + WINDOW).as_secs_f64();
        run.progress
            .say(format!("names {names}: {end} s after the change"));
        let plan = LoadPlan {
            warm_up: changed + nanos(begin),
            ..base.clone()
        };
        let report = match size.fidelity {
            Fidelity::Fast => fast::run(&plan),
            Fidelity::Whole => whole::run(&plan),
        };
        let report = report.map_err(|words| anyhow!(words))?;
        recovery.push((end, max_to_mean(&report.worker_keys_per_second)));
        begin += STEP;
    }
    Ok(recovery)
}
