//! Programs that tests write.

use crate::run::await_end;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Only a hang reaches it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A script that can be started by its path.
///
/// Another process writes it: a child that another test starts at the same time would hold a file open that is written here, and what is
/// open for writing cannot be started.
pub(crate) fn script(folder: &Path, name: &str, body: &str) -> PathBuf {
    let path = folder.join(name);
    let mut writer = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell is there");
    let text = format!("#!/bin/sh\n{body}\n");
    let mut input = writer.stdin.take().expect("it was asked for");
    input.write_all(text.as_bytes()).expect("it is read");
    drop(input);
    assert!(writer.wait().expect("it ends").success());
    path
}

/// Waits for the end of a process that was killed.
pub(crate) fn ends(pid: i32) {
    let Ok(process) = pidfd_open(Pid::from_raw(pid).expect("a pid"), PidfdFlags::empty()) else {
        return;
    };
    assert!(await_end(process.as_fd(), DEADLINE).unwrap(), "{pid} runs");
}
