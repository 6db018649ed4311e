//! A program that is run to its end, within a time and a length.
//!
//! Its two streams and its end are waited for together, so that neither a full pipe nor a child of its own that keeps a stream open holds
//! anything up. It has a process group of its own, which is killed when it does not keep to its limits.

use crate::Failed;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes that a program may say on a stream: more than a thousand servers with long names.
pub const OUTPUT_LEN_MAX: usize = 1 << 18;

/// Bytes of what it says on standard error that a failure repeats.
pub(crate) const TOLD_LEN_MAX: usize = 1_000;

/// Bytes that are read at once.
const READ_LEN: usize = 1 << 14;

/// Runs a program without a shell. Gives what it says on standard output.
///
/// # Errors
/// It cannot be started, takes longer than `within`, says more than [`OUTPUT_LEN_MAX`] bytes, or does not end well.
pub(crate) fn run(program: &Path, arguments: &[&str], within: Duration) -> Result<Vec<u8>, Failed> {
    let failed = |action| {
        move |source| Failed::Io {
            action,
            path: program.to_owned(),
            source,
        }
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = command.spawn().map_err(failed("start"))?;
    let heard = handle(&mut child, Instant::now() + within).map_err(failed("hear"));
    let [out, err] = match heard {
        Ok(Heard::All(heard)) => heard,
        unheard => {
            kill(&mut child);
            let program = program.to_owned();
            return Err(match unheard {
                Ok(Heard::TooLong) => Failed::TooLong { program },
                Ok(_) => Failed::TooSlow { program, within },
                Err(failed) => failed,
            });
        }
    };
    let status = child.wait().map_err(failed("wait for"))?;
    if !status.success() {
        return Err(Failed::Ended {
            program: program.to_owned(),
            status,
            told: one_line(&err),
        });
    }
    Ok(out)
}

/// The beginning of what was said, in one line.
pub(crate) fn one_line(said: &[u8]) -> String {
    let shown = &said[..said.len().min(TOLD_LEN_MAX)];
    let text = String::from_utf8_lossy(shown);
    text.trim().replace('\n', "; ")
}

enum Heard {
    /// It has ended, and has said this on its two streams.
    All([Vec<u8>; 2]),
    TooLong,
    TooSlow,
}

/// A stream, until it has ended.
struct Stream<R>(Option<R>, Vec<u8>);

impl<R: Read + AsFd> Stream<R> {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is there. Not to be called before something is.
    fn take_in(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.0 else {
            return Ok(());
        };
        let mut bytes = [0; READ_LEN];
        match stream.read(&mut bytes)? {
            0 => self.0 = None,
            len => self.1.extend_from_slice(&bytes[..len]),
        }
        Ok(())
    }
}

/// Hears a program until it has ended.
fn handle(child: &mut Child, end: Instant) -> io::Result<Heard> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let mut out = Stream(child.stdout.take(), Vec::new());
    let mut err = Stream(child.stderr.take(), Vec::new());
    let mut has_ended = false;
    loop {
        let left = match has_ended {
            // What it has said before its end is there.
            true => Duration::ZERO,
            false => end.saturating_duration_since(Instant::now()),
        };
        let watched = [Some(process.as_fd()), out.fd(), err.fd()];
        let [ends, out_is_there, err_is_there] = await_any(watched, left)?;
        if out_is_there {
            out.take_in()?;
        }
        if err_is_there {
            err.take_in()?;
        }
        if out.1.len().max(err.1.len()) > OUTPUT_LEN_MAX {
            return Ok(Heard::TooLong);
        }
        if has_ended && !out_is_there && !err_is_there {
            return Ok(Heard::All([out.1, err.1]));
        }
        has_ended |= ends;
        if !has_ended && left.is_zero() {
            return Ok(Heard::TooSlow);
        }
    }
}

/// Waits until something is to be read from one of them, or it has ended. Says of which.
fn await_any<const N: usize>(
    watched: [Option<BorrowedFd<'_>>; N],
    within: Duration,
) -> io::Result<[bool; N]> {
    let mut present: Vec<PollFd<'_>> = watched
        .iter()
        .flatten()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    // A time that does not fit is as good as none.
    let timeout = Timespec::try_from(within).ok();
    match poll(&mut present, timeout.as_ref()) {
        Err(rustix::io::Errno::INTR) => return Ok([false; N]),
        polled => polled?,
    };
    let mut polled = present.iter().map(|fd| !fd.revents().is_empty());
    Ok(watched.map(|fd| fd.is_some() && polled.next() == Some(true)))
}

/// Waits until a process has ended. True if it has.
pub(crate) fn await_end(process: BorrowedFd<'_>, within: Duration) -> io::Result<bool> {
    Ok(await_any([Some(process)], within)?[0])
}

/// Kills a program with all that it has started and that has stayed in its group.
fn kill(child: &mut Child) {
    // Both fail only when it has ended already.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}
