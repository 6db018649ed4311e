//! The few things that a get or a set can hear, whatever the protocol.

/// One answer of the server.
#[derive(Debug)]
pub(crate) enum Answer<'a> {
    /// A value, with its key in the classic dialect.
    Value {
        key: Option<&'a [u8]>,
        value: &'a [u8],
    },
    /// The end of a classic get.
    End,
    /// A key that is not there, where each key has an answer of its own.
    Miss,
    /// It was done.
    Done,
    /// It was not done, without an error: the item is there, or is not.
    NotDone,
    /// An error line.
    Error(&'a [u8]),
}

/// What the bytes so far amount to.
pub(crate) enum Parsed<'a> {
    Answer { answer: Answer<'a>, consumed: usize },
    Incomplete { total: usize },
    Malformed,
}
