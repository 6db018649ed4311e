//! Pools on their way from former servers to their own: what a coordinator says of it, and when nothing is under way any more that was begun
//! by an earlier step.

use crate::config::MapSource;
use crate::configure::take_over_ring;
use crate::ids::PoolId;
use crate::output::Output;
use crate::pool::{Former, MemcachedPool, Pool};
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

/// Whether nothing that counts is under way which was begun by an earlier step. Reads that have begun nothing do not: they are as good as
/// none. Nor does a store that was given up: nobody was told that it was carried out, and what it may still do at a former server is seen
/// by nobody before it is stored here.
fn is_settled(core: &ProxyCore, id: PoolId, former: &Former) -> bool {
    let is_old = core.operations.began_before(id, former.version());
    let writes = former.stage() == Stage::Quiesced
        && match core.pools.get(id).and_then(Pool::list) {
            Some(servers) if former.pool == id => !is_drained(core, servers, former.since),
            _ => writes_to(core, former.pool),
        };
    !is_old && !writes && core.flushes.is_empty()
}

/// Whether all is answered that was asked until then of servers that give parts of a ring away, or of servers that were taken out of the
/// configuration. Other keys of theirs are asked for all the time. O(servers).
fn is_drained(core: &ProxyCore, servers: &MemcachedPool, then: Instant) -> bool {
    let sources = servers.ring().map(|ring| ring.sources());
    let sources = sources.into_iter().flatten();
    let mut backends = sources.filter_map(|source| core.backends.get(servers.backends()[source]));
    let mut left = core.backends.iter().filter(|backend| backend.retired);
    backends.all(|backend| backend.has_answered_until(then))
        && !left.any(|backend| backend.awaits_writes())
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
