//! Servers that are measured, as processes on cores of their own. Whatever runs measurements starts its
//! servers, proxies and coordinators by this.

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest time from the start of a server to its being ready.
const READY_DEADLINE: Duration = Duration::from_secs(20);

/// Distance of looks at a file that a server will write.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Longest wait for an answer to a question about a server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may take to end after it was asked to; then it is killed. One of a cluster hands over what it has for ten seconds.
const STOP_DEADLINE: Duration = Duration::from_secs(15);

/// A running server. Ended when dropped: asked to, and killed if it does not within fifteen seconds.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// Kept open, so that the server may go on printing.
    _stdout: Option<BufReader<ChildStdout>>,
    _files: TempDir,
}

/// A server that ended by itself before it was ready.
#[derive(Debug, thiserror::Error)]
#[error("{name} ended before it was ready ({status}): {told}")]
pub struct Refused {
    name: String,
    status: ExitStatus,
    /// What it said on standard error, in one line.
    pub told: String,
}

impl Server {
    /// Starts a part of Evenkeel (`server`, `coordinator`, `bench echo`) on cores.
    ///
    /// # Errors
    /// [`Refused`] with what it said when it ended at once; others when it cannot be started.
    pub fn evenkeel(arguments: &[&str], cores: &[usize]) -> anyhow::Result<Server> {
        let program = std::env::current_exe().context("finding this program's own file")?;
        let name = format!("evenkeel {}", arguments.join(" "));
        let is_server = arguments.first() == Some(&"server");
        let mut command = Command::new(program);
        command
            .args(["--die-with", &std::process::id().to_string()])
            .args(arguments)
            .args(if is_server { stay_root() } else { &[] })
            .stdout(Stdio::piped());
        let (mut child, files) = spawn(&mut command, cores)?;
        let stdout = child.stdout.take().context("standard output is a pipe")?;
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        while lines.read_line(&mut line)? > 0 {
            if let Some((_, rest)) = line.split_once(" listening on ") {
                let word = rest.split_whitespace().next().unwrap_or_default();
                let word = word.trim_start_matches("http://").trim_end_matches('/');
                let address = word.parse().with_context(|| format!("reading '{line}'"))?;
                return Ok(Server {
                    child,
                    address,
                    _stdout: Some(lines),
                    _files: files,
                });
            }
            line.clear();
        }
        Err(refused(name, &mut child, &files)?.into())
    }

    /// Starts a server of Evenkeel with one worker on a free port of loopback.
    ///
    /// # Errors
    /// Likewise.
    pub fn evenkeel_server(more: &[&str], cores: &[usize]) -> anyhow::Result<Server> {
        let arguments = ["server", "-l", "127.0.0.1", "-p", "0", "-t", "1"];
        Server::evenkeel(&[&arguments[..], more].concat(), cores)
    }

    /// Starts a proxy of Evenkeel with one worker on a free port of loopback, with room for so many
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
        let ports = TempDir::new()?;
        let port_file = ports.path().join("port");
        let mut command = Command::new(program);
        // Port -1 takes a free one.
        command
            .args(["-l", "127.0.0.1", "-p", "-1", "-U", "0"])
            .args(arguments)
            .args(stay_root())
            .env("MEMCACHED_PORT_FILENAME", &port_file)
            .stdout(Stdio::null());
        let (mut child, files) = spawn(&mut command, cores)?;
        let end = Instant::now() + READY_DEADLINE;
        loop {
            // The file gets its name when it is complete.
            if let Ok(text) = fs::read_to_string(&port_file) {
                let port = text
                    .lines()
                    .find_map(|line| line.strip_prefix("TCP INET: "));
                let port = port.and_then(|port| port.trim().parse::<u16>().ok());
                let port = port.with_context(|| format!("no port in '{text}'"))?;
                return Ok(Server {
                    child,
                    address: SocketAddr::from(([127, 0, 0, 1], port)),
                    _stdout: None,
                    _files: files,
                });
            }
            if child.try_wait()?.is_some() {
                let name = program.display().to_string();
                return Err(refused(name, &mut child, &files)?.into());
            }
            ensure!(Instant::now() < end, "{} does not start", program.display());
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Starts a program that will listen on this port.
    ///
    /// # Errors
    /// Likewise.
    pub fn at_port(command: &mut Command, port: u16, cores: &[usize]) -> anyhow::Result<Server> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let (mut child, files) = spawn(command.stdout(Stdio::null()), cores)?;
        let name = command.get_program().display().to_string();
        let end = Instant::now() + READY_DEADLINE;
        while TcpStream::connect(address).is_err() {
            if child.try_wait()?.is_some() {
                return Err(refused(name, &mut child, &files)?.into());
            }
            if Instant::now() >= end {
                let _ = child.kill();
                let _ = child.wait();
                bail!("{name} does not start");
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        Ok(Server {
            child,
            address,
            _stdout: None,
            _files: files,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, as a lost machine does. Its process id stays its own until this is dropped.
    pub fn kill(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.kill();
    }

    /// Stops it until it is told to go on: it keeps its connections and answers nothing.
    ///
    /// # Errors
    /// When it has ended.
    pub fn pause(&self, paused: bool) -> anyhow::Result<()> {
        let signal = match paused {
            true => Signal::STOP,
            false => Signal::CONT,
        };
        rustix::process::kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("sending {signal:?} to process {}", self.pid()))
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
        self.memory("VmRSS:")
    }

    /// The most resident memory so far, in bytes.
    ///
    /// # Errors
    /// When the kernel does not tell, or the process is gone.
    pub fn resident_bytes_max(&self) -> anyhow::Result<u64> {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kib = kib.and_then(|kib| kib.parse::<u64>().ok());
        Ok(kib.with_context(|| format!("no {name} in /proc/PID/status"))? * 1024)
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
        // One that is paused cannot end. Asking fails only when it has ended already.
        let _ = self.pause(false);
        let _ = rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM);
        let end = Instant::now() + STOP_DEADLINE;
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK_INTERVAL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Figures by their memcached names.
#[derive(Clone, Debug)]
pub struct Stats(BTreeMap<String, String>);

impl Stats {
    /// What whoever listens there answers to `stats`, or to `stats PAGE` where a page is named.
    ///
    /// # Errors
    /// When there is no answer within 10 s, or none that begins like one.
    pub fn of(address: SocketAddr, page: &str) -> anyhow::Result<Stats> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        socket.write_all(format!("{}\r\n", format!("stats {page}").trim_end()).as_bytes())?;
        let mut stats = BTreeMap::new();
        for line in BufReader::new(socket).lines() {
            let line = line?;
            if line == "END" {
                return Ok(Stats(stats));
            }
            let figure = line.strip_prefix("STAT ");
            let figure = figure.with_context(|| format!("stats {page} says '{line}'"))?;
            let (name, value) = figure.split_once(' ').unwrap_or((figure, ""));
            stats.insert(name.to_owned(), value.to_owned());
        }
        bail!("stats {page} has no end")
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

/// Starts a process that inherits the calling thread's cores for that moment, so that every thread
/// of it is on them from the first. Standard error goes to a file in the folder returned.
fn spawn(command: &mut Command, cores: &[usize]) -> anyhow::Result<(Child, TempDir)> {
    let files = TempDir::new().context("making a temporary folder")?;
    let errors = fs::File::create(error_file(&files))?;
    command.stdin(Stdio::null()).stderr(errors);
    let own = sched_getaffinity(None)?;
    let mut wanted = CpuSet::new();
    cores.iter().for_each(|&core| wanted.set(core));
    sched_setaffinity(None, &wanted).with_context(|| format!("taking cores {cores:?}"))?;
    let child = command.spawn();
    sched_setaffinity(None, &own).context("taking back the cores")?;
    let program = command.get_program().display().to_string();
    Ok((child.with_context(|| format!("starting {program}"))?, files))
}

/// What a server insists on being told where root starts it.
fn stay_root() -> &'static [&'static str] {
    if rustix::process::getuid().is_root() {
        &["-u", "root"]
    } else {
        &[]
    }
}

fn error_file(files: &TempDir) -> PathBuf {
    files.path().join("stderr")
}

fn refused(name: String, child: &mut Child, files: &TempDir) -> anyhow::Result<Refused> {
    let status = child.wait()?;
    let told = fs::read_to_string(error_file(files)).unwrap_or_default();
    let told = told.trim().replace('\n', "; ");
    Ok(Refused { name, status, told })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_starts_on_its_cores_and_its_time_is_told() {
        let core = allowed_cores().unwrap()[0];
        let before = sched_getaffinity(None).unwrap();
        let mut command = Command::new("cat");
        command.stdout(Stdio::null());
        let (mut child, _files) = spawn(&mut command, &[core]).unwrap();
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        assert!(child.wait().unwrap().success(), "its input is empty");
        let (mut child, files) = spawn(
            Command::new("sh").args(["-c", "echo no port >&2; exit 3"]),
            &[core],
        )
        .unwrap();
        let refused = refused("sh".into(), &mut child, &files).unwrap();
        assert_eq!(refused.told, "no port");
        assert_eq!(refused.status.code(), Some(3));
    }
}
