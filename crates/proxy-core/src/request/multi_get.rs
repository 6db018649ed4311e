//! `get`, `gets`, `gat` and `gats`, with one key or ten thousand.
//!
//! Each key has a slot of its own among the client's answers, so that values come back in the order
//! asked wherever they came from; the last slot ends the list. A line with more keys than may be
//! under way is done in parts: what is done is consumed from the input, and the rest of the line
//! waits there for its turn.
//!
//! An Evenkeel worker is asked key by key, since each answer may carry a lease, and so are servers for keys that are brought from a
//! former place, or change hands. Other servers are asked with one line for all their keys, in the order of the request; servers answer
//! in that order and leave out what they do not have, so the gaps in an answer are the misses.

use crate::client::{MultiGet, Slot, State};
use crate::composed::without_newline;
use crate::draft::{Draft, Intent};
use crate::drafts::{Line, LineKey};
use crate::ids::ClientId;
use crate::pool::steady::KeyPlace;
use crate::request::bundled::{cover_keys, draft_copy};
use crate::request::hot::ask_hot_key;
use crate::request::question::ask_new;
use crate::request::way::{bounded, on_way};
use crate::request::words::unaware_of_recaching;
use crate::routes::CommandClass;
use crate::routes::way::{WayKey, WayTo};
use crate::show::kinds::Show;
use crate::under_way::lines::{CopyAt, add_to_draft, send_drafts};
use crate::under_way::profile::{Placing, note};
use crate::worker::ProxyCore;
use evenkeel_protocol::compose::request as ask;
use evenkeel_protocol::{SentKey, next_word};
use evenkeel_types::Instant;

/// Asks for as many keys of the line as may be under way; `input` begins with what is left of
/// it. At least one may be. Returns how many bytes are done with.
pub(crate) fn go_on_with_keys(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    rest: MultiGet,
    input: &[u8],
) -> usize {
    let line = without_newline(&input[..rest.left]);
    let era = core.era;
    let mut covered = match core.pools.bundles() && rest.exptime.is_none() {
        true => cover_keys(core, id, words(line)),
        false => None,
    };
    let mut done = 0;
    let mut next = next_word(line, 0);
    while let Some(key) = next {
        let Some(client) = core.clients.get_mut(id) else {
            break;
        };
        if done > 0 && !client.may_ask(era, core.out_pause) {
            client.multi_get = Some(MultiGet {
                left: rest.left - done,
                ..rest
            });
            send_drafts(core, now, id);
            return done;
        }
        next = next_word(line, key.end);
        done = key.end;
        let key = &line[key];
        let copy = covered.as_mut().and_then(|covered| covered.next(core, key));
        ask_key(core, now, id, rest, key, (next.is_none(), copy));
    }
    if let Some(client) = core.clients.get_mut(id) {
        client.multi_get = None;
    }
    send_drafts(core, now, id);
    rest.left
}

/// The words of a line.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let word = next_word(line, at)?;
        at = word.end;
        Some(&line[word])
    })
}

/// Asks for a key, at a copy if one was chosen.
pub(crate) fn ask_key(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    rest: MultiGet,
    key: &[u8],
    (last, copy): (bool, Option<CopyAt>),
) {
    core.counts.stats.cmd_get += 1;
    core.counts.stats.cmd_touch += u64::from(rest.exptime.is_some());
    let show = Show::Value {
        with_cas: rest.with_cas,
        last,
    };
    let class = match rest.exptime {
        Some(_) => CommandClass::Touch,
        None => CommandClass::Get,
    };
    let key = SentKey::plain(key);
    on_way(core, now, id, key, class, show, |core, way, key| {
        if let Some(copy) = copy {
            return draft_copy(core, now, id, rest, way, key, (show, copy));
        }
        let exptime = rest.exptime.map(|exptime| bounded(core, way, exptime));
        let rest = MultiGet { exptime, ..rest };
        let deletes = exptime.is_some() && core.pools.keeps_copies(way.pool);
        let is_plain = !way.as_meta() && !deletes;
        // What is told of a unique depends on the rack.
        let tells_rack = rest.with_cas && core.pools.racks(way.pool).is_some();
        let may_draft = is_plain || way.is_named() && exptime.is_none() && !tells_rack;
        if !(may_draft && draft_key(core, now, id, rest, way, key, show)) {
            ask_for_key(core, now, id, rest, way, key, show);
        }
    });
}

/// Asks for a key in a meta command.
fn ask_for_key(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    rest: MultiGet,
    way: &WayTo,
    key: WayKey<'_>,
    show: Show,
) {
    let intent = match rest.exptime {
        Some(_) => Intent::ReadAndWrite,
        None => Intent::Read,
    };
    let draft = Draft {
        show,
        exptime: rest.exptime,
        ..Draft::line(id, way, key, intent)
    };
    ask_new(core, now, &draft, |out, route| {
        let line = ask::meta_get(out, key.sent);
        let line = line.flag(b'v').flag(b'f').flag(b'c');
        let line = unaware_of_recaching(line, way);
        let line = match rest.exptime {
            Some(exptime) => line.number(b'T', exptime),
            None => line,
        };
        line.raw(route).end();
    });
}

/// Adds a key to the line for its server, unless it changes hands. True if it did.
pub(crate) fn draft_key(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    rest: MultiGet,
    way: &WayTo,
    key: WayKey<'_>,
    show: Show,
) -> bool {
    if core.pools.watches() && ask_hot_key(core, now, id, rest, way, key, show) {
        return true;
    }
    let servers = core.pools.steady(way.pool);
    let Some(KeyPlace { to, hash, .. }) = servers.and_then(|pool| pool.find_named(key.stored))
    else {
        return false;
    };
    let to = way.place.unwrap_or(to);
    let placing = Placing {
        exptime: rest.exptime,
        ..Placing::read(id, way.pool, key.stored, Some(hash))
    };
    let note = note(core, &placing);
    let Some(client) = core.clients.get_mut(id) else {
        return true;
    };
    let slot = client.push(Slot {
        rename: way.rename,
        route: way.route,
        note,
        ..Slot::new(show, State::Waiting)
    });
    let line = Line {
        with_cas: rest.with_cas,
        exptime: rest.exptime,
        ..Line::get(id, way.pool, to, way.route)
    };
    let key = LineKey {
        prefix: None,
        key: key.stored,
        hash: hash as u32,
        slot,
    };
    add_to_draft(core, now, &line, &key);
    true
}
