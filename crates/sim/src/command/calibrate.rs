//! `evenkeel sim calibrate`: what a server's worker takes, from measurements.

use super::{EXIT_FINE, report_error};
use crate::load::service::{Fit, Measured, fit};
use anyhow::Context;
use clap::Args;
use serde_json::Value;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

/// Writes a model of what servers take, from reports of `evenkeel bench run --format json`
#[derive(Clone, Debug, Args)]
pub struct CalibrateArgs {
    /// Reports of closed-loop runs that saturated one server, with pipelines and sizes that differ
    #[arg(required = true, value_name = "BENCH.json")]
    pub reports: Vec<PathBuf>,

    /// Which target of each report, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub target: usize,

    /// Threads that the server had, each a core of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: u16,

    /// Where to write the model; standard output unless it is said
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Fits, writes and tells how well it fits; the exit code is 0, or 1 when it failed.
pub fn execute_calibrate(args: &CalibrateArgs) -> u8 {
    match calibrate(args) {
        Ok(()) => EXIT_FINE,
        Err(error) => report_error("calibrate", &error),
    }
}

fn calibrate(args: &CalibrateArgs) -> anyhow::Result<()> {
    let measured = args.reports.iter().map(|path| {
        let text = fs::read_to_string(path)
            .with_context(|| format!("failed to read {}", path.display()))?;
        let report: Value = serde_json::from_str(&text)
            .with_context(|| format!("{} is not JSON", path.display()))?;
        Measured::of_report(&report, args.target, usize::from(args.workers))
            .with_context(|| format!("failed to use {}", path.display()))
    });
    let measured = measured.collect::<anyhow::Result<Vec<_>>>()?;
    let Fit {
        model,
        runs,
        worst_error,
    } = fit(&measured)?;
    let text = serde_json::to_string_pretty(&model)? + "\n";
    match &args.output {
        Some(path) => {
            fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))?
        }
        None => io::stdout().write_all(text.as_bytes())?,
    }
    eprintln!(
        "{runs} runs; the model is at most {:.1} % off any of them",
        worst_error * 100.0
    );
    Ok(())
}
