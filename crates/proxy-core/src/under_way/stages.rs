//! Pools on their way from former servers to their own: what a coordinator says of it, and when nothing is under way any more that was begun
//! by an earlier step.

use crate::config::MapSource;
use crate::ids::PoolId;
use crate::output::Output;
use crate::pool::Former;
use crate::under_way::era::begin_era;
use crate::under_way::retry::retry_all_parked;
use crate::worker::ProxyCore;
use evenkeel_schemes::stage::{Stage, Step};
use evenkeel_types::Instant;
use std::sync::Arc;

/// A coordinator has said how far a pool is, or, without a step, that it does not lead this proxy any more. One that is not newer, or that no
/// pool follows, is ignored.
pub(crate) fn set_step(
    core: &mut ProxyCore,
    now: Instant,
    source: MapSource,
    name: &str,
    step: Option<Step>,
) {
    let found = core.pools.follower(source, name);
    let former = found.and_then(|id| core.pools.get_mut(id)?.former.as_mut());
    let is_news = |former: &Former| step.is_none_or(|step| step.version > former.version());
    let Some(former) = former.filter(|former| is_news(former)) else {
        return;
    };
    former.step = step;
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

/// Whether nothing that counts is under way which was begun by an earlier step. Reads that have begun nothing do not: they are as good as
/// none. Nor does a store that was given up: nobody was told that it was carried out, and what it may still do at a former server is seen
/// by nobody before it is stored here.
fn is_settled(core: &ProxyCore, id: PoolId, former: &Former) -> bool {
    let is_old = core.operations.began_before(id, former.version());
    let writes = former.stage() == Stage::Quiesced && writes_to(core, former.pool);
    !is_old && !writes && core.flushes.is_empty()
}

/// Whether anything that may change something is under way at the servers of a pool, or at servers that were taken out of one: the former
/// configuration may have called them otherwise. O(requests under way).
fn writes_to(core: &ProxyCore, pool: PoolId) -> bool {
    let is_left = |pool: PoolId| core.pools.get(pool).is_none_or(|pool| pool.leaving);
    let mut backends = core.backends.iter();
    let counts = |id: PoolId| id == pool || is_left(id);
    backends.any(|backend| (counts(backend.pool) || backend.retired) && backend.awaits_writes())
        || core.parking.await_pool(pool)
}
