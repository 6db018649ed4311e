//! A request in flight.

use evenkeel_types::CacheletId;
use evenkeel_workload::{KeyList, Operation};

/// A request from its draw to its last answer. Reused, so that its buffers stay.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) operation: Operation,
    pub(crate) keys: KeyList,
    /// Size of the value to write, where the source tells it.
    pub(crate) value_len: Option<u32>,
    /// Time to live of the value to write in seconds, where the source tells it.
    pub(crate) ttl_s: Option<u32>,
    /// When it was meant to be sent; latency counts from here.
    pub(crate) intended_ns: u64,
    /// When it was encoded.
    pub(crate) sent_ns: u64,
    /// The cachelet of the key, where the load knows the owners of keys.
    pub(crate) cachelet: Option<CacheletId>,
    /// A set after a miss.
    pub(super) refill: bool,
    /// Makes a counter that was missed.
    pub(crate) begins_counter: bool,
    /// The item was not there, or was.
    pub(super) not_done: bool,
    /// Keys whose value has come. As long as `keys` once an answer has come.
    pub(super) found: Vec<bool>,
    /// The next key to be answered.
    pub(super) next: usize,
    pub(super) failed: bool,
}
