//! Pools on their way from former servers to their own, and rings whose parts change hands: when nothing is under way any more that was begun
//! by an earlier step.

use crate::ids::PoolId;
use crate::output::Output;
use crate::pipe::backend::Backend;
use crate::pool::{Former, Pool};
use crate::worker::ProxyCore;
use evenkeel_schemes::stage::Stage;
use std::sync::Arc;

/// Acknowledges steps before which nothing is under way any more. O(pools); O(requests under way) while a step is not acknowledged.
pub(crate) fn settle_steps(core: &mut ProxyCore) {
    for (id, former) in core.pools.unsettled() {
        if !is_settled(core, id, &former) {
            continue;
        }
        let Some(pool) = core.pools.get_mut(id) else {
            continue;
        };
        let version = former.version();
        pool.former = Some(Former {
            acknowledged: version,
            ..former
        });
        if let Some(source) = pool.settings.follows {
            core.outbox.push(Output::Acknowledged {
                source,
                pool: Arc::clone(&pool.name),
                version,
            });
        }
    }
}

/// Whether nothing is under way which was begun by an earlier step, but for what was given up: nobody was told what came of it, and what a
/// store of it may still do at a former server is seen by nobody before it is stored here.
fn is_settled(core: &ProxyCore, id: PoolId, former: &Former) -> bool {
    let is_old = core.operations.began_before(id, former.version());
    let ring = core.pools.get(id).and_then(Pool::ring);
    // Who is lost is not asked again, so nothing that is still on its way there is seen by anybody.
    let is_loss = ring.is_some_and(|ring| ring.is_loss());
    let is_quiesced = former.stage() == Stage::Quiesced && !is_loss;
    let is_drained = !is_quiesced || is_drained(core, id, former);
    !is_old && is_drained && core.flushes.is_empty()
}

/// Whether all is answered that was asked at former places before requests began to wait. Reads count: one that finds what a late store has
/// put there would be older than one that begins behind it. O(servers).
fn is_drained(core: &ProxyCore, id: PoolId, former: &Former) -> bool {
    let is_left = |pool: PoolId| core.pools.get(pool).is_none_or(|pool| pool.leaving);
    let former_places = match core.pools.list(id).filter(|_| former.pool == id) {
        Some(servers) => servers.sources(),
        None => core
            .pools
            .get(former.pool)
            .map_or_else(Vec::new, Pool::backends),
    };
    // What was taken out of the configuration may be called otherwise there.
    let left = |backend: &&Backend| backend.retired || is_left(backend.pool);
    let places = former_places.iter().filter_map(|&id| core.backends.get(id));
    let mut places = places.chain(core.backends.iter().filter(left));
    let are_parked = former.pool != id && core.parking.await_pool(former.pool);
    places.all(|backend| backend.has_answered_until(former.since)) && !are_parked
}
