//! Programs that others start: those that are measured, those of `evenkeel up`, those of tests.
//!
//! Two threads read standard output and standard error to their ends, so that a chatty program never blocks on a full
//! pipe. They keep the last lines, find the line that says that the program is ready, and wake anyone who waits for one.
//!
//! A program that ends before it is ready is [`Refused`], with what it said. One that is dropped is killed and reaped.

#![forbid(unsafe_code)]

mod memcached;
mod said;

use anyhow::{Context, bail};
use rustix::process::{Pid, WaitId, WaitIdOptions, kill_process, waitid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use said::Said;
use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use memcached::PortFile;
pub use rustix::process::Signal;
pub use said::{Line, Stream};

/// Distance of looks at what no line tells.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// How long to wait for the ends of the output of a process that has ended. Where nobody else holds the streams they are
/// there at once, or as soon as a busy machine lets their readers run.
const GRANDCHILD_PATIENCE: Duration = Duration::from_secs(30);

/// Says how to start a [`Process`].
#[derive(Debug)]
pub struct Launch {
    /// What it is called in messages.
    pub name: String,
    /// What is started; its streams are set by [`Launch::spawn`].
    pub command: Command,
    /// On which cores, from its first thread on; none for those of the calling thread.
    pub cores: Vec<usize>,
    /// How the line of standard output begins that says that it is ready; an address may follow.
    pub ready_prefix: Option<String>,
}

/// A program that ended by itself before it was ready.
#[derive(Debug, thiserror::Error)]
#[error("{name} ended before it was ready ({status}): {told}")]
pub struct Refused {
    name: String,
    status: ExitStatus,
    /// What it said on standard error, in one line.
    pub told: String,
}

impl Launch {
    /// Starts to describe how a program is started.
    pub fn new(name: impl Into<String>, program: impl AsRef<OsStr>) -> Launch {
        Launch {
            name: name.into(),
            command: Command::new(program),
            cores: Vec::new(),
            ready_prefix: None,
        }
    }

    /// A part of Evenkeel by the words of its subcommand, such as `bench echo`. It ends with the calling thread, and is
    /// ready when it says where it listens.
    pub fn evenkeel(name: impl Into<String>, program: impl AsRef<OsStr>, part: &str) -> Launch {
        let mut launch = Launch::new(name, program);
        launch.ready_prefix = Some(format!("evenkeel {part} listening on "));
        let pid = std::process::id().to_string();
        launch.command.args(["--die-with", &pid]);
        launch.command.args(part.split(' '));
        launch
    }

    /// Starts the program.
    ///
    /// # Errors
    /// When it cannot be started, or not on these cores.
    pub fn spawn(mut self) -> anyhow::Result<Process> {
        self.command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let own = match &self.cores[..] {
            [] => None,
            cores => Some(take_cores(cores)?),
        };
        let child = self.command.spawn();
        if let Some(own) = own {
            sched_setaffinity(None, &own).context("taking back the cores")?;
        }
        let mut child = child.with_context(|| format!("starting {}", self.name))?;
        let said = Said::of(&mut child, self.ready_prefix)?;
        Ok(Process {
            name: self.name,
            child,
            said,
            status: None,
        })
    }
}

/// Lets the calling thread, and what it starts, run on these cores; says on which it did.
fn take_cores(cores: &[usize]) -> anyhow::Result<CpuSet> {
    let own = sched_getaffinity(None)?;
    let mut wanted = CpuSet::new();
    cores.iter().for_each(|&core| wanted.set(core));
    sched_setaffinity(None, &wanted).with_context(|| format!("taking cores {cores:?}"))?;
    Ok(own)
}

/// A running program. Killed and reaped when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    said: Arc<Said>,
    status: Option<ExitStatus>,
}

impl Process {
    /// What it is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id. It stays its own until this is dropped.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `look` finds what says that it is ready: each time that it says something, and every five milliseconds.
    ///
    /// # Errors
    /// [`Refused`] when it ends before; others when nothing is found within `deadline`.
    pub fn await_ready<T>(
        &mut self,
        deadline: Duration,
        mut look: impl FnMut(&Process) -> Option<T>,
    ) -> anyhow::Result<T> {
        let end = Instant::now() + deadline;
        loop {
            let runs = self.is_running();
            if !runs {
                self.said.wait_for_end(GRANDCHILD_PATIENCE);
            }
            if let Some(found) = look(self) {
                return Ok(found);
            }
            match self.status {
                Some(status) => {
                    let told = self.stderr_text().trim().replace('\n', "; ");
                    let name = self.name.clone();
                    bail!(Refused { name, status, told });
                }
                None if Instant::now() >= end => {
                    bail!("{} is not ready within {deadline:?}", self.name)
                }
                None => self.said.pause(LOOK_INTERVAL),
            }
        }
    }

    /// The ready line, whole, once it was said.
    pub fn ready_line(&self) -> Option<String> {
        self.said.ready().map(|(line, _)| line)
    }

    /// The address in the ready line, once it was said.
    pub fn address(&self) -> Option<SocketAddr> {
        self.said.ready()?.1
    }

    /// The next line of standard output after the ready line and those already taken; nothing when the stream has ended or
    /// nothing came within `deadline`.
    pub fn next_line(&self, deadline: Duration) -> Option<String> {
        self.said.next_line(deadline)
    }

    /// What it said since it was last asked, but for the ready line and what stands before that on standard output.
    pub fn new_lines(&self) -> Vec<Line> {
        self.said.new_lines()
    }

    /// The last lines of standard output so far; complete once [`Process::wait`] returned.
    pub fn stdout_text(&self) -> String {
        self.said.text(Stream::Out)
    }

    /// The last lines of standard error so far; complete once [`Process::wait`] returned.
    pub fn stderr_text(&self) -> String {
        self.said.text(Stream::Err)
    }

    /// Sends a signal. A process that has ended already is left alone. One that is stopped does nothing any more when this
    /// returns: until its last thread has been told, another could still serve a request.
    ///
    /// # Errors
    /// When this process may not.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        if self.status.is_some() {
            return Ok(());
        }
        let process = Pid::from_child(&self.child);
        kill_process(process, signal)
            .with_context(|| format!("sending {signal:?} to {}", self.name))?;
        if signal == Signal::STOP {
            let until = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            waitid(WaitId::Pid(process), until).context("waiting until it is stopped")?;
        }
        Ok(())
    }

    /// True until the process has ended.
    pub fn is_running(&mut self) -> bool {
        if self.status.is_none() {
            // A child that cannot be asked about any more is as good as gone.
            self.status = self
                .child
                .try_wait()
                .unwrap_or_else(|_| Some(ExitStatus::default()));
        }
        self.status.is_none()
    }

    /// How the process ended, once it has and everything that it said has been heard.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.is_running();
        self.status.filter(|_| self.said.has_ended())
    }

    /// Waits for the end of the process and of what it says; nothing when it still runs after `deadline`.
    pub fn wait(&mut self, deadline: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + deadline;
        while self.is_running() {
            if Instant::now() >= end {
                return None;
            }
            self.said.pause(LOOK_INTERVAL);
        }
        // Ends at once, unless a grandchild holds a stream open; then the lines so far must do.
        self.said.wait_for_end(GRANDCHILD_PATIENCE);
        self.status
    }

    /// Asks the process to end, waits until it has, and kills it after `deadline`. One that is stopped goes on for it.
    pub fn stop(&mut self, deadline: Duration) {
        // Both fail only when it has ended already.
        let _ = self.signal(Signal::CONT);
        let _ = self.signal(Signal::TERM);
        if self.wait(deadline).is_none() {
            self.kill();
        }
    }

    /// Kills and reaps the process: when it returns, the kernel has closed every socket of it.
    pub fn kill(&mut self) {
        if self.is_running() {
            // Both fail only when the child is gone already, which is what is wanted.
            let _ = self.child.kill();
            self.status = self.child.wait().ok();
        }
    }

    /// A figure of memory in `/proc/PID/status`, such as `VmRSS`, in bytes.
    ///
    /// # Errors
    /// When the kernel does not tell, or the process is gone.
    pub fn memory_bytes(&self, name: &str) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let of_line = |line: &str| {
            line.strip_prefix(name)?
                .strip_prefix(':')?
                .strip_suffix(" kB")?
                .trim()
                .parse::<u64>()
                .ok()
        };
        let kib = status.lines().find_map(of_line);
        Ok(kib.with_context(|| format!("no {name} in /proc/PID/status"))? * 1024)
    }

    /// Everything that a failure message should hold.
    pub fn story(&self) -> String {
        format!(
            "process: {} (pid {})\nstandard output:\n{}standard error:\n{}",
            self.name,
            self.pid(),
            self.stdout_text(),
            self.stderr_text()
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Only a hang reaches it.
    const DEADLINE: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Launch {
        let mut launch = Launch::new("sh", "sh");
        launch.command.args(["-c", script]);
        launch.ready_prefix = Some("ready".into());
        launch
    }

    fn ready(launch: Launch) -> Process {
        let mut process = launch.spawn().unwrap();
        process.await_ready(DEADLINE, Process::ready_line).unwrap();
        process
    }

    #[test]
    fn the_ready_line_gives_the_address() {
        let script = "echo hello; echo 'ready http://127.0.0.1:77/ now'; echo more; exec sleep 600";
        let process = ready(shell(script));
        assert_eq!(process.address(), "127.0.0.1:77".parse().ok());
        let line = process.ready_line();
        assert_eq!(line.as_deref(), Some("ready http://127.0.0.1:77/ now"));
        assert_eq!(process.next_line(DEADLINE).as_deref(), Some("more"));
        assert_eq!(process.next_line(Duration::ZERO), None);
    }

    #[test]
    fn who_ends_early_is_told_with_its_words() {
        let mut process = shell("echo no >&2; echo port >&2; exit 2").spawn().unwrap();
        let error = process.await_ready(DEADLINE, Process::address).unwrap_err();
        let refused: Refused = error.downcast().unwrap();
        assert_eq!(refused.told, "no; port");
        assert_eq!(refused.status.code(), Some(2));
        let mut silent = shell("exec sleep 600").spawn().unwrap();
        let late = silent.await_ready(Duration::ZERO, Process::address);
        assert_eq!(late.unwrap_err().to_string(), "sh is not ready within 0ns");
    }

    #[test]
    fn signals_reach_the_process_and_its_end_is_seen() {
        let script = "trap 'exit 7' TERM; echo ready; while :; do read x < /dev/null; done";
        let mut process = ready(shell(script));
        process.signal(Signal::STOP).unwrap();
        assert!(process.is_running());
        process.stop(DEADLINE);
        assert_eq!(process.ended().and_then(|status| status.code()), Some(7));
        process.signal(Signal::KILL).unwrap(); // Nothing to kill: no effect, no error.
    }

    #[test]
    fn what_was_said_is_complete_after_the_end() {
        let mut process = shell("echo one >&2; echo two >&2; echo three")
            .spawn()
            .unwrap();
        assert!(process.wait(DEADLINE).unwrap().success());
        assert_eq!(process.stderr_text(), "one\ntwo\n");
        assert_eq!(process.stdout_text(), "three\n");
        assert_eq!(process.new_lines().len(), 3);
        assert!(process.new_lines().is_empty());
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let process = ready(shell("echo ready; exec sleep 600"));
        let pid = process.pid();
        assert!(process.memory_bytes("VmRSS").unwrap() > 0);
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_process_starts_on_its_cores() {
        let before = sched_getaffinity(None).unwrap();
        let core = (0..CpuSet::MAX_CPU)
            .find(|&core| before.is_set(core))
            .unwrap();
        let mut launch = shell("echo ready; exec sleep 600");
        launch.cores = vec![core];
        let process = ready(launch);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        let set = sched_getaffinity(Some(Pid::from_child(&process.child))).unwrap();
        assert!(set.is_set(core) && set.count() == 1);
    }
}
