//! Servers that are small enough for a dozen of them on two cores: what they carry, and what latency is asked of
//! them.

/// Keys a second that one serves. Twelve of them leave two cores room for generator and proxies.
pub(crate) const CAPACITY: u64 = 1_000;

/// What a throughput must keep to where one number is asked for: this many times the time for one key.
pub(crate) const LIMIT_SERVICES: f64 = 15.0;
