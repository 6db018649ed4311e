//! The one answer to a request, for each of those who asked it.
//!
//! What it tells of a hot key is noted as it arrives: a lease, and the value to be kept. Whether a read may be
//! shown it is decided when its turn comes (see [`ClientLeases::release`]); until then the answer is kept together with its
//! question, which may have to be asked again.
//!
//! [`ClientLeases::release`]: evenkeel_hotkeys::client::ClientLeases::release

use crate::answer::askers::for_each_asker;
use crate::answer::copies::filled;
use crate::answer::done::done;
use crate::answer::front::show_front;
use crate::answer::hot::at_home;
use crate::answer::mg::answer_of_mg;
use crate::client::{Answered, HeldRead, State};
use crate::composed::sent_key;
use crate::copied::outlives_copies;
use crate::ids::BackendId;
use crate::pipe::backend::Peer;
use crate::pipe::in_flight::{Asker, Progress, Question, Tag};
use crate::pool::lease_era;
use crate::show::Unfit;
use crate::show::kinds::{Show, Unasked};
use crate::stats::counters::Tally;
use crate::under_way::again::ask_home;
use crate::under_way::crossing::goes_on;
use crate::under_way::deletions::{delete_copies, deleted};
use crate::under_way::operation::{Own, own_answered};
use crate::under_way::park::hurry_parked;
use crate::warm::{has_unique, with_masked_unique, with_status};
use crate::worker::ProxyCore;
use crate::{show, value_bytes};
use core::time::Duration;
use evenkeel_hotkeys::client::{Answer, Grant, Verdict};
use evenkeel_protocol::{KeyScratch, MetaStatus, Reply};
use evenkeel_types::Instant;

/// A server has answered what nobody but the proxy asked for.
fn caught_up(core: &mut ProxyCore, reply: &Reply<'_>) -> Result<(), Unfit> {
    match reply {
        Reply::Deleted | Reply::NotFound | Reply::Ok => Ok(()),
        Reply::Meta(meta) if matches!(meta.status, MetaStatus::Done | MetaStatus::NotFound) => {
            Ok(())
        }
        reply if show::is_error(reply) => {
            core.counts.stats.catch_ups_refused += 1;
            Ok(())
        }
        _ => Err(Unfit),
    }
}

/// The one answer to a request has arrived, for anyone who asked it and for those who joined.
pub(crate) fn deliver(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<(), Unfit> {
    for_each_asker(core, now, id, (reply, raw), |core, tag, (reply, raw)| {
        deliver_for(core, now, id, tag, reply, raw)
    })?;
    done(core, id);
    Ok(())
}

/// The answer to the awaited request, for one of those who asked it.
fn deliver_for(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    tag: Tag,
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<(), Unfit> {
    if core.pools.deletes_behind(&tag) {
        return delete_behind(core, now, id, &tag, reply, raw);
    }
    if !core.takes_steps() {
        return show_or_keep(core, now, id, tag, reply, raw);
    }
    if core.pools.crosses() && goes_on(core, now, id, &tag, reply) {
        return Ok(());
    }
    match own_answered(core, now, id, &tag, reply) {
        Own::Show => match unique_mask_of(core, id, &tag, reply) {
            0 => show_or_keep(core, now, id, tag, reply, raw),
            mask => with_masked_unique(raw, mask, |reply, raw| {
                show_or_keep(core, now, id, tag, reply, raw)
            }),
        },
        Own::Taken => Ok(()),
        Own::ShowAs(status) => with_status(raw, status, |reply, raw| {
            deliver_for(core, now, id, tag, reply, raw)
        }),
    }
}

/// The key of the awaited request, as it is stored.
pub(crate) fn awaited_key(core: &mut ProxyCore, id: BackendId) -> Result<Box<[u8]>, Unfit> {
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    let (question, _) = backend.awaited().ok_or(Unfit)?;
    let mut scratch = KeyScratch::default();
    let key = sent_key(question).ok_or(Unfit)?;
    Ok(key.decode(&mut scratch).into())
}

/// The answer to a write is there: it is kept until its copies are deleted.
pub(crate) fn delete_behind(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    tag: &Tag,
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<(), Unfit> {
    let key = awaited_key(core, id)?;
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    let (question, request) = backend.awaited().ok_or(Unfit)?;
    // Where home has nothing, copies are not to show what it had.
    let keeping = core.pools.keeping(tag.pool).filter(|_| has_found(reply));
    if keeping.is_some_and(|keeping| outlives_copies(question, &keeping, core.unix)) {
        return show_or_keep(core, now, id, *tag, reply, raw);
    }
    let client = core.clients.get_mut(tag.client);
    let mut answered = Answered::miss();
    if let Some(slot) = client.and_then(|client| client.slot(tag.slot)) {
        let rename = core.routing.renames.get(slot.rename);
        let mut bytes = core.spare.take();
        let tally = show::compose(&mut bytes, slot.show, rename, question, reply, raw)?;
        request.saw(raw.len(), tally);
        answered = Answered {
            bytes,
            is_error: show::is_error(reply),
            tally,
        };
    }
    delete_copies(core, now, tag, &key, answered);
    Ok(())
}

/// What the unique in an answer is combined with before it is shown; 0 for nothing.
fn unique_mask_of(core: &mut ProxyCore, id: BackendId, tag: &Tag, reply: &Reply<'_>) -> u64 {
    if !has_unique(reply) {
        return 0;
    }
    let shown_as = core.pools.shown_as(tag.pool);
    if shown_as != 0 && core.pools.racks(tag.pool).is_none() {
        return shown_as ^ name_mask_of(core, id, tag);
    }
    let client = core.clients.get_mut(tag.client);
    let show = client.and_then(|client| Some(client.slot(tag.slot)?.show));
    let is_shown = !matches!(
        show,
        None | Some(
            Show::Value {
                with_cas: false,
                ..
            } | Show::Meta {
                unasked: Unasked { cas: true, .. },
                ..
            }
        )
    );
    if !is_shown {
        return 0;
    }
    if let Some(racks) = core.pools.racks(tag.pool) {
        return racks.unique_mask(racks.own());
    }
    name_mask_of(core, id, tag)
}

/// What the unique of the item that was asked for is combined with, since its name is one of ours; 0 for nothing.
fn name_mask_of(core: &mut ProxyCore, id: BackendId, tag: &Tag) -> u64 {
    if !core.pools.is_named(tag.pool) {
        return 0;
    }
    let backend = core.backends.get_mut(id);
    let question = backend.and_then(|backend| Some(backend.awaited()?.0));
    let mut scratch = KeyScratch::default();
    let name = question.and_then(|question| Some(sent_key(question)?.decode(&mut scratch)));
    name.map_or(0, |name| core.pools.unique_mask(tag.pool, name))
}

/// Shows an answer, keeps it for its turn, or asks again.
#[inline]
fn show_or_keep(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    tag: Tag,
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<(), Unfit> {
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    let told_lease = backend.lease;
    let is_aware = backend.peer != Peer::Memcached;
    // With an open window that is when it was asked, or nearly. What plain servers tell is compared with when writes were asked
    // here, so that a read of theirs counts from when it was asked itself.
    let written = match backend.window.is_open() || !is_aware {
        true => None,
        false => backend.written(),
    };
    let (question, request) = backend.awaited().ok_or(Unfit)?;
    let Some(client) = core.clients.get_mut(tag.client) else {
        // Nobody is left to tell.
        core.pools.write_ended(&tag);
        match tag.asker {
            Asker::CatchUp => caught_up(core, reply)?,
            Asker::Copy => filled(core, now, &tag, reply)?,
            Asker::Deletion => deleted(core, now, (id, &tag), reply)?,
            Asker::Client | Asker::Step | Asker::Crossing => {}
        }
        return Ok(());
    };
    let Some(slot) = client.slot(tag.slot) else {
        core.pools.write_ended(&tag);
        return Ok(());
    };
    let (shown_as, rename) = (slot.show, core.routing.renames.get(slot.rename));
    let mut ticket = slot.ticket.take().map(|(_, ticket)| ticket);
    if let (Some(ticket), Some(written)) = (&mut ticket, written) {
        ticket.written(written);
    }
    let mut pool = core.pools.get_mut(tag.pool);
    let era = lease_era(pool.as_deref(), core.era);
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
        core.counts.stats.replica_hits += u64::from(is_hit);
    }
    if let (Some(ticket), Reply::Meta(meta), true) = (&ticket, reply, is_aware) {
        core.counts.stats.replica_hits +=
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
            core.counts.stats.leases += u64::from(began);
            core.counts.stats.leases_dropped += pool.leases.take_dropped();
        }
        if let Some(pool) = pool.as_deref_mut() {
            let len = value_bytes::len(meta.value.unwrap_or_default());
            let value = || value_bytes::of_answer(meta);
            pool.leases.keep(era, ticket, answer, len, value);
        }
    }
    if let (Some(write), Some(pool)) = (tag.write, pool.as_deref_mut()) {
        match version_since(reply).filter(|_| write.tells()) {
            Some(answer) => {
                let (key, len) = ((tag.hash, write), question.len());
                let value = || value_bytes::of_store(question);
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
    let is_useless = !is_aware && tag.is_replica && answer == Answer::Failed;
    if let Some(pool) = pool.as_deref_mut().filter(|_| is_useless)
        && let Some(ticket) = ticket.take()
    {
        let again = at_home(&mut pool.leases, now, era, &tag, ticket);
        if let Some(slot) = client.slot(tag.slot) {
            slot.ticket = Some((tag.pool, again));
        }
        let question = asked();
        ask_home(core, now, question, answer);
        return Ok(());
    }
    if client.is_front(tag.slot) {
        let verdict = match (ticket, pool) {
            (Some(ticket), Some(pool)) => pool.leases.release(now, era, ticket, answer),
            _ => Verdict::Show,
        };
        match verdict {
            Verdict::Show => {}
            Verdict::ShowKept(of, value) => {
                core.counts.stats.reads_kept += 1;
                let kept = (of, value.as_deref());
                let answered = value_bytes::answered((shown_as, rename), question, kept);
                request.saw(raw.len(), answered.tally);
                client.set_state(tag.slot, State::Done(answered));
                return Ok(());
            }
            Verdict::AskHome(ticket) => {
                if let Some(slot) = client.slot(tag.slot) {
                    slot.ticket = Some((tag.pool, ticket));
                }
                let question = asked();
                ask_home(core, now, question, answer);
                return Ok(());
            }
        }
        let tally = show_front(
            client,
            &mut core.counts,
            (shown_as, rename),
            question,
            reply,
            raw,
        )?;
        request.saw(raw.len(), tally);
        core.clients.write(&mut core.outbox, tag.client);
        if core.clients.has_parked(tag.client) {
            hurry_parked(core, now, tag.client);
        }
        return Ok(());
    }
    let mut bytes = core.spare.take();
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

/// Whether a touch, or a read that touches, has met an item.
fn has_found(reply: &Reply<'_>) -> bool {
    match reply {
        Reply::Touched => true,
        Reply::Meta(meta) => matches!(meta.status, MetaStatus::Done | MetaStatus::Value),
        _ => false,
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

/// Whether a meta command was executed.
fn is_done(reply: &Reply<'_>) -> bool {
    matches!(reply, Reply::Meta(meta) if meta.status == MetaStatus::Done)
}
