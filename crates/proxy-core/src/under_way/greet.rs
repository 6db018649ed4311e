//! Greeting servers: who answers, and what does it understand?

use crate::ids::BackendId;
use crate::pipe::backend::{Link, Peer};
use crate::pipe::speech::Speech;
use crate::pool::Pool;
use crate::worker::ProxyCore;
use evenkeel_types::Epoch;
use evenkeel_types::Instant;

/// Connects to the servers that were never asked anything, if what they understand matters.
pub(crate) fn greet_strangers(core: &mut ProxyCore, now: Instant) {
    if !core.has_binary {
        return;
    }
    for key in core.backends.ids() {
        let backend = core.backends.get(key);
        let is_stranger = backend.is_some_and(|backend| {
            backend.peer == Peer::Memcached
                && backend.speech == Speech::Unknown
                && backend.link == Link::Idle
                && backend.takes_requests()
        });
        if is_stranger {
            core.backends.connect(&mut core.outbox, now, key);
        }
    }
}

/// Finds out who answers.
pub(crate) fn greet(core: &mut ProxyCore, id: BackendId, until: Instant) {
    let pool = core.backends.get(id).map(|backend| backend.pool);
    let pool = pool.and_then(|pool| core.pools.get(pool));
    let epoch = pool.map_or(Epoch(0), Pool::epoch);
    core.backends.greet(&mut core.outbox, id, until, epoch);
}
