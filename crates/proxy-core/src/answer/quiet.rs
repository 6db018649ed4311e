//! The answer to a quiet command and the `mn` behind it.

use crate::answer::deliver::{awaited_key, delete_behind};
use crate::answer::done::done;
use crate::answer::moved::take_moved;
use crate::client::{Answered, State};
use crate::ids::BackendId;
use crate::pipe::backend::Peer;
use crate::pipe::in_flight::{Progress, Tag};
use crate::show;
use crate::show::Unfit;
use crate::show::kinds::{Show, Verb};
use crate::stats::counters::Tally;
use crate::under_way::deletions::delete_copies;
use crate::under_way::operation::{Own, own_answered};
use crate::warm::with_status;
use crate::worker::ProxyCore;
use evenkeel_protocol::Reply;
use evenkeel_types::Instant;

/// A part of the answer to a quiet command and the `mn` behind it.
pub(crate) fn take_quiet(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<(), Unfit> {
    if core.takes_steps() {
        match handle_own(core, now, id, reply)? {
            Own::Show => {}
            Own::Taken => return Ok(()),
            Own::ShowAs(status) => {
                return with_status(raw, status, |reply, raw| {
                    take_quiet(core, now, id, reply, raw)
                });
            }
        }
    }
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    let is_aware = backend.peer != Peer::Memcached;
    let (question, request) = backend.awaited().ok_or(Unfit)?;
    let tag = request.tag;
    if core.pools.deletes_behind(&tag) && matches!(request.progress, Progress::Nothing) {
        return delete_behind_quiet(core, now, id, &tag, reply, raw);
    }
    let client = core.clients.get_mut(tag.client);
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
            core.pools.write_ended(&tag);
            done(core, id);
        }
        (Progress::Nothing, Reply::Moved(moved)) if is_aware => {
            request.progress = Progress::Moved(*moved);
        }
        (Progress::Nothing, reply) => {
            if let Some(client) = client
                && let Some(slot) = client.slot(tag.slot)
            {
                let mut bytes = core.spare.take();
                let rename = core.routing.renames.get(slot.rename);
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
            core.pools.write_ended(&tag);
            done(core, id);
        }
        (Progress::Moved(moved), Reply::MetaNoop) => {
            let moved = *moved;
            take_moved(core, now, id, moved);
        }
        _ => return Err(Unfit),
    }
    Ok(())
}

/// The answer to a quiet write, or the `mn` where it has none, is kept until the copies are deleted.
fn delete_behind_quiet(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    tag: &Tag,
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<(), Unfit> {
    if *reply != Reply::MetaNoop {
        delete_behind(core, now, id, tag, reply, raw)?;
        let backend = core.backends.get_mut(id).ok_or(Unfit)?;
        backend.awaited().ok_or(Unfit)?.1.progress = Progress::Answered;
        return Ok(());
    }
    let key = awaited_key(core, id)?;
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    let (_, request) = backend.awaited().ok_or(Unfit)?;
    let client = core.clients.get_mut(tag.client);
    let slot = client.and_then(|client| client.slot(tag.slot));
    let tally = slot.map_or(Tally::Nothing, |slot| hidden_tally(slot.show));
    request.saw(raw.len(), tally);
    let answered = Answered {
        tally,
        ..Answered::miss()
    };
    done(core, id);
    delete_copies(core, now, tag, &key, answered);
    Ok(())
}

/// In a pool that is warmed from another, an operation hears what its own quiet command has come to.
#[inline(never)]
fn handle_own(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    reply: &Reply<'_>,
) -> Result<Own, Unfit> {
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    let (_, request) = backend.awaited().ok_or(Unfit)?;
    let tag = request.tag;
    if !matches!(request.progress, Progress::Nothing) || matches!(reply, Reply::Moved(_)) {
        return Ok(Own::Show);
    }
    let own = own_answered(core, now, id, &tag, reply);
    if let Own::Taken = own {
        // The `mn` is the end of it.
        let backend = core.backends.get_mut(id).ok_or(Unfit)?;
        backend.awaited().ok_or(Unfit)?.1.progress = Progress::Answered;
    }
    Ok(own)
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
