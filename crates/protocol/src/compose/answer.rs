//! What servers say.

use evenkeel_types::{Version, copy};

use super::{MetaLine, number};
use crate::extension::{HelloReply, Moved};
use crate::meta::Meta;
use crate::reply::MetaStatus;
use crate::text;

/// `VALUE <key> <flags> <bytes> [<cas unique>]` and the value: a hit of a classic `get`.
#[inline(always)]
pub fn value(out: &mut Vec<u8>, key: &[u8], flags: u32, data: &[u8], cas: Option<Version>) {
    out.reserve(SHORT_LINE_LEN + data.len() + text::CRLF.len());
    if cas.is_none() && flags < 10 && data.len() < 1000 && key.len() <= SHORT_KEY_LEN {
        // The frequent case in one store: a line of fixed length, of which the surplus goes again.
        let mut line = [0; SHORT_LINE_LEN];
        let end = out.len() + short_line(&mut line, key, flags, data.len());
        out.extend_from_slice(&line);
        out.truncate(end);
    } else {
        long_line(out, key, flags, data.len(), cas);
    }
    copy::append(out, data);
    out.extend_from_slice(text::CRLF);
}

#[inline(never)]
fn long_line(out: &mut Vec<u8>, key: &[u8], flags: u32, len: usize, cas: Option<Version>) {
    out.extend_from_slice(VALUE);
    out.extend_from_slice(key);
    out.push(b' ');
    number(out, flags);
    out.push(b' ');
    number(out, len);
    if let Some(Version(cas)) = cas {
        out.push(b' ');
        number(out, cas);
    }
    out.extend_from_slice(text::CRLF);
}

const VALUE: &[u8] = b"VALUE ";

/// Longest key of a [`short_line`], in bytes.
const SHORT_KEY_LEN: usize = 48;

/// Room of a [`short_line`], in bytes: the word, the key, and eight bytes of numbers.
const SHORT_LINE_LEN: usize = 64;
const _: () = assert!(VALUE.len() + SHORT_KEY_LEN + 8 <= SHORT_LINE_LEN);

/// Writes the line before a value without a version whose key has at most [`SHORT_KEY_LEN`] bytes, its
/// flags one digit and its length at most three. Gives how many of the bytes count.
#[inline(always)]
fn short_line(line: &mut [u8; SHORT_LINE_LEN], key: &[u8], flags: u32, value_len: usize) -> usize {
    let (word, rest) = line.split_at_mut(VALUE.len());
    word.copy_from_slice(VALUE);
    copy_short(rest, key);
    let numbers = u64::from_le_bytes(ZERO_AND_LEN[value_len]) + (u64::from(flags) << 8);
    rest[key.len()..key.len() + 8].copy_from_slice(&numbers.to_le_bytes());
    VALUE.len() + key.len() + 6 + usize::from(value_len >= 10) + usize::from(value_len >= 100)
}

/// ` 0 <len>\r\n` for each length of at most three digits.
static ZERO_AND_LEN: [[u8; 8]; 1000] = zeros_and_lens();

const fn zeros_and_lens() -> [[u8; 8]; 1000] {
    let mut lines = [*b" 0 \0\0\0\r\n"; 1000];
    let mut len = 0;
    while len < lines.len() {
        let digits = [(len / 100) as u8, (len / 10 % 10) as u8, (len % 10) as u8];
        let mut at = 3;
        let mut digit = if len >= 100 {
            0
        } else if len >= 10 {
            1
        } else {
            2
        };
        while digit < digits.len() {
            lines[len][at] = b'0' + digits[digit];
            at += 1;
            digit += 1;
        }
        lines[len][at] = b'\r';
        lines[len][at + 1] = b'\n';
        len += 1;
    }
    lines
}

/// Copies a key of at most [`SHORT_KEY_LEN`] bytes by pieces of fixed length, which may overlap: for so
/// few bytes a call would cost as much again.
#[inline(always)]
fn copy_short(to: &mut [u8], key: &[u8]) {
    const PIECE: usize = 16;
    let (Some(first), Some(last)) = (key.first_chunk::<PIECE>(), key.last_chunk::<PIECE>()) else {
        return to[..key.len()].copy_from_slice(key);
    };
    to[..PIECE].copy_from_slice(first);
    if let Some((_, rest)) = key.split_at_checked(PIECE)
        && let Some(second) = rest.first_chunk::<PIECE>()
    {
        to[PIECE..2 * PIECE].copy_from_slice(second);
    }
    let at = key.len() - PIECE;
    to[at..at + PIECE].copy_from_slice(last);
}

/// A number on a line of its own: the answer to `incr` and `decr`.
pub fn number_line(out: &mut Vec<u8>, value: u64) {
    number(out, value);
    out.extend_from_slice(text::CRLF);
}

/// `STAT <name> <value>`
pub fn stat(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(b"STAT ");
    out.extend_from_slice(name);
    out.push(b' ');
    out.extend_from_slice(value);
    out.extend_from_slice(text::CRLF);
}

/// `STAT <name> <number>`
pub fn stat_number(out: &mut Vec<u8>, name: &[u8], value: impl itoa::Integer) {
    stat(out, name, itoa::Buffer::new().format(value).as_bytes());
}

/// `VERSION <version>`
pub fn version(out: &mut Vec<u8>, version: &str) {
    out.extend_from_slice(b"VERSION ");
    out.extend_from_slice(version.as_bytes());
    out.extend_from_slice(text::CRLF);
}

/// `SERVER_ERROR <message>`. The message must be one line.
pub fn server_error(out: &mut Vec<u8>, message: &str) {
    out.extend_from_slice(b"SERVER_ERROR ");
    out.extend_from_slice(message.as_bytes());
    out.extend_from_slice(text::CRLF);
}

/// Begins the answer to a meta command that carries no value.
#[inline]
pub fn meta(out: &mut Vec<u8>, status: MetaStatus) -> MetaLine<'_> {
    out.extend_from_slice(status.word());
    MetaLine::new(out)
}

/// Begins `VA <bytes>`; end it with [`MetaLine::end_with`] and a value of that length.
#[inline]
pub fn meta_value(out: &mut Vec<u8>, len: usize) -> MetaLine<'_> {
    out.extend_from_slice(MetaStatus::Value.word());
    out.push(b' ');
    number(out, len);
    MetaLine::new(out)
}

/// What return flags can say about an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemFacts {
    /// `s`: length of the value in bytes.
    pub value_len: usize,
    /// `c`: CAS unique.
    pub version: Version,
    /// `f`: client flags.
    pub flags: u32,
    /// `t`: seconds to live; `None` for ever.
    pub ttl: Option<u32>,
    /// `l`: seconds since the last access, before this one.
    pub last_access: u32,
    /// `h`: whether it was fetched before.
    pub fetched: bool,
    /// `Z`: whether somebody else was told to recache it.
    pub win_sent: bool,
    /// `X`: whether it is stale.
    pub stale: bool,
    /// `W`: whether this client is told to recache it.
    pub won: bool,
}

/// Appends the return flags of a hit of `mg`, in the order requested, and then `Z`, `X` and `W` where
/// they hold, in memcached's order. `key` is the decoded key.
pub fn item_flags<'o>(
    mut line: MetaLine<'o>,
    meta: &Meta<'_>,
    key: &[u8],
    facts: &ItemFacts,
) -> MetaLine<'o> {
    for (letter, token) in meta.flags.iter() {
        line = match letter {
            b'O' => line.token(b'O', token),
            b'k' => line.key(key, meta.key.base64),
            b's' => line.number(b's', facts.value_len),
            b'c' => line.number(b'c', facts.version.0),
            b'f' => line.number(b'f', facts.flags),
            b't' => match facts.ttl {
                Some(ttl) => line.number(b't', ttl),
                None => line.token(b't', b"-1"),
            },
            b'l' => line.number(b'l', facts.last_access),
            b'h' => line.number(b'h', u8::from(facts.fetched)),
            _ => line,
        };
    }
    for (holds, letter) in [
        (facts.win_sent, b'Z'),
        (facts.stale, b'X'),
        (facts.won, b'W'),
    ] {
        if holds {
            line = line.flag(letter);
        }
    }
    line
}

/// Appends the return flags of an answer that has no item to speak of: opaque and key.
pub fn echo_flags<'o>(mut line: MetaLine<'o>, meta: &Meta<'_>, key: &[u8]) -> MetaLine<'o> {
    for (letter, token) in meta.flags.iter() {
        line = match letter {
            b'O' => line.token(b'O', token),
            b'k' => line.key(key, meta.key.base64),
            _ => line,
        };
    }
    line
}

/// Appends what the extension says to agreed peers, behind the return flags: γ of a granted lease with what is left of it in
/// milliseconds, unless it is whole, and the newest version of the key.
pub fn extension_flags(
    mut line: MetaLine<'_>,
    lease: Option<(u8, Option<u64>)>,
    newest: Option<Version>,
) -> MetaLine<'_> {
    if let Some((gamma, left_ms)) = lease.filter(|&(gamma, _)| gamma > 0) {
        line = line.number(b'G', gamma);
        if let Some(left_ms) = left_ms {
            line = line.number(b'L', left_ms);
        }
    }
    match newest {
        Some(Version(version)) => line.number(b'V', version),
        None => line,
    }
}

/// `EVENKEEL 1 …`: agrees to the extension.
pub fn hello(out: &mut Vec<u8>, reply: &HelloReply) {
    out.extend_from_slice(b"EVENKEEL ");
    number(out, reply.version);
    let words: [(&[u8], u64); 5] = [
        (b" server=", reply.worker.server.0.into()),
        (b" worker=", reply.worker.worker.into()),
        (b" boot=", reply.boot.0),
        (b" epoch=", reply.epoch.0),
        (b" lease_ms=", reply.lease_ms),
    ];
    for (name, value) in words {
        out.extend_from_slice(name);
        number(out, value);
    }
    if let Some(vote) = reply.vote {
        out.extend_from_slice(b" vote=");
        number(out, u8::from(vote));
    }
    out.extend_from_slice(text::CRLF);
}

/// `MOVED <epoch> <server> <worker>`
pub fn moved(out: &mut Vec<u8>, moved: &Moved) {
    out.extend_from_slice(b"MOVED ");
    number(out, moved.epoch.0);
    out.push(b' ');
    number(out, moved.owner.server.0);
    out.push(b' ');
    number(out, moved.owner.worker);
    if moved.mark > 0 {
        out.push(b' ');
        number(out, moved.mark);
    }
    out.extend_from_slice(text::CRLF);
}

/// What memcached says to a flag it does not know, in the words of the command: the answer to a flag
/// of the extension from a peer that did not say hello.
pub fn unknown_flag(request: &crate::Request<'_>) -> &'static [u8] {
    use crate::Request;
    match request {
        Request::MetaDelete(_) | Request::MetaArithmetic(_) => text::INVALID_OR_DUPLICATE_FLAG,
        _ => text::INVALID_FLAG,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::KEY_LEN_MAX;

    fn check_value_line(key: &str, flags: u32, len: usize, cas: Option<Version>) {
        let data = vec![b'x'; len];
        let mut out = b"before".to_vec();
        value(&mut out, key.as_bytes(), flags, &data, cas);
        let cas = cas.map_or(String::new(), |cas| format!(" {}", cas.0));
        let line = format!("beforeVALUE {key} {flags} {len}{cas}\r\n");
        assert_eq!(out, [line.as_bytes(), &data, b"\r\n"].concat());
    }

    #[test]
    fn every_value_line_is_what_formatting_gives() {
        for len in (0..1100).chain([9_999, 100_000]) {
            for flags in [0, 1, 9, 10, u32::MAX] {
                for cas in [None, Some(Version(7))] {
                    check_value_line("key", flags, len, cas);
                }
            }
        }
        for key_len in 1..=KEY_LEN_MAX {
            let key: String = ('!'..='~').cycle().take(key_len).collect();
            for len in [5, 50, 500, 5000] {
                check_value_line(&key, 0, len, None);
            }
        }
    }
}
