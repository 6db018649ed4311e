//! From a server's bytes to an application's answers.
//!
//! Answers belong to requests by their order. One for the application's front slot is written
//! straight into its output; others are composed aside. What has one answer goes on in `settle.rs`.

use crate::client::{Answered, Client, Show, State, Verb};
use crate::limits::{LEASE_MAX, MOVE_PAUSE};
use crate::pipe::backend::{Backend, Link, Peer};
use crate::pipe::health::{Sign, TRIAL_PAUSE};
use crate::pipe::in_flight::{Ask, Progress};
use crate::request::multi_get::without_newline;
use crate::routes::{Rename, Renames};
use crate::show::{Tally, Unfit};
use crate::stats::listing;
use crate::stats::listing::{CoreFacts, PoolFacts, ProcessStats, ProxyStats};
use crate::stats::per_route::PerRoute;
use crate::under_way::again::Loss;
use crate::{BackendId, ClientId, ProxyCore, StatsTicket, show};
use core::mem;
use core::time::Duration;
use evenkeel_protocol::Hello;
use evenkeel_protocol::Reply;
use evenkeel_protocol::ReplyOutcome;
use evenkeel_protocol::Value;
use evenkeel_protocol::binary::wording;
use evenkeel_protocol::parse_reply;
use evenkeel_types::Epoch;
use evenkeel_types::Instant;

impl ProxyCore {
    /// A server sent something: `input` is everything of it that was not consumed before. Returns
    /// how many bytes of it are done with. A connection that was given up consumes everything.
    pub fn backend_input(&mut self, now: Instant, id: BackendId, input: &[u8]) -> usize {
        let consumed = self.read_answers(now, id, input);
        if self.backends.get(id.0).is_some_and(Backend::lets_through) {
            self.shed(now, id);
            self.write_backend(id);
        }
        self.unpace(now, id);
        consumed
    }

    fn read_answers(&mut self, now: Instant, id: BackendId, input: &[u8]) -> usize {
        let limits = self.reply_limits();
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            let Some(backend) = self.backends.get_mut(id.0) else {
                return input.len();
            };
            if !matches!(backend.link, Link::Greeting { .. } | Link::Ready) {
                return input.len();
            }
            if rest.len() < backend.need.max(1) {
                return consumed;
            }
            backend.need = 0;
            if backend.streaming.is_some() {
                match self.go_on_with_stream(now, id, rest) {
                    Ok(count) => consumed += count,
                    Err(Unfit) => {
                        self.give_up(now, id, Loss::Confused);
                        return input.len();
                    }
                }
                continue;
            }
            let quick = self.quick_values(now, id, rest, &limits);
            if quick > 0 {
                consumed += quick;
                continue;
            }
            let understood = match parse_reply(rest, &limits) {
                ReplyOutcome::Incomplete { total } => {
                    if let Some(count) = self.begin_stream(id, rest, &limits) {
                        consumed += count;
                        continue;
                    }
                    if let Some(backend) = self.backends.get_mut(id.0) {
                        backend.need = total;
                    }
                    return consumed;
                }
                ReplyOutcome::Reply {
                    reply,
                    consumed: count,
                } => {
                    consumed += count;
                    self.reply(now, id, &reply, &rest[..count])
                }
                ReplyOutcome::Malformed => Err(Unfit),
            };
            if understood.is_err() {
                self.give_up(now, id, Loss::Confused);
                return input.len();
            }
        }
    }

    /// Answers `stats`.
    pub fn answer_stats(&mut self, now: Instant, ticket: StatsTicket, process: &ProcessStats) {
        let mut bytes = self.spare_buffer();
        let facts = CoreFacts {
            config: &self.config,
            pools: self
                .pools
                .iter()
                .map(|(_, pool)| PoolFacts::of(pool))
                .collect(),
        };
        listing::compose(&mut bytes, ticket.kind, &facts, process);
        let client = self.clients.get_mut(ticket.client.0);
        let slot = client.and_then(|client| client.slot(ticket.slot));
        if let Some(Show::Binary(echo)) = slot.map(|slot| slot.show) {
            let said = mem::take(&mut bytes);
            wording::in_binary(&said, echo, &mut bytes);
        }
        self.fill(now, ticket.client, ticket.slot, bytes);
    }

    /// Puts the answer to what was asked of the process into its place.
    pub(crate) fn fill(&mut self, now: Instant, id: ClientId, slot: u64, bytes: Vec<u8>) {
        if let Some(client) = self.clients.get_mut(id.0) {
            let answered = Answered {
                bytes,
                is_error: false,
                tally: Tally::Nothing,
            };
            client.set_state(slot, State::Done(answered));
        }
        self.release(now, id);
    }

    fn reply(
        &mut self,
        now: Instant,
        id: BackendId,
        reply: &Reply<'_>,
        raw: &[u8],
    ) -> Result<(), Unfit> {
        let backend = self.backends.get_mut(id.0).ok_or(Unfit)?;
        if matches!(backend.link, Link::Greeting { .. }) {
            return self.greeted(now, id, reply);
        }
        backend.answered();
        let is_aware = backend.peer != Peer::Memcached;
        let (_, request) = backend.awaited().ok_or(Unfit)?;
        let client = request.tag.client;
        match request.tag.ask {
            Ask::Single => {
                if let (Reply::Moved(moved), true) = (reply, is_aware) {
                    self.moved(now, id, *moved);
                    return Ok(());
                }
                let hot_key = self.hot_key_of_mg(id);
                self.settle(now, id, reply, raw)?;
                if let Some((pool, key)) = hot_key {
                    self.fill_from_mg(now, pool, &key, reply);
                }
            }
            Ask::Values if matches!(request.progress, Progress::Shared(_)) => {
                return self.shared_values(now, id, reply, raw);
            }
            Ask::Values => self.values(id, reply, raw)?,
            Ask::Hot => self.hot_reply(now, id, reply, raw)?,
            Ask::Quiet => self.quiet(now, id, reply, raw)?,
            Ask::Flush => self.flush_reply(now, id, reply, raw)?,
        }
        self.release(now, client);
        Ok(())
    }

    /// The peer said who it is.
    fn greeted(&mut self, now: Instant, id: BackendId, reply: &Reply<'_>) -> Result<(), Unfit> {
        let backend = self.backends.get_mut(id.0).ok_or(Unfit)?;
        match (backend.peer, reply) {
            // A server that has just been started: it knows neither its id nor what it owns.
            (Peer::Worker(_), Reply::Hello(hello)) if hello.epoch == Epoch(0) => {
                let until = now + MOVE_PAUSE;
                backend.link = Link::Unready { until };
                self.due_at(until);
                return Ok(());
            }
            (Peer::Worker(worker), Reply::Hello(hello))
                if hello.version == Hello::VERSION && hello.worker == worker =>
            {
                backend.lease = Duration::from_millis(hello.lease_ms).min(LEASE_MAX);
                let pool = backend.pool;
                self.want_map(pool, hello.epoch);
            }
            (Peer::Memcached, reply) if backend.awaits_login() => {
                if *reply == Reply::Stored {
                    backend.is_known();
                    return Ok(());
                }
                backend.counters.logins_refused += 1;
                return Err(Unfit);
            }
            // What does not know `version` has at least answered in the protocol.
            (Peer::Memcached, Reply::Version(_) | Reply::Error) => {
                self.learn_speech(id, reply)?;
            }
            _ => return Err(Unfit),
        }
        let backend = self.backends.get_mut(id.0).ok_or(Unfit)?;
        let has_changed = backend.health.see(now, Sign::Greeted);
        if !backend.health.is_in_use() {
            let until = now + TRIAL_PAUSE;
            backend.link = Link::Unready { until };
            self.due_at(until);
            return Ok(());
        }
        backend.agreed();
        if has_changed {
            self.standing_changed(id);
        }
        // Before anything else is asked.
        self.catch_up(now, id);
        self.write_backend(id);
        Ok(())
    }

    /// A line of the answer to a multi-get.
    fn values(&mut self, id: BackendId, reply: &Reply<'_>, raw: &[u8]) -> Result<(), Unfit> {
        match reply {
            Reply::Value(value) => self.value(id, value, raw),
            Reply::End => {
                self.rest_of_values(id, raw, false);
                Ok(())
            }
            reply if show::is_error(reply) => {
                self.rest_of_values(id, raw, true);
                Ok(())
            }
            _ => Err(Unfit),
        }
    }

    /// A value: the keys asked for before it, and not answered, are misses.
    fn value(&mut self, id: BackendId, value: &Value<'_>, raw: &[u8]) -> Result<(), Unfit> {
        let backend = self.backends.get_mut(id.0).ok_or(Unfit)?;
        let (question, request) = backend.awaited().ok_or(Unfit)?;
        let line = without_newline(question);
        let mut client = self.clients.get_mut(request.tag.client.0);
        let slot = match &mut request.progress {
            Progress::Nothing => {
                // One key was asked for, behind one space.
                let before = line.strip_suffix(value.key).ok_or(Unfit)?;
                if !before.ends_with(b" ") {
                    return Err(Unfit);
                }
                request.progress = Progress::Answered;
                request.tag.slot
            }
            Progress::Group(group) => loop {
                let (slot, key) = group.next().ok_or(Unfit)?;
                group.advance();
                if line[key] == *value.key {
                    break slot;
                }
                group.missed += 1;
                if let Some(client) = &mut client {
                    let answered = missed(client, &self.renames, slot, b"");
                    client.set_state(slot, State::Done(answered));
                }
            },
            Progress::Answered | Progress::Moved(_) | Progress::Shared(_) => return Err(Unfit),
        };
        request.saw(raw.len(), Tally::GetHit);
        let Some(client) = client else { return Ok(()) };
        client.saw_answer(raw.len());
        if client.is_front(slot) {
            let slot = client.slot(slot).ok_or(Unfit)?;
            let shown_as = (slot.show, self.renames.get(slot.rename));
            show_front(
                client,
                (&mut self.stats, &mut self.per_route),
                shown_as,
                b"",
                &Reply::Value(*value),
                raw,
            )?;
            let id = request.tag.client;
            self.write_client(id);
        } else {
            let mut bytes = self.spare.pop().unwrap_or_default();
            let slot_of_key = client.slot(slot).ok_or(Unfit)?;
            let rename = self.renames.get(slot_of_key.rename);
            match slot_of_key.show {
                Show::Binary(_) => {
                    let reply = Reply::Value(*value);
                    show::compose(&mut bytes, slot_of_key.show, rename, b"", &reply, raw)?;
                }
                _ => show::value_as_sent(&mut bytes, rename, value, raw),
            }
            let answered = Answered {
                bytes,
                is_error: false,
                tally: Tally::GetHit,
            };
            client.set_state(slot, State::Done(answered));
        }
        Ok(())
    }

    /// The end of the answer to a multi-get: the keys that are left are misses, or have failed.
    fn rest_of_values(&mut self, id: BackendId, raw: &[u8], is_error: bool) {
        let error = is_error.then_some(raw);
        let Some(backend) = self.backends.get_mut(id.0) else {
            return;
        };
        let Some((question, request)) = backend.awaited() else {
            return;
        };
        if let Some(client) = self.clients.get_mut(request.tag.client.0) {
            let mut settle = |slot| {
                client.saw_answer(0);
                let answered = match error {
                    None => missed(client, &self.renames, slot, question),
                    Some(line) => {
                        let show = client.slot(slot).map_or(Show::Nothing, |slot| slot.show);
                        Answered::refused(show::refusal(show, line.to_vec()))
                    }
                };
                client.set_state(slot, State::Done(answered));
            };
            match &request.progress {
                Progress::Nothing => settle(request.tag.slot),
                Progress::Group(group) => group.slots_left().for_each(settle),
                Progress::Answered | Progress::Moved(_) | Progress::Shared(_) => {}
            }
        }
        let outcome = match (&request.progress, is_error) {
            (_, true) => Tally::Refused,
            (Progress::Answered, false) => Tally::GetHit,
            (_, false) => Tally::GetMiss,
        };
        request.saw(raw.len(), outcome);
        self.done(id);
    }

    /// A part of the answer to a quiet command and the `mn` behind it.
    fn quiet(
        &mut self,
        now: Instant,
        id: BackendId,
        reply: &Reply<'_>,
        raw: &[u8],
    ) -> Result<(), Unfit> {
        let backend = self.backends.get_mut(id.0).ok_or(Unfit)?;
        let is_aware = backend.peer != Peer::Memcached;
        let (question, request) = backend.awaited().ok_or(Unfit)?;
        let tag = request.tag;
        let client = self.clients.get_mut(tag.client.0);
        match (&request.progress, reply) {
            (Progress::Nothing, Reply::MetaNoop) => {
                if let Some(client) = client
                    && let Some(slot) = client.slot(tag.slot)
                {
                    let tally = hidden_tally(slot.show);
                    request.saw(raw.len(), tally);
                    let answered = Answered {
                        tally,
                        ..Answered::miss()
                    };
                    client.set_state(tag.slot, State::Done(answered));
                }
                self.write_ended(&tag);
                self.done(id);
            }
            (Progress::Nothing, Reply::Moved(moved)) if is_aware => {
                request.progress = Progress::Moved(*moved);
            }
            (Progress::Nothing, reply) => {
                if let Some(client) = client
                    && let Some(slot) = client.slot(tag.slot)
                {
                    let mut bytes = self.spare.pop().unwrap_or_default();
                    let rename = self.renames.get(slot.rename);
                    let tally = show::compose(&mut bytes, slot.show, rename, question, reply, raw)?;
                    request.saw(raw.len(), tally);
                    let answered = Answered {
                        bytes,
                        is_error: false,
                        tally,
                    };
                    client.set_state(tag.slot, State::Done(answered));
                }
                request.progress = Progress::Answered;
            }
            // What does not know `mn` says so; that is an end, too.
            (Progress::Answered, Reply::MetaNoop | Reply::Error) => {
                request.saw(raw.len(), request.outcome);
                self.write_ended(&tag);
                self.done(id);
            }
            (Progress::Moved(moved), Reply::MetaNoop) => {
                let moved = *moved;
                self.moved(now, id, moved);
            }
            _ => return Err(Unfit),
        }
        Ok(())
    }

    /// The awaited request is answered.
    pub(crate) fn done(&mut self, id: BackendId) {
        self.log_answered(id);
        if let Some(backend) = self.backends.get_mut(id.0) {
            backend.measure(self.now, &mut self.per_route);
            backend.pop();
        }
        self.close_if_retired(id);
    }
}

/// Composes the front slot's answer straight into the output and gives up the slot.
pub(crate) fn show_front(
    client: &mut Client,
    (stats, routes): (&mut ProxyStats, &mut PerRoute),
    (shown_as, rename): (Show, Option<&Rename>),
    question: &[u8],
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<Tally, Unfit> {
    let is_key = matches!(shown_as, Show::Value { .. });
    if is_key && show::is_error(reply) {
        if let Some(slot) = client.pop() {
            routes.count(stats, slot.route, Tally::Refused, 0);
        }
        client.show(shown_as, Answered::refused(raw.to_vec()));
        return Ok(Tally::Refused);
    }
    let out = client.out();
    let before = out.len();
    let tally = show::compose(out, shown_as, rename, question, reply, raw)?;
    let bytes = out.len() - before;
    if let Some(slot) = client.pop() {
        routes.count(stats, slot.route, tally, bytes);
    }
    if is_key {
        client.end_key(shown_as);
    }
    Ok(tally)
}

/// What a key is answered that a server does not have.
#[inline]
fn missed(client: &mut Client, renames: &Renames, slot: u64, question: &[u8]) -> Answered {
    let mut answered = Answered::miss();
    if let Some(slot) = client.slot(slot)
        && let Show::Binary(echo) = slot.show
    {
        show::binary::miss(
            &mut answered.bytes,
            echo,
            renames.get(slot.rename),
            question,
        );
    }
    answered
}

/// What a quiet command has done when its answer is hidden.
fn hidden_tally(shown_as: Show) -> Tally {
    match shown_as {
        Show::Meta {
            verb: Verb::Delete, ..
        } => Tally::DeleteHit,
        Show::Meta {
            verb: Verb::Arithmetic { up: true },
            ..
        } => Tally::IncrHit,
        Show::Meta {
            verb: Verb::Arithmetic { up: false },
            ..
        } => Tally::DecrHit,
        Show::Meta {
            verb: Verb::Set, ..
        } => Tally::Stored,
        _ => Tally::Nothing,
    }
}
