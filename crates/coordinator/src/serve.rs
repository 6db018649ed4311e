//! The process: listening, one thread for everything, stopping cleanly.

use std::fs;
use std::future::Future;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::args::{Args, DEFAULT_LISTEN};
use crate::control_ports;
use crate::guard::{Caller, Guard, Secured};
use crate::http;
use crate::ring_copier;
use crate::run_error::RunError;
use crate::scaler;
use crate::shared_core::{SharedCore, Unsaved, new_lineage};
use crate::state_file::StateFile;
use crate::state_place::default_place;
use crate::store::{MemoryStore, StateStore};
use crate::write_timeout::WriteTimeout;
use evenkeel_coordinator_core::limits::PROXIES_MAX;
use evenkeel_coordinator_core::{CoordinatorCore, SavedState};
use evenkeel_runtime::{raise_descriptor_limit_if_allowed, split_port};
use evenkeel_scaler::Actuator;
use evenkeel_types::map::SERVERS_MAX;
use tracing::{field, info, warn};

/// Connections at one time: each member keeps one and a proxy another to tell of hot keys, and as
/// many again for restarts and people. Further ones wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 2 * (SERVERS_MAX + 2 * PROXIES_MAX);

/// Longest wait for a request's headers, and for the next request on a connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Headers of a request: the API needs a handful.
const HEADER_BYTES_MAX: usize = 16 * 1024;

/// When accepting fails (mostly for want of file descriptors), trying again at once would only burn
/// the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is still being answered when the coordinator is told to stop may take this long.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Runs `evenkeel coordinator` until SIGTERM or SIGINT. Prints one line on standard output when it
/// is ready, and then where its page is.
///
/// # Errors
///
/// See [`RunError`]; its [exit code](RunError::exit_code) is that of the process.
pub fn run(args: &Args) -> Result<(), RunError> {
    args.log.start("evenkeel coordinator");
    raise_descriptor_limit_if_allowed(CONNECTIONS_MAX);
    let coordinator = Coordinator::bind(args)?;
    let (address, guard) = (coordinator.address(), Arc::clone(&coordinator.guard));
    let page = page_url(address, guard.is_secure());
    if let Some(warning) = guard.warning(address) {
        warn!("{warning}");
    }
    coordinator.serve_prepared(move || {
        let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
        let mut hangup = signal(SignalKind::hangup()).context("listen for SIGHUP")?;
        let mut stdout = std::io::stdout().lock();
        // Both at once: who has read the first line may not want to hear more.
        let lines =
            format!("evenkeel coordinator listening on {address}\nSee the cluster at {page}\n");
        (stdout.write_all(lines.as_bytes()))
            .and_then(|()| stdout.flush())
            .context("print the ready line")?;
        Ok(async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => return,
                    _ = interrupt.recv() => return,
                    _ = hangup.recv() => guard.reload(),
                }
            }
        })
    })
}

/// Listens on `HOST:PORT`.
fn listen(text: &str) -> Result<TcpListener, String> {
    match split_port(text) {
        Some((host, Some(_))) if !host.is_empty() => {
            TcpListener::bind(text).map_err(|error| error.to_string())
        }
        _ => Err(format!("give HOST:PORT, such as {DEFAULT_LISTEN}")),
    }
}

/// Where a browser of this machine finds the page.
fn page_url(mut address: SocketAddr, is_secure: bool) -> String {
    let scheme = if is_secure { "https" } else { "http" };
    if address.ip().is_unspecified() {
        let loopback: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        address.set_ip(loopback);
    }
    format!("{scheme}://{address}/")
}

/// A coordinator that listens and does not answer yet.
#[derive(Debug)]
pub struct Coordinator {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<SharedCore>,
    guard: Arc<Guard>,
    actuator: Option<Box<dyn Actuator>>,
    runtime: Runtime,
}

impl Coordinator {
    /// Listens; takes the state file and reads it, unless the state is in etcd.
    ///
    /// # Errors
    ///
    /// [`RunError::Usage`] for a flag out of range, a state file that cannot be used, an address
    /// that cannot be listened on.
    pub fn bind(args: &Args) -> Result<Self, RunError> {
        let config = args.config();
        config
            .validate()
            .map_err(|error| RunError::Usage(format!("cannot {error}")))?;
        let addresses = [Some(&args.listen), args.etcd.advertise.as_ref()];
        let addresses = addresses.into_iter().flatten().map(String::as_str);
        let guard = Guard::load(&args.guard, addresses).map_err(RunError::Usage)?;
        let actuator = args.scaler.as_deref().map(evenkeel_scaler::open);
        let actuator = actuator.transpose();
        let actuator = actuator.map_err(|why| RunError::Usage(format!("--scaler: {why}")))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("start the runtime")?;
        let listener = listen(&args.listen)
            .map_err(|why| RunError::Usage(format!("cannot listen on {}: {why}", args.listen)))?;
        let address = listener
            .local_addr()
            .context("read the address listened on")?;
        if guard.is_open(address) && !args.insecure {
            return Err(RunError::Usage(format!(
                "--listen {}: anyone who can connect could change the cluster; give --api-token-file or --tls-client-ca, or \
                 --insecure where everybody who can connect may",
                args.listen
            )));
        }
        listener
            .set_nonblocking(true)
            .context("make the listening socket non-blocking")?;
        let shared = match is_elected(args) {
            true => elected(args, address)?,
            false => open_alone(args, &runtime)?,
        };
        Ok(Coordinator {
            listener,
            address,
            shared: Arc::new(shared),
            guard: Arc::new(guard),
            actuator,
            runtime,
        })
    }

    /// The address listened on, with the port that was taken where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown` is done. Blocks the calling thread.
    ///
    /// # Errors
    ///
    /// [`RunError::Failed`] when there is no runtime to be had.
    pub fn serve(self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        self.serve_prepared(|| Ok(shutdown))
    }

    /// `prepare` runs inside the runtime before the first connection is accepted, and gives the
    /// future that ends it all.
    fn serve_prepared<F: Future<Output = ()>>(
        self,
        prepare: impl FnOnce() -> anyhow::Result<F>,
    ) -> Result<(), RunError> {
        self.runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(self.listener)
                .context("hand the listening socket to the runtime")?;
            let shutdown = prepare()?;
            let router = http::router(self.shared.clone(), Arc::clone(&self.guard));
            let doors = (listener, self.guard);
            serve_until(doors, router, self.shared, self.actuator, shutdown).await;
            Ok(())
        })
    }
}

/// Whether this coordinator takes part in an election.
fn is_elected(args: &Args) -> bool {
    !args.etcd.endpoints.is_empty()
}

/// The shared core of a coordinator that decides when it is elected.
fn elected(args: &Args, address: SocketAddr) -> Result<SharedCore, RunError> {
    let etcd = args.etcd.config(&args.cluster).map_err(RunError::Usage)?;
    let advertised = args.etcd.advertised(address).map_err(RunError::Usage)?;
    if let Some(warning) = &etcd.warning {
        warn!("{warning}");
    }
    let etcd = crate::etcd::Etcd::new(etcd);
    let elector = crate::elector::Elector::new(etcd, advertised, args.config());
    Ok(SharedCore::elected(Arc::new(elector)))
}

/// The shared core of the only coordinator, which goes on from its state file, if it has one.
fn open_alone(args: &Args, runtime: &Runtime) -> Result<SharedCore, RunError> {
    let path = state_path(args);
    let (store, state): (Box<dyn StateStore>, _) = match &path {
        None => (Box::new(MemoryStore), None),
        Some(path) => {
            let (file, state) =
                StateFile::open(path).map_err(|error| RunError::Usage(error.to_string()))?;
            (Box::new(file), state)
        }
    };
    let shared = SharedCore::new();
    let path = path.unwrap_or_default();
    let core = restore_or_begin(args, &path, state, shared.now().monotonic)?;
    runtime.block_on(async {
        shared.begin_term(core, store, false, 0).await;
        // The lineage must be on the disk before anybody hears of it.
        let saved = shared.decide(|_, _| ()).await;
        saved.map_err(|Unsaved| RunError::Usage("cannot write the state file".to_owned()))
    })?;
    Ok(shared)
}

/// Where the state is kept; nowhere on a port that nobody can find again, or where no directory can be had.
fn state_path(args: &Args) -> Option<PathBuf> {
    if args.state.is_some() || args.listen.ends_with(":0") {
        return args.state.clone();
    }
    let is_root = rustix::process::geteuid().is_root();
    let path = default_place(&args.cluster, is_root, |name| std::env::var_os(name));
    let created = path
        .as_ref()
        .and_then(|path| path.parent())
        .map(fs::create_dir_all);
    let why = match created {
        Some(Ok(())) => None,
        Some(Err(error)) => Some(error.to_string()),
        None => Some("neither HOME nor XDG_STATE_HOME is set".to_owned()),
    };
    match (path, why) {
        (Some(path), None) => {
            info!("the state is kept in {}", path.display());
            Some(path)
        }
        (path, why) => {
            let place = path.map_or_else(String::new, |path| format!(" in {}", path.display()));
            warn!(
                "no state can be kept{place}: {}; give --state FILE. Until then a restart takes the map \
                 over from the servers, without settings",
                why.unwrap_or_default()
            );
            None
        }
    }
}

/// A core that goes on from the `state` at `path`, or a new one.
fn restore_or_begin(
    args: &Args,
    path: &Path,
    state: Option<SavedState>,
    now: evenkeel_types::Instant,
) -> Result<CoordinatorCore, RunError> {
    match state {
        Some(state) => CoordinatorCore::restore(args.config(), state, now).map_err(|error| {
            RunError::Usage(format!("state file {}: cannot {error}", path.display()))
        }),
        None => CoordinatorCore::new(args.config(), new_lineage(), now)
            .map_err(|error| RunError::Usage(format!("cannot {error}"))),
    }
}

async fn serve_until(
    (listener, guard): (tokio::net::TcpListener, Arc<Guard>),
    router: axum::Router,
    shared: Arc<SharedCore>,
    actuator: Option<Box<dyn Actuator>>,
    shutdown: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_header_size(HEADER_BYTES_MAX);
    tokio::pin!(shutdown);
    // Ends early by a panic alone.
    let mut electing = tokio::spawn(elect(shared.clone()));
    let ticking = async {
        tokio::join!(
            tick(&shared),
            reach_unheard(&shared),
            scaler::run(&shared, actuator),
            ring_copier::run(&shared),
            control_ports::run(&shared)
        )
    };
    tokio::pin!(ticking);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            _ = &mut ticking => break,
            _ = &mut electing => break,
            accepted = accept(&listener, &connections) => accepted,
        };
        let (stream, permit) = accepted;
        let (http, router, watcher) = (http.clone(), router.clone(), graceful.watcher());
        let (guard, shared) = (Arc::clone(&guard), Arc::clone(&shared));
        tokio::spawn(async move {
            let from = stream.peer_addr().ok();
            let securing = tokio::time::timeout(HEADER_TIMEOUT, guard.secure(stream));
            let secured = match securing.await {
                Ok(Ok(secured)) => secured,
                failed => {
                    let cause = match failed {
                        Ok(Err(error)) => error.to_string(),
                        _ => "timeout".to_owned(),
                    };
                    let from = from.map(|from| field::display(from.ip()));
                    warn!(from, cause, "TLS failed");
                    return shared.count_failed_handshake();
                }
            };
            let caller = secured.caller();
            match secured {
                Secured::Plain(stream) => {
                    let stream = WriteTimeout::new(stream, shared);
                    answer(&http, stream, router, caller, watcher).await;
                }
                Secured::Tls(stream) => {
                    let stream = WriteTimeout::new(stream, shared);
                    answer(&http, stream, router, caller, watcher).await;
                }
            }
            drop(permit);
        });
    }
    drop(listener);
    if let Some(elector) = shared.elector()
        && !electing.is_finished()
    {
        elector.stop();
        // What cannot be given back ends by itself.
        let _ = tokio::time::timeout(STOP_GRACE, electing).await;
    }
    // What is in the middle of an answer may end it.
    let _ = tokio::time::timeout(STOP_GRACE, graceful.shutdown()).await;
}

/// Answers what comes by a connection until it ends.
async fn answer(
    http: &http1::Builder,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: axum::Router,
    caller: Caller,
    watcher: Watcher,
) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(caller);
        router.call(request)
    });
    let connection = http.serve_connection(TokioIo::new(stream), service);
    // A connection that fails is its peer's affair; the next one is served as ever.
    let _ = watcher.watch(connection).await;
}

/// Takes part in the election, if there is one.
async fn elect(shared: Arc<SharedCore>) {
    if let Some(elector) = shared.elector() {
        return Arc::clone(elector).run(shared.clone()).await;
    }
    std::future::pending().await
}

/// The next connection, as soon as there is room for it.
async fn accept(
    listener: &tokio::net::TcpListener,
    connections: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    let permit = connections
        .clone()
        .acquire_owned()
        .await
        .expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Keeps the time for the core. Never ends.
async fn tick(shared: &SharedCore) {
    loop {
        tokio::time::sleep(shared.until_deadline().await).await;
        // A state that cannot be saved is told by the shared core and tried again with the next call.
        let _ = shared
            .decide(|core, now| {
                if core.poll_deadline() <= now.monotonic {
                    core.handle_timeout(now);
                }
            })
            .await;
    }
}

/// Says hello to servers that are not heard of, as often as the core looks who is silent. Never ends.
async fn reach_unheard(shared: &Arc<SharedCore>) {
    loop {
        tokio::time::sleep(shared.reach_unheard().await).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_an_address_that_a_browser_of_this_machine_can_ask() {
        for (listening, is_secure, url) in [
            ("127.0.0.1:11210", false, "http://127.0.0.1:11210/"),
            ("0.0.0.0:11210", true, "https://127.0.0.1:11210/"),
            ("[::]:80", false, "http://[::1]:80/"),
            ("10.0.2.1:443", true, "https://10.0.2.1:443/"),
        ] {
            let listening = listening.parse().unwrap();
            assert_eq!(page_url(listening, is_secure), url);
        }
    }
}
