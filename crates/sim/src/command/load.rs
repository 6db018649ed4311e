//! `evenkeel sim load`: load and latency, in either fidelity.

use super::{EXIT_FINE, OutputFormat, SECOND, print_line, report_error};
use crate::load::{Arrivals, Balancing, KeyPlacement, LoadPlan, ServiceModel, fast, whole};
use anyhow::{Context, anyhow, ensure};
use clap::{Args, ValueEnum};
use core::time::Duration;
use evenkeel_coordinator_core::plans::{PlanMode, PlanSettings};
use evenkeel_hotkeys::config::{GAMMA_MAX_DEFAULT, HotKeysConfig, Mode, ssm_entries};
use evenkeel_workload::{Popularity, ReadOnly};
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

    /// How keys get to servers: by an even map, or as clients of plain servers place them (ketama_weighted and the
    /// other distributions of the proxy)
    #[arg(long, value_name = "PLACEMENT", default_value_t = KeyPlacement::Map)]
    pub placement: KeyPlacement,

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

    /// Make other keys the hot ones every this many virtual seconds
    #[arg(long, value_name = "SECONDS")]
    pub reshuffle: Option<f64>,

    /// Part of requests that are gets
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    pub get_share: f64,

    /// Keys that are read where others would be written, such as 'read-only(every=5, among=500)' of the hottest
    #[arg(long, value_name = "KEYS")]
    pub read_only: Option<ReadOnly>,

    /// Bytes of every value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub value_size: usize,

    /// Set every key once before the load begins
    #[arg(long)]
    pub prefill: bool,

    /// Leave keys that were missed alone
    #[arg(long)]
    pub no_fill: bool,

    /// Memory of each server, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    pub memory: usize,

    /// Replicate hot keys
    #[arg(long)]
    pub hot_keys: bool,

    /// How long a client may read a copy before it asks the home again, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub lease_ms: u32,

    /// Most copies of a key besides its home's
    #[arg(long, value_name = "N", default_value_t = GAMMA_MAX_DEFAULT)]
    pub gamma_max: u8,

    /// Share of reads that are sampled for hot keys, in per cent
    /// [default: what gives 2,000 samples a second, at least 3]
    #[arg(long, value_name = "PERCENT")]
    pub hot_sampling: Option<f64>,

    /// A key is hot from this share of a worker's load on, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub hot_share: f64,

    /// Look for hot keys on a worker that serves this many requests a second
    /// [default: 1.05 times the mean of the cluster, if it is busy for 30 % of its time]
    #[arg(long, value_name = "RATE")]
    pub hot_trigger_rps: Option<f64>,

    /// Let overloaded workers lend cachelets to others of their server; in the fast mode
    #[arg(long)]
    pub balance_workers: bool,

    /// Let the coordinator move cachelets to other servers; in the fast mode
    #[arg(long)]
    pub balance_servers: bool,

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
        let default = LoadPlan::default();
        Ok(LoadPlan {
            seed: self.seed,
            servers: self.servers,
            workers_per_server: self.workers,
            placement: self.placement,
            cachelets_per_worker: self.cachelets,
            proxies: self.proxies,
            clients: self.clients,
            keys: self.keys,
            popularity: self.popularity,
            reshuffle: match self.reshuffle {
                Some(interval) => Some(nanos("reshuffle", interval)?),
                None => None,
            },
            get_share: self.get_share,
            read_only: self.read_only,
            value_bytes: self.value_size,
            prefill: self.prefill,
            fill: !self.no_fill,
            memory_bytes: self.memory << 20,
            hot_keys: self.hot_keys(),
            reads: default.reads,
            balancing: self.balancing(),
            arrivals: match (self.rate, self.pipeline) {
                (Some(rate), _) => Arrivals::Open { rate },
                (None, Some(pipeline)) => Arrivals::Closed { pipeline },
                (None, None) => default.arrivals,
            },
            network: self.network * 1_000,
            local: default.local,
            service,
            warm_up: nanos("warm-up", self.warm_up)?,
            length: nanos("seconds", self.seconds)?,
        })
    }

    fn balancing(&self) -> Option<Balancing> {
        let mode = match self.balance_servers {
            true => PlanMode::Automatic,
            false => PlanMode::Observe,
        };
        let plans = PlanSettings {
            mode,
            ..PlanSettings::default()
        };
        (self.balance_workers || self.balance_servers).then_some(Balancing {
            lends: self.balance_workers,
            plans,
        })
    }

    /// As the server's flags of these names.
    fn hot_keys(&self) -> HotKeysConfig {
        let share = self.hot_share / 100.0;
        let entries_max = ssm_entries(usize::from(self.workers));
        let mut config = HotKeysConfig {
            entries_max,
            mode: match self.hot_keys {
                true => Mode::On,
                false => Mode::Off,
            },
            lease: Duration::from_millis(u64::from(self.lease_ms)),
            sampling: self.hot_sampling.map(|percent| percent / 100.0),
            hot_share: share,
            cold_share: share / 2.0,
            gamma_max: self.gamma_max,
            ..HotKeysConfig::default()
        };
        config.trigger.absolute_rps = self.hot_trigger_rps;
        config
    }
}

/// Virtual time of a flag.
fn nanos(name: &str, seconds: f64) -> anyhow::Result<u64> {
    let is_sound = (0.0..=86_400.0).contains(&seconds);
    ensure!(is_sound, "{name}: {seconds} is not within 0 and 86400");
    Ok((seconds * SECOND as f64) as u64)
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
        print_line(&text).context("printing the report")
    };
    match run() {
        Ok(()) => EXIT_FINE,
        Err(error) => report_error("load", &error),
    }
}
