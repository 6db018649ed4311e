//! A server that was out of use forgets what it has missed. Why is in `pool/elsewhere.rs`.

use crate::ids::BackendId;
use crate::pipe::backend::Link;
use crate::pipe::in_flight::{Asker, Progress, Tag};
use crate::pipe::invalidation_log;
use crate::pipe::invalidation_log::CatchUp;
use crate::under_way::put::put;
use crate::worker::ProxyCore;
use evenkeel_protocol::compose::request as ask;
use evenkeel_types::Instant;

/// Asks a server to forget what it has missed the writes of. Whatever is asked next comes behind.
pub(crate) fn catch_up(core: &mut ProxyCore, now: Instant, id: BackendId) {
    let Some(backend) = core.backends.get_mut(id) else {
        return;
    };
    let settings = core.pools.get(backend.pool).map(|pool| &pool.settings);
    let may_flush = settings.is_some_and(|settings| settings.flush_on_return);
    match backend.invalidations.catch_up(may_flush) {
        CatchUp::Nothing => {}
        CatchUp::Flush => {
            backend.counters.flushed += 1;
            ask_for_nobody(core, now, id, |out| ask::flush_all(out, None, false));
        }
        CatchUp::Keys {
            keys,
            is_incomplete,
        } => {
            backend.counters.unfenced += u64::from(is_incomplete);
            backend.counters.caught_up += keys.len() as u64;
            for key in keys {
                ask_for_nobody(core, now, id, |out| invalidation_log::delete(out, &key));
            }
        }
    }
}

fn ask_for_nobody(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    write: impl FnOnce(&mut Vec<u8>),
) {
    let Some(backend) = core.backends.get(id) else {
        return;
    };
    let tag = Tag::ours(Asker::CatchUp, backend.pool, 0, now);
    put(core, now, id, tag, Progress::Nothing, |out| {
        write(out);
        (0, 0)
    });
}

/// A connection was closed that had worked until then, and is to be made anew: it begins with what
/// may have been missed.
pub(crate) fn catch_up_if_idle(core: &mut ProxyCore, now: Instant, id: BackendId) {
    let backend = core.backends.get(id);
    if backend.is_some_and(|backend| backend.link == Link::Idle && !backend.retired) {
        catch_up(core, now, id);
    }
}
