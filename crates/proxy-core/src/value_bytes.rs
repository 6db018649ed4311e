//! Values of hot keys that are kept, as bytes: client flags in four, and the value behind them.
//!
//! [`ClientLeases`](evenkeel_hotkeys::client::ClientLeases) decides what is kept and when it is shown. Here it is taken
//! from answers and writes, and turned back into what the server would have answered.

use crate::client::Answered;
use crate::composed::parse_own;
use crate::routes::Rename;
use crate::show;
use crate::show::kinds::Show;
use crate::warm::{flags_of, is_stale};
use evenkeel_hotkeys::client::Answer;
use evenkeel_protocol::compose::answer;
use evenkeel_protocol::compose::answer::ItemFacts;
use evenkeel_protocol::{
    KeyScratch, Limits, MetaReply, MetaStatus, Reply, ReplyOutcome, Request, StoreMode, parse_reply,
};
use std::sync::Arc;

/// Client flags are before the value.
const FLAGS_LEN: usize = size_of::<u32>();

/// How many bytes are kept of a value of that length.
pub(crate) fn len(value: &[u8]) -> usize {
    FLAGS_LEN + value.len()
}

fn kept(flags: u32, value: &[u8]) -> Arc<[u8]> {
    [&flags.to_le_bytes()[..], value].concat().into()
}

/// What a read was answered: `None` if that does not tell all that another read may ask for, or if somebody was told to replace
/// the value.
pub(crate) fn of_answer(reply: &MetaReply<'_>) -> Option<Arc<[u8]>> {
    let flags = flags_of(reply)?;
    reply
        .value
        .filter(|_| !is_stale(reply))
        .map(|value| kept(flags, value))
}

/// What an `ms` has stored, if it was stored. `None` if that is not all in the question, or is no more than a moment there; and of
/// a version that the application has chosen, since such versions can go back.
pub(crate) fn of_store(question: &[u8]) -> Option<Arc<[u8]>> {
    let Some(Request::MetaSet(meta)) = parse_own(question) else {
        return None;
    };
    let flags = &meta.flags;
    let is_whole = !matches!(flags.store_mode(), StoreMode::Append | StoreMode::Prepend);
    let is_gone = flags.exptime(b'T').is_some_and(|exptime| exptime < 0);
    let is_special = flags.has(b'E') || flags.has(b'I');
    let client_flags = u32::try_from(flags.unsigned(b'F').unwrap_or(0)).ok()?;
    (is_whole && !is_gone && !is_special).then(|| kept(client_flags, meta.value))
}

/// Appends what the key's server would answer to this `mg` if the item were as it is kept. Nothing if the question is none.
fn compose(out: &mut Vec<u8>, question: &[u8], kept_answer: Answer, kept: Option<&[u8]>) {
    let Some(Request::MetaGet(meta)) = parse_own(question) else {
        return;
    };
    let mut scratch = KeyScratch::default();
    let key = meta.key(&mut scratch);
    let (Answer::Hit(version), Some(kept)) = (kept_answer, kept) else {
        return answer::echo_flags(answer::meta(out, MetaStatus::Miss), &meta, key).end();
    };
    let Some((flags, value)) = kept.split_first_chunk::<FLAGS_LEN>() else {
        return;
    };
    let facts = ItemFacts {
        value_len: value.len(),
        version,
        flags: u32::from_le_bytes(*flags),
        ..ItemFacts::default()
    };
    if meta.flags.has(b'v') {
        let line = answer::meta_value(out, value.len());
        answer::item_flags(line, &meta, key, &facts).end_with(value);
    } else {
        let line = answer::meta(out, MetaStatus::Done);
        answer::item_flags(line, &meta, key, &facts).end();
    }
}

/// What [`compose`] has composed.
fn parse(composed: &[u8]) -> Option<Reply<'_>> {
    let limits = Limits {
        item_size_max: composed.len(),
        ..Limits::default()
    };
    match parse_reply(composed, &limits) {
        ReplyOutcome::Reply { reply, .. } => Some(reply),
        ReplyOutcome::Incomplete { .. } | ReplyOutcome::Malformed => None,
    }
}

/// What is kept, as the application wants to see the answer to this `mg`.
pub(crate) fn answered(
    (shown_as, rename): (Show, Option<&Rename>),
    question: &[u8],
    (kept_answer, kept): (Answer, Option<&[u8]>),
) -> Answered {
    let mut composed = Vec::new();
    compose(&mut composed, question, kept_answer, kept);
    let mut answered = Answered::miss();
    let out = &mut answered.bytes;
    if let Some(reply) = parse(&composed)
        && let Ok(tally) = show::compose(out, shown_as, rename, question, &reply, &composed)
    {
        answered.tally = tally;
    }
    answered
}
