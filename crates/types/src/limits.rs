//! Limits that the memcached protocol fixes. Limits of one part stand in that part.

/// Longest key, in bytes (memcached `KEY_MAX_LENGTH`).
pub const KEY_LEN_MAX: usize = 250;

/// Largest item unless `-I` says otherwise, in bytes (memcached's default).
pub const ITEM_SIZE_DEFAULT: usize = 1 << 20;

/// An exptime above this many seconds is an absolute Unix time (memcached `REALTIME_MAXDELTA`).
pub const EXPTIME_RELATIVE_MAX_S: i64 = 60 * 60 * 24 * 30;

/// Most replicas of a key besides its home copy: γ travels in one byte (SPORE, section 3.7).
pub const GAMMA_MAX: u8 = 255;
