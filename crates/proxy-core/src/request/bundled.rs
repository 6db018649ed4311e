//! Multi-gets of pools whose items have copies, or are supposed to: which servers they ask, and asking for copies.

use crate::client::{MultiGet, Slot, State};
use crate::drafts::{Line, LineKey};
use crate::ids::{ClientId, PoolId};
use crate::pool::Pool;
use crate::routes::CommandClass;
use crate::routes::way::{WayKey, WayTo};
use crate::show::kinds::Show;
use crate::under_way::lines::{CopyAt, add_copy_to_draft};
use crate::under_way::profile::{Placing, note};
use crate::worker::ProxyCore;
use evenkeel_placement::cover::KEYS_MAX;
use evenkeel_schemes::copies::PREFIX_LEN;
use evenkeel_types::Instant;

/// How a multi-get is covered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Covered {
    /// The pool of its first key; keys of others are asked for as ever.
    pool: PoolId,
    /// What stands before the key in the name of a copy.
    prefix: [u8; PREFIX_LEN],
    /// How many of its keys have been asked for.
    asked: usize,
    /// How many are covered.
    keys: usize,
}

/// A `get` is about to be asked: of several keys it is counted what it costs, and what it would cost without copies or with them. How it is covered, if its
/// copies are read.
#[inline(never)]
pub(crate) fn cover_keys<'k>(
    core: &mut ProxyCore,
    id: ClientId,
    keys: impl Iterator<Item = &'k [u8]>,
) -> Option<Covered> {
    let mut keys = keys.peekable();
    let pool = pool_of(core, keys.peek()?)?;
    let routing = &core.routing;
    let keys = keys.filter(|key| routing.way(key, CommandClass::Get).plain_get() == Some(pool));
    let (bundled, servers) = core.pools.bundled(pool)?;
    // What it has asked to be written must not be overtaken: home answers it in order.
    let awaits_write = core.clients.get_mut(id)?.awaits_copied_write();
    let prefix = bundled.read_prefix().filter(|_| !awaits_write);
    let (cover, homes) = (&mut core.scratch.cover, &mut core.scratch.covered_homes);
    let backends = &core.backends;
    let has_outage = backends.has_outage();
    let may_ask =
        |place: u32| !has_outage || backends.is_in_use(servers.backends()[place as usize]);
    let now = core.now;
    let distance = |place: u32| backends.distance_us(now, servers.backends()[place as usize]);
    let keys = keys.take(KEYS_MAX);
    let by = &bundled.by;
    let into = (&mut *cover, &mut *homes);
    by.cover(into, servers.list(), keys, usize::MAX, (may_ask, distance));
    let at_home = bundled.read_prefix().is_some() && awaits_write;
    let homes = (&homes[..], at_home);
    bundled.count(cover, homes, &mut core.scratch.plain_homes);
    Some(Covered {
        pool,
        prefix: prefix?,
        asked: 0,
        keys: homes.0.len(),
    })
}

fn pool_of(core: &ProxyCore, key: &[u8]) -> Option<PoolId> {
    core.routing.way(key, CommandClass::Get).plain_get()
}

impl Covered {
    /// The next key is asked for: at a copy, if one was chosen.
    pub fn next(&mut self, core: &ProxyCore, key: &[u8]) -> Option<CopyAt> {
        if self.asked >= self.keys || pool_of(core, key) != Some(self.pool) {
            return None;
        }
        let nth = self.asked;
        self.asked += 1;
        let server = core.scratch.cover.server(nth)?;
        if server == core.scratch.covered_homes[nth] {
            return None;
        }
        let servers = core.pools.list(self.pool)?.backends();
        Some(CopyAt {
            to: servers[server as usize],
            prefix: self.prefix,
        })
    }
}

/// Adds a copy to the line for its server.
pub(crate) fn draft_copy(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    rest: MultiGet,
    way: &WayTo,
    key: WayKey<'_>,
    (show, at): (Show, CopyAt),
) {
    let note = note(core, &Placing::read(id, way.pool, key.stored, None));
    let Some(client) = core.clients.get_mut(id) else {
        return;
    };
    let slot = client.push(Slot {
        rename: way.rename,
        route: way.route,
        note,
        ..Slot::new(show, State::Waiting)
    });
    let line = Line {
        with_cas: rest.with_cas,
        ..Line::get(id, way.pool, at.to, way.route)
    };
    let key = LineKey {
        prefix: None,
        key: key.stored,
        hash: 0,
        slot,
    };
    add_copy_to_draft(core, now, &line, &key, &at);
}

/// A key of a pool is about to be written: where copies are supposed, it is counted.
#[inline(never)]
pub(crate) fn see_write(core: &mut ProxyCore, pool: PoolId) {
    let pool = core.pools.get_mut(pool);
    if let Some(Pool {
        bundled: Some(bundled),
        ..
    }) = pool
    {
        bundled.see_write();
    }
}
