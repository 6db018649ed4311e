//! How the coordinator's process ends.

/// Exit codes of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Stopped as told.
    Fine = 0,
    /// Failed while running.
    Failed = 1,
    /// Bad usage or configuration: starting again without a change is no use.
    Usage = 2,
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        std::process::ExitCode::from(code as u8)
    }
}

/// Why the coordinator did not start or did not go on. Its text is one line.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The user can help it: a flag, an address in use, a state file.
    #[error("{0}")]
    Usage(String),
    /// The environment failed us.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
}

impl RunError {
    /// The exit code that says so.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            RunError::Usage(_) => ExitCode::Usage,
            RunError::Failed(_) => ExitCode::Failed,
        }
    }
}
