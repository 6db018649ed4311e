//! Starting and stopping a proxy.

use crate::args::Args;
use crate::clusters::{ClusterSpec, Clusters, Identity};
use crate::control::{Control, Done, Gauges, ReloadCounts, WorkerHandle};
use crate::event_loop::{self, Parts, WAKE_TOKEN};
use crate::resolver;
use anyhow::Context;
use evenkeel_roles::proxy::{MapSource, PoolKind, ProxyConfig, ProxyCore, ServerList};
use evenkeel_runtime::{
    AcceptorConfig, Attention, Clock, ConnectionCount, Listener, Notifier, ProcessSignal,
    ProcessSignals, UsageError, accept_forever, bind_tcp, bind_unix, raise_descriptor_limit,
    spawn_named,
};
use evenkeel_types::BootId;
use mio::{Poll, Waker};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    address: String,
    workers: Arc<[WorkerHandle]>,
    worker_threads: Vec<JoinHandle<std::io::Result<()>>>,
    acceptor: JoinHandle<()>,
    clusters: Clusters,
    stop: Arc<AtomicBool>,
}

/// Runs a proxy until SIGTERM or SIGINT.
///
/// # Errors
/// [`UsageError`] when a flag or an address cannot be used; others when the machine refuses.
pub fn run(args: Args) -> anyhow::Result<()> {
    let proxy = Proxy::start(&args)?;
    let mut signals =
        ProcessSignals::take(&[ProcessSignal::Stop]).context("failed to take signals")?;
    println!("evenkeel proxy listening on {}", proxy.address);
    std::io::stdout()
        .flush()
        .context("failed to write the ready line")?;
    signals.wait();
    proxy.stop()
}

impl Proxy {
    /// Starts all threads. When this returns, the proxy accepts connections, and in a pool of
    /// Evenkeel servers it has a map; until there is one, this waits.
    ///
    /// # Errors
    /// See [`run`].
    pub fn start(args: &Args) -> anyhow::Result<Proxy> {
        args.check()?;
        raise_descriptor_limit(args.conn_limit)?;
        let listeners = listen(args)?;
        let tcp = listeners.iter().find_map(Listener::address);
        let address = listeners
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        let clock = Clock::start();
        let connections = ConnectionCount::new(args.conn_limit);
        let clusters = Clusters::default();

        let config = Arc::new(config(args)?);
        let reload_counts = Arc::new(ReloadCounts::default());
        let (lookups, lookups_asked) = channel();
        let (done, have_done) = channel();
        let mut handles = Vec::new();
        let mut rests = Vec::new();
        let mut acceptor_ends = Vec::new();
        for _ in 0..args.threads {
            let poll = Poll::new().context("failed to make an event queue")?;
            let waker =
                Waker::new(poll.registry(), WAKE_TOKEN).context("failed to make a waker")?;
            let notifier = Notifier::new(waker);
            let (stream_sender, incoming) = channel();
            let (control_sender, control) = channel();
            acceptor_ends.push((stream_sender, notifier.clone()));
            let gauges = Arc::new(Gauges::default());
            handles.push(WorkerHandle {
                control: control_sender,
                notifier,
                gauges,
            });
            // The standard library seeds this from the machine's randomness, anew for each worker.
            let seed = RandomState::new().hash_one(std::process::id());
            let core = ProxyCore::new(&config, seed);
            rests.push((core, poll, incoming, control));
        }
        let workers: Arc<[WorkerHandle]> = handles.into();
        spawn_named("resolver".into(), {
            let workers = Arc::clone(&workers);
            move || resolver::run(&lookups_asked, &workers)
        })?;
        let mut worker_threads = Vec::new();
        for (index, (core, poll, incoming, control)) in rests.into_iter().enumerate() {
            let parts = Parts {
                index,
                core,
                poll,
                attention: Attention::new(workers[index].notifier.clone()),
                incoming,
                control,
                workers: Arc::clone(&workers),
                resolver: lookups.clone(),
                clusters: clusters.clone(),
                done: done.clone(),
                reload_counts: Arc::clone(&reload_counts),
                connections: Arc::clone(&connections),
                gauges: Arc::clone(&workers[index].gauges),
                clock,
            };
            worker_threads.push(spawn_named(format!("proxy-{index}"), move || {
                event_loop::run(parts)
            })?);
        }
        if !args.coordinator.is_empty() {
            drop(done);
            let address = tcp.context("a proxy has a TCP address")?;
            let spec = ClusterSpec {
                coordinators: args.coordinator.clone(),
                name: args.cluster.clone(),
            };
            let source = clusters.join(&spec, &identity(args, address, clock), clock, &workers)?;
            let mut missing = args.threads;
            while missing > 0 {
                let done = have_done.recv();
                let done = done.context("a worker ended before it had a map")?;
                missing -= u16::from(done == Done::Map(source));
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let acceptor = spawn_named("acceptor".into(), {
            let config = AcceptorConfig {
                listeners,
                workers: acceptor_ends,
                connections,
            };
            let stop = Arc::clone(&stop);
            move || {
                if let Err(error) = accept_forever(config, &stop) {
                    eprintln!("evenkeel proxy: failed to accept connections: {error}");
                }
            }
        })?;
        Ok(Proxy {
            address,
            workers,
            worker_threads,
            acceptor,
            clusters,
            stop,
        })
    }

    /// Where the proxy listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Stops accepting, answers what was asked, and ends all threads.
    ///
    /// # Errors
    /// When a worker ended with an error or a panic.
    pub fn stop(self) -> anyhow::Result<()> {
        self.clusters.keep_only(&[]);
        self.stop.store(true, Ordering::Release);
        self.acceptor
            .join()
            .map_err(|_| anyhow::anyhow!("the acceptor panicked"))?;
        for worker in self.workers.iter() {
            worker.say(Control::Stop);
        }
        for thread in self.worker_threads {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a worker panicked"))?
                .context("a worker failed")?;
        }
        Ok(())
    }
}

/// What the flags say, as one pool.
fn config(args: &Args) -> Result<ProxyConfig, UsageError> {
    let kind = if args.servers.is_empty() {
        PoolKind::Evenkeel(MapSource(1))
    } else {
        let list = ServerList::new(args.placement()?);
        let list =
            list.map_err(|error| UsageError(format!("-s {}: {error}", args.servers.join(","))))?;
        PoolKind::Memcached(Arc::new(list))
    };
    let mut config = ProxyConfig::of_pool(kind, args.pool_settings());
    config.limits = args.limits();
    config.requests_per_turn = args.max_reqs_per_event;
    Ok(config)
}

fn identity(args: &Args, address: SocketAddr, clock: Clock) -> Identity {
    let host = args.advertise.clone();
    let host = host.unwrap_or_else(|| address.ip().to_string());
    let name = args.name.clone();
    Identity {
        name: name.unwrap_or_else(|| format!("{host}:{}", address.port())),
        host,
        address,
        boot: BootId(clock.unix_millis()),
    }
}

fn listen(args: &Args) -> Result<Vec<Listener>, UsageError> {
    let mut listeners = Vec::new();
    for address in args.tcp_addresses()? {
        listeners.push(bind_tcp(address, args.listen_backlog)?);
    }
    if let Some(path) = &args.unix_socket {
        listeners.push(bind_unix(path, args.unix_mask)?);
    }
    Ok(listeners)
}
