//! What a proxy counts and measures, and how it is told.

pub(crate) mod counters;
pub(crate) mod distance;
pub(crate) mod hot_keys;
pub(crate) mod latency;
pub(crate) mod line;
pub(crate) mod listing;
pub(crate) mod locality;
pub(crate) mod metrics;
#[cfg(test)]
mod page;
pub(crate) mod per_route;
pub(crate) mod pool_metrics;
pub(crate) mod process;
pub(crate) mod route_stats;
pub(crate) mod stopwatch;
