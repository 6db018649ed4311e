//! The file of the profile: a head, and records of 48 bytes.
//!
//! When it has half of the bytes that the profile may have, it becomes `FILE.1`, in place of the one before, and another begins with a head of its own.
//! So it does when requests are recorded in another way from then on.

use super::{MODE, Tally, WRITE_BYTES, write_to};
use evenkeel_profile::{Head, RECORD_LEN};
use evenkeel_proxy_core::ProfileChunk;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use tracing::warn;

/// Where the profile goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfilePlace {
    /// The file.
    pub path: PathBuf,
    /// Most bytes of the file and of the one before it together.
    pub max: u64,
}

/// The profile, open.
#[derive(Debug)]
pub struct ProfileFile {
    place: ProfilePlace,
    /// The proxy's name.
    proxy: String,
    /// By which head the records are to be understood.
    head: Arc<Head>,
    file: File,
    /// A pipe or a device is written to, and otherwise left as it is.
    is_ordinary: bool,
    /// Bytes in the file: 0, or a head and whole records.
    len: u64,
    buffer: Vec<u8>,
    /// Records in the buffer.
    waiting: u64,
    /// The last write failed, and that was said.
    is_failing: bool,
}

impl ProfileFile {
    /// Begins the file; what there was is the one before it.
    ///
    /// # Errors
    /// When it cannot be written, or the names in its head are too long.
    pub fn begin(place: ProfilePlace, proxy: String, head: Arc<Head>) -> io::Result<Self> {
        let mut profile = ProfileFile {
            file: open(&place)?,
            place,
            proxy,
            head,
            is_ordinary: false,
            len: 0,
            buffer: Vec::with_capacity(WRITE_BYTES),
            waiting: 0,
            is_failing: false,
        };
        profile.head_bytes()?;
        profile.begin_file()?;
        Ok(profile)
    }

    pub(super) fn push(&mut self, chunk: &ProfileChunk, tally: &Tally) {
        let bytes = (chunk.records.len() * RECORD_LEN) as u64;
        let is_another = chunk.head != self.head;
        let would_have = self.len + self.buffer.len() as u64 + bytes;
        let is_full = self.is_ordinary && would_have > self.place.max / 2;
        if is_another || is_full {
            self.flush(tally);
            if !self.begin_another(&chunk.head) {
                return tally.count(0, chunk.records.len() as u64);
            }
        }
        for record in &chunk.records {
            self.buffer.extend_from_slice(&record.to_bytes());
        }
        self.waiting += chunk.records.len() as u64;
        if self.buffer.len() >= WRITE_BYTES {
            self.flush(tally);
        }
    }

    /// If the file was renamed, another begins.
    pub(super) fn reopen(&mut self) {
        let identity = |file: &std::fs::Metadata| (file.dev(), file.ino());
        let own = self.file.metadata().ok().map(|own| identity(&own));
        let there = there(&self.place).map(|there| identity(&there));
        if own != there {
            let head = Arc::clone(&self.head);
            self.begin_another(&head);
        }
    }

    pub(super) fn flush(&mut self, tally: &Tally) {
        if self.waiting == 0 {
            return;
        }
        let result = self.write_head().and_then(|()| {
            let (done, result) = write_to(&mut self.file, &self.buffer);
            let whole = (done / RECORD_LEN) as u64;
            self.waiting -= whole;
            self.len += whole * RECORD_LEN as u64;
            tally.count(whole, 0);
            result
        });
        tally.count(0, self.waiting);
        self.note(&result);
        self.waiting = 0;
        self.buffer.clear();
    }

    /// Says, once, that the file takes no more, and takes away what did not become whole.
    fn note(&mut self, result: &io::Result<()>) {
        if let Err(error) = result {
            if self.is_ordinary {
                // If that cannot be done either, what reads the file says so.
                let _ = self.file.set_len(self.len);
            }
            if !self.is_failing {
                warn!("the profile takes no more: {error}");
            }
        }
        self.is_failing = result.is_err();
    }

    /// A file that has nothing gets its head.
    fn write_head(&mut self) -> io::Result<()> {
        if self.len > 0 {
            return Ok(());
        }
        let head = self.head_bytes()?;
        let (done, result) = write_to(&mut self.file, &head);
        if done == head.len() {
            self.len = done as u64;
        }
        result
    }

    fn head_bytes(&self) -> io::Result<Vec<u8>> {
        let head = Head {
            proxy: self.proxy.clone(),
            ..(*self.head).clone()
        };
        head.to_bytes().map_err(io::Error::other)
    }

    /// Another file begins, with this head. False if it cannot.
    fn begin_another(&mut self, head: &Arc<Head>) -> bool {
        let begun = open(&self.place).and_then(|file| {
            self.head = Arc::clone(head);
            self.file = file;
            self.begin_file()
        });
        if let Err(error) = &begun
            && !self.is_failing
        {
            warn!("the profile cannot be begun anew: {error}");
        }
        self.is_failing |= begun.is_err();
        begun.is_ok()
    }

    /// The file is open, and has nothing. One that does not take its head gets it with the next records.
    fn begin_file(&mut self) -> io::Result<()> {
        self.len = 0;
        self.is_ordinary = self.file.metadata()?.is_file();
        let result = self.write_head();
        self.note(&result);
        Ok(())
    }
}

/// What is at its path.
#[allow(
    clippy::disallowed_methods,
    reason = "at the start, and on the thread that writes"
)]
fn there(place: &ProfilePlace) -> Option<std::fs::Metadata> {
    std::fs::metadata(&place.path).ok()
}

/// Opens the file, empty: one that has something becomes the one before it.
#[allow(
    clippy::disallowed_methods,
    reason = "at the start, and on the thread that writes"
)]
fn open(place: &ProfilePlace) -> io::Result<File> {
    let path = &place.path;
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    if there(place).is_some_and(|there| there.is_file() && there.len() > 0) {
        let mut before = path.clone().into_os_string();
        before.push(".1");
        std::fs::rename(path, before).map_err(named)?;
    }
    let mut options = OpenOptions::new();
    let options = options.append(true).create(true).mode(MODE);
    options.open(path).map_err(named)
}
