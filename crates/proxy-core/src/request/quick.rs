//! The quick way of a plain `get` to plain memcached servers, which is most of what most proxies do.
//!
//! Everything that can happen to a request has its place in the other files of this core. Here is the
//! case in which nothing does: the `get` is whole and written as every client writes it, its keys go by
//! the same names everywhere, their servers are in use, and their answers are whole. The same slots,
//! queues and counters are used as elsewhere, with one look at each; whatever is not plain is left as it
//! is, for the way proper. Tests hold the two against each other.

use crate::client::{Answered, Client, Show, State};
use crate::pipe::backend::Link;
use crate::pipe::in_flight::{Ask, Group, Progress, Tag};
use crate::pool::{MemcachedPool, Pool, PoolId, Servers};
use crate::request::multi_get::{Line, key_of_get};
use crate::routes::{CommandClass, RenameId};
use crate::show::Tally;
use crate::slab::Slab;
use crate::stats::listing::ProxyStats;
use crate::stats::per_route::{PerRoute, RouteId};
use crate::{BackendId, ClientId, Output, ProxyCore};
use core::mem;
use evenkeel_protocol::KeyAt;
use evenkeel_protocol::Limits;
use evenkeel_protocol::scan_get;
use evenkeel_protocol::scan_get_of_one;
use evenkeel_protocol::scan_value_of;
use evenkeel_protocol::text;
use evenkeel_types::Instant;

/// What is before the key of a line for one.
const GET: &[u8] = b"get ";

impl ProxyCore {
    /// Asks for what the plain gets that `input` begins with want, as long as they may be asked for and
    /// are no more than `turn`, which counts down. Returns how many bytes they have: 0 if nothing was done.
    #[inline]
    pub(crate) fn quick_gets(
        &mut self,
        now: Instant,
        id: ClientId,
        input: &[u8],
        turn: &mut u32,
    ) -> usize {
        if self.has_outage || input.first_chunk() != Some(b"get ") {
            return 0;
        }
        // Only the first was looked at.
        let mut no_more = 0;
        let mut turn = turn;
        if self.watches {
            if !self.watch_quick_get(input) {
                return 0;
            }
            turn = &mut no_more;
        }
        match self.quick_gets_of_one(now, id, input, turn) {
            0 => self.quick_get_of_several(now, id, input),
            done => done,
        }
    }

    /// Gets of one key each.
    fn quick_gets_of_one(
        &mut self,
        now: Instant,
        id: ClientId,
        input: &[u8],
        turn: &mut u32,
    ) -> usize {
        let Some(client) = self.clients.get_mut(id.0) else {
            return 0;
        };
        let mut known = KnownPool::default();
        let mut due: Option<Instant> = None;
        let mut done = 0;
        // Whoever calls has seen that one may be asked; only the first was looked at for hot keys.
        while done == 0 || *turn > 0 && !self.watches && client.may_ask(self.era, self.out_pause) {
            let Some(at) = scan_get_of_one(input, done) else {
                break;
            };
            let key = at.of(input);
            let way = &self.ways[self.routes.find(key, CommandClass::Get)];
            let Some((pool, servers)) = known.of(&self.pools, way.quick_get()) else {
                break;
            };
            let (to, hash) = servers.home_and_hash(key);
            let line = &input[done..done + GET.len() + key.len()];
            let Some(backend) = self.backends.get_mut(to.0) else {
                break;
            };
            if backend.link != Link::Ready || !backend.has_room(line.len() + text::CRLF.len()) {
                break;
            }
            let slot = client.push_key(way.route());
            self.stats.cmd_get += 1;
            // The caller has counted the first.
            *turn -= u32::from(done > 0);
            done = at.request_end();
            if backend.collapses && backend.join(line, hash, id, slot) {
                self.stats.proxy_gets_collapsed += 1;
                continue;
            }
            let deadline = now + backend.request_timeout;
            let before = backend.queued_bytes();
            let tail = backend.tail();
            tail.extend_from_slice(line);
            tail.extend_from_slice(text::CRLF);
            let tag = Tag {
                is_read: true,
                shared_by: Some(hash),
                route: way.route(),
                ..Tag::new(id, pool, slot, Ask::Values, deadline)
            };
            backend.push(before, deadline, tag, Progress::Nothing);
            if !mem::replace(&mut backend.write_queued, true) {
                self.outputs.push_back(Output::WriteBackend(to));
            }
            due = Some(due.map_or(deadline, |due| due.min(deadline)));
        }
        if let Some(due) = due {
            self.due_at(due);
        }
        done
    }

    /// One `get` of several keys.
    fn quick_get_of_several(&mut self, now: Instant, id: ClientId, input: &[u8]) -> usize {
        let mut keys = mem::take(&mut self.keys);
        keys.clear();
        let end = scan_get(input, 0, &self.config.limits, &mut keys);
        let asked = end.filter(|_| self.quick_get_all(now, id, input, &keys));
        self.keys = keys;
        asked.unwrap_or(0)
    }

    fn quick_get_all(&mut self, now: Instant, id: ClientId, input: &[u8], keys: &[KeyAt]) -> bool {
        let mut homes = mem::take(&mut self.homes);
        homes.clear();
        let all_known = self.quick_homes(input, keys, &mut homes);
        let client = self.clients.get_mut(id.0).filter(|_| all_known);
        let asked = match client.filter(|client| client.may_ask_all(keys.len(), self.out_pause)) {
            None => false,
            Some(client) => {
                let first = client.push_keys(homes.iter().map(|home| home.route));
                self.stats.cmd_get += keys.len() as u64;
                for ((slot, at), &KeyHome { pool, to, route }) in (first..).zip(keys).zip(&homes) {
                    self.add_to_draft(now, &Line::get(id, pool, to, route), at.of(input), slot);
                }
                self.send_drafts(now, id);
                true
            }
        };
        self.homes = homes;
        asked
    }

    /// Where each of the keys is; false if one of them is not for the quick way.
    #[inline]
    fn quick_homes(&self, input: &[u8], keys: &[KeyAt], homes: &mut Vec<KeyHome>) -> bool {
        let mut known = KnownPool::default();
        for at in keys {
            let key = at.of(input);
            let way = &self.ways[self.routes.find(key, CommandClass::Get)];
            let Some((pool, servers)) = known.of(&self.pools, way.quick_get()) else {
                return false;
            };
            homes.push(KeyHome {
                pool,
                to: servers.home(key),
                route: way.route(),
            });
        }
        true
    }

    /// Takes what `input` begins with as answers to awaited gets, as far as they are plain. Returns how
    /// many bytes of it are done with; the rest is for the parser.
    #[inline]
    pub(crate) fn quick_values(
        &mut self,
        now: Instant,
        id: BackendId,
        input: &[u8],
        limits: &Limits,
    ) -> usize {
        let mut taken = 0;
        while let Some(count) = self.quick_answer(now, id, &input[taken..], limits) {
            taken += count;
        }
        taken
    }

    /// One answer, or some values of one.
    fn quick_answer(
        &mut self,
        now: Instant,
        id: BackendId,
        input: &[u8],
        limits: &Limits,
    ) -> Option<usize> {
        let backend = self.backends.get_mut(id.0)?;
        if backend.link != Link::Ready {
            return None;
        }
        let took = match &self.log {
            Some(_) => backend.took(now),
            None => None,
        };
        let (question, request) = backend.awaited()?;
        if request.tag.ask != Ask::Values {
            return None;
        }
        let client_id = request.tag.client;
        if let Some(log) = &self.log
            && log.picks(took)
        {
            return None;
        }
        let client = self.clients.get_mut(client_id.0)?;
        let mut shelf = Shelf {
            client,
            stats: &mut self.stats,
            routes: &mut self.per_route,
            spare: &mut self.spare,
        };
        let taken = match &mut request.progress {
            Progress::Nothing => {
                let taken = shelf.one(request.tag.slot, question, input, limits)?;
                backend.answered();
                backend.measure(now, shelf.routes);
                backend.drop_awaited();
                if let Some(log) = &mut self.log {
                    log.pass();
                }
                taken
            }
            Progress::Group(group) => {
                let taken = shelf.some(group, question, input, limits)?;
                request.saw(taken, Tally::GetHit);
                taken
            }
            Progress::Answered | Progress::Moved(_) | Progress::Shared(_) => return None,
        };
        let is_retired = backend.retired;
        let client = shelf.client;
        if client.has_more_to_do() || client.unread() > self.config.unread_max() {
            self.release(now, client_id);
        } else if !client.output().is_empty() && !mem::replace(&mut client.write_queued, true) {
            self.outputs.push_back(Output::WriteClient(client_id));
        }
        if is_retired {
            self.close_if_retired(id);
        }
        Some(taken)
    }
}

/// Where a key of a `get` goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHome {
    pool: PoolId,
    to: BackendId,
    route: RouteId,
}

/// The pool that a key went to, in case the next one goes there, too.
#[derive(Default)]
struct KnownPool<'p>(Option<(PoolId, &'p MemcachedPool)>);

impl<'p> KnownPool<'p> {
    /// The servers of a pool; `None` if there is no pool, or it is no plain one.
    #[inline]
    fn of(
        &mut self,
        pools: &'p Slab<Pool>,
        pool: Option<PoolId>,
    ) -> Option<(PoolId, &'p MemcachedPool)> {
        let pool = pool?;
        if let Some((known, servers)) = self.0
            && known == pool
        {
            return Some((pool, servers));
        }
        match &pools.get(pool.0)?.servers {
            Servers::Memcached(servers) => self.0 = Some((pool, servers)),
            Servers::Evenkeel(_) => return None,
        }
        self.0
    }
}

/// Where the values of one client go.
struct Shelf<'c> {
    client: &'c mut Client,
    stats: &'c mut ProxyStats,
    routes: &'c mut PerRoute,
    spare: &'c mut Vec<Vec<u8>>,
}

impl Shelf<'_> {
    /// The whole answer to a `get` of one key: its length.
    fn one(&mut self, slot: u64, question: &[u8], input: &[u8], limits: &Limits) -> Option<usize> {
        let (show, route) = self.shown_as(slot)?;
        if input.starts_with(text::END) {
            self.client.saw_answer(0);
            if self.client.is_front(slot) {
                self.routes.count(self.stats, route, Tally::GetMiss, 0);
                self.client.pop_shown();
                self.client.end_key(show);
            } else {
                self.client.set_state(slot, State::Done(Answered::miss()));
            }
            return Some(text::END.len());
        }
        let key = key_of_get(question)?;
        let len = scan_value_of(input, key, limits)?;
        let (value, behind) = input.split_at(len);
        let value_len = len;
        if !behind.starts_with(text::END) {
            return None;
        }
        let len = len + text::END.len();
        let is_alone = matches!(show, Show::Value { last: true, .. });
        if is_alone && self.client.is_front(slot) && self.client.get_failure.is_none() {
            self.client.out().extend_from_slice(&input[..len]);
            self.client.pop_shown();
            self.client.saw_answer(len);
            self.routes
                .count(self.stats, route, Tally::GetHit, value_len);
            self.client.show_values(self.stats, self.routes, self.spare);
        } else {
            self.put(slot, (show, route), value);
        }
        Some(len)
    }

    /// Values of the answer to a `get` of several keys, as far as none is missed: their length.
    fn some(
        &mut self,
        group: &mut Group,
        question: &[u8],
        input: &[u8],
        limits: &Limits,
    ) -> Option<usize> {
        let mut taken = 0;
        while let Some((slot, place)) = group.next() {
            let rest = &input[taken..];
            let Some(shown) = self.shown_as(slot) else {
                break;
            };
            let Some(len) = scan_value_of(rest, &question[place], limits) else {
                break;
            };
            self.put(slot, shown, &rest[..len]);
            group.advance();
            taken += len;
        }
        (taken > 0).then_some(taken)
    }

    /// How the application wants to see a value that it knows by the name that servers know, and its route.
    #[inline]
    fn shown_as(&mut self, slot: u64) -> Option<(Show, RouteId)> {
        let slot = self.client.slot(slot)?;
        let is_plain = slot.rename == RenameId::NONE;
        matches!(slot.show, Show::Value { .. } if is_plain).then_some((slot.show, slot.route))
    }

    /// Shows a value, or keeps it for its turn.
    #[inline]
    fn put(&mut self, slot: u64, (show, route): (Show, RouteId), value: &[u8]) {
        let client = &mut *self.client;
        client.saw_answer(value.len());
        if client.is_front(slot) {
            client.out().extend_from_slice(value);
            client.pop_shown();
            client.end_key(show);
            self.routes
                .count(self.stats, route, Tally::GetHit, value.len());
            client.show_values(self.stats, self.routes, self.spare);
            return;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(value);
        let answered = Answered {
            bytes,
            is_error: false,
            tally: Tally::GetHit,
        };
        client.hold(slot, answered);
    }
}
