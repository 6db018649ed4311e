//! The same answers as packets of the binary protocol.
//!
//! Servers are never asked in it: it has no room for the extension, and some no longer speak it. What
//! they say in text is worded here. The opcode as the application sent it says what an answer has to
//! tell, and whether it is left out: a quiet read tells hits alone, any other quiet command failures
//! alone.

use crate::composed::without_newline;
use crate::failure::{DENIED, NO_CAS_ELSEWHERE, NO_META, READ_ONLY};
use crate::routes::Rename;
use crate::show::{Unfit, key_of, version};
use crate::stats::counters::Tally;
use evenkeel_protocol::binary::{Echo, Opcode, Status, answer};
use evenkeel_protocol::{KeyScratch, MetaReply, MetaStatus, Reply, SentKey, text};

/// Whether a command is one that a value answers.
pub(crate) fn is_get(echo: Echo) -> bool {
    let (loud, _) = echo.opcode.loud();
    matches!(
        loud,
        Opcode::GET | Opcode::GETK | Opcode::GAT | Opcode::GATK
    )
}

/// As [`compose`](super::compose), for a reply that is no error.
pub(crate) fn compose(
    out: &mut Vec<u8>,
    echo: Echo,
    rename: Option<&Rename>,
    question: &[u8],
    reply: &Reply<'_>,
) -> Result<Tally, Unfit> {
    let (loud, _) = echo.opcode.loud();
    match loud {
        Opcode::GET | Opcode::GETK | Opcode::GAT | Opcode::GATK => {
            read(out, echo, rename, question, reply)
        }
        Opcode::SET | Opcode::ADD | Opcode::REPLACE | Opcode::APPEND | Opcode::PREPEND => {
            store(out, echo, question, reply)
        }
        Opcode::DELETE => delete(out, echo, reply),
        Opcode::INCREMENT | Opcode::DECREMENT => arithmetic(out, echo, reply),
        Opcode::TOUCH => touch(out, echo, reply),
        _ => Err(Unfit),
    }
}

/// Says in binary what went wrong, told in a line of text.
pub(crate) fn refuse(out: &mut Vec<u8>, echo: Echo, line: &[u8]) {
    let known: [(&[u8], Status); 6] = [
        (text::ERROR, Status::UnknownCommand),
        (text::NON_NUMERIC, Status::NonNumeric),
        (text::TOO_LARGE, Status::TooLarge),
        (text::OUT_OF_MEMORY, Status::OutOfMemory),
        (text::FLUSH_NOT_ALLOWED, Status::AuthError),
        (text::BAD_FORMAT, Status::InvalidArguments),
    ];
    if let Some((_, status)) = known.iter().find(|(words, _)| *words == line) {
        return answer::error(out, echo, *status);
    }
    let status = if [DENIED, READ_ONLY, NO_META, NO_CAS_ELSEWHERE].contains(&line) {
        Status::NotSupported
    } else if line.starts_with(b"CLIENT_ERROR ") {
        Status::InvalidArguments
    } else {
        Status::Internal
    };
    let words = without_newline(line);
    let words = words.strip_prefix(b"CLIENT_ERROR ").unwrap_or(words);
    let words = words.strip_prefix(b"SERVER_ERROR ").unwrap_or(words);
    answer::error_with(out, echo, status, words);
}

/// What a read is answered that found nothing. `question` is our own, about this key alone if the
/// answer has to repeat it.
pub(crate) fn miss(out: &mut Vec<u8>, echo: Echo, rename: Option<&Rename>, question: &[u8]) {
    match echo.opcode.loud() {
        (_, true) => {}
        (Opcode::GETK | Opcode::GATK, _) => {
            answer::miss_with_key(out, echo, &key_asked(question, rename));
        }
        _ => answer::error(out, echo, Status::NotFound),
    }
}

/// The answer to `flush` once all servers have executed it.
pub(crate) fn flushed(echo: Echo) -> Vec<u8> {
    let mut out = Vec::new();
    finish(&mut out, echo, Status::Success, 0);
    out
}

/// The key that a read asks for, under the application's name.
fn key_asked(question: &[u8], rename: Option<&Rename>) -> Vec<u8> {
    let line = without_newline(question);
    let (key, base64) = match line.strip_prefix(b"mg ") {
        Some(rest) => {
            let key = key_of(line);
            (key, rest[key.len()..].starts_with(b" b "))
        }
        // `gets` or `gats`.
        None => {
            let at = line.iter().rposition(|&byte| byte == b' ');
            (&line[at.map_or(0, |at| at + 1)..], false)
        }
    };
    let mut scratch = KeyScratch::default();
    let key = SentKey { text: key, base64 }.decode(&mut scratch);
    outside(key, rename)
}

/// A key that servers know by another name.
fn outside(key: &[u8], rename: Option<&Rename>) -> Vec<u8> {
    let mut outside = Vec::new();
    match rename {
        Some(rename) => rename.to_outside(key, &mut outside),
        None => outside.extend_from_slice(key),
    }
    outside
}

fn read(
    out: &mut Vec<u8>,
    echo: Echo,
    rename: Option<&Rename>,
    question: &[u8],
    reply: &Reply<'_>,
) -> Result<Tally, Unfit> {
    let (flags, data, cas) = match reply {
        Reply::Value(value) => (value.flags, value.data, value.cas),
        Reply::Meta(MetaReply {
            status: MetaStatus::Value,
            value: Some(data),
            flags,
        }) => (client_flags(flags.unsigned(b'f'))?, *data, version(reply)),
        Reply::Meta(MetaReply {
            status: MetaStatus::Miss,
            ..
        }) => {
            miss(out, echo, rename, question);
            return Ok(Tally::GetMiss);
        }
        _ => return Err(Unfit),
    };
    let cas = cas.ok_or(Unfit)?.0;
    match (echo.opcode.loud().0, reply) {
        (Opcode::GETK | Opcode::GATK, Reply::Value(value)) => {
            let key = outside(value.key, rename);
            answer::hit(out, echo, flags, &key, data, cas);
        }
        (Opcode::GETK | Opcode::GATK, _) => {
            let key = key_asked(question, rename);
            answer::hit(out, echo, flags, &key, data, cas);
        }
        _ => answer::hit(out, echo, flags, b"", data, cas),
    }
    Ok(Tally::GetHit)
}

fn store(
    out: &mut Vec<u8>,
    echo: Echo,
    question: &[u8],
    reply: &Reply<'_>,
) -> Result<Tally, Unfit> {
    use MetaStatus::{Done, Exists, NotFound, NotStored};
    let (status, tally, of_cas) = match reply {
        Reply::Stored | Reply::Meta(MetaReply { status: Done, .. }) => {
            (Status::Success, Tally::Stored, Tally::CasHit)
        }
        Reply::NotStored
        | Reply::Meta(MetaReply {
            status: NotStored, ..
        }) => (not_stored(echo), Tally::NotStored, Tally::NotStored),
        Reply::Exists | Reply::Meta(MetaReply { status: Exists, .. }) => {
            (Status::Exists, Tally::Exists, Tally::CasBad)
        }
        Reply::NotFound
        | Reply::Meta(MetaReply {
            status: NotFound, ..
        }) => (Status::NotFound, Tally::NotFound, Tally::CasMiss),
        _ => return Err(Unfit),
    };
    finish(out, echo, status, cas_of(reply));
    Ok(if compares(question) { of_cas } else { tally })
}

/// What the mode of a storage command says when its condition did not hold.
fn not_stored(echo: Echo) -> Status {
    match echo.opcode.loud().0 {
        Opcode::ADD => Status::Exists,
        Opcode::APPEND | Opcode::PREPEND => Status::NotStored,
        _ => Status::NotFound,
    }
}

fn delete(out: &mut Vec<u8>, echo: Echo, reply: &Reply<'_>) -> Result<Tally, Unfit> {
    use MetaStatus::{Done, Exists, NotFound};
    let (status, tally) = match reply {
        Reply::Deleted | Reply::Meta(MetaReply { status: Done, .. }) => {
            (Status::Success, Tally::DeleteHit)
        }
        Reply::NotFound
        | Reply::Meta(MetaReply {
            status: NotFound, ..
        }) => (Status::NotFound, Tally::DeleteMiss),
        Reply::Meta(MetaReply { status: Exists, .. }) => (Status::Exists, Tally::Exists),
        _ => return Err(Unfit),
    };
    finish(out, echo, status, 0);
    Ok(tally)
}

fn arithmetic(out: &mut Vec<u8>, echo: Echo, reply: &Reply<'_>) -> Result<Tally, Unfit> {
    use MetaStatus::{Exists, NotFound, NotStored};
    let (loud, quiet) = echo.opcode.loud();
    let up = loud == Opcode::INCREMENT;
    let number = match reply {
        Reply::Number(number) => Ok(*number),
        Reply::Meta(MetaReply {
            value: Some(digits),
            ..
        }) => {
            let digits = core::str::from_utf8(digits).map_err(|_| Unfit)?;
            Ok(digits.parse().map_err(|_| Unfit)?)
        }
        Reply::NotFound
        | Reply::Meta(MetaReply {
            status: NotFound, ..
        }) => Err(Status::NotFound),
        Reply::Meta(MetaReply { status: Exists, .. }) => Err(Status::Exists),
        Reply::Meta(MetaReply {
            status: NotStored, ..
        }) => Err(Status::NotStored),
        _ => return Err(Unfit),
    };
    match number {
        Ok(_) if quiet => {}
        Ok(number) => answer::number(out, echo, number, cas_of(reply)),
        Err(status) => answer::error(out, echo, status),
    }
    Ok(match (number, up) {
        (Ok(_), true) => Tally::IncrHit,
        (Ok(_), false) => Tally::DecrHit,
        (Err(Status::NotFound), true) => Tally::IncrMiss,
        (Err(Status::NotFound), false) => Tally::DecrMiss,
        (Err(_), _) => Tally::NotStored,
    })
}

fn touch(out: &mut Vec<u8>, echo: Echo, reply: &Reply<'_>) -> Result<Tally, Unfit> {
    use MetaStatus::{Done, Miss};
    match reply {
        Reply::Meta(MetaReply {
            status: Done,
            flags,
            ..
        }) => {
            let flags = client_flags(flags.unsigned(b'f'))?;
            answer::hit(out, echo, flags, b"", b"", cas_of(reply));
            Ok(Tally::TouchHit)
        }
        // A server without meta commands does not say what it has touched.
        Reply::Touched => {
            answer::done(out, echo, 0);
            Ok(Tally::TouchHit)
        }
        Reply::NotFound | Reply::Meta(MetaReply { status: Miss, .. }) => {
            answer::error(out, echo, Status::NotFound);
            Ok(Tally::TouchMiss)
        }
        _ => Err(Unfit),
    }
}

/// Success is not told to those who asked quietly.
fn finish(out: &mut Vec<u8>, echo: Echo, status: Status, cas: u64) {
    match (status, echo.opcode.loud()) {
        (Status::Success, (_, true)) => {}
        (Status::Success, _) => answer::done(out, echo, cas),
        (status, _) => answer::error(out, echo, status),
    }
}

/// The item's CAS unique, or 0 where the server does not tell it.
fn cas_of(reply: &Reply<'_>) -> u64 {
    version(reply).map_or(0, |version| version.0)
}

fn client_flags(number: Option<u64>) -> Result<u32, Unfit> {
    let flags = number.and_then(|number| u32::try_from(number).ok());
    flags.ok_or(Unfit)
}

/// Whether a storage command of ours compares CAS uniques.
fn compares(question: &[u8]) -> bool {
    let line = question.split(|&byte| byte == b'\n').next();
    let line = line.unwrap_or_default();
    let mut flags = line.split(|&byte| byte == b' ').skip(3);
    line.starts_with(b"cas ")
        || line.starts_with(b"ms ") && flags.any(|flag| flag.first() == Some(&b'C'))
}
