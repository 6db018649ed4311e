//! Other people's programs, as they are started to be measured, and ours where it takes their place.

use crate::process::{Server, free_port};
use anyhow::Context;
use evenkeel_launch::Launch;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Where servers listen, as their proxies are told.
pub(crate) fn addresses(servers: &[Server]) -> Vec<String> {
    let addresses = servers.iter().map(|server| server.address.to_string());
    addresses.collect()
}

/// Redis as a cache: nothing on disk, one thread, the least recently used goes when memory is short.
pub(crate) fn redis(program: &Path, memory_mb: &str, cores: &[usize]) -> anyhow::Result<Server> {
    let port = free_port()?;
    let mut launch = Launch::new(program.display().to_string(), program);
    launch
        .command
        .args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
        ])
        .args(["--appendonly", "no", "--maxmemory-policy", "allkeys-lru"])
        .args(["--maxmemory", &format!("{memory_mb}mb")]);
    Server::at_port(launch, port, cores)
}

/// twemproxy in front of servers, which places keys by ketama.
pub(crate) fn twemproxy(
    program: &Path,
    servers: &[Server],
    cores: &[usize],
) -> anyhow::Result<Server> {
    let (port, stats) = (free_port()?, free_port()?);
    // Read once, at the start.
    let files = TempDir::new().context("making a temporary folder")?;
    let config = files.path().join("nutcracker.yml");
    fs::write(&config, twemproxy_config(port, &addresses(servers)))?;
    let mut launch = Launch::new(program.display().to_string(), program);
    launch.command.arg("-c").arg(&config);
    launch
        .command
        .args(["-a", "127.0.0.1", "-s", &stats.to_string()]);
    Server::at_port(launch, port, cores)
}

/// Evenkeel's proxy in front of servers. It places keys as twemproxy does, so that what their hash costs is the
/// same for both, and has its timeout.
pub(crate) fn like_twemproxy(
    connections: usize,
    servers: &[Server],
    cores: &[usize],
) -> anyhow::Result<Server> {
    let servers = addresses(servers).join(",");
    let mut pool = vec!["--distribution", "twemproxy_ketama", "-s", &servers];
    // What is measured is how fast it is, and not whom it refuses.
    pool.extend(["--connect-timeout", "60s", "--request-timeout", "60s"]);
    Server::evenkeel_proxy(connections, &pool, cores)
}

/// All servers as one pool, with the settings of its own documentation's first example.
fn twemproxy_config(port: u16, servers: &[String]) -> String {
    let servers: String = servers
        .iter()
        .map(|server| format!("   - {server}:1\n"))
        .collect();
    format!(
        "pool:\n  listen: 127.0.0.1:{port}\n  hash: fnv1a_64\n  distribution: ketama\n  \
         timeout: 60000\n  preconnect: true\n  auto_eject_hosts: false\n  servers:\n{servers}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_names_every_server() {
        let servers = ["127.0.0.1:1".to_owned(), "127.0.0.1:2".to_owned()];
        let yaml = twemproxy_config(3, &servers);
        assert!(yaml.contains("listen: 127.0.0.1:3\n"), "{yaml}");
        let listed = "servers:\n   - 127.0.0.1:1:1\n   - 127.0.0.1:2:1\n";
        assert!(yaml.ends_with(listed), "{yaml}");
    }
}
