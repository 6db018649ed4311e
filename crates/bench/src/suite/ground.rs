//! Where and how a suite measures: cores, rounds, keys, and the loads that all of them share.

use super::peer::Peer;
use super::report::{PeerResult, SuiteSettings};
use super::rows::Traffic;
use crate::beside::{First, fill, in_turns};
use crate::driver::Load;
use crate::process::{Server, allowed_cores};
use crate::report::{RoundReport, median};
use crate::run::measure_load;
use crate::units::parse_duration;
use crate::{BadUsage, LoadPlan, Protocol, Source, Stop, Target};
use anyhow::{Context, ensure};
use evenkeel_workload::{
    Arrivals, KeySizes, Mix, MultiGet, Operation, Popularity, Rate, ValueSizes, WorkloadSpec,
};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A load before each row that is not measured, for each peer.
pub(super) const WARM_UP: Duration = Duration::from_millis(200);

/// Memory of each server whose items are not counted: far more than the keys need.
pub(super) const MEMORY_MB: &str = "1024";

/// Longest wait for an answer. A suite says how fast a server is, not whether its machine has time for it: on a
/// busy one a process may get nothing to do for seconds.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Lengths of keys and values.
pub(super) const KEY_LEN: usize = 32;
pub(super) const VALUE_LEN: usize = 100;

/// Connections and depth of the pipelines that check what a server holds.
pub(super) const CHECK_CONNECTIONS: usize = 4;
pub(super) const CHECK_PIPELINE: usize = 64;

/// Connections where latency is measured, and requests that may be in flight on each.
const LATENCY_CONNECTIONS: usize = 16;
const LATENCY_PIPELINE: usize = 64;

/// A round of latencies is this many times as long as those of other rows: one request of a thousand counts.
const LATENCY_LENGTHS: u32 = 2;

/// Cores that the generator takes where none are named.
const GENERATOR_CORES_DEFAULT: usize = 2;

/// Where and how a suite measures.
#[derive(Clone, Debug, clap::Args)]
pub struct GroundArgs {
    /// Core of the servers with one worker [default: the first]
    #[arg(long, value_name = "CORE")]
    pub server_core: Option<usize>,

    /// Cores of the generator [default: up to two others]
    #[arg(long, value_delimiter = ',', value_name = "CORE")]
    pub generator_cores: Vec<usize>,

    /// Measurements of each peer in each row [default: 5]
    #[arg(long)]
    pub rounds: Option<usize>,

    /// Length of each measurement [default: 1s]
    #[arg(long, value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Number of keys [default: 1000000]
    #[arg(long)]
    pub keys: Option<u64>,

    /// Only the rows whose names contain one of these words.
    #[arg(long, value_delimiter = ',', value_name = "WORD")]
    pub rows: Vec<String>,

    /// Fewer rounds, shorter ones, fewer keys, less memory: shows that everything runs. Its figures
    /// say little.
    #[arg(long)]
    pub quick: bool,

    /// Where the result goes as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What all measurements share.
pub(super) struct Ground {
    pub(super) server_core: usize,
    pub(super) generator_cores: Vec<usize>,
    pub(super) rounds: usize,
    pub(super) duration: Duration,
    pub(super) keys: u64,
    pub(super) quick: bool,
    wanted: Vec<String>,
    load_average_before: f64,
}

impl Ground {
    pub(super) fn new(args: &GroundArgs) -> anyhow::Result<Self> {
        let bad = |message: &str| Err(BadUsage(message.to_owned()).into());
        let allowed = allowed_cores()?;
        if allowed.len() < 2 {
            return bad("two cores are needed: one for what is measured, one for the generator");
        }
        let server_core = args.server_core.unwrap_or(allowed[0]);
        let mut generator_cores = args.generator_cores.clone();
        if generator_cores.is_empty() {
            let others = allowed.iter().filter(|&&core| core != server_core);
            generator_cores = others.copied().take(GENERATOR_CORES_DEFAULT).collect();
        }
        if let Some(core) = generator_cores
            .iter()
            .chain([&server_core])
            .find(|core| !allowed.contains(core))
        {
            return bad(&format!("core {core} is not one that this process may use"));
        }
        let rounds = args.rounds.unwrap_or(if args.quick { 3 } else { 5 });
        if !(1..=crate::args::ROUNDS_MAX).contains(&rounds) {
            return bad("--rounds: not within 1 and 1000");
        }
        let millis = if args.quick { 300 } else { 1000 };
        let keys = if args.quick { 100_000 } else { 1_000_000 };
        Ok(Ground {
            server_core,
            generator_cores,
            rounds,
            duration: args.duration.unwrap_or(Duration::from_millis(millis)),
            keys: args.keys.unwrap_or(keys),
            quick: args.quick,
            wanted: args.rows.clone(),
            load_average_before: load_average(),
        })
    }

    /// What the report says of it.
    pub(super) fn settings(&self) -> anyhow::Result<SuiteSettings> {
        Ok(SuiteSettings {
            processor: processor_name(),
            cores: allowed_cores()?.len(),
            server_core: self.server_core,
            generator_cores: self.generator_cores.clone(),
            rounds: self.rounds,
            seconds: self.duration.as_secs_f64(),
            keys: self.keys,
            key_size_bytes: KEY_LEN,
            value_size_bytes: VALUE_LEN,
            load_average_before: self.load_average_before,
            load_average_after: load_average(),
        })
    }

    pub(super) fn wants(&self, id: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|word| id.contains(word.as_str()))
    }

    /// One operation on all keys alike.
    pub(super) fn workload(&self, operation: Operation) -> anyhow::Result<WorkloadSpec> {
        Ok(WorkloadSpec {
            keys: Some(self.keys),
            popularity: Popularity::Uniform,
            mix: Mix::of(&[(operation, 1.0)])?,
            key_sizes: KeySizes::fixed(KEY_LEN as u32)?,
            value_sizes: ValueSizes::fixed(VALUE_LEN as u32)?,
            ..WorkloadSpec::default()
        })
    }

    /// A closed loop of one operation on all keys alike, on the generator's cores.
    pub(super) fn plan(
        &self,
        server: &Server,
        operation: Operation,
        connections: usize,
    ) -> anyhow::Result<LoadPlan> {
        let workload = self.workload(operation)?;
        let cores = &self.generator_cores;
        Ok(self.plan_on(server.address, workload, connections, cores))
    }

    /// A closed loop of a workload, on these cores.
    pub(super) fn plan_on(
        &self,
        server: SocketAddr,
        workload: WorkloadSpec,
        connections: usize,
        cores: &[usize],
    ) -> LoadPlan {
        let threads = cores.len().min(connections);
        LoadPlan {
            threads,
            connections_per_thread: connections / threads,
            stop: Stop::after(self.duration),
            // What is read is checked once, before the measurements: checking costs the generator.
            check_values: false,
            answer_timeout: ANSWER_TIMEOUT,
            drain: ANSWER_TIMEOUT,
            give_up_after: Some(ANSWER_TIMEOUT),
            pin: cores.to_vec(),
            ..LoadPlan::new(Target::from(server), Source::Generated(workload))
        }
    }

    /// A closed loop on these cores, whose requests are made beforehand: what a server does under it is not
    /// limited by drawing them. It has no target yet.
    pub(super) fn prepared(&self, traffic: &Traffic, cores: &[usize]) -> anyhow::Result<Load> {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let workload = WorkloadSpec {
            multiget: MultiGet::Keys(traffic.multiget as u64),
            ..self.workload(traffic.operation)?
        };
        Ok(Load::prepare(LoadPlan {
            pipeline: traffic.pipeline,
            prepared: true,
            ..self.plan_on(nowhere, workload, traffic.connections, cores)
        })?)
    }

    /// Sets all keys.
    pub(super) fn fill_all(&self, server: &Server) -> anyhow::Result<()> {
        let workload = self.workload(Operation::Get)?;
        fill(server, workload, 0, &self.generator_cores)
    }

    /// Reads with checks, in each dialect: every value must be there and right.
    pub(super) fn check(
        &self,
        server: &Server,
        peer: Peer,
        dialects: &[Protocol],
    ) -> anyhow::Result<()> {
        for &protocol in dialects {
            let plan = LoadPlan {
                pipeline: CHECK_PIPELINE,
                protocol,
                check_values: true,
                stop: Stop::at_request(self.keys.min(50_000)),
                ..self.plan(server, Operation::Get, CHECK_CONNECTIONS)?
            };
            let checked = crate::measure(plan)?.all_right();
            checked.with_context(|| peer.short())?;
        }
        Ok(())
    }
}

/// What was measured of a peer in a round.
pub(super) struct Measured<const N: usize> {
    /// A figure for each row that comes of it.
    pub(super) figures: [f64; N],
    /// The server's processor time for a request, in microseconds.
    pub(super) cpu_us: Option<f64>,
    /// The largest share of its processors that the generator used.
    pub(super) generator_share: Option<f64>,
}

impl Ground {
    /// Measures peers in turns, each for the time that it is told; the results of each figure.
    pub(super) fn in_turns<S, const N: usize>(
        &self,
        id: &str,
        peers: &[(Peer, S)],
        mut measure: impl FnMut(&S, Duration) -> anyhow::Result<Measured<N>>,
    ) -> anyhow::Result<[Vec<PeerResult>; N]> {
        let all = in_turns(
            peers,
            0..=self.rounds,
            First::Same,
            |round, (peer, subject)| {
                let time = if round == 0 { WARM_UP } else { self.duration };
                measure(subject, time).with_context(|| format!("{id}, {}", peer.short()))
            },
        )?;
        let result = |(peer, rounds): (Peer, &Vec<Measured<N>>), figure: usize| {
            let cpu_us: Vec<f64> = rounds.iter().filter_map(|round| round.cpu_us).collect();
            let shares = rounds.iter().filter_map(|round| round.generator_share);
            PeerResult {
                server_cpu_us_per_request: (!cpu_us.is_empty()).then(|| median(cpu_us)),
                generator_cpu_share_max: shares.max_by(f64::total_cmp),
                ..PeerResult::of(
                    peer,
                    rounds.iter().map(|round| round.figures[figure]).collect(),
                )
            }
        };
        Ok(std::array::from_fn(|figure| {
            let peers = peers.iter().map(|(peer, _)| *peer).zip(&all);
            peers.map(|measured| result(measured, figure)).collect()
        }))
    }

    /// Gets at a rate of this many a second, whether or not answers come: each latency counts from the moment that its request
    /// was due. Requests may be in flight on a connection, so that a stall holds up answers and not the generator.
    pub(super) fn at_rate(
        &self,
        server: &Server,
        rate: f64,
        time: Duration,
    ) -> anyhow::Result<RoundReport> {
        let mut plan = LoadPlan {
            pipeline: LATENCY_PIPELINE,
            pace: Arrivals::Poisson(Rate::Constant(rate)),
            ..self.plan(server, Operation::Get, LATENCY_CONNECTIONS)?
        };
        plan.stop.after = Some(time * LATENCY_LENGTHS);
        let report = crate::measure(plan)?;
        let told = report.first_error.as_deref().unwrap_or_default();
        ensure!(report.counters.errors == 0, "{told}");
        Ok(report)
    }

    /// Unpipelined gets a second of a server.
    pub(super) fn maximum(&self, server: &Server) -> anyhow::Result<f64> {
        let figures = (0..self.rounds).map(|_| {
            let plan = self.plan(server, Operation::Get, LATENCY_CONNECTIONS)?;
            Ok(crate::measure(plan)?.requests_per_second)
        });
        Ok(median(figures.collect::<anyhow::Result<_>>()?))
    }
}

/// Runs a load of which every answer has to be what the request is for: a value, or that it was stored.
pub(super) fn all_hits(load: &Load) -> anyhow::Result<RoundReport> {
    measure_load(load)?.all_right()
}

/// Load of the machine over the last minute; 0 where the kernel does not say.
fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_ascii_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

fn processor_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':'));
    name.map_or_else(
        || "unknown processor".to_owned(),
        |(_, name)| name.trim().to_owned(),
    )
}
