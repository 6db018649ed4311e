//! `evenkeel bench run`: preload, then rounds over the targets in turn.

use crate::args::{OutputFormat, ROUNDS_MAX};
use crate::driver::{Driver, Finished};
use crate::report::{RoundReport, RunReport, TargetReport};
use crate::{BadUsage, Cluster, LoadPlan, RunArgs};
use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Distance of two updates of the progress bar.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Exit codes, as for every command of Evenkeel.
const EXIT_FAILED: u8 = 1;
const EXIT_BAD_USAGE: u8 = 2;

/// Measures the targets and reports.
///
/// # Errors
/// [`BadUsage`] (found by downcasting) when the arguments make no sense or a trace cannot be opened;
/// any other error when the load could not be made.
pub fn run(args: &RunArgs) -> anyhow::Result<RunReport> {
    if !(1..=ROUNDS_MAX).contains(&args.rounds) {
        let rounds = args.rounds;
        return Err(BadUsage(format!("rounds: {rounds} is not within 1 and {ROUNDS_MAX}")).into());
    }
    let mut plans = args
        .target
        .iter()
        .map(|target| args.plan(target))
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(coordinator) = &args.coordinator {
        let cluster = Arc::new(Cluster::join(coordinator)?);
        for plan in &mut plans {
            plan.cluster = Some(cluster.clone());
            plan.validate()?;
        }
    }
    for target in &args.target {
        if let Some(plan) = args.preload_plan(target)? {
            preload(plan, args.keys)?;
        }
    }
    let mut rounds: Vec<Vec<RoundReport>> = vec![Vec::new(); plans.len()];
    for round in 1..=args.rounds {
        for (plan, rounds) in plans.iter().zip(&mut rounds) {
            let label = format!("{} round {round}/{}", plan.target, args.rounds);
            let finished = measure_shown(plan.clone(), &label)?;
            rounds.push(RoundReport::new(round, args.threads, &finished));
        }
    }
    let targets = plans.iter().zip(rounds);
    let targets = targets
        .map(|(plan, rounds)| TargetReport::new(&plan.target, rounds))
        .collect();
    Ok(RunReport::new(args, targets))
}

/// Runs, prints, and returns the exit code: 0 fine, 1 failed or wrong values seen, 2 bad usage.
pub fn execute(args: &RunArgs) -> u8 {
    let printed = run(args).and_then(|report| {
        let text = match args.format {
            OutputFormat::Table => report.to_table(),
            OutputFormat::Json => report.to_json()?,
        };
        writeln!(io::stdout(), "{text}").context("printing the report")?;
        Ok(report.exit_code())
    });
    printed.unwrap_or_else(|error| report_error("run", &error))
}

/// Says what went wrong with `evenkeel bench COMMAND`, and with which exit code it ends.
pub(crate) fn report_error(command: &str, error: &anyhow::Error) -> u8 {
    eprintln!("evenkeel bench {command}: {error:#}");
    if error.is::<BadUsage>() {
        EXIT_BAD_USAGE
    } else {
        EXIT_FAILED
    }
}

/// Runs a load that ends by itself, and says what it came to.
///
/// # Errors
/// [`BadUsage`] when the plan is refused; others when the load could not be made or ended before its time.
pub fn measure(plan: LoadPlan) -> anyhow::Result<RoundReport> {
    let threads = plan.threads;
    let finished = Driver::start(plan)?.watch(PROGRESS_INTERVAL, |_| {})?;
    Ok(RoundReport::new(1, threads, &finished))
}

/// Sets every key once; whatever is not stored fails the run.
fn preload(plan: LoadPlan, keys: u64) -> anyhow::Result<()> {
    let target = plan.target.clone();
    let bar = progress_bar(Some(keys), &format!("{target} preload"));
    let finished = Driver::start(plan)?.watch(PROGRESS_INTERVAL, |stats| {
        bar.set_position(stats.counters.requests)
    })?;
    bar.finish_and_clear();
    let stored = finished.stats.counters.sets;
    anyhow::ensure!(
        stored == keys,
        "preloading {target}: {stored} of {keys} keys were stored ({})",
        finished.first_error().unwrap_or("no error was told")
    );
    Ok(())
}

fn measure_shown(plan: LoadPlan, label: &str) -> anyhow::Result<Finished> {
    let stop = plan.stop;
    let begun = Instant::now() + plan.warm_up;
    // A time counts in milliseconds, a number of requests in requests, a trace in nothing known.
    let bar = match (stop.after, stop.requests) {
        (Some(after), _) => progress_bar(Some(after.as_millis() as u64), label),
        (None, requests) => progress_bar(requests, label),
    };
    let finished = Driver::start(plan)?.watch(PROGRESS_INTERVAL, |stats| {
        let position = match stop.after {
            Some(_) => begun.elapsed().as_millis() as u64,
            None => stats.counters.requests,
        };
        bar.set_position(position);
        let latency = stats.latency().value_at_quantile(0.99) as f64 / 1000.0;
        bar.set_message(format!(
            "{} requests, p99 {latency:.0} us",
            stats.counters.requests
        ));
    })?;
    bar.finish_and_clear();
    Ok(finished)
}

/// A bar on standard error, without an end where that is not known; nothing where standard error is
/// no terminal.
fn progress_bar(len: Option<u64>, label: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(len, ProgressDrawTarget::stderr());
    let template = match len {
        Some(_) => "{prefix} [{bar:30}] {elapsed} {msg}",
        None => "{prefix} {spinner} {elapsed} {msg}",
    };
    bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
    bar.set_prefix(label.to_owned());
    bar
}
