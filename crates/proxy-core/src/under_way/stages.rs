//! Pools on their way from former servers to their own: what a coordinator says of it, and when nothing is under way any more that was begun
//! by an earlier step.

use crate::config::MapSource;
use crate::configure::take_over_ring;
use crate::ids::PoolId;
use crate::output::Output;
use crate::pipe::backend::Backend;
use crate::pool::{Former, Pool};
use crate::ring::Told;
use crate::under_way::era::begin_era;
use crate::under_way::retry::retry_all_parked;
use crate::worker::ProxyCore;
use evenkeel_schemes::stage::Stage;
use evenkeel_types::Instant;
use std::sync::Arc;

/// A coordinator has said how far a pool is, or, without a step, that it does not lead this proxy any more. One that is not newer, or that no
/// pool follows, is ignored.
pub(crate) fn set_step(
    core: &mut ProxyCore,
    now: Instant,
    source: MapSource,
    name: &str,
    told: Option<Told>,
) {
    let (step, ring) = told.unzip();
    let Some(id) = core.pools.follower(source, name) else {
        return;
    };
    let former = core.pools.get(id).and_then(|pool| pool.former);
    let is_news = |former: &Former| step.is_none_or(|step| step.version > former.version());
    let Some(former) = former.filter(is_news) else {
        return;
    };
    if let Some(ring) = ring.flatten() {
        let config = Arc::clone(&core.config);
        let mut pools = config.pools.iter();
        if let Some(wanted) = pools.find(|wanted| *wanted.name == *name) {
            take_over_ring(core, now, id, wanted, ring);
        }
    }
    if let Some(pool) = core.pools.get_mut(id) {
        pool.former = Some(Former {
            step,
            since: now,
            ..former
        });
        if pool.settings.adaptive {
            pool.count_by_ring(now);
        }
    }
    begin_era(core);
    retry_all_parked(core, now);
}

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
    let is_drained = former.stage() != Stage::Quiesced || is_drained(core, id, former);
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
