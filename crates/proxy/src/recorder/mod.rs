//! The recorder: the thread that writes the log of requests and the profile.
//!
//! Workers never wait for it: what finds no room in the queue is dropped, and counted. The thread writes what
//! is there in one write for each file, and looks after the files when it is told to, so that they can be renamed and compressed
//! by what rotates logs.

mod log;
mod profile;

pub use log::{Entry, LogFile, Target};
pub use profile::{ProfileFile, ProfilePlace};

use evenkeel_proxy_core::ProfileChunk;
use evenkeel_runtime::spawn_named;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// What waits to be written, of all workers. Lines of the log have some 500 bytes each, so that they are 4 MiB at most.
const QUEUE_MAX: usize = 8192;

/// Chunks of the profile among it: 18 MiB at most, as much as a busy proxy records in a second in which its disk does nothing.
const CHUNKS_MAX: usize = 256;

const _: () = assert!(CHUNKS_MAX < QUEUE_MAX);

/// Bytes that are written at once.
const WRITE_BYTES: usize = 64 << 10;

/// How long the end of the process waits for what is still to be written.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// Permissions of a file that is made: the keys in it are not for everybody.
const MODE: u32 = 0o640;

enum Word {
    Log(Entry),
    Profile(Box<ProfileChunk>),
    /// Look at `Shared::reopen`.
    Look,
}

/// What was written of something, and what was dropped.
#[derive(Debug, Default)]
struct Tally {
    written: AtomicU64,
    dropped: AtomicU64,
}

impl Tally {
    fn count(&self, written: u64, dropped: u64) {
        self.written.fetch_add(written, Ordering::Relaxed);
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
    }

    fn counts(&self) -> (u64, u64) {
        (
            self.written.load(Ordering::Relaxed),
            self.dropped.load(Ordering::Relaxed),
        )
    }
}

#[derive(Debug, Default)]
struct Shared {
    lines: Tally,
    records: Tally,
    /// Chunks in the queue.
    chunks: AtomicUsize,
    reopen: AtomicBool,
}

/// Where workers put what is to be written.
#[derive(Clone, Debug)]
pub struct Sink {
    sender: SyncSender<Word>,
    shared: Arc<Shared>,
}

impl Sink {
    /// Gives a request to the log, or drops it. Never waits.
    pub fn offer(&self, entry: Entry) {
        if self.sender.try_send(Word::Log(entry)).is_err() {
            self.shared.lines.count(0, 1);
        }
    }

    /// Gives records to the profile, or drops them. Never waits.
    pub fn offer_records(&self, chunk: Box<ProfileChunk>) {
        let count = chunk.records.len() as u64;
        let chunks = &self.shared.chunks;
        if chunks.fetch_add(1, Ordering::Relaxed) < CHUNKS_MAX
            && self.sender.try_send(Word::Profile(chunk)).is_ok()
        {
            return;
        }
        chunks.fetch_sub(1, Ordering::Relaxed);
        self.shared.records.count(0, count);
    }

    /// Looks after the files, after what is waiting or before: what was renamed gets no more than that.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
        match self.sender.try_send(Word::Look) {
            // A thread that is busy looks by itself; one that has ended has no file.
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }

    /// Requests written to the log and requests dropped, since the start.
    pub fn lines(&self) -> (u64, u64) {
        self.shared.lines.counts()
    }

    /// The same of records of the profile.
    pub fn records(&self) -> (u64, u64) {
        self.shared.records.counts()
    }
}

/// The thread that writes.
#[derive(Debug)]
pub struct Recorder {
    sink: Sink,
    /// Ends when the thread does.
    ends: Receiver<()>,
}

impl Recorder {
    /// Begins to write to these files.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(log: Option<LogFile>, profile: Option<ProfileFile>) -> io::Result<Self> {
        let (sender, words) = sync_channel(QUEUE_MAX);
        let shared = Arc::new(Shared::default());
        let mut writer = Writer {
            log,
            profile,
            shared: Arc::clone(&shared),
        };
        let (running, ends) = sync_channel(0);
        spawn_named("recorder".into(), move || {
            writer.run(&words);
            drop(running);
        })?;
        Ok(Recorder {
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
    log: Option<LogFile>,
    profile: Option<ProfileFile>,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(&mut self, words: &Receiver<Word>) {
        while let Ok(first) = words.recv() {
            let mut next = Some(first);
            while let Some(word) = next {
                self.take(word);
                next = words.try_recv().ok();
            }
            self.flush();
        }
    }

    /// What has no file is for nobody: it is configured from the next start on.
    fn take(&mut self, word: Word) {
        match word {
            Word::Log(entry) => {
                if let Some(log) = &mut self.log {
                    log.push(&entry, &self.shared.lines);
                }
            }
            Word::Profile(chunk) => {
                self.shared.chunks.fetch_sub(1, Ordering::Relaxed);
                if let Some(profile) = &mut self.profile {
                    profile.push(&chunk, &self.shared.records);
                }
            }
            Word::Look => {}
        }
    }

    fn flush(&mut self) {
        let reopens = self.shared.reopen.swap(false, Ordering::AcqRel);
        if let Some(log) = &mut self.log {
            if reopens {
                log.reopen();
            }
            log.flush(&self.shared.lines);
        }
        if let Some(profile) = &mut self.profile {
            if reopens {
                profile.reopen();
            }
            profile.flush(&self.shared.records);
        }
    }
}

/// Writes all of it: how many bytes were written, and why not all.
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
