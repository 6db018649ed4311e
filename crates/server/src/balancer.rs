//! The thread that balances the workers of a server.
//!
//! Once in an interval it asks them for their loads, has [`ServerBalancer`] decide, and tells them which
//! cachelets to give to whom. Integer programs are solved here, where nobody waits.

use crate::control::{Control, WorkerHandle, ask};
use evenkeel_balance::cachelet_load::{INTERVAL, WorkerLoad};
use evenkeel_balance::share::ClusterLoad;
use evenkeel_runtime::Clock;
use evenkeel_server_core::balancer::{BalancerConfig, BalancerView, ServerBalancer};
use evenkeel_types::ServerId;
use evenkeel_types::map::ClusterMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long workers have to tell their loads. An interval in which one does not is left out.
const ANSWER_TIME: Duration = Duration::from_millis(200);

/// A balancer that several threads see: its own, the one that hears the coordinator, and those that show it.
#[derive(Clone, Debug)]
pub struct SharedBalancer {
    core: Arc<Mutex<ServerBalancer>>,
    clock: Clock,
}

impl SharedBalancer {
    /// The balancer of a server with this many workers.
    pub fn new(config: BalancerConfig, workers: u16, clock: Clock) -> Self {
        let core = ServerBalancer::new(config, workers);
        SharedBalancer {
            core: Arc::new(Mutex::new(core)),
            clock,
        }
    }

    /// The coordinator's map, and which server this is in it.
    pub fn handle_map(&self, map: Arc<ClusterMap>, me: ServerId) {
        self.lock().handle_map(map, me);
    }

    /// What the cluster's workers carry.
    pub fn handle_cluster_load(&self, load: ClusterLoad) {
        self.lock().handle_cluster_load(load);
    }

    /// Whether the coordinator moves cachelets between servers by itself.
    pub fn handle_coordinator(&self, balances: bool) {
        self.lock().handle_coordinator(balances);
    }

    /// Whether hot keys are replicated.
    pub fn handle_replication(&self, replicates: bool) {
        self.lock().handle_replication(replicates);
    }

    /// Whether this server is overloaded and cannot help itself.
    pub fn asks_coordinator(&self) -> bool {
        self.lock().asks_coordinator()
    }

    /// What there is to show.
    pub fn view(&self) -> BalancerView {
        self.lock().view(self.clock.now().monotonic)
    }

    /// Balances until `stop` is set.
    #[allow(clippy::disallowed_methods, reason = "on its own thread")]
    pub fn run(&self, workers: &[WorkerHandle], stop: &AtomicBool) {
        let mut next = Instant::now() + INTERVAL;
        let mut sampling_ratio = 1.0;
        while !stop.load(Ordering::Acquire) {
            let left = next.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                std::thread::park_timeout(left);
                continue;
            }
            next = Instant::now() + INTERVAL;
            let Some(loads) = loads(workers) else {
                continue;
            };
            let now = self.clock.now().monotonic;
            let orders = self.lock().handle_interval(now, &loads);
            for order in orders.moves {
                let (cachelet, to) = (order.cachelet, order.to);
                workers[usize::from(order.from)].say(Control::Give { cachelet, to });
            }
            if orders.sampling_ratio != sampling_ratio {
                sampling_ratio = orders.sampling_ratio;
                for worker in workers {
                    worker.say(Control::Sampling(sampling_ratio));
                }
            }
        }
    }

    /// A panic while it decided has been told of; what it decides next does not depend on it.
    fn lock(&self) -> MutexGuard<'_, ServerBalancer> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the workers say of their loads; `None` when one does not answer in time.
fn loads(workers: &[WorkerHandle]) -> Option<Vec<WorkerLoad>> {
    let workers: Vec<_> = workers.iter().collect();
    let answers = ask(&workers, ANSWER_TIME, Control::DescribeCachelets);
    (answers.len() == workers.len()).then_some(answers)
}
