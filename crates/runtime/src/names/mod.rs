//! Names of hosts and services to addresses, for threads that must not wait.
//!
//! All threads of a process share one [`Resolver`]. Its thread asks, each name by itself, so that a name server that says
//! nothing about one name delays no other; what it finds is kept for a while:
//!
//! ```text
//!   event loop ── look_up(host) ──> kept? ── yes ─────────────────────────> then(address)
//!                                     └ no ─> thread "names": question ──────┘
//!                                             not answered in time: the last good address
//! ```
//!
//! A number is no name: [`literal`] never comes here. Rejected: the C library's look-up, which takes a thread for as long as it
//! waits, ten seconds for a silent name server.

mod cache;
mod questions;

pub use questions::{Family, Names, Records, Service, Unanswered};

use crate::spawn_named;
use cache::{Lookup, NameCache, Then};
use hickory_resolver::TokioResolver;
use questions::name_of;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

/// A question may take this long altogether: search domains and several name servers make more of a name server's own
/// time-out, and anyone who asked has given up by then.
const QUESTION_LIMIT: Duration = Duration::from_secs(10);

/// Who knows a last good address is kept waiting for a newer one for this long at most: half of what a link to another server
/// has until it must be answered.
const PATIENCE: Duration = Duration::from_millis(500);

/// Questions under way at a time; further ones wait for these. Each has two sockets at most, which is half of the
/// [descriptors](crate::RESERVED_DESCRIPTORS) that a process has besides its clients'.
const QUESTIONS_MAX: usize = 64;

/// The machine's own files (`resolv.conf`, `hosts`) are read again after this long, and after each failure.
const FILES_KEPT: Duration = Duration::from_secs(10);

/// The address of a host that is one, without asking anybody.
pub fn literal(host: &str, port: u16) -> Option<SocketAddr> {
    host.parse().ok().map(|ip| SocketAddr::new(ip, port))
}

/// What finds addresses for a process. Clones share everything; the thread ends with the last.
#[derive(Clone, Debug)]
pub struct Resolver(Arc<Shared>);

/// Questions since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameCounts {
    /// Those that were asked.
    pub asked: u64,
    /// Those that brought no address: there is none, or nobody said so in time.
    pub failed: u64,
}

#[derive(Debug)]
struct Shared {
    handle: Handle,
    end: Arc<Notify>,
    cache: Mutex<NameCache>,
    asker: Mutex<Asker>,
    places: Semaphore,
    asked: AtomicU64,
    failed: AtomicU64,
}

#[derive(Debug)]
struct Asker {
    names: Names,
    made: Instant,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.end.notify_one();
    }
}

impl Resolver {
    /// Starts the thread. These name servers are asked, or the machine's own if there are none; only then its table of
    /// hosts is looked at, too.
    ///
    /// # Errors
    /// When the machine refuses a thread or an event queue.
    pub fn start(nameservers: &[SocketAddr]) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let end = Arc::new(Notify::new());
        let shared = Shared {
            handle: runtime.handle().clone(),
            end: Arc::clone(&end),
            cache: Mutex::default(),
            asker: Mutex::new(Asker {
                names: Names::new(nameservers),
                made: Instant::now(),
            }),
            places: Semaphore::new(QUESTIONS_MAX),
            asked: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        };
        spawn_named("names".into(), move || {
            runtime.block_on(end.notified());
            runtime.shutdown_background();
        })?;
        Ok(Resolver(Arc::new(shared)))
    }

    /// Finds an address of a host, and tells it: at once where it is known, else later and on another thread. `None` when there
    /// is none, or nobody says so and none was known before. Never waits.
    pub fn look_up(&self, host: &str, then: impl FnOnce(Option<IpAddr>) + Send + 'static) {
        let then: Then = Box::new(then);
        let (lookup, then) = lock(&self.0.cache).look_up(Instant::now(), host, then);
        if lookup == Lookup::MustBeAsked {
            let (resolver, host) = (self.clone(), host.to_owned());
            self.0
                .handle
                .spawn(async move { resolver.resolve(&host).await });
        }
        if let (Lookup::Known(address), Some(then)) = (lookup, then) {
            then(address);
        }
    }

    /// Questions since the start.
    pub fn counts(&self) -> NameCounts {
        NameCounts {
            asked: self.0.asked.load(Ordering::Relaxed),
            failed: self.0.failed.load(Ordering::Relaxed),
        }
    }

    /// Asks for a name until the end, and tells those who wait for it.
    async fn resolve(&self, host: &str) {
        let mut question = pin!(timeout(QUESTION_LIMIT, self.ask(host)));
        let found = match timeout(PATIENCE, &mut question).await {
            Ok(found) => found,
            Err(_) => {
                let until = Instant::now() + QUESTION_LIMIT;
                let waiters = lock(&self.0.cache).use_last_good(host, until);
                waiters.tell();
                question.await
            }
        };
        let found = found.ok().flatten();
        self.0.asked.fetch_add(1, Ordering::Relaxed);
        if found.is_none() {
            self.0.failed.fetch_add(1, Ordering::Relaxed);
        }
        let waiters = lock(&self.0.cache).note(Instant::now(), host, found);
        waiters.tell();
    }

    /// An address, and until when it is good.
    async fn ask(&self, host: &str) -> Option<(IpAddr, Instant)> {
        let _place = self.0.places.acquire().await.ok()?;
        let asker = self.asker()?;
        match asker.lookup_ip(name_of(host).ok()?).await {
            Ok(found) => {
                let address = found.iter().next()?;
                Some((address, found.valid_until()))
            }
            Err(_) => {
                lock(&self.0.asker).names.look_anew();
                None
            }
        }
    }

    /// Reads small files of the machine's own disk now and then, on the thread that asks.
    fn asker(&self) -> Option<TokioResolver> {
        let mut asker = lock(&self.0.asker);
        if asker.made.elapsed() >= FILES_KEPT {
            asker.made = Instant::now();
            asker.names.look_anew();
        }
        asker.names.for_hosts().ok()
    }
}

/// Nothing panics under these locks; if it did, what they hold would still be good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
