//! `evenkeel sim run`: many seeds, and what went wrong in any of them.

use super::{ClusterArgs, EXIT_FAILED, EXIT_FINE, OutputFormat, print_line, report_error};
use crate::many;
use crate::world::{FaultCoverage, LedReport, Report};
use anyhow::Context;
use clap::Args;
use core::fmt;
use core::ops::Range;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;

/// Violations that are told of one run; one usually brings others.
const VIOLATIONS_SHOWN_MAX: usize = 3;

/// Runs clusters from seeds, with faults, and checks what their clients see
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Seeds, the last one not included
    #[arg(long, value_name = "A..B", default_value = "0..100", value_parser = seeds)]
    pub seeds: Range<u64>,

    /// What is simulated
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Runs at the same time; as many as there are cores unless it is said
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,

    /// How to print the report
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub format: OutputFormat,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let range = || {
        let (first, end) = text.split_once("..")?;
        Some(first.parse().ok()?..end.parse().ok()?)
    };
    range()
        .filter(|range| !range.is_empty())
        .ok_or_else(|| "seeds are A..B, with A below B".into())
}

/// What came of all runs.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// First seed.
    pub seed_first: u64,
    /// Runs.
    pub runs: u64,
    /// Servers of each.
    pub servers: usize,
    /// Virtual seconds of each.
    pub virtual_seconds: u64,
    /// Seconds that all took together.
    pub elapsed_seconds: f64,
    /// Runs in which something went wrong.
    pub failed: Vec<FailedRun>,
    /// How often each fault, each kind of command and each rare branch occurred.
    pub sometimes: BTreeMap<&'static str, u64>,
    /// What went wrong with cachelets in the middle of changes: by occasion, what happened, and the step.
    pub struck: FaultCoverage,
    /// What went wrong while pools were led to other servers, by stage, and what was done.
    pub led: LedReport,
    /// Stands for every event of every run, as 16 hexadecimal digits.
    pub event_hash: String,
}

/// A run in which something went wrong.
#[derive(Clone, Debug, Serialize)]
pub struct FailedRun {
    /// Its seed.
    pub seed: u64,
    /// What must not have happened.
    pub violations: Vec<String>,
}

/// Runs, prints, and returns the exit code: 0 fine, 1 when something went wrong.
pub fn execute_run(args: &RunArgs) -> u8 {
    let report = run(args);
    let print = || -> anyhow::Result<()> {
        let text = match args.format {
            OutputFormat::Table => report.to_string(),
            OutputFormat::Json => serde_json::to_string_pretty(&report)?,
        };
        print_line(&text).context("printing the report")
    };
    match print() {
        Ok(()) if report.failed.is_empty() => EXIT_FINE,
        Ok(()) => EXIT_FAILED,
        Err(error) => report_error("run", &error),
    }
}

fn run(args: &RunArgs) -> RunReport {
    let begun = Instant::now();
    let runs = args.seeds.end - args.seeds.start;
    let style = "{bar:30} {pos}/{len} runs, {eta} to go  {msg}";
    // Drawn on a terminal alone.
    let bar = ProgressBar::new(runs)
        .with_style(ProgressStyle::with_template(style).expect("a template that is known"));
    let mut total = Report::default();
    let mut failed = Vec::new();
    let threads = args.threads.unwrap_or_else(many::cores);
    let plan = |seed| args.cluster.plan(seed);
    many::run(args.seeds.clone(), threads, plan, |seed, outcome| {
        total.add(&outcome.report);
        if !outcome.violations.is_empty() {
            failed.push(FailedRun {
                seed,
                violations: outcome.violations,
            });
            bar.set_message(format!("{} failed", failed.len()));
        }
        bar.inc(1);
        true
    });
    bar.finish_and_clear();
    RunReport {
        seed_first: args.seeds.start,
        runs,
        servers: args.cluster.servers,
        virtual_seconds: args.cluster.seconds,
        elapsed_seconds: begun.elapsed().as_secs_f64(),
        failed,
        event_hash: format!("{:016x}", total.event_hash),
        sometimes: total.counts,
        struck: total.fault_coverage,
        led: total.led,
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in &self.sometimes {
            writeln!(f, "{count:>12}  {name}")?;
        }
        write!(f, "\n{}{}", self.struck, self.led)?;
        writeln!(
            f,
            "\n{} runs of {} s with {} servers in {:.1} s; events {}",
            self.runs, self.virtual_seconds, self.servers, self.elapsed_seconds, self.event_hash
        )?;
        if self.failed.is_empty() {
            return f.write_str("no violation was found");
        }
        for run in &self.failed {
            for violation in run.violations.iter().take(VIOLATIONS_SHOWN_MAX) {
                writeln!(f, "seed {}: {violation}", run.seed)?;
            }
        }
        write!(
            f,
            "{} of {} runs failed; `evenkeel sim replay SEED` tells the story of one",
            self.failed.len(),
            self.runs
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_that_is_not_empty() {
        assert_eq!(seeds("3..7"), Ok(3..7));
        for wrong in ["7", "3..3", "7..3", "a..b", "3..", ""] {
            assert!(seeds(wrong).is_err(), "{wrong}");
        }
    }
}
