//! What a coordinator is told once, when it starts.

use core::time::Duration;

use evenkeel_types::map::SERVERS_MAX;

use crate::limits;
use crate::plans::PlanMode;
use evenkeel_control::check_name;

/// What a coordinator is told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorConfig {
    /// Name of the cluster; members of another are refused.
    pub cluster: String,
    /// Servers that must be up before the first map is made. At least 1.
    pub initial_servers: usize,
    /// Cachelets for each worker of the first map, at least 1; as many as memory
    /// [carries](evenkeel_types::map::cachelets_per_worker) where it is not said.
    pub cachelets_per_worker: Option<usize>,
    /// A member silent for this long is down. From [`limits::SILENT_MIN`] to [`limits::SILENT_MAX`].
    pub silent: Duration,
    /// What becomes of plans of a new cluster. Later the operator's last word counts, which is saved.
    pub plan_mode: PlanMode,
}

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The cluster's name is unusable.
    #[error("use cluster name {name:?}: it must be 1 to 255 visible ASCII characters")]
    BadCluster {
        /// The name.
        name: String,
    },
    /// A first map needs servers, and not more than there can be.
    #[error("wait for {count} initial servers: it must be 1 to {SERVERS_MAX}")]
    BadInitialServers {
        /// The number.
        count: usize,
    },
    /// Cachelets for each worker out of range.
    #[error("make {count} cachelets for each worker: it must be 1 to {max}", max = limits::CACHELETS_MAX)]
    BadCachelets {
        /// The number.
        count: usize,
    },
    /// Silence out of range.
    #[error(
        "take a member to be down after {silent:?}: it must be {min:?} to {max:?}",
        min = limits::SILENT_MIN,
        max = limits::SILENT_MAX
    )]
    BadSilent {
        /// The duration.
        silent: Duration,
    },
}

impl CoordinatorConfig {
    /// A configuration with the defaults, for a cluster of that name.
    pub fn new(cluster: &str) -> Self {
        CoordinatorConfig {
            cluster: cluster.to_owned(),
            initial_servers: 1,
            cachelets_per_worker: None,
            silent: limits::SERVER_SILENT,
            plan_mode: PlanMode::default(),
        }
    }

    /// Checks the ranges of all fields.
    ///
    /// # Errors
    ///
    /// The first field out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if check_name("cluster", &self.cluster).is_err() {
            let name = self.cluster.clone();
            return Err(ConfigError::BadCluster { name });
        }
        if !(1..=SERVERS_MAX).contains(&self.initial_servers) {
            let count = self.initial_servers;
            return Err(ConfigError::BadInitialServers { count });
        }
        if let Some(count) = self.cachelets_per_worker
            && !(1..=limits::CACHELETS_MAX).contains(&count)
        {
            return Err(ConfigError::BadCachelets { count });
        }
        if !(limits::SILENT_MIN..=limits::SILENT_MAX).contains(&self.silent) {
            let silent = self.silent;
            return Err(ConfigError::BadSilent { silent });
        }
        Ok(())
    }

    /// Time between a member's heartbeats when nothing special happens.
    pub fn interval(&self) -> Duration {
        self.silent / limits::HEARTBEATS_PER_SILENCE
    }
}
