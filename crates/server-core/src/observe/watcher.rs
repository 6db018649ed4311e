//! A connection that watches, and why connections end.

use crate::session::ConnectionId;
use evenkeel_protocol::admin::Streams;

/// Most watchers of a process (memcached's `WATCHER_LIMIT`).
pub const WATCHERS_MAX: u16 = 20;

/// A connection that watches.
#[derive(Debug)]
pub struct Watcher {
    pub(crate) connection: ConnectionId,
    pub(crate) streams: Streams,
    /// Lines that it did not get since it last got one.
    pub(crate) skipped: u64,
}

/// Why a connection ends, in memcached's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client left, or asked to be left.
    Normal,
    /// It was idle for too long.
    IdleTimeout,
    /// It made no progress, or could not go on.
    Error,
}

impl CloseReason {
    pub(crate) fn word(self) -> &'static str {
        match self {
            CloseReason::Normal => "normal",
            CloseReason::IdleTimeout => "idle_timeout",
            CloseReason::Error => "error",
        }
    }
}
