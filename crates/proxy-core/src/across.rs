//! Commands between racks, in words: steps as requests, replies as what a command hears, and what an application is told where its own
//! command was not asked. Pure text to text.
//!
//! What is asked when, and why, is decided in [`holder`](evenkeel_schemes::locality::holder).

use crate::composed::{announced, line_end, parse_own};
use crate::made::Made;
use crate::operations::Fetched;
use crate::pipe::in_flight::{Ask, Question};
use crate::warm::{self, condition_on, is_marked, mask_condition};
use evenkeel_protocol::compose::{MetaLine, answer, request as ask};
use evenkeel_protocol::{
    FLAG_COUNT_MAX_MS, KeyScratch, MetaReply, MetaStatus, Reply, Request, SentKey, text,
};
use evenkeel_schemes::locality::holder::{Command, Heard, Kind, Over, Wish};
use evenkeel_schemes::locality::local_copies::{EXPTIME_SECS, tag};
use evenkeel_schemes::locality::topology::RackId;
use evenkeel_schemes::mark::{self, Copied};
use evenkeel_schemes::warm as former;

/// What a step is put into words with.
pub(crate) struct Words<'a> {
    /// What the key is called there.
    pub name: &'a [u8],
    /// Of a lock.
    pub nonce: u64,
    /// What stands for a rack that a note names.
    pub token: u64,
    /// A look is to tell which rack a note names, and not only that there is a mark.
    pub reads_notes: bool,
    /// What a note has behind it, and by which of the two the pool goes, where a copy is kept.
    pub copies: Option<(&'a Fetched, Kind)>,
}

impl Words<'_> {
    /// A step's request. Nothing for the application's own command and for what brings an item, which have words of their own.
    pub fn compose(&self, command: Command) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoded = Vec::new();
        // What came here as a key fits into a line.
        let name = SentKey::of(self.name, &mut encoded).unwrap_or(SentKey::plain(self.name));
        match command {
            Command::Look => {
                let line = announced(ask::meta_get(&mut out, name), name);
                let line = match self.reads_notes {
                    true => line.flag(b'v'),
                    false => line,
                };
                // It is no use of the item.
                line.flag(b'f').flag(b'c').flag(b'u').end();
            }
            Command::Lock => {
                let value = mark::lock(self.nonce);
                let exptime = mark::PLACEHOLDER_EXPTIME_SECS;
                put(&mut out, name, &value, exptime, |line| {
                    line.token(b'M', b"E")
                });
            }
            Command::Note(_, over) => {
                let (value, exptime) = self.note();
                put(&mut out, name, &value, exptime, |line| match over {
                    Over::Anything => line,
                    Over::Nothing => line.token(b'M', b"E"),
                    Over::Unique(unique) => line.number(b'C', unique),
                });
            }
            Command::Delete(condition) => {
                let line = announced(ask::meta_delete(&mut out, name), name);
                match condition {
                    Some(unique) => line.number(b'C', unique).end(),
                    None => line.end(),
                }
            }
            Command::Fetch | Command::Own(_) => {}
        }
        out
    }

    /// A note, and how long it lives.
    fn note(&self) -> (Vec<u8>, i64) {
        let Some((item, kind)) = self.copies else {
            return (mark::note(self.token).to_vec(), mark::NOTE_EXPTIME);
        };
        let copied = Copied {
            rack: self.token,
            tag: tag(item.flags, &item.value),
            flags: item.flags,
            value: &item.value,
        };
        let exptime = match kind {
            // Without a note the item would not be found.
            Kind::Snoop => mark::NOTE_EXPTIME,
            Kind::Directory => EXPTIME_SECS,
        };
        (copied.to_bytes(), exptime)
    }
}

fn put(
    out: &mut Vec<u8>,
    name: SentKey<'_>,
    value: &[u8],
    exptime: i64,
    condition: impl FnOnce(MetaLine<'_>) -> MetaLine<'_>,
) {
    let line = announced(ask::meta_set(out, name, value.len()), name).flag(b'c');
    let line = condition(line).number(b'F', mark::FLAGS);
    line.number(b'T', exptime).end_with(value);
}

/// The application's own command, as it is asked where uniques are combined with a mask: on condition of a unique, where one is given. And how
/// it is answered.
pub(crate) fn own(
    question: &Question,
    wish: Wish,
    condition: Option<u64>,
    mask: u64,
) -> (Vec<u8>, Ask) {
    if let (Wish::Add, Some(unique), Some(mut made)) = (wish, condition, Made::of(&question.bytes))
    {
        let mut bytes = Vec::new();
        made.store(&mut bytes, unique);
        return (bytes, Ask::Single);
    }
    let mut bytes = question.bytes.clone();
    match condition {
        Some(unique) => {
            if wish == Wish::Add {
                // What it stores in place of is there.
                remove_mode(&mut bytes);
            }
            if wish == Wish::Set && !tells_unique(&bytes) {
                add(&mut bytes, b" c");
            }
            add(&mut bytes, &condition_on(unique));
        }
        // Where it has one of its own, the application has seen it combined.
        None => {
            mask_condition(&mut bytes, 0, mask);
        }
    }
    (bytes, question.tag.ask)
}

/// Whether an `ms` asks for its unique, or has no room for more flags.
fn tells_unique(bytes: &[u8]) -> bool {
    match parse_own(bytes) {
        Some(Request::MetaSet(meta)) => {
            meta.flags.has(b'c') || meta.flags.iter().count() + 2 > FLAG_COUNT_MAX_MS
        }
        _ => true,
    }
}

/// Adds flags at the end of a command's line.
fn add(bytes: &mut Vec<u8>, flags: &[u8]) {
    let at = line_end(bytes);
    bytes.splice(at..at, flags.iter().copied());
}

/// Takes the mode off an `ms`.
fn remove_mode(bytes: &mut Vec<u8>) {
    let line = bytes.split(|byte| *byte == b'\r').next();
    let mut start = 0;
    let mut mode = None;
    for (at, word) in line
        .unwrap_or_default()
        .split(|byte| *byte == b' ')
        .enumerate()
    {
        let end = start + word.len();
        if at >= 3 && word.first() == Some(&b'M') {
            mode = Some(start - 1..end);
        }
        start = end + 1;
    }
    if let Some(mode) = mode {
        bytes.drain(mode);
    }
}

/// What an item or mark is, by the reply that shows it. `noted` says to which rack a token leads.
fn seen(meta: &MetaReply<'_>, noted: impl Fn(u64) -> Option<RackId>) -> Heard {
    let unique = meta.flags.unsigned(b'c').unwrap_or(0);
    match is_marked(meta) {
        true => seen_mark(unique, meta.value.unwrap_or_default(), noted),
        false => Heard::Item(unique),
    }
}

/// What a mark with this value is.
pub(crate) fn seen_mark(unique: u64, value: &[u8], noted: impl Fn(u64) -> Option<RackId>) -> Heard {
    match mark::noted(value).and_then(noted) {
        Some(rack) => Heard::Note(unique, rack),
        None => Heard::Lock(unique),
    }
}

/// What a step has come to. `None` where that is no answer to it.
pub(crate) fn heard_of_step(
    command: Command,
    reply: &Reply<'_>,
    noted: impl Fn(u64) -> Option<RackId>,
) -> Option<Heard> {
    use MetaStatus::{Done, Exists, Miss, NotFound, NotStored, Value};
    let Reply::Meta(meta) = reply else {
        return crate::show::is_error(reply).then_some(Heard::Failed);
    };
    Some(match (command, meta.status) {
        (Command::Look, Done | Value) if meta.flags.has(b'c') => seen(meta, noted),
        (Command::Look, Miss) => Heard::Nothing,
        (Command::Lock | Command::Note(..), Done) => Heard::Done(meta.flags.unsigned(b'c')?),
        (Command::Lock | Command::Note(..), NotStored | Exists | NotFound) => Heard::Refused,
        (Command::Delete(_), Done) => Heard::Done(0),
        (Command::Delete(_), NotFound) => Heard::Nothing,
        (Command::Delete(_), Exists) => Heard::Refused,
        _ => return None,
    })
}

/// The step by which an item is brought from the former pool, where that is what is asked.
pub(crate) fn bringing(command: Command, wish: Wish) -> Option<former::Command> {
    match (command, wish) {
        (Command::Fetch, _) => Some(former::Command::Fetch),
        (Command::Own(Some(unique)), Wish::Fill) => Some(former::Command::Store(unique)),
        _ => None,
    }
}

/// What such a step has come to. `None` where that is no answer to it.
pub(crate) fn heard_of_bringing(command: former::Command, reply: &Reply<'_>) -> Option<Heard> {
    let Reply::Meta(meta) = reply else {
        return crate::show::is_error(reply).then_some(Heard::Failed);
    };
    Some(match warm::heard_of_step(command, meta)? {
        former::Heard::Item(unique) => Heard::Item(unique),
        former::Heard::Mark(unique) => Heard::Lock(unique),
        former::Heard::Nothing => Heard::Nothing,
        former::Heard::Done(unique) => Heard::Done(unique),
        former::Heard::Refused => Heard::Refused,
        former::Heard::Failed => Heard::Failed,
    })
}

/// What an application's own command has come to.
pub(crate) fn heard_of_own(
    wish: Wish,
    is_bound: bool,
    reply: &Reply<'_>,
    noted: impl Fn(u64) -> Option<RackId>,
) -> Heard {
    let Reply::Meta(meta) = reply else {
        // An error, which is shown.
        return Heard::Done(0);
    };
    let is_there = matches!(meta.status, MetaStatus::Done | MetaStatus::Value);
    match (wish, meta.status) {
        (Wish::Read, _) if is_there => seen(meta, noted),
        (Wish::Read, _) => Heard::Nothing,
        (Wish::Touch, _) if is_there && is_marked(meta) => seen(meta, noted),
        (_, MetaStatus::Exists) if is_bound => Heard::Refused,
        (Wish::Set | Wish::Add, MetaStatus::NotFound) if is_bound => Heard::Nothing,
        _ => Heard::Done(0),
    }
}

/// What is at the own place of a read, which is no item; `None` where the answer is shown as it is.
pub(crate) fn found_here(
    reply: &MetaReply<'_>,
    noted: impl Fn(u64) -> Option<RackId>,
) -> Option<Heard> {
    match reply.status {
        MetaStatus::Miss => Some(Heard::Nothing),
        MetaStatus::Done | MetaStatus::Value if is_marked(reply) => Some(seen(reply, noted)),
        _ => None,
    }
}

/// What a request that may change something wants, and its key as it is stored. `None` where it is one that cannot be executed
/// between racks: what it would make of nothing is not stored under a lock, or it chooses a unique.
pub(crate) fn wish_of<'k>(
    bytes: &'k [u8],
    scratch: &'k mut KeyScratch,
) -> Option<(Wish, &'k [u8])> {
    let (wish, meta) = warm::wish_of(bytes)?;
    let is_store = bytes.starts_with(b"ms ");
    let wish = match wish {
        former::Wish::Overwrite if is_store => Wish::Set,
        former::Wish::Overwrite => Wish::Delete,
        former::Wish::Add => Wish::Add,
        former::Wish::Change => Wish::Change,
        _ => Wish::Touch,
    };
    // With a condition a set that invalidates stores all the same where that does not hold.
    let invalidates = meta.flags.has(b'I') && is_store && !meta.flags.has(b'C');
    let vivifies = meta.flags.has(b'N') && !bytes.starts_with(b"ma ");
    let can_cross = !vivifies && !meta.flags.has(b'E') && !invalidates;
    can_cross.then(|| (wish, meta.key.decode(scratch)))
}

/// What a command is answered whose key has no item; or, where it `is_there`, one that stores only where nothing is, or that deletes.
pub(crate) fn answer_without(question: &Question, is_there: bool) -> Option<Vec<u8>> {
    let (status, meta) = match parse_own(&question.bytes)? {
        Request::MetaSet(meta) if is_there => (MetaStatus::NotStored, meta),
        Request::MetaSet(meta) if meta.flags.has(b'C') => (MetaStatus::NotFound, meta),
        Request::MetaSet(meta) => (MetaStatus::NotStored, meta),
        Request::MetaDelete(meta) if is_there => (MetaStatus::Done, meta),
        Request::MetaDelete(meta) | Request::MetaArithmetic(meta) => (MetaStatus::NotFound, meta),
        Request::MetaGet(meta) => (MetaStatus::Miss, meta),
        _ => return None,
    };
    let (mut reply, mut scratch) = (Vec::new(), KeyScratch::default());
    let key = meta.key(&mut scratch);
    answer::echo_flags(answer::meta(&mut reply, status), &meta, key).end();
    Some(reply)
}

/// Whether servers say nothing to a quiet command that comes to this.
pub(crate) fn is_hidden(question: &Question, reply: &Reply<'_>) -> bool {
    let is_done = matches!(reply, Reply::Meta(meta) if matches!(meta.status, MetaStatus::Done | MetaStatus::Value));
    question.tag.ask == Ask::Quiet && is_done
}

/// A `get` of one key as a meta command.
pub(crate) fn get(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 16);
    let line = ask::meta_get(&mut out, SentKey::plain(key));
    line.flag(b'v').flag(b'f').flag(b'c').end();
    debug_assert!(out.ends_with(text::CRLF));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_taken_off_and_nothing_else() {
        for (before, after) in [
            ("ms k 1 c ME T0\r\nM\r\n", "ms k 1 c T0\r\nM\r\n"),
            ("ms Mk 1 Me\r\n M\r\n", "ms Mk 1\r\n M\r\n"),
            ("ms M 1 c\r\nM\r\n", "ms M 1 c\r\nM\r\n"),
        ] {
            let mut bytes = before.as_bytes().to_vec();
            remove_mode(&mut bytes);
            assert_eq!(bytes, after.as_bytes(), "{before:?}");
        }
    }
}
