//! Eras: what was asked before a change is answered before anything is asked after it.

use crate::ids::BackendId;
use crate::pipe::backend::Peer;
use crate::under_way::reach::tell_unreached;
use crate::worker::ProxyCore;

/// A server may have come into use or gone out of it.
pub(crate) fn standing_changed(core: &mut ProxyCore, id: BackendId) {
    let backend = core.backends.get(id);
    let backend_pool = backend.map(|backend| backend.pool);
    if backend.is_some_and(|backend| backend.peer == Peer::Memcached) {
        core.backends.look_for_outages();
        begin_era(core);
        if let Some(pool) = backend_pool.filter(|pool| core.pools.is_adaptive(*pool)) {
            tell_unreached(core, pool);
        }
    }
}

/// Whoever has requests under way waits for their answers before asking anything further.
pub(crate) fn begin_era(core: &mut ProxyCore) {
    core.era += 1;
    if core.pools.watches() {
        core.pools.forget_truths();
    }
}
