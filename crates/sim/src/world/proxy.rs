//! A proxy process, and how it is configured.

use super::connection::ConnectionNumber;
use super::plan::{Cluster, Plan};
use super::process::Process;
use super::server::{ITEM_SIZE_MAX, worker_ports};
use super::units::MS;
use crate::history::Nanos;
use core::ops::Range;
use core::time::Duration;
use evenkeel_hotkeys::plain::{PlainConfig, PlainMode};
use evenkeel_placement::config::{PlacementConfig, Server};
use evenkeel_proxy_core::{
    BackendId, ClientId, MapSource, OnDown, PoolKind, PoolSettings, ProxyConfig, ProxyCore,
    ServerList,
};
use evenkeel_types::BootId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How long a proxy waits for an answer: for longer than any lease, for which homes may hold answers back.
pub(super) const REQUEST_TIMEOUT: Nanos = 600 * MS;

/// Where the map of the only cluster comes from.
pub(super) const MAP_SOURCE: MapSource = MapSource(1);

/// What a pool is called that is led.
pub(super) const POOL: &str = "new";

/// Hot keys are found soon, and everything about them is short.
pub(super) fn settings(plan: &Plan, on_down: OnDown) -> PoolSettings {
    PoolSettings {
        hot_keys: PlainConfig {
            mode: match plan.cluster {
                Cluster::Evenkeel => PlainMode::Off,
                Cluster::Plain => PlainMode::On,
            },
            lease: Duration::from_nanos(plan.lease_lent()),
            sampling: Some(1.0),
            write_weight: 1.5,
            ..PlainConfig::default()
        },
        ..led_settings(on_down)
    }
}

/// What proxies are told of any pool that something of a led one is asked of.
pub(super) fn led_settings(on_down: OnDown) -> PoolSettings {
    PoolSettings {
        connect_timeout: Duration::from_nanos(60 * MS),
        request_timeout: Duration::from_nanos(REQUEST_TIMEOUT),
        on_down,
        allow_flush: true,
        ..PoolSettings::default()
    }
}

/// The first worker of each of these servers.
pub(super) fn server_list(servers: Range<usize>) -> Arc<ServerList> {
    let servers = servers.flat_map(|server| worker_ports(server, 1));
    let config = PlacementConfig {
        servers: servers.map(|port| Server::new("h", port)).collect(),
        ..PlacementConfig::default()
    };
    Arc::new(ServerList::new(config).expect("sound servers"))
}

/// What proxies in front of this many servers are told.
pub(super) fn config(plan: &Plan, servers: usize, settings: PoolSettings) -> ProxyConfig {
    let kind = match plan.cluster {
        Cluster::Evenkeel => PoolKind::Evenkeel(MAP_SOURCE),
        Cluster::Plain => PoolKind::Memcached(server_list(0..servers)),
    };
    let mut config = ProxyConfig::of_pool(kind, settings);
    config.limits.item_size_max = ITEM_SIZE_MAX;
    config
}

/// A proxy process of one worker.
#[derive(Debug)]
pub(super) struct Proxy {
    pub process: Process,
    pub core: ProxyCore,
    pub boot: BootId,
    pub clients: BTreeMap<ClientId, ConnectionNumber>,
    pub backends: BTreeMap<BackendId, ConnectionNumber>,
    pub connected: BTreeSet<BackendId>,
}

impl Proxy {
    /// A proxy that works by a configuration.
    pub fn new(process: Process, seed: u64, config: &Arc<ProxyConfig>) -> Self {
        Proxy {
            process,
            core: ProxyCore::new(config, seed),
            boot: BootId(seed | 1),
            clients: BTreeMap::new(),
            backends: BTreeMap::new(),
            connected: BTreeSet::new(),
        }
    }
}

impl Proxy {
    /// Applications that are connected.
    pub fn clients_open(&self) -> usize {
        self.clients.len()
    }

    /// Bytes of answers that wait for the slowest application.
    pub fn unread_max(&self) -> usize {
        let unread = |id: &ClientId| self.core.client_output(*id).len();
        self.clients.keys().map(unread).max().unwrap_or(0)
    }
}
