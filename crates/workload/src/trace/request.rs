//! A request of a trace, and what can be wrong where one should stand.

use crate::Operation;
use core::fmt;
use std::io;

/// One request of a trace. Owned by the caller and filled anew each time, so that a replay allocates
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceRequest {
    /// What it does. Traces that tell only keys are all reads.
    pub operation: Operation,
    /// The key, at most [`TRACE_KEY_LEN_MAX`](super::TRACE_KEY_LEN_MAX) bytes, fit for memcached.
    pub key: Vec<u8>,
    /// Size of the value in bytes, where the trace tells it.
    pub value_len: Option<u32>,
    /// Time to live in seconds, where the trace tells it; at most [`crate::TTL_S_MAX`].
    pub ttl_s: Option<u32>,
    /// When it came, in nanoseconds from the trace's own beginning of time, where the trace tells it.
    pub time_ns: Option<u64>,
}

impl TraceRequest {
    pub(super) fn clear(&mut self) {
        self.operation = Operation::Get;
        self.key.clear();
        self.value_len = None;
        self.ttl_s = None;
        self.time_ns = None;
    }
}

/// What is wrong at a place.
#[derive(Debug)]
pub(crate) struct Fault(String);

impl Fault {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Fault(reason.into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault(error.to_string())
    }
}
