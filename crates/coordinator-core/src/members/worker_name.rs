//! How people name a worker.

use core::fmt;

use serde::{Deserialize, Serialize};

/// A worker as people name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerName {
    /// The name of its server.
    pub server: String,
    /// Which of the server's workers.
    pub worker: u16,
}

impl fmt::Display for WorkerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.worker)
    }
}
