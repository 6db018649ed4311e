//! Pools on their way from former servers to their own, rings whose parts change hands, and copies that are switched on or off: when nothing is under
//! way any more that was begun by an earlier step.

use crate::ids::PoolId;
use crate::output::Output;
use crate::pipe::backend::Backend;
use crate::pool::{Followed, Former, Pool};
use crate::worker::ProxyCore;
use evenkeel_schemes::stage::Stage;
use std::sync::Arc;

/// Acknowledges steps before which nothing is under way any more. O(pools); O(requests under way) while a step is not acknowledged.
pub(crate) fn acknowledge_steps(core: &mut ProxyCore) {
    for (id, at) in core.pools.unacknowledged() {
        if !is_quiescent(core, id, &at) {
            continue;
        }
        let Some(pool) = core.pools.get_mut(id) else {
            continue;
        };
        let version = at.version();
        if let Some(at) = pool.followed_mut() {
            at.acknowledged = version;
        }
        if let Some(source) = pool.settings.follows {
            core.outbox.push(Output::Acknowledged {
                source,
                pool: Arc::clone(&pool.name),
                version,
            });
        }
    }
}

/// Whether nothing is under way which was begun by an earlier step, but for what was given up: nobody was told what came of it.
fn is_quiescent(core: &ProxyCore, id: PoolId, at: &Followed) -> bool {
    let is_old = core.operations.began_before(id, at.version())
        || core.crossings.began_before(id, at.version());
    let is_drained = match core.pools.get(id).and_then(|pool| pool.former) {
        Some(former) => is_former_drained(core, id, &former),
        None => are_copies_drained(core, id, at),
    };
    !is_old && is_drained && core.flushes.is_empty()
}

/// Whether all is answered that was asked of a pool before its copies were switched: reads of them count, and writes behind which nothing was deleted.
/// What is answered from now on goes by the present step. O(servers).
fn are_copies_drained(core: &ProxyCore, id: PoolId, at: &Followed) -> bool {
    let mut servers = core.backends.iter().filter(|it| it.pool == id);
    servers.all(|backend| backend.has_answered_until(at.since))
}

/// What a store that was given up may still do at a former server is seen by nobody before it is stored here.
fn is_former_drained(core: &ProxyCore, id: PoolId, former: &Former) -> bool {
    let ring = core.pools.get(id).and_then(Pool::ring);
    // Who is lost is not asked again, so nothing that is still on its way there is seen by anybody.
    let is_loss = ring.is_some_and(|ring| ring.is_loss());
    let is_quiesced = former.stage() == Stage::Quiesced && !is_loss;
    !is_quiesced || is_drained(core, id, former)
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
    let is_under_way = core.crossings.began_until(former.pool, former.at.since);
    places.all(|backend| backend.has_answered_until(former.at.since))
        && !are_parked
        && !is_under_way
}
