//! `evenkeel up`: a whole cluster on one machine, as processes of this same binary on loopback.
//!
//! ```text
//!   up ──starts, watches, restarts──> coordinator, server-1 … server-n, proxies
//!   up --demo ──load (a thread)──> proxy        ──stats──> servers        ──settings──> coordinator
//!   up --adaptive ──loads (threads)──> 2 proxies ──> relays with a service time ──> memcacheds
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
mod running;

pub use args::Args;

use cluster::Cluster;
use evenkeel_runtime::print_line;
use processes::Outcome;
use running::Running;
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
        let running = Running::of(&cluster)?;
        if let Some(file) = &args.addresses {
            running.write(file)?;
        }
        print_line(&running.to_string())?;
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
