//! `evenkeel bench suite-proxy`: Evenkeel's proxy beside memcached's own and twemproxy, each on one
//! core, with two servers behind them that share the other cores with the generator.
//!
//! What counts is the proxy's processor time for a request: servers and generator, not the proxy, are
//! what limits the throughput here. Each proxy places keys in its own way, so the keys are set through
//! each of them. Latencies are those at half of what the better peer reaches, less those of the servers
//! themselves.

use super::goal::{Goal, Unit};
use super::ground::{Ground, GroundArgs, MEMORY_MB, Measured, all_hits};
use super::memory::idle_row;
use super::peer::Peer;
use super::report::{Compared, PeerReport, RowReport, SuiteReport};
use super::rows::{PROXY_LOADS, ProxyLoad};
use super::{finish_or_note, finish_row, show};
use crate::beside::with_cpu_us;
use crate::peers::{addresses, like_twemproxy, twemproxy};
use crate::process::{Refused, Server, memcached_version};
use anyhow::{Context, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Servers behind each proxy.
const SERVERS: usize = 2;

/// Who is to be beaten.
const OTHERS: &[Peer] = &[Peer::BuiltinProxy, Peer::Twemproxy];

/// Measures Evenkeel's proxy beside memcached's own and twemproxy, and prints what was asked of it
/// beside what it reaches.
#[derive(Clone, Debug, clap::Args)]
pub struct ProxySuiteArgs {
    /// A memcached, best one that was built with its proxy; it also serves behind all proxies
    #[arg(long, value_name = "PROGRAM")]
    pub memcached: PathBuf,

    /// twemproxy
    #[arg(long, value_name = "PROGRAM", default_value = "nutcracker")]
    pub twemproxy: PathBuf,

    /// Where and how.
    #[command(flatten)]
    pub ground: GroundArgs,
}

/// Runs the suite, prints the table, writes the JSON; returns the exit code: 0 measured (whether or
/// not the goals were met), 1 failed or wrong values seen, 2 bad usage.
pub fn execute_proxy_suite(args: &ProxySuiteArgs) -> u8 {
    show(&args.ground, "suite-proxy", || run_proxy_suite(args))
}

/// Measures everything that was asked for.
///
/// # Errors
/// [`BadUsage`](crate::BadUsage) when the arguments make no sense; others when a proxy cannot be
/// started, fails, or answers a value that is wrong.
pub fn run_proxy_suite(args: &ProxySuiteArgs) -> anyhow::Result<SuiteReport> {
    let mut suite = ProxySuite::new(args)?;
    let mut rows = Vec::new();
    for load in &PROXY_LOADS {
        if suite.ground.wants(load.id) {
            finish_row(&mut rows, suite.load(load)?);
        }
    }
    suite.latency(&mut rows)?;
    suite.idle_connections(&mut rows)?;
    Ok(SuiteReport::new(
        suite.names,
        suite.ground.settings()?,
        rows,
        suite.notes,
        Compared::PROXIES,
    ))
}

/// The proxies, and what is behind them.
struct ProxySuite {
    ground: Ground,
    // Before the servers, so that they go first.
    proxies: Vec<(Peer, Server)>,
    servers: Vec<Server>,
    args: ProxySuiteArgs,
    names: Vec<PeerReport>,
    notes: Vec<String>,
}

impl ProxySuite {
    fn new(args: &ProxySuiteArgs) -> anyhow::Result<Self> {
        let ground = Ground::new(&args.ground)?;
        let servers = (0..SERVERS)
            .map(|_| {
                let arguments = ["-t", "1", "-m", MEMORY_MB, "-c", "4096"];
                Server::memcached(&args.memcached, &arguments, &ground.generator_cores)
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut suite = ProxySuite {
            ground,
            proxies: Vec::new(),
            servers,
            args: args.clone(),
            names: Vec::new(),
            notes: Vec::new(),
        };
        for peer in [Peer::BuiltinProxy, Peer::Twemproxy, Peer::EvenkeelProxy] {
            let proxy = match suite.start(peer, CONNECTIONS_DEFAULT) {
                Ok(proxy) => proxy,
                // Most packages of memcached are built without it.
                Err(error) if peer == Peer::BuiltinProxy => {
                    let refused = error.downcast::<Refused>()?;
                    let note = format!("{} was not measured: {}", peer.short(), refused.told);
                    suite.notes.push(note);
                    continue;
                }
                Err(error) => return Err(error),
            };
            suite.ground.fill_all(&proxy)?;
            suite.ground.check(&proxy, peer, protocols(peer))?;
            let name = name(peer, args)?;
            suite.names.push(PeerReport { id: peer, name });
            suite.proxies.push((peer, proxy));
        }
        Ok(suite)
    }

    /// Starts a proxy before the servers, on the proxies' core, for this many connections.
    fn start(&self, peer: Peer, connections: usize) -> anyhow::Result<Server> {
        let cores = [self.ground.server_core];
        let servers = addresses(&self.servers);
        let limit = connections.to_string();
        // For files that are read once, at the start.
        let files = TempDir::new().context("making a temporary folder")?;
        match peer {
            Peer::BuiltinProxy => {
                let config = files.path().join("proxy.lua");
                fs::write(&config, builtin_config(&servers))?;
                let option = format!("proxy_config={}", config.display());
                let arguments = ["-t", "1", "-m", "64", "-c", &limit, "-o", &option];
                Server::memcached(&self.args.memcached, &arguments, &cores)
            }
            Peer::Twemproxy => twemproxy(&self.args.twemproxy, &self.servers, &cores),
            _ => like_twemproxy(connections, &self.servers, &cores),
        }
    }

    /// The proxies' processor time under a load.
    fn load(&self, load: &ProxyLoad) -> anyhow::Result<RowReport> {
        let (ground, traffic) = (&self.ground, &load.traffic);
        let prepared = ground.prepared(traffic, &ground.generator_cores)?;
        let [results] = ground.in_turns(load.id, &self.proxies, |proxy, time| {
            let on_proxy = prepared.on(proxy.address.into()).lasting(time);
            let (done, cpu_us) = with_cpu_us([proxy], || all_hits(&on_proxy))?;
            let keys = done.counters.requests * traffic.multiget as u64;
            Ok(Measured {
                figures: [cpu_us / keys as f64],
                cpu_us: None,
                generator_share: Some(done.generator_cpu_share),
            })
        })?;
        let unit = if traffic.multiget > 1 {
            "key"
        } else {
            "request"
        };
        let what = format!("{}, proxy's CPU per {unit}", traffic.what_and_how());
        let goal = Goal::TimesBest(Peer::EvenkeelProxy, OTHERS, 1.0 / load.share_max);
        Ok(RowReport::new(
            load.id,
            what,
            Unit::Microseconds,
            results,
            &[goal],
        ))
    }

    /// What the proxies add to the servers' latencies at half load.
    fn latency(&self, rows: &mut Vec<RowReport>) -> anyhow::Result<()> {
        const IDS: [&str; 2] = ["proxy_added_latency_p50", "proxy_added_latency_p99"];
        if !IDS.iter().any(|id| self.ground.wants(id)) {
            return Ok(());
        }
        let rate = self.better_maximum()? / 2.0;
        // Each beside the servers themselves, of the same round.
        let found = self.ground.in_turns(IDS[0], &self.proxies, |proxy, time| {
            let [direct, through] =
                [&self.servers[0], proxy].map(|server| self.ground.at_rate(server, rate, time));
            let (direct, through) = (direct?.latency, through?.latency);
            Ok(Measured {
                figures: [
                    through.latency_us_p50 - direct.latency_us_p50,
                    through.latency_us_p99 - direct.latency_us_p99,
                ],
                cpu_us: None,
                generator_share: None,
            })
        })?;
        for ((share, results), id) in ["p50", "p99"].into_iter().zip(found).zip(IDS) {
            let what = format!(
                "GET, {} that the proxy adds at {:.0} k requests/s, half of the better peer's maximum",
                share,
                rate / 1000.0
            );
            let goal = Goal::TimesBest(Peer::EvenkeelProxy, OTHERS, 1.0);
            let row = RowReport::new(id, what, Unit::Microseconds, results, &[goal]);
            finish_row(rows, row);
        }
        Ok(())
    }

    /// Unpipelined gets a second of the better of the other proxies.
    fn better_maximum(&self) -> anyhow::Result<f64> {
        let proxies = self.proxies.iter();
        let others = proxies.filter(|(peer, _)| OTHERS.contains(peer));
        let mut maxima = others.map(|(_, proxy)| self.ground.maximum(proxy));
        maxima.try_fold(0.0, |best: f64, maximum| Ok(best.max(maximum?)))
    }

    /// What connections of applications cost that are idle.
    fn idle_connections(&mut self, rows: &mut Vec<RowReport>) -> anyhow::Result<()> {
        let peers: Vec<Peer> = self.proxies.iter().map(|(peer, _)| *peer).collect();
        let start = |peer, limit| self.start(peer, limit);
        let row = idle_row(&self.ground, "proxy_idle_connection", &peers, start)?;
        finish_or_note(rows, &mut self.notes, row);
        Ok(())
    }
}

/// Connections that a proxy takes where the number is not what is measured.
const CONNECTIONS_DEFAULT: usize = 1024;

/// All servers as one pool, by its own hash and distribution.
fn builtin_config(servers: &[String]) -> String {
    let mut backends = String::new();
    for (index, server) in servers.iter().enumerate() {
        let (host, port) = server.rsplit_once(':').expect("an address has a port");
        backends += &format!("mcp.backend('b{index}', '{host}', {port}), ");
    }
    format!(
        "function mcp_config_pools() return mcp.pool({{ {backends} }}) end\n\
         function mcp_config_routes(pool)\n\
           local all = mcp.funcgen_new()\n\
           local handle = all:new_handle(pool)\n\
           all:ready({{ n = 'all', f = function(context)\n\
             return function(request) return context:enqueue_and_wait(request, handle) end\n\
           end }})\n\
           mcp.attach(mcp.CMD_ANY_STORAGE, all)\n\
         end\n"
    )
}

fn twemproxy_version(program: &Path) -> anyhow::Result<String> {
    let output = Command::new(program)
        .arg("-V")
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    // It says so on standard error.
    let told = String::from_utf8_lossy(&output.stderr);
    let told = told.lines().next().unwrap_or_default();
    let version = told.rsplit('-').next().unwrap_or_default();
    ensure!(!version.is_empty(), "no version in the answer to -V");
    Ok(format!("twemproxy {version}"))
}

fn name(peer: Peer, args: &ProxySuiteArgs) -> anyhow::Result<String> {
    Ok(match peer {
        Peer::BuiltinProxy => {
            let version = memcached_version(&args.memcached)?;
            format!("memcached {version} -t 1, proxy_config")
        }
        Peer::Twemproxy => twemproxy_version(&args.twemproxy)?,
        _ => format!("evenkeel {} proxy -t 1", env!("CARGO_PKG_VERSION")),
    })
}

/// What a proxy speaks.
fn protocols(peer: Peer) -> &'static [crate::Protocol] {
    match peer {
        Peer::Twemproxy => &[crate::Protocol::Classic],
        _ => &[crate::Protocol::Classic, crate::Protocol::Meta],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_name_every_server() {
        let servers = ["127.0.0.1:1".to_owned(), "127.0.0.1:2".to_owned()];
        let lua = builtin_config(&servers);
        assert!(lua.contains("mcp.backend('b1', '127.0.0.1', 2)"), "{lua}");
    }
}
