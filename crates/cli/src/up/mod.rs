//! `evenkeel up`: a whole cluster on one machine, as processes of this same binary on loopback.
//!
//! ```text
//!   up ──starts, watches, restarts──> coordinator, proxy, server-1 … server-n
//!   up --demo ──load (a thread)──> proxy        ──stats──> servers        ──settings──> coordinator
//!   up --adaptive ──loads (threads)──> 2 proxies ──> relays with a toll ──> memcacheds
//!                 └──looks──> coordinator, which leads the ring of the proxies' pool
//! ```

mod adaptive;
mod args;
mod cluster;
mod demo;
mod lines;
mod member;
mod page;
mod processes;

pub use args::Args;

use cluster::Cluster;
use processes::Outcome;
use std::io::Write;
use std::time::{Duration, Instant};

/// How long a quiet cluster is left alone before its notices are printed.
const NOTICE_INTERVAL: Duration = Duration::from_millis(250);

/// Runs the cluster until SIGTERM or SIGINT, or the demo to its end.
///
/// # Errors
/// [`UsageError`](evenkeel_runtime::UsageError) when a flag, a trace or an address cannot be used; others when the cluster does
/// not start or the demo fails.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.check()?;
    if args.adaptive {
        return adaptive::run(args);
    }
    if args.demo {
        return demo::run(args);
    }
    let mut cluster = Cluster::prepare(args)?;
    if cluster.start(args)? == Outcome::Done {
        announce(&cluster)?;
        if args.open {
            page::open(&page::url(&cluster.processes)?);
        }
        loop {
            let outcome = cluster.processes.tend(Instant::now() + NOTICE_INTERVAL);
            for notice in cluster.processes.take_notices() {
                eprintln!("evenkeel up: {notice}");
            }
            if outcome == Outcome::Stopped {
                break;
            }
        }
    }
    cluster.processes.stop();
    Ok(())
}

/// The ready line, then who is where.
fn announce(cluster: &Cluster) -> anyhow::Result<()> {
    let proxy = cluster.proxy_address()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "evenkeel up listening on {proxy}")?;
    writeln!(
        out,
        "coordinator http://{}",
        cluster.processes.coordinator_address()?
    )?;
    for server in cluster.servers() {
        if let (Some(address), Some(pid)) = (server.address(), server.pid()) {
            writeln!(out, "{} {address} (pid {pid})", server.name())?;
        }
    }
    writeln!(
        out,
        "Point any memcached client at {proxy}. See what the cluster does at {}. Ctrl-C stops everything.",
        page::url(&cluster.processes)?
    )?;
    out.flush()?;
    Ok(())
}
