//! A started program, for tests: what [`evenkeel_launch`] starts, where everything that fails ends the test with the
//! program's own words.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use evenkeel_launch::Launch;

use crate::poll_until;

/// How long a program may take to print its ready line. Generous: a debug build on a busy machine.
pub const READY_DEADLINE: Duration = Duration::from_secs(60);

/// How long a program may take to end after it was asked to.
pub const EXIT_DEADLINE: Duration = Duration::from_secs(60);

/// A signal that tests send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `SIGKILL`: the crash.
    Kill,
    /// `SIGSTOP`: the stall. The process keeps its sockets and answers nothing.
    Stop,
    /// `SIGCONT`: the end of the stall.
    Continue,
    /// `SIGTERM`: the orderly stop.
    Terminate,
    /// `SIGINT`: Ctrl-C.
    Interrupt,
    /// `SIGHUP`: files have changed.
    Hangup,
    /// `SIGUSR1`: finish what was begun, then end.
    Drain,
}

/// Says how to start a [`Process`].
pub struct Builder(Launch);

impl Builder {
    /// Adds one argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.0.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.0.command.args(arguments);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.command.env(name, value);
        self
    }

    /// Sets the working directory.
    pub fn current_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.0.command.current_dir(dir);
        self
    }

    /// [`spawn`](Self::spawn) waits for a line of standard output that starts so; an address that
    /// follows it becomes [`Process::address`].
    pub fn ready_prefix(mut self, prefix: &str) -> Self {
        self.0.ready_prefix = Some(prefix.to_owned());
        self
    }

    /// Starts the program and waits for its ready line, if one was named.
    ///
    /// # Panics
    /// When the program cannot be started, ends, or is not ready within [`READY_DEADLINE`]; the
    /// message holds what it printed.
    pub fn spawn(self) -> Process {
        let has_ready_line = self.0.ready_prefix.is_some();
        let mut process = Process::start(self.0);
        if has_ready_line {
            process.await_ready(evenkeel_launch::Process::ready_line);
        }
        process
    }
}

/// A running program. Killed and reaped when dropped, and then what it said is shown if the test has failed.
pub struct Process(evenkeel_launch::Process);

impl Process {
    /// Starts to describe a process; `name` is shown in failures.
    pub fn command(name: &str, program: impl AsRef<OsStr>) -> Builder {
        Builder(Launch::new(name, program))
    }

    /// Starts a program.
    pub(crate) fn start(launch: Launch) -> Process {
        let started = launch.spawn();
        Process(started.unwrap_or_else(|error| panic!("{error:#}")))
    }

    /// Waits until `look` finds what says that it is ready.
    pub(crate) fn await_ready<T>(
        &mut self,
        look: impl FnMut(&evenkeel_launch::Process) -> Option<T>,
    ) -> T {
        let ready = self.0.await_ready(READY_DEADLINE, look);
        ready.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// The address in the ready line.
    ///
    /// # Panics
    /// When the ready line held none.
    pub fn address(&self) -> SocketAddr {
        self.0.address().expect("the ready line has an address")
    }

    /// Standard error, once it says that: what was written before the ready line may be read after it.
    ///
    /// # Panics
    /// When it does not within [`READY_DEADLINE`].
    pub fn await_stderr(&self, text: &str) -> String {
        poll_until(READY_DEADLINE, text, || {
            Some(self.stderr_text()).filter(|told| told.contains(text))
        })
    }

    /// Sends a signal. A process that has ended already is left alone. One that is stopped does nothing any more
    /// when this returns: until its last thread has been told, another could still serve a request.
    pub fn signal(&mut self, signal: Signal) {
        use evenkeel_launch::Signal as Unix;
        let signal = match signal {
            Signal::Kill => Unix::KILL,
            Signal::Stop => Unix::STOP,
            Signal::Continue => Unix::CONT,
            Signal::Terminate => Unix::TERM,
            Signal::Interrupt => Unix::INT,
            Signal::Hangup => Unix::HUP,
            Signal::Drain => Unix::USR1,
        };
        let sent = self.0.signal(signal);
        sent.expect("a child of ours can be signalled");
    }

    /// True until the process has ended.
    pub fn is_running(&mut self) -> bool {
        self.0.is_running()
    }

    /// Resident memory in bytes.
    ///
    /// # Panics
    /// When it has ended.
    pub fn resident_bytes(&self) -> u64 {
        let bytes = self.0.memory_bytes("VmRSS");
        bytes.expect("a running process has a status")
    }

    /// Waits for the end of the process.
    ///
    /// # Panics
    /// After `deadline`.
    pub fn wait(&mut self, deadline: Duration) -> ExitStatus {
        let ended = self.0.wait(deadline);
        ended.unwrap_or_else(|| panic!("{} has not ended within {deadline:?}", self.name()))
    }
}

impl Deref for Process {
    type Target = evenkeel_launch::Process;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill();
        if std::thread::panicking() {
            eprintln!("{}", self.0.story());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "ended before it was ready (exit status: 2): no port")]
    fn a_process_that_ends_early_fails_the_test_with_its_words() {
        Process::command("sh", "sh")
            .args(["-c", "echo 'no port' >&2; exit 2"])
            .ready_prefix("ready")
            .spawn();
    }
}
