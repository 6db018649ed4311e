//! What the coordinator shows of its members.

use core::time::Duration;

use evenkeel_types::{BootId, Epoch, Instant, ServerId};
use serde::{Deserialize, Serialize};

use super::members::{Proxy, Server};
use super::placing::{Moving, Slot};
use super::proxy_config::RefusedProxyConfig;
use super::{CoordinatorCore, millis};

/// All servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServersView {
    /// Epoch of the newest map; 0 before the first.
    pub epoch: Epoch,
    /// Every server that ever registered, by id.
    pub servers: Vec<ServerView>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerView {
    /// Its id.
    pub id: ServerId,
    /// Its name.
    pub name: String,
    /// Where it is reached.
    pub host: String,
    /// The ordinary port.
    pub port: u16,
    /// Each worker's own port.
    pub worker_ports: Vec<u16>,
    /// Locality domain.
    pub rack: Option<String>,
    /// Its present life.
    pub boot: BootId,
    /// Whether it is taken to be alive.
    pub up: bool,
    /// Newest map that it works by.
    pub epoch: Epoch,
    /// Cachelets that it owns.
    pub cachelets: usize,
    /// Cachelets that it has given up and that nobody has yet: until then it must be there to say that it
    /// has let go.
    #[serde(default)]
    pub released: usize,
    /// Whether it is drained: it gives its cachelets up and gets none.
    #[serde(default)]
    pub draining: bool,
    /// Whether it is overloaded and cannot help itself, as it said last.
    #[serde(default)]
    pub asks_for_moves: bool,
    /// Load of each worker as last reported; empty before the first report.
    pub requests_per_second: Vec<f64>,
    /// Milliseconds since its last heartbeat.
    pub silent_ms: u64,
}

/// All proxies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProxiesView {
    /// Epoch of the newest map; 0 before the first.
    pub epoch: Epoch,
    /// The proxies that are members or follow a configuration, by name.
    pub proxies: Vec<ProxyView>,
}

/// The configurations that are kept for proxies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyConfigsView {
    /// By name.
    pub configs: Vec<ProxyConfigEntry>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyConfigEntry {
    /// Its name.
    pub name: String,
    /// The revision in which it last changed.
    pub revision: u64,
    /// Its length.
    pub bytes: usize,
}

/// By what a proxy works that follows a configuration of the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyConfigView {
    /// The configuration's name.
    pub name: String,
    /// The revision in force there; 0 for none of this coordinator's.
    pub revision: u64,
    /// The newest of that name; 0 if there is none.
    pub newest: u64,
    /// The last one that could not be used there, unless it is in force by now.
    pub refused: Option<RefusedProxyConfig>,
    /// Milliseconds since it was to ask again.
    pub silent_ms: u64,
}

/// One proxy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProxyView {
    /// Its name.
    pub name: String,
    /// Where it is reached.
    pub host: String,
    /// Its port; 0 when it listens on a unix socket alone.
    pub port: u16,
    /// Locality domain.
    pub rack: Option<String>,
    /// Its present life.
    pub boot: BootId,
    /// Whether it is taken to be alive.
    pub up: bool,
    /// Newest map that it works by.
    pub epoch: Epoch,
    /// Load of each of its threads as last reported.
    pub requests_per_second: Vec<f64>,
    /// Milliseconds since its last heartbeat, or since it was to ask for its configuration if it sends
    /// none.
    pub silent_ms: u64,
    /// The configuration that it follows, if it does.
    #[serde(default)]
    pub config: Option<ProxyConfigView>,
}

impl CoordinatorCore {
    /// All servers, to be shown.
    pub fn servers(&self, now: Instant) -> ServersView {
        let mut cachelets = vec![(0, 0); self.servers.len()];
        for slot in &self.slots {
            match slot {
                Slot::Owned(owner) | Slot::Moving(Moving { from: owner, .. }) => {
                    cachelets[usize::from(owner.server.0)].0 += 1;
                }
                Slot::Released { by, .. } => cachelets[usize::from(by.0)].1 += 1,
                Slot::Merged => {}
            }
        }
        let view = |(server, (cachelets, released)): (&Server, (usize, usize))| ServerView {
            id: server.entry.id,
            name: server.entry.name.clone(),
            host: server.entry.host.clone(),
            port: server.entry.port,
            worker_ports: server.entry.worker_ports.clone(),
            rack: server.entry.rack.clone(),
            boot: server.entry.boot,
            up: server.entry.up,
            epoch: server.applied,
            cachelets,
            released,
            draining: server.drain.is_some(),
            asks_for_moves: server.asks_for_moves,
            requests_per_second: server.load.clone(),
            silent_ms: millis(now.since(server.last_heard)),
        };
        ServersView {
            epoch: self.epoch,
            servers: self.servers.iter().zip(cachelets).map(view).collect(),
        }
    }

    /// All proxies, to be shown.
    pub fn proxies(&self, now: Instant) -> ProxiesView {
        let view = |(name, proxy): (&String, &Proxy)| ProxyView {
            name: name.clone(),
            host: proxy.host.clone(),
            port: proxy.port,
            rack: proxy.rack.clone(),
            boot: proxy.boot,
            up: now.since(proxy.last_heard) < self.config.silent,
            epoch: proxy.applied,
            requests_per_second: proxy.load.clone(),
            silent_ms: millis(now.since(proxy.last_heard)),
            config: None,
        };
        let mut proxies: Vec<ProxyView> = self.proxies.iter().map(view).collect();
        let members = proxies.len();
        for ((name, boot), host, port, config) in self.proxy_configs.views(now, self.lineage) {
            let at = proxies[..members].binary_search_by(|proxy| proxy.name.cmp(name));
            if let Some(member) = at.ok().map(|at| &mut proxies[at])
                && member.boot == *boot
            {
                member.config = Some(config);
                continue;
            }
            proxies.push(ProxyView {
                name: name.clone(),
                host: host.to_owned(),
                port,
                rack: None,
                boot: *boot,
                up: Duration::from_millis(config.silent_ms) < self.config.silent,
                epoch: Epoch(0),
                requests_per_second: Vec::new(),
                silent_ms: config.silent_ms,
                config: Some(config),
            });
        }
        proxies.sort_by(|a, b| (&a.name, a.boot).cmp(&(&b.name, b.boot)));
        ProxiesView {
            epoch: self.epoch,
            proxies,
        }
    }
}
