//! The file of the log of requests, and the thread that writes it.
//!
//! Workers never wait for it: what finds no room in the queue is dropped, and counted. The thread writes what
//! is there in one write, and opens the file anew when it is told to, so that it can be renamed and compressed
//! by what rotates logs.

use evenkeel_proxy_core::LoggedRequest;
use evenkeel_runtime::spawn_named;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// Requests that wait to be written, of all workers. At some 500 bytes each, 4 MiB at most.
const QUEUE_MAX: usize = 8192;

/// Bytes that are written at once.
const WRITE_BYTES: usize = 64 << 10;

/// How long the end of the process waits for what is still to be written.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// Permissions of a file that is made: the keys in it are not for everybody.
const MODE: u32 = 0o640;

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

fn write_to(out: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut done = 0;
    while done < bytes.len() {
        match out.write(&bytes[done..]) {
            Ok(0) => return (done, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (done, Err(error)),
        }
    }
    (done, Ok(()))
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

enum Word {
    Log(Entry),
    /// Look at `Shared::reopen`.
    Look,
}

#[derive(Debug, Default)]
struct Shared {
    written: AtomicU64,
    dropped: AtomicU64,
    reopen: AtomicBool,
}

/// Where workers put what is to be logged.
#[derive(Clone, Debug)]
pub struct Sink {
    sender: SyncSender<Word>,
    shared: Arc<Shared>,
}

impl Sink {
    /// Gives a request to the thread that writes, or drops it. Never waits.
    pub fn offer(&self, entry: Entry) {
        if self.sender.try_send(Word::Log(entry)).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Opens the file anew, after what is waiting or before: what was renamed gets no more than that.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
        match self.sender.try_send(Word::Look) {
            // A thread that is busy looks by itself; one that has ended has no file.
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }

    /// Requests written and requests dropped since the start.
    pub fn counts(&self) -> (u64, u64) {
        let Shared {
            written, dropped, ..
        } = &*self.shared;
        (
            written.load(Ordering::Relaxed),
            dropped.load(Ordering::Relaxed),
        )
    }
}

/// The thread that writes the log.
#[derive(Debug)]
pub struct RequestLog {
    sink: Sink,
    /// Ends when the thread does.
    ends: Receiver<()>,
}

impl RequestLog {
    /// Opens the file and begins to write.
    ///
    /// # Errors
    /// When it cannot be opened, or there is no thread to be had.
    pub fn start(target: Target) -> io::Result<Self> {
        let open = target.open()?;
        let (sender, words) = sync_channel(QUEUE_MAX);
        let shared = Arc::new(Shared::default());
        let mut writer = Writer {
            target,
            open,
            shared: Arc::clone(&shared),
            buffer: Vec::with_capacity(WRITE_BYTES),
            waiting: 0,
            is_cut: false,
            is_failing: false,
        };
        let (running, ends) = sync_channel(0);
        spawn_named("request-log".into(), move || {
            writer.run(&words);
            drop(running);
        })?;
        Ok(RequestLog {
            sink: Sink { sender, shared },
            ends,
        })
    }

    /// For workers.
    pub fn sink(&self) -> &Sink {
        &self.sink
    }

    /// Ends it once no other sink is left, and all is written. A file that takes nothing, such as a pipe that
    /// nobody reads, is not waited for.
    pub fn stop(self) {
        drop(self.sink);
        // Nothing is sent: it ends with the thread.
        let _ = self.ends.recv_timeout(STOP_PATIENCE);
    }
}

struct Writer {
    target: Target,
    open: Open,
    shared: Arc<Shared>,
    buffer: Vec<u8>,
    /// Requests in the buffer.
    waiting: u64,
    /// The last write ended in the middle of a line.
    is_cut: bool,
    /// The last write failed, and that was said.
    is_failing: bool,
}

impl Writer {
    fn run(&mut self, words: &Receiver<Word>) {
        while let Ok(first) = words.recv() {
            let mut next = Some(first);
            while let Some(word) = next {
                if let Word::Log(entry) = word {
                    let client = entry.client.as_deref();
                    entry.request.write(entry.unix_ms, client, &mut self.buffer);
                    self.waiting += 1;
                }
                if self.buffer.len() >= WRITE_BYTES {
                    self.flush();
                }
                next = words.try_recv().ok();
            }
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.shared.reopen.swap(false, Ordering::AcqRel) {
            match self.target.open() {
                Ok(open) => self.open = open,
                Err(error) => eprintln!("evenkeel proxy: kept the request log there was: {error}"),
            }
        }
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
        let Shared {
            written, dropped, ..
        } = &*self.shared;
        written.fetch_add(whole, Ordering::Relaxed);
        dropped.fetch_add(self.waiting - whole, Ordering::Relaxed);
        match result {
            Ok(()) => self.is_failing = self.is_cut,
            Err(error) => {
                if !self.is_failing {
                    eprintln!("evenkeel proxy: the request log takes no more: {error}");
                }
                self.is_failing = true;
            }
        }
        self.waiting = 0;
        self.buffer.clear();
    }
}
