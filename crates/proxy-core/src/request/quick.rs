//! The quick way of a plain `get` to plain memcached servers, which is most of what most proxies do.
//!
//! Everything that can happen to a request has its place in the other files of this core. Here is the
//! case in which nothing does: the `get` is whole and written as every client writes it, its keys go by
//! the same names everywhere, or behind a name of a ring where they stay at their servers, these are in use, and
//! their answers are whole. The same slots, queues and counters are used as elsewhere, with one look at each; whatever
//! is not plain is left as it is, for the way proper. Tests hold the two against each other.

use crate::drafts::{Line, LineKey};
use crate::ids::{ClientId, PoolId};
use crate::output::Output;
use crate::pipe::backend::Link;
use crate::pipe::in_flight::{Ask, Progress, Tag};
use crate::pool::pools::Pools;
use crate::pool::steady::{KeyPlace, SteadyPool};
use crate::request::hot::watch_quick_get;
use crate::routes::CommandClass;
use crate::routes::limit::LIMIT;
use crate::scratch::KeyHome;
use crate::under_way::lines::{add_to_draft, send_drafts};
use crate::worker::ProxyCore;
use core::mem;
use evenkeel_protocol::{KEY_LEN_MAX, KeyAt, scan_get, scan_get_of_one, text};
use evenkeel_schemes::generation::PREFIX_LEN;
use evenkeel_types::{Instant, KeyHash};

/// What is before the key of a line for one.
const GET: &[u8] = b"get ";

/// Bytes of such a line at most.
const GET_LEN_MAX: usize = GET.len() + KEY_LEN_MAX + text::CRLF.len();

/// Asks for what the plain gets that `input` begins with want, as long as they may be asked for and
/// are no more than `turn`, which counts down. Returns how many bytes they have: 0 if nothing was done.
#[inline]
pub(crate) fn quick_gets(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    input: &[u8],
    turn: &mut u32,
) -> usize {
    if core.backends.has_outage() || input.first_chunk() != Some(b"get ") {
        return 0;
    }
    // Only the first was looked at.
    let mut no_more = 0;
    let mut turn = turn;
    if core.config.limit_keys {
        if input[GET.len()..].starts_with(LIMIT) {
            return 0;
        }
        turn = &mut no_more;
    }
    if let Some(own) = &core.config.profile_key {
        if input[GET.len()..].starts_with(own) {
            return 0;
        }
        turn = &mut no_more;
    }
    if core.pools.watches() {
        if !watch_quick_get(core, input) {
            return 0;
        }
        turn = &mut no_more;
    }
    match quick_gets_of_one(core, now, id, input, turn) {
        0 => quick_get_of_several(core, now, id, input),
        done => done,
    }
}

/// Gets of one key each.
fn quick_gets_of_one(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    input: &[u8],
    turn: &mut u32,
) -> usize {
    let Some(client) = core.clients.get_mut(id) else {
        return 0;
    };
    let mut known = KnownPool::default();
    let mut due: Option<Instant> = None;
    let mut done = 0;
    // Anyone who calls has seen that one may be asked; only the first was looked at for hot keys.
    while done == 0 || *turn > 0 && client.may_ask(core.era, core.out_pause) {
        let Some(at) = scan_get_of_one(input, done) else {
            break;
        };
        let key = at.of(input);
        let way = core.routing.way(key, CommandClass::Get);
        let Some((pool, place)) = known.find(&core.pools, way.quick_get(), key) else {
            break;
        };
        let KeyPlace { to, hash, prefix } = place;
        let Some(backend) = core.backends.get_mut(to) else {
            break;
        };
        if backend.link != Link::Ready || !backend.has_room(GET_LEN_MAX) {
            break;
        }
        let visit = client.visit.as_deref();
        let note = core.counts.note_get(visit, pool, key, hash);
        let slot = client.push_key(way.rename(), way.route(), note);
        core.counts.stats.cmd_get += 1;
        // The caller has counted the first.
        *turn -= u32::from(done > 0);
        let line = &input[done..done + GET.len() + key.len()];
        done = at.request_end();
        let deadline = now + backend.request_timeout;
        let before = backend.queued_bytes();
        let tail = backend.tail();
        match prefix {
            None => tail.extend_from_slice(line),
            Some(prefix) => {
                tail.extend_from_slice(GET);
                tail.extend_from_slice(prefix);
                tail.extend_from_slice(key);
            }
        }
        tail.extend_from_slice(text::CRLF);
        let tag = Tag {
            hash: KeyHash(hash),
            is_read: true,
            shared_by: Some(hash),
            route: way.route(),
            ..Tag::new(id, pool, slot, Ask::Values, deadline)
        };
        if backend.collapses && backend.join_last(before, hash, &tag, None) {
            core.counts.stats.gets_collapsed += 1;
            continue;
        }
        backend.push(before, deadline, tag, Progress::Nothing);
        if !mem::replace(&mut backend.write_queued, true) {
            core.outbox.push(Output::WriteBackend(to));
        }
        due = Some(due.map_or(deadline, |due| due.min(deadline)));
    }
    if let Some(due) = due {
        core.outbox.due_at(due);
    }
    done
}

/// One `get` of several keys.
fn quick_get_of_several(core: &mut ProxyCore, now: Instant, id: ClientId, input: &[u8]) -> usize {
    let mut keys = mem::take(&mut core.scratch.keys);
    keys.clear();
    let end = scan_get(input, 0, &core.config.limits, &mut keys);
    if end.is_some() && core.pools.bundles() {
        // The slow way looks at it.
        core.scratch.keys = keys;
        return 0;
    }
    let asked = end.filter(|_| quick_get_all(core, now, id, input, &keys));
    core.scratch.keys = keys;
    asked.unwrap_or(0)
}

#[inline(never)]
fn quick_get_all(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    input: &[u8],
    keys: &[KeyAt],
) -> bool {
    let mut homes = mem::take(&mut core.scratch.homes);
    let mut prefixes = mem::take(&mut core.scratch.prefixes);
    homes.clear();
    prefixes.clear();
    let all_known = quick_homes(core, input, keys, &mut homes, &mut prefixes);
    let client = core.clients.get_mut(id).filter(|_| all_known);
    let asked = match client.filter(|client| client.may_ask_all(keys.len(), core.out_pause)) {
        None => false,
        Some(client) => {
            let counts = &mut core.counts;
            let visit = client.visit.take();
            let places = homes.iter().zip(keys).map(|(home, at)| {
                let (visit, hash) = (visit.as_deref(), home.hash.into());
                let note = counts.note_get(visit, home.pool, at.of(input), hash);
                (home.rename, home.route, note)
            });
            let first = client.push_keys(places);
            client.visit = visit;
            core.counts.stats.cmd_get += keys.len() as u64;
            let mut line = Line::get(id, homes[0].pool, homes[0].to, homes[0].route);
            let mut prefixes = prefixes.iter();
            for ((slot, at), home) in (first..).zip(keys).zip(&homes) {
                (line.pool, line.to, line.route) = (home.pool, home.to, home.route);
                let key = LineKey {
                    prefix: if home.is_named { prefixes.next() } else { None },
                    key: at.of(input),
                    hash: home.hash,
                    slot,
                };
                add_to_draft(core, now, &line, &key);
            }
            send_drafts(core, now, id);
            true
        }
    };
    core.scratch.homes = homes;
    core.scratch.prefixes = prefixes;
    asked
}

/// Where each of the keys is; false if one of them is not for the quick way.
#[inline]
fn quick_homes(
    core: &ProxyCore,
    input: &[u8],
    keys: &[KeyAt],
    homes: &mut Vec<KeyHome>,
    prefixes: &mut Vec<[u8; PREFIX_LEN]>,
) -> bool {
    let mut known = KnownPool::default();
    for at in keys {
        let key = at.of(input);
        let way = core.routing.way(key, CommandClass::Get);
        let Some((pool, place)) = known.find(&core.pools, way.quick_get(), key) else {
            return false;
        };
        if let Some(prefix) = place.prefix {
            prefixes.push(*prefix);
        }
        homes.push(KeyHome {
            pool,
            to: place.to,
            hash: place.hash as u32,
            rename: way.rename(),
            route: way.route(),
            is_named: place.prefix.is_some(),
        });
    }
    true
}

/// The pool that a key went to, in case the next one goes there, too.
#[derive(Default)]
struct KnownPool<'p>(Option<(PoolId, SteadyPool<'p>)>);

impl<'p> KnownPool<'p> {
    /// Where a key is that goes to a pool; `None` if there is no pool, it is no plain one, or the key does not stay there.
    #[inline(always)]
    fn find(
        &mut self,
        pools: &'p Pools,
        pool: Option<PoolId>,
        key: &[u8],
    ) -> Option<(PoolId, KeyPlace<'p>)> {
        let pool = pool?;
        if self.0.as_ref().is_none_or(|(known, _)| *known != pool) {
            self.0 = Some((pool, pools.steady(pool)?));
        }
        let (_, servers) = self.0.as_ref()?;
        Some((pool, servers.find(key)?))
    }
}
