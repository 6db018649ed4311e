//! A worker of a server, and how it starts.

use super::now::now_at;
use crate::history::Nanos;
use crate::load::cluster::worker_ref;
use crate::load::{KeyPlacement, LoadPlan};
use evenkeel_protocol::Limits;
use evenkeel_server_core::{ConnectionId, LinkId, WorkerConfig, WorkerCore, first_version};
use evenkeel_storage::{PoolConfig, SegmentPool};
use evenkeel_types::BootId;
use evenkeel_types::map::ClusterMap;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Commands of one connection that a worker executes in one go: the server's `-R` where nothing is
/// said.
const REQUESTS_PER_ROUND: u32 = 20;

#[derive(Debug)]
pub(super) struct Worker {
    pub core: WorkerCore,
    /// The connection of each link, and whether it stands.
    pub links: BTreeMap<LinkId, (usize, bool)>,
    /// Connections with input, in the order in which it came.
    pub ready: VecDeque<usize>,
    pub busy: bool,
    /// What its turns have taken since the last look.
    pub worked: Nanos,
    pub sessions: BTreeMap<(u32, u32), usize>,
    /// Keys served and reads of replicas before it was measured.
    pub before: (u64, u64),
}

impl Worker {
    pub fn counts(&mut self) -> (u64, u64) {
        let counters = self.core.counters();
        (counters.keys_served(), counters.replica_hits)
    }

    /// From now on it is measured.
    pub fn begin_to_count(&mut self) {
        self.before = self.counts();
    }

    /// Keys served and reads of replicas while it was measured.
    pub fn counted(&mut self) -> (u64, u64) {
        let (keys, replica_reads) = self.counts();
        (keys - self.before.0, replica_reads - self.before.1)
    }

    /// A connection is gone.
    pub fn close(&mut self, id: ConnectionId) {
        self.core.close(id);
        self.sessions.remove(&(id.slot, id.generation));
    }
}

/// The workers of all servers, which know the map if there is one.
pub(super) fn start(
    plan: &LoadPlan,
    limits: Limits,
    map: Option<&Arc<ClusterMap>>,
) -> Result<Vec<Worker>, String> {
    let start = now_at(0);
    let mut workers = Vec::with_capacity(plan.workers());
    for server in 0..plan.servers {
        let pool = SegmentPool::new(PoolConfig {
            limit_bytes: plan.memory_bytes,
            item_size_max: limits.item_size_max,
            cachelets_expected: plan.cachelets_per_server(),
        });
        for index in 0..plan.workers_per_server {
            let config = WorkerConfig {
                index,
                limits,
                requests_per_turn: REQUESTS_PER_ROUND,
                clustered: plan.placement == KeyPlacement::Map,
                hot_keys: plan.hot_keys.clone(),
                boot: BootId(server as u64 + 1),
                first_version: first_version(plan.seed ^ server as u64),
                ..WorkerConfig::new(
                    plan.workers_per_server,
                    start,
                    plan.seed ^ (workers.len() as u64 + 1),
                )
            };
            let mut core = WorkerCore::new(config, &pool).map_err(|error| error.to_string())?;
            if let Some(map) = map {
                core.handle_map(start, map, worker_ref(plan, workers.len()).server);
            }
            workers.push(Worker {
                core,
                links: BTreeMap::new(),
                ready: VecDeque::new(),
                busy: false,
                worked: 0,
                sessions: BTreeMap::new(),
                before: (0, 0),
            });
        }
    }
    Ok(workers)
}
