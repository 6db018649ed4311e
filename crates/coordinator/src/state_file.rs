//! The embedded state: one file, replaced whole, never half written.
//!
//! The file is a line with the format's version and a checksum, and the state as JSON. It is written
//! to a neighbour, flushed to the disk and renamed over the old one, so that a crash at any moment
//! leaves one or the other. A lock beside it keeps a second coordinator from using the same state.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use evenkeel_types::KeyHash;

use crate::store::{Saving, StateStore};
use evenkeel_coordinator_core::SavedState;

/// First word of the file.
const MAGIC: &str = "evenkeel-coordinator-state";

/// Version of the format. A program reads its own version alone.
const VERSION: u32 = 1;

/// Largest file that is read: several times the state of the largest cluster.
const FILE_LEN_MAX: u64 = 64 << 20;

/// Why the state file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateFileError {
    /// Reading or writing failed.
    #[error("state file {path}: cannot {action}: {source}")]
    Io {
        path: PathBuf,
        action: &'static str,
        source: io::Error,
    },
    /// Another process has the lock.
    #[error("state file {path} is in use by another coordinator")]
    InUse { path: PathBuf },
    /// The file is not what it should be.
    #[error("state file {path}: {what}")]
    Unusable { path: PathBuf, what: String },
}

/// A state file that belongs to this process.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// Held until the process ends.
    _lock: File,
}

impl StateFile {
    /// Takes the file for this process and reads what it holds; `None` when there is none yet.
    ///
    /// # Errors
    ///
    /// It is in use, unreadable, corrupt or of another version.
    pub(crate) fn open(path: &Path) -> Result<(Self, Option<SavedState>), StateFileError> {
        let io_error = |action| {
            move |source| StateFileError::Io {
                path: path.to_owned(),
                action,
                source,
            }
        };
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(beside(path, ".lock"))
            .map_err(io_error("open its lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StateFileError::InUse {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(io_error("lock it")(source)),
        }
        let state = match File::open(path) {
            Ok(file) => {
                let mut bytes = Vec::new();
                let mut bounded = file.take(FILE_LEN_MAX + 1);
                bounded
                    .read_to_end(&mut bytes)
                    .map_err(io_error("read it"))?;
                let state = decode(&bytes).map_err(|what| StateFileError::Unusable {
                    path: path.to_owned(),
                    what,
                })?;
                Some(state)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(io_error("open it")(source)),
        };
        let file = StateFile {
            path: path.to_owned(),
            _lock: lock,
        };
        Ok((file, state))
    }

    /// Replaces the file. When this returns, the state survives a loss of power.
    ///
    /// # Errors
    ///
    /// The disk's; the former file is still there then.
    fn replace(&self, state: &SavedState) -> io::Result<()> {
        let temporary = beside(&self.path, ".tmp");
        let mut file = File::create(&temporary)?;
        file.write_all(&encode(state)?)?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        // The rename itself is on the disk only when its directory is.
        let parent = self.path.parent().filter(|p| !p.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl StateStore for StateFile {
    /// Blocks for as long as the disk takes, and everybody with it: nobody could be answered meanwhile.
    fn save<'a>(&'a mut self, state: &'a SavedState) -> Saving<'a> {
        Box::pin(async { Ok(self.replace(state)?) })
    }

    fn place(&self) -> String {
        format!("state file {}", self.path.display())
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn encode(state: &SavedState) -> io::Result<Vec<u8>> {
    let mut body = serde_json::to_vec(state)?;
    body.push(b'\n');
    let mut bytes = format!("{MAGIC} {VERSION} {:016x}\n", checksum(&body)).into_bytes();
    bytes.append(&mut body);
    Ok(bytes)
}

/// Reads a file's bytes; the error says what is wrong in words.
fn decode(bytes: &[u8]) -> Result<SavedState, String> {
    if bytes.len() as u64 > FILE_LEN_MAX {
        return Err(format!("is longer than {FILE_LEN_MAX} bytes"));
    }
    let end = bytes.iter().position(|&b| b == b'\n');
    let (header, body) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
    let header = std::str::from_utf8(header).unwrap_or_default();
    let mut words = header.split_ascii_whitespace();
    if words.next() != Some(MAGIC) {
        return Err("is not a coordinator's state".to_owned());
    }
    match words.next().map(str::parse::<u32>) {
        Some(Ok(VERSION)) => {}
        Some(Ok(other)) => {
            return Err(format!("has version {other}; this program reads {VERSION}"));
        }
        _ => return Err("is corrupt: no version".to_owned()),
    }
    let expected = words
        .next()
        .and_then(|word| u64::from_str_radix(word, 16).ok());
    if expected != Some(checksum(body)) {
        return Err("is corrupt: its checksum is wrong".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| format!("is corrupt: {error}"))
}

/// XXH3-64, which the domain already has. Against accidents, not against malice.
fn checksum(bytes: &[u8]) -> u64 {
    KeyHash::of(bytes).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_coordinator_core::{CoordinatorConfig, CoordinatorCore};
    use evenkeel_types::{Instant, Now};

    fn state() -> SavedState {
        let config = CoordinatorConfig::new("test");
        let mut core = CoordinatorCore::new(config, 5, Instant(0)).unwrap();
        let off = serde_json::json!({"hot_keys": "off"});
        core.change_settings(Now::default(), off.as_object().unwrap())
            .unwrap();
        core.saved_state()
    }

    fn open_error(path: &Path) -> String {
        StateFile::open(path).unwrap_err().to_string()
    }

    #[test]
    fn what_was_saved_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let (file, none) = StateFile::open(&path).unwrap();
        assert_eq!(none, None);
        file.replace(&state()).unwrap();
        file.replace(&state()).unwrap();
        drop(file);
        let (_file, read) = StateFile::open(&path).unwrap();
        assert_eq!(read, Some(state()));
        assert!(!beside(&path, ".tmp").exists());
    }

    #[test]
    fn a_crash_while_writing_leaves_the_former_state() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let (file, _) = StateFile::open(&path).unwrap();
        file.replace(&state()).unwrap();
        drop(file);
        fs::write(beside(&path, ".tmp"), b"evenkeel-coord").unwrap();
        let (file, read) = StateFile::open(&path).unwrap();
        assert_eq!(read, Some(state()));
        file.replace(&state()).unwrap();
    }

    #[test]
    fn a_state_has_one_user() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let (first, _) = StateFile::open(&path).unwrap();
        assert!(open_error(&path).contains("in use by another coordinator"));
        drop(first);
        assert!(StateFile::open(&path).is_ok());
    }

    #[test]
    fn every_damaged_bit_and_every_cut_is_noticed() {
        let good = encode(&state()).unwrap();
        assert_eq!(decode(&good), Ok(state()));
        for len in 0..good.len() {
            assert!(decode(&good[..len]).is_err(), "cut at {len}");
        }
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            // The case of a hexadecimal digit and the kind of a space carry nothing.
            if let Ok(read) = decode(&bad) {
                assert_eq!(read, state(), "bit {bit}");
            }
        }
    }

    #[test]
    fn unusable_files_are_named_with_their_fault() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let body = "{\"cluster\":1}\n";
        let wrong_shape = format!("{MAGIC} 1 {:016x}\n{body}", checksum(body.as_bytes()));
        let cases = [
            ("", "not a coordinator's state"),
            ("{}", "not a coordinator's state"),
            ("\u{fffd}\0\n", "not a coordinator's state"),
            ("evenkeel-coordinator-state\n", "no version"),
            ("evenkeel-coordinator-state 2 0\n{}", "has version 2"),
            ("evenkeel-coordinator-state 1 0\n{}", "checksum"),
            (&wrong_shape, "corrupt"),
        ];
        for (content, expected) in cases {
            fs::write(&path, content).unwrap();
            let error = open_error(&path);
            assert!(error.contains(expected), "{error}");
            assert!(
                error.contains("state file") && !error.contains('\n'),
                "{error}"
            );
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(open_error(&path).contains("cannot"));
        assert!(open_error(&dir.path().join("no/such/dir/state")).contains("cannot"));
    }
}
