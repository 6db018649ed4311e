//! `evenkeel sim load`: load and latency, in either fidelity.

use super::{EXIT_FINE, OutputFormat, SECOND, report_error};
use crate::load::{Arrivals, LoadPlan, ServiceModel, fast, whole};
use anyhow::{Context, anyhow, ensure};
use clap::{Args, ValueEnum};
use evenkeel_policy::hot_keys::config::Mode;
use evenkeel_workload::Popularity;
use std::io::{self, Write};
use std::path::PathBuf;

/// How much is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fidelity {
    /// The cores that ship, byte by byte
    Whole,
    /// Queues and decisions alone
    Fast,
}

/// Simulates load and latency
#[derive(Clone, Debug, Args)]
pub struct LoadArgs {
    /// How much is simulated
    #[arg(long, value_enum, default_value_t = Fidelity::Whole)]
    pub fidelity: Fidelity,

    /// Decides everything that is left to chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Servers
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub servers: usize,

    /// Workers of each server
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub workers: u16,

    /// Cachelets of each worker
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub cachelets: usize,

    /// Proxies
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub proxies: usize,

    /// Application connections of all proxies
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub clients: usize,

    /// Keys
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub keys: u64,

    /// Law of popularity: uniform, zipf(EXPONENT), hotspot(OPERATIONS, KEYS) or another of docs/workloads.md
    #[arg(long, value_name = "LAW", default_value = "zipf(0.99)")]
    pub popularity: Popularity,

    /// Part of requests that are gets
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    pub get_share: f64,

    /// Bytes of every value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub value_size: usize,

    /// Leave keys that were missed alone
    #[arg(long)]
    pub no_fill: bool,

    /// Memory of each server, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    pub memory: usize,

    /// Replicate hot keys
    #[arg(long)]
    pub hot_keys: bool,

    /// Requests a second of all applications, at random times
    #[arg(long, value_name = "N", conflicts_with = "pipeline")]
    pub rate: Option<f64>,

    /// Requests that each application sends at once, and the next when all are answered
    #[arg(long, value_name = "N")]
    pub pipeline: Option<usize>,

    /// One way between proxy and server, in microseconds
    #[arg(long, value_name = "US", default_value_t = 50)]
    pub network: u64,

    /// What servers take, from `evenkeel sim calibrate`; nothing unless it is said
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,

    /// Virtual seconds before it is measured
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    pub warm_up: f64,

    /// Virtual seconds that are measured
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    pub seconds: f64,

    /// How to print the report
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub format: OutputFormat,
}

impl LoadArgs {
    fn plan(&self) -> anyhow::Result<LoadPlan> {
        let service = match &self.model {
            None => ServiceModel::default(),
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("failed to read {}", path.display()))?;
                let model: ServiceModel = serde_json::from_str(&text)
                    .with_context(|| format!("{} is no model", path.display()))?;
                model.validate()?;
                model
            }
        };
        for (name, seconds) in [("warm-up", self.warm_up), ("seconds", self.seconds)] {
            let is_sound = (0.0..=86_400.0).contains(&seconds);
            ensure!(is_sound, "{name}: {seconds} is not within 0 and 86400");
        }
        let default = LoadPlan::default();
        let mut hot_keys = default.hot_keys.clone();
        if self.hot_keys {
            hot_keys.mode = Mode::On;
        }
        Ok(LoadPlan {
            seed: self.seed,
            servers: self.servers,
            workers_per_server: self.workers,
            cachelets_per_worker: self.cachelets,
            proxies: self.proxies,
            clients: self.clients,
            keys: self.keys,
            popularity: self.popularity,
            get_share: self.get_share,
            value_bytes: self.value_size,
            fill: !self.no_fill,
            memory_bytes: self.memory << 20,
            hot_keys,
            arrivals: match (self.rate, self.pipeline) {
                (Some(rate), _) => Arrivals::Open { rate },
                (None, Some(pipeline)) => Arrivals::Closed { pipeline },
                (None, None) => default.arrivals,
            },
            network: self.network * 1_000,
            local: default.local,
            service,
            warm_up: (self.warm_up * SECOND as f64) as u64,
            length: (self.seconds * SECOND as f64) as u64,
        })
    }
}

/// Runs and prints; the exit code is 0, or 1 when it failed.
pub fn execute_load(args: &LoadArgs) -> u8 {
    let run = || -> anyhow::Result<()> {
        let plan = args.plan()?;
        let report = match args.fidelity {
            Fidelity::Whole => whole::run(&plan),
            Fidelity::Fast => fast::run(&plan),
        };
        let report = report.map_err(|words| anyhow!(words))?;
        let text = match args.format {
            OutputFormat::Table => report.to_string(),
            OutputFormat::Json => serde_json::to_string_pretty(&report)?,
        };
        writeln!(io::stdout(), "{text}").context("printing the report")
    };
    match run() {
        Ok(()) => EXIT_FINE,
        Err(error) => report_error("load", &error),
    }
}
