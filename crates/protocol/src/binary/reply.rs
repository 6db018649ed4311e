//! What servers answer, and the parser for it.

use super::{HEADER_LEN, Opcode, REPLY_MAGIC, ReplyHeader};
use crate::limits::{KEY_LEN_MAX, Limits, REPLY_LINE_LEN_MAX};

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// It was executed.
    Success,
    /// There is no such item.
    NotFound,
    /// There is such an item, or it has another CAS unique.
    Exists,
    /// The item is larger than `-I` allows.
    TooLarge,
    /// The request's parts do not have the lengths that they should have.
    InvalidArguments,
    /// `append` or `prepend` to nothing.
    NotStored,
    /// `increment` or `decrement` of something that is no number.
    NonNumeric,
    /// The cachelet that the vbucket names is not here. Said to agreed clients only.
    NotMyVbucket,
    /// The client must authenticate, or has failed to.
    AuthError,
    /// Another step of the authentication is expected.
    AuthContinue,
    /// There is no such command.
    UnknownCommand,
    /// No memory, even after eviction.
    OutOfMemory,
    /// There is such a command, and it cannot be executed here.
    NotSupported,
    /// It failed, and may have been executed or not.
    Internal,
    /// It cannot be executed at the moment.
    Busy,
}

/// Every status with its number and memcached's words for it.
const STATUSES: [(Status, u16, &[u8]); 15] = [
    (Status::Success, 0x00, b""),
    (Status::NotFound, 0x01, b"Not found"),
    (Status::Exists, 0x02, b"Data exists for key."),
    (Status::TooLarge, 0x03, b"Too large."),
    (Status::InvalidArguments, 0x04, b"Invalid arguments"),
    (Status::NotStored, 0x05, b"Not stored."),
    (
        Status::NonNumeric,
        0x06,
        b"Non-numeric server-side value for incr or decr",
    ),
    (Status::NotMyVbucket, 0x07, b"Not my vbucket"),
    (Status::AuthError, 0x20, b"Auth failure."),
    (Status::AuthContinue, 0x21, b""),
    (Status::UnknownCommand, 0x81, b"Unknown command"),
    (Status::OutOfMemory, 0x82, b"Out of memory"),
    (Status::NotSupported, 0x83, b"Not supported"),
    (Status::Internal, 0x84, b"Internal error"),
    (Status::Busy, 0x85, b"Busy"),
];

impl Status {
    /// The number in the header.
    #[inline]
    pub fn code(self) -> u16 {
        STATUSES[self as usize].1
    }

    /// What memcached says with it; empty for those that are no errors.
    pub fn message(self) -> &'static [u8] {
        STATUSES[self as usize].2
    }

    /// The status of a number, if it is one of these.
    pub fn from_code(code: u16) -> Option<Status> {
        STATUSES
            .iter()
            .find(|(_, number, _)| *number == code)
            .map(|(status, ..)| *status)
    }
}

/// One reply. The answer to `stat` is a row of them, the last one without key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// What was asked.
    pub opcode: Opcode,
    /// The status's number; see [`Status::from_code`].
    pub status: u16,
    /// As sent with the request.
    pub opaque: u32,
    /// CAS unique of the item, or 0.
    pub cas: u64,
    /// Client flags of an item, in four bytes.
    pub extras: &'a [u8],
    /// The key, where it was asked for, or the name of a statistic.
    pub key: &'a [u8],
    /// The value, or a message.
    pub value: &'a [u8],
}

/// What the bytes so far amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyOutcome<'a> {
    /// A whole reply.
    Reply {
        /// The reply.
        reply: Reply<'a>,
        /// How many bytes it took.
        consumed: usize,
    },
    /// More bytes are needed.
    Incomplete {
        /// The least length of the buffer at which asking again can help. More than the buffer has.
        total: usize,
    },
    /// The peer speaks something else, or announces more than an item may have.
    Malformed,
}

/// Reads the first reply of `buf`. Never panics, whatever the bytes.
pub fn parse_reply<'a>(buf: &'a [u8], limits: &Limits) -> ReplyOutcome<'a> {
    let Some(header) = ReplyHeader::parse(buf) else {
        return match buf.first() {
            None | Some(&REPLY_MAGIC) => ReplyOutcome::Incomplete { total: HEADER_LEN },
            Some(_) => ReplyOutcome::Malformed,
        };
    };
    let (extras_len, key_len) = (usize::from(header.extras_len), usize::from(header.key_len));
    let body_len = header.body_len as usize;
    // The largest item, or the longest statistic.
    let body_len_max = limits.item_size_max.max(REPLY_LINE_LEN_MAX);
    if extras_len + key_len > body_len || key_len > KEY_LEN_MAX || body_len > body_len_max {
        return ReplyOutcome::Malformed;
    }
    let total = HEADER_LEN + body_len;
    let Some(body) = buf.get(HEADER_LEN..total) else {
        return ReplyOutcome::Incomplete { total };
    };
    let (extras, rest) = body.split_at(extras_len);
    let (key, value) = rest.split_at(key_len);
    let reply = Reply {
        opcode: header.opcode,
        status: header.status,
        opaque: header.opaque,
        cas: header.cas,
        extras,
        key,
        value,
    };
    ReplyOutcome::Reply {
        reply,
        consumed: total,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_statuses_is_in_the_order_of_the_type() {
        for (index, (status, code, _)) in STATUSES.into_iter().enumerate() {
            assert_eq!(status as usize, index);
            assert_eq!(
                (status.code(), Status::from_code(code)),
                (code, Some(status))
            );
        }
        assert_eq!(Status::from_code(0xffff), None);
    }
}
