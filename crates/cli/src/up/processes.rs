//! Processes of one cluster on this machine, a coordinator first, and their supervision: what ends is started again.
//!
//! Everything happens on the thread that calls [`Processes::start`] and [`Processes::tend`], which must
//! be the one that stays to the end: the kernel ends the processes with it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use evenkeel_launch::Signal;
use evenkeel_member::client::ApiClient;
use evenkeel_runtime::{ProcessSignal, ProcessSignals, UsageError, spawn_named};
use tempfile::TempDir;

use super::member::{Member, Plan, how_it_ended};

/// Longest time from the first process to the first answer of a proxy. Generous: a slow machine
/// that is busy otherwise.
pub const START_DEADLINE: Duration = Duration::from_secs(30);

/// Distance of looks at the processes, and of questions while the cluster starts.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What is still running this long after it was asked to stop is killed.
const STOP_DEADLINE: Duration = Duration::from_secs(3);

/// Exit code of a process that was configured wrongly.
const EXIT_USAGE: i32 = 2;

/// The coordinator's place among the members.
const COORDINATOR: usize = 0;

/// The processes of a cluster. Dropping it ends all of them and removes their files.
#[derive(Debug)]
pub struct Processes {
    program: PathBuf,
    /// The coordinator, then what was added.
    members: Vec<Member>,
    stop: Receiver<()>,
    notices: Vec<String>,
    restarts: u64,
    /// The coordinator's state and configurations. After the members, so that they are gone when it goes.
    files: TempDir,
}

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

/// Words of a command line.
pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

impl Processes {
    /// Prepares everything that needs no process; the coordinator will listen there, with these flags besides its state. From here on
    /// signals stop the cluster.
    ///
    /// # Errors
    /// When the machine refuses a thread, a temporary folder or the path of this program.
    pub fn prepare(listen: SocketAddr, coordinator: &[&str]) -> anyhow::Result<Processes> {
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
            arguments: [words(coordinator), words(&["--state", &state])].concat(),
            listen,
        };
        Ok(Processes {
            program,
            members: vec![Member::new(coordinator)],
            stop,
            notices: Vec::new(),
            restarts: 0,
            files,
        })
    }

    /// What came of a start that may have been [`Stopped`].
    pub fn started(&mut self, start: anyhow::Result<()>) -> anyhow::Result<Outcome> {
        match start {
            Ok(()) => {
                // That members find each other is no news after a start that went well.
                self.notices.clear();
                Ok(Outcome::Done)
            }
            Err(error) if error.is::<Stopped>() => Ok(Outcome::Stopped),
            Err(error) => Err(error),
        }
    }

    /// Starts the coordinator and waits until it is ready.
    ///
    /// # Errors
    /// As [`Processes::wait_ready`].
    pub fn start_coordinator(&mut self, end: Instant) -> anyhow::Result<()> {
        self.start_member(COORDINATOR)?;
        self.wait_ready(COORDINATOR..COORDINATOR + 1, end)
    }

    /// Starts one process more.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&mut self, plan: Plan) -> anyhow::Result<()> {
        self.members.push(Member::new(plan));
        self.start_member(self.members.len() - 1)
    }

    fn start_member(&mut self, index: usize) -> anyhow::Result<()> {
        let member = &mut self.members[index];
        member
            .start(&self.program)
            .with_context(|| format!("failed to start {}", member.name()))
    }

    /// Waits until some members are ready. None of them may end before.
    ///
    /// # Errors
    /// [`UsageError`] when a process says that it was configured wrongly (a port in use); others when one does not start in time, and when
    /// a signal asks to stop.
    pub fn wait_ready(
        &mut self,
        members: std::ops::Range<usize>,
        end: Instant,
    ) -> anyhow::Result<()> {
        self.wait_until(end, "the ready line of every process", |cluster| {
            cluster.members[members.clone()]
                .iter()
                .all(Member::is_ready)
        })
    }

    /// Waits until this is done.
    ///
    /// # Errors
    /// As [`Processes::wait_ready`].
    pub fn wait_until(
        &mut self,
        end: Instant,
        awaited: &str,
        mut done: impl FnMut(&Processes) -> bool,
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
    /// and starts again those that ended. What people should know is in [`Processes::take_notices`].
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

    /// Those that were added with this role, in their order.
    pub fn with_role(&self, role: &str) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(move |it| it.role() == role)
    }

    /// Where their files are.
    pub fn files(&self) -> &Path {
        self.files.path()
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

    /// The coordinator's API.
    ///
    /// # Errors
    /// When the coordinator has never started.
    pub fn api(&self) -> anyhow::Result<ApiClient> {
        let api = ApiClient::new(&self.coordinator_address()?.to_string())?;
        Ok(api.with_timeout(START_DEADLINE))
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
