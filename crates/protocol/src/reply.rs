//! The reply parser: what servers answer, for the proxy, the load generator and other servers.

use evenkeel_types::Version;
use memchr::memchr;

use crate::extension::{HelloReply, Moved};
use crate::limits::{KEY_LEN_MAX, Limits, REPLY_LINE_LEN_MAX};
use crate::meta::MetaFlags;
use crate::number;
use crate::scan::scan_value;
use crate::text;
use crate::value::Value;
use crate::words::{Split, Words};

/// What the bytes so far amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyOutcome<'a> {
    /// A whole reply, or one line of a reply of several.
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
    /// The peer speaks something else, or has lost its place. Where the next reply starts is not
    /// known: the connection is of no further use.
    Malformed,
}

/// One reply.
///
/// The answer to a `get` is [`Value`](Reply::Value)s and then [`End`](Reply::End), that to `stats`
/// is [`Stat`](Reply::Stat)s and then `End`; each is a reply of its own here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// `VALUE`: a hit of a classic `get`.
    Value(Value<'a>),
    /// `END`: no more values or statistics.
    End,
    /// `STORED`
    Stored,
    /// `NOT_STORED`
    NotStored,
    /// `EXISTS`
    Exists,
    /// `NOT_FOUND`
    NotFound,
    /// `DELETED`
    Deleted,
    /// `TOUCHED`
    Touched,
    /// `OK`
    Ok,
    /// `RESET`
    Reset,
    /// The new number after `incr` or `decr`.
    Number(u64),
    /// `VERSION`, with what follows.
    Version(&'a [u8]),
    /// `STAT`: one statistic.
    Stat {
        /// Its name.
        name: &'a [u8],
        /// Its value; may be empty and may hold spaces.
        value: &'a [u8],
    },
    /// `HD`, `VA`, `EN`, `NF`, `NS` or `EX`.
    Meta(MetaReply<'a>),
    /// `MN`
    MetaNoop,
    /// `ME`: the debug line of a key.
    MetaDebug {
        /// The key, in base64 where the item was stored under a base64 key.
        key: &'a [u8],
        /// `name=value` words.
        facts: &'a [u8],
    },
    /// The extension is agreed.
    Hello(HelloReply),
    /// The key's cachelet belongs to another worker.
    Moved(Moved),
    /// `ERROR`
    Error,
    /// `CLIENT_ERROR`, with what follows: the request was at fault.
    ClientError(&'a [u8]),
    /// `SERVER_ERROR`, with what follows: the server was at fault.
    ServerError(&'a [u8]),
    /// Any other line, such as those of `lru_crawler metadump` or `slabs reassign`. In answer to
    /// an ordinary command it means that the peer has lost its place.
    Other(&'a [u8]),
}

/// The answer to a meta command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaReply<'a> {
    /// How it went.
    pub status: MetaStatus,
    /// The value, exactly when the status is [`MetaStatus::Value`].
    pub value: Option<&'a [u8]>,
    /// Return flags, in the order sent. Unlike those of a request they are not checked.
    pub flags: MetaFlags<'a>,
}

impl MetaReply<'_> {
    /// γ of a granted lease (flag `G` of the extension); `None` without a grant, which a zero is too.
    pub fn gamma(&self) -> Option<u8> {
        let gamma = u8::try_from(number::plain(self.flags.token(b'G')?)?).ok()?;
        (gamma > 0).then_some(gamma)
    }

    /// What is left of that lease, in milliseconds (flag `L` of the extension); `None` if it is whole. What is no number counts as zero.
    pub fn lease_left_ms(&self) -> Option<u64> {
        let left = self.flags.token(b'L')?;
        Some(number::plain(left).unwrap_or(0))
    }

    /// The newest version the home server knows of the key (flag `V` of the extension).
    pub fn newest_version(&self) -> Option<Version> {
        number::plain(self.flags.token(b'V')?).map(Version)
    }
}

/// How a meta command went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaStatus {
    /// `HD`: done, or a hit whose value was not asked for.
    Done,
    /// `VA`: a hit, with its value.
    Value,
    /// `EN`: a miss of `mg` or `me`.
    Miss,
    /// `NF`: a miss of `ms`, `md` or `ma`.
    NotFound,
    /// `NS`: the mode's condition did not hold.
    NotStored,
    /// `EX`: the item has another CAS unique.
    Exists,
}

impl MetaStatus {
    /// The word on the wire.
    pub const fn word(self) -> &'static [u8; 2] {
        match self {
            MetaStatus::Done => b"HD",
            MetaStatus::Value => b"VA",
            MetaStatus::Miss => b"EN",
            MetaStatus::NotFound => b"NF",
            MetaStatus::NotStored => b"NS",
            MetaStatus::Exists => b"EX",
        }
    }
}

/// Reads the first reply of `buf`. Values over `limits.item_size_max` are malformed, so that a peer
/// cannot make us buffer more than we allow our own clients. Never panics, whatever the bytes.
pub fn parse_reply<'a>(buf: &'a [u8], limits: &Limits) -> ReplyOutcome<'a> {
    let (reply, consumed) = match buf {
        [b'V', b'A', b'L', ..] => match scan_value(buf, limits) {
            Some((value, consumed)) => (Reply::Value(value), consumed),
            None => return parse_reply_line(buf, limits),
        },
        [b'E', b'N', b'D', b'\r', b'\n', ..] => (Reply::End, text::END.len()),
        [b'S', b'T', b'O', b'R', b'E', b'D', b'\r', b'\n', ..] => {
            (Reply::Stored, text::STORED.len())
        }
        _ => return parse_reply_line(buf, limits),
    };
    ReplyOutcome::Reply { reply, consumed }
}

/// The same without a quick look at the most frequent replies.
pub(crate) fn parse_reply_line<'a>(buf: &'a [u8], limits: &Limits) -> ReplyOutcome<'a> {
    let Some(end) = memchr(b'\n', buf) else {
        return match buf.len() <= REPLY_LINE_LEN_MAX {
            true => ReplyOutcome::Incomplete {
                total: buf.len() + 1,
            },
            false => ReplyOutcome::Malformed,
        };
    };
    if end > REPLY_LINE_LEN_MAX {
        return ReplyOutcome::Malformed;
    }
    let line = &buf[..end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut words = Words::new(line);
    let first = words.next().unwrap_or_default();
    let reply = match first {
        b"VALUE" => return value(buf, end + 1, words, limits),
        b"VA" => return meta_value(buf, end + 1, words, limits),
        b"HD" => Some(meta(MetaStatus::Done, words)),
        b"EN" => Some(meta(MetaStatus::Miss, words)),
        b"NF" => Some(meta(MetaStatus::NotFound, words)),
        b"NS" => Some(meta(MetaStatus::NotStored, words)),
        b"EX" => Some(meta(MetaStatus::Exists, words)),
        b"ME" => words.next().map(|key| Reply::MetaDebug {
            key,
            facts: words.rest(),
        }),
        b"STAT" => words.next().map(|name| Reply::Stat {
            name,
            value: words.rest(),
        }),
        b"VERSION" => Some(Reply::Version(words.rest())),
        b"CLIENT_ERROR" => Some(Reply::ClientError(words.rest())),
        b"SERVER_ERROR" => Some(Reply::ServerError(words.rest())),
        b"EVENKEEL" => HelloReply::parse(words).map(Reply::Hello),
        b"MOVED" => Moved::parse(words).map(Reply::Moved),
        [b'0'..=b'9', ..] => number::plain(line.trim_ascii_end()).map(Reply::Number),
        b"" => None,
        _ => Some(match line {
            b"END" => Reply::End,
            b"STORED" => Reply::Stored,
            b"NOT_STORED" => Reply::NotStored,
            b"EXISTS" => Reply::Exists,
            b"NOT_FOUND" => Reply::NotFound,
            b"DELETED" => Reply::Deleted,
            b"TOUCHED" => Reply::Touched,
            b"OK" => Reply::Ok,
            b"RESET" => Reply::Reset,
            b"MN" => Reply::MetaNoop,
            b"ERROR" => Reply::Error,
            other => Reply::Other(other),
        }),
    };
    match reply {
        Some(reply) => ReplyOutcome::Reply {
            reply,
            consumed: end + 1,
        },
        None => ReplyOutcome::Malformed,
    }
}

fn meta<'a>(status: MetaStatus, words: Words<'a>) -> Reply<'a> {
    Reply::Meta(MetaReply {
        status,
        value: None,
        flags: MetaFlags::of_reply(words.rest()),
    })
}

/// `VALUE <key> <flags> <bytes> [<cas unique>]`
fn value<'a>(
    buf: &'a [u8],
    line_len: usize,
    words: Words<'a>,
    limits: &Limits,
) -> ReplyOutcome<'a> {
    let words = Split::<4>::new(words);
    let key = words.at(0);
    let flags = number::plain(words.at(1)).and_then(|flags| u32::try_from(flags).ok());
    let cas = match words.count {
        3 => Some(None),
        4 => number::plain(words.at(3)).map(|cas| Some(Version(cas))),
        _ => None,
    };
    let (Some(flags), Some(cas)) = (flags, cas) else {
        return ReplyOutcome::Malformed;
    };
    if key.len() > KEY_LEN_MAX {
        return ReplyOutcome::Malformed;
    }
    block(buf, line_len, words.at(2), limits, |data| {
        Reply::Value(Value {
            key,
            flags,
            data,
            cas,
        })
    })
}

/// `VA <bytes> <flag>*`
fn meta_value<'a>(
    buf: &'a [u8],
    line_len: usize,
    mut words: Words<'a>,
    limits: &Limits,
) -> ReplyOutcome<'a> {
    let len = words.next().unwrap_or_default();
    block(buf, line_len, len, limits, |value| {
        Reply::Meta(MetaReply {
            status: MetaStatus::Value,
            value: Some(value),
            flags: MetaFlags::of_reply(words.rest()),
        })
    })
}

/// Finishes a reply with its data block and CRLF.
fn block<'a>(
    buf: &'a [u8],
    line_len: usize,
    len: &[u8],
    limits: &Limits,
    reply: impl FnOnce(&'a [u8]) -> Reply<'a>,
) -> ReplyOutcome<'a> {
    let len = number::plain(len).and_then(|len| usize::try_from(len).ok());
    let Some(len) = len.filter(|&len| len <= limits.item_size_max) else {
        return ReplyOutcome::Malformed;
    };
    let total = line_len + len + 2;
    let Some(block) = buf.get(line_len..total) else {
        return ReplyOutcome::Incomplete { total };
    };
    match block.strip_suffix(b"\r\n") {
        Some(data) => ReplyOutcome::Reply {
            reply: reply(data),
            consumed: total,
        },
        None => ReplyOutcome::Malformed,
    }
}
