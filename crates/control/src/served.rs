//! What applications get of a proxy.

use crate::times::Counted;
use serde::{Deserialize, Serialize};

/// What a proxy has answered since the heartbeat before: requests to servers of all its pools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// How long they took, from when they were asked to when they were answered whole, waiting in the proxy included.
    #[serde(default)]
    pub times: Counted,
    /// Requests that were refused because a server has too much to do.
    #[serde(default)]
    pub shed: u64,
}
