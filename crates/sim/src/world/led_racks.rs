//! A pool in racks of which one holds each item, as it is known from outside. [`led`](super::led) is what happens.

use super::led_report::{LedKind, RackStep};
use super::proxy::{POOL, led_settings, server_list};
use super::server::ITEM_SIZE_MAX;
use core::ops::Range;
use evenkeel_proxy_core::{
    Holding, HoldingBy, OnDown, PoolConfig, PoolKind, ProxyConfig, Racks, ServerList,
};
use evenkeel_schemes::locality::topology::{Rack, Topology};
use evenkeel_schemes::name::note_prefix;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The pool of the directory.
const DIRECTORY: &str = "notes";

/// What racks are called. Each of the first ones has a proxy.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The racks of a pool.
#[derive(Debug)]
pub(super) struct LedRacks {
    kind: LedKind,
    servers: usize,
    /// The step that was executed last.
    pub last_step: RackStep,
}

impl LedRacks {
    /// The racks of this many servers, where the pool is of such a kind.
    pub fn new(kind: LedKind, servers: usize) -> Option<Self> {
        kind.is_in_racks().then_some(LedRacks {
            kind,
            servers,
            last_step: RackStep::default(),
        })
    }

    pub fn kind(&self) -> LedKind {
        self.kind
    }

    /// Whether a server is the directory: the last one, where there is one.
    pub fn is_directory(&self, server: usize) -> bool {
        self.kind == LedKind::Directory && server + 1 == self.servers
    }

    /// The servers of each rack: with a directory two racks share all others, else there are three.
    fn racks(&self) -> Vec<Range<usize>> {
        let (racks, servers) = match self.kind {
            LedKind::Directory => (2, self.servers - 1),
            _ => (3, self.servers),
        };
        let first = |rack: usize| rack * servers / racks;
        (0..racks)
            .map(|rack| first(rack)..first(rack + 1))
            .collect()
    }

    /// What a key's note is called in the directory.
    pub fn note_of(&self, key: &[u8]) -> Vec<u8> {
        [&note_prefix(POOL)[..], key].concat()
    }

    /// What the proxy of a rack is told.
    pub fn config(&self, rack: usize, on_down: OnDown) -> ProxyConfig {
        let settings = led_settings(on_down);
        let racks = self.racks();
        let named = NAMES.map(|name| Rack {
            name: name.to_owned(),
            networks: Vec::new(),
            is_central: false,
        });
        let topology = Topology::new(named.into_iter().take(racks.len()).collect());
        let topology = topology.expect("sound racks");
        let id = |rack: usize| topology.named(NAMES[rack]).expect("it is there");
        let pool = |name: Arc<str>, servers: Arc<ServerList>| PoolConfig {
            name,
            kind: PoolKind::Memcached(servers),
            settings: settings.clone(),
            bundles: None,
            holding: None,
        };
        let others = (0..racks.len()).filter(|other| *other != rack);
        let others: Vec<(usize, Arc<str>)> = others
            .map(|other| (other, format!("{POOL}@{}", NAMES[other]).into()))
            .collect();
        let kind = PoolKind::Memcached(server_list(racks[rack].clone()));
        let mut config = ProxyConfig::of_pool(kind, settings.clone());
        config.pools[0].name = POOL.into();
        config.pools[0].holding = Some(Arc::new(Holding {
            by: match self.kind {
                LedKind::Directory => HoldingBy::Directory(DIRECTORY.into()),
                _ => HoldingBy::Snoop,
            },
            own: id(rack),
            others: others
                .iter()
                .map(|(other, name)| (id(*other), Arc::clone(name)))
                .collect(),
            copying: None,
        }));
        for (other, name) in others {
            let servers = server_list(racks[other].clone());
            config.pools.push(pool(name, servers));
        }
        if self.kind == LedKind::Directory {
            let servers = server_list(self.servers - 1..self.servers);
            config.pools.push(pool(DIRECTORY.into(), servers));
        }
        let own = Some(id(rack));
        config.racks = Arc::new(Racks::new(topology, own, BTreeMap::new()));
        config.limits.item_size_max = ITEM_SIZE_MAX;
        config
    }
}
