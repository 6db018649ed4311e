//! Times that do not end while a busy machine does what it should, and that nobody waits for otherwise.

use std::time::Duration;

/// How long anything may take before it hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Flags of a proxy whose servers are well.
pub const FLAGS: [&str; 4] = evenkeel_testkit::evenkeel::LONG_TIMEOUTS;

/// The same as lines of a pool.
pub const LINES: &str = "connect_timeout = \"30s\"\nrequest_timeout = \"50s\"\n";
