//! Where the lists of servers come from that change while the process lives.
//!
//! For each list there is one task that looks from time to time; what to believe, and when to look
//! again, is decided by [`Membership`]. All tasks run on one thread, beside the workers:
//!
//! ```text
//!   file, name servers ──> task ──> Membership ──> list ──> ActiveConfig ── configuration ──> workers
//! ```
//!
//! The file with the process's own configuration is looked at by the same thread.
//!
//! A list that is known stays until there is a better one. Before there is one, the pool cannot be
//! used: a start waits for it, and a reload is refused.

mod source;

pub use source::{DiscoverySpec, FILE_REFRESH, Source, read_servers_file};

use evenkeel_placement::membership::{Counts, ListState, Membership};
use evenkeel_proxy_core::ServerList;
use evenkeel_runtime::names::Names;
use evenkeel_runtime::{Clock, spawn_named};
use evenkeel_types::Instant as Moment;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_blocking};
use tracing::{info, warn};

/// The lists that are looked for; the whole process shares them.
#[derive(Clone, Debug)]
pub struct Discoveries(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Clock,
    /// Asked instead of the machine's own, unless there are none.
    nameservers: Vec<SocketAddr>,
    handle: Handle,
    end: Arc<Notify>,
    state: Mutex<State>,
    /// A list was found.
    found: Condvar,
    /// The same, for who waits on the thread of the lists.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    watches: Vec<Watch>,
}

#[derive(Debug)]
struct Watch {
    spec: DiscoverySpec,
    list: Option<Arc<ServerList>>,
    seen: Seen,
    task: AbortHandle,
}

/// What statistics show of a list.
#[derive(Clone, Debug)]
pub struct Seen {
    pub state: ListState,
    pub counts: Counts,
    /// Why the last answer was of no use; empty if it was of use.
    pub trouble: String,
    /// When an answer last was the list in force, by the process's clock.
    pub confirmed: Option<Moment>,
    /// When the list in force was taken.
    pub taken: Option<Moment>,
}

impl Discoveries {
    /// Starts the thread. Nothing is looked for yet.
    ///
    /// # Errors
    /// When the machine refuses a thread or an event queue.
    pub fn start(clock: Clock, nameservers: &[SocketAddr]) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let end = Arc::new(Notify::new());
        let shared = Shared {
            clock,
            nameservers: nameservers.to_vec(),
            handle: runtime.handle().clone(),
            end: Arc::clone(&end),
            state: Mutex::default(),
            found: Condvar::new(),
            changed: Notify::new(),
        };
        spawn_named("discovery".into(), move || {
            runtime.block_on(end.notified());
            // A file that cannot be read must not hold up the end of the process.
            runtime.shutdown_background();
        })?;
        Ok(Discoveries(Arc::new(shared)))
    }

    /// Looks for these lists from now on, if it does not yet.
    pub fn look_for<'a>(&self, specs: impl Iterator<Item = &'a DiscoverySpec>) {
        let mut state = self.lock();
        for spec in specs {
            if state.watches.iter().any(|watch| watch.spec == *spec) {
                continue;
            }
            let task = watch(self.clone(), spec.clone());
            state.watches.push(Watch {
                spec: spec.clone(),
                list: None,
                seen: Seen {
                    state: ListState::Unknown,
                    counts: Counts::default(),
                    trouble: String::new(),
                    confirmed: None,
                    taken: None,
                },
                task: self.0.handle.spawn(task).abort_handle(),
            });
        }
    }

    /// Has the process's own file looked at as often as files with servers, until the thread ends. A look may take its time.
    pub fn look_regularly(&self, mut look: impl FnMut() + Send + 'static) {
        self.0.handle.spawn(async move {
            loop {
                tokio::time::sleep(FILE_REFRESH).await;
                let looked = spawn_blocking(move || {
                    look();
                    look
                });
                match looked.await {
                    Ok(again) => look = again,
                    Err(error) => {
                        return warn!("the file is looked at no more: {error}");
                    }
                }
            }
        });
    }

    /// Waits until all lists are known that are looked for, or until a time. Whether they are.
    pub fn wait_until(&self, until: Instant) -> bool {
        let mut state = self.lock();
        loop {
            if state.watches.iter().all(|watch| watch.list.is_some()) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.0.found.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The list in force.
    pub fn list(&self, spec: &DiscoverySpec) -> Option<Arc<ServerList>> {
        let state = self.lock();
        let watch = state.watches.iter().find(|watch| watch.spec == *spec)?;
        watch.list.clone()
    }

    /// What statistics show of a list.
    pub fn seen(&self, spec: &DiscoverySpec) -> Option<Seen> {
        let state = self.lock();
        let watch = state.watches.iter().find(|watch| watch.spec == *spec)?;
        Some(watch.seen.clone())
    }

    /// Gives up all other lists.
    pub fn keep_only<'a>(&self, specs: impl Iterator<Item = &'a DiscoverySpec>) {
        let specs: Vec<&DiscoverySpec> = specs.collect();
        self.lock().watches.retain(|watch| {
            let is_kept = specs.contains(&&watch.spec);
            if !is_kept {
                watch.task.abort();
            }
            is_kept
        });
    }

    /// Ends the thread.
    pub fn stop(&self) {
        for watch in &self.lock().watches {
            watch.task.abort();
        }
        self.0.end.notify_one();
    }

    /// Runs a task on the thread of the lists, until that ends.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.handle.spawn(task);
    }

    /// Waits until there is another list than when one waited last. For one task only.
    pub async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Notes what came of an answer.
    fn note(&self, spec: &DiscoverySpec, membership: &Membership, is_taken: bool) {
        // Outside the lock: tables of some distributions take a while.
        let list = is_taken.then(|| ServerList::new(membership.placement().clone()));
        let mut state = self.lock();
        let mut watches = state.watches.iter_mut();
        let Some(watch) = watches.find(|watch| watch.spec == *spec) else {
            return;
        };
        let now = self.0.clock.now().monotonic;
        let is_current = membership.state() == ListState::Current;
        watch.seen = Seen {
            state: membership.state(),
            counts: membership.counts(),
            trouble: membership.trouble().to_owned(),
            confirmed: is_current.then_some(now).or(watch.seen.confirmed),
            taken: is_taken.then_some(now).or(watch.seen.taken),
        };
        if let Some(Ok(list)) = list {
            watch.list = Some(Arc::new(list));
            self.0.found.notify_all();
            self.0.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks for one list for ever.
async fn watch(discoveries: Discoveries, spec: DiscoverySpec) {
    let clock = discoveries.0.clock;
    let mut names = Names::new(&discoveries.0.nameservers);
    let mut membership = Membership::new(spec.pace(), &spec.placement);
    // The standard library seeds this from the machine's randomness.
    let chance = RandomState::new();
    loop {
        let answer = spec.source.ask(&mut names).await;
        let now = clock.now().monotonic;
        let jitter = chance.hash_one(now.0) as f64 / u64::MAX as f64;
        let heard = membership.handle_answer(now, answer, jitter);
        let is_first = membership.counts().answers == 1;
        if heard.is_taken || heard.has_turned || is_first {
            tell_operator(&spec.source, &membership);
        }
        discoveries.note(&spec, &membership, heard.is_taken);
        let pause = membership.ask_at().since(clock.now().monotonic);
        tokio::time::sleep(pause).await;
    }
}

fn tell_operator(source: &Source, membership: &Membership) {
    let count = membership.placement().servers.len();
    let trouble = membership.trouble();
    match membership.state() {
        ListState::Unknown => warn!("{source}: no servers yet: {trouble}"),
        ListState::Kept => {
            warn!("{source}: {trouble}; the {count} servers known so far stay");
        }
        ListState::Current | ListState::Unsettled(_) => {
            info!("{source}: {count} servers");
        }
    }
}
