//! A proxy, and how it starts.

use super::now::now_at;
use crate::load::cluster::pool_of;
use crate::load::{KeyPlacement, LoadPlan};
use core::time::Duration;
use evenkeel_protocol::Limits;
use evenkeel_proxy_core::{
    BackendId, ClientId, MapSource, OnDown, PoolKind, PoolSettings, ProxyConfig, ProxyCore,
    ServerList,
};
use evenkeel_types::map::ClusterMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the map comes from.
pub(super) const MAP_SOURCE: MapSource = MapSource(1);

#[derive(Debug)]
pub(super) struct Proxy {
    pub core: ProxyCore,
    pub clients: BTreeMap<ClientId, usize>,
    /// The connection to each server or worker, and whether it stands.
    pub backends: BTreeMap<BackendId, (usize, bool)>,
}

impl Proxy {
    /// An application's connection arrives by this one.
    pub fn accept(&mut self, client: ClientId, connection: usize) {
        self.clients.insert(client, connection);
    }
}

/// The proxies, which know the map if there is one.
pub(super) fn start(
    plan: &LoadPlan,
    limits: Limits,
    map: Option<&Arc<ClusterMap>>,
) -> Result<Vec<Proxy>, String> {
    let settings = PoolSettings {
        connect_timeout: Duration::from_secs(10),
        on_down: OnDown::Error,
        // Servers are to see what applications ask for.
        collapse: false,
        ..PoolSettings::default()
    };
    let kind = match plan.placement {
        KeyPlacement::Map => PoolKind::Evenkeel(MAP_SOURCE),
        KeyPlacement::Plain(distribution) => {
            let servers = ServerList::new(pool_of(plan, distribution));
            PoolKind::Memcached(Arc::new(servers.map_err(|error| error.to_string())?))
        }
    };
    let mut config = ProxyConfig::of_pool(kind, settings);
    config.limits.item_size_max = limits.item_size_max;
    let config = Arc::new(config);
    let start = |i| {
        let mut core = ProxyCore::new(&config, plan.seed ^ (i as u64) << 32);
        if let Some(map) = map {
            core.set_map(now_at(0).monotonic, MAP_SOURCE, map);
        }
        Proxy {
            core,
            clients: BTreeMap::new(),
            backends: BTreeMap::new(),
        }
    };
    Ok((0..plan.proxies).map(start).collect())
}
