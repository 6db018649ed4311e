//! `evenkeel bench run`, and what `evenkeel bench compare` shares with it: preload, then rounds over the
//! targets in turn.

use crate::args::{OutputFormat, ROUNDS_MAX};
use crate::beside::{First, in_turns};
use crate::driver::{Driver, Finished, Load};
use crate::report::{RoundReport, RunReport, TargetReport};
use crate::series::{Moment, Series};
use crate::{BadUsage, Cluster, LoadArgs, LoadPlan, RunArgs};
use anyhow::Context;
use evenkeel_runtime::print_line;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Distance of two updates of the progress bar.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Exit codes, as for every command of Evenkeel.
const EXIT_FAILED: u8 = 1;
const EXIT_BAD_USAGE: u8 = 2;

/// One of those that are measured in turn.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// What it is called.
    pub(crate) name: String,
    pub(crate) plan: LoadPlan,
    /// What fills it first.
    pub(crate) preload: Option<LoadPlan>,
}

/// Measures the targets and reports.
///
/// # Errors
/// [`BadUsage`] (found by downcasting) when the arguments make no sense or a trace cannot be opened;
/// any other error when the load could not be made.
pub fn run(args: &RunArgs) -> anyhow::Result<RunReport> {
    let mut measured = args
        .target
        .iter()
        .map(|target| {
            Ok(Measured {
                name: target.to_string(),
                plan: args.load.plan(target)?,
                preload: args.load.preload_plan(target)?,
            })
        })
        .collect::<Result<Vec<_>, BadUsage>>()?;
    if let Some(coordinator) = &args.coordinator {
        let cluster = Arc::new(Cluster::join(coordinator)?);
        for measured in &mut measured {
            measured.plan.cluster = Some(cluster.clone());
            measured.plan.validate()?;
        }
    }
    measure_in_turn(&args.load, &measured)
}

/// Fills all, and then measures one after the other, round after round (A B A B …).
pub(crate) fn measure_in_turn(args: &LoadArgs, measured: &[Measured]) -> anyhow::Result<RunReport> {
    if !(1..=ROUNDS_MAX).contains(&args.rounds) {
        let rounds = args.rounds;
        return Err(BadUsage(format!("rounds: {rounds} is not within 1 and {ROUNDS_MAX}")).into());
    }
    let spec = args.spec()?;
    for measured in measured {
        if let Some(plan) = &measured.preload {
            preload(plan.clone(), &measured.name, spec.keys())?;
        }
    }
    let loads = measured
        .iter()
        .map(|measured| Load::prepare(measured.plan.clone()));
    let loads = loads.collect::<Result<Vec<_>, _>>()?;
    let loaded: Vec<_> = measured.iter().zip(loads).collect();
    let rounds = in_turns(
        &loaded,
        1..=args.rounds,
        First::Same,
        |round, (measured, load)| {
            let label = format!("{} round {round}/{}", measured.name, args.rounds);
            let (finished, series) = measure_shown(load, &measured.plan, &label)?;
            let report = RoundReport::new(round, args.traffic.threads, &finished);
            Ok(RoundReport { series, ..report })
        },
    )?;
    let targets = measured.iter().zip(rounds);
    let targets = targets
        .map(|(measured, rounds)| TargetReport::new(measured.name.clone(), rounds))
        .collect();
    Ok(RunReport::new(args, &spec, targets))
}

/// Runs, prints, and returns the exit code: 0 fine, 1 failed or wrong values seen, 2 bad usage.
pub fn execute(args: &RunArgs) -> u8 {
    let printed = run(args).and_then(|report| show(&args.load, &report));
    printed.unwrap_or_else(|error| report_error("run", &error))
}

/// Prints a report as it is wanted, draws its plots, and says how the command ends.
pub(crate) fn show(args: &LoadArgs, report: &RunReport) -> anyhow::Result<u8> {
    if let Some(folder) = &args.plots {
        report.write_plots(folder)?;
    }
    print(args.format, || report.to_table(), || report.to_json())?;
    Ok(report.exit_code())
}

/// Prints a report on standard output, in the format that is asked for.
pub(crate) fn print(
    format: OutputFormat,
    table: impl FnOnce() -> String,
    json: impl FnOnce() -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let text = match format {
        OutputFormat::Table => table(),
        OutputFormat::Json => json()?,
    };
    print_line(&text).context("printing the report")
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
    measure_load(&Load::prepare(plan)?)
}

/// Runs a load that is ready and ends by itself, and says what it came to.
pub(crate) fn measure_load(load: &Load) -> anyhow::Result<RoundReport> {
    let finished = load.start()?.watch(PROGRESS_INTERVAL, |_, _| {})?;
    Ok(RoundReport::new(1, load.threads(), &finished))
}

/// Sets every key once; whatever is not stored fails the run.
pub(crate) fn preload(plan: LoadPlan, name: &str, keys: u64) -> anyhow::Result<()> {
    let bar = progress_bar(Some(keys), &format!("{name} preload"));
    let finished = Driver::start(plan)?.watch(PROGRESS_INTERVAL, |stats, _| {
        bar.set_position(stats.counters.requests)
    })?;
    bar.finish_and_clear();
    let stored = finished.stats.counters.sets;
    anyhow::ensure!(
        stored == keys,
        "preloading {name}: {stored} of {keys} keys were stored ({})",
        (finished.stats.first_error.as_deref()).unwrap_or("no error was told")
    );
    Ok(())
}

/// Runs a load that is ready and ends by itself, with a bar on a terminal, and says how it went on.
pub(crate) fn measure_shown(
    load: &Load,
    plan: &LoadPlan,
    label: &str,
) -> anyhow::Result<(Finished, Vec<Moment>)> {
    let stop = plan.stop;
    let begun = Instant::now() + plan.warm_up;
    let mut series = Series::new(begun, stop.after);
    // A time counts in milliseconds, a number of requests in requests, a trace in nothing known.
    let bar = match (stop.after, stop.requests) {
        (Some(after), _) => progress_bar(Some(after.as_millis() as u64), label),
        (None, requests) => progress_bar(requests, label),
    };
    let finished = load.start()?.watch(PROGRESS_INTERVAL, |stats, since| {
        series.add(Instant::now(), since);
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
    Ok((finished, series.finish()))
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
