//! `flush_all`, as an application asks for it.

use crate::client::{Slot, State};
use crate::failure::QUIESCED;
use crate::flushes::Flush;
use crate::ids::{ClientId, PoolId};
use crate::request::way::refuse;
use crate::show::kinds::Show;
use crate::under_way::flush::{NOTHING_TO_FLUSH, ROUNDS_OF_WARMED, flush_round};
use crate::under_way::profile::note_flush;
use crate::under_way::release::release;
use crate::worker::ProxyCore;
use evenkeel_protocol::text;
use evenkeel_schemes::stage::Stage;
use evenkeel_types::Instant;

/// Asks every server of the pools that allow it and that some route takes writes to.
pub(crate) fn flush_all(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    delay: Option<i64>,
    show: Show,
) {
    let pools = core.pools.to_flush(core.routing.ways());
    let is_quiesced = |pool: &PoolId| core.pools.stage_of_some(*pool) == Some(Stage::Quiesced);
    if pools.iter().any(is_quiesced) {
        return refuse(core, now, id, show, QUIESCED);
    }
    if pools.is_empty() {
        return refuse(core, now, id, show, text::FLUSH_NOT_ALLOWED);
    }
    core.counts.stats.cmd_flush += 1;
    if core.pools.holders(&pools).is_empty() {
        return refuse(core, now, id, show, NOTHING_TO_FLUSH);
    }
    let of = |pool: &PoolId| core.pools.get(*pool);
    let patience = pools.iter().filter_map(of);
    let patience = patience.map(|pool| pool.settings.request_timeout).max();
    let is_warmed = pools.iter().any(|pool| core.pools.takes_steps(*pool));
    let holds_back = is_warmed || pools.iter().filter_map(of).any(|pool| !pool.is_plain());
    let keep_copies = pools.iter().any(|pool| core.pools.keeps_copies(*pool));
    let holds_back = holds_back || keep_copies;
    let rounds_left = match is_warmed {
        true => ROUNDS_OF_WARMED,
        // A fill that has read at a home before it was emptied finds its placeholder gone in the second round.
        false => u8::from(keep_copies),
    };
    let note = note_flush(core, id);
    let Some(client) = core.clients.get_mut(id) else {
        return;
    };
    client.parked += usize::from(holds_back);
    let slot = client.push(Slot {
        note,
        ..Slot::new(show, State::Flushing)
    });
    let give_up = now + patience.unwrap_or_default();
    let flush = Flush::new(delay, holds_back, rounds_left, give_up);
    flush_round(core, now, (id, slot), flush);
    release(core, now, id);
}
