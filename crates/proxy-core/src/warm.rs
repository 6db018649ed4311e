//! Pools that are warmed from a former one, in words: steps as requests, replies as what an operation hears, and what an application is
//! shown of an item that was fetched. Pure text to text.
//!
//! What is asked when, and why, is decided in [`warm`](evenkeel_schemes::warm).

use crate::composed::{announced, parse_own};
use crate::operations::Fetched;
use crate::routes::Rename;
use crate::show;
use crate::show::kinds::{Show, Verb};
use crate::stats::counters::Tally;
use evenkeel_protocol::compose::{MetaLine, answer, request as ask};
use evenkeel_protocol::{
    KeyScratch, Limits, Meta, MetaReply, MetaStatus, Reply, ReplyOutcome, Request, SentKey,
    StoreMode, parse_reply, text,
};
use evenkeel_schemes::mark;
use evenkeel_schemes::warm::{Command, Heard, Wish};
use evenkeel_types::limits::EXPTIME_RELATIVE_MAX_S;
use evenkeel_types::{UnixSeconds, Version};

/// What a step is put into words with.
pub(crate) struct Words<'a> {
    /// As it is stored.
    pub key: &'a [u8],
    pub fetched: Option<&'a Fetched>,
    /// Our own flags.
    pub route: &'a [u8],
    /// Of a placeholder.
    pub nonce: u64,
    pub unix: UnixSeconds,
    /// What is fetched is copied, with its unique.
    pub is_fill: bool,
}

/// Bytes of a step besides its key and value, at most: a command, six flags of which three are numbers, and our own.
const STEP_LEN_MAX: usize = 128;

impl Words<'_> {
    /// Bytes of a request at most, but for a key in base64.
    pub fn len_max(&self) -> usize {
        let value = self
            .fetched
            .map_or(mark::LEN, |fetched| fetched.value.len());
        STEP_LEN_MAX + self.key.len() + value
    }

    /// Appends a step's request. How many bytes it has behind our own flags.
    pub fn compose(&self, command: Command, out: &mut Vec<u8>) -> usize {
        let mut encoded = Vec::new();
        // What came here as a key fits into a line.
        let key = SentKey::of(self.key, &mut encoded).unwrap_or(SentKey::plain(self.key));
        let value = match command {
            Command::Place => self.place(out, key, |line| line.token(b'M', b"E")),
            Command::TakeOver(unique) => self.place(out, key, |line| line.number(b'C', unique)),
            Command::Store(unique) => self.store(out, key, unique),
            Command::Look => {
                let line = announced(ask::meta_get(out, key), key)
                    .flag(b'c')
                    .flag(b'f');
                line.raw(self.route).end();
                0
            }
            Command::Fetch => {
                let line = announced(ask::meta_get(out, key), key);
                let line = line.flag(b'v').flag(b'f').flag(b't');
                let line = if self.is_fill { line.flag(b'c') } else { line };
                line.raw(self.route).end();
                0
            }
            Command::Remove(unique) => {
                let line = announced(ask::meta_delete(out, key), key).number(b'C', unique);
                line.raw(self.route).end();
                0
            }
            Command::Clear => {
                let line = announced(ask::meta_delete(out, key), key);
                line.raw(self.route).end();
                0
            }
            // The application has words of its own.
            Command::Own(_) => 0,
        };
        value + text::CRLF.len()
    }

    fn place(
        &self,
        out: &mut Vec<u8>,
        key: SentKey<'_>,
        condition: impl FnOnce(MetaLine<'_>) -> MetaLine<'_>,
    ) -> usize {
        let value = mark::placeholder(self.nonce);
        let line = announced(ask::meta_set(out, key, value.len()), key).flag(b'c');
        let line = condition(line).number(b'F', mark::FLAGS);
        let line = line.number(b'T', mark::PLACEHOLDER_EXPTIME_SECS);
        line.raw(self.route).end_with(&value);
        value.len() + text::CRLF.len()
    }

    fn store(&self, out: &mut Vec<u8>, key: SentKey<'_>, unique: u64) -> usize {
        let Some(fetched) = self.fetched else {
            return 0;
        };
        let line = announced(ask::meta_set(out, key, fetched.value.len()), key).flag(b'c');
        let line = line.number(b'C', unique).number(b'F', fetched.flags);
        let line = line.number(b'T', exptime(fetched.ttl, self.unix));
        line.raw(self.route).end_with(&fetched.value);
        fetched.value.len() + text::CRLF.len()
    }
}

/// The exptime of an item that has this long to live: as a Unix time where that is longer than an exptime can say otherwise.
fn exptime(ttl: Option<u64>, unix: UnixSeconds) -> i64 {
    let Some(ttl) = ttl.map(|ttl| i64::try_from(ttl).unwrap_or(i64::MAX)) else {
        return 0;
    };
    match ttl > EXPTIME_RELATIVE_MAX_S {
        true => ttl.saturating_add(unix.into()),
        false => ttl,
    }
}

/// The client flags that a reply tells, if it does.
pub(crate) fn flags_of(reply: &MetaReply<'_>) -> Option<u32> {
    let flags = reply.flags.unsigned(b'f')?;
    u32::try_from(flags).ok()
}

/// Whether a reply says that the item is somebody's to replace.
pub(crate) fn is_stale(reply: &MetaReply<'_>) -> bool {
    b"WXZ".iter().any(|&letter| reply.flags.has(letter))
}

/// Whether a reply shows that a mark is there.
pub(crate) fn is_marked(reply: &MetaReply<'_>) -> bool {
    flags_of(reply).is_some_and(mark::is_mark)
}

/// What a step has come to. `None` where that is no answer to it.
pub(crate) fn heard_of_step(command: Command, reply: &MetaReply<'_>) -> Option<Heard> {
    use MetaStatus::{Done, Exists, Miss, NotFound, NotStored, Value};
    let unique = reply.flags.unsigned(b'c');
    Some(match (command, reply.status) {
        (Command::Look, Done | Value) if is_marked(reply) => Heard::Mark(unique?),
        (Command::Look, Done | Value) => Heard::Item(unique?),
        // A mark that is left over from an earlier change is nobody's item, and what ends now is none.
        (Command::Fetch, Value) if is_marked(reply) || is_ending(reply) => Heard::Nothing,
        (Command::Fetch, Value) => Heard::Item(0),
        (Command::Look | Command::Fetch, Miss) => Heard::Nothing,
        (Command::Place | Command::TakeOver(_) | Command::Store(_), Done) => Heard::Done(unique?),
        (
            Command::Place | Command::TakeOver(_) | Command::Store(_),
            NotStored | Exists | NotFound,
        ) => Heard::Refused,
        (Command::Remove(_) | Command::Clear, Done) => Heard::Done(0),
        (Command::Remove(_) | Command::Clear, NotFound) => Heard::Nothing,
        (Command::Remove(_), Exists) => Heard::Refused,
        _ => return None,
    })
}

fn is_ending(reply: &MetaReply<'_>) -> bool {
    reply.flags.token(b't') == Some(b"0")
}

/// What was fetched.
pub(crate) fn fetched(reply: &MetaReply<'_>) -> Fetched {
    Fetched {
        flags: flags_of(reply).unwrap_or(0),
        // `t-1` is for ever.
        ttl: reply.flags.unsigned(b't'),
        value: reply.value.unwrap_or_default().to_vec(),
    }
}

/// What an application's own command has come to, which was asked under a condition of ours or not.
pub(crate) fn heard_of_own(wish: Wish, is_bound: bool, reply: &Reply<'_>) -> Heard {
    let Reply::Meta(meta) = reply else {
        // An error, which is shown.
        return Heard::Done(0);
    };
    match (wish, meta.status) {
        (Wish::Change, MetaStatus::Exists) if is_bound => Heard::Refused,
        (Wish::Add, MetaStatus::NotStored) => Heard::Refused,
        (Wish::Touch | Wish::Read | Wish::ReadHere, _) if is_marked(meta) => {
            Heard::Mark(meta.flags.unsigned(b'c').unwrap_or(0))
        }
        _ => Heard::Done(0),
    }
}

/// What a request that may change something wants, and itself.
pub(crate) fn wish_of(bytes: &[u8]) -> Option<(Wish, Meta<'_>)> {
    let request = parse_own(bytes)?;
    let (wish, meta) = match request {
        // Its condition is the application's.
        Request::MetaSet(meta) | Request::MetaDelete(meta) | Request::MetaArithmetic(meta)
            if meta.flags.has(b'C') =>
        {
            (Wish::Touch, meta)
        }
        Request::MetaSet(meta) => {
            let wish = match meta.flags.store_mode() {
                StoreMode::Set => Wish::Overwrite,
                StoreMode::Add => Wish::Add,
                StoreMode::Replace | StoreMode::Append | StoreMode::Prepend => Wish::Change,
            };
            (wish, meta)
        }
        // What is only made stale, or emptied, is there all the same.
        Request::MetaDelete(meta) if meta.flags.has(b'I') || meta.flags.has(b'x') => {
            (Wish::Change, meta)
        }
        Request::MetaDelete(meta) => (Wish::Overwrite, meta),
        Request::MetaArithmetic(meta) => (Wish::Change, meta),
        Request::MetaGet(meta) => (Wish::Touch, meta),
        _ => return None,
    };
    Some((wish, meta))
}

/// Flags of an `mg` of which what was fetched tells all.
const SHOWN_OF_FETCHED: &[u8] = b"bcfkOqstv";

/// What a read wants, and its key as it is stored.
pub(crate) fn wish_of_read<'k>(
    show: Show,
    question: &'k [u8],
    scratch: &'k mut KeyScratch,
) -> Option<(Wish, &'k [u8])> {
    if let Show::Value { .. } = show {
        return Some((Wish::Read, show::key_of(question)));
    }
    let Some(Request::MetaGet(meta)) = parse_own(question) else {
        return None;
    };
    let mut letters = meta.flags.iter().map(|(letter, _)| letter);
    let wish = match show {
        Show::Binary(_) => Wish::Read,
        Show::Meta {
            verb: Verb::Get, ..
        } if letters.all(|letter| SHOWN_OF_FETCHED.contains(&letter)) => Wish::Read,
        _ => Wish::ReadHere,
    };
    Some((wish, meta.key.decode(scratch)))
}

/// What the application gets of an item that was fetched, with the unique that it has here, or without any.
pub(crate) fn shown_as(
    (show, rename): (Show, Option<&Rename>),
    question: &[u8],
    found: Option<(&Fetched, u64)>,
) -> (Vec<u8>, Tally) {
    let mut bytes = Vec::new();
    if let (Show::Value { with_cas, .. }, None) = (show, rename) {
        let Some((fetched, unique)) = found else {
            return (bytes, Tally::GetMiss);
        };
        let unique = with_cas.then_some(Version(unique));
        let (key, value) = (show::key_of(question), &fetched.value);
        bytes.reserve(STEP_LEN_MAX + key.len() + value.len());
        answer::value(&mut bytes, key, fetched.flags, value, unique);
        return (bytes, Tally::GetHit);
    }
    let mut reply = Vec::new();
    match (found, parse_own(question)) {
        (Some((fetched, unique)), Some(Request::MetaGet(meta))) => {
            reply_of_fetched(&mut reply, &meta, fetched, unique);
        }
        _ if matches!(show, Show::Meta { .. }) => {
            show::compose_miss(&mut bytes, show, rename, question);
            return (bytes, Tally::GetMiss);
        }
        _ => reply.extend_from_slice(text::META_MISS),
    }
    let limits = Limits {
        item_size_max: reply.len(),
        ..Limits::default()
    };
    let tally = match parse_reply(&reply, &limits) {
        ReplyOutcome::Reply { reply: said, .. } => {
            show::compose(&mut bytes, show, rename, question, &said, &reply)
        }
        _ => Err(show::Unfit),
    };
    (bytes, tally.unwrap_or(Tally::GetMiss))
}

/// What a server that has the item would answer.
fn reply_of_fetched(out: &mut Vec<u8>, meta: &Meta<'_>, fetched: &Fetched, unique: u64) {
    let shows_value = meta.flags.has(b'v');
    let line = match shows_value {
        true => answer::meta_value(out, fetched.value.len()),
        false => answer::meta(out, MetaStatus::Done),
    };
    let flags = meta.flags.iter();
    let line = flags.fold(line, |line, (letter, token)| match letter {
        b'b' => line.flag(b'b'),
        b'c' => line.number(b'c', unique),
        b'f' => line.number(b'f', fetched.flags),
        b'k' => line.token(b'k', meta.key.text),
        b'O' => line.token(b'O', token),
        b's' => line.number(b's', fetched.value.len() as u64),
        b't' => match fetched.ttl {
            Some(ttl) => line.number(b't', ttl),
            None => line.token(b't', b"-1"),
        },
        _ => line,
    });
    match shows_value {
        true => line.end_with(&fetched.value),
        false => line.end(),
    }
}

/// Whether a reply tells a CAS unique.
pub(crate) fn has_unique(reply: &Reply<'_>) -> bool {
    matches!(reply, Reply::Meta(meta) if meta.flags.has(b'c'))
}

/// Takes a reply with its unique combined with a mask (exclusive or).
pub(crate) fn with_masked_unique(
    raw: &[u8],
    mask: u64,
    take: impl FnOnce(&Reply<'_>, &[u8]) -> Result<(), show::Unfit>,
) -> Result<(), show::Unfit> {
    let mut masked = raw.to_vec();
    mask_unique(&mut masked, (0, 1), b'c', mask);
    let limits = Limits {
        item_size_max: masked.len(),
        ..Limits::default()
    };
    match parse_reply(&masked, &limits) {
        ReplyOutcome::Reply { reply, .. } => take(&reply, &masked),
        _ => Err(show::Unfit),
    }
}

/// The unique that a command is to meet, which begins at `start`, is combined with a mask (exclusive or), as it was where it was shown.
/// By how many bytes the command is longer then.
pub(crate) fn mask_condition(bytes: &mut Vec<u8>, start: usize, mask: u64) -> isize {
    let words = if bytes[start..].starts_with(b"ms ") {
        3
    } else {
        2
    };
    mask_unique(bytes, (start, words), b'C', mask)
}

/// Combines the unique in the flag with this letter with a mask. The flags stand behind this many words of the line that begins there.
fn mask_unique(
    bytes: &mut Vec<u8>,
    (start, words): (usize, usize),
    letter: u8,
    mask: u64,
) -> isize {
    let line = bytes[start..]
        .split(|byte| *byte == b'\r')
        .next()
        .unwrap_or_default();
    let mut start = start;
    for (at, word) in line.split(|byte| *byte == b' ').enumerate() {
        let end = start + word.len();
        let number = word.strip_prefix(&[letter]);
        let number = number.and_then(|number| core::str::from_utf8(number).ok()?.parse().ok());
        if let Some(unique) = number.filter(|_| at >= words) {
            let unique: u64 = unique;
            let masked = format!("{}{}", char::from(letter), unique ^ mask);
            let more = masked.len() as isize - word.len() as isize;
            bytes.splice(start..end, masked.into_bytes());
            return more;
        }
        start = end + 1;
    }
    0
}

/// The flag that an item is to have this unique, behind a space.
pub(crate) fn condition_on(unique: u64) -> Vec<u8> {
    [b" C", itoa::Buffer::new().format(unique).as_bytes()].concat()
}

/// Takes a reply as if it had another status.
pub(crate) fn with_status(
    raw: &[u8],
    status: &[u8; 2],
    take: impl FnOnce(&Reply<'_>, &[u8]) -> Result<(), show::Unfit>,
) -> Result<(), show::Unfit> {
    let raw = [status, raw.get(2..).unwrap_or_default()].concat();
    match parse_reply(&raw, &Limits::default()) {
        ReplyOutcome::Reply { reply, .. } => take(&reply, &raw),
        _ => Err(show::Unfit),
    }
}
