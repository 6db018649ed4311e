//! Asking a request again, at the same place or at another one.
//!
//! Where keys go while their server is out of use is in `pool/elsewhere.rs`.
//!
//! The rule is: a request is put to a server again only if it is a read, or if it certainly was not
//! executed (it was never written whole, or the answer was `MOVED`). Anything else that is not
//! answered may or may not have happened, and the application is told so by an error.
//!
//! A key can be between two owners for a moment: the old one has let go and the new one has not been
//! told yet. Or a server says that the key is at another one by a newer map, and the address that the present map has for that
//! one is of a former life. Requests for it are parked and tried again after a pause or with the next map, until
//! their time is up. Those of one connection are tried one after the other, in the order they were
//! asked: one that is tried under a newer map than the one before it would overtake it. A `flush_all` is for
//! one server and no key, so that it fails where another request would be parked.

use crate::composed::parse_own;
use crate::failure::Failure;
use crate::ids::{BackendId, PoolId};
use crate::pipe::in_flight::{Ask, Question, Tag};
use crate::pool::Servers;
use crate::pool::sent::{GET, GETS, Sent};
use crate::route_flags::{ASKS_VERSION, ROUTE_FLAGS_LEN_MAX, RouteFlags};
use crate::under_way::fail::fail;
use crate::under_way::park::park;
use crate::under_way::put::put;
use crate::worker::ProxyCore;
use core::mem;
use evenkeel_hotkeys::client::{Answer, ReadTicket};
use evenkeel_hotkeys::plain::NAME_PREFIX_LEN;
use evenkeel_protocol::{KeyScratch, Request};
use evenkeel_types::Instant;

/// Asks a request again that was asked before, at a given place. If that is not possible, its
/// slot holds the failure; the caller releases it.
pub(crate) fn ask_again(
    core: &mut ProxyCore,
    now: Instant,
    mut question: Question,
    to: Result<BackendId, Failure>,
) {
    question.tag.retries = question.tag.retries.saturating_add(1);
    ask_at(core, now, question, to);
}

/// Asks a request, whose bytes and flags are as they were when it was asked before or was to be, at a given place.
pub(crate) fn ask_at(
    core: &mut ProxyCore,
    now: Instant,
    question: Question,
    to: Result<BackendId, Failure>,
) {
    let tag = question.tag;
    let pool = core.pools.get_mut(tag.pool);
    let flags = match pool.map(|pool| (&pool.servers, &mut pool.leases)) {
        Some((Servers::Evenkeel(pool), leases)) => {
            match tag.write {
                Some(write) => leases.write_sent(write),
                None if tag.is_read => {}
                None => leases.touch_sent(tag.hash, tag.client.connection()),
            }
            match pool.home(tag.hash) {
                Some((cachelet, _)) => {
                    let mark = pool.mark(cachelet, to.as_ref().ok().copied());
                    let former = question.bytes.get(tag.flags.0 + 1..tag.flags.1);
                    match former.is_some_and(|flags| flags.starts_with(ASKS_VERSION)) {
                        true => RouteFlags::asking_version(pool.epoch(), mark),
                        false => RouteFlags::new(pool.epoch(), tag.is_replica, mark),
                    }
                }
                None => RouteFlags::default(),
            }
        }
        Some((Servers::Memcached(_), _)) | None => RouteFlags::default(),
    };
    let Question {
        tag,
        bytes,
        progress,
    } = question;
    let asked = to.as_ref().ok().copied();
    match to.and_then(|to| core.admit(to, bytes.len() + ROUTE_FLAGS_LEN_MAX)) {
        Ok(to) => {
            let (start, end) = tag.flags;
            put(core, now, to, tag, progress, |out| {
                if start == end {
                    out.extend_from_slice(&bytes);
                    return (0, 0);
                }
                let before = out.len();
                out.extend_from_slice(&bytes[..start]);
                out.push(b' ');
                out.extend_from_slice(flags.text());
                out.extend_from_slice(&bytes[end..]);
                flags.place(out.len() - before, bytes.len() - end)
            });
        }
        Err(failure) => {
            let question = Question {
                tag,
                bytes,
                progress,
            };
            match failure {
                Failure::NoOwner if !tag.is_read => park(core, now, question),
                failure => fail_unasked(core, now, question, &failure, asked),
            }
        }
    }
}

/// A request was not executed by the server at which it was to be. It is tried again where that may not be the one to
/// ask any more: it was the owner by a former map, or there is a newer map, by which it may have been taken away or be
/// another process at another address.
pub(crate) fn fail_unasked(
    core: &mut ProxyCore,
    now: Instant,
    question: Question,
    failure: &Failure,
    asked: Option<BackendId>,
) {
    let tag = question.tag;
    let may_wait =
        core.pools.may_wait_for_map(&tag, failure) || core.pools.has_other_home(&tag, asked);
    if may_wait && tag.has_key() {
        park(core, now, question);
    } else {
        fail(core, question, failure);
    }
}

/// Asks a read at its home that a replica could not answer, or whose answer was too old. If that
/// is not possible, its slot holds the failure; the caller releases it.
pub(crate) fn ask_home(core: &mut ProxyCore, now: Instant, mut question: Question, answer: Answer) {
    core.counts.stats.reads_asked_again += 1;
    match answer {
        Answer::Hit(_) => core.counts.stats.reads_asked_again_older += 1,
        Answer::Miss(_) => core.counts.stats.reads_asked_again_missing += 1,
        Answer::Failed => {}
    }
    if let Some(pool) = core.pools.get(question.tag.pool) {
        question.tag.give_up = now + pool.settings.request_timeout;
    }
    if core.pools.list(question.tag.pool).is_some() {
        return ask_plain_home(core, now, question);
    }
    question.tag.is_replica = false;
    let home = core.pools.home(question.tag.pool, question.tag.hash);
    ask_again(core, now, question, home);
}

/// A read that was not executed is asked again of its home: as if it were asked only now, by the present map. Its
/// answer would count for nothing otherwise, and a copy read behind it could show what is older.
pub(crate) fn renew_ticket(core: &mut ProxyCore, now: Instant, tag: &Tag) {
    let pool = core.pools.get_mut(tag.pool);
    let client = core.clients.get_mut(tag.client);
    let slot = client.and_then(|client| client.slot(tag.slot));
    let (Some(pool), Some(slot)) = (pool, slot) else {
        return;
    };
    let is_its = |(id, ticket): &(PoolId, ReadTicket)| *id == tag.pool && ticket.hash() == tag.hash;
    if let Servers::Evenkeel(servers) = &pool.servers
        && let Some((_, ticket)) = slot.ticket.take_if(|held| is_its(held))
    {
        pool.leases.abandon(now, ticket);
        let asker = (tag.hash, tag.client.connection());
        let renewed = pool.leases.home_read(now, servers.era(), asker);
        slot.ticket = Some((tag.pool, renewed));
    }
}

/// Asks the home of a plain pool what a copy could not answer, or what was answered too early.
fn ask_plain_home(core: &mut ProxyCore, now: Instant, mut question: Question) {
    let was_replica = mem::take(&mut question.tag.is_replica);
    if was_replica && question.tag.ask == Ask::Hot {
        let before_key = ..GET.len() + NAME_PREFIX_LEN;
        question.bytes.splice(before_key, GETS.iter().copied());
    } else if was_replica {
        Sent::take_name(&mut question.bytes);
    }
    let home = plain_home(core, now, &question);
    question.tag.shared_by = match (question.tag.ask, &home) {
        (Ask::Hot, Ok((_, hash))) => *hash,
        _ => None,
    };
    ask_again(core, now, question, home.map(|(home, _)| home));
}

/// Where the key of a read is in a plain pool, and by which hash: by none while its server is out of use and another stands in for it.
fn plain_home(
    core: &mut ProxyCore,
    now: Instant,
    question: &Question,
) -> Result<(BackendId, Option<u64>), Failure> {
    let mut scratch = KeyScratch::default();
    let key = match parse_own(&question.bytes) {
        Some(Request::Get { keys, .. }) => keys.iter().next(),
        Some(Request::MetaGet(meta)) => Some(meta.key.decode(&mut scratch)),
        _ => None,
    };
    let key = key.ok_or(Failure::NoOwner)?;
    let pool = question.tag.pool;
    if core.backends.has_outage()
        && let Some(place) = core
            .find_elsewhere(now, pool, key)
            .and_then(|elsewhere| elsewhere.place)
    {
        return Ok((place, None));
    }
    let list = core.pools.list(pool).ok_or(Failure::NoOwner)?;
    let (home, hash) = list.home_and_hash(key);
    Ok((home, Some(hash)))
}
