//! Requests that wait until it is known whom to ask, or until what was asked before them is answered.

use crate::limits::{MOVE_PAUSE, PARKED_BYTES_MAX, PARKED_MAX};
use crate::pipe::in_flight::{Question, Tag};
use crate::pool::{PoolId, Servers};
use crate::stats::per_route::RouteId;
use crate::under_way::again::Failure;
use crate::{ClientId, Output, ProxyCore};
use evenkeel_types::Epoch;
use evenkeel_types::Instant;
use std::collections::VecDeque;

/// Requests that wait for a move to end, or for reads.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    /// In the order of arrival, which is the order of `until`.
    waiting: VecDeque<Parked>,
    bytes: usize,
}

#[derive(Debug)]
struct Parked {
    /// When to try it again.
    until: Instant,
    question: Question,
    /// What it fails with in the end.
    reason: Failure,
}

impl Parking {
    pub fn deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|parked| parked.until)
    }
}

impl ProxyCore {
    /// Whether anything that the client asked before this is still awaited, wherever from.
    pub(crate) fn awaits_before(&self, tag: &Tag) -> bool {
        let client = self.clients.get(tag.client.0);
        client.is_some_and(|client| client.awaits_before(tag.slot))
    }

    /// Whether something that the client asked before this may reach its server later than this would
    /// if it were sent now: it is parked, or was sent by an older map. Not in a pool without a map,
    /// where what is asked again goes to the server that it was asked of.
    pub(crate) fn has_stragglers(&self, tag: &Tag) -> bool {
        let pool = self.pools.get(tag.pool.0);
        let has_map = pool.is_some_and(|pool| matches!(pool.servers, Servers::Evenkeel(_)));
        let client = self.clients.get(tag.client.0);
        client.is_some_and(|client| {
            let is_older = client.era != self.era;
            has_map && (client.parked > 0 || is_older) && client.awaits_before(tag.slot)
        })
    }

    /// Whether requests of the client are parked.
    pub(crate) fn has_parked(&self, client: ClientId) -> bool {
        let client = self.clients.get(client.0);
        client.is_some_and(|client| client.parked > 0)
    }

    /// Nobody owns the key of a new request that writes: its cachelet is between two owners, which takes some
    /// heartbeats. A read is a miss meanwhile. What has waited behind another such request gives up with it, so that many
    /// that were sent together wait together.
    pub(crate) fn await_owner(&mut self, now: Instant, mut question: Question) {
        let client = self.clients.get_mut(question.tag.client.0);
        let held_back = client.and_then(|client| client.held_back.as_mut());
        let since = held_back.map_or(now, |held_back| {
            held_back.goes_on = true;
            held_back.since
        });
        if let Some(pool) = self.pools.get(question.tag.pool.0) {
            question.tag.give_up = since + pool.settings.request_timeout;
        }
        self.park(now, question);
    }

    /// A new request writes a key of which its client is still to be shown reads that it has asked for before. Each of them may
    /// be asked a second time, of the home, before it is answered or late.
    pub(crate) fn await_reads(&mut self, now: Instant, mut question: Question) {
        if let Some(pool) = self.pools.get(question.tag.pool.0) {
            question.tag.give_up = now + 2 * pool.settings.request_timeout;
        }
        self.wait(now, question, Failure::BehindReads);
    }

    pub(crate) fn park(&mut self, now: Instant, question: Question) {
        if now >= question.tag.give_up {
            return self.fail(question, &Failure::Moving);
        }
        self.wait(now, question, Failure::Moving);
    }

    fn wait(&mut self, now: Instant, question: Question, reason: Failure) {
        let len = question.bytes.len();
        if self.parking.waiting.len() >= PARKED_MAX || self.parking.bytes + len > PARKED_BYTES_MAX {
            return self.fail(question, &Failure::TooManyParked);
        }
        match reason {
            Failure::BehindReads => self.stats.proxy_writes_behind_reads += 1,
            _ => self.stats.proxy_requests_parked += 1,
        }
        if let Some(client) = self.clients.get_mut(question.tag.client.0) {
            client.parked += 1;
        }
        let until = now + MOVE_PAUSE;
        self.parking.bytes += len;
        self.parking.waiting.push_back(Parked {
            until,
            question,
            reason,
        });
        self.due_at(until);
    }

    /// Tries parked requests again whose pause is over.
    pub(crate) fn retry_parked(&mut self, now: Instant) {
        // Those that are parked again meanwhile wait for another pause.
        while self.parking.deadline().is_some_and(|until| until <= now) {
            self.retry_first_parked(now);
        }
    }

    /// Tries all parked requests again: there is a new map.
    pub(crate) fn retry_all_parked(&mut self, now: Instant) {
        for _ in 0..self.parking.waiting.len() {
            self.retry_first_parked(now);
        }
    }

    /// Ends the pauses of all parked requests.
    pub(crate) fn hurry_all_parked(&mut self, now: Instant) {
        for parked in &mut self.parking.waiting {
            parked.until = parked.until.min(now);
        }
        self.due_at(now);
    }

    /// Something that the client had asked for was answered: what it asked next, and is parked, need
    /// not wait out its pause. O(parked requests); only for clients that have some.
    pub(crate) fn hurry_parked(&mut self, now: Instant, client: ClientId) {
        let waiting = self.parking.waiting.iter().enumerate();
        let next = waiting
            .filter(|(_, parked)| parked.question.tag.client == client)
            .min_by_key(|(_, parked)| parked.question.tag.slot);
        if let Some((at, first)) = next
            && !self.awaits_before(&first.question.tag)
            && let Some(first) = self.parking.waiting.remove(at)
        {
            let first = Parked {
                until: now,
                ..first
            };
            self.parking.waiting.push_front(first);
            self.due_at(now);
        }
    }

    fn retry_first_parked(&mut self, now: Instant) {
        let Some(parked) = self.parking.waiting.pop_front() else {
            return;
        };
        let tag = parked.question.tag;
        let client = self.clients.get_mut(tag.client.0);
        if let Some(client) = client {
            if client.awaits_before(tag.slot) && now < tag.give_up {
                let until = now + MOVE_PAUSE;
                self.parking.waiting.push_back(Parked { until, ..parked });
                self.due_at(until);
                return;
            }
            client.parked -= 1;
        }
        let Parked {
            question, reason, ..
        } = parked;
        self.parking.bytes -= question.bytes.len();
        if now < tag.give_up {
            let home = self.home(tag.pool, tag.hash);
            self.renew_ticket(now, &tag);
            self.ask_again(now, question, home);
        } else {
            // Not asked once more: it could overtake what its client asked before.
            self.fail(question, &reason);
        }
        self.release(now, tag.client);
    }

    /// The routes of the requests that wait for a move.
    pub(crate) fn routes_parked(&self) -> impl Iterator<Item = RouteId> {
        let waiting = self.parking.waiting.iter();
        waiting.map(|parked| parked.question.tag.route)
    }

    /// Whether a request to the pool waits for a move.
    pub(crate) fn is_awaited_by_parked(&self, pool: PoolId) -> bool {
        let mut waiting = self.parking.waiting.iter();
        waiting.any(|parked| parked.question.tag.pool == pool)
    }

    /// A peer knows a newer map.
    pub(crate) fn want_map(&mut self, pool: PoolId, epoch: Epoch) {
        let pool = self.pools.get_mut(pool.0).map(|pool| &mut pool.servers);
        let Some(Servers::Evenkeel(pool)) = pool else {
            return;
        };
        if epoch > pool.epoch() && epoch > pool.wanted {
            pool.wanted = epoch;
            let source = pool.source();
            self.outputs.push_back(Output::WantMap { source, epoch });
        }
    }
}
