//! What the end-to-end tests share.

use clap::Parser;
use evenkeel_bench::{RunArgs, RunReport, run};
use std::time::Duration;

/// Longest wait for something that should happen at once.
pub const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    run: RunArgs,
}

/// The arguments that a line of the command becomes.
pub fn args(line: &str) -> RunArgs {
    Command::parse_from(std::iter::once("run").chain(line.split_whitespace())).run
}

/// The report of a run that must succeed.
pub fn report(line: &str) -> RunReport {
    run(&args(line)).unwrap()
}
