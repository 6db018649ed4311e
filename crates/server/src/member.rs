//! The server as a member of a cluster: what it reports, and what it does with what it is told.

use crate::args::Args;
use crate::balancer::SharedBalancer;
use crate::control::{Control, WorkerHandle, ask};
use crate::lease::SharedLease;
use evenkeel_coordinator::access::Access;
use evenkeel_coordinator::api::{LoadReport, MemberKind, Settings};
use evenkeel_coordinator::member::{MemberConfig, MemberEvent, MemberHandle, Report};
use evenkeel_policy::hot_keys::config::Mode;
use evenkeel_policy::placement::map::MIGRATIONS_MAX;
use evenkeel_roles::coordinator::MigrationReport;
use evenkeel_roles::hot_keys_view::HotKeysNews;
use evenkeel_roles::loads_view::LoadNews;
use evenkeel_runtime::UsageError;
use evenkeel_types::{BootId, Epoch, ServerId};
use std::net::SocketAddr;
use std::time::Duration;

/// Joins the cluster of the configured coordinators. Serving never waits for them.
///
/// # Errors
/// When an option that concerns the cluster cannot be used.
pub fn join(
    args: &Args,
    address: SocketAddr,
    worker_ports: Vec<u16>,
    boot: BootId,
    workers: Vec<WorkerHandle>,
    balancer: SharedBalancer,
    lease: SharedLease,
) -> Result<MemberHandle, UsageError> {
    let host = match &args.advertise {
        Some(host) => host.clone(),
        None if address.ip().is_unspecified() => {
            return Err(UsageError(
                "--advertise HOST is needed: others cannot connect to the address of -l".into(),
            ));
        }
        None => address.ip().to_string(),
    };
    let config = MemberConfig {
        coordinators: args.coordinator.clone(),
        access: Access::load(&args.access).map_err(UsageError)?,
        cluster: args.cluster.clone(),
        kind: MemberKind::Server,
        name: args
            .name
            .clone()
            .unwrap_or_else(|| format!("{host}:{}", address.port())),
        boot,
        host,
        port: address.port(),
        worker_ports,
        rack: args.rack.clone(),
        seed: boot.0,
    };
    let reporting = workers.clone();
    let memory_limit_bytes = (args.memory_limit as u64) << 20;
    let reporting_lease = lease.clone();
    let asking = balancer.clone();
    let report = move || Report {
        leased: reporting_lease.is_leased(),
        epoch: reporting
            .iter()
            .map(|worker| worker.gauges.epoch())
            .min()
            .unwrap_or(Epoch(0)),
        load: LoadReport {
            requests_per_second: reporting
                .iter()
                .map(|worker| worker.gauges.load())
                .collect(),
            measured: load_news(&reporting, memory_limit_bytes),
        },
        hot_keys: hot_keys_news(&reporting),
        migrates: true,
        splits: true,
        asks_for_moves: asking.asks_coordinator(),
        migrations: migrations(&reporting),
    };
    let mut listener = Listener {
        workers,
        balancer,
        lease,
        me: None,
        hot_keys_most: args.hot_keys,
    };
    MemberHandle::start(config, report, move |event| listener.hear(event))
        .map_err(|error| UsageError(error.to_string()))
}

/// How long workers have to say what is new of their hot keys. A heartbeat does not wait for longer: the
/// next one tells it, too.
const NEWS_TIME: Duration = Duration::from_millis(50);

/// What is new of the hot keys of workers that have any.
fn hot_keys_news(workers: &[WorkerHandle]) -> Option<HotKeysNews> {
    let only_spread = true;
    let having = workers.iter().filter(|worker| worker.gauges.has_hot_keys());
    let having: Vec<_> = having.collect();
    let answers = ask(&having, NEWS_TIME, |to| Control::DescribeHotKeys {
        only_spread,
        to,
    });
    (!having.is_empty()).then(|| HotKeysNews::of(answers))
}

/// What workers say of migrations that they take part in.
fn migrations(workers: &[WorkerHandle]) -> Vec<MigrationReport> {
    let taking_part = workers
        .iter()
        .filter(|worker| worker.gauges.has_migrations());
    let taking_part: Vec<_> = taking_part.collect();
    let answers = ask(&taking_part, NEWS_TIME, Control::DescribeMigrations);
    let mut reports: Vec<_> = answers.into_iter().flatten().collect();
    reports.truncate(MIGRATIONS_MAX);
    reports
}

/// The loads of those workers that say them in time.
fn load_news(workers: &[WorkerHandle], memory_limit_bytes: u64) -> Option<LoadNews> {
    let all: Vec<_> = workers.iter().collect();
    let answers = ask(&all, NEWS_TIME, Control::DescribeCachelets);
    Some(LoadNews::of(answers, memory_limit_bytes))
}

struct Listener {
    workers: Vec<WorkerHandle>,
    balancer: SharedBalancer,
    lease: SharedLease,
    me: Option<ServerId>,
    /// What is done at most, whatever the coordinator says.
    hot_keys_most: Mode,
}

impl Listener {
    fn hear(&mut self, event: MemberEvent) {
        match event {
            MemberEvent::Registered { server_id } => self.me = Some(server_id),
            MemberEvent::Map(map) => {
                if let Some(me) = self.me {
                    self.balancer.handle_map(map.clone(), me);
                    self.tell(&Control::Map(map.clone(), me));
                    self.lease.handle_map(&map, me);
                }
            }
            MemberEvent::ClusterLoad(mean) => {
                self.balancer.handle_cluster_load(mean);
                self.tell(&Control::ClusterLoad(mean));
            }
            MemberEvent::Balances(balances) => self.balancer.handle_coordinator(balances),
            MemberEvent::Settings(Settings { hot_keys, .. }) => {
                self.tell(&Control::HotKeys(hot_keys.min(self.hot_keys_most)));
            }
            MemberEvent::Answered { sent, epoch, lease } => {
                self.lease.handle_answer(sent, epoch, lease);
            }
            MemberEvent::Lost => {
                eprintln!(
                    "evenkeel server: no coordinator answers; serving goes on, balancing stops"
                );
            }
            MemberEvent::Found => eprintln!("evenkeel server: the coordinator answers"),
            MemberEvent::Refused { reason, message } => {
                eprintln!(
                    "evenkeel server: the coordinator refuses this server ({reason}): {message}"
                );
            }
        }
    }

    fn tell(&self, word: &Control) {
        for worker in &self.workers {
            worker.say(word.clone());
        }
    }
}
