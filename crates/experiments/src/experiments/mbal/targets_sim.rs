//! What only the simulator can tell of the targets: all that moved, and how even workers were from second to second.

use super::phases::OFF;
use super::story::tell;
use super::workloads::WORKLOADS;
use crate::experiments::curves::setting::Setting;
use crate::experiments::curves::size::Size;
use crate::experiments::curves::subject::load_plan;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use anyhow::{Context, anyhow};
use evenkeel_sim::load::{Arrivals, LoadPlan, fast};

/// Part of the capacity at which is told what was moved.
const RATE: f64 = 0.6;

/// What plans may copy, of all bytes.
pub(super) const COPIED: f64 = 0.01;

/// Seconds after a change of the workload that are shown.
const SHOWN: [usize; 6] = [1, 2, 5, 10, 20, 60];

/// Adds what was moved, beside the target for it, and how even workers were.
pub(super) fn add(
    run: &Run,
    size: &Size,
    together: &Setting,
    report: &mut Report,
) -> anyhow::Result<()> {
    let plan = LoadPlan {
        arrivals: Arrivals::Open {
            rate: RATE * size.capacity(together),
        },
        ..load_plan(run.seed, size, together)
    };
    run.progress.say("what is moved");
    let done = fast::run(&plan).map_err(|words| anyhow!(words))?;
    let balancing = done
        .balancing
        .context("the fast mode tells what was done")?;
    report.claims.push(Claim::new(
        "what the plan that copied most copied, of all data",
        "target: at most 1 %",
        format!("{:.2} %", balancing.plan_ratio_max * 100.0),
        Some(balancing.plan_ratio_max <= COPIED),
    ));
    let columns = "|in all|of it";
    let mut table = Table::new(
        &format!(
            "What all phases did at {RATE} of the capacity in {:.0} s",
            (plan.warm_up + plan.length) as f64 / 1e9
        ),
        columns,
    );
    let cachelets = (plan.workers() * plan.cachelets_per_worker) as f64;
    let part = |of: f64| format!("{:.2} %", of * 100.0);
    for (what, count, of) in [
        ("keys promoted", balancing.promoted, String::new()),
        (
            "cachelets lent within servers",
            balancing.lent,
            String::new(),
        ),
        ("sent home", balancing.sent_home, String::new()),
        (
            "cachelets moved to other servers",
            balancing.moved,
            part(balancing.moved as f64 / cachelets),
        ),
        ("bytes copied", balancing.bytes_moved, String::new()),
        ("plans", balancing.plans, String::new()),
        (
            "requests sent on",
            balancing.redirects,
            part(balancing.redirects as f64 / done.requests_simulated as f64),
        ),
    ] {
        table.row([what.to_owned(), count.to_string(), of]);
    }
    report.tables.push(table);
    report.tables.push(evenness(run, size, together)?);
    Ok(())
}

/// The busiest worker's load by the mean, this many seconds after each workload has begun.
fn evenness(run: &Run, size: &Size, together: &Setting) -> anyhow::Result<Table> {
    let off = together.clone().resting();
    let seconds = SHOWN.map(|seconds| format!("{seconds} s")).join("|");
    let columns = format!("|setting|{seconds}|in the end");
    let mut table = Table::new(
        "Busiest worker's load by the mean, after this long",
        &columns,
    );
    let settings = [(OFF, &off), (super::phases::ALL, together)];
    for (number, workload) in WORKLOADS.iter().enumerate() {
        for (label, setting) in settings {
            let story = tell(run, size, label, setting)?;
            let moments = &story.parts[number].moments;
            let shown = |seconds: usize| match moments.get(seconds - 1) {
                Some(moment) => format!("{:.2}", moment.max_to_mean),
                None => "-".into(),
            };
            table.row(
                [workload.label.to_owned(), label.to_owned()]
                    .into_iter()
                    .chain(SHOWN.map(shown))
                    .chain([shown(moments.len())]),
            );
        }
    }
    Ok(table)
}
