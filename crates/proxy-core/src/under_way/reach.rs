//! Which servers of a ring are reached, as far as their coordinator wants to know.

use crate::ids::{BackendId, PoolId};
use crate::limits::IDLE_LOOK;
use crate::output::Output;
use crate::pipe::backend::Link;
use crate::pool::Pool;
use crate::worker::ProxyCore;
use evenkeel_types::Instant;
use std::sync::Arc;

/// Connects to servers of a ring that nothing was asked of yet, so that its leader knows which of them are reached, and says which are
/// not.
pub(crate) fn meet_servers(core: &mut ProxyCore, now: Instant, id: PoolId) {
    let backends = core.pools.get(id).map_or_else(Vec::new, Pool::backends);
    for backend in backends {
        meet(core, now, backend);
    }
    let look = *core.idle_look.get_or_insert(now + IDLE_LOOK);
    core.outbox.due_at(look);
    tell_unreached(core, id);
}

/// Greets servers of rings anew of which nothing was asked since the last look, at its time: a connection to a machine that has died looks like one
/// on which nothing is said. O(servers).
pub(crate) fn look_at_idle(core: &mut ProxyCore, now: Instant) {
    if core.idle_look.is_none_or(|look| now < look) {
        return;
    }
    let mut has_any = false;
    for id in core.backends.ids() {
        let Some(backend) = core.backends.get_mut(id) else {
            continue;
        };
        if !core.pools.is_adaptive(backend.pool) {
            continue;
        }
        has_any = true;
        if backend.look_whether_idle() && !backend.retired {
            let until = now + backend.request_timeout;
            core.greet(id, until);
        }
    }
    core.idle_look = has_any.then_some(now + IDLE_LOOK);
}

/// Connects to a server that is in its pool's list and has no connection.
pub(crate) fn meet(core: &mut ProxyCore, now: Instant, id: BackendId) {
    let backend = core.backends.get(id);
    if backend.is_some_and(|backend| backend.link == Link::Idle && !backend.retired) {
        core.backends.connect(&mut core.outbox, now, id);
    }
}

/// Tells which servers of a ring are out of use.
pub(crate) fn tell_unreached(core: &mut ProxyCore, id: PoolId) {
    let Some(pool) = core.pools.get(id) else {
        return;
    };
    let (Some(ring), Some(list), Some(source)) = (pool.ring(), pool.list(), pool.settings.follows)
    else {
        return;
    };
    let servers = (0..).zip(list.backends());
    let servers = servers.filter(|(_, id)| !core.backends.is_in_use(**id));
    let output = Output::Unreached {
        source,
        pool: Arc::clone(&pool.name),
        plan: ring.number(),
        servers: servers.map(|(server, _)| server).collect(),
    };
    core.outbox.push(output);
}
