//! `--io`: how the workers' sockets are served.

use crate::transport::Transport;
use clap::{Args as ClapArgs, ValueEnum};
use evenkeel_runtime::UsageError;
use evenkeel_runtime::uring::{Refused, Ring, RingConfig};
use tracing::warn;

/// The flag.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub struct IoArgs {
    /// How sockets are served: epoll, uring (io_uring; needs Linux 6.0 or later), or auto (io_uring
    /// where it is available)
    #[arg(long, value_enum, default_value_t = IoMode::Epoll, env = "EVENKEEL_IO")]
    pub io: IoMode,
}

/// Values of the flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IoMode {
    /// Readiness.
    Epoll,
    /// Completions, or no start.
    Uring,
    /// Completions where they are available, else readiness.
    Auto,
}

/// One transport for each worker.
///
/// # Errors
/// When io_uring is demanded and the machine refuses it.
pub fn transports(mode: IoMode, workers: u16) -> Result<Vec<Transport>, UsageError> {
    let epoll = || (0..workers).map(|_| Transport::Epoll).collect();
    let rings = || -> Result<Vec<Transport>, Refused> {
        (0..workers)
            .map(|_| Ring::new(RingConfig::default()))
            .map(|ring| ring.map(|ring| Transport::Uring(Box::new(ring))))
            .collect()
    };
    match mode {
        IoMode::Epoll => Ok(epoll()),
        IoMode::Uring => rings().map_err(|refused| UsageError(format!("--io uring: {refused}"))),
        IoMode::Auto => Ok(rings().unwrap_or_else(|refused| {
            warn!("{refused}; sockets are served by epoll");
            epoll()
        })),
    }
}
