//! What the command line and configuration files allow alike.

use evenkeel_runtime::{parse_duration, parse_size};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Most proxy workers of one process.
pub const THREADS_MAX: u16 = 256;

/// Most connections of applications: what a machine has ports and memory for many times over.
pub const CONN_LIMIT_MAX: usize = 10_000_000;

/// Smallest and largest item, in bytes (memcached's limits of `-I`).
pub const ITEM_SIZE_RANGE: RangeInclusive<usize> = 1024..=1024 * 1024 * 1024;

/// Shortest and longest timeout: below, a pause of the scheduler is a failure; above, an application
/// waits longer than any has patience.
pub const TIMEOUT_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(60);

/// Reads the size of the largest item.
pub fn item_size(text: &str) -> Result<usize, String> {
    let size = parse_size(text)?;
    if ITEM_SIZE_RANGE.contains(&size) {
        Ok(size)
    } else {
        Err("use 1k to 1g".into())
    }
}

/// Reads a timeout.
pub fn timeout(text: &str) -> Result<Duration, String> {
    let timeout = parse_duration(text)?;
    if TIMEOUT_RANGE.contains(&timeout) {
        Ok(timeout)
    } else {
        Err("use 1ms to 60s".into())
    }
}
