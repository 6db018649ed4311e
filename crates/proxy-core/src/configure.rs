//! Taking over a configuration.
//!
//! Pools that both configurations have keep their connections: those of the same name that follow
//! the same coordinators, and those of the same name that both place keys by themselves. Servers that
//! both lists of such a pool have, at the same address, keep theirs. Other servers are retired: they
//! get no further requests and are closed when what was asked of them is answered or late. A pool
//! that is no longer configured stays whole, out of reach of new requests, until nothing that was
//! asked of it is under way: a request of its may still move from one server to another, or be asked
//! again.

use crate::client::State;
use crate::config::{Failover, HoldingBy, PoolConfig, PoolKind, ProxyConfig};
use crate::ids::{BackendId, PoolId, RouteId};
use crate::limits::LEAVING_LOOK;
use crate::pipe::backend::{Backend, Peer};
use crate::pipe::room::Room;
use crate::places::Places;
use crate::pool::bundled::Bundled;
use crate::pool::local::LocalPool;
use crate::pool::racks::{PoolRacks, Sites};
use crate::pool::{
    EvenkeelPool, Followed, Former, LeftServers, MemcachedPool, Pool, Servers, server_name,
};
use crate::racks::Racks;
use crate::ring::{PlannedRing, unique_mask};
use crate::routes::way::{Tongue, Way};
use crate::routes::{RenameId, Renames, RouteTarget};
use crate::server_list::ServerList;
use crate::stats::per_route::PerRoute;
use crate::under_way::catch_up::catch_up;
use crate::under_way::era::begin_era;
use crate::under_way::log::take_over_log;
use crate::under_way::profile::take_over_profile;
use crate::worker::ProxyCore;
use evenkeel_hotkeys::client::ClientLeases;
use evenkeel_schemes::generation::PREFIX_LEN;
use evenkeel_schemes::locality::holder::Kind;
use evenkeel_schemes::stage::{Stage, Step};
use evenkeel_types::Instant;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The ways of a configuration whose pools are these; there is one at least.
fn ways_of(
    config: &ProxyConfig,
    pools: &[(PoolId, Tongue)],
    renames: &mut Renames,
    per_route: &mut PerRoute,
) -> Vec<Way> {
    let routes = config.routes.routes().iter().enumerate();
    let ways = routes.map(|(position, route)| {
        let (pool, name) = match route.target {
            RouteTarget::Pool(pool) => (pool, Some(&config.pools[pool].name)),
            // Nothing comes so far on it.
            RouteTarget::Deny => (0, None),
        };
        let number = per_route.number(position, route, name);
        let way = Way::new(route, pools[pool], renames, number);
        let bundles = config.pools[pool].bundles.as_ref();
        match bundles.is_some_and(|bundles| bundles.reads_near()) {
            true => way.without_quick_gets(),
            false => way,
        }
    });
    ways.collect()
}

/// From now on requests are executed by this configuration; those under way are finished by
/// the one they were begun by.
///
/// # Panics
/// As [`ProxyCore::new`].
pub(crate) fn configure(core: &mut ProxyCore, now: Instant, config: &Arc<ProxyConfig>) {
    take_over(core, now, config);
    core.leaving_look = Some(now);
    forget_left_pools(core, now);
    core.backends.greet_strangers(&mut core.outbox, now);
}

pub(crate) fn take_over(core: &mut ProxyCore, now: Instant, config: &Arc<ProxyConfig>) {
    assert!(
        config.requests_per_turn > 0,
        "a turn has room for a request"
    );
    assert!(!config.pools.is_empty(), "there is a pool");
    let mut former: BTreeSet<PoolId> = core.pools.ids().into_iter().collect();
    let mut pools = Vec::new();
    for wanted in &config.pools {
        let id = take_over_pool(core, now, wanted, config.has_marks(wanted));
        former.remove(&id);
        pools.push((id, tongue_of(wanted)));
    }
    for left in former {
        if let Some(pool) = core.pools.get_mut(left) {
            pool.leaving = true;
        }
    }
    for id in core.pools.ids() {
        if let Some(pool) = core.pools.get_mut(id) {
            pool.is_led_from = false;
        }
    }
    for wanted in &config.pools {
        find_others(core, wanted);
    }
    for wanted in &config.pools {
        find_racks(core, wanted, &config.racks);
    }
    core.pools.look_for_former_pools();
    let ways = ways_of(
        config,
        &pools,
        &mut core.routing.renames,
        &mut core.counts.routes,
    );
    core.routing.set(&config.routes, ways);
    keep_used_renames(core);
    keep_used_routes(core);
    core.config = Arc::clone(config);
    for id in core.pools.ids() {
        if let Some(pool) = core.pools.cluster_mut(id) {
            pool.begin_era();
        }
    }
    take_over_log(core, config.request_log.as_ref());
    core.backends.find_racks(&config.racks);
    let pools: Vec<PoolId> = pools.into_iter().map(|(id, _)| id).collect();
    take_over_profile(core, config.profile.as_ref(), &pools);
    core.backends.look_for_outages();
    if core.pools.look_for_hot_keys() {
        // The first slot begins with the first look at the clock.
        core.outbox.due_at(Instant(0));
    }
    begin_era(core);
}

/// How the servers of a pool are spoken to.
fn tongue_of(wanted: &PoolConfig) -> Tongue {
    let extended = matches!(wanted.kind, PoolKind::Evenkeel(_));
    let marked = wanted.settings.has_marks() || wanted.holding.is_some();
    match extended || marked {
        true => Tongue::Meta {
            extended,
            marked,
            named: wanted.settings.adaptive
                || wanted.settings.name_prefix.is_some()
                || wanted.holding.is_some(),
        },
        false => Tongue::AsSent,
    }
}

/// Finds or makes the pool that is wanted.
fn take_over_pool(
    core: &mut ProxyCore,
    now: Instant,
    wanted: &PoolConfig,
    has_marks: bool,
) -> PoolId {
    let same = core.pools.iter().find(|(_, pool)| is_same(pool, wanted));
    let kept = same.map(|(key, _)| key);
    let lease_seed = core.random.u64();
    let id = kept.unwrap_or_else(|| core.pools.insert(new_pool(wanted, lease_seed)));
    if let Some(pool) = core.pools.get_mut(id) {
        pool.settings = wanted.settings.clone();
        pool.grains = pool.grains.take().filter(|_| pool.settings.adaptive);
        let before = pool.bundled.take();
        let bundles = wanted.bundles.as_ref();
        pool.bundled = bundles.map(|bundles| Bundled::new(bundles, before));
    }
    if let PoolKind::Memcached(list) = &wanted.kind {
        // Where there is a ring, it says which servers there are.
        let ring = core.pools.get(id).and_then(Pool::ring).cloned();
        match ring.filter(|_| wanted.settings.adaptive) {
            Some(ring) => take_over_ring(core, now, id, wanted, ring),
            None => take_over_servers(core, now, id, (wanted, has_marks), list),
        }
    }
    let Some(pool) = core.pools.get_mut(id) else {
        return id;
    };
    for backend in pool.backends() {
        if let Some(backend) = core.backends.get_mut(backend) {
            backend.connect_timeout = wanted.settings.connect_timeout;
            backend.set_request_timeout(wanted.settings.request_timeout);
            backend.collapses = wanted.settings.collapse;
        }
    }
    let seed = core.random.u64();
    core.pools.take_over_hot_keys(seed, id, wanted);
    id
}

/// Finds the pool that stands in for this one, and the one that it is warmed from.
fn find_others(core: &mut ProxyCore, wanted: &PoolConfig) {
    let named = |name: &str| {
        let mut pools = core.pools.iter();
        pools.find(|(_, pool)| &*pool.name == name && !pool.leaving)
    };
    let gutter = match &wanted.settings.failover {
        Failover::Gutter(name) => named(name).map(|(id, _)| id),
        Failover::None | Failover::Next => None,
    };
    let former = wanted.settings.warm_from.as_deref();
    let former = former.and_then(named).map(|(id, _)| id);
    let Some((id, before)) = named(&wanted.name) else {
        return;
    };
    let former = match wanted.settings.adaptive {
        true => Some(id),
        false => former,
    };
    let before = before.former.filter(|before| Some(before.pool) == former);
    if let (Some(former), Some(_)) = (former, wanted.settings.follows)
        && let Some(former) = core.pools.get_mut(former).filter(|_| former != id)
    {
        former.is_led_from = true;
    }
    let former = former.map(|former| {
        let settings = core.pools.get(former).map(|pool| &pool.settings);
        let name_prefix = settings.and_then(|settings| settings.name_prefix);
        former_of(wanted, (former, name_prefix), before)
    });
    if let Some(pool) = core.pools.get_mut(id) {
        pool.gutter = gutter;
        pool.former = former;
    }
}

/// Finds the pools that are the other racks of this one, and its directory.
fn find_racks(core: &mut ProxyCore, wanted: &PoolConfig, known: &Racks) {
    let named = |name: &str| {
        let mut pools = core.pools.iter();
        let found = pools.find(|(_, pool)| &*pool.name == name && !pool.leaving);
        found.map(|(id, _)| id)
    };
    let Some(id) = named(&wanted.name) else {
        return;
    };
    let racks = wanted.holding.as_ref().map(|holding| {
        let others = holding.others.iter();
        let others = others.filter_map(|(rack, name)| Some((*rack, named(name)?)));
        let pools: Vec<_> = others.chain([(holding.own, id)]).collect();
        let (kind, directory) = match &holding.by {
            HoldingBy::Snoop => (Kind::Snoop, None),
            HoldingBy::Directory(name) => (Kind::Directory, named(name)),
        };
        let own = core.pools.get(id);
        let former = own.and_then(|pool| Some(pool.former?.pool));
        let sites = Sites {
            own: holding.own,
            racks: &pools,
            directory,
            former,
            former_prefix: own.and_then(|pool| pool.former?.name_prefix),
        };
        let prefix = own.and_then(|pool| pool.settings.name_prefix);
        let shown_as = core.pools.shown_as(id) ^ prefix.map_or(0, |it| unique_mask(&it));
        PoolRacks::new((kind, &wanted.name), sites, shown_as, known)
    });
    if let Some(pool) = core.pools.get_mut(id) {
        pool.racks = racks.map(Arc::new);
        let before = pool.local.take();
        let copying = wanted.holding.as_ref().and_then(|holding| holding.copying);
        pool.local = copying.map(|by| LocalPool::new(by, before));
    }
}

/// How far a pool is on its way from a former one: as its coordinator has told, or as its settings say.
fn former_of(
    wanted: &PoolConfig,
    (pool, name_prefix): (PoolId, Option<[u8; PREFIX_LEN]>),
    before: Option<Former>,
) -> Former {
    if wanted.settings.follows.is_some() {
        return Former {
            pool,
            name_prefix,
            at: before.map(|before| before.at).unwrap_or_default(),
        };
    }
    let stage = match wanted.settings.warm_fill {
        true => Stage::Warming,
        false => Stage::Closing,
    };
    Former {
        pool,
        name_prefix,
        at: Followed {
            step: Some(Step { version: 0, stage }),
            ..Followed::default()
        },
    }
}

/// Keys are distributed by this ring, among its servers.
pub(crate) fn take_over_ring(
    core: &mut ProxyCore,
    now: Instant,
    id: PoolId,
    wanted: &PoolConfig,
    ring: Arc<PlannedRing>,
) {
    take_over_servers(core, now, id, (wanted, wanted.has_marks()), ring.list());
    if let Some(Servers::Memcached(servers)) = core.pools.get_mut(id).map(|pool| &mut pool.servers)
    {
        servers.set_ring(ring);
    }
}

/// Finds or makes the connections to the servers of a list.
fn take_over_servers(
    core: &mut ProxyCore,
    now: Instant,
    id: PoolId,
    (wanted, has_marks): (&PoolConfig, bool),
    list: &Arc<ServerList>,
) {
    let Some(pool) = core.pools.get_mut(id) else {
        return;
    };
    let mut left = std::mem::take(&mut pool.left);
    let mut former: BTreeSet<BackendId> = pool.backends().into_iter().collect();
    let mut backends = Vec::new();
    let mut returned = Vec::new();
    for server in list.servers() {
        let at_same_place = former.iter().copied().find(|id| {
            let backend = core.backends.get(*id);
            backend.is_some_and(|b| b.host == server.host && b.port == server.port)
        });
        let settings = &wanted.settings;
        let keeps_copies = wanted.keeps_copies();
        let kept = at_same_place.filter(|id| {
            let backend = core.backends.get(*id);
            backend.is_some_and(|b| {
                b.tls == settings.tls
                    && b.login == settings.login
                    && b.has_marks == has_marks
                    && b.room.is_some() == keeps_copies
            })
        });
        let name = server_name(&wanted.name, &format!("{}:{}", server.host, server.port));
        backends.push(match kept {
            Some(kept) => {
                former.remove(&kept);
                kept
            }
            None => {
                let host = server.host.clone();
                let (port, peer) = (server.port, Peer::Memcached);
                let mut backend = Backend::new(id, name, host, port, peer, &wanted.settings);
                backend.has_marks = has_marks;
                backend.room = keeps_copies.then(Room::default);
                let is_return = left.is_return(&server.host, port);
                if is_return {
                    backend.invalidations.note_unknown();
                }
                // The same server, spoken to in another way from now on.
                let same = at_same_place.and_then(|id| core.backends.get_mut(id));
                let has_missed = same.is_some();
                let mut untold: Vec<Vec<u8>> = Vec::new();
                if let Some(same) = same {
                    backend.invalidations = std::mem::take(&mut same.invalidations);
                    untold.extend(same.catch_ups().map(<[u8]>::to_vec));
                }
                let backend = core.backends.insert(backend);
                for write in untold {
                    core.backends.note_missed_write(backend, &write);
                }
                returned.extend((is_return || has_missed).then_some(backend));
                backend
            }
        });
    }
    for &gone in &former {
        let is_listed = |backend: &Backend| {
            let mut servers = list.servers().iter();
            servers.any(|server| server.host == backend.host && server.port == backend.port)
        };
        if let Some(backend) = core.backends.get(gone).filter(|b| !is_listed(b)) {
            left.note(&backend.host, backend.port);
        }
    }
    if let Some(pool) = core.pools.get_mut(id) {
        let is_named = wanted.settings.name_prefix.is_some();
        let servers = MemcachedPool::new(Arc::clone(list), backends, is_named);
        pool.servers = Servers::Memcached(servers);
        pool.left = left;
    }
    for gone in former {
        core.backends
            .retire(&mut core.outbox, &mut core.counts.routes, gone);
    }
    for returned in returned {
        // Before anything else is asked of it.
        catch_up(core, now, returned);
    }
}

/// Forgets renamings that neither a route nor an answer under way needs. O(requests under way).
fn keep_used_renames(core: &mut ProxyCore) {
    let mut used: BTreeSet<RenameId> = core.routing.ways().iter().map(|way| way.rename()).collect();
    for client in core.clients.iter() {
        used.extend(client.slots().map(|slot| slot.rename));
    }
    core.routing.renames.keep(&used);
}

/// Forgets what was counted of routes that are gone and that no request under way has gone.
/// O(requests under way).
fn keep_used_routes(core: &mut ProxyCore) {
    core.backends.flush_runs(&mut core.counts.routes);
    let mut used: BTreeSet<RouteId> = core.routing.ways().iter().map(Way::route).collect();
    for client in core.clients.iter() {
        used.extend(client.slots().map(|slot| slot.route));
    }
    for backend in core.backends.iter() {
        used.extend(backend.routes_under_way());
    }
    used.extend(core.parking.routes());
    core.counts.routes.keep(&used);
}

/// Forgets pools that are no longer configured once nothing can be asked of them any more.
pub(crate) fn forget_left_pools(core: &mut ProxyCore, now: Instant) {
    if core.leaving_look.is_none_or(|at| at > now) {
        return;
    }
    core.leaving_look = None;
    let leaving = core.pools.iter().filter(|(_, pool)| pool.leaving);
    let leaving: Vec<PoolId> = leaving.map(|(id, _)| id).collect();
    for id in leaving {
        if is_needed(core, id) {
            let at = now + LEAVING_LOOK;
            core.leaving_look = Some(at);
            core.outbox.due_at(at);
        } else {
            forget(core, id);
        }
    }
}

/// Whether anything that was asked of the pool is under way. O(requests under way).
fn is_needed(core: &ProxyCore, id: PoolId) -> bool {
    let mut backends = core.backends.iter();
    // An answer that waits for its turn may turn out to be too old when it comes.
    let holds = |state: &State| match state {
        State::Read(held) => held.question.tag.pool == id,
        _ => false,
    };
    let mut clients = core.clients.iter();
    backends.any(|backend| backend.pool == id && backend.queued_requests() > 0)
        || core.parking.await_pool(id)
        || core.operations.use_pool(id)
        || core.crossings.use_pool(id)
        || clients.any(|client| client.slots().any(|slot| holds(&slot.state)))
}

fn forget(core: &mut ProxyCore, id: PoolId) {
    let Some(pool) = core.pools.remove(id) else {
        return;
    };
    for backend in pool.backends() {
        core.backends
            .retire(&mut core.outbox, &mut core.counts.routes, backend);
    }
}

/// A pool without connections.
fn new_pool(wanted: &PoolConfig, lease_seed: u64) -> Pool {
    Pool {
        name: Arc::clone(&wanted.name),
        settings: wanted.settings.clone(),
        servers: match &wanted.kind {
            PoolKind::Evenkeel(source) => Servers::Evenkeel(EvenkeelPool::new(*source)),
            PoolKind::Memcached(list) => Servers::Memcached(MemcachedPool::unconnected(list)),
        },
        leases: ClientLeases::new(lease_seed),
        untold: Places::default(),
        hot: None,
        gutter: None,
        former: None,
        is_led_from: false,
        grains: None,
        bundled: None,
        former_hits: 0,
        racks: None,
        local: None,
        left: LeftServers::default(),
        leaving: false,
    }
}

/// Whether a pool is the one that is wanted.
fn is_same(pool: &Pool, wanted: &PoolConfig) -> bool {
    let is_same_kind = match (&pool.servers, &wanted.kind) {
        (Servers::Evenkeel(pool), PoolKind::Evenkeel(source)) => pool.source() == *source,
        (Servers::Memcached(_), PoolKind::Memcached(_)) => true,
        _ => false,
    };
    is_same_kind && pool.name == wanted.name && !pool.leaving
}
