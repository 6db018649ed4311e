//! `evenkeel bench suite`: Evenkeel beside memcached and beside what the sockets allow, all in one
//! run, and what was meant to come of it.
//!
//! Each server has one core and the generator others. A row of the table is one load; its rounds go
//! over all peers in turn (A B C A B C …), so that whatever else the machine does meets all of them,
//! and medians are compared. Throughput says how the whole machine does, the processor time that the
//! server used for a request says what the server does, and the generator's own share of its
//! processor says which of the two was measured.
//!
//! ```text
//!  rows     what is measured, and the goals           process  servers on their cores, /proc, stats
//!  loads    one worker: throughput, shared core       memory   items in a limit, idle connections
//!  exchange the cheap closed loop that loads need
//!  latency  at half of memcached's maximum            workers  two against one
//!  report   table, JSON
//! ```

mod exchange;
mod latency;
mod loads;
mod memory;
mod process;
mod report;
mod rows;
mod workers;

pub use report::{PeerReport, PeerResult, RowReport, SuiteReport, SuiteSettings, Unit, Verdict};
pub use rows::Peer;

use crate::driver::Driver;
use crate::report::RoundReport;
use crate::run::report_error;
use crate::units::parse_duration;
use crate::{BadUsage, LoadPlan, Protocol, Source, Stop, Target};
use anyhow::{Context, ensure};
use evenkeel_workload::{KeyFormat, Operation, Popularity, SyntheticSpec, ValueSizes};
use process::{Refused, Server, allowed_cores, memcached_version};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Distance at which running loads are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// A load before each row that is not measured, for each peer.
const WARM_UP: Duration = Duration::from_millis(200);

/// Memory of each server whose items are not counted: far more than the keys need.
const MEMORY_MB: &str = "1024";

/// Lengths of keys and values.
const KEY_LEN: usize = 32;
const VALUE_LEN: usize = 100;

/// Connections and depth of the pipelines that fill a server.
const FILL_CONNECTIONS: usize = 4;
const FILL_PIPELINE: usize = 64;

/// Measures Evenkeel's server beside memcached and an echo server, and prints what was asked of it
/// beside what it reaches.
#[derive(Clone, Debug, clap::Args)]
pub struct SuiteArgs {
    /// A memcached to compare with, the newest first; at most two.
    #[arg(long, value_name = "PROGRAM", required = true)]
    pub memcached: Vec<PathBuf>,

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

/// Runs the suite, prints the table, writes the JSON; returns the exit code: 0 measured (whether or
/// not the goals were met), 1 failed or wrong values seen, 2 bad usage.
pub fn execute_suite(args: &SuiteArgs) -> u8 {
    let run = || {
        let report = run_suite(args)?;
        if let Some(path) = &args.json {
            std::fs::write(path, report.to_json()? + "\n")
                .with_context(|| format!("writing {}", path.display()))?;
        }
        writeln!(std::io::stdout(), "{}", report.to_table()).context("printing the report")
    };
    match run() {
        Ok(()) => 0,
        Err(error) => report_error("suite", &error),
    }
}

/// Measures everything that was asked for.
///
/// # Errors
/// [`BadUsage`] when the arguments make no sense; others when a server cannot be started, fails, or
/// answers a value that is wrong.
pub fn run_suite(args: &SuiteArgs) -> anyhow::Result<SuiteReport> {
    let mut suite = Suite::new(args)?;
    let load_average_before = load_average();
    let mut rows = Vec::new();
    loads::measure(&mut suite, &mut rows)?;
    latency::measure(&mut suite, &mut rows)?;
    workers::measure(&mut suite, &mut rows)?;
    // What is left measures servers of its own.
    suite.stop();
    memory::measure_items(&mut suite, &mut rows)?;
    memory::measure_idle_connections(&mut suite, &mut rows)?;
    let settings = SuiteSettings {
        processor: processor_name(),
        cores: allowed_cores()?.len(),
        server_core: suite.server_core,
        generator_cores: suite.generator_cores.clone(),
        rounds: suite.rounds,
        seconds: suite.duration.as_secs_f64(),
        keys: suite.keys,
        key_size_bytes: KEY_LEN,
        value_size_bytes: VALUE_LEN,
        load_average_before,
        load_average_after: load_average(),
    };
    Ok(SuiteReport::new(suite.names, settings, rows, suite.notes))
}

/// What all measurements share.
struct Suite {
    memcached: Vec<(Peer, PathBuf)>,
    server_core: usize,
    generator_cores: Vec<usize>,
    rounds: usize,
    duration: Duration,
    keys: u64,
    quick: bool,
    wanted: Vec<String>,
    names: Vec<PeerReport>,
    /// Filled servers on `server_core`, from the first row that needs them on.
    servers: Vec<(Peer, Server)>,
    /// Evenkeel's kinds that start here.
    ours: Vec<Peer>,
    notes: Vec<String>,
}

impl Suite {
    fn new(args: &SuiteArgs) -> anyhow::Result<Self> {
        let bad = |message: &str| Err(BadUsage(message.to_owned()).into());
        if args.memcached.len() > 2 {
            return bad("--memcached: the newest and one older, not more");
        }
        let kinds = [Peer::Memcached, Peer::MemcachedOlder];
        let mut memcached = Vec::new();
        let mut names = vec![PeerReport {
            id: Peer::Echo,
            name: "a server that answers with bytes made beforehand, by epoll".into(),
        }];
        for (peer, program) in kinds.into_iter().zip(&args.memcached) {
            let version = memcached_version(program)?;
            let name = format!("memcached {version} -t 1");
            if names.iter().any(|known| known.name == name) {
                continue;
            }
            names.push(PeerReport { id: peer, name });
            memcached.push((peer, program.clone()));
        }
        let allowed = allowed_cores()?;
        if allowed.len() < 2 {
            return bad("two cores are needed: one for the servers, one for the generator");
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
        let mut suite = Suite {
            memcached,
            server_core,
            generator_cores,
            rounds,
            duration: args.duration.unwrap_or(Duration::from_millis(millis)),
            keys: args.keys.unwrap_or(keys),
            quick: args.quick,
            wanted: args.rows.clone(),
            names,
            servers: Vec::new(),
            ours: Vec::new(),
            notes: Vec::new(),
        };
        suite.find_ours()?;
        Ok(suite)
    }

    /// Finds out which kinds of Evenkeel's server start on this machine.
    fn find_ours(&mut self) -> anyhow::Result<()> {
        drop(self.evenkeel(Peer::EvenkeelEpoll, &["-m", "64"])?);
        self.ours.push(Peer::EvenkeelEpoll);
        match self.evenkeel(Peer::EvenkeelUring, &["-m", "64"]) {
            Ok(_) => self.ours.push(Peer::EvenkeelUring),
            Err(error) => {
                let refused = error.downcast::<Refused>()?;
                self.notes
                    .push(format!("io_uring was not measured: {}", refused.told));
            }
        }
        for &peer in &self.ours {
            let io = if peer == Peer::EvenkeelUring {
                "io_uring"
            } else {
                "epoll"
            };
            self.names.push(PeerReport {
                id: peer,
                name: format!("evenkeel {} server -t 1, {io}", env!("CARGO_PKG_VERSION")),
            });
        }
        Ok(())
    }

    fn wants(&self, id: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|word| id.contains(word.as_str()))
    }

    /// One worker of Evenkeel on the servers' core.
    fn evenkeel(&self, peer: Peer, arguments: &[&str]) -> anyhow::Result<Server> {
        let mut all = vec!["server", "-l", "127.0.0.1", "-p", "0", "-t", "1"];
        if peer == Peer::EvenkeelUring {
            all.extend(["--io", "uring"]);
        }
        all.extend(arguments);
        Server::evenkeel(&all, &[self.server_core])
    }

    /// One worker of any peer but the echo server, on the servers' core.
    fn server(&self, peer: Peer, arguments: &[&str]) -> anyhow::Result<Server> {
        match self.memcached.iter().find(|(known, _)| *known == peer) {
            Some((_, program)) => {
                let mut all = vec!["-t", "1"];
                all.extend(arguments);
                Server::memcached(program, &all, &[self.server_core])
            }
            None => self.evenkeel(peer, arguments),
        }
    }

    /// Every peer but the echo server.
    fn peers(&self) -> Vec<Peer> {
        let memcached = self.memcached.iter().map(|(peer, _)| *peer);
        memcached.chain(self.ours.iter().copied()).collect()
    }

    /// Starts and fills the servers that most rows measure, unless they run.
    fn start(&mut self) -> anyhow::Result<()> {
        if !self.servers.is_empty() {
            return Ok(());
        }
        for peer in self.peers() {
            let server = self.server(peer, &["-m", MEMORY_MB])?;
            self.fill(&server, self.key_format()?, self.keys, VALUE_LEN)?;
            self.check(&server, peer)?;
            self.servers.push((peer, server));
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.servers.clear();
    }

    fn key_format(&self) -> anyhow::Result<KeyFormat> {
        Ok(KeyFormat::new("key:", KEY_LEN, self.keys)?)
    }

    /// A closed loop of one operation on all keys alike, on the generator's cores.
    fn plan(
        &self,
        server: &Server,
        operation: Operation,
        connections: usize,
    ) -> anyhow::Result<LoadPlan> {
        let source = Source::Synthetic {
            workload: SyntheticSpec {
                keys: self.keys,
                popularity: Popularity::Uniform,
                get_share: if operation == Operation::Get {
                    1.0
                } else {
                    0.0
                },
                seed: 1,
            },
            keys: self.key_format()?,
        };
        let threads = self.generator_cores.len().min(connections);
        Ok(LoadPlan {
            threads,
            connections_per_thread: connections / threads,
            stop: Stop {
                after: Some(self.duration),
                requests: None,
            },
            // What is read is checked once, before the measurements: checking costs the generator.
            check_values: false,
            give_up_after: Some(Duration::from_secs(5)),
            pin: self.generator_cores.clone(),
            ..LoadPlan::new(Target::from(server.address), source)
        })
    }

    /// Sets keys `0..count`.
    fn fill(
        &self,
        server: &Server,
        keys: KeyFormat,
        count: u64,
        value_len: usize,
    ) -> anyhow::Result<()> {
        let plan = LoadPlan {
            connections_per_thread: FILL_CONNECTIONS,
            pipeline: FILL_PIPELINE,
            value_sizes: ValueSizes::new(value_len, value_len)?,
            give_up_after: Some(Duration::from_secs(5)),
            pin: self.generator_cores.clone(),
            ..LoadPlan::new(Target::from(server.address), Source::Fill { count, keys })
        };
        let round = measure(plan)?;
        ensure!(
            round.counters.sets == count,
            "{} of {count} keys were stored ({})",
            round.counters.sets,
            round.first_error.as_deref().unwrap_or("no error was told")
        );
        Ok(())
    }

    /// Reads with checks, in both dialects: every value must be there and right.
    fn check(&self, server: &Server, peer: Peer) -> anyhow::Result<()> {
        for protocol in [Protocol::Classic, Protocol::Meta] {
            let plan = LoadPlan {
                pipeline: FILL_PIPELINE,
                protocol,
                check_values: true,
                stop: Stop {
                    after: None,
                    requests: Some(self.keys.min(50_000)),
                },
                ..self.plan(server, Operation::Get, FILL_CONNECTIONS)?
            };
            let round = measure(plan)?;
            let counters = round.counters;
            ensure!(
                counters.wrong_values == 0 && counters.errors == 0 && counters.misses == 0,
                "{}: {} wrong values, {} errors, {} misses ({})",
                peer.short(),
                counters.wrong_values,
                counters.errors,
                counters.misses,
                round.first_error.as_deref().unwrap_or("no error was told")
            );
        }
        Ok(())
    }
}

/// Cores that the generator takes where none are named.
const GENERATOR_CORES_DEFAULT: usize = 2;

/// Runs a load to its end.
fn measure(plan: LoadPlan) -> anyhow::Result<RoundReport> {
    let threads = plan.threads;
    let finished = Driver::start(plan)?.watch(LOOK_INTERVAL, |_| {})?;
    Ok(RoundReport::new(1, threads, &finished))
}

/// Adds a row to the table, and tells whoever waits.
fn finish_row(rows: &mut Vec<RowReport>, row: RowReport) {
    eprintln!("{}", row.progress());
    rows.push(row);
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
