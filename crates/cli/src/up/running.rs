//! Where everything of a running cluster is: for people, with what to try next, and in a file for scripts.

use super::cluster::Cluster;
use super::member::Member;
use super::page;
use anyhow::Context;
use serde::Serialize;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

/// Who is where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Running {
    /// `http://HOST:PORT`, as commands are told it.
    coordinator: String,
    /// Its web page.
    page: String,
    /// The first at least.
    proxies: Vec<Place>,
    servers: Vec<Place>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Place {
    name: String,
    address: SocketAddr,
    /// Until it is started again.
    pid: u32,
}

impl Running {
    /// Those that have started.
    ///
    /// # Errors
    /// The coordinator or the first proxy has not.
    pub fn of(cluster: &Cluster) -> anyhow::Result<Running> {
        cluster.proxy_address()?;
        let place = |member: &Member| {
            Some(Place {
                name: member.name().to_owned(),
                address: member.address()?,
                pid: member.pid()?,
            })
        };
        let coordinator = cluster.processes.coordinator_address()?;
        Ok(Running {
            coordinator: format!("http://{coordinator}"),
            page: page::url(&cluster.processes)?,
            proxies: cluster.proxies().filter_map(place).collect(),
            servers: cluster.servers().filter_map(place).collect(),
        })
    }

    /// Writes it, as JSON.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, file: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(file, text).with_context(|| format!("failed to write {}", file.display()))
    }
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Running {
            coordinator, page, ..
        } = self;
        let first = self.proxies.first().map(|proxy| proxy.address.to_string());
        let proxy = first.unwrap_or_default();
        writeln!(f, "evenkeel up listening on {proxy}")?;
        writeln!(f, "coordinator {coordinator}")?;
        for place in self.servers.iter().chain(self.proxies.iter().skip(1)) {
            writeln!(f, "{} {} (pid {})", place.name, place.address, place.pid)?;
        }
        write!(
            f,
            "Point any memcached client at {proxy}.
See what the cluster does at {page}.
Try in another terminal:
  export EVENKEEL_COORDINATOR={coordinator}
  evenkeel bench run --target {proxy} --duration 60s --rate 5000
  evenkeel top
  evenkeel explain --proxy {proxy} key:1
  evenkeel drain server-1
Ctrl-C stops everything."
        )
    }
}
