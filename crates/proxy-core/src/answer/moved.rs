//! A worker says that a request is not its business.

use crate::failure::Failure;
use crate::ids::{BackendId, PoolId};
use crate::pipe::in_flight::{Progress, Question, Tag};
use crate::pool::Pool;
use crate::under_way::again::{ask_again, renew_ticket};
use crate::under_way::era::begin_era;
use crate::under_way::fail::fail;
use crate::under_way::operation::step_moved;
use crate::under_way::park::{hurry_all_parked, park};
use crate::under_way::release::release;
use crate::worker::ProxyCore;
use evenkeel_protocol::Moved;
use evenkeel_types::Instant;

/// A worker says that the awaited request is not its business. It was not executed.
pub(crate) fn take_moved(core: &mut ProxyCore, now: Instant, id: BackendId, moved: Moved) {
    let Some(backend) = core.backends.get_mut(id) else {
        return;
    };
    let in_pool = backend.pool;
    let Some((question, _)) = backend.pop_question() else {
        return;
    };
    core.pools.want_map(&mut core.outbox, in_pool, moved.epoch);
    core.close_if_retired(id);
    for question in question.split() {
        moved_for(core, now, id, in_pool, question, moved);
    }
}

fn moved_for(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    in_pool: PoolId,
    mut question: Question,
    moved: Moved,
) {
    question.progress = Progress::Nothing;
    let tag = question.tag;
    learn_host(core, now, &tag, moved);
    learn_mark(core, id, &tag, moved);
    let cluster = core.pools.get(in_pool).and_then(Pool::cluster);
    let owner = cluster.and_then(|pool| pool.backend(moved.owner));
    if tag.is_bound {
        step_moved(core, now, &tag);
    } else if tag.is_replica {
        fail(core, question, &Failure::Moving);
    } else if let Some(owner) =
        owner.filter(|&owner| tag.retries == 0 && owner != id && !core.clients.awaits_before(&tag))
    {
        core.counts.stats.requests_moved += 1;
        renew_ticket(core, now, &tag);
        ask_again(core, now, question, Ok(owner));
    } else {
        park(core, now, question);
    }
    release(core, now, tag.client);
}

/// What is asked of a worker from now on carries the mark that it gave. Anyone who has something under way to it waits for
/// that first, because it carries none.
fn learn_mark(core: &mut ProxyCore, id: BackendId, tag: &Tag, moved: Moved) {
    if let Some(pool) = core.pools.cluster_mut(tag.pool)
        && !tag.is_replica
        && pool.learn_mark(tag.hash, id, moved.mark)
    {
        begin_era(core);
    }
}

/// Takes notice of a cachelet that has moved inside of its server, or to another one. What is asked from now on goes to its
/// host, so that a new era begins.
fn learn_host(core: &mut ProxyCore, now: Instant, tag: &Tag, moved: Moved) {
    let Some(pool) = core.pools.cluster_mut(tag.pool) else {
        return;
    };
    let is_news =
        !tag.is_replica && moved.epoch <= pool.epoch() && pool.learn_host(tag.hash, moved.owner);
    if is_news {
        core.counts.stats.hosts_learnt += 1;
        begin_era(core);
        // Among them may be some that were told to wait until the cachelet has passed.
        hurry_all_parked(core, now);
    }
}
