//! How the coordinator's process ends.

use evenkeel_runtime::ExitCode;

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
