//! A request that is answered leaves its queue.

use crate::ids::BackendId;
use crate::under_way::log::log_answered;
use crate::worker::ProxyCore;

/// The awaited request is answered.
pub(crate) fn done(core: &mut ProxyCore, id: BackendId) {
    log_answered(core, id);
    if let Some(backend) = core.backends.get_mut(id) {
        backend.measure(core.now, &mut core.counts.routes);
        backend.pop();
    }
    core.close_if_retired(id);
}
