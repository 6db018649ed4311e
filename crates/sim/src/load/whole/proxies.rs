//! Proxies, driven as the proxy's event loop drives them.

use super::network::{ACCEPTOR, INITIATOR, Who};
use super::{Cluster, now_at};
use crate::load::cluster::{pool_of, worker_at};
use crate::load::{KeyPlacement, LoadPlan};
use core::time::Duration;
use evenkeel_protocol::Limits;
use evenkeel_proxy_core::{
    BackendId, ClientId, MapSource, OnDown, Output, PoolKind, PoolSettings, ProcessStats,
    ProxyConfig, ProxyCore, ServerList,
};
use evenkeel_types::Instant;
use evenkeel_types::map::ClusterMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the map comes from.
const MAP_SOURCE: MapSource = MapSource(1);

#[derive(Debug)]
pub(super) struct Proxy {
    pub core: ProxyCore,
    clients: BTreeMap<ClientId, usize>,
    /// The connection to each server or worker, and whether it stands.
    backends: BTreeMap<BackendId, (usize, bool)>,
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

impl Cluster<'_> {
    /// A proxy's connection to a server stands.
    pub(super) fn backend_stands(&mut self, proxy: usize, id: BackendId) {
        let p = &mut self.proxies[proxy];
        if let Some((_, stands)) = p.backends.get_mut(&id) {
            *stands = true;
            p.core.backend_connected(id);
        }
        self.settle_proxy(proxy);
    }

    /// An application's input is given to its proxy.
    pub(super) fn feed_proxy(&mut self, proxy: usize, id: ClientId, connection: usize) {
        let input = &mut self.network.connections[connection].input[ACCEPTOR];
        let core = &mut self.proxies[proxy].core;
        let consumed = core.client_input(Instant(self.time), id, input.rest());
        input.consume(consumed);
    }

    /// Does what a proxy says until it says nothing.
    pub(super) fn settle_proxy(&mut self, proxy: usize) {
        while let Some(output) = self.proxies[proxy].core.poll_output() {
            self.carry_out(proxy, output);
        }
    }

    fn carry_out(&mut self, proxy: usize, output: Output) {
        let p = &mut self.proxies[proxy];
        match output {
            Output::WriteClient(id) => {
                if let Some(&connection) = p.clients.get(&id) {
                    let mut bytes = self.network.buffer();
                    bytes.extend_from_slice(p.core.client_output(id));
                    p.core.client_wrote(id, bytes.len());
                    self.send(connection, ACCEPTOR, self.time, bytes);
                }
            }
            Output::FeedClient(id) => {
                if let Some(&connection) = p.clients.get(&id) {
                    self.feed_proxy(proxy, id, connection);
                }
            }
            Output::Connect { id, host, port, .. } => {
                let worker = worker_at(self.plan, &host, port);
                let connection = self.connect_to_worker(Who::Backend(proxy, id), worker);
                self.proxies[proxy].backends.insert(id, (connection, false));
            }
            Output::WriteBackend(id) => {
                if let Some(&(connection, true)) = p.backends.get(&id) {
                    p.core.begin_turn(Instant(self.time));
                    let mut bytes = self.network.buffer();
                    bytes.extend_from_slice(p.core.backend_output(id));
                    p.core.backend_wrote(id, bytes.len());
                    self.send(connection, INITIATOR, self.time, bytes);
                }
            }
            Output::CloseBackend(id) => {
                if let Some((connection, _)) = p.backends.remove(&id) {
                    self.hang_up(connection);
                }
            }
            Output::CloseClient(id) => {
                p.clients.remove(&id);
                self.wrong = Some("a proxy closed the connection of an application".into());
            }
            Output::Stats(ticket) => {
                let now = Instant(self.time);
                p.core.answer_stats(now, ticket, &ProcessStats::default());
            }
            // There is one map, and nobody asks for the rest.
            Output::WantMap { .. }
            | Output::ResetStats
            | Output::Log(_)
            | Output::OwnAddress(_) => {}
        }
    }
}
