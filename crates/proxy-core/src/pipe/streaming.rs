//! A value that is passed on as it comes.

use crate::ids::ClientId;

/// A value of which some has been passed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streaming {
    pub(crate) client: ClientId,
    /// The client's front slot.
    pub(crate) slot: u64,
    /// Bytes to come, the newline behind the value included.
    pub(crate) left: usize,
    /// Bytes of the whole answer.
    pub(crate) len: usize,
}
