//! Gets of hot keys of plain servers: which of them may go the quick way, and asking for one alone.
//!
//! A pool that does not look for hot keys pays one look at [`Pools::watches`] for each request.

use crate::client::{MultiGet, Slot, State};
use crate::ids::ClientId;
use crate::pipe::in_flight::{Ask, Progress, Question, Tag};
use crate::pool::sent::{GET, GETS, wants_of};
use crate::routes::CommandClass;
use crate::routes::way::{WayKey, WayTo};
use crate::show::kinds::Show;
use crate::under_way::fail::fail;
use crate::under_way::profile::{Placing, note};
use crate::under_way::put::put;
use crate::under_way::release::release;
use crate::worker::ProxyCore;
use core::mem;
use evenkeel_protocol::{KeyAt, LINE_LEN_MAX, scan_get, scan_get_of_one, text};
use evenkeel_schemes::name::is_reserved;
use evenkeel_types::{Instant, KeyHash};

/// Whether none of the keys of the plain `get` that `input` begins with is replicated, so that it may go
/// the quick way; if so, counts them.
#[inline(never)]
pub(crate) fn watch_quick_get(core: &mut ProxyCore, input: &[u8]) -> bool {
    let mut keys = mem::take(&mut core.scratch.keys);
    keys.clear();
    match scan_get_of_one(input, 0) {
        Some(key) => keys.push(key),
        None if scan_get(input, 0, &core.config.limits, &mut keys).is_none() => keys.clear(),
        None => {}
    }
    let passes = watch_keys(core, input, &keys);
    core.scratch.keys = keys;
    passes
}

fn watch_keys(core: &mut ProxyCore, input: &[u8], keys: &[KeyAt]) -> bool {
    let pool_of = |key: &[u8]| core.routing.way(key, CommandClass::Get).quick_get();
    for at in keys {
        let key = at.of(input);
        let Some(id) = pool_of(key) else {
            return false;
        };
        let Some(pool) = core.pools.get(id) else {
            return false;
        };
        let hot = pool.hot.as_deref();
        let is_hot = hot.is_some_and(|hot| !hot.passes(key) || is_reserved(key));
        if is_hot || !pool.leases.is_empty() && pool.leases.knows(KeyHash::of(key)) {
            return false;
        }
    }
    for at in keys {
        let key = at.of(input);
        if let Some(id) = pool_of(key)
            && let Some(pool) = core.pools.get_mut(id)
            && let Some(hot) = &mut pool.hot
        {
            hot.handle_read(key);
        }
    }
    true
}

/// Asks for a key of a `get` on a line of its own if it is replicated. True if it did.
#[inline(never)]
pub(crate) fn ask_hot_key(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    rest: MultiGet,
    way: &WayTo,
    key: WayKey<'_>,
    show: Show,
) -> bool {
    if rest.exptime.is_some() {
        core.pools.watch_write(now, way.pool, key.stored);
        return false;
    }
    if way.place.is_some() {
        return false;
    }
    core.pools.count_read(way.pool, key.stored);
    let wants = Some(wants_of(show));
    let at = (now, core.plain_era());
    let sent = core.pools.route_read(
        &core.backends,
        at,
        way.pool,
        (key.stored, id.connection()),
        wants,
    );
    let Some(sent) = sent else {
        return false;
    };
    core.counts.stats.replica_reads += u64::from(sent.name.is_some());
    let hash = sent.ticket.hash();
    let placing = Placing::read(id, way.pool, key.stored, Some(sent.place_hash));
    let note = note(core, &placing);
    let Some(client) = core.clients.get_mut(id) else {
        return true;
    };
    let slot = client.push(Slot {
        ticket: Some((way.pool, sent.ticket)),
        rename: way.rename,
        route: way.route,
        note,
        ..Slot::new(show, State::Waiting)
    });
    let tag = Tag {
        hash,
        route: way.route,
        is_read: true,
        is_replica: sent.name.is_some(),
        shared_by: sent.name.is_none().then_some(sent.place_hash),
        ..Tag::new(id, way.pool, slot, Ask::Hot, now)
    };
    let line = |out: &mut Vec<u8>| {
        match &sent.name {
            Some(name) => {
                out.extend_from_slice(GET);
                out.extend_from_slice(name.as_bytes());
            }
            None => out.extend_from_slice(GETS),
        }
        out.extend_from_slice(key.stored);
        out.extend_from_slice(text::CRLF);
    };
    match core.admit(sent.to, LINE_LEN_MAX) {
        Ok(to) => put(core, now, to, tag, Progress::Nothing, |out| {
            line(out);
            (0, 0)
        }),
        Err(failure) => {
            let mut bytes = Vec::new();
            line(&mut bytes);
            let question = Question {
                tag,
                bytes,
                progress: Progress::Nothing,
            };
            fail(core, question, &failure);
            release(core, now, id);
        }
    }
    true
}
