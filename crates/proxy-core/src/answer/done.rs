//! A request that is answered leaves its queue.

use crate::composed::sent_key;
use crate::ids::BackendId;
use crate::pipe::in_flight::{Ask, Asker, Progress};
use crate::pool::Pool;
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

/// In a pool whose hash space follows the load the grain of its key has carried it. What has several keys was counted key by key.
#[inline(never)]
fn count_by_grain(core: &mut ProxyCore, id: BackendId) {
    let backend = core.backends.get_mut(id);
    let Some((question, request)) = backend.and_then(|backend| backend.awaited()) else {
        return;
    };
    let (tag, outcome) = (request.tag, request.outcome);
    let is_counted = matches!(request.progress, Progress::Group(_));
    let ring = core.pools.get(tag.pool).and_then(Pool::ring);
    let Some(ring) = ring.filter(|_| tag.asker == Asker::Client && !is_counted) else {
        return;
    };
    let mut scratch = KeyScratch::default();
    let hash = match tag.ask {
        Ask::Values => Some(tag.hash.0),
        _ => sent_key(question).map(|key| ring.hash(key.decode(&mut scratch))),
    };
    let bytes = question.len() + request.answer_bytes as usize;
    if let (Some(hash), Some(grains)) = (hash, core.pools.grains_of(tag.pool)) {
        grains.count(hash, tag.is_read, outcome, bytes);
    }
}
