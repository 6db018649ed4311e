//! `evenkeel up`: a whole cluster on one machine, as processes of this same binary on loopback.
//!
//! ```text
//!   up ──starts, watches, restarts──> coordinator, proxy, server-1 … server-n
//!   up --demo ──load (a thread)──> proxy        ──stats──> servers        ──settings──> coordinator
//! ```

mod cluster;
mod demo;
mod member;

use cluster::{Cluster, ClusterPlan, Outcome};
use demo::DemoArgs;
use evenkeel_coordinator::api::Mode;
use evenkeel_runtime::UsageError;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Most servers of one machine's cluster.
const SERVERS_MAX: usize = 64;

/// What a worker of the demo serves in a second: it sleeps for a millisecond for each key. So a few servers, and a load that overloads
/// one of them, have room on a small machine.
const DEMO_WORKER_RPS: u32 = 1000;
/// The demo's load, as a part of what its servers can do together.
const DEMO_LOAD: f64 = 0.7;
const DEMO_TOLL: &str = "--test-toll=1000000";
const TOLL_FLAG: &str = "--test-toll";

/// Connections that the proxy has room for besides those of the demo's load: memcached's default.
const CONNECTIONS: usize = 1024;

/// How long a quiet cluster is left alone before its notices are printed.
const NOTICE_INTERVAL: Duration = Duration::from_millis(250);

/// Starts a coordinator, servers and a proxy on this machine; Ctrl-C stops everything.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Servers [default: 4, with --demo 6]
    #[arg(
        long,
        default_value = "4",
        default_value_if("demo", "true", "6"),
        hide_default_value = true,
        value_name = "N"
    )]
    pub servers: usize,

    /// Workers (threads) of each server [default: 2, with --demo 1]
    #[arg(
        short = 't',
        long,
        default_value = "2",
        default_value_if("demo", "true", "1"),
        hide_default_value = true,
        value_name = "N"
    )]
    pub threads: u16,

    /// Memory of each server, in megabytes
    #[arg(short = 'm', long, default_value_t = 64, value_name = "MEGABYTES")]
    pub memory_limit: usize,

    /// How long a client may read a replica before it asks the home again: the bound of staleness,
    /// in milliseconds
    #[arg(long, default_value_t = 1000, value_name = "MS")]
    pub lease_ms: u32,

    /// Address of the proxy; port 0 takes a free one
    #[arg(short = 'l', long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub listen: SocketAddr,

    /// Address of the coordinator; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub coordinator_listen: SocketAddr,

    /// One more flag for every server, such as --server-arg=--gamma-max=2; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub server_arg: Vec<String>,

    /// Drive a skewed workload, first as through memcached, then with balancing, and compare. The servers are small: each worker serves
    /// 1,000 keys a second (--server-arg=--test-toll=0 for as many as it can)
    #[arg(long)]
    pub demo: bool,

    #[command(flatten)]
    pub of_demo: DemoArgs,
}

impl Args {
    /// What servers are told besides what every cluster needs.
    fn server_arguments(&self) -> Vec<String> {
        let mut arguments = self.server_arg.clone();
        let is_said = |argument: &String| argument.starts_with(TOLL_FLAG);
        if self.demo && !arguments.iter().any(is_said) {
            arguments.push(DEMO_TOLL.to_owned());
        }
        arguments
    }

    /// Requests a second of the demo's load.
    fn demo_rate(&self) -> f64 {
        let workers = self.servers as f64 * f64::from(self.threads);
        let rate = workers * f64::from(DEMO_WORKER_RPS) * DEMO_LOAD;
        self.of_demo.rate.unwrap_or(rate)
    }

    fn plan(&self) -> Result<ClusterPlan, UsageError> {
        if !(1..=SERVERS_MAX).contains(&self.servers) {
            return Err(UsageError(format!(
                "--servers {}: use 1 to {SERVERS_MAX}",
                self.servers
            )));
        }
        Ok(ClusterPlan {
            servers: self.servers,
            workers: self.threads,
            memory_mb: self.memory_limit,
            lease_ms: self.lease_ms,
            listen: self.listen,
            coordinator_listen: self.coordinator_listen,
            connections: CONNECTIONS
                + if self.demo {
                    self.of_demo.connections
                } else {
                    0
                },
            server_arguments: self.server_arguments(),
            balancing: if self.demo { Mode::Off } else { Mode::On },
        })
    }
}

/// Runs the cluster until SIGTERM or SIGINT, or the demo to its end.
///
/// # Errors
/// [`UsageError`] when a flag, a trace or an address cannot be used; others when the cluster does
/// not start or the demo fails.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let plan = args.plan()?;
    if args.demo {
        return demo::run(args, &plan);
    }
    let mut cluster = Cluster::prepare(&plan)?;
    if cluster.start(&plan)? == Outcome::Done {
        announce(&cluster)?;
        loop {
            let outcome = cluster.tend(Instant::now() + NOTICE_INTERVAL);
            for notice in cluster.take_notices() {
                eprintln!("evenkeel up: {notice}");
            }
            if outcome == Outcome::Stopped {
                break;
            }
        }
    }
    cluster.stop();
    Ok(())
}

/// The ready line, then who is where.
fn announce(cluster: &Cluster) -> anyhow::Result<()> {
    let proxy = cluster.proxy_address()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "evenkeel up listening on {proxy}")?;
    writeln!(out, "coordinator http://{}", cluster.coordinator_address()?)?;
    for server in cluster.servers() {
        if let (Some(address), Some(pid)) = (server.address(), server.pid()) {
            writeln!(out, "{} {address} (pid {pid})", server.name())?;
        }
    }
    writeln!(
        out,
        "Point any memcached client at {proxy}. Ctrl-C stops everything."
    )?;
    out.flush()?;
    Ok(())
}
