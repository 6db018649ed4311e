//! Multi-gets and writes are looked at for what copies would save; see [`bundles`](crate::bundles).

use crate::ids::PoolId;
use crate::routes::CommandClass;
use crate::worker::ProxyCore;
use evenkeel_placement::cover::KEYS_MAX;

/// A multi-get is about to be asked. Its keys of one pool are looked at, that of the first key.
#[inline(never)]
pub(crate) fn observe_keys<'k>(core: &mut ProxyCore, keys: impl Iterator<Item = &'k [u8]>) {
    let mut keys = keys.peekable();
    let routing = &core.routing;
    let pool_of = |key: &[u8]| routing.way(key, CommandClass::Get).plain_get();
    let Some(id) = keys.peek().and_then(|key| pool_of(key)) else {
        return;
    };
    let Some((observed, list)) = core.pools.observed(id) else {
        return;
    };
    let keys = keys.filter(|key| pool_of(key) == Some(id));
    let scratch = (&mut core.scratch.cover, &mut core.scratch.observed);
    observed.see(scratch, list, keys.take(KEYS_MAX));
}

/// A key of a pool is about to be written.
#[inline(never)]
pub(crate) fn observe_write(core: &mut ProxyCore, pool: PoolId) {
    if let Some((observed, _)) = core.pools.observed(pool) {
        observed.see_write();
    }
}
