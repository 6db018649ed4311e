//! What can be chosen of phase 2.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::solver::WorkLimit;

/// Settings of phase 2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalConfig {
    /// With more than this part of its workers overloaded a server cannot help itself (the paper's
    /// `SERVER_LOAD_thresh`).
    pub server_overloaded_ratio: f64,
    /// A plan has to lower the deviation by this much, in parts of the mean load. Below it a move costs more than it
    /// brings, and loads waver by as much from one second to the next.
    pub gain_ratio_min: f64,
    /// Moves of one plan. Each makes clients learn a new address.
    pub moves_max: usize,
    /// Rounds of program 2 for one plan, each with two sources and two destinations.
    pub iterations_max: usize,
    /// A cachelet that changed hands stays for this long at least: loads are averages, and before that nobody knows
    /// what it brought.
    pub stay_min: Duration,
    /// A cachelet is lent for this long; afterwards it goes home as soon as its home has room.
    pub lease: Duration,
    /// Work for each integer program.
    pub work: WorkLimit,
}

impl Default for LocalConfig {
    fn default() -> Self {
        LocalConfig {
            server_overloaded_ratio: 0.75,
            gain_ratio_min: 0.05,
            moves_max: 32,
            iterations_max: 8,
            stay_min: Duration::from_secs(2),
            lease: Duration::from_secs(10),
            work: WorkLimit::default(),
        }
    }
}
