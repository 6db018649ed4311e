//! Eras: what was asked before a change is answered before anything is asked after it.

use crate::ids::BackendId;
use crate::outage::ServerState;
use crate::output::Output;
use crate::pipe::backend::Peer;
use crate::under_way::reach::tell_unreached;
use crate::worker::ProxyCore;
use std::sync::Arc;

/// A server may have come into use or gone out of it.
pub(crate) fn health_changed(core: &mut ProxyCore, id: BackendId) {
    let Some(backend) = core.backends.get_mut(id) else {
        return;
    };
    let (pool, peer) = (backend.pool, backend.peer);
    if let Some(name) = core.pools.get(pool).map(|pool| &pool.name) {
        let is_in_use = backend.health.is_in_use();
        if let Some(change) = backend.outage.changed(is_in_use, name) {
            core.outbox.push(Output::ServerState(Box::new(ServerState {
                pool: Arc::clone(name),
                server: backend.name.clone(),
                change,
            })));
        }
    }
    if peer == Peer::Memcached {
        core.backends.look_for_outages();
        begin_era(core);
        if core.pools.is_adaptive(pool) {
            tell_unreached(core, pool);
        }
    }
}

/// Anyone who has requests under way waits for their answers before asking anything further.
pub(crate) fn begin_era(core: &mut ProxyCore) {
    core.era += 1;
    if core.pools.watches() {
        core.pools.forget_truths();
    }
}
