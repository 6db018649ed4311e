//! Exit codes and the one line that explains a failed start.

use std::fmt;
use std::io::{self, ErrorKind, Write};

/// How the program ends. The numbers are a contract with scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Everything went well.
    Fine = 0,
    /// The work was attempted and failed.
    Failed = 1,
    /// The command line, the configuration or an input file is wrong; nothing was attempted.
    Usage = 2,
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        std::process::ExitCode::from(code as u8)
    }
}

/// An error that the person who started the program can mend: exit code 2.
#[derive(Debug)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

impl ExitCode {
    /// The code that belongs to an error. `causes` is the error and its chain of causes.
    pub fn of<'a>(
        mut causes: impl Iterator<Item = &'a (dyn std::error::Error + 'static)>,
    ) -> ExitCode {
        match causes.any(|cause| cause.is::<UsageError>()) {
            true => ExitCode::Usage,
            false => ExitCode::Failed,
        }
    }
}

/// Prints a text and a line's end on standard output. Nobody reads any more, as behind `| head`? Then that was enough.
///
/// # Errors
/// It cannot be written.
pub fn print_line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// Prints an error as one line on standard error and gives the exit code that belongs to it.
///
/// `causes` is the error and its chain of causes, outermost first.
pub fn report<'a>(
    causes: impl Iterator<Item = &'a (dyn std::error::Error + 'static)> + Clone,
) -> ExitCode {
    let mut line = String::from("evenkeel:");
    for (i, cause) in causes.clone().enumerate() {
        line.push_str(if i == 0 { " " } else { ": " });
        line.push_str(&cause.to_string());
    }
    eprintln!("{line}");
    ExitCode::of(causes)
}
