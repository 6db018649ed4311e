//! From a server's bytes to an application's answers.
//!
//! Answers belong to requests by their order. One for the application's front slot is written
//! straight into its output; others are composed aside. What has one answer goes on in `deliver.rs`.

use crate::answer::bundled::take_copies;
use crate::answer::crossing::take_step;
use crate::answer::deliver::deliver;
use crate::answer::done::done;
use crate::answer::flush::flush_reply;
use crate::answer::greeting::greeted;
use crate::answer::hot::hot_reply;
use crate::answer::lost::{Loss, give_up};
use crate::answer::mg::{fill_from_mg, hot_key_of_mg};
use crate::answer::moved::take_moved;
use crate::answer::quick::quick_values;
use crate::answer::quiet::take_quiet;
use crate::answer::shared::shared_values;
use crate::answer::shed::shed;
use crate::answer::stream::{begin_stream, go_on_with_stream};
use crate::answer::values::take_values;
use crate::ids::BackendId;
use crate::pipe::backend::{Link, Peer};
use crate::pipe::in_flight::{Ask, Asker, Progress};
use crate::show::Unfit;
use crate::under_way::crossing::go_on_with_met;
use crate::under_way::limited::go_on_with_ripe;
use crate::under_way::operation::step_answered;
use crate::under_way::pace::unpace;
use crate::under_way::profile::handle;
use crate::under_way::release::release;
use crate::worker::ProxyCore;
use evenkeel_protocol::{Reply, ReplyOutcome, parse_reply};
use evenkeel_types::Instant;

/// A server sent something: `input` is everything of it that was not consumed before. Returns
/// how many bytes of it are done with. A connection that was given up consumes everything.
pub(crate) fn take_answers(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    input: &[u8],
) -> usize {
    let consumed = read_answers(core, now, id, input);
    go_on_with_ripe(core, now);
    let lets_through = core.backends.get_mut(id).is_some_and(|backend| {
        backend.counters.received_bytes += consumed as u64;
        backend.give_back(&mut core.rooms);
        backend.lets_through()
    });
    if lets_through {
        shed(core, now, id);
        core.backends.write(&mut core.outbox, id);
    }
    unpace(core, now, id);
    consumed
}

fn read_answers(core: &mut ProxyCore, now: Instant, id: BackendId, input: &[u8]) -> usize {
    let limits = core.config.reply_limits();
    let mut consumed = 0;
    loop {
        let rest = &input[consumed..];
        let Some(backend) = core.backends.get_mut(id) else {
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
            match go_on_with_stream(core, now, id, rest) {
                Ok(count) => consumed += count,
                Err(Unfit) => {
                    give_up(core, now, id, Loss::Confused);
                    return input.len();
                }
            }
            continue;
        }
        let quick = quick_values(core, now, id, rest, &limits);
        if quick > 0 {
            consumed += quick;
            continue;
        }
        let understood = match parse_reply(rest, &limits) {
            ReplyOutcome::Incomplete { total } => {
                if let Some(count) = begin_stream(core, id, rest, &limits) {
                    consumed += count;
                    continue;
                }
                if let Some(backend) = core.backends.get_mut(id) {
                    backend.need = total;
                }
                return consumed;
            }
            ReplyOutcome::Reply {
                reply,
                consumed: count,
            } => {
                consumed += count;
                take_reply(core, now, id, &reply, &rest[..count])
            }
            ReplyOutcome::Malformed => Err(Unfit),
        };
        if understood.is_err() {
            give_up(core, now, id, Loss::Confused);
            return input.len();
        }
    }
}

fn take_reply(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<(), Unfit> {
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    if matches!(backend.link, Link::Greeting { .. }) {
        return greeted(core, now, id, reply);
    }
    backend.answered();
    handle(core, id);
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    let is_aware = backend.peer != Peer::Memcached;
    let (_, request) = backend.awaited().ok_or(Unfit)?;
    let tag = request.tag;
    let client = tag.client;
    if tag.asker == Asker::Crossing {
        return take_step(core, now, id, reply, raw);
    }
    match tag.ask {
        Ask::Single => {
            if let (Reply::Moved(moved), true) = (reply, is_aware) {
                take_moved(core, now, id, *moved);
                return Ok(());
            }
            if tag.asker == Asker::Step {
                step_answered(core, now, Some(id), &tag, reply)?;
                done(core, id);
                return Ok(());
            }
            let hot_key = hot_key_of_mg(core, id);
            deliver(core, now, id, reply, raw)?;
            if let Some((pool, key)) = hot_key {
                fill_from_mg(core, now, pool, &key, reply);
            }
        }
        Ask::Values if matches!(request.progress, Progress::Shared(_)) => {
            shared_values(core, now, id, reply, raw)?;
        }
        Ask::Values => take_values(core, now, id, reply, raw)?,
        Ask::Copies => take_copies(core, now, id, reply, raw)?,
        Ask::Hot => hot_reply(core, now, id, reply, raw)?,
        Ask::Quiet => take_quiet(core, now, id, reply, raw)?,
        Ask::Flush => flush_reply(core, now, id, reply, raw)?,
    }
    if core.pools.crosses() {
        go_on_with_met(core, now);
    }
    release(core, now, client);
    Ok(())
}
