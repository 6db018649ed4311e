//! A value that is passed on as it comes.

use crate::ids::ClientId;
use evenkeel_protocol::text;

/// A value of which some has been passed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streaming {
    pub client: ClientId,
    /// The client's front slot.
    pub slot: u64,
    /// Bytes to come, the newline behind the value included.
    left: usize,
    /// Bytes of the whole answer.
    pub len: usize,
}

impl Streaming {
    /// The head of a value was passed on, and this many bytes of data are to come.
    pub fn new(client: ClientId, slot: u64, head: usize, data: usize) -> Self {
        let left = data + text::CRLF.len();
        Streaming {
            client,
            slot,
            left,
            len: head + left,
        }
    }

    /// How many bytes of what comes next are of the value; `None` if it does not end with a newline.
    pub fn advance(&mut self, input: &[u8]) -> Option<usize> {
        let count = self.left.min(input.len());
        let before_end = self.left.saturating_sub(text::CRLF.len());
        self.left -= count;
        let end = &input[before_end.min(count)..count];
        let at = text::CRLF.len() - (self.left + end.len()).min(text::CRLF.len());
        text::CRLF[at..].starts_with(end).then_some(count)
    }

    /// Whether all of it has come.
    pub fn is_whole(&self) -> bool {
        self.left == 0
    }
}
