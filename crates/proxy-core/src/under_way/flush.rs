//! `flush_all`: to each server of the pools that allow it, because each holds a part.
//!
//! **Contents on the move.** A cachelet may have passed to a server that the map of this proxy does not have yet, together
//! with what it held. So each worker of a cluster is asked behind the flush which map it knows. What it has passed on before it
//! flushed, it was told to by no newer one; where the flush went by an older map, it is repeated as a whole by the
//! newer, until no worker knows of anything that the flush did not reach. As a whole, because contents may meanwhile have come to
//! a server that was flushed first.
//!
//! ```text
//!  application         proxy (map 7)              worker               worker of a new server
//!     │── flush_all ──────>│── flush_all, hello ────>│                          │
//!     │                    │<── OK, epoch 8 ─────────│                          │
//!     │                    │   … map 8 …             │                          │
//!     │                    │── flush_all, hello ────>│                          │
//!     │                    │── flush_all, hello ───────────────────────────────>│
//!     │<── OK ─────────────│<── OK, epoch 8, of both ┴──────────────────────────┘
//! ```
//!
//! What the application asks behind it waits for the end: a value that was stored between two rounds would be lost.

use crate::client::{Show, Slot, State};
use crate::pipe::backend::Peer;
use crate::pipe::in_flight::{Ask, Progress, Tag};
use crate::pool::{Pool, PoolId, Servers};
use crate::show::Unfit;
use crate::{BackendId, ClientId, ProxyCore, show};
use evenkeel_protocol::Reply;
use evenkeel_protocol::compose::request as ask;
use evenkeel_protocol::text;
use evenkeel_types::Epoch;
use evenkeel_types::Instant;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// What `flush_all` is answered while there is no server to flush.
const NOTHING_TO_FLUSH: &[u8] = b"SERVER_ERROR no servers known yet\r\n";

/// And while servers go by a map that does not come.
const MAP_MISSING: &[u8] =
    b"SERVER_ERROR not all servers flushed: their newer map has not come in time\r\n";

/// The answer slot of an application that waits for the end of a flush.
type FlushId = (ClientId, u64);

/// A `flush_all` that is under way.
#[derive(Debug)]
pub(crate) struct Flush {
    delay: Option<i64>,
    /// The application's further requests wait for it.
    holds_back: bool,
    /// No further round begins from then on.
    give_up: Instant,
    /// Servers that owe an answer in this round. None of them while it waits for a map.
    missing: usize,
    /// The first thing that went wrong in this round.
    failure: Option<Vec<u8>>,
    /// Of pools that follow a map: the one that this round goes by, and the newest that is known to a worker.
    maps: BTreeMap<PoolId, (Epoch, Epoch)>,
}

impl Flush {
    /// Newer maps that servers go by.
    fn newer_maps(&self) -> impl Iterator<Item = (PoolId, Epoch)> {
        let newer = self.maps.iter().filter(|(_, (sent, known))| known > sent);
        newer.map(|(pool, (_, known))| (*pool, *known))
    }
}

impl ProxyCore {
    /// Asks every server of the pools that allow it and that some route takes writes to.
    pub(crate) fn flush_all(&mut self, now: Instant, id: ClientId, delay: Option<i64>, show: Show) {
        let pools = self.pools_to_flush();
        if pools.is_empty() {
            return self.refuse(now, id, show, text::FLUSH_NOT_ALLOWED);
        }
        self.stats.cmd_flush += 1;
        if self.holders(&pools).is_empty() {
            return self.refuse(now, id, show, NOTHING_TO_FLUSH);
        }
        let of = |pool: &PoolId| self.pools.get(pool.0);
        let patience = pools.iter().filter_map(of);
        let patience = patience.map(|pool| pool.settings.request_timeout).max();
        let holds_back = pools.iter().filter_map(of).any(follows_map);
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        client.parked += usize::from(holds_back);
        let slot = client.push(Slot::new(show, State::Flushing));
        let flush = Flush {
            delay,
            holds_back,
            give_up: now + patience.unwrap_or_default(),
            missing: 0,
            failure: None,
            maps: BTreeMap::new(),
        };
        self.flush_round(now, (id, slot), flush);
        self.release(now, id);
    }

    fn pools_to_flush(&self) -> BTreeSet<PoolId> {
        let written = self.ways.iter().filter_map(|way| way.writes_to());
        let allows = |pool: &PoolId| {
            let pool = self.pools.get(pool.0);
            pool.is_some_and(|pool| pool.settings.allow_flush)
        };
        written.filter(allows).collect()
    }

    /// The servers that may hold a part of these pools.
    fn holders(&self, pools: &BTreeSet<PoolId>) -> Vec<(PoolId, BackendId)> {
        let found = pools.iter().filter_map(|&id| {
            let pool = self.pools.get(id.0)?;
            Some(pool.holders().into_iter().map(move |holder| (id, holder)))
        });
        found.flatten().collect()
    }

    /// Sends the flush to all servers by the present maps.
    fn flush_round(&mut self, now: Instant, key: FlushId, mut flush: Flush) {
        let pools = self.pools_to_flush();
        let targets = self.holders(&pools);
        flush.maps.clear();
        for &id in &pools {
            if self.watches {
                self.watch_flush(now, id);
            }
            if let Some(pool) = self.pools.get_mut(id.0) {
                pool.leases.flush_sent();
                if follows_map(pool) {
                    flush.maps.insert(id, (pool.epoch(), pool.epoch()));
                }
            }
        }
        if targets.is_empty() {
            // A new configuration has no server of these any more.
            return self.end_flush(now, key, &flush, Err(NOTHING_TO_FLUSH.to_vec()));
        }
        flush.missing = targets.len();
        let mut line = Vec::new();
        ask::flush_all(&mut line, flush.delay, false);
        let maps = flush.maps.clone();
        self.flushes.insert(key, flush);
        for (pool, target) in targets {
            let mut line = line.clone();
            if let Some(&(epoch, _)) = maps.get(&pool) {
                ask::hello(&mut line, epoch);
            }
            match self.admit(target, line.len()) {
                Ok(to) => {
                    let tag = Tag::new(key.0, pool, key.1, Ask::Flush, now);
                    self.put(now, to, tag, Progress::Nothing, |out| {
                        out.extend_from_slice(&line);
                        (0, 0)
                    });
                }
                Err(failure) => {
                    self.note_missed_flush(target);
                    self.flush_failed(key, failure.line());
                    self.flush_answered(now, key, None);
                }
            }
        }
    }

    /// A server has answered a flush, or what it was asked behind it.
    pub(crate) fn flush_reply(
        &mut self,
        now: Instant,
        id: BackendId,
        reply: &Reply<'_>,
        raw: &[u8],
    ) -> Result<(), Unfit> {
        let backend = self.backends.get_mut(id.0).ok_or(Unfit)?;
        let is_worker = matches!(backend.peer, Peer::Worker(_));
        let (_, request) = backend.awaited().ok_or(Unfit)?;
        let key = (request.tag.client, request.tag.slot);
        let known = match (&request.progress, reply) {
            (Progress::Nothing, reply) => {
                let is_refused = show::is_error(reply);
                if !is_refused && *reply != Reply::Ok {
                    return Err(Unfit);
                }
                if is_worker {
                    request.progress = Progress::Answered;
                }
                if is_refused {
                    self.flush_failed(key, raw.to_vec());
                }
                if is_worker {
                    return Ok(());
                }
                None
            }
            (Progress::Answered, Reply::Hello(hello)) => Some((request.tag.pool, hello.epoch)),
            _ => return Err(Unfit),
        };
        self.done(id);
        self.flush_answered(now, key, known);
        Ok(())
    }

    /// A server has not flushed, or it is not known whether.
    pub(crate) fn flush_failed(&mut self, key: FlushId, line: Vec<u8>) {
        if let Some(flush) = self.flushes.get_mut(&key) {
            flush.failure.get_or_insert(line);
        }
    }

    /// A server owes nothing more in this round; a worker goes by that map.
    pub(crate) fn flush_answered(
        &mut self,
        now: Instant,
        key: FlushId,
        known: Option<(PoolId, Epoch)>,
    ) {
        let Some(flush) = self.flushes.get_mut(&key) else {
            return;
        };
        if let Some((pool, epoch)) = known
            && let Some((_, newest)) = flush.maps.get_mut(&pool)
        {
            *newest = epoch.max(*newest);
        }
        flush.missing -= 1;
        if flush.missing > 0 {
            return;
        }
        let newer: Vec<_> = flush.newer_maps().collect();
        let give_up = flush.give_up;
        for &(pool, epoch) in &newer {
            self.want_map(pool, epoch);
        }
        self.due_at(give_up);
        self.go_on_with_flush(now, key);
    }

    /// Goes on with flushes that wait for a map: there is a new one, or their time may be up.
    pub(crate) fn go_on_with_flushes(&mut self, now: Instant) {
        let waiting = self.flushes.iter().filter(|(_, flush)| flush.missing == 0);
        let waiting: Vec<FlushId> = waiting.map(|(key, _)| *key).collect();
        for key in waiting {
            self.go_on_with_flush(now, key);
        }
    }

    /// Ends a flush whose round is over, or begins the next, if it can.
    fn go_on_with_flush(&mut self, now: Instant, key: FlushId) {
        let Some(flush) = self.flushes.get(&key) else {
            return;
        };
        let is_done = flush.failure.is_some() || flush.newer_maps().next().is_none();
        let has_maps = flush.newer_maps().all(|(pool, epoch)| {
            let pool = self.pools.get(pool.0);
            pool.is_none_or(|pool| pool.epoch() >= epoch)
        });
        let is_late = now >= flush.give_up;
        if !is_done && !has_maps && !is_late {
            return;
        }
        let Some(mut flush) = self.flushes.remove(&key) else {
            return;
        };
        match flush.failure.take() {
            Some(line) => self.end_flush(now, key, &flush, Err(line)),
            None if is_done => self.end_flush(now, key, &flush, Ok(())),
            None if is_late => self.end_flush(now, key, &flush, Err(MAP_MISSING.to_vec())),
            None => {
                self.stats.proxy_flushes_repeated += 1;
                self.flush_round(now, key, flush);
            }
        }
    }

    /// Tells the application.
    fn end_flush(
        &mut self,
        now: Instant,
        key: FlushId,
        flush: &Flush,
        outcome: Result<(), Vec<u8>>,
    ) {
        let (id, slot) = key;
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        client.parked -= usize::from(flush.holds_back);
        client.flushed(slot, outcome);
        self.release(now, id);
    }

    /// When the first flush that waits for a map is given up. O(flushes under way).
    pub(crate) fn flush_deadline(&self) -> Option<Instant> {
        let waiting = self.flushes.values().filter(|flush| flush.missing == 0);
        waiting.map(|flush| flush.give_up).min()
    }
}

fn follows_map(pool: &Pool) -> bool {
    matches!(pool.servers, Servers::Evenkeel(_))
}
