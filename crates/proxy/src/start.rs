//! Starting and stopping a proxy.

use crate::active_config::ActiveConfig;
use crate::args::{Args, Command};
use crate::check::check;
use crate::clusters::{Clusters, Identity, Wanted};
use crate::config::Settings;
use crate::control::{Control, Gauges, ReloadCounts, WorkerHandle};
use crate::dashboard::SharedDashboard;
use crate::discovery::Discoveries;
use crate::event_loop::{self, Parts, WAKE_TOKEN};
use crate::facts::Facts;
use crate::fence::Fence;
use crate::looks::Looks;
use crate::news::News;
use crate::outages::Outages;
use crate::pages;
use crate::recorder::{LogFile, ProfileFile, Recorder};
use crate::reload::{self, Reloaded, Reloader, wanted};
use crate::tls::TlsWays;
use anyhow::Context;
use evenkeel_proxy_core::{ProxyConfig, ProxyCore, Revision};
use evenkeel_runtime::budget::Pool;
use evenkeel_runtime::names::Resolver;
use evenkeel_runtime::watchdog::{self, TurnCounts};
use evenkeel_runtime::{
    AcceptorConfig, Attention, Certificates, Clock, ConnectionCount, HttpPort, Listener, Notifier,
    ProcessSignal, ProcessSignals, TlsKind, UsageError, accept_forever, bind_unix,
    raise_descriptor_limit, spawn_named,
};
use evenkeel_types::BootId;
use mio::{Poll, Waker};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::{error, info, warn};

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    address: String,
    reloader: Arc<Mutex<Reloader>>,
    workers: Arc<[WorkerHandle]>,
    clusters: Clusters,
    discoveries: Discoveries,
    recorder: Option<Recorder>,
    worker_threads: Vec<JoinHandle<std::io::Result<()>>>,
    acceptor: JoinHandle<()>,
    admin: Option<HttpPort>,
    stop: Arc<AtomicBool>,
}

/// How long a start waits for a map, or for servers, before it looks whether all goes well.
const START_LOOK: Duration = Duration::from_secs(60);

/// Runs a proxy until SIGTERM or SIGINT, or does what is asked for instead.
///
/// # Errors
/// [`UsageError`] when a flag, a file or an address cannot be used; others when the machine refuses.
pub fn run(args: Args) -> anyhow::Result<()> {
    match &args.command {
        Some(Command::Check { file, format }) => return Ok(check(file, *format)?),
        None => {}
    }
    args.log.start("evenkeel proxy");
    evenkeel_runtime::give_back_at_once();
    let mut proxy = Proxy::start(&args)?;
    let mut signals = ProcessSignals::take(&[ProcessSignal::Stop, ProcessSignal::Reload])
        .context("failed to take signals")?;
    if let Some(address) = proxy.admin_address() {
        info!("probes are answered on {address}");
        info!("the page is at http://{address}/");
    }
    println!("evenkeel proxy listening on {}", proxy.address);
    std::io::stdout()
        .flush()
        .context("failed to write the ready line")?;
    while signals.wait() == ProcessSignal::Reload {
        proxy.reopen_log();
        match proxy.reload() {
            Ok(reloaded) => info!("{reloaded}"),
            Err(error) => {
                warn!("kept the configuration there was: {error}");
            }
        }
    }
    proxy.stop()
}

impl Proxy {
    /// Starts all threads. When this returns, the proxy accepts connections, and pools of Evenkeel
    /// servers have their maps, and others their servers; until there are some, this waits.
    ///
    /// # Errors
    /// See [`run`].
    pub fn start(args: &Args) -> anyhow::Result<Proxy> {
        let settings = Settings::read(args).map_err(|error| UsageError(error.line()))?;
        raise_descriptor_limit(settings.conn_limit)?;
        let (listeners, tls) = listen(&settings)?;
        let tcp = listeners.iter().find_map(Listener::address);
        let address = listeners
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        let clock = Clock::start();
        let certificates = (settings.tls.as_ref())
            .map(|options| Certificates::load(options, tls.iter().copied(), clock))
            .transpose()?
            .map(Arc::new);
        let connections = ConnectionCount::new(settings.conn_limit);
        let fence = Fence::new(clock, settings.gone_after);
        let clusters = Clusters::fenced(fence.clone());
        let revision = Revision {
            generation: 1,
            digest: settings.digest.clone(),
            made_at: clock.now().unix,
        };
        let discoveries = Discoveries::start(clock, &settings.nameservers)
            .context("failed to start the search for servers")?;
        discoveries.look_for(settings.discovered().map(|(_, spec)| spec));
        while !discoveries.wait_until(Instant::now() + START_LOOK) {}
        let ways = TlsWays::default();
        let config = settings.proxy_config(&clusters, &discoveries, &ways, revision);
        let config = Arc::new(config.map_err(anyhow::Error::msg)?);
        let tcp = tcp.context("a proxy has a TCP address")?;
        let recorder = start_recorder(&settings, tcp, &config)?;
        let sink = recorder.as_ref().map(|it| it.sink().clone());
        let reload_counts = Arc::new(ReloadCounts::default());
        let resolver =
            Resolver::start(&settings.nameservers).context("failed to start looking names up")?;
        let (news, is_news) = sync_channel(1);
        let mut handles = Vec::new();
        let mut rests = Vec::new();
        let mut acceptor_ends = Vec::new();
        let origin_unix_us = clock.origin_unix_micros();
        for _ in 0..settings.threads {
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
            let mut core = ProxyCore::new(&config, seed);
            core.set_clock_origin(origin_unix_us);
            rests.push((core, poll, incoming, control));
        }
        let workers: Arc<[WorkerHandle]> = handles.into();
        let active_config = ActiveConfig::new(
            settings.clone(),
            Arc::clone(&config),
            Arc::clone(&workers),
            clusters.clone(),
            discoveries.clone(),
            ways,
            clock,
        );
        let mut worker_threads = Vec::new();
        let turns = Arc::new(TurnCounts::default());
        let mut watched_workers = Vec::new();
        let buffers = Arc::new(Pool::new(
            settings.buffer_memory,
            settings.max_item_size,
            settings.threads.into(),
        ));
        let facts = Facts {
            clock,
            buffers: Arc::clone(&buffers),
            workers: Arc::clone(&workers),
            connections: Arc::clone(&connections),
            reload_counts: Arc::clone(&reload_counts),
            active_config: active_config.clone(),
            recorder: sink.clone(),
            turns: Arc::clone(&turns),
            resolver: resolver.clone(),
        };
        let outages = Outages::default();
        let own_address = Arc::new((settings.advertise.clone(), tcp));
        for (index, (core, poll, incoming, control)) in rests.into_iter().enumerate() {
            let name = format!("proxy-{index}");
            let (mark, watched) = watchdog::watched(name.clone());
            watched_workers.push(watched);
            let parts = Parts {
                index,
                core,
                poll,
                attention: Attention::new(workers[index].notifier.clone()),
                incoming,
                control,
                workers: Arc::clone(&workers),
                resolver: resolver.clone(),
                clusters: clusters.clone(),
                fence: fence.clone(),
                news: news.clone(),
                connections: Arc::clone(&connections),
                buffers: Arc::clone(&buffers),
                facts: facts.clone(),
                tls: Arc::clone(&tls),
                certificates: certificates.clone(),
                outages: outages.clone(),
                gauges: Arc::clone(&workers[index].gauges),
                clock,
                mark,
                recorder: sink.clone(),
                own_address: Arc::clone(&own_address),
            };
            worker_threads.push(spawn_named(name, move || event_loop::run(parts))?);
        }
        let news = News::new(is_news);
        let identity = identity(&settings, tcp, clock);
        clusters.join(&identity, clock, &workers)?;
        let wanted = wanted(&settings, &clusters);
        let discovered = settings
            .discovered()
            .map(|(_, spec)| spec.clone())
            .collect();
        let is_there = || wanted.is_there(&clusters, &workers);
        while !news.wait_until(Instant::now() + START_LOOK, is_there) {
            if worker_threads.iter().any(JoinHandle::is_finished) {
                anyhow::bail!("a worker ended before it had a map");
            }
        }
        active_config.follow_lists();
        let stop = Arc::new(AtomicBool::new(false));
        let admin = match settings.admin {
            Some(at) => {
                let dashboard = SharedDashboard::start(facts.clone(), &stop)?;
                Some(HttpPort::start(at, pages::answers(facts, dashboard))?)
            }
            None => None,
        };
        spawn_named("watchdog".into(), {
            let stop = Arc::clone(&stop);
            move || {
                watchdog::watch(&watched_workers, &turns, &stop, |line| {
                    warn!("{line}");
                });
            }
        })?;
        let acceptor = spawn_named("acceptor".into(), {
            let config = AcceptorConfig {
                listeners,
                workers: acceptor_ends,
                connections,
            };
            let stop = Arc::clone(&stop);
            move || {
                if let Err(error) = accept_forever(config, &stop) {
                    error!("failed to accept connections: {error}");
                }
            }
        })?;
        let reloader = Arc::new(Mutex::new(Reloader {
            args: args.clone(),
            started: settings.clone(),
            taken: settings,
            active_config,
            wanted,
            discovered,
            identity,
            clock,
            news,
            counts: reload_counts,
            workers: Arc::clone(&workers),
            clusters: clusters.clone(),
            discoveries: discoveries.clone(),
            certificates,
            looks: Looks::default(),
            is_stopped: false,
        }));
        reload::look_regularly(&reloader, args, &discoveries);
        if !config.revision.digest.is_empty() {
            let digest = &config.revision.digest;
            info!("configuration 1 is in force, md5 {digest}");
        }
        Ok(Proxy {
            address,
            reloader,
            workers,
            clusters,
            discoveries,
            recorder,
            worker_threads,
            acceptor,
            admin,
            stop,
        })
    }

    /// Opens the log of requests anew, and the profile if it was renamed, so that what was gets no more.
    pub fn reopen_log(&self) {
        if let Some(recorder) = &self.recorder {
            recorder.sink().reopen();
        }
    }

    /// Where the proxy listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// See [`run`]: what SIGHUP does.
    ///
    /// # Errors
    /// Why a file cannot be used. Then all that was in force stays so.
    pub fn reload(&mut self) -> Result<Reloaded, String> {
        let mut reloader = self.reloader.lock().unwrap_or_else(PoisonError::into_inner);
        reloader.reload()
    }

    /// Where `--admin` is answered.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(HttpPort::address)
    }

    /// Stops accepting, answers what was asked, and ends all threads.
    ///
    /// # Errors
    /// When a worker ended with an error or a panic.
    pub fn stop(self) -> anyhow::Result<()> {
        if let Some(admin) = self.admin {
            admin.stop();
        }
        {
            // What is being taken over is taken over first.
            let mut reloader = self.reloader.lock().unwrap_or_else(PoisonError::into_inner);
            reloader.is_stopped = true;
        }
        self.discoveries.stop();
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
        // The coordinator is told that nobody is asked from here any more when that is so.
        self.clusters.keep_only(&Wanted::default());
        if let Some(recorder) = self.recorder {
            recorder.stop();
        }
        Ok(())
    }
}

/// Opens the files that requests are written to, if there are any.
fn start_recorder(
    settings: &Settings,
    address: SocketAddr,
    config: &ProxyConfig,
) -> anyhow::Result<Option<Recorder>> {
    let log = settings.request_log.target().map(LogFile::open).transpose();
    let log = log.map_err(|error| UsageError(format!("--request-log: {error}")))?;
    let profile = settings.profile.place().zip(config.profile.as_ref());
    let profile = profile.map(|(place, config)| {
        let (_, name) = host_and_name(settings, address);
        ProfileFile::begin(place, name, Arc::clone(&config.head))
    });
    let profile = profile.transpose();
    let profile = profile.map_err(|error| UsageError(format!("--profile: {error}")))?;
    if log.is_none() && profile.is_none() {
        return Ok(None);
    }
    let recorder = Recorder::start(log, profile).context("failed to start the recorder")?;
    Ok(Some(recorder))
}

/// How others reach the proxy, and what they call it.
fn host_and_name(settings: &Settings, address: SocketAddr) -> (String, String) {
    let host = settings.advertise.clone();
    let host = host.unwrap_or_else(|| address.ip().to_string());
    let name = settings.name.clone();
    let name = name.unwrap_or_else(|| format!("{host}:{}", address.port()));
    (host, name)
}

fn identity(settings: &Settings, address: SocketAddr, clock: Clock) -> Identity {
    let (host, name) = host_and_name(settings, address);
    Identity {
        name,
        host,
        address,
        boot: BootId(clock.unix_millis()),
        access: settings.coordinator_access.clone(),
    }
}

/// The sockets to accept on, and for each of them whether it speaks TLS.
type Listening = (Vec<Listener>, Arc<[Option<TlsKind>]>);

fn listen(settings: &Settings) -> Result<Listening, UsageError> {
    let (mut listeners, mut kinds) = (Vec::new(), Vec::new());
    for spec in &settings.listen {
        for listener in spec.open(settings.listen_backlog)? {
            listeners.push(listener);
            kinds.push(TlsKind::of(settings.tls.is_some(), spec.tls));
        }
    }
    if let Some(path) = &settings.unix_socket {
        listeners.push(bind_unix(path, settings.unix_mask)?);
        // TLS is for the network: the file's permissions guard this one.
        kinds.push(None);
    }
    Ok((listeners, kinds.into()))
}
