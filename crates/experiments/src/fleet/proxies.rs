//! How the proxies of a fleet are started, and started again.

use super::plan::{FleetPlan, Pool};
use anyhow::Context;
use evenkeel_bench::process::Server;
use std::fs;
use std::net::SocketAddr;
use tempfile::TempDir;

/// Where the first life of a proxy listens.
const ANYWHERE: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// What each proxy is told.
#[derive(Debug)]
pub(super) struct ProxyPlan {
    connections: usize,
    arguments: Vec<String>,
    /// Servers of a pool that only a file can tell of, and where the file is.
    listed: Option<(Vec<SocketAddr>, TempDir)>,
}

impl ProxyPlan {
    pub fn new(
        plan: &FleetPlan,
        servers: Vec<SocketAddr>,
        coordinator: Option<&str>,
    ) -> anyhow::Result<ProxyPlan> {
        let mut arguments = plan.proxy_flags.clone();
        let mut more = |words: &[&str]| arguments.extend(words.iter().map(|&word| word.to_owned()));
        let mut listed = None;
        match (plan.pool, coordinator) {
            (Pool::Plain { distribution }, _) => {
                let servers: Vec<_> = servers.iter().map(SocketAddr::to_string).collect();
                more(&["-s", &servers.join(","), "--distribution", distribution]);
            }
            (Pool::PlainHotKeys, _) => {
                let folder = TempDir::new().context("making a folder for the proxies' file")?;
                listed = Some((servers, folder));
            }
            (Pool::Cluster { .. }, Some(address)) => more(&["--coordinator", address]),
            (Pool::Cluster { .. }, None) => unreachable!("a cluster has a coordinator"),
        }
        Ok(ProxyPlan {
            connections: plan.connections,
            arguments,
            listed,
        })
    }

    /// Starts one that listens there, or anywhere.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(&self, listen: Option<SocketAddr>, cores: &[usize]) -> anyhow::Result<Server> {
        let listen = listen.unwrap_or(ANYWHERE.into()).to_string();
        let connections = self.connections.to_string();
        let mut arguments = vec!["proxy"];
        arguments.extend(self.arguments.iter().map(String::as_str));
        match &self.listed {
            None => {
                arguments.extend(["-l", &listen, "-t", "1", "-c", &connections]);
                Server::evenkeel(&arguments, cores)
            }
            Some((servers, folder)) => {
                let path = folder.path().join("proxy.toml");
                let servers: Vec<_> = servers
                    .iter()
                    .map(|server| format!("\"{server}\""))
                    .collect();
                let text = format!(
                    "[proxy]\nlisten = \"{listen}\"\nthreads = 1\nconn_limit = {connections}\n\
                     [pools.main]\nservers = [{}]\nhot_keys = \"on\"\n[[routes]]\npool = \"main\"\n",
                    servers.join(", ")
                );
                fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
                arguments.extend(["--config", path.to_str().context("an odd folder")?]);
                Server::evenkeel(&arguments, cores)
            }
        }
    }
}
