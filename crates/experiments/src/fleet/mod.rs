//! Many small servers on one machine, real processes all of them, and the proxies before them.
//!
//! ```text
//!  generator ──> proxies ──> servers, each with a service time for its keys
//!                   └────── coordinator: the map, hot keys on or off
//! ```
//!
//! What makes a server small is its *service time*, a time that it spends on each key besides what serving it
//! takes; see [`Smallness`]. Reports say what it was.

mod change;
mod load;
mod phases;
mod plan;
mod proxies;
mod watch;

pub(crate) use load::look;
pub use load::{LoadSpec, LoadedFleet, PIPELINE};
pub use phases::BalancingCounts;
pub use plan::{FleetPlan, Pool, Smallness};
pub use watch::Watched;

use anyhow::{Context, ensure};
use evenkeel_bench::Target;
use evenkeel_bench::process::{Server, Stats, allowed_cores, free_port};
use evenkeel_coordinator_core::plans::PlanMode;
use evenkeel_coordinator_core::{LoadOrder, Mode as HotKeysMode, WorkerLoadView};
use evenkeel_member::client::ApiClient;
use proxies::ProxyPlan;
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest wait for the servers to work by one map, and the distance of looks.
const READY_DEADLINE: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Most servers: what a machine has room for, and the coordinator for their heartbeats.
pub const SERVERS_MAX: usize = 64;

/// A running fleet. Dropping it ends all processes.
#[derive(Debug)]
pub struct Fleet {
    // In the order in which they should go.
    proxies: Vec<Server>,
    proxy_plan: ProxyPlan,
    servers: Vec<Small>,
    cluster: Option<Cluster>,
    plan: FleetPlan,
    /// Servers that were ever started, by which the next gets its name.
    names_given: usize,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // Servers that were asked to end would hand over to each other what nobody needs any more.
        let servers = self.servers.iter_mut().map(|small| &mut small.server);
        self.proxies
            .iter_mut()
            .chain(servers)
            .for_each(Server::kill);
    }
}

/// What servers of a cluster have in common.
#[derive(Debug)]
struct Cluster {
    api: ApiClient,
    /// Where it listens, in all of its lives.
    address: SocketAddr,
    /// None while it is away.
    coordinator: Option<Server>,
    /// How it is started.
    arguments: Vec<String>,
    /// Keeps its state.
    _folder: TempDir,
}

/// A server.
#[derive(Debug)]
struct Small {
    server: Server,
    /// Its name in a cluster.
    name: String,
    /// Where it shows what it balances; servers of one worker have nothing to show.
    admin: Option<SocketAddr>,
    /// Between it and the coordinator, where the plan has relays.
    relay: Option<Server>,
}

impl Fleet {
    /// Starts everything, and returns when all servers work by one map.
    ///
    /// # Errors
    /// When the plan is beyond the limits, or a process does not start.
    pub fn start(plan: &FleetPlan) -> anyhow::Result<Fleet> {
        ensure!(
            (1..=SERVERS_MAX).contains(&plan.servers),
            "{} servers are not within 1 and {SERVERS_MAX}",
            plan.servers
        );
        ensure!(plan.proxies > 0, "a fleet needs a proxy");
        let cores = allowed_cores()?;
        let cluster = match plan.pool {
            Pool::Cluster { hot_keys, plans } => {
                Some(Cluster::start(plan, hot_keys, plans, &cores)?)
            }
            Pool::Plain { .. } | Pool::PlainHotKeys => None,
        };
        let coordinator = cluster.as_ref().map(|cluster| cluster.address.to_string());
        let servers = (1..=plan.servers)
            .map(|number| {
                let mut plan = plan.clone();
                if number <= plan.slow_servers {
                    plan.smallness = plan.smallness.twice();
                }
                Small::start(&plan, &name_of(number), coordinator.as_deref(), &cores)
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        if let Some(cluster) = &cluster {
            wait_for_map(&cluster.api, plan.servers)?;
        }
        let addresses = servers.iter().map(|small| small.server.address);
        let proxy_plan = ProxyPlan::new(plan, addresses.collect(), coordinator.as_deref())?;
        let proxies = (0..plan.proxies)
            .map(|_| proxy_plan.start(None, &cores))
            .collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Fleet {
            proxies,
            proxy_plan,
            servers,
            cluster,
            plan: plan.clone(),
            names_given: plan.servers,
        })
    }

    /// The proxies, to put load on.
    pub fn targets(&self) -> impl Iterator<Item = Target> {
        self.proxies.iter().map(|proxy| Target::from(proxy.address))
    }

    /// The servers themselves.
    pub fn server_addresses(&self) -> Vec<SocketAddr> {
        self.servers
            .iter()
            .map(|small| small.server.address)
            .collect()
    }

    /// Keys that each server has served since its start; see [`keys_served_by`].
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn keys_served(&self) -> anyhow::Result<Vec<u64>> {
        let served = |small: &Small| keys_served_by(small.server.address);
        self.servers.iter().map(served).collect()
    }

    /// Whether it is a cluster whose servers have several workers each.
    pub fn has_several_workers(&self) -> bool {
        self.cluster.is_some() && self.plan.workers > 1
    }

    /// What each worker serves in small requests a second, smoothed over 1.5 s: own keys and replicas. Of the
    /// servers that have told their coordinator lately; none without one.
    ///
    /// # Errors
    /// When the coordinator does not answer.
    pub fn loads_of_workers(&self) -> anyhow::Result<Vec<f64>> {
        let Some(cluster) = &self.cluster else {
            return Ok(Vec::new());
        };
        let most = self.servers.len() * usize::from(self.plan.workers);
        let loads = cluster.api.cachelets(LoadOrder::Place, most)?;
        let served = |worker: &WorkerLoadView| worker.load + worker.replica_load;
        Ok(loads.workers.iter().map(served).collect())
    }
}

/// Counters of `stats` and of `stats evenkeel` that together are the keys that a server has served.
const SERVED: [(&str, &[&str]); 2] = [
    ("", &["cmd_get", "cmd_set"]),
    (
        "evenkeel",
        &[
            "replica_hits",
            "replica_misses",
            "replica_stores",
            "replica_deletes",
            "replica_refused_old",
        ],
    ),
];

/// Keys that a server has served since its start: read, written, read as a copy for another home, and written or
/// deleted as one, as simulated servers count them.
///
/// # Errors
/// When the server does not answer, or has no counter of one of these names.
pub fn keys_served_by(server: SocketAddr) -> anyhow::Result<u64> {
    let mut sum = 0;
    for (page, names) in SERVED {
        let stats = Stats::of(server, page)?;
        for name in names {
            sum += stats.number(name)?;
        }
    }
    Ok(sum)
}

/// The name of a server in a cluster, counted from 1.
fn name_of(number: usize) -> String {
    format!("s{number}")
}

impl Cluster {
    fn start(
        plan: &FleetPlan,
        hot_keys: HotKeysMode,
        plans: PlanMode,
        cores: &[usize],
    ) -> anyhow::Result<Cluster> {
        let folder = TempDir::new().context("making a folder for the coordinator's state")?;
        let state = folder.path().join("state").display().to_string();
        let initial = plan.servers.to_string();
        let mut arguments: Vec<String> = [
            "--initial-servers",
            &initial,
            "--plans",
            plans.as_str(),
            "--state",
            &state,
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.extend(plan.coordinator_flags.iter().cloned());
        let coordinator = start_coordinator("127.0.0.1:0", &arguments, cores)?;
        let address = coordinator.address;
        let api = api_of(&address.to_string())?;
        api.change_settings(&plan.settings)?;
        api.change_settings(&json!({"hot_keys": hot_keys}))?;
        Ok(Cluster {
            api,
            address,
            coordinator: Some(coordinator),
            arguments,
            _folder: folder,
        })
    }
}

/// A client of the coordinator there that tolerates a machine with much else to do: to save a setting takes a disk.
pub(crate) fn api_of(coordinator: &str) -> anyhow::Result<ApiClient> {
    let api = ApiClient::new(coordinator).context("reading the coordinator's address")?;
    Ok(api.with_timeout(READY_DEADLINE))
}

/// Waits until this many servers work by one map.
pub(crate) fn wait_for_map(api: &ApiClient, servers: usize) -> anyhow::Result<()> {
    let end = Instant::now() + READY_DEADLINE;
    loop {
        if api.all_work_by_the_map(servers) {
            return Ok(());
        }
        ensure!(
            Instant::now() < end,
            "the servers do not come to work by one map within {READY_DEADLINE:?}"
        );
        std::thread::sleep(LOOK_INTERVAL);
    }
}

fn start_coordinator(
    listen: &str,
    arguments: &[String],
    cores: &[usize],
) -> anyhow::Result<Server> {
    let mut all = vec!["coordinator", "--listen", listen];
    all.extend(arguments.iter().map(String::as_str));
    Server::evenkeel(&all, cores)
}

impl Small {
    fn start(
        plan: &FleetPlan,
        name: &str,
        coordinator: Option<&str>,
        cores: &[usize],
    ) -> anyhow::Result<Small> {
        let service_time = match plan.smallness {
            Smallness::Not => None,
            Smallness::Clock { nanos_per_key } => Some(nanos_per_key.to_string()),
        };
        let memory = plan.memory_mb.to_string();
        let admin = match plan.workers {
            1 => None,
            _ => Some(SocketAddr::from(([127, 0, 0, 1], free_port()?))),
        };
        let admin_listens = admin.map(|address| address.to_string());
        let relay = match coordinator {
            Some(address) if plan.relays => Some(Server::evenkeel(
                &["bench", "relay", "--to", address],
                cores,
            )?),
            _ => None,
        };
        let relayed = relay.as_ref().map(|relay| relay.address.to_string());
        let coordinator = relayed.as_deref().or(coordinator);
        let mut arguments = vec!["-m", &memory];
        if let Some(nanos) = &service_time {
            arguments.extend(["--test-service-time", nanos]);
        }
        if let Some(address) = coordinator {
            arguments.extend(["--coordinator", address, "--name", name]);
        }
        arguments.extend(
            admin_listens
                .iter()
                .flat_map(|address| ["--admin", address]),
        );
        arguments.extend(plan.server_flags.iter().map(String::as_str));
        let server = Server::evenkeel_server(plan.workers.into(), &arguments, cores)?;
        Ok(Small {
            server,
            name: name.to_owned(),
            admin,
            relay,
        })
    }
}
