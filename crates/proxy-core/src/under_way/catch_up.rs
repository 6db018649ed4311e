//! Other places for the keys of a server that is out of use, in pools of any memcached servers, and what
//! is done when it comes back.
//!
//! # Where a key goes
//!
//! To the first server in use among those that the pool allows: the rest of the pool in the order that
//! the distribution gives the key, or the servers of another pool, the *gutter*. Reads and writes of a
//! key go to the same place, which depends on nothing but the key and which servers are in use. What is
//! stored there is given [`failover_ttl`](super::PoolSettings::failover_ttl) to live at most.
//!
//! # Why nothing old is read
//!
//! An item can be out of date in two kinds of places.
//!
//! *At a server that was passed over.* Each write that passes over a server notes its key for it
//! (`missed.rs`), and so does each write whose outcome there is unknown. When the server comes back, the
//! noted keys are deleted there first, on the same connection and so in this order.
//!
//! *At the other place, once the server is back.* Nothing is deleted there. But nothing is read there
//! either before the server fails again, and if it does so before all that was stored there has expired
//! ([`ProxyCore::is_settled`]), its keys are unavailable until then.
//!
//! Requests of one application connection keep their order: when a server comes into use or goes out of
//! it, a new era begins, in which a connection waits for what it has under way.
//!
//! All this is what one worker knows. Workers and proxies do not see a server fail at the same moment;
//! what one of them has stored elsewhere is not seen by another that still reaches the server.
//!
//! A compare-and-swap is refused elsewhere: two servers may give the same unique to different items.

use crate::client::Show;
use crate::config::Failover;
use crate::pipe::backend::{Backend, Link, Peer};
use crate::pipe::in_flight::{Ask, Progress, Question, Tag};
use crate::pipe::missed;
use crate::pipe::missed::CatchUp;
use crate::pool::{PoolId, Servers};
use crate::request::way::WayTo;
use crate::routes::CommandClass;
use crate::show::Unfit;
use crate::slab::Key;
use crate::under_way::again::Failure;
use crate::{BackendId, ClientId, ProxyCore, show};
use core::time::Duration;
use evenkeel_protocol::KeyScratch;
use evenkeel_protocol::LINE_LEN_MAX;
use evenkeel_protocol::Limits;
use evenkeel_protocol::MetaStatus;
use evenkeel_protocol::Reply;
use evenkeel_protocol::Request;
use evenkeel_protocol::RequestOutcome;
use evenkeel_protocol::compose::request as ask;
use evenkeel_protocol::parse_request;
use evenkeel_types::Instant;

/// What a compare-and-swap is answered while its key's server is out of use and others stand in.
pub(crate) const NO_CAS_ELSEWHERE: &[u8] =
    b"SERVER_ERROR the key's server is out of use, and another cannot compare its unique\r\n";

/// Who asks for what a server has missed. No application has this name.
pub(crate) const NOBODY: ClientId = ClientId(Key {
    slot: u32::MAX,
    generation: u32::MAX,
});

/// Where a key goes whose server is out of use.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    /// `None` if there is nowhere to go.
    pub place: Option<BackendId>,
    /// The servers that come before it.
    passed_over: Vec<BackendId>,
    /// False if there is nowhere to go because a server was back for too short a time.
    pub is_settled: bool,
}

impl ProxyCore {
    /// Sends a command elsewhere if its key's server is out of use. Called only while some server is.
    #[cold]
    pub(crate) fn look_elsewhere(
        &mut self,
        now: Instant,
        way: &mut WayTo,
        key: &[u8],
        class: CommandClass,
    ) {
        let Some(elsewhere) = self.find_elsewhere(now, way.pool, key) else {
            return;
        };
        // A touch changes no value.
        if matches!(
            class,
            CommandClass::Set | CommandClass::Delete | CommandClass::Arithmetic
        ) {
            for &id in &elsewhere.passed_over {
                self.note_missed(id, key);
            }
        }
        let Some(place) = elsewhere.place else { return };
        self.stats.proxy_requests_failed_over += 1;
        if let Some(backend) = self.backends.get_mut(elsewhere.passed_over[0].0) {
            backend.counters.failed_over += 1;
        }
        if let Some(pool) = self.pools.get(way.pool.0) {
            let seconds = pool.settings.failover_ttl.as_secs().max(1);
            way.ttl = way.ttl.at_most(u32::try_from(seconds).unwrap_or(u32::MAX));
        }
        way.place = Some(place);
    }

    /// Where a key goes whose server is out of use, if there is a place.
    pub(crate) fn place_elsewhere(
        &mut self,
        now: Instant,
        pool: PoolId,
        key: &[u8],
    ) -> Option<BackendId> {
        self.find_elsewhere(now, pool, key)?.place
    }

    /// [`elsewhere`](Self::elsewhere) for a request, which is counted.
    fn find_elsewhere(&mut self, now: Instant, pool: PoolId, key: &[u8]) -> Option<Elsewhere> {
        let elsewhere = self.elsewhere(now, pool, key)?;
        self.stats.proxy_failovers_unsettled += u64::from(!elsewhere.is_settled);
        Some(elsewhere)
    }

    /// Where a key goes; `None` if its server is in use.
    pub(crate) fn elsewhere(&self, now: Instant, pool: PoolId, key: &[u8]) -> Option<Elsewhere> {
        let found = self.pools.get(pool.0)?;
        let Servers::Memcached(servers) = &found.servers else {
            return None;
        };
        let home = servers.home(key);
        if self.is_in_use(home) {
            return None;
        }
        let mut elsewhere = Elsewhere {
            place: None,
            passed_over: vec![home],
            is_settled: true,
        };
        let stand_in = match found.settings.failover {
            Failover::None => None,
            Failover::Next => Some(found),
            Failover::Gutter(_) => found.gutter.and_then(|gutter| self.pools.get(gutter.0)),
        };
        let Some(stand_in) = stand_in else {
            return Some(elsewhere);
        };
        let Servers::Memcached(servers) = &stand_in.servers else {
            return Some(elsewhere);
        };
        // What was on its way when a server came back arrived within the request timeout, or its
        // connection was given up and its place has missed it.
        let settings = &found.settings;
        let late = settings
            .request_timeout
            .max(stand_in.settings.request_timeout);
        let expiry = settings.failover_ttl + late;
        elsewhere.is_settled = self.is_settled(now, home, expiry);
        for id in servers.candidates(key).filter(|&id| id != home) {
            if !elsewhere.is_settled {
                break;
            }
            if self.is_in_use(id) {
                elsewhere.place = Some(id);
                break;
            }
            elsewhere.is_settled = self.is_settled(now, id, expiry);
            elsewhere.passed_over.push(id);
        }
        Some(elsewhere)
    }

    /// Whether all has expired that was stored in other places before a server came back, so that its
    /// keys may go there again.
    fn is_settled(&self, now: Instant, id: BackendId, expiry: Duration) -> bool {
        let back_at = self.backends.get(id.0).and_then(|b| b.health.back_at());
        back_at.is_none_or(|at| now >= at + expiry)
    }

    fn is_in_use(&self, id: BackendId) -> bool {
        let backend = self.backends.get(id.0);
        backend.is_some_and(|backend| backend.health.is_in_use())
    }

    /// A server may have come into use or gone out of it.
    pub(crate) fn standing_changed(&mut self, id: BackendId) {
        let backend = self.backends.get(id.0);
        if backend.is_some_and(|backend| backend.peer == Peer::Memcached) {
            self.look_for_outages();
            self.begin_era();
        }
    }

    /// Finds out whether any server is out of use.
    pub(crate) fn look_for_outages(&mut self) {
        let mut backends = self.backends.iter().map(|(_, backend)| backend);
        let is_out =
            |backend: &Backend| backend.peer == Peer::Memcached && !backend.health.is_in_use();
        self.has_outage = backends.any(is_out);
    }

    /// A server has missed the write of a key, or perhaps.
    pub(crate) fn note_missed(&mut self, id: BackendId, key: &[u8]) {
        let Some(backend) = self.backends.get_mut(id.0) else {
            return;
        };
        if backend.peer != Peer::Memcached {
            return;
        }
        if backend.missed.note(key) {
            backend.counters.missed += 1;
        } else {
            backend.counters.missed_unnoted += 1;
        }
    }

    /// A server that is in use, but not connected to at the moment, has refused the write of a key.
    /// Keys of one that is out of use are noted when another place is looked for.
    pub(crate) fn note_refused(&mut self, id: BackendId, key: &[u8]) {
        if self.is_in_use(id) {
            self.note_missed(id, key);
        }
    }

    /// A server has missed a request, or perhaps.
    pub(crate) fn note_missed_request(&mut self, id: BackendId, question: &Question) {
        // A replica that is not stored is one that is not found.
        if !question.tag.is_read && !question.tag.is_replica {
            self.note_missed_write(id, &question.bytes);
        }
    }

    /// A server has missed this write, or perhaps.
    pub(crate) fn note_missed_write(&mut self, id: BackendId, bytes: &[u8]) {
        let mut scratch = KeyScratch::default();
        let key = match parse_own(bytes) {
            Some(Request::Store(store)) => store.key,
            Some(Request::Delete { key, .. } | Request::Arithmetic { key, .. }) => key,
            Some(
                Request::MetaSet(meta) | Request::MetaDelete(meta) | Request::MetaArithmetic(meta),
            ) => meta.key.decode(&mut scratch),
            Some(Request::FlushAll { .. }) => return self.note_missed_flush(id),
            _ => return,
        };
        self.note_missed(id, key);
    }

    /// A server has missed a `flush_all`, or perhaps.
    pub(crate) fn note_missed_flush(&mut self, id: BackendId) {
        if let Some(backend) = self.backends.get_mut(id.0)
            && backend.peer == Peer::Memcached
        {
            backend.missed.note_flush();
            backend.counters.missed += 1;
        }
    }

    /// Asks a server to forget what it has missed the writes of. Whatever is asked next comes behind.
    pub(crate) fn catch_up(&mut self, now: Instant, id: BackendId) {
        let Some(backend) = self.backends.get_mut(id.0) else {
            return;
        };
        let settings = self.pools.get(backend.pool.0).map(|pool| &pool.settings);
        let may_flush = settings.is_some_and(|settings| settings.flush_on_return);
        match backend.missed.catch_up(may_flush) {
            CatchUp::Nothing => {}
            CatchUp::Flush => {
                backend.counters.flushed += 1;
                self.ask_for_nobody(now, id, |out| ask::flush_all(out, None, false));
            }
            CatchUp::Keys {
                keys,
                is_incomplete,
            } => {
                backend.counters.unfenced += u64::from(is_incomplete);
                backend.counters.caught_up += keys.len() as u64;
                for key in keys {
                    self.ask_for_nobody(now, id, |out| missed::delete(out, &key));
                }
            }
        }
    }

    fn ask_for_nobody(&mut self, now: Instant, id: BackendId, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(backend) = self.backends.get(id.0) else {
            return;
        };
        let tag = Tag::new(NOBODY, backend.pool, 0, Ask::Single, now);
        self.put(now, id, tag, Progress::Nothing, |out| {
            write(out);
            (0, 0)
        });
    }

    /// A server has answered what nobody but the proxy asked for.
    pub(crate) fn caught_up(&mut self, reply: &Reply<'_>) -> Result<(), Unfit> {
        match reply {
            Reply::Deleted | Reply::NotFound | Reply::Ok => Ok(()),
            Reply::Meta(meta) if matches!(meta.status, MetaStatus::Done | MetaStatus::NotFound) => {
                Ok(())
            }
            reply if show::is_error(reply) => {
                self.stats.proxy_catch_ups_refused += 1;
                Ok(())
            }
            _ => Err(Unfit),
        }
    }

    /// Asks a read elsewhere whose server has just gone out of use. Gives it back if there is nowhere
    /// to go, or no need to.
    pub(crate) fn ask_elsewhere(
        &mut self,
        now: Instant,
        question: Question,
        unasked: &Failure,
    ) -> Option<Question> {
        let pool = question.tag.pool;
        match parse_own(&question.bytes) {
            Some(Request::MetaGet(meta)) => {
                let mut scratch = KeyScratch::default();
                let elsewhere = self.find_elsewhere(now, pool, meta.key.decode(&mut scratch));
                let Some(place) = elsewhere.and_then(|elsewhere| elsewhere.place) else {
                    return Some(question);
                };
                self.stats.proxy_requests_failed_over += 1;
                self.ask_again(now, question, Ok(place));
                None
            }
            Some(Request::Get { keys, with_cas }) => {
                let tag = question.tag;
                let with_cas = match tag.ask {
                    Ask::Hot => self.shows_cas(&tag),
                    _ => with_cas,
                };
                self.abandon_hot_read(now, &tag);
                let slots = match &question.progress {
                    // Only a line of which nothing is answered is asked elsewhere.
                    Progress::Group(group) => group.slots_left().collect(),
                    _ => vec![tag.slot],
                };
                for (key, slot) in keys.iter().zip(slots) {
                    let elsewhere = self.find_elsewhere(now, pool, key);
                    match elsewhere.and_then(|elsewhere| elsewhere.place) {
                        Some(place) => {
                            self.stats.proxy_requests_failed_over += 1;
                            self.draft_again(now, place, &tag, with_cas, key, slot);
                        }
                        None => self.fail_key(&tag, slot, unasked),
                    }
                }
                self.send_drafts(now, tag.client);
                None
            }
            _ => Some(question),
        }
    }

    /// A key of a multi-get has nowhere to go.
    fn fail_key(&mut self, tag: &Tag, slot: u64, failure: &Failure) {
        let question = Question {
            tag: Tag { slot, ..*tag },
            bytes: Vec::new(),
            progress: Progress::Nothing,
        };
        self.fail(question, failure);
    }

    /// Refuses a compare-and-swap that would go elsewhere. True if it did.
    pub(crate) fn refuses_cas(
        &mut self,
        now: Instant,
        id: ClientId,
        way: &WayTo,
        show: Show,
    ) -> bool {
        if way.place.is_none() {
            return false;
        }
        self.stats.proxy_cas_refused += 1;
        self.per_route.count_error(way.route);
        self.refuse(now, id, show, NO_CAS_ELSEWHERE);
        true
    }

    /// Whether a server takes a request that was lost with its connection.
    pub(crate) fn takes_again(&self, id: BackendId) -> bool {
        let backend = self.backends.get(id.0);
        backend.is_some_and(|backend| backend.takes_requests())
    }

    /// A connection was closed that had worked until then, and is to be made anew: it begins with what
    /// may have been missed.
    pub(crate) fn catch_up_if_idle(&mut self, now: Instant, id: BackendId) {
        let backend = self.backends.get(id.0);
        if backend.is_some_and(|backend| backend.link == Link::Idle && !backend.retired) {
            self.catch_up(now, id);
        }
    }
}

/// A request that the proxy has composed.
pub(crate) fn parse_own(bytes: &[u8]) -> Option<Request<'_>> {
    let limits = Limits {
        // Whatever fits the request, and what an item has besides.
        item_size_max: bytes.len() + LINE_LEN_MAX,
        ..Limits::default()
    };
    match parse_request(bytes, &limits) {
        RequestOutcome::Request { request, .. } => Some(request),
        _ => None,
    }
}
