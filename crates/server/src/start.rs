//! Starting and stopping a server.

use crate::args::{Args, Extended, PREFIX_DELIMITER};
use crate::balancer::SharedBalancer;
use crate::budget::{Budget, Share};
use crate::control::{Control, Gauges, WorkerHandle};
use crate::egress::EgressGate;
use crate::event_loop::{self, Parts, WAKE_TOKEN};
use crate::io::transports;
use crate::lease::SharedLease;
use crate::listeners::Listeners;
use crate::member::{self, End};
use crate::pages::Pages;
use crate::service_time::ServiceTime;
use crate::{credentials, facts};
use anyhow::Context;
use evenkeel_balance::phase::PhaseConfig;
use evenkeel_hotkeys::config::{HotKeysConfig, Mode, ssm_entries};
use evenkeel_member::MemberHandle;
use evenkeel_protocol::Limits;
use evenkeel_runtime::budget::Pool;
use evenkeel_runtime::names::Resolver;
use evenkeel_runtime::watchdog::{self, TurnCounts};
use evenkeel_runtime::{
    AcceptorConfig, Attention, Certificates, Clock, ConnectionCount, Listener, Notifier, OverLimit,
    UsageError, accept_forever, bind_tcp, mesh, pin_to_core, spawn_named,
};
use evenkeel_server_core::balancer::BalancerConfig;
use evenkeel_server_core::{
    AdminConfig, Credentials, ProcessCounts, ProcessFacts, STANDALONE_CACHELETS_PER_WORKER,
    WorkerConfig, WorkerCore, first_version,
};
use evenkeel_storage::{PoolConfig, SegmentPool};
use evenkeel_types::map::cachelets_per_worker;
use evenkeel_types::{BootId, Version};
use mio::{Poll, Waker};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::{error, warn};

/// Messages that the queue from one worker to another holds.
const MESH_CAPACITY: usize = 4096;

/// How often `stats` learns anew about the process.
const FACTS_INTERVAL: Duration = Duration::from_millis(250);

/// A running server.
pub struct Server {
    clock: Clock,
    name: String,
    addresses: Vec<SocketAddr>,
    workers: Vec<WorkerHandle>,
    worker_threads: Vec<JoinHandle<std::io::Result<()>>>,
    helpers: Vec<JoinHandle<()>>,
    membership: Option<MemberHandle>,
    balancer: SharedBalancer,
    certificates: Option<Arc<Certificates>>,
    facts: Arc<dyn Fn() -> ProcessFacts + Send + Sync>,
    stop: Arc<AtomicBool>,
    end: Arc<End>,
}

impl Server {
    /// Starts all threads. When this returns, the server accepts connections.
    ///
    /// # Errors
    /// [`UsageError`] when an address or a file cannot be used; others when the machine refuses.
    pub fn start(args: &Args, extended: &Extended) -> anyhow::Result<Server> {
        let listeners = Listeners::open(args)?;
        if args.listen.is_empty() && args.unix_socket.is_none() && !args.compat {
            warn!("only this machine can connect; -l 0.0.0.0 opens it to others");
        }
        let credentials = match args.credentials_file() {
            None => None,
            Some(file) => {
                let (credentials, warning) = credentials::load(file)?;
                if let Some(warning) = warning {
                    warn!("{warning}");
                }
                if listeners.has_plain_remote() {
                    warn!("without TLS passwords can be read on their way; use -Z");
                }
                Some(credentials)
            }
        };
        let (name, addresses) = (listeners.name(), listeners.addresses());
        let shown_listeners = listeners.shown();
        let tcp = addresses.first().copied();
        let clock = Clock::start();
        let certificates = certificates(args, extended, &listeners, clock)?;
        let stop = Arc::new(AtomicBool::new(false));
        let over_limit = match extended.maxconns_fast {
            true => OverLimit::Refuse,
            false => OverLimit::Wait,
        };
        let connections = ConnectionCount::with_rule(args.conn_limit, over_limit);
        let pool_config = PoolConfig {
            limit_bytes: args.memory_limit << 20,
            item_size_max: args.max_item_size,
            cachelets_expected: cachelets_expected(args),
        };
        let pool = SegmentPool::new(pool_config);
        let boot = BootId(clock.unix_millis());

        let mut polls = Vec::new();
        let mut notifiers = Vec::new();
        for _ in 0..args.threads {
            let poll = Poll::new().context("failed to make an event queue")?;
            let waker =
                Waker::new(poll.registry(), WAKE_TOKEN).context("failed to make a waker")?;
            notifiers.push(Notifier::new(waker));
            polls.push(poll);
        }
        // Each worker lets one command in beyond the limit, and composes one answer.
        let (at_once, threads) = (args.max_item_size, usize::from(args.threads));
        let bounded = |limit| Pool::new(limit, at_once, threads);
        let budget = Arc::new(Budget {
            input: bounded(extended.read_buf_bytes_max(args.max_item_size)),
            answers: bounded(extended.response_bytes_max(args.max_item_size)),
        });
        let transports = transports(args.io.io, args.threads)?;
        let meshes = mesh(&notifiers, MESH_CAPACITY);
        let worker_ip = tcp.map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip());
        let config = worker_config(args, extended, clock, boot);

        let resolver = Resolver::start(&[]).context("failed to start looking names up")?;
        let turns = Arc::new(TurnCounts::default());
        let mut watched_workers = Vec::new();
        let mut workers = Vec::new();
        let mut worker_ports = Vec::new();
        let mut acceptor_ends = Vec::new();
        let mut worker_threads = Vec::new();
        let hurrier = Arc::new(OnceLock::new());
        let threads = polls.into_iter().zip(transports).zip(meshes);
        for (index, ((poll, transport), mesh)) in threads.enumerate() {
            let port = args.worker_port(index as u16)?;
            let listener = port.map(|port| {
                bind_tcp(SocketAddr::new(worker_ip, port), args.listen_backlog)
                    .context("a worker has no port (--worker-port)")
            });
            let listener = listener.transpose()?;
            let address = listener.as_ref().and_then(Listener::address);
            worker_ports.extend(address.map(|address| address.port()));
            let (stream_sender, incoming) = channel();
            let (control_sender, control) = channel();
            let gauges = Arc::new(Gauges::default());
            acceptor_ends.push((stream_sender, notifiers[index].clone()));
            workers.push(WorkerHandle {
                control: control_sender,
                notifier: notifiers[index].clone(),
                gauges: gauges.clone(),
            });
            let config = WorkerConfig {
                index: index as u16,
                // Each its own, so that two keys seldom show the same CAS unique.
                first_version: first_version(RandomState::new().hash_one(boot.0)),
                ..config.clone()
            };
            let mut core =
                WorkerCore::new(config, &pool).map_err(|error| UsageError(error.to_string()))?;
            if !args.coordinator.is_empty() {
                core.require_lease();
            }
            if let Some(credentials) = &credentials {
                core.set_credentials(credentials.clone());
            }
            let name = format!("worker-{index}");
            let (mark, watched) = watchdog::watched(name.clone());
            watched_workers.push(watched);
            let parts = Parts {
                core,
                poll,
                transport,
                share: Share::new(budget.clone()),
                attention: Attention::new(notifiers[index].clone()),
                membership: Arc::clone(&hurrier),
                listener,
                incoming,
                kinds: listeners.kinds.clone(),
                certificates: certificates.clone(),
                control,
                me: workers[index].clone(),
                resolver: resolver.clone(),
                mesh,
                connections: connections.clone(),
                gauges,
                clock,
                mark,
                egress: EgressGate::new(
                    ServiceTime::new(Duration::from_nanos(args.test_service_time)),
                    clock,
                ),
                idle_timeout: extended.idle_timeout,
                progress_timeout: args.progress_timeout(),
            };
            let pin = args.pin.map(|first| first + index);
            worker_threads.push(spawn_named(name, move || {
                if let Some(Err(error)) = pin.map(pin_to_core) {
                    warn!("{error}");
                }
                event_loop::run(parts)
            })?);
        }

        let fixed_facts = facts::fixed(args, extended, tcp, shown_listeners);
        let mut helpers = Vec::new();
        let facts: Arc<dyn Fn() -> ProcessFacts + Send + Sync> = Arc::new({
            let (certificates, connections) = (certificates.clone(), connections.clone());
            let (turns, resolver) = (Arc::clone(&turns), resolver.clone());
            move || ProcessFacts {
                counts: ProcessCounts {
                    memory_used_bytes: pool.used_bytes() as u64,
                    turns_slow: turns.slow(),
                    turns_starved: turns.starved(),
                    names_asked: resolver.counts().asked,
                    names_failed: resolver.counts().failed,
                },
                tls_read_at_s: certificates.as_ref().map(|them| them.read_at_s()),
                ..facts::read(&fixed_facts, &connections, &pool)
            }
        });
        let facts_now = facts();
        for worker in &workers {
            worker.say(Control::Facts(Box::new(facts_now.clone())));
        }
        helpers.push(spawn_named("facts".into(), {
            let (workers, facts, stop) = (workers.clone(), Arc::clone(&facts), stop.clone());
            move || {
                while !stop.load(Ordering::Acquire) {
                    #[allow(clippy::disallowed_methods, reason = "on its own thread")]
                    std::thread::park_timeout(FACTS_INTERVAL);
                    let facts = facts();
                    for worker in &workers {
                        worker.say(Control::Facts(Box::new(facts.clone())));
                    }
                }
            }
        })?);
        helpers.push(spawn_named("watchdog".into(), {
            let (turns, stop) = (Arc::clone(&turns), stop.clone());
            // Who sets a service time knows what makes turns slow.
            let is_told = args.test_service_time == 0;
            move || {
                watchdog::watch(&watched_workers, &turns, &stop, |line| {
                    if is_told {
                        warn!("{line}");
                    }
                });
            }
        })?);
        helpers.push(spawn_named("acceptor".into(), {
            let config = AcceptorConfig {
                listeners: listeners.sockets,
                workers: acceptor_ends,
                connections,
            };
            let stop = stop.clone();
            move || {
                if let Err(error) = accept_forever(config, &stop) {
                    error!("failed to accept connections: {error}");
                }
            }
        })?);
        let balancer = SharedBalancer::new(balancer_config(args), workers.len() as u16, clock);
        if workers.len() > 1 && args.balance_workers != Mode::Off {
            helpers.push(spawn_named("balancer".into(), {
                let (balancer, workers, stop) = (balancer.clone(), workers.clone(), stop.clone());
                move || balancer.run(&workers, &stop)
            })?);
        }
        let end: Arc<End> = Arc::default();
        let membership = if args.coordinator.is_empty() {
            None
        } else {
            let address = tcp.ok_or_else(|| {
                UsageError("--coordinator needs a TCP address that others can reach (-l)".into())
            })?;
            let lease = SharedLease::new(boot, clock, workers.clone(), resolver.clone());
            helpers.push(spawn_named("lease".into(), {
                let (lease, stop) = (lease.clone(), stop.clone());
                move || {
                    if let Err(error) = lease.run(&stop) {
                        error!("failed to ask other servers: {error}");
                    }
                }
            })?);
            let membership = member::join(
                args,
                address,
                worker_ports,
                boot,
                member::Parts {
                    workers: workers.clone(),
                    balancer: balancer.clone(),
                    lease,
                    end: Arc::clone(&end),
                },
            )?;
            // It is set here alone.
            let _ = hurrier.set(membership.hurrier());
            Some(membership)
        };
        Ok(Server {
            clock,
            name,
            addresses,
            workers,
            worker_threads,
            helpers,
            membership,
            balancer,
            certificates,
            facts,
            stop,
            end,
        })
    }

    /// What probes and scrapers are answered.
    pub fn pages(&self) -> Pages {
        Pages {
            clustered: self.membership.is_some(),
            clock: self.clock,
            workers: self.workers.clone(),
            balancer: self.balancer.clone(),
            facts: Arc::clone(&self.facts),
        }
    }

    /// Tells all workers who may come in from now on.
    pub fn set_credentials(&self, credentials: &Arc<Credentials>) {
        for worker in &self.workers {
            worker.say(Control::Credentials(credentials.clone()));
        }
    }

    /// Reads certificates anew; false when there are none to read. Connections that stand keep those
    /// they began with.
    ///
    /// # Errors
    /// Names the file that cannot be used; then all stays as it was.
    pub fn reload_certificates(&self) -> Result<bool, String> {
        match &self.certificates {
            None => Ok(false),
            Some(certificates) => certificates.reload().map(|()| true),
        }
    }

    /// Begins to hand what it has over to the other servers of its cluster, and goes on serving meanwhile. When they have it, nobody could
    /// take it, or the time is over, the process gets a signal to stop. False where there is nothing to wait for.
    pub fn hand_over(&self, within: Duration) -> bool {
        let Some(membership) = &self.membership else {
            return false;
        };
        let was_asked = self.end.hands_over.swap(true, Ordering::AcqRel);
        if was_asked || self.end.name_lost.get().is_some() || within.is_zero() {
            return false;
        }
        membership.hurry();
        let timer = spawn_named("end".into(), move || {
            #[allow(clippy::disallowed_methods, reason = "on its own thread")]
            std::thread::sleep(within);
            member::end_now();
        });
        timer.is_ok()
    }

    /// Stops accepting, answers what has come in, tells the coordinator, and ends all threads.
    /// [`STOP_LIMIT`](crate::event_loop::STOP_LIMIT) and the second that a call to the coordinator may take bound it.
    ///
    /// # Errors
    /// When a worker ended with an error or a panic, or the server could not go on.
    pub fn stop(self) -> anyhow::Result<()> {
        self.end(&Control::Stop)
    }

    /// Stops accepting, finishes what clients have asked and ends their connections when they are
    /// idle, and ends all threads; [`DRAIN_LIMIT`](crate::event_loop::DRAIN_LIMIT) bounds it.
    ///
    /// # Errors
    /// When a worker ended with an error or a panic.
    pub fn drain(self) -> anyhow::Result<()> {
        self.end(&Control::Drain)
    }

    /// The membership ends last: what is still served takes a lease, and the coordinator is told of the end when it has
    /// come.
    fn end(self, word: &Control) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Release);
        for worker in &self.workers {
            worker.say(word.clone());
        }
        for helper in self.helpers {
            helper.thread().unpark();
            helper
                .join()
                .map_err(|_| anyhow::anyhow!("a helper thread panicked"))?;
        }
        for thread in self.worker_threads {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a worker panicked"))?
                .context("a worker failed")?;
        }
        if let Some(membership) = self.membership {
            membership.leave();
        }
        if let Some(reason) = self.end.name_lost.get() {
            anyhow::bail!("{reason}");
        }
        Ok(())
    }

    /// Where the server listens for anyone: its first address, or the path of a unix socket.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All TCP addresses on which the server listens for anyone.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

/// Cachelets that the server has by the first map of its cluster, where all servers are like it; alone it always has as many.
fn cachelets_expected(args: &Args) -> usize {
    let threads = usize::from(args.threads);
    let per_worker = match args.coordinator.is_empty() {
        true => usize::from(STANDALONE_CACHELETS_PER_WORKER),
        false => cachelets_per_worker((args.memory_limit as u64) << 20, threads),
    };
    threads * per_worker
}

/// How the workers of this server are balanced. Nobody replicates keys of a server that is alone.
fn balancer_config(args: &Args) -> BalancerConfig {
    BalancerConfig {
        mode: args.balance_workers,
        phases: PhaseConfig {
            // Until a coordinator says otherwise.
            replication: !args.coordinator.is_empty(),
            coordinated: false,
            ..PhaseConfig::default()
        },
        ..BalancerConfig::default()
    }
}

/// The certificates of `-Z`; `None` without it.
fn certificates(
    args: &Args,
    extended: &Extended,
    listeners: &Listeners,
    clock: Clock,
) -> Result<Option<Arc<Certificates>>, UsageError> {
    if !args.enable_ssl {
        return Ok(None);
    }
    if !args.coordinator.is_empty() {
        return Err(UsageError(
            "-Z --coordinator: servers and proxies of a cluster speak to each other in plain text \
             in this version; use one or the other"
                .into(),
        ));
    }
    let kinds = listeners.kinds.iter().map(|kind| kind.tls);
    Certificates::load(&extended.tls, kinds, clock).map(|them| Some(Arc::new(them)))
}

fn worker_config(args: &Args, extended: &Extended, clock: Clock, boot: BootId) -> WorkerConfig {
    let defaults = HotKeysConfig::default();
    let entries_max = ssm_entries(args.threads.into());
    let hot_keys = HotKeysConfig {
        entries_max,
        replicated_max: defaults.replicated_max.min(entries_max),
        ..defaults
    };
    WorkerConfig {
        index: 0,
        workers: args.threads,
        limits: Limits {
            item_size_max: args.max_item_size,
            ..Limits::default()
        },
        requests_per_turn: args.max_reqs_per_event,
        allow_flush: !args.disable_flush_all,
        cas_shown: !args.disable_cas,
        auth: args.auth_mode(),
        admin: AdminConfig {
            dump: !args.disable_dumping,
            watch: !args.disable_watch,
            shutdown: args.enable_shutdown,
            test_commands: args.test_commands,
            test_abort_on: args
                .test_abort_on
                .clone()
                .map(|key| (key, std::process::abort as fn() -> !)),
            refresh_certs: args.enable_ssl,
            cluster_config: !args.compat,
            track_sizes: extended.track_sizes,
            detail: args.prefix_delimiter.is_some(),
            prefix_delimiter: args.prefix_delimiter.unwrap_or(PREFIX_DELIMITER),
            watcher_log_bytes: extended.watcher_logbuf_bytes,
            worker_log_bytes: extended.worker_logbuf_bytes,
        },
        evict: !args.disable_evictions,
        clustered: !args.coordinator.is_empty(),
        hot_keys,
        // The standard library seeds this from the machine's randomness, anew in each process.
        seed: RandomState::new().hash_one(boot.0),
        boot,
        start: clock.now(),
        first_version: Version::default(),
    }
}
