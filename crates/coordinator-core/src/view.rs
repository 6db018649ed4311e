//! What the coordinator shows of its members.

use core::time::Duration;

use evenkeel_types::{BootId, Epoch, Instant, ServerId};
use serde::{Deserialize, Serialize};

use crate::duration::millis;
use crate::map_draft::MapDraft;
use crate::members::{Members, Proxy, ServedView, Server};
use crate::placing::{Moving, Slot};

/// All servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServersView {
    /// Epoch of the newest map; 0 before the first.
    pub epoch: Epoch,
    /// Every server that is known, by id.
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
    /// The proxies that are members, by name.
    pub proxies: Vec<ProxyView>,
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
    /// What applications got of it in the last second.
    #[serde(default, flatten)]
    pub served: ServedView,
    /// Milliseconds since its last heartbeat.
    pub silent_ms: u64,
    /// Fingerprint of the file that it works by, if it has one.
    #[serde(default)]
    pub config_hash: Option<String>,
}

impl ServersView {
    pub(crate) fn of(now: Instant, members: &Members, draft: &MapDraft) -> Self {
        let servers = members.servers();
        let mut cachelets = vec![(0, 0); servers.len()];
        for slot in draft.slots() {
            match slot {
                Slot::Owned(owner) | Slot::Moving(Moving { from: owner, .. }) => {
                    cachelets[usize::from(owner.server.0)].0 += 1;
                }
                Slot::Released { by, .. } => cachelets[usize::from(by.0)].1 += 1,
                Slot::Quarantined { .. } => {}
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
        let known = (servers.iter().zip(cachelets)).filter(|(server, _)| !server.is_forgotten);
        ServersView {
            epoch: draft.epoch(),
            servers: known.map(view).collect(),
        }
    }
}

impl ProxiesView {
    /// By the map of that epoch; a proxy silent for this long is down.
    pub(crate) fn of(now: Instant, members: &Members, epoch: Epoch, silent: Duration) -> Self {
        let view = |(name, proxy): (&String, &Proxy)| ProxyView {
            name: name.clone(),
            host: proxy.host.clone(),
            port: proxy.port,
            rack: proxy.rack.clone(),
            boot: proxy.boot,
            up: now.since(proxy.last_heard) < silent,
            epoch: proxy.applied,
            requests_per_second: proxy.load.clone(),
            served: proxy.served,
            silent_ms: millis(now.since(proxy.last_heard)),
            config_hash: proxy.config_hash.clone(),
        };
        ProxiesView {
            epoch,
            proxies: members.proxies().iter().map(view).collect(),
        }
    }
}
