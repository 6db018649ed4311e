//! What coordinators say of pools that are on their way from former servers to their own, or parts of whose rings change hands.

use crate::config::MapSource;
use crate::configure::take_over_ring;
use crate::pool::Former;
use crate::ring::Told;
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
        let ring = pool.ring();
        let step = step.map(|step| ring.map_or(step, |ring| ring.worked_by(step)));
        pool.former = Some(Former {
            step,
            since: now,
            ..former
        });
        if pool.settings.adaptive {
            pool.count_by_ring(now);
            meet_servers(core, now, id);
        }
    }
    core.pools.step_told();
    begin_era(core);
    retry_all_parked(core, now);
}
