//! Taking over a new map.
//!
//! Connections to workers that both maps have at the same address are kept. The others are retired:
//! they get no further requests and are closed when what was asked of them is answered or late.

use super::backend::{Backend, Peer};
use super::{BackendId, Pool, ProxyCore};
use evenkeel_policy::placement::map::ClusterMap;
use evenkeel_types::{Instant, WorkerRef};
use std::collections::BTreeSet;
use std::sync::Arc;

impl ProxyCore {
    /// The coordinator has a map. One that is not newer, or that belongs to another kind of pool, is
    /// ignored.
    pub fn set_map(&mut self, now: Instant, map: &Arc<ClusterMap>) {
        let Pool::Evenkeel(pool) = &self.pool else {
            return;
        };
        if map.epoch() <= pool.epoch() {
            return;
        }
        self.stats.proxy_maps += 1;
        let former = pool.backends().to_vec();
        let mut workers: Vec<(WorkerRef, BackendId)> = Vec::new();
        for server in map.servers() {
            for (worker, &port) in (0u16..).zip(&server.worker_ports) {
                let worker = WorkerRef {
                    server: server.id,
                    worker,
                };
                let kept = former
                    .binary_search_by_key(&worker, |(worker, _)| *worker)
                    .ok()
                    .map(|at| former[at].1)
                    .filter(|&id| self.is_at(id, &server.host, port));
                let backend = kept.unwrap_or_else(|| {
                    let (name, host) = (server.name.clone(), server.host.clone());
                    let backend = Backend::new(name, host, port, Peer::Worker(worker));
                    BackendId(self.backends.insert(backend))
                });
                workers.push((worker, backend));
            }
        }
        let kept: BTreeSet<BackendId> = workers.iter().map(|(_, id)| *id).collect();
        for (_, id) in former.into_iter().filter(|(_, id)| !kept.contains(id)) {
            self.retire(id);
        }
        if let Pool::Evenkeel(pool) = &mut self.pool {
            pool.install(Arc::clone(map), workers);
        }
        self.retry_all_parked(now);
    }

    fn is_at(&self, id: BackendId, host: &str, port: u16) -> bool {
        let backend = self.backends.get(id.0);
        backend.is_some_and(|backend| backend.host == host && backend.port == port)
    }

    fn retire(&mut self, id: BackendId) {
        if let Some(backend) = self.backends.get_mut(id.0) {
            backend.retired = true;
        }
        self.close_if_retired(id);
    }
}
