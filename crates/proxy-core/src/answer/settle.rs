//! The one answer to a request, for each of those who asked it.
//!
//! What it tells of a hot key is noted as it arrives: a lease, and the value to be kept. Whether a read may be
//! shown it is decided when its turn comes (see [`ClientLeases::release`]); until then the answer is kept together with its
//! question, which may have to be asked again.
//!
//! [`ClientLeases::release`]: evenkeel_hotkeys::client::ClientLeases::release

use crate::answer::input::show_front;
use crate::answer::mg::answer_of_mg;
use crate::answer::shared::{NO_MEMORY, Others};
use crate::client::{Answered, HeldRead, State};
use crate::pipe::backend::Peer;
use crate::pipe::in_flight::{Progress, Question, Tag};
use crate::pool::hot::FILLER;
use crate::pool::{Pool, Servers};
use crate::show::{Tally, Unfit};
use crate::under_way::catch_up::NOBODY;
use crate::{BackendId, ProxyCore, kept, show};
use core::mem;
use core::time::Duration;
use evenkeel_hotkeys::client::Answer;
use evenkeel_hotkeys::client::Grant;
use evenkeel_hotkeys::client::Verdict;
use evenkeel_protocol::MetaStatus;
use evenkeel_protocol::Reply;
use evenkeel_protocol::text;
use evenkeel_types::Epoch;
use evenkeel_types::Instant;

impl ProxyCore {
    /// The one answer to a request has arrived, for whoever asked it and for those who joined.
    pub(crate) fn settle(
        &mut self,
        now: Instant,
        id: BackendId,
        reply: &Reply<'_>,
        raw: &[u8],
    ) -> Result<(), Unfit> {
        self.for_each_asker(now, id, (reply, raw), |proxy, tag, (reply, raw)| {
            proxy.settle_for(now, id, tag, reply, raw)
        })?;
        self.done(id);
        Ok(())
    }

    /// Does something with the answer to the awaited request for whoever asked it first, and then for each of those who joined, for
    /// whom there may be no memory. If one cannot be done, those who are left share the request as before.
    pub(crate) fn for_each_asker<'r>(
        &mut self,
        now: Instant,
        id: BackendId,
        said: (&'r Reply<'r>, &'r [u8]),
        settle: impl Fn(&mut Self, Tag, (&Reply<'_>, &[u8])) -> Result<(), Unfit>,
    ) -> Result<(), Unfit> {
        let backend = self.backends.get_mut(id.0).ok_or(Unfit)?;
        let (_, request) = backend.awaited().ok_or(Unfit)?;
        let tag = request.tag;
        let mut others = match mem::take(&mut request.progress) {
            Progress::Shared(others) => *others,
            _ => Others::new(),
        };
        let mut settled = settle(self, tag, said);
        while let (Ok(()), Some(&(client, slot))) = (settled, others.last()) {
            let tag = Tag {
                client,
                slot,
                ..tag
            };
            settled = match self.has_room_for_copy(said.1.len()) {
                true => settle(self, tag, said),
                false => settle(self, tag, (&NO_MEMORY, text::OUT_OF_MEMORY_WRITING)),
            };
            if settled.is_ok() {
                others.pop();
                self.release(now, client);
            }
        }
        if settled.is_err() {
            // The connection is given up, and with it what is left.
            let backend = self.backends.get_mut(id.0);
            let request = backend.and_then(|backend| Some(backend.awaited()?.1));
            if let (Some(request), false) = (request, others.is_empty()) {
                request.progress = Progress::Shared(Box::new(others));
            }
        }
        settled
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
        let told_lease = backend.lease;
        let is_aware = backend.peer != Peer::Memcached;
        // With an open window that is when it was asked, or nearly. What plain servers tell is compared with when writes were asked
        // here, so that a read of theirs counts from when it was asked itself.
        let written = match backend.window.is_open() || !is_aware {
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
                let lease = pool.promised_lease().unwrap_or(told_lease);
                let left = meta.lease_left_ms().map(Duration::from_millis);
                let grant = Grant {
                    gamma,
                    lease,
                    left: left.unwrap_or(lease),
                };
                let began = pool.leases.grant(now, era, ticket, answer, grant);
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
            match version_since(reply).filter(|_| write.tells()) {
                Some(answer) => {
                    let (key, len) = ((tag.hash, write), question.len());
                    let value = || kept::of_store(question);
                    pool.leases.write_answered(era, key, answer, len, value);
                }
                None => pool.leases.write_ended(tag.hash, write),
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
            match verdict {
                Verdict::Show => {}
                Verdict::ShowKept(of, value) => {
                    self.stats.proxy_reads_kept += 1;
                    let kept = (of, value.as_deref());
                    let answered = kept::answered((shown_as, rename), question, kept);
                    request.saw(raw.len(), answered.tally);
                    client.set_state(tag.slot, State::Done(answered));
                    return Ok(());
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
            let tally = show_front(
                client,
                (&mut self.stats, &mut self.per_route),
                (shown_as, rename),
                question,
                reply,
                raw,
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

    /// The answer to a read, if any comes, is compared with nothing.
    pub(crate) fn forget_ticket(&mut self, now: Instant, tag: &Tag) {
        if let Some(client) = self.clients.get_mut(tag.client.0)
            && let Some(slot) = client.slot(tag.slot)
            && let Some((pool, ticket)) = slot.ticket.take()
            && let Some(pool) = self.pools.get_mut(pool.0)
        {
            pool.leases.abandon(now, ticket);
        }
    }

    /// A write has come to an end, and nobody knows the version of what it stored.
    pub(crate) fn write_ended(&mut self, tag: &Tag) {
        if let Some(write) = tag.write
            && let Some(pool) = self.pools.get_mut(tag.pool.0)
        {
            pool.leases.write_ended(tag.hash, write);
        }
    }
}

/// What leases of a pool belong to. A pool that is gone has none.
#[inline]
pub(crate) fn lease_era(pool: Option<&Pool>, era: u64) -> Epoch {
    match pool.map(|pool| &pool.servers) {
        Some(Servers::Evenkeel(pool)) => pool.era(),
        Some(Servers::Memcached(_)) | None => Epoch(era),
    }
}

/// What an answer says about the version that a key has since a write.
fn version_since(reply: &Reply<'_>) -> Option<Answer> {
    if let Reply::Meta(meta) = reply
        && let Some(version) = meta.newest_version()
    {
        return Some(Answer::Miss(Some(version)));
    }
    let version = show::version(reply).filter(|_| is_done(reply));
    version.map(Answer::Hit)
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
