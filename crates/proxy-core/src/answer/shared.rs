//! Identical gets that wait to be sent become one.
//!
//! Under load a turn of the worker brings many gets of a hot key from many connections. The first is put
//! into the queue of the key's server; while it has not been written, the others join it and are answered
//! with its answer. A get never joins one that was sent, nor one behind which something is queued that cannot be joined, a write or
//! a read in other words: the server executes the one after the other was asked, as it would have executed the other itself,
//! and no client has seen anything newer that it asked before. So nobody
//! reads anything older than without this. That costs the sharing among gets of different turns, and needs
//! no word about keys between workers and proxies when something is written.
//!
//! In pools of plain servers the gets of one key take part that go the quick way (see `request/quick.rs`) or are of a replicated key (`pool/hot.rs`),
//! and whatever else is asked ends the joining of what is before it. Workers of a cluster are asked by `request/question.rs`: there it does so
//! for its own key alone. Reads of a replicated key's home join one that was sent, too, as far as
//! [nothing staler is shown than may be](evenkeel_hotkeys::plain::PlainHotKeys::joins_asked_after). Each of those who share the answer to a replicated key's read judges it by his own ticket.

use crate::across::seen_mark;
use crate::answer::done::done;
use crate::client::{Answered, State};
use crate::composed::key_of_get;
use crate::crossings::Met;
use crate::ids::{BackendId, ClientId};
use crate::limits::STREAM_MIN;
use crate::pipe::in_flight::{Ask, Progress};
use crate::show;
use crate::show::Unfit;
use crate::stats::counters::Tally;
use crate::under_way::local_copies::{copy_found, shown_copy};
use crate::under_way::release::release;
use crate::worker::ProxyCore;
use core::{iter, mem};
use evenkeel_protocol::{Reply, text};
use evenkeel_schemes::locality::holder::Heard;
use evenkeel_types::Instant;

/// What those are answered for whom there is no memory: [`text::OUT_OF_MEMORY_WRITING`].
pub(crate) const NO_MEMORY: Reply<'static> =
    Reply::ServerError(b"out of memory writing get response");

/// A line of the answer to a get that was asked for several.
pub(crate) fn shared_values(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<(), Unfit> {
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    let (question, request) = backend.awaited().ok_or(Unfit)?;
    debug_assert_eq!(request.tag.ask, Ask::Values);
    let is_value = match reply {
        Reply::Value(value) => {
            if key_of_get(question) != Some(value.key) {
                return Err(Unfit);
            }
            true
        }
        Reply::End => false,
        reply if show::is_error(reply) => false,
        _ => return Err(Unfit),
    };
    let tag = request.tag;
    let Progress::Shared(others) = mem::replace(&mut request.progress, Progress::Answered) else {
        return Err(Unfit);
    };
    // Any of them knows, as long as its connection is there.
    let mut askers = iter::once((tag.client, tag.slot)).chain(others.iter().copied());
    let clients = &mut core.clients;
    let place = askers.find_map(|(client, slot)| {
        let slot = clients.get_mut(client)?.slot(slot)?;
        Some((slot.rename, slot.show))
    });
    let rename = place.and_then(|(rename, _)| core.routing.renames.get(rename));
    let copy = match (place, reply) {
        (Some((_, show)), Reply::Value(value)) if show::is_hidden(rename, value) => {
            let counts = (&mut core.pools, &mut core.counts.stats);
            shown_copy(counts, now, tag.pool, show, value)
        }
        _ => None,
    };
    if copy.is_some() {
        core.counts.stats.local_copies_shown += others.len() as u64;
    }
    let as_copied = copy
        .as_ref()
        .map(|(value, raw)| (Reply::Value(*value), raw));
    let (reply, raw) = match &as_copied {
        Some((reply, raw)) => (reply, &raw[..]),
        None => (reply, raw),
    };
    let racks = core.pools.racks(tag.pool);
    let found = match (racks, reply) {
        (Some(racks), Reply::Value(value)) if show::is_hidden(rename, value) => {
            let noted = |token| racks.noted(racks.own(), token);
            Some((seen_mark(0, value.data, noted), copy_found(value.data)))
        }
        (Some(racks), Reply::End) if racks.asks_on() => Some((Heard::Nothing, None)),
        _ => None,
    };
    let (outcome, reply) = match reply {
        Reply::Value(value) if show::is_hidden(rename, value) => {
            core.counts.stats.placeholders_met += 1;
            (Tally::GetMiss, &Reply::End)
        }
        Reply::Value(_) => (Tally::GetHit, reply),
        Reply::End => (Tally::GetMiss, reply),
        _ => (Tally::Refused, reply),
    };
    request.saw(raw.len(), outcome);
    let found = found.map(|found| (found, key_of_get(question).unwrap_or_default().to_vec()));
    if !is_value {
        done(core, id);
    }
    if let Some(((found, copy), key)) = found {
        let askers = iter::once((tag.client, tag.slot)).chain(*others);
        for (client, slot) in askers {
            core.crossings.meet(Met {
                client,
                slot,
                pool: tag.pool,
                key: key.as_slice().into(),
                found,
                copy,
            });
        }
        return Ok(());
    }
    share(core, tag.client, tag.slot, reply, raw);
    release(core, now, tag.client);
    for (client, slot) in *others {
        match has_room_for_copy(core, raw.len()) {
            true => share(core, client, slot, reply, raw),
            false => share(core, client, slot, &NO_MEMORY, text::OUT_OF_MEMORY_WRITING),
        }
        release(core, now, client);
    }
    Ok(())
}

/// Whether there is memory for another copy of an answer. One answer, asked for once, can become thousands of
/// copies before the driver has a chance to look; each of those who get none is told so.
pub(crate) fn has_room_for_copy(core: &mut ProxyCore, len: usize) -> bool {
    if len < STREAM_MIN {
        return true;
    }
    // An output that grows takes twice as much.
    let has_room = 2 * len <= core.room;
    if has_room {
        core.room -= 2 * len;
    } else {
        core.counts.stats.copies_refused += 1;
    }
    has_room
}

fn share(core: &mut ProxyCore, id: ClientId, slot: u64, reply: &Reply<'_>, raw: &[u8]) {
    let Some(client) = core.clients.get_mut(id) else {
        return;
    };
    let answered = match reply {
        Reply::Value(value) => {
            client.saw_answer(raw.len());
            let mut bytes = core.spare.take();
            let rename = client.slot(slot).map(|slot| slot.rename);
            let rename = rename.and_then(|rename| core.routing.renames.get(rename));
            show::value_as_sent(&mut bytes, rename, value, raw);
            Answered {
                bytes,
                is_error: false,
                tally: Tally::GetHit,
            }
        }
        Reply::End => Answered::miss(),
        _ => Answered::refused(raw.to_vec()),
    };
    client.set_state(slot, State::Done(answered));
}
