//! What phase 2 is told: the workers of a server, their cachelets, and the loads that decide.

use std::collections::BTreeSet;

use evenkeel_types::{CacheletId, Instant};
use serde::{Deserialize, Serialize};

use crate::is_load;

/// A cachelet as its server sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostedCachelet {
    /// Its number in the map.
    pub cachelet: CacheletId,
    /// The worker that the map gives it to.
    pub home: u16,
    /// The worker that has it at present.
    pub host: u16,
    /// Its load.
    pub load: f64,
    /// What its items take, in bytes. A local move does not copy them; it is kept with the plan.
    pub memory_bytes: u64,
    /// When it last changed hands within the server, if it ever did.
    pub moved_at: Option<Instant>,
}

impl HostedCachelet {
    /// Whether another worker than its home has it.
    pub fn is_lent(&self) -> bool {
        self.host != self.home
    }
}

/// What phase 2 is told.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalInput {
    /// Now.
    pub now: Instant,
    /// Load of each worker, by its index: its cachelets and whatever else it does, such as replicas.
    /// Where the cachelets have more together, their sum counts.
    pub loads: Vec<f64>,
    /// Every cachelet that the workers host, each once.
    pub cachelets: Vec<HostedCachelet>,
}

/// An input that contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum BadInput {
    /// A load is not a number from 0 on.
    #[error("a load of {0}")]
    Load(f64),
    /// A cachelet with a home or a host that the server does not have.
    #[error("cachelet {cachelet} belongs to worker {worker} of {workers}")]
    Worker {
        /// The cachelet.
        cachelet: CacheletId,
        /// Its home or its host.
        worker: u16,
        /// This many workers there are.
        workers: usize,
    },
    /// A cachelet is listed twice.
    #[error("cachelet {0} is listed twice")]
    Twice(CacheletId),
}

impl LocalInput {
    /// Checks that loads are loads, workers exist and no cachelet is listed twice.
    ///
    /// # Errors
    ///
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), BadInput> {
        let workers = self.loads.len();
        let loads = self.loads.iter().copied();
        let all_loads = loads.chain(self.cachelets.iter().map(|c| c.load));
        if let Some(bad) = all_loads.into_iter().find(|&load| !is_load(load)) {
            return Err(BadInput::Load(bad));
        }
        let mut seen = BTreeSet::new();
        for c in &self.cachelets {
            for worker in [c.home, c.host] {
                if usize::from(worker) >= workers {
                    let cachelet = c.cachelet;
                    return Err(BadInput::Worker {
                        cachelet,
                        worker,
                        workers,
                    });
                }
            }
            if !seen.insert(c.cachelet) {
                return Err(BadInput::Twice(c.cachelet));
            }
        }
        Ok(())
    }
}

/// Loads that decide. The caller derives them from the mean load of the cluster, or from what a worker can do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocalLimits {
    /// A worker above this load is overloaded.
    pub overloaded: f64,
    /// No plan loads a worker beyond this, and an overloaded one is to come down to it. At most
    /// [`overloaded`](Self::overloaded).
    pub permissible: f64,
}
