//! Taking over a new map.
//!
//! Connections to workers that both maps have at the same address, in the same life, are kept. The others are retired:
//! they get no further requests and are closed when what was asked of them is answered or late. So a server that was restarted
//! is connected to at once, whatever is known against its former life.

use crate::config::MapSource;
use crate::ids::{BackendId, PoolId};
use crate::pipe::backend::{Backend, Peer};
use crate::pipe::backends::Backends;
use crate::pool::{Pool, server_name};
use crate::under_way::era::begin_era;
use crate::under_way::flush::go_on_with_flushes;
use crate::under_way::retry::retry_all_parked;
use crate::worker::ProxyCore;
use evenkeel_types::map::{ClusterMap, ServerEntry};
use evenkeel_types::{Instant, WorkerRef};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The coordinator of this source has a map. One that is not newer, or that no pool follows, is
/// ignored.
pub(crate) fn set_map(
    core: &mut ProxyCore,
    now: Instant,
    source: MapSource,
    map: &Arc<ClusterMap>,
) {
    let followers = core
        .pools
        .iter()
        .filter(|(_, pool)| pool.source() == Some(source) && map.epoch() > pool.epoch());
    let followers: Vec<PoolId> = followers.map(|(id, _)| id).collect();
    if followers.is_empty() {
        return;
    }
    core.counts.stats.maps += 1;
    for pool in followers {
        follow(core, pool, map);
    }
    begin_era(core);
    retry_all_parked(core, now);
    go_on_with_flushes(core, now);
}

fn follow(core: &mut ProxyCore, id: PoolId, map: &Arc<ClusterMap>) {
    let Some(Pool {
        name: pool_name,
        settings,
        servers,
        ..
    }) = core.pools.get_mut(id)
    else {
        return;
    };
    let Some(placed) = servers.cluster_mut() else {
        return;
    };
    let former = placed.backends().to_vec();
    let lived = |server: &ServerEntry| {
        let was = placed.map().and_then(|map| map.server(server.id));
        was.is_some_and(|was| was.boot == server.boot)
    };
    let mut workers: Vec<(WorkerRef, BackendId)> = Vec::new();
    for server in map.servers() {
        let lived = lived(server);
        for (worker, &port) in (0u16..).zip(&server.worker_ports) {
            let worker = WorkerRef {
                server: server.id,
                worker,
            };
            let kept = former
                .binary_search_by_key(&worker, |(worker, _)| *worker)
                .ok()
                .map(|at| former[at].1)
                .filter(|&id| lived && is_at(&core.backends, id, &server.host, port));
            let backend = kept.unwrap_or_else(|| {
                let name = server_name(pool_name, &server.name);
                let peer = Peer::Worker(worker);
                let host = server.host.clone();
                let backend = Backend::new(id, name, host, port, peer, settings);
                core.backends.insert(backend)
            });
            workers.push((worker, backend));
        }
    }
    let kept: BTreeSet<BackendId> = workers.iter().map(|(_, id)| *id).collect();
    placed.install(Arc::clone(map), workers);
    for (_, id) in former.into_iter().filter(|(_, id)| !kept.contains(id)) {
        core.backends
            .retire(&mut core.outbox, &mut core.counts.routes, id);
    }
}

fn is_at(backends: &Backends, id: BackendId, host: &str, port: u16) -> bool {
    let backend = backends.get(id);
    backend.is_some_and(|backend| backend.host == host && backend.port == port)
}
