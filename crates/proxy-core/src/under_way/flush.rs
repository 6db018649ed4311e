//! `flush_all`: to each server of the pools that allow it, because each holds a part.
//!
//! **Contents on the move.** A cachelet may have passed to a server that the map of this proxy does not have yet, together
//! with what it held. So each worker of a cluster is asked behind the flush which map it knows. What it has passed on before it
//! flushed, it was told to by no newer one; where the flush went by an older map, it is repeated as a whole by the
//! newer, until no worker knows of anything that the flush did not reach. As a whole, because contents may meanwhile have come to
//! a server that was flushed first.
//!
//! ```text
//!  application         proxy (map 7)              worker               worker of a new server
//!     │── flush_all ──────>│── flush_all, hello ────>│                          │
//!     │                    │<── OK, epoch 8 ─────────│                          │
//!     │                    │   … map 8 …             │                          │
//!     │                    │── flush_all, hello ────>│                          │
//!     │                    │── flush_all, hello ───────────────────────────────>│
//!     │<── OK ─────────────│<── OK, epoch 8, of both ┴──────────────────────────┘
//! ```
//!
//! **A pool that is warmed from another**: that one is flushed first, and when all of its servers have answered, this one.
//!
//! What the application asks behind it waits for the end: a value that was stored between two rounds would be lost.

use crate::client::{Answered, State};
use crate::flushes::{Flush, FlushId, Next};
use crate::ids::PoolId;
use crate::pipe::in_flight::{Ask, Progress, Tag};
use crate::show;
use crate::show::kinds::Show;
use crate::stats::counters::Tally;
use crate::under_way::put::put;
use crate::under_way::release::release;
use crate::worker::ProxyCore;
use evenkeel_protocol::compose::request as ask;
use evenkeel_protocol::text;
use evenkeel_types::{Epoch, Instant};
use std::collections::BTreeMap;

/// What `flush_all` is answered while there is no server to flush.
pub(crate) const NOTHING_TO_FLUSH: &[u8] = b"SERVER_ERROR no servers known yet\r\n";

/// Rounds behind the first where a pool is warmed from another, which the first is for.
pub(crate) const ROUNDS_OF_WARMED: u8 = 2;

/// Sends the flush to all servers by the present maps.
pub(crate) fn flush_round(core: &mut ProxyCore, now: Instant, id: FlushId, flush: Flush) {
    let pools = core.pools.to_flush(core.routing.ways());
    let targets = match flush.rounds_left {
        ROUNDS_OF_WARMED => core.pools.holders(&core.pools.former_of(&pools)),
        _ => core.pools.holders(&pools),
    };
    let mut maps = BTreeMap::new();
    for &pool_id in &pools {
        if core.pools.watches() {
            core.pools.watch_flush(now, pool_id);
        }
        if let Some(pool) = core.pools.get_mut(pool_id) {
            pool.leases.flush_sent();
            if !pool.is_plain() {
                maps.insert(pool_id, pool.epoch());
            }
        }
    }
    if targets.is_empty() {
        // A new configuration has no server of these any more.
        return end_flush(core, now, id, &flush, Err(NOTHING_TO_FLUSH.to_vec()));
    }
    let mut line = Vec::new();
    ask::flush_all(&mut line, flush.delay, false);
    core.flushes.begin_round(id, flush, targets.len(), &maps);
    for (pool, target) in targets {
        let mut line = line.clone();
        if let Some(&epoch) = maps.get(&pool) {
            ask::hello(&mut line, epoch);
        }
        match core.admit(target, line.len()) {
            Ok(to) => {
                let tag = Tag::new(id.0, pool, id.1, Ask::Flush, now);
                put(core, now, to, tag, Progress::Nothing, |out| {
                    out.extend_from_slice(&line);
                    (0, 0)
                });
            }
            Err(failure) => {
                core.backends.note_missed_flush(target);
                core.flushes.failed(id, failure.line());
                flush_answered(core, now, id, None);
            }
        }
    }
}

/// A server owes nothing more in this round; a worker goes by that map.
pub(crate) fn flush_answered(
    core: &mut ProxyCore,
    now: Instant,
    id: FlushId,
    known: Option<(PoolId, Epoch)>,
) {
    core.flushes.answered(id, known);
    end_round(core, now, id);
}

/// Goes on with a flush if no server owes anything more in its round.
pub(crate) fn end_round(core: &mut ProxyCore, now: Instant, id: FlushId) {
    let Some((newer, give_up)) = core.flushes.awaited_maps(id) else {
        return;
    };
    for (pool, epoch) in newer {
        core.pools.want_map(&mut core.outbox, pool, epoch);
    }
    core.outbox.due_at(give_up);
    go_on_with_flush(core, now, id);
}

/// Goes on with flushes that wait for a map: there is a new one, or their time may be up.
pub(crate) fn go_on_with_flushes(core: &mut ProxyCore, now: Instant) {
    for id in core.flushes.waiting() {
        go_on_with_flush(core, now, id);
    }
}

/// Ends a flush whose round is over, or begins the next, if it can.
fn go_on_with_flush(core: &mut ProxyCore, now: Instant, id: FlushId) {
    let pools = &core.pools;
    let has_map = |pool: PoolId, epoch: Epoch| {
        let pool = pools.get(pool);
        pool.is_none_or(|pool| pool.epoch() >= epoch)
    };
    match core.flushes.go_on(now, id, has_map) {
        None => {}
        Some(Next::End(flush, outcome)) => end_flush(core, now, id, &flush, outcome),
        Some(Next::Further(flush)) => flush_round(core, now, id, flush),
        Some(Next::Round(flush)) => {
            core.counts.stats.flushes_repeated += 1;
            flush_round(core, now, id, flush);
        }
    }
}

/// Tells the application.
fn end_flush(
    core: &mut ProxyCore,
    now: Instant,
    (id, slot): FlushId,
    flush: &Flush,
    outcome: Result<(), Vec<u8>>,
) {
    let Some(client) = core.clients.get_mut(id) else {
        return;
    };
    client.parked -= usize::from(flush.holds_back);
    if let Some(show) = client.slot(slot).map(|slot| slot.show) {
        client.set_state(slot, flushed(show, outcome));
    }
    release(core, now, id);
}

/// The answer once all servers have answered a flush, or it has failed.
fn flushed(show: Show, outcome: Result<(), Vec<u8>>) -> State {
    match (show, outcome) {
        (Show::Nothing, _) => State::Text(b""),
        (Show::Binary(echo), Ok(())) => State::Done(Answered {
            bytes: show::binary::flushed(echo),
            is_error: false,
            tally: Tally::Nothing,
        }),
        (_, Ok(())) => State::Text(text::OK),
        (_, Err(line)) => State::Done(Answered::error(show::refusal(show, line))),
    }
}
