//! What a process says on its two streams: the last lines, and which of them was the ready line.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Lines kept; older ones are dropped.
const LINES_KEPT: usize = 1000;

/// Longest line; a longer one arrives in pieces.
const LINE_LEN_MAX: u64 = 1 << 20;

/// One of a process's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A line that a process said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where.
    pub stream: Stream,
    /// What, without its end.
    pub text: String,
    taken: bool,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Line>,
    ready: Option<String>,
    /// Streams that have not ended.
    open: usize,
}

/// What was said, filled by a thread for each stream.
#[derive(Debug)]
pub(crate) struct Said {
    state: Mutex<State>,
    changed: Condvar,
    ready_prefix: Option<String>,
}

impl Said {
    /// Begins to read the streams of a process.
    pub(crate) fn of(child: &mut Child, ready_prefix: Option<String>) -> io::Result<Arc<Said>> {
        let said = Arc::new(Said {
            state: Mutex::default(),
            changed: Condvar::new(),
            ready_prefix,
        });
        if let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) {
            said.handle(out, Stream::Out)?;
            said.handle(err, Stream::Err)?;
        }
        Ok(said)
    }

    fn handle(
        self: &Arc<Said>,
        pipe: impl Read + Send + 'static,
        stream: Stream,
    ) -> io::Result<()> {
        let said = self.clone();
        said.state().open += 1;
        let read = move || {
            let mut reader = BufReader::new(pipe);
            let mut line = Vec::new();
            let mut read =
                |line: &mut Vec<u8>| (&mut reader).take(LINE_LEN_MAX).read_until(b'\n', line);
            while read(&mut line).is_ok_and(|len| len > 0) {
                said.push(stream, String::from_utf8_lossy(&line).trim_end().to_owned());
                line.clear();
            }
            said.state().open -= 1;
            said.changed.notify_all();
        };
        thread::Builder::new().name("output".into()).spawn(read)?;
        Ok(())
    }

    fn push(&self, stream: Stream, text: String) {
        let mut state = self.state();
        let begins = |prefix: &String| text.starts_with(prefix.as_str());
        let is_ready_line = stream == Stream::Out
            && state.ready.is_none()
            && self.ready_prefix.as_ref().is_some_and(begins);
        if is_ready_line {
            state.ready = Some(text.clone());
            let before = state
                .lines
                .iter_mut()
                .filter(|line| line.stream == Stream::Out);
            before.for_each(|line| line.taken = true);
        }
        if state.lines.len() == LINES_KEPT {
            state.lines.pop_front();
        }
        state.lines.push_back(Line {
            stream,
            text,
            taken: is_ready_line,
        });
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A reader never panics while it holds the lock; if it did, the lines are still good.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits as long as this is so, for `duration` at most.
    fn wait_while(
        &self,
        duration: Duration,
        mut so: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'_, State> {
        let waited = self
            .changed
            .wait_timeout_while(self.state(), duration, |state| so(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until something more is said or a stream ends, for `duration` at most.
    pub(crate) fn pause(&self, duration: Duration) {
        // A word that comes just before is missed, which costs the whole duration.
        drop(self.changed.wait_timeout(self.state(), duration));
    }

    /// Waits until both streams have ended.
    pub(crate) fn wait_for_end(&self, duration: Duration) {
        drop(self.wait_while(duration, |state| state.open > 0));
    }

    /// Whether both streams have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.state().open == 0
    }

    /// The ready line, and the address behind its beginning.
    pub(crate) fn ready(&self) -> Option<(String, Option<SocketAddr>)> {
        let line = self.state().ready.clone()?;
        let rest = line.strip_prefix(self.ready_prefix.as_deref()?)?;
        let address = rest.split_whitespace().next().and_then(parse_address);
        Some((line, address))
    }

    /// See [`Process::next_line`](crate::Process::next_line).
    pub(crate) fn next_line(&self, deadline: Duration) -> Option<String> {
        let is_next = |line: &Line| !line.taken && line.stream == Stream::Out;
        let awaits = |state: &mut State| state.open > 0 && !state.lines.iter().any(is_next);
        let mut state = self.wait_while(deadline, awaits);
        let line = state.lines.iter_mut().find(|line| is_next(line))?;
        line.taken = true;
        Some(line.text.clone())
    }

    /// See [`Process::new_lines`](crate::Process::new_lines).
    pub(crate) fn new_lines(&self) -> Vec<Line> {
        let mut state = self.state();
        let new = state.lines.iter_mut().filter(|line| !line.taken);
        new.map(|line| {
            line.taken = true;
            line.clone()
        })
        .collect()
    }

    /// The last lines of a stream.
    pub(crate) fn text(&self, stream: Stream) -> String {
        let state = self.state();
        let lines = state.lines.iter().filter(|line| line.stream == stream);
        lines.map(|line| format!("{}\n", line.text)).collect()
    }
}

/// `127.0.0.1:1`, `[::1]:1` or `http://127.0.0.1:1/`.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let text = text.trim_start_matches("http://").trim_end_matches('/');
    text.parse().ok()
}
