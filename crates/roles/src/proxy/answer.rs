//! From a server's bytes to an application's answers.
//!
//! Answers belong to requests by their order. One for the application's front slot is written
//! straight into its output; others are composed aside. Whether the answer to a read may be shown is
//! decided when its turn comes (see [`ClientLeases::release`]), so it is kept together with its
//! question.
//!
//! [`ClientLeases::release`]: evenkeel_policy::hot_keys::client::ClientLeases::release

use super::backend::{Backend, Link, Peer};
use super::client::{Answered, Client, HeldRead, Show, State, Verb};
use super::collapse::Others;
use super::failover::NOBODY;
use super::health::{Sign, TRIAL_PAUSE};
use super::hot::{FILLER, answer_of_mg};
use super::in_flight::{Ask, Progress, Question, Tag};
use super::limits::{LEASE_MAX, MOVE_PAUSE};
use super::multi_get::without_newline;
use super::per_route::PerRoute;
use super::pool::{Pool, Servers};
use super::recovery::Loss;
use super::routes::{Rename, Renames};
use super::show::{self, Tally, Unfit};
use super::stats::{self, CoreFacts, PoolFacts};
use super::{BackendId, ProcessStats, ProxyCore, ProxyStats, StatsTicket, kept};
use crate::wording;
use core::mem;
use core::time::Duration;
use evenkeel_policy::hot_keys::client::{Answer, Verdict};
use evenkeel_protocol::{Hello, MetaStatus, Reply, ReplyOutcome, Value, parse_reply};
use evenkeel_types::{Epoch, Instant};

impl ProxyCore {
    /// A server sent something: `input` is everything of it that was not consumed before. Returns
    /// how many bytes of it are done with. A connection that was given up consumes everything.
    pub fn backend_input(&mut self, now: Instant, id: BackendId, input: &[u8]) -> usize {
        let consumed = self.read_answers(now, id, input);
        if self.backends.get(id.0).is_some_and(Backend::lets_through) {
            self.write_backend(id);
        }
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
        stats::compose(&mut bytes, ticket.kind, &facts, process);
        if let Some(client) = self.clients.get_mut(ticket.client.0) {
            if let Some(Show::Binary(echo)) = client.slot(ticket.slot).map(|slot| slot.show) {
                let said = mem::take(&mut bytes);
                wording::in_binary(&said, echo, &mut bytes);
            }
            let answered = Answered {
                bytes,
                is_error: false,
                tally: Tally::Nothing,
            };
            client.set_state(ticket.slot, State::Done(answered));
        }
        self.release(now, ticket.client);
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

    /// The one answer to a request has arrived, for whoever asked it and for those who joined.
    fn settle(
        &mut self,
        now: Instant,
        id: BackendId,
        reply: &Reply<'_>,
        raw: &[u8],
    ) -> Result<(), Unfit> {
        let backend = self.backends.get_mut(id.0).ok_or(Unfit)?;
        let (_, request) = backend.awaited().ok_or(Unfit)?;
        let tag = request.tag;
        let others = match mem::take(&mut request.progress) {
            Progress::Shared(others) => *others,
            _ => Others::new(),
        };
        self.settle_for(now, id, tag, reply, raw)?;
        for (client, slot) in others {
            let tag = Tag {
                client,
                slot,
                ..tag
            };
            self.settle_for(now, id, tag, reply, raw)?;
            self.release(now, client);
        }
        self.done(id);
        Ok(())
    }

    /// The answer to the awaited request, for one of those who asked it: shows it, keeps it for its turn, or asks again.
    fn settle_for(
        &mut self,
        now: Instant,
        id: BackendId,
        tag: Tag,
        reply: &Reply<'_>,
        raw: &[u8],
    ) -> Result<(), Unfit> {
        let backend = self.backends.get_mut(id.0).ok_or(Unfit)?;
        let lease = backend.lease;
        let is_aware = backend.peer != Peer::Memcached;
        // With an open window that is when it was asked, or nearly.
        let written = match backend.window.is_open() {
            true => None,
            false => backend.written(),
        };
        let (question, request) = backend.awaited().ok_or(Unfit)?;
        let Some(client) = self.clients.get_mut(tag.client.0) else {
            // Nobody is left to tell.
            self.write_ended(&tag);
            match tag.client {
                NOBODY => self.caught_up(reply)?,
                FILLER => self.filled(now, &tag, reply)?,
                _ => {}
            }
            return Ok(());
        };
        let Some(slot) = client.slot(tag.slot) else {
            self.write_ended(&tag);
            return Ok(());
        };
        let (shown_as, rename) = (slot.show, self.renames.get(slot.rename));
        let mut ticket = slot.ticket.take().map(|(_, ticket)| ticket);
        if let (Some(ticket), Some(written)) = (&mut ticket, written) {
            ticket.written(written);
        }
        let mut pool = self.pools.get_mut(tag.pool.0);
        let era = lease_era(pool.as_deref(), self.era);
        let mut said = Vec::new();
        let (answer, of_home) = match &ticket {
            Some(ticket) if !is_aware => {
                let question = (question, tag.is_replica);
                answer_of_mg(pool.as_deref_mut(), era, ticket, question, reply, &mut said)
            }
            _ => (answer_of(reply), None),
        };
        let reply = of_home.as_ref().unwrap_or(reply);
        if !is_aware {
            let is_hit = tag.is_replica && matches!(answer, Answer::Hit(_));
            self.stats.proxy_replica_hits += u64::from(is_hit);
        }
        if let (Some(ticket), Reply::Meta(meta), true) = (&ticket, reply, is_aware) {
            self.stats.proxy_replica_hits +=
                u64::from(tag.is_replica && matches!(answer, Answer::Hit(_)));
            if let (Some(gamma), Some(pool)) = (meta.gamma(), pool.as_deref_mut()) {
                let began = pool.leases.grant(now, era, ticket, answer, (gamma, lease));
                self.stats.proxy_leases += u64::from(began);
                self.stats.proxy_leases_dropped += pool.leases.take_dropped();
            }
            if let Some(pool) = pool.as_deref_mut() {
                let len = kept::len(meta.value.unwrap_or_default());
                let value = || kept::of_answer(meta);
                pool.leases.keep(era, ticket, answer, len, value);
            }
        }
        if let (Some(write), Some(pool)) = (tag.write, pool.as_deref_mut()) {
            match show::version(reply).filter(|_| is_done(reply)) {
                Some(version) => {
                    let (key, len) = ((tag.hash, write), question.len());
                    let value = || kept::of_store(question);
                    pool.leases.write_answered(era, key, version, len, value);
                }
                None => pool.leases.write_ended(write),
            }
        }
        client.saw_answer(raw.len());
        let asked = || Question {
            tag,
            bytes: question.to_vec(),
            progress: Progress::Nothing,
        };
        if client.is_front(tag.slot) {
            let verdict = match (ticket, pool) {
                (Some(ticket), Some(pool)) => pool.leases.release(now, era, ticket, answer),
                _ => Verdict::Show,
            };
            let mut instead = Vec::new();
            match verdict {
                Verdict::Show => {}
                Verdict::ShowKept(of, value) => {
                    self.stats.proxy_reads_kept += 1;
                    kept::compose(&mut instead, question, of, value.as_deref());
                }
                Verdict::AskHome(ticket) => {
                    if let Some(slot) = client.slot(tag.slot) {
                        slot.ticket = Some((tag.pool, ticket));
                    }
                    let question = asked();
                    self.ask_home(now, question, answer);
                    return Ok(());
                }
            }
            let kept = kept::parse(&instead);
            let (reply, shown) = match &kept {
                Some(kept) => (kept, &instead[..]),
                None => (reply, raw),
            };
            let tally = show_front(
                client,
                (&mut self.stats, &mut self.per_route),
                (shown_as, rename),
                question,
                reply,
                shown,
            )?;
            request.saw(raw.len(), tally);
            self.write_client(tag.client);
            if self.has_parked(tag.client) {
                self.hurry_parked(now, tag.client);
            }
            return Ok(());
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        let tally = show::compose(&mut bytes, shown_as, rename, question, reply, raw);
        request.saw(raw.len(), tally.unwrap_or(Tally::Nothing));
        let answered = Answered {
            bytes,
            is_error: show::is_error(reply),
            tally: tally?,
        };
        let state = match ticket {
            None => State::Done(answered),
            Some(ticket) => {
                if let Some(slot) = client.slot(tag.slot) {
                    slot.ticket = Some((tag.pool, ticket));
                }
                State::Read(Box::new(HeldRead {
                    answered,
                    answer,
                    question: asked(),
                }))
            }
        };
        client.set_state(tag.slot, state);
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

    /// A write has come to an end, and nobody knows the version of what it stored.
    pub(super) fn write_ended(&mut self, tag: &Tag) {
        if let Some(write) = tag.write
            && let Some(pool) = self.pools.get_mut(tag.pool.0)
        {
            pool.leases.write_ended(write);
        }
    }

    /// The awaited request is answered.
    pub(super) fn done(&mut self, id: BackendId) {
        self.log_answered(id);
        if let Some(backend) = self.backends.get_mut(id.0) {
            backend.measure(self.now, &mut self.per_route);
            backend.pop();
        }
        self.close_if_retired(id);
    }
}

/// Composes the front slot's answer straight into the output and gives up the slot.
fn show_front(
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

/// What leases of a pool belong to. A pool that is gone has none.
#[inline]
pub(super) fn lease_era(pool: Option<&Pool>, era: u64) -> Epoch {
    match pool.map(|pool| &pool.servers) {
        Some(Servers::Evenkeel(pool)) => pool.era(),
        Some(Servers::Memcached(_)) | None => Epoch(era),
    }
}

/// What an answer says about the version that a read saw.
fn answer_of(reply: &Reply<'_>) -> Answer {
    match reply {
        Reply::Meta(meta) if meta.status == MetaStatus::Miss => Answer::Miss(meta.newest_version()),
        reply => show::version(reply).map_or(Answer::Failed, Answer::Hit),
    }
}

/// Whether a meta command was carried out.
fn is_done(reply: &Reply<'_>) -> bool {
    matches!(reply, Reply::Meta(meta) if meta.status == MetaStatus::Done)
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
