//! What coordinators say of pools that are on their way from former servers to their own, parts of whose rings change hands, or whose copies are switched on or off.

use crate::config::MapSource;
use crate::configure::take_over_ring;
use crate::ids::PoolId;
use crate::pool::{Followed, Former};
use crate::ring::PoolUpdate;
use crate::under_way::era::begin_era;
use crate::under_way::reach::meet_servers;
use crate::under_way::retry::retry_all_parked;
use crate::worker::ProxyCore;
use evenkeel_types::Instant;
use std::sync::Arc;

/// A coordinator has said how far a pool is, or, without a step, that it does not lead this proxy any more. One that is not newer, or that no
/// pool follows, is ignored.
pub(crate) fn set_step(
    core: &mut ProxyCore,
    now: Instant,
    source: MapSource,
    name: &str,
    told: Option<PoolUpdate>,
) {
    let step = told.as_ref().map(|told| told.step);
    let Some(id) = core.pools.follower(source, name) else {
        return;
    };
    let followed = core.pools.get(id).and_then(|pool| pool.followed());
    let is_news = |followed: &Followed| step.is_none_or(|step| step.version > followed.version());
    let is_news = followed.as_ref().is_some_and(is_news);
    let is_heard = match core.pools.keeps_copies(id) {
        true if !is_news => return handle_copies_again(core, id, told),
        true => handle_copies(core, now, id, told),
        false => is_news && handle_places(core, now, (id, name), told),
    };
    if !is_heard {
        return;
    }
    core.pools.step_told();
    begin_era(core);
    retry_all_parked(core, now);
}

fn handle_copies(core: &mut ProxyCore, now: Instant, id: PoolId, told: Option<PoolUpdate>) -> bool {
    let step = told.as_ref().map(|told| told.step);
    let bundle = told.and_then(|told| told.bundle);
    let bundled = core.pools.bundled(id);
    bundled.is_some_and(|(bundled, _)| bundled.handle(now, step, bundle))
}

fn handle_copies_again(core: &mut ProxyCore, id: PoolId, told: Option<PoolUpdate>) {
    if let (Some((bundled, _)), Some(told)) = (core.pools.bundled(id), told) {
        bundled.handle_again(told.step, told.bundle);
    }
}

fn handle_places(
    core: &mut ProxyCore,
    now: Instant,
    (id, name): (PoolId, &str),
    told: Option<PoolUpdate>,
) -> bool {
    let step = told.as_ref().map(|told| told.step);
    if let Some(ring) = told.and_then(|told| told.ring) {
        let config = Arc::clone(&core.config);
        let mut pools = config.pools.iter();
        if let Some(wanted) = pools.find(|wanted| *wanted.name == *name) {
            take_over_ring(core, now, id, wanted, ring);
        }
    }
    let Some(pool) = core.pools.get_mut(id) else {
        return false;
    };
    let ring = pool.ring();
    let step = step.map(|step| ring.map_or(step, |ring| ring.worked_by(step)));
    pool.former = pool.former.map(|former| Former {
        at: Followed {
            step,
            since: now,
            ..former.at
        },
        ..former
    });
    if pool.settings.adaptive {
        pool.count_by_ring(now);
        meet_servers(core, now, id);
    }
    true
}
