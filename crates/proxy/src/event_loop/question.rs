//! A question that all workers count for.

use evenkeel_proxy_core::{ProcessStats, StatsTicket};

/// A `stats` that waits for the counts of the other workers.
#[derive(Debug)]
pub(super) struct StatsQuestion {
    pub ticket: StatsTicket,
    pub missing: usize,
    pub process: ProcessStats,
}
