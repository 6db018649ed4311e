//! The file of the log of requests: one JSON object a line.

use super::{MODE, Tally, WRITE_BYTES, write_to};
use evenkeel_proxy_core::LoggedRequest;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tracing::warn;

/// Where the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// To standard output.
    Stdout,
    /// Behind what the file has.
    File(PathBuf),
}

impl Target {
    /// What a flag or a file says: a path, or `-`.
    pub fn of(path: &Path) -> Self {
        if path.as_os_str() == "-" {
            Target::Stdout
        } else {
            Target::File(path.to_owned())
        }
    }

    #[allow(clippy::disallowed_methods, reason = "on the thread that writes")]
    fn open(&self) -> io::Result<Open> {
        match self {
            Target::Stdout => Ok(Open::Stdout(io::stdout())),
            Target::File(path) => {
                let mut options = OpenOptions::new();
                let file = options.append(true).create(true).mode(MODE).open(path);
                file.map(Open::File).map_err(|error| {
                    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
                })
            }
        }
    }
}

#[derive(Debug)]
enum Open {
    Stdout(io::Stdout),
    File(File),
}

impl Open {
    /// How many bytes were written, and why not all.
    fn write(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        match self {
            Open::Stdout(stdout) => {
                let mut stdout = stdout.lock();
                let (done, result) = write_to(&mut stdout, bytes);
                (done, result.and_then(|()| stdout.flush()))
            }
            Open::File(file) => write_to(file, bytes),
        }
    }
}

/// A request, and what only its worker's driver knows.
#[derive(Debug)]
pub struct Entry {
    /// Wall-clock time in milliseconds.
    pub unix_ms: u64,
    /// Where the client comes from.
    pub client: Option<String>,
    /// The rest.
    pub request: Box<LoggedRequest>,
}

/// The log, open.
#[derive(Debug)]
pub struct LogFile {
    target: Target,
    open: Open,
    buffer: Vec<u8>,
    /// Requests in the buffer.
    waiting: u64,
    /// The last write ended in the middle of a line.
    is_cut: bool,
    /// The last write failed, and that was said.
    is_failing: bool,
}

impl LogFile {
    /// Opens it.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn open(target: Target) -> io::Result<Self> {
        let open = target.open()?;
        Ok(LogFile {
            target,
            open,
            buffer: Vec::with_capacity(WRITE_BYTES),
            waiting: 0,
            is_cut: false,
            is_failing: false,
        })
    }

    pub(super) fn push(&mut self, entry: &Entry, tally: &Tally) {
        let client = entry.client.as_deref();
        entry.request.write(entry.unix_ms, client, &mut self.buffer);
        self.waiting += 1;
        if self.buffer.len() >= WRITE_BYTES {
            self.flush(tally);
        }
    }

    /// Opens the file anew, so that what was renamed gets no more.
    pub(super) fn reopen(&mut self) {
        match self.target.open() {
            Ok(open) => self.open = open,
            Err(error) => warn!("kept the request log there was: {error}"),
        }
    }

    pub(super) fn flush(&mut self, tally: &Tally) {
        if self.buffer.is_empty() {
            return;
        }
        if self.is_cut {
            self.is_cut = self.open.write(b"\n").0 == 0;
        }
        let (done, result) = match self.is_cut {
            false => self.open.write(&self.buffer),
            true => (0, Ok(())),
        };
        let done = &self.buffer[..done];
        self.is_cut |= done.last().is_some_and(|byte| *byte != b'\n');
        let whole = done.iter().filter(|byte| **byte == b'\n').count() as u64;
        tally.count(whole, self.waiting - whole);
        match result {
            Ok(()) => self.is_failing = self.is_cut,
            Err(error) => {
                if !self.is_failing {
                    warn!("the request log takes no more: {error}");
                }
                self.is_failing = true;
            }
        }
        self.waiting = 0;
        self.buffer.clear();
    }
}
