//! Waiting for memcached's port file.
//!
//! memcached prints no ready line. Asked to listen on port -1 it takes a free port and, when
//! `MEMCACHED_PORT_FILENAME` is set, writes the port to a temporary file that it then renames; by
//! then it listens. The rename is an inotify event, so there is nothing to poll.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

use crate::Process;

/// One event with the longest file name fits many times.
const EVENT_BUFFER_LEN: usize = 4096;

/// A file that is going to be renamed into place.
pub(crate) struct PortFile {
    path: PathBuf,
    events: OwnedFd,
}

impl PortFile {
    /// Starts to watch for `name` in `dir`, before the program that writes it is started.
    pub(crate) fn watch(dir: &Path, name: &str) -> PortFile {
        let events = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)
            .expect("the kernel has inotify");
        inotify::add_watch(&events, dir, inotify::WatchFlags::MOVED_TO)
            .expect("a folder of ours can be watched");
        PortFile {
            path: dir.join(name),
            events,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The TCP port in the file, or `None` when the process ended without it, or the file has not
    /// appeared within `deadline`.
    pub(crate) fn wait(&self, process: &Process, deadline: Duration) -> Option<u16> {
        let ended = process.end_event();
        let end = Instant::now() + deadline;
        let name = self.path.file_name().map(OsStr::as_bytes);
        let mut buffer = [MaybeUninit::uninit(); EVENT_BUFFER_LEN];
        let mut reader = inotify::Reader::new(&self.events, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) if event.file_name().map(|file| file.to_bytes()) == name => break,
                Ok(_) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let left = end.saturating_duration_since(Instant::now());
                    let timeout = Timespec::try_from(left).expect("deadlines are seconds long");
                    let mut fds = [
                        PollFd::new(&self.events, PollFlags::IN),
                        PollFd::new(&ended, PollFlags::IN),
                    ];
                    match poll(&mut fds, Some(&timeout)) {
                        Ok(0) => return None,
                        Ok(_) if fds[0].revents().is_empty() => return None,
                        Ok(_) | Err(rustix::io::Errno::INTR) => {}
                        Err(error) => panic!("failed to wait for the port file: {error}"),
                    }
                }
                Err(error) => panic!("failed to read inotify events: {error}"),
            }
        }
        parse_port(&std::fs::read_to_string(&self.path).expect("the file was just renamed here"))
    }
}

/// The port of the first `TCP INET: 12345` line.
fn parse_port(text: &str) -> Option<u16> {
    text.lines()
        .find_map(|line| line.strip_prefix("TCP INET"))
        .and_then(|rest| rest.rsplit(' ').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::READY_DEADLINE;

    #[test]
    fn the_port_is_read_from_the_renamed_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = PortFile::watch(dir.path(), "port");
        let (temporary, port) = (dir.path().join("port.lck"), dir.path().join("port"));
        let script = format!(
            "echo 'TCP INET: 4711' > {0}; mv {0} {1}; exec cat /dev/zero",
            temporary.display(),
            port.display()
        );
        let process = Process::command("sh", "sh").args(["-c", &script]).spawn();
        assert_eq!(file.wait(&process, READY_DEADLINE), Some(4711));
    }

    #[test]
    fn a_process_that_ends_without_the_file_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let file = PortFile::watch(dir.path(), "port");
        let process = Process::command("true", "true").spawn();
        let begin = Instant::now();
        assert_eq!(file.wait(&process, Duration::from_secs(120)), None);
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
}
