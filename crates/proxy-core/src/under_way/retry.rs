//! Trying parked requests again.

use crate::failure::Failure;
use crate::parked::Parked;
use crate::under_way::again::{ask_again, renew_ticket};
use crate::under_way::by_stage::ask_by_stage;
use crate::under_way::fail::fail;
use crate::under_way::release::release;
use crate::worker::ProxyCore;
use evenkeel_types::Instant;

/// Tries parked requests again whose pause is over.
pub(crate) fn retry_parked(core: &mut ProxyCore, now: Instant) {
    // Those that are parked again meanwhile wait for another pause.
    while core.parking.deadline().is_some_and(|until| until <= now) {
        retry_first_parked(core, now);
    }
}

/// Tries all parked requests again: there is a new map.
pub(crate) fn retry_all_parked(core: &mut ProxyCore, now: Instant) {
    for _ in 0..core.parking.len() {
        retry_first_parked(core, now);
    }
}

fn retry_first_parked(core: &mut ProxyCore, now: Instant) {
    let Some(parked) = core.parking.pop() else {
        return;
    };
    let tag = parked.question.tag;
    if let Some(client) = core.clients.get_mut(tag.client) {
        if client.awaits_before(tag.slot) && now < tag.give_up {
            let until = core.parking.push(now, parked.question, parked.reason);
            return core.outbox.due_at(until);
        }
        client.parked -= 1;
    }
    let Parked {
        question, reason, ..
    } = parked;
    if now < tag.give_up {
        let is_of_stage = reason == Failure::Quiesced
            || reason == Failure::BehindReads && core.pools.has_former_or_list(tag.pool);
        if is_of_stage {
            ask_by_stage(core, now, question);
            return release(core, now, tag.client);
        }
        let home = core.pools.home(tag.pool, tag.hash);
        renew_ticket(core, now, &tag);
        ask_again(core, now, question, home);
    } else {
        // Not asked once more: it could overtake what its client asked before.
        fail(core, question, &reason);
    }
    release(core, now, tag.client);
}
