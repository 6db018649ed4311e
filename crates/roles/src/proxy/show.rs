//! From a server's answer to what the application gets to see. Pure text to text.
//!
//! An application that speaks the classic protocol gets classic answers although an Evenkeel server
//! was asked in meta commands; both say the same things in other words. What only agreed peers may
//! see (γ, newest version, a CAS unique that the application did not ask for) is left out.

use super::client::{Show, Verb};
use super::stats::ProxyStats;
use evenkeel_protocol::compose::{self, MetaLine, answer};
use evenkeel_protocol::{
    MetaReply, MetaStatus, Reply, Request, RequestOutcome, parse_request, text,
};
use evenkeel_types::Version;

/// What an answer adds to the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tally {
    Nothing,
    GetHit,
    GetMiss,
    GetUnavailable,
    DeleteHit,
    DeleteMiss,
    IncrHit,
    IncrMiss,
    DecrHit,
    DecrMiss,
    CasHit,
    CasMiss,
    CasBad,
    TouchHit,
    TouchMiss,
    Failed,
}

impl Tally {
    #[inline]
    pub fn count(self, stats: &mut ProxyStats) {
        match self {
            Tally::Nothing => {}
            Tally::GetHit => stats.get_hits += 1,
            Tally::GetMiss => stats.get_misses += 1,
            Tally::GetUnavailable => {
                stats.get_misses += 1;
                stats.proxy_reads_unavailable += 1;
            }
            Tally::DeleteHit => stats.delete_hits += 1,
            Tally::DeleteMiss => stats.delete_misses += 1,
            Tally::IncrHit => stats.incr_hits += 1,
            Tally::IncrMiss => stats.incr_misses += 1,
            Tally::DecrHit => stats.decr_hits += 1,
            Tally::DecrMiss => stats.decr_misses += 1,
            Tally::CasHit => stats.cas_hits += 1,
            Tally::CasMiss => stats.cas_misses += 1,
            Tally::CasBad => stats.cas_badval += 1,
            Tally::TouchHit => stats.touch_hits += 1,
            Tally::TouchMiss => stats.touch_misses += 1,
            Tally::Failed => stats.proxy_request_errors += 1,
        }
    }
}

/// The answer cannot belong to the question: the peer has lost its place, or we have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unfit;

/// Whether the server itself says that something went wrong.
#[inline]
pub(super) fn is_error(reply: &Reply<'_>) -> bool {
    matches!(
        reply,
        Reply::Error | Reply::ClientError(_) | Reply::ServerError(_)
    )
}

/// Writes what the application gets for `reply`, whose bytes are `raw`, to `question` as it was sent.
///
/// An error of the server is passed on as it is; the caller has to put that of a multi-get's key in
/// the place of `END`.
pub(super) fn compose(
    out: &mut Vec<u8>,
    show: Show,
    question: &[u8],
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<Tally, Unfit> {
    if is_error(reply) {
        if show != Show::Nothing {
            out.extend_from_slice(raw);
        }
        return Ok(Tally::Nothing);
    }
    match show {
        Show::Value { with_cas, .. } => value(out, with_cas, question, reply, raw),
        Show::Meta {
            verb,
            quiet,
            hide_cas,
        } => meta(out, verb, quiet, hide_cas, reply, raw),
        Show::Store { is_cas } => store(out, is_cas, reply),
        Show::Delete => delete(out, reply),
        Show::Number { up } => number(out, up, reply),
        Show::Touch => touch(out, reply),
        Show::Nothing => nothing(reply),
        Show::Flush => Err(Unfit),
    }
}

/// Writes what the application gets instead of a value that no server could be asked for.
pub(super) fn compose_miss(out: &mut Vec<u8>, show: Show, question: &[u8]) {
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
    answer::echo_flags(answer::meta(out, MetaStatus::Miss), &meta, key).end();
}

/// The version of what a read found, if the answer tells.
pub(super) fn version(reply: &Reply<'_>) -> Option<Version> {
    match reply {
        Reply::Meta(meta) => meta.flags.unsigned(b'c').map(Version),
        _ => None,
    }
}

/// The key in a question that begins with a word of two letters and has flags.
fn key_of(question: &[u8]) -> &[u8] {
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
    question: &[u8],
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<Tally, Unfit> {
    match reply {
        Reply::Value(_) => {
            out.extend_from_slice(raw);
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
            answer::value(out, key_of(question), client_flags.ok_or(Unfit)?, data, cas);
            Ok(Tally::GetHit)
        }
        Reply::Meta(MetaReply {
            status: MetaStatus::Miss,
            ..
        }) => Ok(Tally::GetMiss),
        _ => Err(Unfit),
    }
}

fn meta(
    out: &mut Vec<u8>,
    verb: Verb,
    quiet: bool,
    hide_cas: bool,
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<Tally, Unfit> {
    use MetaStatus::{Done, Exists, Miss, NotFound, NotStored, Value};
    if let (Verb::Debug, Reply::MetaDebug { .. }) = (verb, reply) {
        out.extend_from_slice(raw);
        return Ok(Tally::Nothing);
    }
    let Reply::Meta(reply) = reply else {
        return Err(Unfit);
    };
    let tally = match (verb, reply.status) {
        (Verb::Get, Done | Value) => Tally::GetHit,
        (Verb::Get, Miss) => Tally::GetMiss,
        (Verb::Set, Done | NotStored | Exists | NotFound) => Tally::Nothing,
        (Verb::Delete, Done) => Tally::DeleteHit,
        (Verb::Delete, NotFound) => Tally::DeleteMiss,
        (Verb::Delete, Exists) => Tally::Nothing,
        (Verb::Arithmetic { up: true }, Done | Value) => Tally::IncrHit,
        (Verb::Arithmetic { up: true }, NotFound) => Tally::IncrMiss,
        (Verb::Arithmetic { up: false }, Done | Value) => Tally::DecrHit,
        (Verb::Arithmetic { up: false }, NotFound) => Tally::DecrMiss,
        (Verb::Arithmetic { .. }, Exists | NotStored) | (Verb::Debug, Miss) => Tally::Nothing,
        _ => return Err(Unfit),
    };
    if !(quiet && reply.status == Miss) {
        meta_line(out, reply, hide_cas);
    }
    Ok(tally)
}

/// A meta answer without what the application may not see.
fn meta_line(out: &mut Vec<u8>, reply: &MetaReply<'_>, hide_cas: bool) {
    let line = match reply.value {
        Some(value) => answer::meta_value(out, value.len()),
        None => answer::meta(out, reply.status),
    };
    let flags = &reply.flags;
    let line = if flags.has(b'G') || flags.has(b'V') || hide_cas && flags.has(b'c') {
        flags
            .iter()
            .filter(|&(letter, _)| !(matches!(letter, b'G' | b'V') || hide_cas && letter == b'c'))
            .fold(line, |line: MetaLine<'_>, (letter, token)| {
                line.token(letter, token)
            })
    } else {
        line.raw(flags.raw())
    };
    match reply.value {
        Some(value) => line.end_with(value),
        None => line.end(),
    }
}

fn store(out: &mut Vec<u8>, is_cas: bool, reply: &Reply<'_>) -> Result<Tally, Unfit> {
    use MetaStatus::{Done, Exists, NotFound, NotStored};
    let (words, tally) = match reply {
        Reply::Stored | Reply::Meta(MetaReply { status: Done, .. }) => {
            (text::STORED, Tally::CasHit)
        }
        Reply::NotStored
        | Reply::Meta(MetaReply {
            status: NotStored, ..
        }) => (text::NOT_STORED, Tally::Nothing),
        Reply::Exists | Reply::Meta(MetaReply { status: Exists, .. }) => {
            (text::EXISTS, Tally::CasBad)
        }
        Reply::NotFound
        | Reply::Meta(MetaReply {
            status: NotFound, ..
        }) => (text::NOT_FOUND, Tally::CasMiss),
        _ => return Err(Unfit),
    };
    out.extend_from_slice(words);
    Ok(if is_cas { tally } else { Tally::Nothing })
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
        Reply::Stored
        | Reply::NotStored
        | Reply::Exists
        | Reply::NotFound
        | Reply::Deleted
        | Reply::Touched
        | Reply::Number(_)
        | Reply::Meta(_) => Ok(Tally::Nothing),
        _ => Err(Unfit),
    }
}

/// `SERVER_ERROR` in the proxy's own words.
pub(super) fn server_error(words: core::fmt::Arguments<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    compose::answer::server_error(&mut line, &words.to_string());
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_protocol::{Limits, ReplyOutcome, parse_reply};

    fn shown(show: Show, question: &str, raw: &str) -> Result<(String, Tally), Unfit> {
        let ReplyOutcome::Reply { reply, consumed } =
            parse_reply(raw.as_bytes(), &Limits::default())
        else {
            panic!("not a reply: {raw:?}");
        };
        assert_eq!(consumed, raw.len());
        let mut out = Vec::new();
        let tally = compose(&mut out, show, question.as_bytes(), &reply, raw.as_bytes())?;
        Ok((String::from_utf8(out).unwrap(), tally))
    }

    const GET: Show = Show::Meta {
        verb: Verb::Get,
        quiet: false,
        hide_cas: true,
    };

    #[test]
    fn the_same_answer_in_meta_and_in_classic_words() {
        let value = Show::Value {
            with_cas: false,
            last: true,
        };
        let cases = [
            (
                value,
                "VA 2 f7 c9 G3\r\nab\r\n",
                "VALUE k 7 2\r\nab\r\n",
                Tally::GetHit,
            ),
            (
                value,
                "VALUE k 7 2\r\nab\r\n",
                "VALUE k 7 2\r\nab\r\n",
                Tally::GetHit,
            ),
            (value, "EN V5\r\n", "", Tally::GetMiss),
            (
                Show::Store { is_cas: false },
                "HD\r\n",
                "STORED\r\n",
                Tally::Nothing,
            ),
            (
                Show::Store { is_cas: false },
                "NS\r\n",
                "NOT_STORED\r\n",
                Tally::Nothing,
            ),
            (
                Show::Store { is_cas: true },
                "HD\r\n",
                "STORED\r\n",
                Tally::CasHit,
            ),
            (
                Show::Store { is_cas: true },
                "EX\r\n",
                "EXISTS\r\n",
                Tally::CasBad,
            ),
            (
                Show::Store { is_cas: true },
                "NF\r\n",
                "NOT_FOUND\r\n",
                Tally::CasMiss,
            ),
            (
                Show::Store { is_cas: true },
                "NOT_FOUND\r\n",
                "NOT_FOUND\r\n",
                Tally::CasMiss,
            ),
            (Show::Delete, "HD\r\n", "DELETED\r\n", Tally::DeleteHit),
            (
                Show::Delete,
                "NOT_FOUND\r\n",
                "NOT_FOUND\r\n",
                Tally::DeleteMiss,
            ),
            (
                Show::Number { up: true },
                "VA 2\r\n42\r\n",
                "42\r\n",
                Tally::IncrHit,
            ),
            (
                Show::Number { up: false },
                "41\r\n",
                "41\r\n",
                Tally::DecrHit,
            ),
            (
                Show::Number { up: false },
                "NF\r\n",
                "NOT_FOUND\r\n",
                Tally::DecrMiss,
            ),
            (Show::Touch, "HD\r\n", "TOUCHED\r\n", Tally::TouchHit),
            (Show::Touch, "EN\r\n", "NOT_FOUND\r\n", Tally::TouchMiss),
            (Show::Nothing, "NS\r\n", "", Tally::Nothing),
            (Show::Nothing, "SERVER_ERROR x\r\n", "", Tally::Nothing),
            (
                Show::Delete,
                "SERVER_ERROR x\r\n",
                "SERVER_ERROR x\r\n",
                Tally::Nothing,
            ),
        ];
        for (show, raw, expected, tally) in cases {
            let question = "mg k v f c Y1 U2\r\n";
            assert_eq!(
                shown(show, question, raw),
                Ok((expected.into(), tally)),
                "{show:?} {raw:?}"
            );
        }
    }

    #[test]
    fn a_classic_get_with_cas_takes_it_from_the_meta_answer() {
        let show = Show::Value {
            with_cas: true,
            last: false,
        };
        let (text, _) = shown(
            show,
            "mg key v f c\r\n",
            "VA 0 f0 c18446744073709551615\r\n\r\n",
        )
        .unwrap();
        assert_eq!(text, "VALUE key 0 0 18446744073709551615\r\n\r\n");
    }

    #[test]
    fn what_only_agreed_peers_may_see_is_left_out_and_the_rest_keeps_its_order() {
        let cases = [
            ("VA 1 s1 kfoo c12 G2 V12\r\nx\r\n", "VA 1 s1 kfoo\r\nx\r\n"),
            ("HD t-1 f3 c5 W\r\n", "HD t-1 f3 W\r\n"),
            ("EN Oabc kfoo V99\r\n", "EN Oabc kfoo\r\n"),
        ];
        for (raw, expected) in cases {
            assert_eq!(shown(GET, "mg foo\r\n", raw).unwrap().0, expected);
        }
        let asked = Show::Meta {
            verb: Verb::Get,
            quiet: false,
            hide_cas: false,
        };
        assert_eq!(
            shown(asked, "mg foo\r\n", "HD c5 G1\r\n").unwrap().0,
            "HD c5\r\n"
        );
    }

    #[test]
    fn a_quiet_get_hides_its_miss_alone() {
        let quiet = Show::Meta {
            verb: Verb::Get,
            quiet: true,
            hide_cas: false,
        };
        assert_eq!(
            shown(quiet, "mg k\r\n", "EN\r\n").unwrap(),
            (String::new(), Tally::GetMiss)
        );
        assert_eq!(shown(quiet, "mg k\r\n", "HD\r\n").unwrap().0, "HD\r\n");
    }

    #[test]
    fn an_answer_to_another_question_is_noticed() {
        for (show, raw) in [
            (Show::Delete, "STORED\r\n"),
            (Show::Store { is_cas: false }, "EN\r\n"),
            (GET, "NF\r\n"),
            (GET, "VALUE k 0 1\r\nx\r\n"),
            (Show::Nothing, "VALUE k 0 1\r\nx\r\n"),
            (Show::Touch, "HELLO\r\n"),
            (
                Show::Value {
                    with_cas: false,
                    last: true,
                },
                "VA 1\r\nx\r\n",
            ),
        ] {
            assert_eq!(
                shown(show, "mg k v f c\r\n", raw),
                Err(Unfit),
                "{show:?} {raw:?}"
            );
        }
    }

    #[test]
    fn a_miss_for_want_of_a_server_echoes_what_a_real_one_would() {
        for (question, expected) in [
            ("mg foo v c Y7 U3\r\n", "EN\r\n"),
            ("mg foo Oxy v k c Y7 U3\r\n", "EN Oxy kfoo\r\n"),
            ("mg Zm9v b k c Y7 U3\r\n", "EN kZm9v b\r\n"),
        ] {
            let mut out = Vec::new();
            compose_miss(&mut out, GET, question.as_bytes());
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
