//! The coordinator's process.

use super::process::Process;
use super::units::MS;
use crate::history::Nanos;
use core::time::Duration;
use evenkeel_coordinator_core::{CoordinatorConfig, CoordinatorCore};
use evenkeel_hotkeys::config::Mode;
use evenkeel_types::Instant;
use evenkeel_types::map::ClusterMap;
use std::sync::Arc;

/// A member silent for this long is down.
pub(super) const SILENT: Duration = Duration::from_nanos(400 * MS);

/// Cachelets of each worker.
pub(super) const CACHELETS_PER_WORKER: usize = 8;

/// Pause of a member that has heard nothing of the coordinator yet.
pub(super) const FIRST_INTERVAL: Nanos = 30 * MS;

pub(super) const CLUSTER: &str = "simulated";

/// Part of its time that each worker is said to be busy. Servers take no time here, and plans would find nobody
/// overloaded.
pub(super) const BUSY: f64 = 0.5;

/// The coordinator's process. It answers at once or, while it is stopped, not at all.
#[derive(Debug)]
pub(super) struct Coordinator {
    pub process: Process,
    pub core: CoordinatorCore,
    pub lineage: u64,
    pub hot_keys: Mode,
    /// When hot keys are switched next, they go on being observed.
    pub observe_next: bool,
    /// Servers that this life of it has given up, as far as that was looked at.
    pub given_up: u64,
    /// Newest map that was looked at for what was given away, and what began with it.
    pub looked_at: Option<Arc<ClusterMap>>,
}

impl Coordinator {
    /// One that has run for this long when the run begins.
    pub fn new(process: Process, servers: usize, lineage: u64, age: Duration) -> Self {
        let config = CoordinatorConfig {
            initial_servers: servers,
            cachelets_per_worker: Some(CACHELETS_PER_WORKER),
            silent: SILENT,
            ..CoordinatorConfig::new(CLUSTER)
        };
        let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        let began = Instant(process.clock.read(0).0.saturating_sub(age));
        let core = CoordinatorCore::new(config, lineage, began);
        let core = core.expect("sound settings");
        Coordinator {
            process,
            core,
            lineage,
            hot_keys: Mode::On,
            observe_next: false,
            given_up: 0,
            looked_at: None,
        }
    }
}
