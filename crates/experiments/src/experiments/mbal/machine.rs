//! Servers at their own speed on this machine, Evenkeel's and memcached's in turns: what workers that share nothing
//! are worth (section 4.1).
//!
//! A few cores cannot hold busy servers of many workers and who keeps them busy. Where there are not two for
//! each worker, what servers carry is therefore judged by their **processor time**: requests that a core executes in a
//! second of it, times the workers. That is what they would carry if each worker had a core of its own; waiting
//! for locks shows in it as far as it burns time, and not where a thread sleeps meanwhile. Throughput is told as well.
//!
//! Then servers and generator share all cores, however many workers there are: one worker is to have no more room than
//! two.
//!
//! All kinds with as many workers run at the same time and get the same load in turns, another first in each round:
//! machines drift.

use crate::run::Run;
use anyhow::{Context, ensure};
use evenkeel_bench::beside::{Clustered, First, REFUSED_DIVISOR, fill, in_turns, with_cpu_us};
use evenkeel_bench::process::{Server, allowed_cores};
use evenkeel_bench::{Cluster, LoadPlan, Protocol, RoundReport, Source, Stop, Target, median};
use evenkeel_workload::{KeySizes, Mix, MultiGet, Popularity, ValueSizes, WorkloadSpec};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The program that is measured beside ours.
const MEMCACHED: &str = "memcached";

/// Connections to each worker, all together.
const CONNECTIONS_PER_WORKER: usize = 8;

/// Requests in flight on a connection where a request is of one key: nobody ever waits for the generator.
const PIPELINE: usize = 64;

/// Requests in flight on a connection where each is of many keys.
const PIPELINE_MULTIGET: usize = 4;

/// With fewer cores no two numbers of workers have two for each worker.
const CORES_WANTED: usize = 4;

/// Longest wait for one answer, at the end too: what counts is how many come, and a machine may have others to do.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Whose servers, and how they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One server; clients know the map and go to the worker that owns a key, as MBal's do.
    Aware,
    /// One server, asked at its ordinary port by clients that know nothing.
    Unaware,
    /// One memcached.
    Memcached,
    /// As many memcacheds of one thread as there are workers, each with its part of the memory and of the keys.
    Memcacheds,
}

impl Kind {
    pub fn label(self) -> &'static str {
        match self {
            Kind::Aware => "Evenkeel, clients that know the owners",
            Kind::Unaware => "Evenkeel, clients that do not",
            Kind::Memcached => "memcached",
            Kind::Memcacheds => "memcacheds of one thread",
        }
    }
}

/// What servers get to do.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// Keys in all, and their lengths and those of values, in bytes.
    pub keys: u64,
    pub key_len: usize,
    pub value_len: usize,
    pub popularity: Popularity,
    /// Share of the gets; the rest are sets.
    pub get_share: f64,
    /// Keys of a get.
    pub multiget: u64,
    /// Memory of all servers of a kind together, in megabytes.
    pub memory_mb: usize,
    /// Share of the gets that are to miss, each followed by a set of the key. Then `keys` only fill the servers, and
    /// those of each kind are asked for as many as it takes by what they were seen to hold.
    pub misses: Option<f64>,
}

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    pub rounds: usize,
    pub duration: Duration,
}

impl Rounds {
    pub fn of(run: &Run) -> Rounds {
        Rounds {
            rounds: run.by_scale([1, 3, 11, 25]),
            duration: Duration::from_millis(run.by_scale([50, 250, 2_000, 5_000])),
        }
    }
}

/// What was measured of a kind in one round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// Keys read and written a second.
    pub keys_per_second: f64,
    /// The servers' processor time for a key, in microseconds.
    pub cpu_us: f64,
    pub hit_ratio: f64,
}

/// By what it is judged how much servers carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Keys a second: each worker and each thread of the generator has a core.
    Throughput,
    /// Processor time.
    CpuTime,
}

/// All rounds of a kind with this many workers.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub kind: Kind,
    pub workers: u16,
    pub by: By,
    pub rounds: Vec<Round>,
}

impl Figures {
    /// Keys a second that the servers carry, in each round.
    fn carried_each(&self) -> impl Iterator<Item = f64> {
        let workers = f64::from(self.workers);
        self.rounds.iter().map(move |round| match self.by {
            By::Throughput => round.keys_per_second,
            By::CpuTime => workers * 1e6 / round.cpu_us,
        })
    }

    /// Keys a second that the servers carry: the median.
    pub fn carried(&self) -> f64 {
        median(self.carried_each().collect())
    }

    /// A figure's median.
    pub fn middle(&self, figure: fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect())
    }

    /// What they carry by what others do in the same round: the median of the ratios.
    pub fn by(&self, other: &Figures) -> f64 {
        let pairs = self.carried_each().zip(other.carried_each());
        median(pairs.map(|(ours, theirs)| ours / theirs).collect())
    }
}

/// Numbers of workers that are looked at: as told, or powers of two up to one for each core.
pub(super) fn worker_counts(run: &Run) -> anyhow::Result<Vec<u16>> {
    if let Some(workers) = &run.workers {
        return Ok(workers.clone());
    }
    let cores = allowed_cores()?.len();
    let powers = std::iter::successors(Some(1u16), |workers| workers.checked_mul(2));
    Ok(powers
        .take_while(|&workers| usize::from(workers) <= cores)
        .collect())
}

/// Measures each kind with this many workers under each of the loads, in turns. The figures are by load, then by kind.
pub(super) fn measure(
    run: &Run,
    rounds: Rounds,
    kinds: &[Kind],
    workers: u16,
    loads: &[Load],
) -> anyhow::Result<Vec<Vec<Figures>>> {
    let ground = Ground::new(workers)?;
    let mut all = Vec::new();
    for (number, load) in loads.iter().enumerate() {
        let at = format!("{workers} workers, load {}/{}", number + 1, loads.len());
        run.progress.say(format!("{at}: starting"));
        let running = kinds
            .iter()
            .map(|&kind| Running::start(kind, workers, load, &ground, run.seed))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let measured = in_turns(
            &running,
            0..=rounds.rounds,
            First::Another,
            |round, running| {
                let label = running.kind.label();
                run.progress
                    .say(format!("{at}: {label}, round {round}/{}", rounds.rounds));
                // Others are asked for in each, or caches would remember the last round. The first fills what was not filled.
                let seed = run.seed.wrapping_add(round as u64);
                running.measure(load, rounds.duration, &ground, seed)
            },
        )?;
        let figures = kinds.iter().zip(measured);
        all.push(
            figures
                .map(|(&kind, rounds)| Figures {
                    kind,
                    workers,
                    by: ground.by,
                    rounds,
                })
                .collect(),
        );
    }
    Ok(all)
}

/// Which cores are whose.
#[derive(Clone, Debug)]
struct Ground {
    servers: Vec<usize>,
    generator: Vec<usize>,
    by: By,
}

impl Ground {
    fn new(workers: u16) -> anyhow::Result<Ground> {
        let cores = allowed_cores()?;
        let workers = usize::from(workers);
        Ok(match cores.len() >= CORES_WANTED.max(2 * workers) {
            true => Ground {
                servers: cores[..workers].to_vec(),
                generator: cores[workers..].to_vec(),
                by: By::Throughput,
            },
            // One worker is to have no more room than several.
            false => Ground {
                servers: cores.clone(),
                generator: cores,
                by: By::CpuTime,
            },
        })
    }
}

/// The servers of a kind, filled.
#[derive(Debug)]
struct Running {
    kind: Kind,
    workers: u16,
    // Before the coordinator, so that they go first.
    servers: Vec<Server>,
    cluster: Option<Arc<Cluster>>,
    /// Keys that each of the servers is asked for.
    keys: u64,
    _coordinator: Option<Server>,
}

impl Running {
    fn start(
        kind: Kind,
        workers: u16,
        load: &Load,
        ground: &Ground,
        seed: u64,
    ) -> anyhow::Result<Running> {
        let (threads, memory) = (workers.to_string(), load.memory_mb.to_string());
        let mut running = Running {
            kind,
            workers,
            servers: Vec::new(),
            cluster: None,
            keys: 0,
            _coordinator: None,
        };
        let sized = ["-t", &threads, "-m", &memory];
        match kind {
            Kind::Unaware => {
                let arguments = ["server", "-l", "127.0.0.1", "-p", "0"];
                let arguments = [&arguments[..], &sized].concat();
                running.servers = vec![Server::evenkeel(&arguments, &ground.servers)?];
            }
            Kind::Aware => {
                let (more, cores) = (["-m", &memory], allowed_cores()?);
                let workers = usize::from(workers);
                let clustered =
                    Clustered::start(workers, &more, &ground.servers, &cores, |_| Ok(()))?;
                running.cluster = Some(clustered.join()?);
                running.servers = vec![clustered.server];
                running._coordinator = Some(clustered.coordinator);
            }
            Kind::Memcached => {
                running.servers = vec![memcached(&sized, &ground.servers)?];
            }
            Kind::Memcacheds => {
                let memory = (load.memory_mb / usize::from(workers)).max(1).to_string();
                let sized = ["-t", "1", "-m", &memory];
                let started = (0..workers).map(|_| memcached(&sized, &ground.servers));
                running.servers = started.collect::<anyhow::Result<Vec<_>>>()?;
            }
        }
        running.keys = load.keys / running.servers.len() as u64;
        let refused_max = match kind {
            // Filled beyond its memory.
            Kind::Memcached | Kind::Memcacheds if load.misses.is_some() => {
                running.keys / REFUSED_DIVISOR
            }
            _ => 0,
        };
        // What is only ever written fills itself.
        if load.get_share > 0.0 {
            for server in &running.servers {
                let workload = workload(load, running.keys, seed)?;
                fill(server, workload, refused_max, &ground.generator)?;
            }
        }
        if let Some(misses) = load.misses {
            let held = running
                .servers
                .iter()
                .map(|server| server.stats("")?.number("curr_items"));
            let held = held.sum::<anyhow::Result<u64>>()? / running.servers.len() as u64;
            running.keys = (held as f64 / (1.0 - misses)) as u64;
        }
        Ok(running)
    }

    /// Puts the load on all servers at once.
    fn measure(
        &self,
        load: &Load,
        duration: Duration,
        ground: &Ground,
        seed: u64,
    ) -> anyhow::Result<Round> {
        let plan = |server: &Server| -> anyhow::Result<LoadPlan> {
            let spec = workload(load, self.keys, seed)?;
            let connections = match self.servers.len() {
                1 => CONNECTIONS_PER_WORKER * usize::from(self.workers),
                _ => CONNECTIONS_PER_WORKER,
            };
            let threads = match self.servers.len() {
                1 => ground.generator.len().min(connections),
                _ => 1,
            };
            Ok(LoadPlan {
                threads,
                connections_per_thread: connections / threads,
                pin: ground.generator.clone(),
                pipeline: match load.multiget {
                    1 => PIPELINE,
                    _ => PIPELINE_MULTIGET,
                },
                protocol: match load.multiget {
                    // What aware clients speak, from everybody.
                    1 => Protocol::Meta,
                    _ => Protocol::Classic,
                },
                cluster: self.cluster.clone(),
                cache_aside: load.misses.is_some(),
                stop: Stop::after(duration),
                answer_timeout: ANSWER_TIMEOUT,
                drain: ANSWER_TIMEOUT,
                seed,
                ..LoadPlan::new(Target::from(server.address), Source::Generated(spec))
            })
        };
        let plans = self.servers.iter().map(plan);
        let plans = plans.collect::<anyhow::Result<Vec<_>>>()?;
        let (reports, cpu_us) = with_cpu_us(&self.servers, || all_at_once(plans))?;
        let sum = |figure: fn(&RoundReport) -> u64| reports.iter().map(figure).sum::<u64>();
        let errors = sum(|report| report.counters.errors + report.counters.wrong_values);
        let (gets, sets) = (
            sum(|report| report.counters.gets),
            sum(|report| report.counters.sets),
        );
        let first = reports.iter().find_map(|report| report.first_error.clone());
        ensure!(
            errors == 0 && gets + sets > 0,
            "{}: {errors} errors in {} keys ({})",
            self.kind.label(),
            gets + sets,
            first.unwrap_or_else(|| "none was told".into())
        );
        Ok(Round {
            keys_per_second: reports.iter().map(|report| report.keys_per_second).sum(),
            cpu_us: cpu_us / (gets + sets) as f64,
            hit_ratio: sum(|report| report.counters.hits) as f64 / gets.max(1) as f64,
        })
    }
}

/// Measures several loads at the same time.
fn all_at_once(plans: Vec<LoadPlan>) -> anyhow::Result<Vec<RoundReport>> {
    thread::scope(|scope| {
        let started: Vec<_> = plans
            .into_iter()
            .map(|plan| scope.spawn(|| evenkeel_bench::measure(plan)))
            .collect();
        let joined = started.into_iter().map(|measuring| {
            let measured = measuring.join();
            measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        joined.collect()
    })
}

/// Starts a memcached.
pub(super) fn memcached(arguments: &[&str], cores: &[usize]) -> anyhow::Result<Server> {
    Server::memcached(Path::new(MEMCACHED), arguments, cores)
        .context("memcached is measured beside Evenkeel here")
}

/// Keys and requests of a server that has this many keys.
pub(super) fn workload(load: &Load, keys: u64, seed: u64) -> anyhow::Result<WorkloadSpec> {
    Ok(WorkloadSpec {
        keys: Some(keys.max(1)),
        popularity: load.popularity,
        mix: Mix::gets(load.get_share)?,
        multiget: MultiGet::Keys(load.multiget),
        prefix: String::new(),
        key_sizes: KeySizes::fixed(load.key_len as u32)?,
        value_sizes: ValueSizes::fixed(load.value_len as u32)?,
        seed,
        ..WorkloadSpec::default()
    })
}

/// What a reader must know of all figures of this kind.
pub(super) fn notes(figures: &[Figures]) -> Vec<String> {
    let mut notes = vec![
        "A server's figures are medians over the rounds; ratios are medians of the ratios in the same round.".to_owned(),
    ];
    if figures.iter().any(|figures| figures.by == By::CpuTime) {
        notes.push(
            "There are not two cores for each worker here. What servers carry is worked out from their processor time: what \
             they would if each worker had a core of its own. A server that gets many requests at once needs less for \
             each, which a second worker and its connections may bring about, so that a worker may seem to carry more \
             than one alone."
                .into(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(by: By, rounds: &[(f64, f64)]) -> Figures {
        let round = |&(keys_per_second, cpu_us): &(f64, f64)| Round {
            keys_per_second,
            cpu_us,
            hit_ratio: 1.0,
        };
        Figures {
            kind: Kind::Unaware,
            workers: 2,
            by,
            rounds: rounds.iter().map(round).collect(),
        }
    }

    #[test]
    fn what_is_carried_is_counted_or_worked_out() {
        let rounds = [(1_000.0, 4.0), (800.0, 5.0), (900.0, 2.0)];
        assert_eq!(figures(By::Throughput, &rounds).carried(), 900.0);
        assert_eq!(figures(By::CpuTime, &rounds).carried(), 500_000.0);
    }

    #[test]
    fn a_machine_that_drifts_changes_no_ratio() {
        let ours = figures(By::Throughput, &[(200.0, 1.0), (100.0, 1.0), (60.0, 1.0)]);
        let theirs = figures(By::Throughput, &[(100.0, 1.0), (50.0, 1.0), (30.0, 1.0)]);
        assert_eq!(ours.by(&theirs), 2.0);
    }
}
