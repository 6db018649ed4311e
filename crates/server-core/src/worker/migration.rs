//! The [migrations](crate::ownership::migration) whose source this worker is: found in the map, carried on, ended.

use crate::links::LinkId;
use crate::ownership::migration::copying::Asked;
use crate::ownership::migration::outgoing::{Progress, Stage};
use crate::ownership::migration::volume::stands;
use crate::placement::{Holder, LocalPlacement};
use crate::shard::time::{Seconds, TimeBase};
use crate::worker::core::WorkerCore;
use core::time::Duration;
use evenkeel_protocol::{Reply, ReplyOutcome, parse_reply, text};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, Now};
use std::sync::Arc;

/// When it is asked again.
const BEGIN_PAUSE: Duration = Duration::from_millis(50);

/// How often it is tried whether the cachelet can pass, while keys still have replicas or workers follow a move.
const PASS_LOOK: Duration = Duration::from_millis(5);

/// A new map: ends what it does not have any more, and has `placement`, made from it, follow what it does not say
/// yet. What came here and is this server's now needs no more.
pub(crate) fn revise_migrations(
    core: &mut WorkerCore,
    now: Now,
    map: &Arc<ClusterMap>,
    placement: &mut LocalPlacement,
) {
    let ids: Vec<_> = core.hosting.migrations.outgoing.keys().copied().collect();
    for cachelet in ids {
        revise_outgoing(core, now, map, placement, cachelet);
    }
    let ids: Vec<_> = core.hosting.migrations.incoming.keys().copied().collect();
    for cachelet in ids {
        (core.hosting).revise_incoming(&mut core.engine, map, placement, cachelet);
    }
}

/// Looks for migrations of the map whose source is this worker. To be called when there is a new map, or a cachelet
/// has come.
pub(crate) fn find_migrations(core: &mut WorkerCore, now: Now) {
    core.hosting.find_migrations(&mut core.engine, now);
    migrate(core, now);
}

/// A `flush_all` was executed here.
pub(crate) fn flush_ends_migrations(core: &mut WorkerCore, now: Now) {
    core.hosting.migrations.flushed_at = Some(now.monotonic);
    let active = core.hosting.migrations.active;
    if let Some(cachelet) = active.filter(|cachelet| core.hosting.migrations.has_begun(*cachelet)) {
        abort(core, now, cachelet);
    }
    (core.hosting.migrations).flush_ends_incoming(&mut core.engine);
}

/// Goes on with what this worker copies, by one step at most.
pub(crate) fn migrate(core: &mut WorkerCore, now: Now) {
    let Some((cachelet, outgoing)) = core.hosting.migrations.turn() else {
        return;
    };
    if outgoing.order.cancelled || outgoing.is_late(now.monotonic) {
        return abort(core, now, cachelet);
    }
    if now.monotonic < outgoing.next_at {
        return;
    }
    match outgoing.stage {
        Stage::Waiting => {
            if !core.hosting.begin(now, cachelet) {
                abort(core, now, cachelet);
            }
        }
        Stage::Beginning { until } if now.monotonic >= until => abort(core, now, cachelet),
        Stage::Beginning { .. } => core.hosting.ask_to_begin(now, cachelet),
        Stage::Copying => copy(core, now, cachelet),
        Stage::Passing { .. } | Stage::Moved | Stage::Aborted => {}
    }
}

/// Sends some items, and tries to pass the cachelet when little is left.
fn copy(core: &mut WorkerCore, now: Now, cachelet: CacheletId) {
    let engine = &mut core.engine;
    let Some(outgoing) = core.hosting.migrations.outgoing.get_mut(&cachelet) else {
        return;
    };
    if engine.rewritten.is_too_much() {
        engine.counters.migrations_outrun += 1;
        return abort(core, now, cachelet);
    }
    let turn = outgoing.stepped_at.take().map(|at| now.monotonic.since(at));
    if let Some(pause) = turn.and_then(|turn| outgoing.pace.guard(turn)) {
        engine.counters.migration_pauses += 1;
        outgoing.next_at = now.monotonic + pause;
        return;
    }
    match outgoing.send_some(engine, now) {
        Progress::More => {
            outgoing.next_at = now.monotonic;
            outgoing.stepped_at = Some(now.monotonic);
        }
        Progress::At(next) => outgoing.next_at = next,
        Progress::LittleLeft => {
            outgoing.next_at = now.monotonic + PASS_LOOK;
            core.hosting.pass(&mut core.engine, now, cachelet);
        }
    }
}

/// The target serves the cachelet.
fn decide(core: &mut WorkerCore, now: Now, cachelet: CacheletId) {
    if core.hosting.decide(&mut core.engine, now, cachelet) {
        end_active(core, now, cachelet);
    }
}

/// Nothing comes of a migration.
fn abort(core: &mut WorkerCore, now: Now, cachelet: CacheletId) {
    if core.hosting.take_back(&mut core.engine.counters, cachelet) {
        end_active(core, now, cachelet);
    }
}

/// Lets those go on who wait for the cachelet, and the next migration begin.
fn end_active(core: &mut WorkerCore, now: Now, cachelet: CacheletId) {
    if core.hosting.migrations.active == Some(cachelet) {
        core.hosting.migrations.active = None;
        core.engine.rewritten.watch(None);
        core.hosting.handovers.passing = None;
    }
    core.hosting.handovers.wake(&mut core.connections);
    core.hosting.migrations.release(cachelet);
    migrate(core, now);
}

/// A new map, and the placement made from it.
fn revise_outgoing(
    core: &mut WorkerCore,
    now: Now,
    map: &ClusterMap,
    placement: &mut LocalPlacement,
    cachelet: CacheletId,
) {
    let Some(outgoing) = core.hosting.migrations.outgoing.get_mut(&cachelet) else {
        return;
    };
    let is_gone = matches!(outgoing.stage, Stage::Moved);
    if let Some(order) = stands(map, cachelet, outgoing.order.began) {
        outgoing.order = *order;
        outgoing.pace.set_rate(order.bytes_per_second);
        if is_gone {
            placement.let_go(cachelet);
        }
        return;
    }
    if !is_gone {
        let was_passing = core.hosting.handovers.passing == Some(cachelet);
        abort(core, now, cachelet);
        if was_passing {
            // Made while nobody served it, and now it is back.
            placement.set_host(cachelet, Holder::Worker(core.config.index));
        }
    }
    core.hosting.migrations.close_link(cachelet);
    core.engine.hot.handle_host_by_map(cachelet);
    core.hosting.migrations.outgoing.remove(&cachelet);
}

/// The connection to a target broke, or could not be made.
pub(crate) fn migration_link_lost(core: &mut WorkerCore, now: Now, id: LinkId) {
    if let Some(cachelet) = core.hosting.migrations.of_link(id) {
        if let Some(outgoing) = core.hosting.migrations.outgoing.get_mut(&cachelet) {
            outgoing.link = None;
        }
        abort(core, now, cachelet);
    }
}

/// Answers of a target. Gives the number of bytes consumed.
pub(crate) fn migration_link_input(
    core: &mut WorkerCore,
    now: Now,
    id: LinkId,
    input: &[u8],
) -> usize {
    let mut consumed = 0;
    while let Some(cachelet) = core.hosting.migrations.of_link(id) {
        match parse_reply(&input[consumed..], &core.engine.limits) {
            ReplyOutcome::Incomplete { .. } => return consumed,
            ReplyOutcome::Reply {
                reply,
                consumed: length,
            } => {
                consumed += length;
                if !handle_target(core, now, cachelet, &reply) {
                    migration_answer_is_wrong(core, now, cachelet);
                }
            }
            ReplyOutcome::Malformed => migration_answer_is_wrong(core, now, cachelet),
        }
    }
    input.len()
}

/// A target that does not keep to the protocol, or takes no part, is not spoken to any more.
fn migration_answer_is_wrong(core: &mut WorkerCore, now: Now, cachelet: CacheletId) {
    abort(core, now, cachelet);
    core.hosting.migrations.close_link(cachelet);
}

/// One answer of the target. False when the migration must end, or it is to nothing that was asked.
fn handle_target(core: &mut WorkerCore, now: Now, cachelet: CacheletId, reply: &Reply<'_>) -> bool {
    let Some(outgoing) = core.hosting.migrations.outgoing.get_mut(&cachelet) else {
        return false;
    };
    let Some(link) = &mut outgoing.link else {
        return false;
    };
    let Some((asked, _)) = link.asked.pop_front() else {
        return false;
    };
    match (asked, reply) {
        (Asked::Hello, Reply::Hello(hello)) => hello.worker == outgoing.order.to,
        (Asked::Begin, Reply::Number(seconds)) => {
            // No clock of a store shows more.
            let Ok(there) = Seconds::try_from(*seconds) else {
                return false;
            };
            // It read its clock before this one shows what it does now, and both count whole seconds.
            let here = i64::from(TimeBase::seconds(now)) + 1;
            link.ahead = i64::from(there) - here;
            outgoing.stage = Stage::Copying;
            outgoing.next_at = now.monotonic;
            core.engine.rewritten.watch(Some(cachelet));
            migrate(core, now);
            true
        }
        (Asked::Begin, Reply::Other(word)) if *word == text::MIGRATE_LATER.trim_ascii_end() => {
            outgoing.next_at = now.monotonic + BEGIN_PAUSE;
            true
        }
        (Asked::Batch(sent), Reply::MetaNoop) => {
            link.answered = sent;
            outgoing.next_at = outgoing.next_at.min(now.monotonic);
            true
        }
        (Asked::Activate, Reply::Ok) => {
            decide(core, now, cachelet);
            true
        }
        (Asked::Confirm, Reply::Ok) => {
            core.hosting.migrations.close_link(cachelet);
            true
        }
        _ => false,
    }
}
