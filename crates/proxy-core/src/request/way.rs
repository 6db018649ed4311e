//! On the way from an application's command to a question: which route it takes, what that makes of
//! its key and of its exptime, and what is said where a route refuses it.

use crate::client::{Answered, Slot, State};
use crate::failure::{NO_CAS_ELSEWHERE, NO_NAME, RESERVED_KEY};
use crate::ids::ClientId;
use crate::request::bundled::see_write;
use crate::routes::way::{WayKey, WayTo};
use crate::routes::{CommandClass, RenameId, Renamed};
use crate::show::kinds::Show;
use crate::stats::counters::Tally;
use crate::under_way::release::release;
use crate::under_way::say::{refuse_in_binary, say};
use crate::worker::ProxyCore;
use core::mem;
use evenkeel_protocol::{KeyScratch, SentKey, text};
use evenkeel_schemes::name::is_reserved;
use evenkeel_types::Instant;

/// Finds the route of a command about a key and goes on with `ask`, or puts a refusal where the
/// answer was to go.
#[inline]
pub(crate) fn on_way(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    key: SentKey<'_>,
    class: CommandClass,
    show: Show,
    ask: impl FnOnce(&mut ProxyCore, &WayTo, WayKey<'_>),
) {
    let mut scratch;
    let stored = if key.base64 {
        scratch = KeyScratch::default();
        key.decode(&mut scratch)
    } else {
        key.text
    };
    let way = core.routing.way(stored, class);
    if way.denies(class) {
        core.counts.stats.requests_denied += 1;
        core.counts.routes.count_denied(way.route());
        return refuse(core, now, id, show, way.denial());
    }
    let to = *way.to();
    if matches!(way.rename(), RenameId::NONE | RenameId::NAMED) {
        return go_on(
            core,
            now,
            id,
            WayKey { stored, sent: key },
            (class, show),
            to,
            ask,
        );
    }
    let mut renamed = mem::take(&mut core.scratch.renamed);
    let rename = core.routing.renames.get(to.rename);
    if rename.is_some_and(|rename| rename.to_inside(stored, key.base64, &mut renamed)) {
        let key = WayKey {
            stored: renamed.stored(),
            sent: renamed.sent(key.base64),
        };
        go_on(core, now, id, key, (class, show), to, ask);
    } else {
        core.counts.stats.keys_refused += 1;
        core.counts.routes.count_error(to.route);
        refuse(core, now, id, show, text::BAD_FORMAT);
    }
    core.scratch.renamed = renamed;
}

/// Goes on with a key by the name that servers know.
#[inline]
fn go_on(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    key: WayKey<'_>,
    (class, show): (CommandClass, Show),
    mut to: WayTo,
    ask: impl FnOnce(&mut ProxyCore, &WayTo, WayKey<'_>),
) {
    if is_reserved(key.stored) && core.pools.use_names(to.pool) {
        core.counts.stats.keys_reserved += 1;
        core.counts.routes.count_error(to.route);
        return refuse(core, now, id, show, RESERVED_KEY);
    }
    let mut named = None;
    let key = match core.pools.name_prefix(to.pool, key.stored) {
        None => key,
        Some(prefix) => {
            let name: &mut Renamed = named.insert(mem::take(&mut core.scratch.named));
            if !name.put_behind(&prefix, key.stored, key.sent.base64) {
                core.counts.stats.keys_unnamed += 1;
                core.counts.routes.count_error(to.route);
                return refuse(core, now, id, show, NO_NAME);
            }
            WayKey {
                stored: name.stored(),
                sent: name.sent(key.sent.base64),
            }
        }
    };
    if core.pools.bundles() && class.changes_value() {
        see_write(core, to.pool);
    }
    if core.backends.has_outage() {
        look_elsewhere(core, now, &mut to, key.stored, class);
    }
    ask(core, &to, key);
    if let Some(named) = named {
        core.scratch.named = named;
    }
}

/// The exptime to send for one of the application's.
#[inline]
pub(crate) fn bounded(core: &mut ProxyCore, way: &WayTo, exptime: i64) -> i64 {
    if way.ttl.is_none() {
        return exptime;
    }
    let bounded = way.ttl.apply(exptime, core.unix, core.random.u32());
    core.counts.stats.ttls_changed += u64::from(bounded != exptime);
    bounded
}

/// Answers a request without asking anybody.
pub(crate) fn refuse(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    show: Show,
    words: &'static [u8],
) {
    match show {
        Show::Nothing => {}
        Show::Value { .. } => {
            let Some(client) = core.clients.get_mut(id) else {
                return;
            };
            // Takes the place of the `END` behind the keys that have values.
            let state = State::Done(Answered {
                tally: Tally::Nothing,
                ..Answered::error(words.to_vec())
            });
            client.push(Slot::new(show, state));
            release(core, now, id);
        }
        Show::Binary(echo) => refuse_in_binary(core, id, echo, words),
        _ => say(core, id, words),
    }
}

/// Sends a command elsewhere if its key's server is out of use. Called only while some server is.
#[cold]
fn look_elsewhere(
    core: &mut ProxyCore,
    now: Instant,
    way: &mut WayTo,
    key: &[u8],
    class: CommandClass,
) {
    let Some(elsewhere) = core.find_elsewhere(now, way.pool, key) else {
        return;
    };
    if class.changes_value() {
        for &id in &elsewhere.passed_over {
            core.backends.note_missed(id, key);
        }
    }
    let Some(place) = elsewhere.place else { return };
    core.counts.stats.requests_failed_over += 1;
    if let Some(backend) = core.backends.get_mut(elsewhere.passed_over[0]) {
        backend.counters.failed_over += 1;
    }
    if let Some(pool) = core.pools.get(way.pool) {
        let seconds = pool.settings.failover_ttl.as_secs().max(1);
        way.ttl = way.ttl.at_most(u32::try_from(seconds).unwrap_or(u32::MAX));
    }
    way.place = Some(place);
}

/// Refuses a compare-and-swap that would go elsewhere. True if it did.
pub(crate) fn refuses_cas(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    way: &WayTo,
    show: Show,
) -> bool {
    if way.place.is_none() {
        return false;
    }
    core.counts.stats.cas_refused += 1;
    core.counts.routes.count_error(way.route);
    refuse(core, now, id, show, NO_CAS_ELSEWHERE);
    true
}
