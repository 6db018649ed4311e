//! Putting a request into the queue of a server.

use crate::ids::BackendId;
use crate::pipe::backend::{Link, Peer};
use crate::pipe::in_flight::{Progress, Tag};
use crate::under_way::pace::pace;
use crate::worker::ProxyCore;
use evenkeel_types::Instant;

/// Puts a request into the queue of a backend that has admitted it. `write` appends it and says
/// where in it our own flags stand. One that is asked for the first time is given up with its
/// first deadline.
pub(crate) fn put(
    core: &mut ProxyCore,
    now: Instant,
    to: BackendId,
    mut tag: Tag,
    progress: Progress,
    write: impl FnOnce(&mut Vec<u8>) -> (usize, usize),
) {
    let backend = core
        .backends
        .get_mut(to)
        .expect("a backend that admitted a request is there");
    let deadline = now + backend.request_timeout;
    if tag.retries == 0 {
        tag.give_up = deadline;
    }
    let asked_after = core.pools.joins_asked_after(now, &tag);
    let before = backend.queued_bytes();
    tag.flags = write(backend.tail());
    let is_of_worker = backend.peer != Peer::Memcached;
    let hash = tag.join_hash().filter(|_| backend.collapses);
    let joins = hash.is_some_and(|hash| backend.join_last(before, hash, &tag, asked_after));
    if is_of_worker
        && tag.may_tell()
        && let Some(pool) = core.pools.get_mut(tag.pool)
    {
        match joins {
            true => pool.untold.count(tag.hash.0),
            false => pool.untold.forget(tag.hash.0),
        }
    }
    if joins {
        core.counts.stats.gets_collapsed += 1;
        return;
    }
    backend.push(before, deadline, tag, progress);
    match backend.link {
        Link::Ready => core.backends.write(&mut core.outbox, to),
        Link::Idle => core.backends.connect(&mut core.outbox, now, to),
        Link::Connecting { .. }
        | Link::Greeting { .. }
        | Link::Unready { .. }
        | Link::Down { .. } => {}
    }
    core.outbox.due_at(deadline);
    if !tag.is_read {
        pace(core, now, to, tag.client, tag.slot);
    }
}
