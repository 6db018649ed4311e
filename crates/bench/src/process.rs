//! Servers that are measured, as processes on cores of their own. Whatever runs measurements starts its
//! servers, proxies and coordinators by this.

use anyhow::{Context, bail, ensure};
use evenkeel_launch::{Launch, Process, Signal};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub use evenkeel_launch::Refused;

/// Longest time from the start of a server to its being ready.
const READY_DEADLINE: Duration = Duration::from_secs(20);

/// Longest wait for an answer to a question about a server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How often `stats` is asked for: a server breaks off what it owes when its serving lease ends.
const STATS_ATTEMPTS: usize = 3;

/// How long a server may take to end after it was asked to; then it is killed. One of a cluster hands over what it has for ten seconds.
const STOP_DEADLINE: Duration = Duration::from_secs(15);

/// What a server insists on being told where root starts it; of others it asks nothing.
const STAY_ROOT: [&str; 2] = ["-u", "root"];

/// A running server. Ended when dropped: asked to, and killed if it does not within fifteen seconds.
#[derive(Debug)]
pub struct Server {
    process: Process,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Server {
    /// Starts a part of Evenkeel (`server`, `coordinator`, `bench echo`) on cores.
    ///
    /// # Errors
    /// [`Refused`] with what it said when it ended at once; others when it cannot be started.
    pub fn evenkeel(arguments: &[&str], cores: &[usize]) -> anyhow::Result<Server> {
        let program = std::env::current_exe().context("finding this program's own file")?;
        let name = format!("evenkeel {}", arguments.join(" "));
        let words = if arguments[0] == "bench" { 2 } else { 1 };
        let (part, flags) = arguments.split_at(words);
        let mut launch = Launch::evenkeel(name, program, &part.join(" "));
        launch.command.args(flags);
        if part == ["server"] {
            launch.command.args(STAY_ROOT);
        }
        Server::start(launch, cores, Process::address)
    }

    /// Starts it on cores; `look` finds out where it listens once it does.
    fn start(
        mut launch: Launch,
        cores: &[usize],
        look: impl FnMut(&Process) -> Option<SocketAddr>,
    ) -> anyhow::Result<Server> {
        launch.cores = cores.to_vec();
        let mut process = launch.spawn()?;
        let address = process.await_ready(READY_DEADLINE, look)?;
        Ok(Server { process, address })
    }

    /// Starts a server of Evenkeel with this many workers on a free port of loopback.
    ///
    /// # Errors
    /// Likewise.
    pub fn evenkeel_server(
        workers: usize,
        more: &[&str],
        cores: &[usize],
    ) -> anyhow::Result<Server> {
        let workers = workers.to_string();
        let arguments = ["server", "-l", "127.0.0.1", "-p", "0", "-t", &workers];
        Server::evenkeel(&[&arguments[..], more].concat(), cores)
    }

    /// Starts a proxy of Evenkeel with one worker on a free port of loopback, with room for this many
    /// connections.
    ///
    /// # Errors
    /// Likewise.
    pub fn evenkeel_proxy(
        connections: usize,
        more: &[&str],
        cores: &[usize],
    ) -> anyhow::Result<Server> {
        let connections = connections.to_string();
        let arguments = ["proxy", "-l", "127.0.0.1:0", "-t", "1", "-c", &connections];
        Server::evenkeel(&[&arguments[..], more].concat(), cores)
    }

    /// Starts a memcached on cores.
    ///
    /// # Errors
    /// Likewise; also when it is not ready within 20 s.
    pub fn memcached(
        program: &Path,
        arguments: &[&str],
        cores: &[usize],
    ) -> anyhow::Result<Server> {
        let (launch, port_file) = Launch::memcached(program, arguments)?;
        Server::start(launch, cores, |_| port_file.address())
    }

    /// Starts a program that will listen on this port.
    ///
    /// # Errors
    /// Likewise.
    pub fn at_port(launch: Launch, port: u16, cores: &[usize]) -> anyhow::Result<Server> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Server::start(launch, cores, |_| {
            TcpStream::connect(address).is_ok().then_some(address)
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Kills it, as a lost machine does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops it until it is told to go on: it keeps its connections and answers nothing.
    ///
    /// # Errors
    /// When this process may not.
    pub fn pause(&self, paused: bool) -> anyhow::Result<()> {
        self.process.signal(match paused {
            true => Signal::STOP,
            false => Signal::CONT,
        })
    }

    /// Processor time of all its threads so far.
    ///
    /// # Errors
    /// When the kernel does not tell, or the process is gone.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        let mut sum = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            // Nanoseconds on a processor come first. A thread may end while it is looked at.
            let text = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
            let nanos = text.split_ascii_whitespace().next().map(str::parse::<u64>);
            sum += nanos.transpose().context("reading schedstat")?.unwrap_or(0);
        }
        ensure!(sum > 0, "the kernel keeps no /proc/PID/task/*/schedstat");
        Ok(Duration::from_nanos(sum))
    }

    /// Resident memory now, in bytes.
    ///
    /// # Errors
    /// When the kernel does not tell, or the process is gone.
    pub fn resident_bytes(&self) -> anyhow::Result<u64> {
        self.process.memory_bytes("VmRSS")
    }

    /// The most resident memory so far, in bytes.
    ///
    /// # Errors
    /// When the kernel does not tell, or the process is gone.
    pub fn resident_bytes_max(&self) -> anyhow::Result<u64> {
        self.process.memory_bytes("VmHWM")
    }

    /// The answer to `stats`, or to `stats PAGE` where a page is named.
    ///
    /// # Errors
    /// When it does not answer within 10 s.
    pub fn stats(&self, page: &str) -> anyhow::Result<Stats> {
        Stats::of(self.address, page)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.stop(STOP_DEADLINE);
    }
}

/// Figures by their memcached names.
#[derive(Clone, Debug)]
pub struct Stats(BTreeMap<String, String>);

impl Stats {
    /// What anyone who listens there answers to `stats`, or to `stats PAGE` where a page is named.
    ///
    /// # Errors
    /// When there is no answer within 10 s, or none that begins like one; when it is broken off three times.
    pub fn of(address: SocketAddr, page: &str) -> anyhow::Result<Stats> {
        for _ in 0..STATS_ATTEMPTS {
            if let Some(stats) = Stats::ask(address, page)? {
                return Ok(stats);
            }
        }
        bail!("stats {page} has no end")
    }

    /// Nothing when the connection was closed before the end of the answer.
    fn ask(address: SocketAddr, page: &str) -> anyhow::Result<Option<Stats>> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        socket.write_all(format!("{}\r\n", format!("stats {page}").trim_end()).as_bytes())?;
        let mut stats = BTreeMap::new();
        for line in BufReader::new(socket).lines() {
            let line = match line {
                Ok(line) if line == "END" => return Ok(Some(Stats(stats))),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                line => line?,
            };
            let figure = line.strip_prefix("STAT ");
            let figure = figure.with_context(|| format!("stats {page} says '{line}'"))?;
            let (name, value) = figure.split_once(' ').unwrap_or((figure, ""));
            stats.insert(name.to_owned(), value.to_owned());
        }
        Ok(None)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// A figure.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn number(&self, name: &str) -> anyhow::Result<u64> {
        let value = self.0.get(name).and_then(|value| value.parse().ok());
        value.with_context(|| format!("no number {name} in stats"))
    }
}

/// A port that nobody listens on, for programs that cannot choose one themselves.
///
/// # Errors
/// When there is none.
pub fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("looking for a free port")?;
    Ok(listener.local_addr()?.port())
}

/// The version that a memcached says it is.
///
/// # Errors
/// When it cannot be started or says none.
pub fn memcached_version(program: &Path) -> anyhow::Result<String> {
    let output = Command::new(program)
        .arg("-V")
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().nth(1);
    Ok(version
        .context("no version in the answer to -V")?
        .to_owned())
}

/// Cores that this process may use, in ascending order.
///
/// # Errors
/// When the kernel does not tell.
pub fn allowed_cores() -> anyhow::Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("asking for the cores")?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&core| set.is_set(core))
        .collect())
}
