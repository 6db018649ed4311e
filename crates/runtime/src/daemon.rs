//! Going into the background, and the file that says under which process id.
//!
//! The foreground process waits until the background one serves, and ends with its outcome: a script
//! that runs `evenkeel server -d && …` goes on with a server that answers, or hears why there is none.
//!
//! ```text
//!  shell ── evenkeel -d ──fork──> session leader ──fork──> server
//!              │  waits on a pipe     ends at once           │ reads its files, listens
//!              └─ exit code  <── one byte, then the end ─────┘ then lets go of the terminal
//! ```

use crate::ExitCode;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The background half of a process.
#[derive(Debug)]
pub struct Daemon {
    to_foreground: io::PipeWriter,
}

/// Splits off the background half: a session of its own, never a terminal. Returns there alone; the
/// foreground ends here, with the code that the background tells it.
///
/// # Errors
/// When the kernel refuses, or the process has other threads: those would not exist in the copy, and
/// what they had locked would stay locked in it.
pub fn daemonize() -> io::Result<Daemon> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("other threads are running already"));
    }
    let (mut from_background, to_foreground) = io::pipe()?;
    if !fork()? {
        drop(to_foreground);
        let mut told = Vec::new();
        from_background.read_to_end(&mut told)?;
        // Without a word it died: it has said on standard error what of.
        let code = told.first().copied().unwrap_or(ExitCode::Failed as u8);
        std::process::exit(code.into());
    }
    rustix::process::setsid()?;
    // Anyone who leads a session may get a terminal by opening one; its child may not.
    if !fork()? {
        std::process::exit(0);
    }
    Ok(Daemon { to_foreground })
}

/// Copies the process. True in the copy.
fn fork() -> io::Result<bool> {
    // SAFETY: a copy has only the thread that called, so it must not need what other threads held.
    // `daemonize`, the only caller, has seen that this thread is the only one.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(true),
        _ => Ok(false),
    }
}

impl Daemon {
    /// The server serves: lets go of the terminal, of its directory unless `keep_directory`, and of
    /// standard output and error unless `keep_output`; then the foreground ends well.
    ///
    /// # Errors
    /// When the kernel refuses; the foreground then hears nothing good.
    pub fn ready(mut self, keep_output: bool, keep_directory: bool) -> io::Result<()> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        if !keep_output {
            rustix::stdio::dup2_stdout(&null)?;
            rustix::stdio::dup2_stderr(&null)?;
        }
        if !keep_directory {
            std::env::set_current_dir("/")?;
        }
        self.to_foreground.write_all(&[ExitCode::Fine as u8])
    }

    /// The server cannot start. The foreground ends with `code`, once this process has ended and so
    /// has said everything that it has to say.
    pub fn failed(mut self, code: ExitCode) {
        // If the foreground is gone there is nobody to tell.
        let _ = self.to_foreground.write_all(&[code as u8]);
        std::mem::forget(self.to_foreground);
    }
}

/// The file that holds the process id; removed when this goes.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file, whole or not at all. Gives the id that the file held before, if a process
    /// runs under it: it may be another server that lost its file to this one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(path: &Path) -> io::Result<(PidFile, Option<u32>)> {
        let before = fs::read_to_string(path)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .filter(|pid| is_running(*pid));
        write_whole(path, &format!("{}\n", std::process::id()))?;
        Ok((PidFile(path.to_owned()), before))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // A file that somebody else has written meanwhile is theirs.
        let mine = fs::read_to_string(&self.0)
            .is_ok_and(|text| text.trim() == std::process::id().to_string());
        if mine {
            // Gone already, or not to be removed by this user: either way nothing is left to do.
            let _ = fs::remove_file(&self.0);
        }
    }
}

/// Writes a file beside its place and renames it there, so that a reader sees all of it or nothing.
///
/// # Errors
/// When it cannot be written or renamed.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lck");
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}

fn is_running(pid: u32) -> bool {
    i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .is_some_and(|pid| {
            // Somebody else's process may not be signalled, but it is there.
            !matches!(rustix::process::test_kill_process(pid), Err(Errno::SRCH))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_stays_in_the_foreground() {
        // The harness runs each test in a thread of its own.
        let error = daemonize().expect_err("threads run");
        assert!(error.to_string().contains("threads"), "{error}");
    }

    #[test]
    fn the_pid_file_names_this_process_and_goes_with_it() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("server.pid");
        fs::write(&path, "1\n").expect("written");
        let (file, before) = PidFile::write(&path).expect("written");
        assert_eq!(
            before,
            Some(1),
            "process 1 runs wherever there are processes"
        );
        let (again, before) = PidFile::write(&path).expect("written");
        assert_eq!(before, Some(std::process::id()));
        drop(file);
        assert!(!path.exists());
        fs::write(&path, "somebody else\n").expect("written");
        drop(again);
        assert!(path.exists(), "the file of another is left alone");
        fs::write(&path, format!("{}\n", u32::MAX)).expect("written");
        assert_eq!(PidFile::write(&path).expect("written").1, None);
    }
}
