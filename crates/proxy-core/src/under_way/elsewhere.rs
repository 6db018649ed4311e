//! Where a request goes whose server is out of use.

use crate::ids::PoolId;
use crate::pool::elsewhere::Elsewhere;
use crate::worker::ProxyCore;
use evenkeel_types::Instant;

/// [`Pools::elsewhere`] for a request, which is counted.
pub(crate) fn find_elsewhere(
    core: &mut ProxyCore,
    now: Instant,
    pool: PoolId,
    key: &[u8],
) -> Option<Elsewhere> {
    let elsewhere = core.pools.elsewhere(&core.backends, now, pool, key)?;
    core.counts.stats.proxy_failovers_unsettled += u64::from(!elsewhere.is_settled);
    Some(elsewhere)
}
