//! Hot keys of pools of plain memcached servers: asking for copies, storing them, and going home.
//!
//! What may be shown, and why, is decided in [`plain`](evenkeel_hotkeys::plain), where the
//! argument for it stands. Here is what that asks for: reads of a replicated key go alone, on a line of
//! their own ([`Ask::Hot`]), to the copy whose turn it is, and their answers are held against what
//! the home said. A replica goes by another name on its server and is shown under the key's.
//!
//! A pool that does not look for hot keys pays one look at [`ProxyCore::watches`] for each request.

use crate::client::{MultiGet, Show, Slot, State};
use crate::config::PoolConfig;
use crate::pipe::in_flight::{Ask, Progress, Question, Tag};
use crate::pool::{Pool, PoolId, Servers};
use crate::request::question::{Draft, Intent};
use crate::request::way::{WayKey, WayTo};
use crate::routes::CommandClass;
use crate::slab::Key;
use crate::under_way::again::Failure;
use crate::under_way::catch_up::parse_own;
use crate::{BackendId, ClientId, ProxyCore};
use core::mem;
use evenkeel_hotkeys::client::ReadTicket;
use evenkeel_hotkeys::plain::NAME_PREFIX_LEN;
use evenkeel_hotkeys::plain::NamePrefix;
use evenkeel_hotkeys::plain::PlainHotKeys;
use evenkeel_hotkeys::plain::PlainMode;
use evenkeel_hotkeys::plain::ReadRoute;
use evenkeel_hotkeys::plain::Wants;
use evenkeel_protocol::KeyAt;
use evenkeel_protocol::KeyScratch;
use evenkeel_protocol::LINE_LEN_MAX;
use evenkeel_protocol::Request;
use evenkeel_protocol::scan_get;
use evenkeel_protocol::scan_get_of_one;
use evenkeel_protocol::text;
use evenkeel_types::Epoch;
use evenkeel_types::Instant;
use evenkeel_types::KeyHash;

/// Who stores replicas. No application has this name.
pub(crate) const FILLER: ClientId = ClientId(Key {
    slot: u32::MAX,
    generation: u32::MAX - 1,
});

/// How a copy is asked in classic commands.
const GET: &[u8] = b"get ";

/// How the home is, whoever asks, for the truth has the CAS unique, too.
const GETS: &[u8] = b"gets ";

/// Where a tracked read goes, and what is known of it.
pub(crate) struct Sent {
    pub ticket: ReadTicket,
    pub to: BackendId,
    /// Of a replica.
    pub name: Option<NamePrefix>,
    /// Of the key's place in the pool, by which gets that wait for its home are found.
    pub place_hash: u64,
}

impl ProxyCore {
    /// What leases of plain pools belong to: everything that can give a key another home begins an era.
    pub(crate) fn plain_era(&self) -> Epoch {
        Epoch(self.era)
    }

    /// Whether none of the keys of the plain `get` that `input` begins with is replicated, so that it may go
    /// the quick way; if so, counts them.
    #[inline(never)]
    pub(crate) fn watch_quick_get(&mut self, input: &[u8]) -> bool {
        let mut keys = mem::take(&mut self.keys);
        keys.clear();
        match scan_get_of_one(input, 0) {
            Some(key) => keys.push(key),
            None if scan_get(input, 0, &self.config.limits, &mut keys).is_none() => keys.clear(),
            None => {}
        }
        let passes = self.watch_keys(input, &keys);
        self.keys = keys;
        passes
    }

    fn watch_keys(&mut self, input: &[u8], keys: &[KeyAt]) -> bool {
        let pool_of = |key: &[u8]| self.ways[self.routes.find(key, CommandClass::Get)].quick_get();
        for at in keys {
            let key = at.of(input);
            let Some(id) = pool_of(key) else {
                return false;
            };
            let Some(pool) = self.pools.get(id.0) else {
                return false;
            };
            let hot = pool.hot.as_deref();
            let is_hot = hot.is_some_and(|hot| !hot.passes(key));
            if is_hot || !pool.leases.is_empty() && pool.leases.knows(KeyHash::of(key)) {
                return false;
            }
        }
        for at in keys {
            let key = at.of(input);
            if let Some(id) = pool_of(key)
                && let Some(pool) = self.pools.get_mut(id.0)
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
        &mut self,
        now: Instant,
        id: ClientId,
        rest: MultiGet,
        way: &WayTo,
        key: WayKey<'_>,
        show: Show,
    ) -> bool {
        if rest.exptime.is_some() {
            self.watch_write(now, way.pool, key.stored);
            return false;
        }
        if way.place.is_some() {
            return false;
        }
        self.count_hot_read(way.pool, key.stored);
        let wants = Some(wants_of(show));
        let Some(sent) = self.route_hot_read(now, way.pool, key.stored, wants) else {
            return false;
        };
        let hash = sent.ticket.hash();
        let Some(client) = self.clients.get_mut(id.0) else {
            return true;
        };
        let slot = client.push(Slot {
            ticket: Some((way.pool, sent.ticket)),
            rename: way.rename,
            route: way.route,
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
        match self.admit(sent.to, LINE_LEN_MAX) {
            Ok(to) => self.put(now, to, tag, Progress::Nothing, |out| {
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
                self.fail(question, &failure);
                self.release(now, id);
            }
        }
        true
    }

    fn count_hot_read(&mut self, pool: PoolId, key: &[u8]) {
        if let Some(pool) = self.pools.get_mut(pool.0)
            && let Some(hot) = &mut pool.hot
        {
            hot.handle_read(key);
        }
    }

    /// Where a read goes that is to be held against what the home said; `None` for all others. A copy can
    /// answer one that shows what it `wants`; only the home can where that is not said.
    fn route_hot_read(
        &mut self,
        now: Instant,
        pool_id: PoolId,
        key: &[u8],
        wants: Option<Wants>,
    ) -> Option<Sent> {
        let era = self.plain_era();
        let pool = self.pools.get_mut(pool_id.0)?;
        let leases = &mut pool.leases;
        let (Some(hot), Servers::Memcached(servers)) = (&mut pool.hot, &pool.servers) else {
            return None;
        };
        let hash = KeyHash::of(key);
        if !hot.is_tracked(hash, key) && !leases.knows(hash) {
            return None;
        }
        let load = |server: usize| {
            let backend = servers.backends().get(server)?;
            self.backends.get(backend.0)?.burden(now)
        };
        let (home, place_hash) = servers.home_and_hash(key);
        let of_home = |ticket| Sent {
            ticket,
            to: home,
            name: None,
            place_hash,
        };
        let route = match wants {
            Some(wants) => hot.route_read((leases, load), now, era, (hash, key), wants),
            None => hot.route_home_read(leases, now, era, hash, key),
        };
        let (ticket, server, name) = match route {
            ReadRoute::Ordinary => return None,
            ReadRoute::Home(ticket) => return Some(of_home(ticket)),
            ReadRoute::Copy {
                ticket,
                server,
                name,
            } => (ticket, server, name),
        };
        let to = servers.backends()[server];
        let backend = self.backends.get(to.0);
        if !backend.is_some_and(|backend| backend.takes_requests()) {
            hot.give_up_copy(now, &ticket);
            return Some(of_home(ticket.sent_home()));
        }
        self.stats.proxy_replica_reads += 1;
        Some(Sent {
            ticket,
            to,
            name: Some(name),
            place_hash,
        })
    }

    /// Tells of a request that is not a classic read. Where one goes that reads what is replicated.
    #[inline(never)]
    pub(crate) fn watch(&mut self, now: Instant, draft: &Draft<'_>) -> Option<Sent> {
        match draft.intent {
            Intent::Look => None,
            Intent::Write | Intent::Touch | Intent::ReadAndWrite => {
                self.watch_write(now, draft.pool, draft.key);
                None
            }
            Intent::Read | Intent::ReadAtHome if draft.place.is_some() => None,
            Intent::Read | Intent::ReadAtHome => {
                let wants = draft.copies.then_some(Wants::META);
                if draft.copies {
                    self.count_hot_read(draft.pool, draft.key);
                }
                self.route_hot_read(now, draft.pool, draft.key, wants)
            }
        }
    }

    fn watch_write(&mut self, now: Instant, pool_id: PoolId, key: &[u8]) {
        let Some(pool) = self.pools.get_mut(pool_id.0) else {
            return;
        };
        if let Some(hot) = &mut pool.hot {
            hot.handle_write(now, key);
        }
        if !pool.leases.is_empty() {
            pool.leases.write_sent_by_any(KeyHash::of(key));
        }
    }

    /// Tells of a `flush_all` that is about to be sent to a pool.
    pub(crate) fn watch_flush(&mut self, now: Instant, pool: PoolId) {
        if let Some(pool) = self.pools.get_mut(pool.0)
            && let Some(hot) = &mut pool.hot
        {
            hot.handle_flush(now);
        }
    }

    /// Asks the home of a plain pool what a copy could not answer, or what was answered too early.
    pub(crate) fn ask_plain_home(&mut self, now: Instant, mut question: Question) {
        let was_replica = mem::take(&mut question.tag.is_replica);
        if was_replica && question.tag.ask == Ask::Hot {
            let before_key = ..GET.len() + NAME_PREFIX_LEN;
            question.bytes.splice(before_key, GETS.iter().copied());
        } else if was_replica {
            Sent::take_name(&mut question.bytes);
        }
        let home = self.plain_home(now, &question);
        self.ask_again(now, question, home);
    }

    /// Where the key of a read is in a plain pool.
    fn plain_home(&mut self, now: Instant, question: &Question) -> Result<BackendId, Failure> {
        let mut scratch = KeyScratch::default();
        let key = match parse_own(&question.bytes) {
            Some(Request::Get { keys, .. }) => keys.iter().next(),
            Some(Request::MetaGet(meta)) => Some(meta.key.decode(&mut scratch)),
            _ => None,
        };
        let key = key.ok_or(Failure::NoOwner)?;
        let pool = question.tag.pool;
        if self.has_outage
            && let Some(place) = self.place_elsewhere(now, pool, key)
        {
            return Ok(place);
        }
        match self.pools.get(pool.0).map(|pool| &pool.servers) {
            Some(Servers::Memcached(servers)) => Ok(servers.home(key)),
            Some(Servers::Evenkeel(_)) | None => Err(Failure::NoOwner),
        }
    }

    /// Whether the application sees the CAS unique of what a question for hot keys is about. The home is
    /// asked for it in any case.
    pub(crate) fn shows_cas(&mut self, tag: &Tag) -> bool {
        let client = self.clients.get_mut(tag.client.0);
        let slot = client.and_then(|client| client.slot(tag.slot));
        slot.is_some_and(|slot| wants_of(slot.show).cas)
    }

    /// The connection to a server of a pool is lost. A server that is started anew counts its CAS uniques
    /// anew, so that those which are known say nothing of what is there.
    pub(crate) fn forget_truths_of(&mut self, pool: PoolId) {
        if let Some(pool) = self.pools.get_mut(pool.0)
            && let Some(hot) = &mut pool.hot
        {
            hot.forget_truths();
        }
    }

    /// A read of a hot key is asked elsewhere, where its answer is compared with nothing.
    pub(crate) fn abandon_hot_read(&mut self, now: Instant, tag: &Tag) {
        if tag.ask == Ask::Hot {
            self.forget_ticket(now, tag);
        }
    }

    /// Begins, goes on or ends to look for hot keys in a pool, as it is configured.
    pub(crate) fn take_over_hot_keys(&mut self, id: PoolId, wanted: &PoolConfig) {
        let seed = self.random_u64();
        let Some(pool) = self.pools.get_mut(id.0) else {
            return;
        };
        let Servers::Memcached(servers) = &pool.servers else {
            return;
        };
        let settings = &wanted.settings.hot_keys;
        let is_same = |hot: &PlainHotKeys| hot.config() == settings;
        match &mut pool.hot {
            hot if settings.mode == PlainMode::Off => *hot = None,
            Some(hot) if is_same(hot) => hot.handle_servers(servers.list().placement()),
            hot => {
                // Settings that make no sense are refused before they come here.
                let new = PlainHotKeys::new(settings.clone(), seed, Instant(0)).ok();
                *hot = new.map(Box::new);
            }
        }
    }

    /// Looks whether any pool looks for hot keys.
    pub(crate) fn look_for_hot_keys(&mut self) {
        self.watches = self.pools.iter().any(|(_, pool)| pool.hot.is_some());
        if self.watches {
            // The first slot begins with the first look at the clock.
            self.due_at(Instant(0));
        }
    }

    /// Keys may have another home from now on.
    pub(crate) fn forget_truths(&mut self) {
        for key in self.pools.keys() {
            if let Some(pool) = self.pools.get_mut(key)
                && let Some(hot) = &mut pool.hot
            {
                hot.forget_truths();
            }
        }
    }

    /// Lets keys become hot, or cool, whose slot has ended. When to look again.
    pub(crate) fn judge_hot_keys(&mut self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for key in self.pools.keys() {
            let Some(Pool { hot, servers, .. }) = self.pools.get_mut(key) else {
                continue;
            };
            let (Some(hot), Servers::Memcached(servers)) = (hot, servers) else {
                continue;
            };
            hot.handle_timeout(now, servers.list().placement());
            let due = hot.poll_deadline();
            next = Some(next.map_or(due, |next| next.min(due)));
            let counted = hot.take_stats();
            self.stats.add_hot_keys(&counted);
        }
        next
    }
}

/// What the application sees of the answer to a classic read, or to one of the binary protocol.
pub(crate) fn wants_of(show: Show) -> Wants {
    match show {
        Show::Value { with_cas: true, .. } | Show::Binary(_) => Wants::CAS,
        _ => Wants::VALUE,
    }
}
