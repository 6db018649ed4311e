//! What the coordinator shows of its members.

use evenkeel_types::{BootId, Epoch, ServerId};
use serde::{Deserialize, Serialize};

use super::proxy_config::RefusedProxyConfig;

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
