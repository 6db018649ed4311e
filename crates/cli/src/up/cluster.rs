//! What `evenkeel up` starts: a coordinator, servers and proxies.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use evenkeel_coordinator_core::Mode;
use evenkeel_launch::Signal;
use serde_json::json;

use super::args::Args;
use super::member::{Member, Plan};
use super::processes::{Outcome, Processes, START_DEADLINE, words};

/// How long the proxy may take over one answer while it is asked whether it serves.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Keys of each worker, on average, that the proxy is asked for before it counts as serving: enough
/// that no worker is left out by chance.
const PROBE_KEYS_PER_WORKER: usize = 32;

/// Most keys that the proxy is asked for at once; requests and answers fit into socket buffers.
const PROBE_KEYS_MAX: usize = 1024;

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    /// The coordinator, the servers, the proxies.
    pub processes: Processes,
}

const FIRST_SERVER: usize = 1;

impl Cluster {
    /// Prepares everything that needs no process. From here on signals stop the cluster.
    ///
    /// # Errors
    /// As [`Processes::prepare`].
    pub fn prepare(args: &Args) -> anyhow::Result<Cluster> {
        let servers = args.servers.to_string();
        let flags = ["--initial-servers", &servers];
        let processes = Processes::prepare(args.coordinator_listen, &flags)?;
        Ok(Cluster { processes })
    }

    /// Starts all processes, and returns when the proxy serves the keys of all servers.
    ///
    /// # Errors
    /// As [`Processes::wait_ready`].
    pub fn start(&mut self, args: &Args) -> anyhow::Result<Outcome> {
        let start = self.start_all(args);
        self.processes.started(start)
    }

    fn start_all(&mut self, args: &Args) -> anyhow::Result<()> {
        let end = Instant::now() + START_DEADLINE;
        self.processes.start_coordinator(end)?;
        self.set_balancing(args.balancing())?;
        let api = self.processes.api()?;
        api.change_settings(&json!({"lease_ms": args.lease_ms}))?;
        let url = format!("http://{}", self.processes.coordinator_address()?);
        let (workers, memory) = (args.threads.to_string(), args.memory_limit.to_string());
        for number in 1..=args.servers {
            let name = format!("server-{number}");
            let mut arguments = words(&["--name", &name, "--coordinator", &url]);
            // All of them end together: there is nobody to hand over to.
            arguments.extend(words(&[
                "-t",
                &workers,
                "-m",
                &memory,
                "--drain-timeout",
                "0",
            ]));
            arguments.extend(args.server_arguments());
            self.processes.start(Plan {
                name,
                role: "server",
                arguments,
                listen: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0),
            })?;
        }
        let proxies = FIRST_SERVER + args.servers;
        self.processes.wait_ready(FIRST_SERVER..proxies, end)?;
        let placed = |_: &Processes| api.all_work_by_the_map(args.servers);
        self.processes
            .wait_until(end, "a map that all servers work by", placed)?;
        let file = self.proxy_file().display().to_string();
        let connections = args.connections().to_string();
        for number in 1..=args.proxies {
            let free = SocketAddr::new(args.listen.ip(), 0);
            let (name, listen) = match number {
                1 => ("proxy".to_owned(), args.listen),
                _ => (format!("proxy-{number}"), free),
            };
            let mut arguments = words(&["--config", &file, "-c", &connections]);
            arguments.extend(args.proxy_arg.iter().cloned());
            self.processes.start(Plan {
                name,
                role: "proxy",
                arguments,
                listen,
            })?;
        }
        let members = proxies..proxies + usize::from(args.proxies);
        self.processes.wait_ready(members, end)?;
        let keys = PROBE_KEYS_PER_WORKER * args.servers * usize::from(args.threads);
        let keys = keys.min(PROBE_KEYS_MAX);
        for proxy in self
            .proxies()
            .filter_map(Member::address)
            .collect::<Vec<_>>()
        {
            self.processes
                .wait_until(end, "an answer of each proxy", |_| serves(proxy, keys))?;
        }
        Ok(())
    }

    /// Has hot keys replicated and identical gets collapsed, or neither: then each request for a key goes to its one server, as with
    /// memcached.
    ///
    /// # Errors
    /// When the coordinator does not answer, or the proxy's configuration cannot be written. It can be tried again.
    pub fn set_balancing(&mut self, mode: Mode) -> anyhow::Result<()> {
        let coordinator = self.processes.coordinator_address()?;
        let file = self.proxy_file();
        let pool = format!(
            "[pools.default]\ncoordinator = \"{coordinator}\"\ncollapse = {}\n",
            mode == Mode::On
        );
        std::fs::write(&file, pool)
            .with_context(|| format!("failed to write {}", file.display()))?;
        for proxy in self.proxies() {
            proxy.signal(Signal::HUP);
        }
        let api = self.processes.api()?;
        api.change_settings(&json!({"hot_keys": mode}))?;
        Ok(())
    }

    fn proxy_file(&self) -> PathBuf {
        self.processes.files().join("proxy.toml")
    }

    /// The proxies.
    pub fn proxies(&self) -> impl Iterator<Item = &Member> {
        self.processes.with_role("proxy")
    }

    /// Where the first proxy listens.
    ///
    /// # Errors
    /// When it has never started.
    pub fn proxy_address(&self) -> anyhow::Result<SocketAddr> {
        let mut addresses = self.proxies().filter_map(Member::address);
        addresses.next().context("the proxy has not started")
    }

    /// The servers that have listened at least once.
    pub fn servers(&self) -> impl Iterator<Item = &Member> {
        let servers = self.processes.with_role("server");
        servers.filter(|server| server.address().is_some())
    }
}

/// Whether the homes of `keys` keys answer through the proxy. They are asked to delete what is not
/// there, which leaves no trace; a read might be answered in place of a server that is not ready.
fn serves(proxy: SocketAddr, keys: usize) -> bool {
    let ask = || -> std::io::Result<bool> {
        let stream = TcpStream::connect_timeout(&proxy, PROBE_TIMEOUT)?;
        stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
        stream.set_write_timeout(Some(PROBE_TIMEOUT))?;
        let mut requests = Vec::new();
        for number in 0..keys {
            write!(requests, "delete evenkeel:ready:{number}\r\n")?;
        }
        (&stream).write_all(&requests)?;
        let mut answers = BufReader::new(stream).lines();
        for _ in 0..keys {
            if answers.next().transpose()?.as_deref() != Some("NOT_FOUND") {
                return Ok(false);
            }
        }
        Ok(true)
    };
    ask().unwrap_or(false)
}
