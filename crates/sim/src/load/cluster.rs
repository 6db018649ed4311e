//! The servers of a plan, and which of their workers a key belongs to.

use super::names::KeyNames;
use super::{KeyPlacement, LoadPlan};
use evenkeel_placement::config::{Distribution, PlacementConfig, Server};
use evenkeel_placement::pool::Placement;
use evenkeel_types::map::{
    CACHELETS_MAX, ClusterMap, MapDocument, SERVERS_MAX, ServerEntry, VIRTUAL_NODES,
    VIRTUAL_NODES_MAX,
};
use evenkeel_types::{BootId, CacheletId, KeyHash, ServerId, WorkerRef};
use std::sync::Arc;

/// Workers listen on ports from here on, each server on a host of its own.
const PORT_FIRST: u16 = 2000;

/// Virtual nodes of each worker at the least, where the map's bounds allow it: with fewer, the hash
/// space itself would be unevenly cut.
const VIRTUAL_NODES_PER_WORKER: usize = 16;

/// How everybody finds the home of a key.
#[derive(Debug)]
pub(super) enum Homes {
    /// By the cluster's map.
    Map(Arc<ClusterMap>),
    /// As the pool of plain servers is placed.
    Plain(Box<Placement>),
}

impl Homes {
    /// Works out where keys are at home.
    ///
    /// # Errors
    /// When there are more servers or cachelets than a map or a placement can have.
    pub fn new(plan: &LoadPlan) -> Result<Self, String> {
        match plan.placement {
            KeyPlacement::Map => Ok(Homes::Map(map_of(plan)?)),
            KeyPlacement::Plain(distribution) => {
                let placement = Placement::new(&pool_of(plan, distribution));
                Ok(Homes::Plain(Box::new(
                    placement.map_err(|error| error.to_string())?,
                )))
            }
        }
    }

    /// The worker of each place where keys are: of each cachelet, or of each plain server.
    pub fn of_places(&self, plan: &LoadPlan) -> Vec<u16> {
        let owner = |cachelet: usize, map: &ClusterMap| {
            let owner = map.owner(CacheletId(cachelet as u16));
            worker_number(plan, owner.expect("every cachelet has an owner")) as u16
        };
        match self {
            Homes::Map(map) => (0..map.document().cachelets.len())
                .map(|cachelet| owner(cachelet, map))
                .collect(),
            // Each has one worker.
            Homes::Plain(_) => (0..plan.servers as u16).collect(),
        }
    }

    /// The place of each key of a plan.
    pub fn of_keys(&self, plan: &LoadPlan) -> impl Iterator<Item = u16> {
        let names = KeyNames::of_seed(plan.seed);
        (0..plan.keys as u32).map(move |key| {
            let name = names.of(key);
            match self {
                Homes::Map(map) => map.locate(KeyHash::of(&name)).cachelet.0,
                Homes::Plain(placement) => placement.server(&name) as u16,
            }
        })
    }
}

/// The map by which everybody works.
///
/// # Errors
/// When there are more servers or cachelets than a map can have.
pub(super) fn map_of(plan: &LoadPlan) -> Result<Arc<ClusterMap>, String> {
    let workers = plan.workers();
    let cachelets = workers * plan.cachelets_per_worker;
    if plan.servers > SERVERS_MAX || cachelets > CACHELETS_MAX {
        return Err(format!(
            "a map has at most {SERVERS_MAX} servers and {CACHELETS_MAX} cachelets, not {} and \
             {cachelets}",
            plan.servers
        ));
    }
    let nodes = (workers * VIRTUAL_NODES_PER_WORKER)
        .max(cachelets)
        .next_power_of_two()
        .clamp(VIRTUAL_NODES, VIRTUAL_NODES_MAX);
    let servers = (0..plan.servers).map(|server| {
        let ports = PORT_FIRST..PORT_FIRST + plan.workers_per_server;
        ServerEntry {
            boot: BootId(server as u64 + 1),
            ..ServerEntry::new(server as u16, server.to_string(), 1000, ports.collect())
        }
    });
    let owners = (0..cachelets).map(|cachelet| Some(worker_ref(plan, cachelet % workers)));
    let document = MapDocument::new(1, servers.collect(), nodes, owners.collect());
    let map = ClusterMap::new(document).map_err(|error| error.to_string())?;
    Ok(Arc::new(map))
}

/// The pool of plain servers that everybody places keys in. Its servers' names go by the seed: what a
/// ring makes of some names is a matter of luck.
pub(super) fn pool_of(plan: &LoadPlan, distribution: Distribution) -> PlacementConfig {
    let servers = (0..plan.servers).map(|server| Server {
        name: Some(format!("s{server}-{}", plan.seed)),
        ..Server::new(server.to_string(), PORT_FIRST)
    });
    PlacementConfig {
        servers: servers.collect(),
        distribution,
        ..PlacementConfig::default()
    }
}

/// A worker by number: those of one server follow each other.
pub(super) fn worker_ref(plan: &LoadPlan, worker: usize) -> WorkerRef {
    let per_server = usize::from(plan.workers_per_server);
    WorkerRef {
        server: ServerId((worker / per_server) as u16),
        worker: (worker % per_server) as u16,
    }
}

/// The number of a worker.
pub(super) fn worker_number(plan: &LoadPlan, worker: WorkerRef) -> usize {
    usize::from(worker.server.0) * usize::from(plan.workers_per_server) + usize::from(worker.worker)
}

/// The number of the worker that listens there.
pub(super) fn worker_at(plan: &LoadPlan, host: &str, port: u16) -> usize {
    let server: usize = host.parse().expect("hosts are named by their numbers");
    server * usize::from(plan.workers_per_server) + usize::from(port - PORT_FIRST)
}
