//! `mg` of hot keys.
//!
//! An `mg` that wants the value, and nothing that only the key's own server knows, goes to a copy as a `get`
//! does. It is asked in its own words with another name in front of the key, and what the copy says of
//! name and CAS unique is replaced by what the home would say. At the home it is asked besides for what the
//! next one may need: the unique, and with a value its client flags. The application does not see those.

use crate::answer::copies::{fill_copies, found};
use crate::composed::parse_own;
use crate::ids::{BackendId, PoolId};
use crate::pipe::backend::Peer;
use crate::pipe::in_flight::Ask;
use crate::pool::Pool;
use crate::worker::ProxyCore;
use evenkeel_hotkeys::client::{Answer, ReadTicket};
use evenkeel_hotkeys::plain::{NAME_PREFIX_LEN, Wants};
use evenkeel_protocol::compose::number;
use evenkeel_protocol::{KeyScratch, MetaFlags, MetaReply, MetaStatus, Reply, Request};
use evenkeel_types::{Epoch, Instant, KeyHash};

/// The key of the awaited question, if it is an `mg` of a hot key at its home.
#[inline]
pub(crate) fn hot_key_of_mg(core: &mut ProxyCore, id: BackendId) -> Option<(PoolId, Vec<u8>)> {
    if !core.pools.watches() {
        return None;
    }
    let backend = core.backends.get_mut(id)?;
    if backend.peer != Peer::Memcached {
        return None;
    }
    let (question, request) = backend.awaited()?;
    let tag = request.tag;
    // Only what is tracked has a hash.
    if tag.hash == KeyHash(0) || tag.is_replica || tag.ask != Ask::Single {
        return None;
    }
    let Some(Request::MetaGet(meta)) = parse_own(question) else {
        return None;
    };
    let mut scratch = KeyScratch::default();
    Some((tag.pool, meta.key.decode(&mut scratch).to_vec()))
}

/// Stores the copies that lack the value that the home has just answered to an `mg`.
pub(crate) fn fill_from_mg(
    core: &mut ProxyCore,
    now: Instant,
    pool: PoolId,
    key: &[u8],
    reply: &Reply<'_>,
) {
    if let Reply::Meta(MetaReply {
        value: Some(value),
        flags,
        ..
    }) = reply
        && let Some(flags) = flags.unsigned(b'f').and_then(|flags| flags.try_into().ok())
    {
        fill_copies(core, now, pool, key, flags, value);
    }
}

/// What the answer to an `mg` of a plain pool's key counts, whose question this was. That of a copy which
/// counts is given back with what the home would say, whose text is put into `said`.
pub(crate) fn answer_of_mg<'r>(
    pool: Option<&mut Pool>,
    era: Epoch,
    ticket: &ReadTicket,
    (question, is_replica): (&[u8], bool),
    reply: &Reply<'r>,
    said: &'r mut Vec<u8>,
) -> (Answer, Option<Reply<'r>>) {
    let (Some(pool), Reply::Meta(meta)) = (pool, reply) else {
        return (Answer::Failed, None);
    };
    let Some(hot) = &mut pool.hot else {
        return (Answer::Failed, None);
    };
    let Some(Request::MetaGet(asked)) = parse_own(question) else {
        return (Answer::Failed, None);
    };
    let mut scratch = KeyScratch::default();
    let key = asked.key.decode(&mut scratch);
    if !is_replica {
        let is_current = pool.leases.is_of(era, ticket);
        return (
            hot.answer_of_home(is_current, ticket, key, found(reply)),
            None,
        );
    }
    let Some((name, _)) = key.split_at_checked(NAME_PREFIX_LEN) else {
        return (Answer::Failed, None);
    };
    let is_found = meta.status == MetaStatus::Value;
    let (answer, cas) = hot.answer_of_copy(ticket, name, is_found, Wants::META);
    let (Answer::Hit(_), Some(cas)) = (answer, cas) else {
        return (answer, None);
    };
    for (letter, token) in meta.flags {
        said.push(b' ');
        said.push(letter);
        match letter {
            b'c' => number(said, cas.0),
            b'k' => said.extend_from_slice(token.get(NAME_PREFIX_LEN..).unwrap_or_default()),
            _ => said.extend_from_slice(token),
        }
    }
    let meta = MetaReply {
        flags: MetaFlags::of_reply(said),
        ..*meta
    };
    (answer, Some(Reply::Meta(meta)))
}
