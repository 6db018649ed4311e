//! A request that is answered leaves its queue.

use crate::composed::sent_key;
use crate::ids::BackendId;
use crate::pipe::in_flight::Asker;
use crate::under_way::log::log_answered;
use crate::worker::ProxyCore;
use evenkeel_protocol::KeyScratch;

/// The awaited request is answered.
pub(crate) fn done(core: &mut ProxyCore, id: BackendId) {
    log_answered(core, id);
    if core.pools.warms() {
        count_by_grain(core, id);
    }
    if let Some(backend) = core.backends.get_mut(id) {
        backend.measure(core.now, &mut core.counts.routes);
        backend.pop();
    }
    core.close_if_retired(id);
}

/// In a pool whose hash space follows the load the grain of its key has carried it.
#[inline(never)]
fn count_by_grain(core: &mut ProxyCore, id: BackendId) {
    let backend = core.backends.get_mut(id);
    let Some((question, request)) = backend.and_then(|backend| backend.awaited()) else {
        return;
    };
    let tag = request.tag;
    if tag.asker != Asker::Client || !core.pools.is_adaptive(tag.pool) {
        return;
    }
    let bytes = question.len() as u64 + request.answer_bytes as u64;
    let outcome = request.outcome;
    let mut scratch = KeyScratch::default();
    if let Some(key) = sent_key(question)
        && let Some(pool) = core.pools.get_mut(tag.pool)
    {
        pool.count_by_grain(key.decode(&mut scratch), tag.is_read, outcome, bytes);
    }
}
