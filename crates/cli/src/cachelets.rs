//! `evenkeel cachelets`: where the load is, as the coordinator was told, and what is quarantined.

use crate::ask::{self, CoordinatorArgs, Format};
use clap::ValueEnum;
use evenkeel_coordinator_core::{ClusterLoadsView, LoadOrder};
use evenkeel_types::CacheletId;

/// Shows how loaded servers, workers and cachelets are.
///
/// Loads are in small requests per second: a request counts one more for each 4,096 bytes of its value.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The coordinator to ask
    #[command(flatten)]
    pub coordinator: CoordinatorArgs,

    /// In which order workers and cachelets are shown
    #[arg(long, value_enum, default_value_t = Sort::Load)]
    pub sort: Sort,

    /// How many workers and how many cachelets at most
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub limit: usize,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table, global = true)]
    pub format: Format,

    /// What to do; without it, show them
    #[command(subcommand)]
    pub command: Option<What>,
}

/// What to do.
#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub enum What {
    /// Lets a cachelet have an owner again that was quarantined because its owners died one after the other
    Release {
        /// Which
        cachelet: u16,
    },
}

/// An order of workers and cachelets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// The most loaded first
    Load,
    /// By server, worker, cachelet
    Place,
}

/// Asks once and prints the answer.
///
/// # Errors
/// When the address is none, or the coordinator does not answer.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let client = args.coordinator.client()?;
    if let Some(What::Release { cachelet }) = args.command {
        let released = client.release_cachelet(CacheletId(cachelet))?;
        return args.format.print_done(&released, |_| {
            format!("cachelet {cachelet} is given to a server again")
        });
    }
    let order = match args.sort {
        Sort::Load => LoadOrder::Load,
        Sort::Place => LoadOrder::Place,
    };
    args.format
        .print(&client.cachelets(order, args.limit)?, table)
}

/// Three tables, one below the other, and a fourth where something is quarantined.
fn table(view: &ClusterLoadsView) -> String {
    let servers = view.servers.iter().map(|server| {
        let told = match (&server.unusable, server.age_ms) {
            (Some(why), _) => format!("unusable: {why}"),
            (None, Some(age_ms)) => format!("{:.1} s ago", age_ms as f64 / 1000.0),
            (None, None) => "nothing".to_owned(),
        };
        [
            server.server.clone(),
            whole(server.load),
            mib(server.memory_bytes),
            mib(server.memory_limit_bytes),
            told,
        ]
    });
    let servers = ask::table("server|load|memory|limit|told", servers);
    let workers = view.workers.iter().map(|worker| {
        [
            format!("{}/{}", worker.server, worker.worker),
            whole(worker.load),
            whole(worker.replica_load),
            whole(worker.diverted_load),
            percent(worker.busy),
            mib(worker.memory_bytes),
            worker.cachelets.to_string(),
            worker.left_out.to_string(),
        ]
    });
    let heads = "worker|load|replicas|diverted|busy|memory|cachelets|untold";
    let workers = ask::table(heads, workers);
    let cachelets = view.cachelets.iter().map(|load| {
        [
            load.cachelet.to_string(),
            format!("{}/{}", load.server, load.worker),
            format!("{}/{}", load.server, load.home_worker),
            whole(load.load),
            whole(load.reads_per_s),
            whole(load.hits_per_s),
            whole(load.writes_per_s),
            whole(load.bytes_in_per_s / 1000.0),
            whole(load.bytes_out_per_s / 1000.0),
            percent(load.busy),
            mib(load.memory_bytes),
            load.items.to_string(),
        ]
    });
    let heads = "cachelet|at|home|load|reads/s|hits/s|writes/s|in KB/s|out KB/s|busy|memory|items";
    let cachelets = ask::table(heads, cachelets);
    let text = format!(
        "map {}\n\n{servers}\n\n{workers}\n\n{cachelets}",
        view.epoch
    );
    if view.quarantined.is_empty() {
        return text;
    }
    let quarantined = view.quarantined.iter();
    let quarantined = quarantined.map(|one| [one.cachelet.to_string(), one.servers.join(", ")]);
    let quarantined = ask::table("quarantined|owners that died", quarantined);
    format!("{text}\n\n{quarantined}")
}

pub(crate) fn whole(number: f64) -> String {
    format!("{number:.0}")
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
