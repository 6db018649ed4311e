//! The server as a member of a cluster: what it reports, and what it does with what it is told.

use crate::args::Args;
use crate::balancer::SharedBalancer;
use crate::control::{Control, WorkerHandle, ask};
use crate::lease::SharedLease;
use evenkeel_control::MigrationReport;
use evenkeel_control::hot_keys::HotKeysNews;
use evenkeel_control::loads::LoadNews;
use evenkeel_control::{LoadReport, MemberKind};
use evenkeel_hotkeys::config::Mode;
use evenkeel_member::access::Access;
use evenkeel_member::{MemberConfig, MemberEvent, MemberHandle, Report};
use evenkeel_runtime::{Interfaces, ProcessSignal, UsageError};
use evenkeel_types::map::MIGRATIONS_MAX;
use evenkeel_types::{BootId, Epoch, ServerId};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tracing::{error, info, warn};

/// What takes part in a membership: it is asked for reports, and told what is new.
pub struct Parts {
    pub workers: Vec<WorkerHandle>,
    pub balancer: SharedBalancer,
    pub lease: SharedLease,
    pub end: Arc<End>,
}

/// How the process is to end.
#[derive(Debug, Default)]
pub struct End {
    /// It was told to, and serves until others have what it has.
    pub hands_over: AtomicBool,
    /// Why it ends by itself, if it does.
    pub name_lost: OnceLock<String>,
}

/// Joins the cluster of the configured coordinators. Serving never waits for them.
///
/// Where its name turns out to be another server's, the reason is left in [`End::name_lost`] and the process stops.
///
/// # Errors
/// When an option that concerns the cluster cannot be used.
pub fn join(
    args: &Args,
    address: SocketAddr,
    worker_ports: Vec<u16>,
    boot: BootId,
    parts: Parts,
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
    let (access, warning) = Access::load(&args.access).map_err(UsageError)?;
    if let Some(warning) = warning {
        warn!("{warning}");
    }
    let config = MemberConfig {
        coordinators: args.coordinator.clone(),
        access,
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
        gone_after: None,
        seed: boot.0,
    };
    let Parts {
        workers,
        balancer,
        lease,
        end,
    } = parts;
    let reporting = workers.clone();
    let memory_limit_bytes = (args.memory_limit as u64) << 20;
    let reporting_lease = lease.clone();
    let asking = balancer.clone();
    let reporting_end = Arc::clone(&end);
    let mut confirmed = Epoch(0);
    let mut interfaces = Interfaces::new();
    let report = move || {
        let network = interfaces.utilization(Instant::now());
        for worker in &reporting {
            worker.gauges.set_network(network);
        }
        let migrations = migrations(&reporting, &mut confirmed);
        Report {
            leased: reporting_lease.needs_leases(),
            config_hash: None,
            control_port: 0,
            pools: Vec::new(),
            epoch: confirmed,
            load: LoadReport {
                requests_per_second: reporting
                    .iter()
                    .map(|worker| worker.gauges.load())
                    .collect(),
                measured: load_news(&reporting, memory_limit_bytes),
                served: None,
            },
            hot_keys: hot_keys_news(&reporting),
            migrates: true,
            asks_for_moves: asking.asks_coordinator(),
            migrations,
            ending: reporting_end.hands_over.load(Ordering::Acquire),
        }
    };
    let mut listener = Listener {
        workers,
        balancer,
        lease,
        end,
        me: None,
        test_endless_lease: args.test_endless_lease,
        has_warned: false,
    };
    MemberHandle::start(config, report, move |event| listener.handle(event))
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

/// What workers say of migrations that they take part in. When all did in time, the map by which they all work is confirmed.
/// Otherwise none that is newer: what is not spoken of under a map the coordinator may take for lost.
fn migrations(workers: &[WorkerHandle], confirmed: &mut Epoch) -> Vec<MigrationReport> {
    // Before they are asked, so that what they say is as of this map or a newer one.
    let epoch = workers.iter().map(|worker| worker.gauges.epoch()).min();
    let taking_part = workers
        .iter()
        .filter(|worker| worker.gauges.has_migrations());
    let taking_part: Vec<_> = taking_part.collect();
    let answers = ask(&taking_part, NEWS_TIME, Control::DescribeMigrations);
    if answers.len() == taking_part.len() {
        *confirmed = epoch.unwrap_or(Epoch(0));
    }
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

/// As the second signal of those who end a process.
pub fn end_now() {
    if let Err(error) = ProcessSignal::Stop.raise() {
        error!("failed to end: {error}");
    }
}

struct Listener {
    workers: Vec<WorkerHandle>,
    balancer: SharedBalancer,
    lease: SharedLease,
    end: Arc<End>,
    me: Option<ServerId>,
    test_endless_lease: bool,
    /// Operators know that clients ask for keys of other servers.
    has_warned: bool,
}

impl Listener {
    fn handle(&mut self, event: MemberEvent) {
        match event {
            MemberEvent::Registered { server_id } => self.me = Some(server_id),
            MemberEvent::Map(map) => {
                if let Some(me) = self.me {
                    self.balancer.handle_map(map.clone(), me);
                    self.tell(&Control::Map(map.clone(), me));
                    self.lease.handle_map(&map, me);
                }
            }
            MemberEvent::ClusterLoad(load) => {
                self.balancer.handle_cluster_load(load);
                self.tell(&Control::ClusterLoad(load.mean));
            }
            MemberEvent::Balances(balances) => self.balancer.handle_coordinator(balances),
            MemberEvent::Settings(settings) => {
                self.balancer
                    .handle_replication(settings.hot_keys == Mode::On);
                self.tell(&Control::Settings(settings));
            }
            MemberEvent::Answered { sent, epoch, lease } => {
                self.warn_of_strangers();
                let lease = lease.filter(|_| !self.test_endless_lease);
                self.lease.handle_answer(sent, epoch, lease);
            }
            MemberEvent::Lost {
                why,
                has_answered: true,
            } => {
                warn!(
                    cause = why,
                    "no coordinator answers; serving goes on, balancing stops"
                );
            }
            MemberEvent::Lost { why, .. } => {
                warn!(
                    cause = why,
                    "no coordinator has answered yet; no key is served before one does"
                );
            }
            MemberEvent::Found => info!("the coordinator answers"),
            MemberEvent::NameLost { message } => {
                if self.end.name_lost.set(message).is_ok() {
                    end_now();
                }
            }
            MemberEvent::MayEnd => end_now(),
            // Servers follow no pool.
            MemberEvent::Step(_) => {}
            MemberEvent::Refused { reason, message } => {
                warn!("the coordinator refuses this server ({reason}): {message}");
            }
        }
    }

    /// Says once that clients bring keys to the wrong server: they were pointed at servers instead of a proxy.
    fn warn_of_strangers(&mut self) {
        let mut workers = self.workers.iter();
        if !self.has_warned && workers.any(|worker| worker.gauges.refuses_keys()) {
            self.has_warned = true;
            warn!(
                "clients ask this server for keys of others, and are refused: point them at a proxy \
                 (keys_of_others in `stats evenkeel`; this is said once)"
            );
        }
    }

    fn tell(&self, word: &Control) {
        for worker in &self.workers {
            worker.say(word.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Gauges;
    use evenkeel_control::MigrationState;
    use evenkeel_runtime::Notifier;
    use evenkeel_testkit::poll_until;
    use evenkeel_types::CacheletId;
    use mio::{Poll, Token, Waker};
    use std::sync::mpsc::{Receiver, channel};

    /// A worker as others see it; its poll has to last as long.
    fn worker(epoch: u64) -> (WorkerHandle, Receiver<Control>, Poll) {
        let (control, words) = channel();
        let poll = Poll::new().expect("a poll");
        let waker = Waker::new(poll.registry(), Token(0)).expect("a waker");
        let gauges = Arc::new(Gauges::default());
        gauges.set_epoch(Epoch(epoch));
        let notifier = Notifier::new(waker);
        let handle = WorkerHandle {
            control,
            notifier,
            gauges,
        };
        (handle, words, poll)
    }

    /// The coordinator takes what is not spoken of for lost once its map is confirmed.
    #[test]
    fn no_map_is_confirmed_while_a_worker_does_not_say_what_became_of_its_migrations() {
        let (one, _words, _poll) = worker(7);
        let (other, words, _other_poll) = worker(9);
        let workers = [one, other];
        let mut confirmed = Epoch(0);
        assert_eq!(migrations(&workers, &mut confirmed), []);
        assert_eq!(confirmed, Epoch(7), "none takes part in any");
        for worker in &workers {
            worker.gauges.set_epoch(Epoch(9));
        }
        workers[1].gauges.set_has_migrations(true);
        assert_eq!(migrations(&workers, &mut confirmed), []);
        assert_eq!(confirmed, Epoch(7), "it is busy");
        words.try_iter().for_each(drop);
        let report = MigrationReport {
            cachelet: CacheletId(3),
            began: Epoch(8),
            state: MigrationState::Staged,
            items: 1,
            bytes: 2,
        };
        let answering = std::thread::spawn(move || {
            for word in words {
                if let Control::DescribeMigrations(to) = word {
                    // Who asked may have waited for long enough.
                    let _ = to.send(vec![report]);
                }
            }
        });
        // On a busy machine an answer may be late.
        let said = poll_until(Duration::from_secs(60), "an answer in time", || {
            Some(migrations(&workers, &mut confirmed)).filter(|said| !said.is_empty())
        });
        assert_eq!(said, [report]);
        assert_eq!(confirmed, Epoch(9));
        drop(workers);
        answering.join().expect("it ends with those who ask");
    }
}
