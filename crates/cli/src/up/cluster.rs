//! A coordinator, servers and a proxy as processes of this same binary, and their supervision.
//!
//! Everything happens on the thread that calls [`Cluster::start`] and [`Cluster::tend`], which must
//! be the one that stays to the end: the kernel ends the processes with it.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use evenkeel_coordinator_core::Mode;
use evenkeel_launch::Signal;
use evenkeel_member::client::ApiClient;
use evenkeel_runtime::{ProcessSignal, ProcessSignals, UsageError, spawn_named};
use serde_json::json;
use tempfile::TempDir;

use super::args::Args;
use super::member::{Member, Plan, how_it_ended};

/// Longest time from the first process to the first answer of the proxy. Generous: a slow machine
/// that is busy otherwise.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// Distance of looks at the processes, and of questions while the cluster starts.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What is still running this long after it was asked to stop is killed.
const STOP_DEADLINE: Duration = Duration::from_secs(3);

/// How long the proxy may take over one answer while it is asked whether it serves.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Keys of each worker, on average, that the proxy is asked for before it counts as serving: enough
/// that no worker is left out by chance.
const PROBE_KEYS_PER_WORKER: usize = 32;

/// Most keys that the proxy is asked for at once; requests and answers fit into socket buffers.
const PROBE_KEYS_MAX: usize = 1024;

/// Exit code of a process that was configured wrongly.
const EXIT_USAGE: i32 = 2;

/// A running cluster. Dropping it ends all processes and removes their files.
#[derive(Debug)]
pub struct Cluster {
    program: PathBuf,
    /// The coordinator, the proxy, the servers.
    members: Vec<Member>,
    stop: Receiver<()>,
    notices: Vec<String>,
    restarts: u64,
    /// The coordinator's state and the proxy's configuration. After the members, so that they are gone when it goes.
    files: TempDir,
}

const COORDINATOR: usize = 0;
const PROXY: usize = 1;
const FIRST_SERVER: usize = 2;

/// What came of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was waited for is there.
    Done,
    /// A signal asks to stop.
    Stopped,
}

/// A signal asks to stop while something is waited for.
#[derive(Debug, thiserror::Error)]
#[error("stopped by a signal")]
struct Stopped;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

impl Cluster {
    /// Prepares everything that needs no process. From here on signals stop the cluster.
    ///
    /// # Errors
    /// When the machine refuses a thread, a temporary folder or the path of this program.
    pub fn prepare(args: &Args) -> anyhow::Result<Cluster> {
        let program = std::env::current_exe().context("failed to find this program's own file")?;
        let files = tempfile::Builder::new()
            .prefix("evenkeel-up-")
            .tempdir()
            .context("failed to make a temporary folder")?;
        let (stop_sender, stop) = channel();
        let mut signals =
            ProcessSignals::take(&[ProcessSignal::Stop]).context("failed to take signals")?;
        spawn_named("signals".into(), move || {
            signals.wait();
            // Nobody listens when the cluster is gone already.
            let _ = stop_sender.send(());
        })?;
        let state = files.path().join("coordinator.json").display().to_string();
        let coordinator = Plan {
            name: "coordinator".into(),
            role: "coordinator",
            arguments: words(&[
                "--initial-servers",
                &args.servers.to_string(),
                "--state",
                &state,
            ]),
            listen: args.coordinator_listen,
        };
        Ok(Cluster {
            program,
            members: vec![Member::new(coordinator)],
            stop,
            notices: Vec::new(),
            restarts: 0,
            files,
        })
    }

    /// Starts all processes, and returns when the proxy serves the keys of all servers.
    ///
    /// # Errors
    /// [`UsageError`] when a process says that it was configured wrongly (a port in use); others
    /// when one does not start.
    pub fn start(&mut self, args: &Args) -> anyhow::Result<Outcome> {
        match self.start_all(args) {
            Ok(()) => {
                // That members find each other is no news after a start that went well.
                self.notices.clear();
                Ok(Outcome::Done)
            }
            Err(error) if error.is::<Stopped>() => Ok(Outcome::Stopped),
            Err(error) => Err(error),
        }
    }

    fn start_all(&mut self, args: &Args) -> anyhow::Result<()> {
        let end = Instant::now() + START_DEADLINE;
        self.start_member(COORDINATOR)?;
        self.wait_ready(COORDINATOR..COORDINATOR + 1, end)?;
        self.set_balancing(args.balancing())?;
        let api = self.api()?;
        api.change_settings(&json!({"lease_ms": args.lease_ms}))?;
        let url = format!("http://{}", self.coordinator_address()?);
        let file = self.proxy_file().display().to_string();
        self.members.push(Member::new(Plan {
            name: "proxy".into(),
            role: "proxy",
            arguments: words(&["--config", &file, "-c", &args.connections().to_string()]),
            listen: args.listen,
        }));
        let (workers, memory) = (args.threads.to_string(), args.memory_limit.to_string());
        for number in 1..=args.servers {
            let name = format!("server-{number}");
            let mut arguments = words(&["--name", &name, "--coordinator", &url]);
            // All of them end together: there is nobody to hand over to.
            arguments.extend(words(&[
                "-t",
                &workers,
                "-m",
                &memory,
                "--drain-timeout",
                "0",
            ]));
            arguments.extend(args.server_arguments());
            self.members.push(Member::new(Plan {
                name,
                role: "server",
                arguments,
                listen: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0),
            }));
            self.start_member(self.members.len() - 1)?;
        }
        self.wait_ready(FIRST_SERVER..self.members.len(), end)?;
        let placed = |_: &Cluster| api.all_work_by_the_map(args.servers);
        self.wait_until(end, "a map that all servers work by", placed)?;
        self.start_member(PROXY)?;
        self.wait_ready(PROXY..PROXY + 1, end)?;
        let proxy = self.proxy_address()?;
        let keys = PROBE_KEYS_PER_WORKER * args.servers * usize::from(args.threads);
        let keys = keys.min(PROBE_KEYS_MAX);
        self.wait_until(end, "an answer of the proxy", |_| serves(proxy, keys))
    }

    /// Has hot keys replicated and identical gets collapsed, or neither: then each request for a key goes to its one server, as with
    /// memcached.
    ///
    /// # Errors
    /// When the coordinator does not answer, or the proxy's configuration cannot be written. It can be tried again.
    pub fn set_balancing(&mut self, mode: Mode) -> anyhow::Result<()> {
        let (file, coordinator) = (self.proxy_file(), self.coordinator_address()?);
        let pool = format!(
            "[pools.default]\ncoordinator = \"{coordinator}\"\ncollapse = {}\n",
            mode == Mode::On
        );
        std::fs::write(&file, pool)
            .with_context(|| format!("failed to write {}", file.display()))?;
        if let Some(proxy) = self.members.get(PROXY) {
            proxy.signal(Signal::HUP);
        }
        self.api()?.change_settings(&json!({"hot_keys": mode}))?;
        Ok(())
    }

    fn proxy_file(&self) -> PathBuf {
        self.files.path().join("proxy.toml")
    }

    fn start_member(&mut self, index: usize) -> anyhow::Result<()> {
        let member = &mut self.members[index];
        member
            .start(&self.program)
            .with_context(|| format!("failed to start {}", member.name()))
    }

    /// Waits for the ready lines of some members. None of them may end before.
    fn wait_ready(&mut self, members: std::ops::Range<usize>, end: Instant) -> anyhow::Result<()> {
        self.wait_until(end, "the ready line of every process", |cluster| {
            cluster.members[members.clone()]
                .iter()
                .all(Member::is_ready)
        })
    }

    fn wait_until(
        &mut self,
        end: Instant,
        awaited: &str,
        mut done: impl FnMut(&Cluster) -> bool,
    ) -> anyhow::Result<()> {
        loop {
            if self.stop.recv_timeout(LOOK_INTERVAL).is_ok() {
                bail!(Stopped);
            }
            if let Some(&(index, _, status)) = self.look().first() {
                let member = &self.members[index];
                let reason = member
                    .last_error()
                    .map_or_else(|| how_it_ended(status), str::to_owned);
                let message = format!("{} did not start: {reason}", member.name());
                if status.code() == Some(EXIT_USAGE) {
                    bail!(UsageError(message));
                }
                bail!(message);
            }
            if done(self) {
                return Ok(());
            }
            if Instant::now() >= end {
                bail!(
                    "waited {} s in vain for {awaited}",
                    START_DEADLINE.as_secs()
                );
            }
        }
    }

    /// Hears what the processes say; those that have ended since the last look, their ids and how they ended.
    fn look(&mut self) -> Vec<(usize, u32, ExitStatus)> {
        let mut all = Vec::new();
        for (index, member) in self.members.iter_mut().enumerate() {
            let (heard, ended) = member.look();
            let name = member.name();
            let notices = heard.iter().map(|line| format!("{name}: {line}"));
            self.notices.extend(notices);
            all.extend(ended.map(|(pid, status)| (index, pid, status)));
        }
        all
    }

    /// Looks after the processes until `end`, or until a signal asks to stop: hears what they say
    /// and starts again those that ended. What people should know is in [`Cluster::take_notices`].
    pub fn tend(&mut self, end: Instant) -> Outcome {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if self.stop.recv_timeout(left.min(LOOK_INTERVAL)).is_ok() {
                return Outcome::Stopped;
            }
            self.revive();
            if left.is_zero() {
                return Outcome::Done;
            }
        }
    }

    fn revive(&mut self) {
        for (index, pid, status) in self.look() {
            let member = &mut self.members[index];
            let wait = member.plan_restart();
            self.restarts += 1;
            self.notices.push(format!(
                "{} (pid {pid}) {}; starting it again in {} ms",
                member.name(),
                how_it_ended(status),
                wait.as_millis()
            ));
        }
        for member in &mut self.members {
            if member.restart_due()
                && let Err(error) = member.start(&self.program)
            {
                member.plan_restart();
                let name = member.name();
                self.notices
                    .push(format!("{name} could not be started: {error}"));
            }
        }
    }

    /// What has happened since the last call, for people.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// How often a process had to be started again.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// The coordinator's API.
    ///
    /// # Errors
    /// When the coordinator has never started.
    pub fn api(&self) -> anyhow::Result<ApiClient> {
        let api = ApiClient::new(&self.coordinator_address()?.to_string())?;
        Ok(api.with_timeout(START_DEADLINE))
    }

    /// Where the coordinator listens.
    ///
    /// # Errors
    /// When it has never started.
    pub fn coordinator_address(&self) -> anyhow::Result<SocketAddr> {
        self.members[COORDINATOR]
            .address()
            .context("the coordinator has not started")
    }

    /// Where the proxy listens.
    ///
    /// # Errors
    /// When it has never started.
    pub fn proxy_address(&self) -> anyhow::Result<SocketAddr> {
        self.members
            .get(PROXY)
            .and_then(Member::address)
            .context("the proxy has not started")
    }

    /// The servers that have listened at least once.
    pub fn servers(&self) -> impl Iterator<Item = &Member> {
        let servers = self.members.iter().skip(FIRST_SERVER);
        servers.filter(|server| server.address().is_some())
    }

    /// Stops all processes, waits for their ends and removes their files.
    pub fn stop(mut self) {
        for member in &self.members {
            member.signal(Signal::TERM);
        }
        let end = Instant::now() + STOP_DEADLINE;
        self.members
            .iter_mut()
            .for_each(|member| member.wait_until(end));
        // Dropping the members kills and reaps what is left.
    }
}

/// Whether the homes of `keys` keys answer through the proxy. They are asked to delete what is not
/// there, which leaves no trace; a read might be answered in place of a server that is not ready.
fn serves(proxy: SocketAddr, keys: usize) -> bool {
    let ask = || -> std::io::Result<bool> {
        let stream = TcpStream::connect_timeout(&proxy, PROBE_TIMEOUT)?;
        stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
        stream.set_write_timeout(Some(PROBE_TIMEOUT))?;
        let mut requests = Vec::new();
        for number in 0..keys {
            write!(requests, "delete evenkeel:ready:{number}\r\n")?;
        }
        (&stream).write_all(&requests)?;
        let mut answers = BufReader::new(stream).lines();
        for _ in 0..keys {
            if answers.next().transpose()?.as_deref() != Some("NOT_FOUND") {
                return Ok(false);
            }
        }
        Ok(true)
    };
    ask().unwrap_or(false)
}
