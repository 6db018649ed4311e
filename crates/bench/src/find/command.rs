//! The command line of `evenkeel bench find`.

use super::{
    FindOptions, FindReport, MAX_PER_SECOND, Objective, PRECISION, START_PER_SECOND, STEP, Step,
    find,
};
use crate::args::{OutputFormat, TrafficArgs, buildable};
use crate::run::{preload, print, report_error};
use crate::{BadUsage, Source, Target};
use std::path::PathBuf;
use std::time::Duration;

/// Searches the highest rate at which an objective holds.
///
/// The rate doubles until it does not hold twice, and is then looked for between. The lowest that failed is
/// tried once more at the end. A rate holds when the latency is within the objective, 99 % of what was due
/// was answered, and less than 0.1 % failed. Requests are sent when they are due, and their latency counts
/// from then.
#[derive(Clone, Debug, clap::Args)]
pub struct FindArgs {
    /// Server to measure: host:port or the path of a unix socket.
    #[arg(long, value_name = "ADDR")]
    pub target: Target,

    /// What has to hold: p50, p90, p99 or p99.9, and a time (us, ms, s), such as p99=5ms.
    #[arg(long, value_name = "OBJECTIVE")]
    pub slo: Objective,

    /// The first rate, in requests a second. Where it does not hold, no other is tried.
    #[arg(long, default_value_t = START_PER_SECOND, value_name = "PER_SECOND")]
    pub start_rate: f64,

    /// The highest rate that is tried, in requests a second.
    #[arg(long, default_value_t = MAX_PER_SECOND, value_name = "PER_SECOND")]
    pub max_rate: f64,

    /// How close the search comes: 0.03 ends it where a rate that failed is at most 3 % above one that held.
    #[arg(long, default_value_t = PRECISION, value_name = "SHARE")]
    pub precision: f64,

    /// How long each step is judged, in seconds; a third of that passes before. Should be many times the
    /// objective: a queue that grows for this long shows no more latency than that.
    #[arg(long, default_value_t = STEP.as_secs_f64(), value_name = "SECONDS")]
    pub step_seconds: f64,

    /// The requests, and what carries them.
    #[command(flatten)]
    pub traffic: TrafficArgs,

    /// Folder for plots (SVG) of latency by rate, and of throughput and latency over time.
    #[arg(long, value_name = "FOLDER")]
    pub plots: Option<PathBuf>,

    /// How the result is printed.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Searches, prints, and returns the exit code: 0 a rate held, 1 failed, no rate held or wrong values seen, 2
/// bad usage.
pub fn execute_find(args: &FindArgs) -> u8 {
    let printed = search(args).and_then(|report| show(args, &report));
    printed.unwrap_or_else(|error| report_error("find", &error))
}

fn search(args: &FindArgs) -> anyhow::Result<FindReport> {
    let spec = buildable(args.traffic.spec()?)?;
    let source = Source::Generated(spec.clone());
    let options = FindOptions {
        start_per_second: args.start_rate,
        max_per_second: args.max_rate,
        precision: args.precision,
        step: Duration::try_from_secs_f64(args.step_seconds)
            .map_err(|error| BadUsage(format!("step seconds {}: {error}", args.step_seconds)))?,
        ..FindOptions::new(args.traffic.plan(&args.target, &spec, source), args.slo)
    };
    options.validate()?;
    if let Some(plan) = args.traffic.preload_plan(&args.target, &spec) {
        preload(plan, &args.target.to_string(), spec.keys())?;
    }
    find(&options, &mut |step| tell(&options, step))
}

/// Says on standard error what came of a step.
fn tell(options: &FindOptions, step: &Step) {
    eprintln!(
        "evenkeel bench find: {:.0} requests/s asked, {:.0} answered, {} {}: {}",
        step.asked_per_second,
        step.answered_per_second,
        options.objective.percentile,
        step.latency_text(&options.objective),
        step.verdict(),
    );
}

/// Prints a report as it is wanted, draws its plots, and says how the command ends.
fn show(args: &FindArgs, report: &FindReport) -> anyhow::Result<u8> {
    if let Some(folder) = &args.plots {
        report.write_plots(folder)?;
    }
    print(args.format, || report.to_table(), || report.to_json())?;
    Ok(report.exit_code())
}
