//! Requests that wait until the server to ask is known, or until what was asked before them is answered.

use crate::failure::Failure;
use crate::ids::ClientId;
use crate::pipe::in_flight::{Question, Tag};
use crate::under_way::fail::fail;
use crate::worker::ProxyCore;
use evenkeel_types::Instant;

/// Whether something that the client asked before this may reach its server later than this would
/// if it were sent now: it is parked, or was sent by an older map. Not in a pool without a map,
/// where what is asked again goes to the server that it was asked of.
pub(crate) fn has_stragglers(core: &ProxyCore, tag: &Tag) -> bool {
    let has_map = core
        .pools
        .get(tag.pool)
        .is_some_and(|pool| !pool.is_plain());
    let client = core.clients.get(tag.client);
    client.is_some_and(|client| {
        let is_older = client.era != core.era;
        has_map && (client.parked > 0 || is_older) && client.awaits_before(tag.slot)
    })
}

/// Nobody owns the key of a new request that writes: its cachelet is between two owners, which takes some
/// heartbeats. A read is a miss meanwhile. What has waited behind another such request gives up with it, so that many
/// that were sent together wait together.
pub(crate) fn await_owner(core: &mut ProxyCore, now: Instant, mut question: Question) {
    let client = core.clients.get_mut(question.tag.client);
    let held_back = client.and_then(|client| client.held_back.as_mut());
    let since = held_back.map_or(now, |held_back| {
        held_back.goes_on = true;
        held_back.since
    });
    if let Some(pool) = core.pools.get(question.tag.pool) {
        question.tag.give_up = since + pool.settings.request_timeout;
    }
    park(core, now, question);
}

/// A new request writes a key of which its client is still to be shown reads that it has asked for before. Each of them may
/// be asked a second time, of the home, before it is answered or late.
pub(crate) fn await_reads(core: &mut ProxyCore, now: Instant, mut question: Question) {
    if let Some(pool) = core.pools.get(question.tag.pool) {
        question.tag.give_up = now + 2 * pool.settings.request_timeout;
    }
    wait(core, now, question, Failure::BehindReads);
}

/// A request of a pool that asks nobody at present. It keeps the time at which it gives up.
pub(crate) fn hold(core: &mut ProxyCore, now: Instant, question: Question) {
    wait(core, now, question, Failure::Quiesced);
}

pub(crate) fn park(core: &mut ProxyCore, now: Instant, question: Question) {
    if now >= question.tag.give_up {
        return fail(core, question, &Failure::Moving);
    }
    wait(core, now, question, Failure::Moving);
}

fn wait(core: &mut ProxyCore, now: Instant, question: Question, reason: Failure) {
    if !core.parking.has_room(question.bytes.len()) {
        return fail(core, question, &Failure::TooManyParked);
    }
    match reason {
        Failure::BehindReads => core.counts.stats.writes_behind_reads += 1,
        _ => core.counts.stats.requests_parked += 1,
    }
    if let Some(client) = core.clients.get_mut(question.tag.client) {
        client.parked += 1;
    }
    let until = core.parking.push(now, question, reason);
    core.outbox.due_at(until);
}

/// Ends the pauses of all parked requests.
pub(crate) fn hurry_all_parked(core: &mut ProxyCore, now: Instant) {
    core.parking.hurry_all(now);
    core.outbox.due_at(now);
}

/// Something that the client had asked for was answered: what it asked next, and is parked, need
/// not wait out its pause. O(parked requests); only for clients that have some.
pub(crate) fn hurry_parked(core: &mut ProxyCore, now: Instant, id: ClientId) {
    let clients = &core.clients;
    if core
        .parking
        .hurry(now, id, |tag| clients.awaits_before(tag))
    {
        core.outbox.due_at(now);
    }
}
