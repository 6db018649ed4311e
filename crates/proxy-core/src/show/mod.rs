//! From a server's answer to what the application gets to see. Pure text to text.
//!
//! An application that speaks the classic protocol gets classic answers although an Evenkeel server
//! was asked in meta commands; both say the same things in other words. What only agreed peers may
//! see (γ, newest version, a CAS unique that the application did not ask for) is left out.

pub(crate) mod binary;
pub(crate) mod kinds;
#[cfg(test)]
mod tests;

use crate::composed::without_newline;
use crate::routes::Rename;
use crate::show::kinds::{Show, Unasked, Verb};
use crate::stats::counters::Tally;
use evenkeel_protocol::compose::{MetaLine, answer};
use evenkeel_protocol::{
    MetaReply, MetaStatus, Reply, Request, RequestOutcome, Value, parse_request, text,
};
use evenkeel_schemes::mark::is_mark;
use evenkeel_types::{Version, copy};

/// The answer cannot belong to the question: the peer has lost its place, or we have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unfit;

/// Whether the server itself says that something went wrong.
#[inline]
pub(crate) fn is_error(reply: &Reply<'_>) -> bool {
    matches!(
        reply,
        Reply::Error | Reply::ClientError(_) | Reply::ServerError(_)
    )
}

/// Writes what the application gets for `reply`, whose bytes are `raw`, to `question` as it was sent.
///
/// Where the server knows the key by another name, `rename` says how to turn it back. An error of the
/// server is passed on as it is; the caller has to put that of a multi-get's key in
/// the place of `END`.
pub(crate) fn compose(
    out: &mut Vec<u8>,
    show: Show,
    rename: Option<&Rename>,
    question: &[u8],
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<Tally, Unfit> {
    if is_error(reply) {
        match show {
            Show::Nothing => {}
            Show::Binary(echo) => binary::refuse(out, echo, raw),
            _ => out.extend_from_slice(raw),
        }
        return Ok(Tally::Refused);
    }
    match show {
        Show::Value { with_cas, .. } => value(out, with_cas, rename, question, reply, raw),
        Show::Meta {
            verb,
            quiet,
            unasked,
        } => {
            let hidden = Hidden { rename, unasked };
            meta(out, verb, quiet, &hidden, question, reply, raw)
        }
        Show::Store { is_cas } => store(out, is_cas, reply),
        Show::Delete => delete(out, reply),
        Show::Number { up } => number(out, up, reply),
        Show::Touch => touch(out, reply),
        Show::Nothing => nothing(reply),
        Show::Binary(echo) => binary::compose(out, echo, rename, question, reply),
        Show::Flush => Err(Unfit),
    }
}

/// Writes what the application gets instead of a value that no server could be asked for.
pub(crate) fn compose_miss(
    out: &mut Vec<u8>,
    show: Show,
    rename: Option<&Rename>,
    question: &[u8],
) {
    if let Show::Binary(echo) = show {
        return binary::miss(out, echo, rename, question);
    }
    let Show::Meta { quiet: false, .. } = show else {
        return;
    };
    // Our own question: it parses. Only its opaque and its key are of interest.
    let any = evenkeel_protocol::Limits::default();
    let RequestOutcome::Request {
        request: Request::MetaGet(meta),
        ..
    } = parse_request(question, &any)
    else {
        return out.extend_from_slice(text::META_MISS);
    };
    let mut scratch = evenkeel_protocol::KeyScratch::default();
    let key = meta.key(&mut scratch);
    let line = answer::meta(out, MetaStatus::Miss);
    match rename {
        None => answer::echo_flags(line, &meta, key).end(),
        Some(rename) => {
            let mut renamed = Vec::new();
            rename.to_outside(key, &mut renamed);
            answer::echo_flags(line, &meta, &renamed).end();
        }
    }
}

/// What the application gets for an error line of a server or of the proxy.
pub(crate) fn refusal(show: Show, line: Vec<u8>) -> Vec<u8> {
    let Show::Binary(echo) = show else {
        return line;
    };
    let mut packet = Vec::new();
    binary::refuse(&mut packet, echo, &line);
    packet
}

const VALUE: &[u8] = b"VALUE ";

/// A `VALUE` of a server, whose bytes are `raw`.
pub(crate) fn value_as_sent(
    out: &mut Vec<u8>,
    rename: Option<&Rename>,
    value: &Value<'_>,
    raw: &[u8],
) {
    let mask = rename.map_or(0, |rename| rename.unique_mask(value.key));
    match (rename, value.cas, raw.get(VALUE.len() + value.key.len()..)) {
        (Some(rename), Some(Version(unique)), _) if mask != 0 => {
            let mut key = Vec::new();
            rename.to_outside(value.key, &mut key);
            let unique = Some(Version(unique ^ mask));
            answer::value(out, &key, value.flags, value.data, unique);
        }
        (Some(rename), _, Some(behind)) => {
            out.extend_from_slice(VALUE);
            rename.to_outside(value.key, out);
            out.extend_from_slice(behind);
        }
        _ => out.extend_from_slice(raw),
    }
}

/// A value as the application calls its key, with the unique if it is to be shown.
#[inline]
pub(crate) fn named_value(out: &mut Vec<u8>, rename: Option<&Rename>, value: &Value<'_>) {
    let mut renamed = Vec::new();
    let key = match rename {
        None => value.key,
        Some(rename) => {
            rename.to_outside(value.key, &mut renamed);
            &renamed
        }
    };
    answer::value(out, key, value.flags, value.data, value.cas);
}

/// Appends what begins with a `VALUE` of a server, without so many bytes that stand before the application's key.
#[inline(always)]
pub(crate) fn put_value(out: &mut Vec<u8>, before_key: usize, value: &[u8]) {
    let mut rest = value;
    if before_key > 0 {
        out.extend_from_slice(VALUE);
        rest = &value[VALUE.len() + before_key..];
    }
    copy::append(out, rest);
}

/// Whether a `VALUE` of a server is shown to nobody, because a mark of ours is there.
pub(crate) fn is_hidden(rename: Option<&Rename>, value: &Value<'_>) -> bool {
    is_mark(value.flags) && rename.is_some_and(Rename::is_named)
}

/// The version of what a read found, if the answer tells.
pub(crate) fn version(reply: &Reply<'_>) -> Option<Version> {
    match reply {
        Reply::Meta(meta) => meta.flags.unsigned(b'c').map(Version),
        _ => None,
    }
}

/// The key in a question that begins with a word of two letters and has flags.
pub(crate) fn key_of(question: &[u8]) -> &[u8] {
    let key = question.get(3..).unwrap_or_default();
    let len = key
        .iter()
        .position(|&byte| byte == b' ')
        .unwrap_or(key.len());
    &key[..len]
}

fn value(
    out: &mut Vec<u8>,
    with_cas: bool,
    rename: Option<&Rename>,
    question: &[u8],
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<Tally, Unfit> {
    match reply {
        Reply::Value(value) => {
            value_as_sent(out, rename, value, raw);
            Ok(Tally::GetHit)
        }
        Reply::Meta(MetaReply {
            status: MetaStatus::Value,
            value: Some(data),
            flags,
        }) => {
            let client_flags = flags
                .unsigned(b'f')
                .and_then(|flags| u32::try_from(flags).ok());
            let cas = if with_cas {
                Some(version(reply).ok_or(Unfit)?)
            } else {
                None
            };
            let value = Value {
                key: key_of(question),
                flags: client_flags.ok_or(Unfit)?,
                data,
                cas,
            };
            named_value(out, rename, &value);
            Ok(Tally::GetHit)
        }
        Reply::Meta(MetaReply {
            status: MetaStatus::Miss,
            ..
        }) => Ok(Tally::GetMiss),
        _ => Err(Unfit),
    }
}

/// What an application does not get to see of a meta answer as it is.
struct Hidden<'a> {
    /// The servers' name of the key.
    rename: Option<&'a Rename>,
    /// What it did not ask for.
    unasked: Unasked,
}

fn meta(
    out: &mut Vec<u8>,
    verb: Verb,
    quiet: bool,
    hidden: &Hidden<'_>,
    question: &[u8],
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<Tally, Unfit> {
    use MetaStatus::{Done, Exists, Miss, NotFound, NotStored, Value};
    if let (Verb::Debug, Reply::MetaDebug { .. }) = (verb, reply) {
        debug_line(out, hidden.rename, question, raw);
        return Ok(Tally::Nothing);
    }
    let Reply::Meta(reply) = reply else {
        return Err(Unfit);
    };
    let tally = match (verb, reply.status) {
        (Verb::Get, Done | Value) => Tally::GetHit,
        (Verb::Get, Miss) => Tally::GetMiss,
        (Verb::Set, Done) => Tally::Stored,
        (Verb::Set, NotStored) => Tally::NotStored,
        (Verb::Set | Verb::Delete, Exists) => Tally::Exists,
        (Verb::Set, NotFound) => Tally::NotFound,
        (Verb::Delete, Done) => Tally::DeleteHit,
        (Verb::Delete, NotFound) => Tally::DeleteMiss,
        (Verb::Arithmetic { up: true }, Done | Value) => Tally::IncrHit,
        (Verb::Arithmetic { up: true }, NotFound) => Tally::IncrMiss,
        (Verb::Arithmetic { up: false }, Done | Value) => Tally::DecrHit,
        (Verb::Arithmetic { up: false }, NotFound) => Tally::DecrMiss,
        (Verb::Arithmetic { .. }, Exists) => Tally::Exists,
        (Verb::Arithmetic { .. }, NotStored) => Tally::NotStored,
        (Verb::Debug, Miss) => Tally::Nothing,
        _ => return Err(Unfit),
    };
    if !(quiet && reply.status == Miss) {
        meta_line(out, reply, hidden);
    }
    Ok(tally)
}

/// `ME`, the key as it was sent, and facts.
fn debug_line(out: &mut Vec<u8>, rename: Option<&Rename>, question: &[u8], raw: &[u8]) {
    let sent = without_newline(key_of(question));
    let begin = raw.len().min(3);
    match (rename, raw[begin..].strip_prefix(sent)) {
        (Some(rename), Some(facts)) => {
            out.extend_from_slice(&raw[..begin]);
            let base64 = without_newline(question).ends_with(b" b");
            rename.text_to_outside(sent, base64, out);
            out.extend_from_slice(facts);
        }
        _ => out.extend_from_slice(raw),
    }
}

/// A meta answer without what the application may not see.
fn meta_line(out: &mut Vec<u8>, reply: &MetaReply<'_>, hidden: &Hidden<'_>) {
    let flags = &reply.flags;
    // What leases need is left out, and the key put back.
    let hides = |letter| match letter {
        b'G' | b'L' | b'V' => true,
        b'c' => hidden.unasked.cas,
        b'f' => hidden.unasked.flags,
        _ => false,
    };
    let renames = hidden.rename.filter(|_| flags.has(b'k'));
    let value = reply.value.filter(|_| !hidden.unasked.value);
    let line = match value {
        Some(value) => answer::meta_value(out, value.len()),
        None if hidden.unasked.value && reply.value.is_some() => {
            answer::meta(out, MetaStatus::Done)
        }
        None => answer::meta(out, reply.status),
    };
    let is_as_sent = renames.is_none() && !b"GVcf".iter().any(|&l| hides(l) && flags.has(l));
    let line = if is_as_sent {
        line.raw(flags.raw())
    } else {
        let shown = flags.iter().filter(|&(letter, _)| !hides(letter));
        shown.fold(line, |line: MetaLine<'_>, (letter, token)| {
            match renames.filter(|_| letter == b'k') {
                None => line.token(letter, token),
                Some(rename) => {
                    let mut key = Vec::new();
                    rename.text_to_outside(token, flags.has(b'b'), &mut key);
                    line.token(letter, &key)
                }
            }
        })
    };
    match value {
        Some(value) => line.end_with(value),
        None => line.end(),
    }
}

fn store(out: &mut Vec<u8>, is_cas: bool, reply: &Reply<'_>) -> Result<Tally, Unfit> {
    use MetaStatus::{Done, Exists, NotFound, NotStored};
    let (words, tally, of_cas) = match reply {
        Reply::Stored | Reply::Meta(MetaReply { status: Done, .. }) => {
            (text::STORED, Tally::Stored, Tally::CasHit)
        }
        Reply::NotStored
        | Reply::Meta(MetaReply {
            status: NotStored, ..
        }) => (text::NOT_STORED, Tally::NotStored, Tally::NotStored),
        Reply::Exists | Reply::Meta(MetaReply { status: Exists, .. }) => {
            (text::EXISTS, Tally::Exists, Tally::CasBad)
        }
        Reply::NotFound
        | Reply::Meta(MetaReply {
            status: NotFound, ..
        }) => (text::NOT_FOUND, Tally::NotFound, Tally::CasMiss),
        _ => return Err(Unfit),
    };
    out.extend_from_slice(words);
    Ok(if is_cas { of_cas } else { tally })
}

fn delete(out: &mut Vec<u8>, reply: &Reply<'_>) -> Result<Tally, Unfit> {
    use MetaStatus::{Done, NotFound};
    let (words, tally) = match reply {
        Reply::Deleted | Reply::Meta(MetaReply { status: Done, .. }) => {
            (text::DELETED, Tally::DeleteHit)
        }
        Reply::NotFound
        | Reply::Meta(MetaReply {
            status: NotFound, ..
        }) => (text::NOT_FOUND, Tally::DeleteMiss),
        _ => return Err(Unfit),
    };
    out.extend_from_slice(words);
    Ok(tally)
}

fn number(out: &mut Vec<u8>, up: bool, reply: &Reply<'_>) -> Result<Tally, Unfit> {
    use MetaStatus::NotFound;
    match reply {
        Reply::Number(number) => {
            answer::number_line(out, *number);
            Ok(if up { Tally::IncrHit } else { Tally::DecrHit })
        }
        Reply::Meta(MetaReply {
            value: Some(digits),
            ..
        }) => {
            out.extend_from_slice(digits);
            out.extend_from_slice(text::CRLF);
            Ok(if up { Tally::IncrHit } else { Tally::DecrHit })
        }
        Reply::NotFound
        | Reply::Meta(MetaReply {
            status: NotFound, ..
        }) => {
            out.extend_from_slice(text::NOT_FOUND);
            Ok(if up { Tally::IncrMiss } else { Tally::DecrMiss })
        }
        _ => Err(Unfit),
    }
}

fn touch(out: &mut Vec<u8>, reply: &Reply<'_>) -> Result<Tally, Unfit> {
    use MetaStatus::{Done, Miss};
    let (words, tally) = match reply {
        Reply::Touched | Reply::Meta(MetaReply { status: Done, .. }) => {
            (text::TOUCHED, Tally::TouchHit)
        }
        Reply::NotFound | Reply::Meta(MetaReply { status: Miss, .. }) => {
            (text::NOT_FOUND, Tally::TouchMiss)
        }
        _ => return Err(Unfit),
    };
    out.extend_from_slice(words);
    Ok(tally)
}

/// Any answer of one line will do to a request whose answer nobody waits for.
fn nothing(reply: &Reply<'_>) -> Result<Tally, Unfit> {
    match reply {
        Reply::Stored => Ok(Tally::Stored),
        Reply::NotStored => Ok(Tally::NotStored),
        Reply::Exists => Ok(Tally::Exists),
        Reply::NotFound => Ok(Tally::NotFound),
        Reply::Meta(meta) => Ok(match meta.status {
            MetaStatus::NotStored => Tally::NotStored,
            MetaStatus::Exists => Tally::Exists,
            MetaStatus::NotFound | MetaStatus::Miss => Tally::NotFound,
            MetaStatus::Done | MetaStatus::Value => Tally::Nothing,
        }),
        Reply::Deleted | Reply::Touched | Reply::Number(_) => Ok(Tally::Nothing),
        _ => Err(Unfit),
    }
}
