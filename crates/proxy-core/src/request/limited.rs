//! A multi-get with a limit begins: see [`limited`](crate::limited).
//!
//! Keys of lists of servers are distributed by a cover, so that those are asked that have most of them; what is not wanted is not asked for.
//! All other keys are asked for at once: of clusters, of rings, while hot keys are looked for or a server is out of use.

use crate::client::{MultiGet, Slot, State};
use crate::failure::{BAD_LIMIT, LIMIT_TOO_LONG};
use crate::ids::{BackendId, ClientId, PoolId, RouteId};
use crate::limited::{Limited, UnaskedKey};
use crate::limits::LIMIT_KEYS_MAX;
use crate::request::bundled::cover_keys;
use crate::request::multi_get::ask_key;
use crate::request::step::{Step, stall};
use crate::routes::limit::LIMIT;
use crate::routes::{CommandClass, Limit};
use crate::show::kinds::Show;
use crate::under_way::limited::go_on_with_ripe;
use crate::under_way::lines::send_drafts;
use crate::under_way::profile::{Placing, note};
use crate::under_way::release::release;
use crate::under_way::say::say;
use crate::worker::ProxyCore;
use evenkeel_protocol::Keys;
use evenkeel_types::Instant;

/// What is enough of a request.
pub(crate) enum Wish {
    /// Its first key says it.
    Said,
    /// Its route does.
    OfRoute(Limit),
}

/// What is enough of a `get` or `gets`, if not all that there is of it.
pub(crate) fn wish_of(core: &ProxyCore, keys: &Keys<'_>) -> Option<Wish> {
    let first = keys.iter().next()?;
    if core.config.limit_keys && first.starts_with(LIMIT) {
        return Some(Wish::Said);
    }
    let limit = core.routing.way(first, CommandClass::Get).limit()?;
    (keys.len() <= LIMIT_KEYS_MAX).then_some(Wish::OfRoute(limit))
}

/// A `get` or `gets` of this many bytes, of which a part is enough.
pub(crate) fn limited_get(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    (keys, with_cas, wish): (Keys<'_>, bool, Wish),
    consumed: usize,
) -> Step {
    let (mut keys, mut count) = (keys.iter(), keys.len());
    let (limit, said) = match wish {
        Wish::OfRoute(limit) => (Ok(limit), &b""[..]),
        Wish::Said => {
            let said = keys.next().unwrap_or_default();
            count -= 1;
            let limit = match Limit::parse(said) {
                None => Err(BAD_LIMIT),
                Some(_) if count > LIMIT_KEYS_MAX => Err(LIMIT_TOO_LONG),
                Some(limit) => Ok(limit),
            };
            (limit, said)
        }
    };
    let limit = match limit {
        Ok(limit) => limit,
        Err(words) => {
            core.counts.stats.limits_refused += 1;
            say(core, id, words);
            return Step::Consumed(consumed);
        }
    };
    let Some(client) = core.clients.get_mut(id) else {
        return Step::Consumed(consumed);
    };
    // All of it is asked for at once.
    if !client.is_idle() && !client.may_ask_all(count + 1, core.out_pause) {
        return stall(core, id);
    }
    core.counts.stats.limited_gets += 1;
    let show = Show::Value {
        with_cas,
        last: count == 0,
    };
    let first = client.push(Slot::new(show, State::Waiting));
    if core.pools.bundles() {
        // It is counted; all of it is asked at home.
        cover_keys(core, id, keys.clone());
    }
    let mut limited = Limited::new(first, said, with_cas);
    for (at, key) in (1..).zip(keys) {
        add_key(core, now, id, &mut limited, key, at == count);
    }
    let Some(client) = core.clients.get_mut(id) else {
        return Step::Consumed(consumed);
    };
    (limited.keys, limited.wanted) = (count, limit.wanted(count));
    client.begin_limited(limited);
    if let Some(within) = limit.within {
        core.limited_due.add(now + within, (id, first));
        core.outbox.due_at(now + within);
    }
    send_drafts(core, now, id);
    release(core, now, id);
    go_on_with_ripe(core, now);
    Step::Consumed(consumed)
}

/// Asks for a key, or leaves it to the cover.
fn add_key(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    limited: &mut Limited,
    key: &[u8],
    last: bool,
) {
    let with_cas = limited.with_cas;
    let Some((at, hash, route)) = listed_place(core, key) else {
        let rest = MultiGet {
            with_cas,
            exptime: None,
            left: 0,
        };
        return ask_key(core, now, id, rest, key, (last, None));
    };
    core.counts.stats.cmd_get += 1;
    let show = Show::Value { with_cas, last };
    let note = note(core, &Placing::read(id, at.0, key, Some(hash)));
    if let Some(client) = core.clients.get_mut(id) {
        let slot = client.push(Slot {
            route,
            note,
            ..Slot::new(show, State::Waiting)
        });
        limited.add_unasked(UnaskedKey::new(slot, at, hash, route), key);
    }
}

/// The server of a key in a list of servers, if nothing else is to be looked at.
fn listed_place(core: &ProxyCore, key: &[u8]) -> Option<((PoolId, BackendId), u64, RouteId)> {
    if core.backends.has_outage() || core.pools.watches() {
        return None;
    }
    let way = core.routing.way(key, CommandClass::Get);
    let pool = way.plain_get()?;
    if core.pools.is_adaptive(pool) {
        return None;
    }
    let place = core.pools.steady(pool)?.find(key)?;
    // The cover asks for keys by no other names.
    let is_as_it_is = place.prefix.is_none();
    is_as_it_is.then(|| ((pool, place.to), place.hash, way.route()))
}
