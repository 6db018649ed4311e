//! What the workers count of the keys of plain pools goes to a coordinator, which adds up what all
//! proxies count, and comes back as the sum: a key is found that is hot only in all of them together.
//!
//! One thread does this, once a second, for the pools whose configuration names a coordinator. Nothing
//! waits for it: without an answer the workers go by their own counts.

use crate::clusters::Identity;
use crate::config::Settings;
use crate::control::{Control, WorkerHandle};
use evenkeel_coordinator::access::Access;
use evenkeel_coordinator::api::HotKeysReport;
use evenkeel_coordinator::client::ApiClient;
use evenkeel_policy::hot_keys::plain::{COUNTERS, PlainMode};
use evenkeel_policy::hot_keys::shared::SharedCounts;
use evenkeel_policy::hot_keys::sketch::TopKeys;
use evenkeel_runtime::spawn_named;
use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the counts are exchanged: twice as long as they take to follow a change.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long a worker may take to say what it has counted. One that is stuck for longer is left out.
const WORKER_PATIENCE: Duration = Duration::from_millis(500);

/// The thread, once there is something for it to do.
#[derive(Debug)]
pub struct Sharing {
    proxy: String,
    access: Access,
    workers: Arc<[WorkerHandle]>,
    orders: Arc<Orders>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Orders {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    plans: Vec<Plan>,
    stopping: bool,
}

/// A pool and who adds up what is counted of it; the first coordinator that answers is taken.
#[derive(Clone, Debug)]
pub struct Plan {
    pool: Arc<str>,
    coordinators: Vec<String>,
}

/// What settings say is to be shared.
pub fn plans(settings: &Settings) -> Vec<Plan> {
    let shared = settings.pools.iter().filter(|pool| {
        !pool.hot_keys_coordinators.is_empty() && pool.settings.hot_keys.mode != PlainMode::Off
    });
    let plans = shared.map(|pool| Plan {
        pool: Arc::clone(&pool.name),
        coordinators: pool.hot_keys_coordinators.clone(),
    });
    plans.collect()
}

impl Orders {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plans of now, after an interval; `None` when it is over.
    fn next(&self) -> Option<Vec<Plan>> {
        let until = Instant::now() + INTERVAL;
        let mut state = self.lock();
        loop {
            if state.stopping {
                return None;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some(state.plans.clone());
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Sharing {
    /// Of this proxy; shares nothing yet.
    pub fn new(proxy: &Identity, workers: &Arc<[WorkerHandle]>) -> Self {
        Sharing {
            proxy: proxy.name.clone(),
            access: proxy.access.clone(),
            workers: Arc::clone(workers),
            orders: Arc::default(),
            thread: None,
        }
    }

    /// From now on shares what these plans say.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn configure(&mut self, plans: Vec<Plan>) -> std::io::Result<()> {
        let is_needed = !plans.is_empty();
        self.orders.lock().plans = plans;
        if is_needed && self.thread.is_none() {
            let (orders, workers) = (Arc::clone(&self.orders), Arc::clone(&self.workers));
            let (proxy, access) = (self.proxy.clone(), self.access.clone());
            let thread = spawn_named("hot-keys".into(), move || {
                run(&orders, &workers, &proxy, &access);
            });
            self.thread = Some(thread?);
        }
        Ok(())
    }

    /// Ends the thread, after the call that is under way.
    pub fn stop(&mut self) {
        self.orders.lock().stopping = true;
        self.orders.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // Its panic was told on the way.
            let _ = thread.join();
        }
    }
}

fn run(orders: &Orders, workers: &[WorkerHandle], proxy: &str, access: &Access) {
    let mut clients: BTreeMap<String, ApiClient> = BTreeMap::new();
    // Pools whose counts could not be shared the last time.
    let mut failing: BTreeMap<Arc<str>, String> = BTreeMap::new();
    while let Some(plans) = orders.next() {
        failing.retain(|pool, _| plans.iter().any(|plan| plan.pool == *pool));
        if plans.is_empty() {
            continue;
        }
        let mut counted = counts(workers);
        for plan in plans {
            let Some(counts) = counted.remove(&plan.pool) else {
                continue;
            };
            let report = HotKeysReport {
                pool: plan.pool.to_string(),
                proxy: proxy.to_owned(),
                counts: SharedCounts::of(&counts, 1.0),
            };
            match share(&mut clients, access, &plan.coordinators, &report) {
                Ok(sum) => {
                    let sum = Arc::new(sum);
                    for worker in workers {
                        worker.say(Control::HotKeysShared(
                            Arc::clone(&plan.pool),
                            Arc::clone(&sum),
                        ));
                    }
                    if failing.remove(&plan.pool).is_some() {
                        let pool = plan.pool;
                        eprintln!("evenkeel proxy: hot keys of pool {pool} are shared again");
                    }
                }
                Err(error) if failing.get(&plan.pool) != Some(&error) => {
                    let pool = &plan.pool;
                    eprintln!(
                        "evenkeel proxy: hot keys of pool {pool} are not shared, each worker goes by its own \
                         counts: {error}"
                    );
                    failing.insert(plan.pool, error);
                }
                Err(_) => {}
            }
        }
    }
}

/// What the workers have counted, added up by pool.
fn counts(workers: &[WorkerHandle]) -> BTreeMap<Arc<str>, TopKeys> {
    let (sender, answers) = channel();
    for worker in workers {
        worker.say(Control::HotKeysWanted(sender.clone()));
    }
    drop(sender);
    let until = Instant::now() + WORKER_PATIENCE;
    let mut sums: BTreeMap<Arc<str>, TopKeys> = BTreeMap::new();
    while let Ok(answer) = answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
        for (pool, counts) in answer {
            if let Some(counts) = counts.to_counts(COUNTERS) {
                let sum = sums.entry(pool).or_insert_with(|| TopKeys::new(COUNTERS));
                sum.merge(&counts);
            }
        }
    }
    sums
}

fn share(
    clients: &mut BTreeMap<String, ApiClient>,
    access: &Access,
    coordinators: &[String],
    report: &HotKeysReport,
) -> Result<SharedCounts, String> {
    let mut failure = String::new();
    for address in coordinators {
        if !clients.contains_key(address) {
            match ApiClient::with_access(address, access) {
                Ok(client) => {
                    clients.insert(address.clone(), client);
                }
                Err(error) => failure = error.to_string(),
            }
        }
        match clients
            .get(address)
            .map(|client| client.share_hot_keys(report))
        {
            Some(Ok(sum)) => return Ok(sum),
            Some(Err(error)) => failure = error.to_string(),
            None => {}
        }
    }
    Err(failure)
}
