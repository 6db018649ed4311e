//! Taking over a configuration.
//!
//! Pools that both configurations have keep their connections: those of the same name that follow
//! the same coordinators, and those of the same name that both place keys by themselves. Servers that
//! both lists of such a pool have, at the same address, keep theirs. Other servers are retired: they
//! get no further requests and are closed when what was asked of them is answered or late. A pool
//! that is no longer configured stays whole, out of reach of new requests, until nothing that was
//! asked of it is under way: a request of its may still move from one server to another, or be asked
//! again.

use crate::answer::shared::Places;
use crate::client::State;
use crate::config::{Failover, PoolConfig, PoolKind, ProxyConfig};
use crate::limits::LEAVING_LOOK;
use crate::pipe::backend::{Backend, Peer};
use crate::pool::{
    EvenkeelPool, LeftServers, MemcachedPool, Pool, PoolId, ServerList, Servers, server_name,
};
use crate::request::way::{Way, ways_of};
use crate::routes::RenameId;
use crate::stats::per_route::RouteId;
use crate::under_way::catch_up::NOBODY;
use crate::{BackendId, ProxyCore};
use evenkeel_hotkeys::client::ClientLeases;
use evenkeel_types::Instant;
use std::collections::BTreeSet;
use std::sync::Arc;

impl ProxyCore {
    /// From now on requests are carried out by this configuration; those under way are finished by
    /// the one they were begun by.
    ///
    /// # Panics
    /// As [`ProxyCore::new`].
    pub fn configure(&mut self, now: Instant, config: &Arc<ProxyConfig>) {
        self.take_over(now, config);
        self.leaving_look = Some(now);
        self.forget_left_pools(now);
        self.greet_strangers(now);
    }

    pub(crate) fn take_over(&mut self, now: Instant, config: &Arc<ProxyConfig>) {
        assert!(
            config.requests_per_turn > 0,
            "a turn has room for a request"
        );
        assert!(!config.pools.is_empty(), "there is a pool");
        let mut former: BTreeSet<PoolId> = self.pools.keys().into_iter().map(PoolId).collect();
        let mut pools = Vec::new();
        for wanted in &config.pools {
            let id = self.take_over_pool(now, wanted);
            former.remove(&id);
            pools.push((id, matches!(wanted.kind, PoolKind::Evenkeel(_))));
        }
        for left in former {
            if let Some(pool) = self.pools.get_mut(left.0) {
                pool.leaving = true;
            }
        }
        for wanted in &config.pools {
            self.find_gutter(wanted);
        }
        self.ways = ways_of(config, &pools, &mut self.renames, &mut self.per_route);
        self.keep_used_renames();
        self.keep_used_routes();
        self.routes = Arc::clone(&config.routes);
        self.config = Arc::clone(config);
        for id in self.pools.keys() {
            let pool = self.pools.get_mut(id).map(|pool| &mut pool.servers);
            if let Some(Servers::Evenkeel(pool)) = pool {
                pool.begin_era();
            }
        }
        self.take_over_log(config.request_log.as_ref());
        self.look_for_outages();
        self.look_for_hot_keys();
        self.begin_era();
    }

    /// Whoever has requests under way waits for their answers before asking anything further.
    pub(crate) fn begin_era(&mut self) {
        self.era += 1;
        if self.watches {
            self.forget_truths();
        }
    }

    /// Finds or makes the pool that is wanted.
    fn take_over_pool(&mut self, now: Instant, wanted: &PoolConfig) -> PoolId {
        let same = self.pools.iter().find(|(_, pool)| is_same(pool, wanted));
        let kept = same.map(|(key, _)| key);
        let lease_seed = self.random_u64();
        let id = kept.unwrap_or_else(|| self.pools.insert(new_pool(wanted, lease_seed)));
        let id = PoolId(id);
        if let Some(pool) = self.pools.get_mut(id.0) {
            pool.settings = wanted.settings.clone();
        }
        if let PoolKind::Memcached(list) = &wanted.kind {
            self.take_over_servers(now, id, wanted, list);
        }
        let Some(pool) = self.pools.get_mut(id.0) else {
            return id;
        };
        for backend in pool.backends() {
            if let Some(backend) = self.backends.get_mut(backend.0) {
                backend.connect_timeout = wanted.settings.connect_timeout;
                backend.set_request_timeout(wanted.settings.request_timeout);
                backend.collapses = wanted.settings.collapse;
            }
        }
        self.take_over_hot_keys(id, wanted);
        id
    }

    /// Finds the pool that stands in for this one.
    fn find_gutter(&mut self, wanted: &PoolConfig) {
        let named = |name: &str| {
            let mut pools = self.pools.iter();
            pools.find(|(_, pool)| &*pool.name == name && !pool.leaving)
        };
        let gutter = match &wanted.settings.failover {
            Failover::Gutter(name) => named(name).map(|(key, _)| PoolId(key)),
            Failover::None | Failover::Next => None,
        };
        let Some((id, _)) = named(&wanted.name) else {
            return;
        };
        if let Some(pool) = self.pools.get_mut(id) {
            pool.gutter = gutter;
        }
    }

    /// Finds or makes the connections to the servers of a list.
    fn take_over_servers(
        &mut self,
        now: Instant,
        id: PoolId,
        wanted: &PoolConfig,
        list: &Arc<ServerList>,
    ) {
        let Some(pool) = self.pools.get_mut(id.0) else {
            return;
        };
        let mut left = std::mem::take(&mut pool.left);
        let mut former: BTreeSet<BackendId> = pool.backends().into_iter().collect();
        let mut backends = Vec::new();
        let mut returned = Vec::new();
        for server in list.servers() {
            let at_same_place = former.iter().copied().find(|id| {
                let backend = self.backends.get(id.0);
                backend.is_some_and(|b| b.host == server.host && b.port == server.port)
            });
            let settings = &wanted.settings;
            let kept = at_same_place.filter(|id| {
                let backend = self.backends.get(id.0);
                backend.is_some_and(|b| b.tls == settings.tls && b.login == settings.login)
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
                    let is_return = left.is_return(&server.host, port);
                    if is_return {
                        backend.missed.note_unknown();
                    }
                    // The same server, spoken to in another way from now on.
                    let same = at_same_place.and_then(|id| self.backends.get_mut(id.0));
                    let has_missed = same.is_some();
                    let mut untold: Vec<Vec<u8>> = Vec::new();
                    if let Some(same) = same {
                        backend.missed = std::mem::take(&mut same.missed);
                        untold.extend(same.questions_of(NOBODY).map(<[u8]>::to_vec));
                    }
                    let backend = BackendId(self.backends.insert(backend));
                    for write in untold {
                        self.note_missed_write(backend, &write);
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
            if let Some(backend) = self.backends.get(gone.0).filter(|b| !is_listed(b)) {
                left.note(&backend.host, backend.port);
            }
        }
        if let Some(pool) = self.pools.get_mut(id.0) {
            pool.servers = Servers::Memcached(MemcachedPool::new(Arc::clone(list), backends));
            pool.left = left;
        }
        for gone in former {
            self.retire(gone);
        }
        for returned in returned {
            // Before anything else is asked of it.
            self.catch_up(now, returned);
        }
    }

    /// Forgets renamings that neither a route nor an answer under way needs. O(requests under way).
    fn keep_used_renames(&mut self) {
        let mut used: BTreeSet<RenameId> = self.ways.iter().map(|way| way.rename()).collect();
        for (_, client) in self.clients.iter() {
            used.extend(client.slots().map(|slot| slot.rename));
        }
        self.renames.keep(&used);
    }

    /// Forgets what was counted of routes that are gone and that no request under way has gone.
    /// O(requests under way).
    fn keep_used_routes(&mut self) {
        self.settle_runs();
        let mut used: BTreeSet<RouteId> = self.ways.iter().map(Way::route).collect();
        for (_, client) in self.clients.iter() {
            used.extend(client.slots().map(|slot| slot.route));
        }
        for (_, backend) in self.backends.iter() {
            used.extend(backend.routes_under_way());
        }
        used.extend(self.routes_parked());
        self.per_route.keep(&used);
    }

    /// Forgets pools that are no longer configured once nothing can be asked of them any more.
    pub(crate) fn forget_left_pools(&mut self, now: Instant) {
        if self.leaving_look.is_none_or(|at| at > now) {
            return;
        }
        self.leaving_look = None;
        let leaving = self.pools.iter().filter(|(_, pool)| pool.leaving);
        let leaving: Vec<PoolId> = leaving.map(|(key, _)| PoolId(key)).collect();
        for id in leaving {
            if self.is_needed(id) {
                let at = now + LEAVING_LOOK;
                self.leaving_look = Some(at);
                self.due_at(at);
            } else {
                self.forget(id);
            }
        }
    }

    /// Whether anything that was asked of the pool is under way. O(requests under way).
    fn is_needed(&self, id: PoolId) -> bool {
        let mut backends = self.backends.iter().map(|(_, backend)| backend);
        // An answer that waits for its turn may turn out to be too old when it comes.
        let holds = |state: &State| match state {
            State::Read(held) => held.question.tag.pool == id,
            _ => false,
        };
        let mut clients = self.clients.iter().map(|(_, client)| client);
        backends.any(|backend| backend.pool == id && backend.queued_requests() > 0)
            || self.is_awaited_by_parked(id)
            || clients.any(|client| client.slots().any(|slot| holds(&slot.state)))
    }

    fn forget(&mut self, id: PoolId) {
        let Some(pool) = self.pools.remove(id.0) else {
            return;
        };
        for backend in pool.backends() {
            self.retire(backend);
        }
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
