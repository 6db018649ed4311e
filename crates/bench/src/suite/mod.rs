//! `evenkeel bench suite`: Evenkeel beside memcached and beside what the sockets allow, all in one
//! run, and what was meant to come of it.
//!
//! Each server has one core and the generator others. A row of the table is one load; its rounds go
//! over all peers in turn (A B C A B C …), so that whatever else the machine does meets all of them,
//! and medians are compared. Throughput says how the whole machine does, the processor time that the
//! server used for a request says what the server does, and the generator's own share of its
//! processor says which of the two was measured.
//!
//! `evenkeel bench suite-proxy` does the same with proxies (`proxies`), `suite-generator` with the generator
//! itself (`generator`).
//!
//! ```text
//!  rows     what is measured, and the goals           process  servers on their cores, /proc, stats
//!  loads    one worker: throughput, shared core       memory   items in a limit, idle connections
//!  minimal  what the generator is measured beside
//!  latency  at half of memcached's maximum            workers  two against one
//!  ground   cores, rounds, keys, common loads         report   table, JSON
//! ```

mod generator;
mod goal;
mod ground;
mod latency;
mod loads;
mod memory;
mod minimal;
mod peer;
mod proxies;
mod report;
mod rows;
mod workers;

pub use generator::{GeneratorSuiteArgs, execute_generator_suite, run_generator_suite};
pub use goal::Unit;
pub use ground::GroundArgs;
pub use peer::Peer;
pub use proxies::{ProxySuiteArgs, execute_proxy_suite, run_proxy_suite};
pub use report::{PeerReport, PeerResult, RowReport, SuiteReport, SuiteSettings, Verdict};

use crate::process::{Refused, Server, memcached_version};
use crate::run::report_error;
use crate::{BadUsage, Protocol};
use anyhow::Context;
use evenkeel_runtime::print_line;
use ground::{Ground, MEMORY_MB};
use report::Compared;
use std::path::PathBuf;

/// Measures Evenkeel's server beside memcached and an echo server, and prints what was asked of it
/// beside what it reaches.
#[derive(Clone, Debug, clap::Args)]
pub struct SuiteArgs {
    /// A memcached to compare with, the newest first; at most two.
    #[arg(long, value_name = "PROGRAM", required = true)]
    pub memcached: Vec<PathBuf>,

    /// Where and how.
    #[command(flatten)]
    pub ground: GroundArgs,
}

/// Runs the suite, prints the table, writes the JSON; returns the exit code: 0 measured (whether or
/// not the goals were met), 1 failed or wrong values seen, 2 bad usage.
pub fn execute_suite(args: &SuiteArgs) -> u8 {
    show(&args.ground, "suite", || run_suite(args))
}

/// Measures, prints the table, and writes the JSON.
fn show(ground: &GroundArgs, what: &str, run: impl FnOnce() -> anyhow::Result<SuiteReport>) -> u8 {
    let show = || {
        let report = run()?;
        if let Some(path) = &ground.json {
            std::fs::write(path, report.to_json()? + "\n")
                .with_context(|| format!("writing {}", path.display()))?;
        }
        print_line(&report.to_table()).context("printing the report")
    };
    match show() {
        Ok(()) => 0,
        Err(error) => report_error(what, &error),
    }
}

/// Measures everything that was asked for.
///
/// # Errors
/// [`BadUsage`] when the arguments make no sense; others when a server cannot be started, fails, or
/// answers a value that is wrong.
pub fn run_suite(args: &SuiteArgs) -> anyhow::Result<SuiteReport> {
    let mut suite = Suite::new(args)?;
    let mut rows = Vec::new();
    loads::measure(&mut suite, &mut rows)?;
    latency::measure(&mut suite, &mut rows)?;
    workers::measure(&mut suite, &mut rows)?;
    // What is left measures servers of its own.
    suite.stop();
    memory::measure_items(&mut suite, &mut rows)?;
    memory::measure_idle_connections(&mut suite, &mut rows)?;
    let settings = suite.ground.settings()?;
    Ok(SuiteReport::new(
        suite.names,
        settings,
        rows,
        suite.notes,
        Compared::SERVERS,
    ))
}

/// What all measurements share.
struct Suite {
    memcached: Vec<(Peer, PathBuf)>,
    ground: Ground,
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
        let mut suite = Suite {
            memcached,
            ground: Ground::new(&args.ground)?,
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

    /// One worker of Evenkeel on the servers' core.
    fn evenkeel(&self, peer: Peer, arguments: &[&str]) -> anyhow::Result<Server> {
        let mut all = arguments.to_vec();
        if peer == Peer::EvenkeelUring {
            all.extend(["--io", "uring"]);
        }
        Server::evenkeel_server(1, &all, &[self.ground.server_core])
    }

    /// One worker of any peer but the echo server, on the servers' core.
    fn server(&self, peer: Peer, arguments: &[&str]) -> anyhow::Result<Server> {
        match self.memcached.iter().find(|(known, _)| *known == peer) {
            Some((_, program)) => {
                let mut all = vec!["-t", "1"];
                all.extend(arguments);
                Server::memcached(program, &all, &[self.ground.server_core])
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
            self.ground.fill_all(&server)?;
            self.ground
                .check(&server, peer, &[Protocol::Classic, Protocol::Meta])?;
            self.servers.push((peer, server));
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.servers.clear();
    }
}

/// The same, or a note of why there is no row; nothing where none is wanted.
fn finish_or_note(
    rows: &mut Vec<RowReport>,
    notes: &mut Vec<String>,
    row: Option<Result<RowReport, String>>,
) {
    match row {
        Some(Ok(row)) => finish_row(rows, row),
        Some(Err(note)) => notes.push(note),
        None => {}
    }
}

/// Adds a row to the table, and tells anyone who waits.
fn finish_row(rows: &mut Vec<RowReport>, row: RowReport) {
    eprintln!("{}", row.progress());
    rows.push(row);
}
