//! A started program: its ready line, its output, its signals and its end.
//!
//! Two threads read standard output and standard error to their ends, so that a chatty program never
//! blocks on a full pipe. Lines of standard output are handed over by a channel, which is what makes
//! waiting for the ready line an event and not a guess.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::poll_until;

/// How long a program may take to print its ready line. Generous: a debug build on a busy machine.
pub const READY_DEADLINE: Duration = Duration::from_secs(60);

/// How long a program may take to end after it was asked to.
pub const EXIT_DEADLINE: Duration = Duration::from_secs(60);

/// How long to wait for the end of an output stream of a process that has ended. Where nobody else holds the stream it is
/// there at once, or as soon as a busy machine lets its reader run.
const GRANDCHILD_PATIENCE: Duration = Duration::from_secs(30);

/// Lines kept of each output stream for failure messages; older ones are dropped.
const LINES_KEPT: usize = 200;

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
pub struct Builder {
    name: String,
    command: Command,
    ready_prefix: Option<String>,
}

impl Builder {
    /// Adds one argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the working directory.
    pub fn current_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// [`spawn`](Self::spawn) waits for a line of standard output that starts so; an address that
    /// follows it becomes [`Process::address`].
    pub fn ready_prefix(mut self, prefix: &str) -> Self {
        self.ready_prefix = Some(prefix.to_owned());
        self
    }

    /// Starts the program and waits for its ready line, if one was named.
    ///
    /// # Panics
    /// When the program cannot be started, ends, or is not ready within [`READY_DEADLINE`]; the
    /// message holds what it printed.
    pub fn spawn(mut self) -> Process {
        let child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("failed to start {}: {error}", self.name));
        let mut process = Process::watch(self.name, child);
        if let Some(prefix) = self.ready_prefix {
            process.wait_until_ready(&prefix);
        }
        process
    }
}

/// The last lines of one output stream.
#[derive(Clone, Default)]
struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    fn lines(&self) -> MutexGuard<'_, VecDeque<String>> {
        // A reader thread never panics while it holds the lock; if it did, the lines are still good.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: String) {
        let mut lines = self.lines();
        if lines.len() == LINES_KEPT {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn text(&self) -> String {
        self.lines()
            .iter()
            .map(|line| format!("{line}\n"))
            .collect()
    }
}

/// A running program. Killed and reaped when dropped.
pub struct Process {
    name: String,
    child: Child,
    lines: Receiver<String>,
    stdout: Tail,
    stderr: Tail,
    /// Disconnected when both streams have been read to their ends.
    output_end: Receiver<()>,
    ready_line: Option<String>,
    address: Option<SocketAddr>,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts to describe a process; `name` is shown in failures.
    pub fn command(name: &str, program: impl AsRef<OsStr>) -> Builder {
        Builder {
            name: name.to_owned(),
            command: Command::new(program),
            ready_prefix: None,
        }
    }

    fn watch(name: String, mut child: Child) -> Process {
        let (sender, lines) = channel();
        let (stdout, stderr) = (Tail::default(), Tail::default());
        let pipe = child.stdout.take().expect("standard output was piped");
        let (end, output_end) = channel::<()>();
        let (tail, stdout_end) = (stdout.clone(), end.clone());
        std::thread::spawn(move || {
            for_each_line(pipe, |line| {
                tail.push(line.clone());
                // The receiver may be gone; the pipe must be drained all the same.
                let _ = sender.send(line);
            });
            drop(stdout_end);
        });
        let pipe = child.stderr.take().expect("standard error was piped");
        let tail = stderr.clone();
        std::thread::spawn(move || {
            for_each_line(pipe, |line| tail.push(line));
            drop(end);
        });
        Process {
            name,
            child,
            lines,
            stdout,
            stderr,
            output_end,
            ready_line: None,
            address: None,
            status: None,
        }
    }

    fn wait_until_ready(&mut self, prefix: &str) {
        let end = Instant::now() + READY_DEADLINE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(prefix) {
                        self.address = rest.split_whitespace().next().and_then(parse_address);
                        self.ready_line = Some(line);
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!(
                        "no line `{prefix}…` within {READY_DEADLINE:?}\n{}",
                        self.story()
                    )
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.wait(EXIT_DEADLINE);
                    panic!("ended before it was ready ({status})\n{}", self.story());
                }
            }
        }
    }

    /// What the process is called in failures.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The address in the ready line.
    ///
    /// # Panics
    /// When the ready line held none.
    pub fn address(&self) -> SocketAddr {
        self.address
            .unwrap_or_else(|| panic!("the ready line has no address\n{}", self.story()))
    }

    /// The ready line, whole.
    ///
    /// # Panics
    /// When the process was started without a ready prefix.
    pub fn ready_line(&self) -> &str {
        self.ready_line
            .as_deref()
            .expect("started with a ready prefix")
    }

    /// The next line of standard output after those already taken, or `None` when the stream ended
    /// or nothing came within `deadline`.
    pub fn next_line(&self, deadline: Duration) -> Option<String> {
        self.lines.recv_timeout(deadline).ok()
    }

    /// The last lines of standard error so far; complete once [`wait`](Self::wait) returned.
    pub fn stderr_text(&self) -> String {
        self.stderr.text()
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

    /// The last lines of standard output so far; complete once [`wait`](Self::wait) returned.
    pub fn stdout_text(&self) -> String {
        self.stdout.text()
    }

    /// Sends a signal. A process that has ended already is left alone. One that is stopped does nothing any more
    /// when this returns: until its last thread has been told, another could still serve a request.
    pub fn signal(&mut self, signal: Signal) {
        use rustix::process as unix;
        if !self.is_running() {
            return;
        }
        let signal = match signal {
            Signal::Kill => unix::Signal::KILL,
            Signal::Stop => unix::Signal::STOP,
            Signal::Continue => unix::Signal::CONT,
            Signal::Terminate => unix::Signal::TERM,
            Signal::Interrupt => unix::Signal::INT,
            Signal::Hangup => unix::Signal::HUP,
            Signal::Drain => unix::Signal::USR1,
        };
        let process = unix::Pid::from_child(&self.child);
        unix::kill_process(process, signal).expect("a child that was not reaped can be signalled");
        if signal == unix::Signal::STOP {
            use unix::WaitIdOptions as Wait;
            let until = Wait::STOPPED | Wait::EXITED | Wait::NOWAIT;
            unix::waitid(unix::WaitId::Pid(process), until).expect("a child can be waited for");
        }
    }

    /// `kill -9`, then reaps: when it returns, the kernel has closed every socket of the process.
    pub fn kill(&mut self) {
        self.signal(Signal::Kill);
        self.wait(EXIT_DEADLINE);
    }

    /// True until the process has ended.
    pub fn is_running(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("a child of ours can be asked");
        }
        self.status.is_none()
    }

    /// Resident memory in bytes.
    ///
    /// # Panics
    /// When it has ended.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))
            .expect("a running process has a status");
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let words = line.and_then(|line| line.split_whitespace().nth(1));
        let kilobytes: u64 = words.and_then(|word| word.parse().ok()).expect("in kB");
        kilobytes * 1024
    }

    /// Waits for the end of the process.
    ///
    /// # Panics
    /// After `deadline`.
    pub fn wait(&mut self, deadline: Duration) -> ExitStatus {
        let awaited = format!("the end of {}", self.name);
        let status = poll_until(deadline, &awaited, || {
            self.is_running();
            self.status
        });
        // Ends at once, unless a grandchild holds the pipe open; then the lines so far must do.
        let _ = self.output_end.recv_timeout(GRANDCHILD_PATIENCE);
        status
    }

    /// A descriptor that becomes readable when the process ends.
    pub(crate) fn end_event(&self) -> OwnedFd {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())
            .expect("a child that was not reaped has a descriptor")
    }

    /// Everything a failure message should hold.
    fn story(&self) -> String {
        format!(
            "process: {} (pid {})\nstandard output:\n{}standard error:\n{}",
            self.name,
            self.pid(),
            self.stdout.text(),
            self.stderr.text()
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            // Both fail only when the child is gone already, which is what is wanted.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.story());
        }
    }
}

fn for_each_line(pipe: impl Read, mut take: impl FnMut(String)) {
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => take(String::from_utf8_lossy(&line).trim_end().to_owned()),
        }
    }
}

/// `127.0.0.1:1`, `[::1]:1` or `http://127.0.0.1:1`.
fn parse_address(text: &str) -> Option<SocketAddr> {
    text.trim_start_matches("http://")
        .trim_end_matches('/')
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Builder {
        Process::command("sh", "sh").args(["-c", script])
    }

    #[test]
    fn the_ready_line_gives_the_address() {
        let process = shell("echo hello; echo 'ready on 127.0.0.1:77 now'; exec cat /dev/zero")
            .ready_prefix("ready on ")
            .spawn();
        assert_eq!(process.address(), "127.0.0.1:77".parse().unwrap());
        assert_eq!(process.ready_line(), "ready on 127.0.0.1:77 now");
    }

    #[test]
    #[should_panic(expected = "ended before it was ready")]
    fn a_process_that_ends_early_fails_the_test_with_its_words() {
        shell("echo 'no port' >&2; exit 2")
            .ready_prefix("ready")
            .spawn();
    }

    #[test]
    fn signals_reach_the_process_and_its_end_is_seen() {
        let mut process =
            shell("trap 'exit 7' TERM; echo ready; while :; do read x < /dev/null; done")
                .ready_prefix("ready")
                .spawn();
        process.signal(Signal::Stop);
        assert!(process.is_running());
        process.signal(Signal::Continue);
        process.signal(Signal::Terminate);
        assert_eq!(process.wait(EXIT_DEADLINE).code(), Some(7));
        assert!(!process.is_running());
        process.signal(Signal::Kill); // Nothing to kill: no effect, no panic.
    }

    #[test]
    fn output_is_complete_after_the_end() {
        let mut process = shell("echo one >&2; echo two >&2; echo three").spawn();
        assert!(process.wait(EXIT_DEADLINE).success());
        assert_eq!(process.stderr_text(), "one\ntwo\n");
        assert_eq!(process.stdout_text(), "three\n");
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let process = shell("echo ready; exec cat /dev/zero")
            .ready_prefix("ready")
            .spawn();
        let pid = process.pid();
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}
