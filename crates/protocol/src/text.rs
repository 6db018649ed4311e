//! The protocol's fixed words, as they stand on the wire. Clients match on them byte by byte.

/// An item was stored.
pub const STORED: &[u8] = b"STORED\r\n";
/// The condition of `add`, `replace`, `append` or `prepend` did not hold.
pub const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
/// The item changed since the CAS unique was fetched.
pub const EXISTS: &[u8] = b"EXISTS\r\n";
/// There is no such item.
pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
/// An item was deleted.
pub const DELETED: &[u8] = b"DELETED\r\n";
/// An item got a new exptime.
pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
/// An administrative command was executed.
pub const OK: &[u8] = b"OK\r\n";
/// The last line of an answer of several lines.
pub const END: &[u8] = b"END\r\n";
/// Answer to `stats reset`.
pub const RESET: &[u8] = b"RESET\r\n";
/// End of a line.
pub const CRLF: &[u8] = b"\r\n";
/// Answer to `mn`.
pub const META_NOOP: &[u8] = b"MN\r\n";
/// A miss of `mg` or `me`, without return flags.
pub const META_MISS: &[u8] = b"EN\r\n";

/// The command is unknown or has the wrong number of words.
pub const ERROR: &[u8] = b"ERROR\r\n";
/// The command is known, its words are not what they should be.
pub const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
/// The command is known but too short for its subcommand.
pub const BAD_LINE: &[u8] = b"CLIENT_ERROR bad command line\r\n";
/// The data block does not end where the command said.
pub const BAD_DATA: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
/// `delete` with words that mean nothing.
pub const BAD_DELETE: &[u8] =
    b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
/// `incr` or `decr` by something that is no number.
pub const BAD_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta argument\r\n";
/// `incr` or `decr` of a value that is no number.
pub const NON_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
/// An exptime that is no number.
pub const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";
/// A meta flag that does not exist.
pub const INVALID_FLAG: &[u8] = b"CLIENT_ERROR invalid flag\r\n";
/// A meta flag that stands twice, or is no letter at all.
pub const DUPLICATE_FLAG: &[u8] = b"CLIENT_ERROR duplicate flag\r\n";
/// What `md` and `ma` say for any fault in their flags.
pub const INVALID_OR_DUPLICATE_FLAG: &[u8] = b"CLIENT_ERROR invalid or duplicate flag\r\n";
/// More meta flags than [`FLAG_COUNT_MAX`](crate::FLAG_COUNT_MAX).
pub const FLAGS_TOO_LONG: &[u8] = b"CLIENT_ERROR options flags too long\r\n";
/// The same in the words of `mg`.
pub const FLAGS_TOO_LONG_MG: &[u8] = b"CLIENT_ERROR options flags are too long\r\n";
/// A meta flag whose token is no number.
pub const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format\r\n";
/// Flag `J` without a number.
pub const BAD_INITIAL: &[u8] = b"CLIENT_ERROR invalid numeric initial value\r\n";
/// Flag `D` without a number.
pub const BAD_META_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta value\r\n";
/// Flag `M` with a token that is not one byte.
pub const BAD_MODE_LEN: &[u8] = b"CLIENT_ERROR incorrect length for M token\r\n";
/// `ms` with an unknown mode.
pub const BAD_MODE_MS: &[u8] = b"CLIENT_ERROR invalid mode for ms M token\r\n";
/// `ma` with an unknown mode.
pub const BAD_MODE_MA: &[u8] = b"CLIENT_ERROR invalid mode for ma M token\r\n";
/// Flag `b` with a key that is not base64.
pub const BAD_KEY: &[u8] = b"CLIENT_ERROR error decoding key\r\n";
/// An opaque over [`OPAQUE_LEN_MAX`](crate::OPAQUE_LEN_MAX).
pub const OPAQUE_TOO_LONG: &[u8] = b"CLIENT_ERROR opaque token too long\r\n";
/// `flush_all` where it is switched off.
pub const FLUSH_NOT_ALLOWED: &[u8] = b"CLIENT_ERROR flush_all not allowed\r\n";
/// A value over the item size limit.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
/// No memory, even after eviction.
pub const OUT_OF_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// No memory for the rest of a command; memcached closes the connection without a word.
pub const OUT_OF_MEMORY_READING: &[u8] = b"SERVER_ERROR out of memory reading request\r\n";
/// No memory for an answer, in memcached's words.
pub const OUT_OF_MEMORY_WRITING: &[u8] = b"SERVER_ERROR out of memory writing get response\r\n";
/// `shutdown` where it is switched off.
pub const SHUTDOWN_NOT_ENABLED: &[u8] = b"ERROR: shutdown not enabled\r\n";
/// `shutdown` with an unknown mode.
pub const BAD_SHUTDOWN_MODE: &[u8] = b"CLIENT_ERROR invalid shutdown mode\r\n";
/// `cache_memlimit` below 8 megabytes.
pub const MEMLIMIT_TOO_SMALL: &[u8] = b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
/// `cache_memlimit` in bytes, it seems.
pub const MEMLIMIT_NOT_MEGABYTES: &[u8] =
    b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n";
/// `cache_memlimit` that cannot be executed.
pub const MEMLIMIT_ADJUST_FAILED: &[u8] =
    b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n";
/// `refresh_certs` without TLS.
pub const TLS_NOT_ENABLED: &[u8] = b"Error TLS not enabled\r\n";
/// `watch` where it is switched off.
pub const WATCH_NOT_ALLOWED: &[u8] = b"CLIENT_ERROR watch commands not allowed\r\n";
/// Anything but credentials from a client that must authenticate first.
pub const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";
/// Credentials that are not those of anybody.
pub const AUTH_FAILURE: &[u8] = b"CLIENT_ERROR authentication failure\r\n";
/// Credentials that are not a name and a password.
pub const BAD_AUTH_TOKEN: &[u8] = b"CLIENT_ERROR bad authentication token format\r\n";
/// Credentials that do not end where the command said.
pub const BAD_TERMINATION: &[u8] = b"CLIENT_ERROR bad command line termination\r\n";
/// A dump where it is switched off: everything but the value.
pub const METADUMP_NOT_ALLOWED: &[u8] = b"ERROR metadump not allowed\r\n";
/// A dump where it is switched off: keys.
pub const MGDUMP_NOT_ALLOWED: &[u8] = b"ERROR key dump not allowed\r\n";
/// `stats cachedump` where dumps are switched off.
pub const CACHEDUMP_NOT_ALLOWED: &[u8] = b"CLIENT_ERROR stats cachedump not allowed\r\n";
/// `stats cachedump` of a class that cannot exist.
pub const BAD_SLAB_ID: &[u8] = b"CLIENT_ERROR Illegal slab id\r\n";
/// A class number that no class can have.
pub const BAD_CLASS: &[u8] = b"BADCLASS invalid class id\r\n";
/// `slabs reassign` with such a number.
pub const BAD_SLAB_CLASS: &[u8] = b"BADCLASS invalid src or dst class id\r\n";
/// `slabs reassign` from a class to itself.
pub const SAME_CLASS: &[u8] = b"SAME src and dst class are identical\r\n";
/// `slabs reassign` where there is nothing to move.
pub const NO_SPARE_PAGES: &[u8] = b"NOSPARE source class has no spare pages\r\n";
/// `lru_crawler sleep` beyond a second.
pub const CRAWLER_SLEEP_TOO_LONG: &[u8] = b"CLIENT_ERROR sleep must be one second or less\r\n";
/// `lru tune` that leaves too little to cold items.
pub const LRU_TOO_HOT: &[u8] = b"ERROR hot and warm pcts must not exceed 80\r\n";
/// `lru tune` with a factor that is not positive.
pub const LRU_BAD_FACTOR: &[u8] = b"ERROR hot/warm age factors must be greater than 0\r\n";
/// `watch` when too many watch already.
pub const TOO_MANY_WATCHERS: &[u8] = b"WATCHER_TOO_MANY log watcher limit reached\r\n";
/// `stats detail` without a word that is known.
pub const DETAIL_USAGE: &[u8] = b"CLIENT_ERROR usage: stats detail on|off|dump\r\n";

/// The target of a migration cannot begin yet.
pub const MIGRATE_LATER: &[u8] = b"LATER\r\n";
/// The target of a migration does not take part in it.
pub const MIGRATE_NO: &[u8] = b"NO\r\n";
