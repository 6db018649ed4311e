//! A cluster and a ring, each with an actuator that starts servers as small as those that were there before.

use crate::experiments::adaptive::fleet::{POOL, RingFleet};
use crate::fleet::{Fleet, FleetPlan, Pool, Smallness};
use anyhow::Context;
use evenkeel_bench::Target;
use evenkeel_coordinator_core::Mode as HotKeysMode;
use evenkeel_coordinator_core::plans::PlanMode;
use evenkeel_coordinator_core::scale::ScaleSettings;
use evenkeel_coordinator_core::{RingMode, ScalesView};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// Keys a second that each server serves.
pub(super) const CAPACITY: u64 = 1_000;

/// How long items of a ring come along that are asked for when a part of it moves, where they are not copied: the default.
const WARMING: Duration = Duration::from_secs(10);

/// Keys that are copied in a second. Each costs a newcomer three of [`CAPACITY`].
const COPIED: u32 = 150;

/// Servers that come and go.
pub(super) trait ScaledFleet {
    /// The proxies.
    fn targets(&self) -> Vec<Target>;

    /// From now on servers come and go.
    fn set_scale(&self, settings: &ScaleSettings) -> anyhow::Result<()>;

    /// How that stands.
    fn scales(&self) -> anyhow::Result<ScalesView>;
}

/// A folder with the file of an actuator.
#[derive(Debug)]
struct Actuator(TempDir);

impl Actuator {
    /// One that starts servers of a cluster, or others.
    fn new(is_of_cluster: bool) -> anyhow::Result<Actuator> {
        let actuator = Actuator(TempDir::new().context("making a folder")?);
        let program = std::env::current_exe().context("finding this program's own file")?;
        let mut starts = format!(
            "exec '{}' server -t 1 -m 64 -u root --test-service-time {} \"$@\"",
            program.display(),
            1_000_000_000 / CAPACITY
        );
        let mut arguments = String::new();
        if is_of_cluster {
            // The coordinator has no address yet.
            let url = actuator.url();
            write!(starts, " --coordinator \"$(cat '{}')\"", url.display())?;
            arguments.push_str(", \"--name\", \"{name}\"");
        }
        let lines = [
            "[process]".to_owned(),
            "program = \"sh\"".to_owned(),
            format!("arguments = [\"-c\", '''{starts}''', \"sh\"{arguments}]"),
            format!("folder = '{}'", actuator.0.path().join("servers").display()),
        ];
        fs::write(actuator.file(), lines.join("\n")).context("writing an actuator's file")?;
        Ok(actuator)
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("scaler.toml")
    }

    /// A file in which servers find where their coordinator is.
    fn url(&self) -> PathBuf {
        self.0.path().join("url")
    }

    /// What a coordinator is started with.
    fn flags(&self) -> [String; 2] {
        ["--scaler".to_owned(), self.file().display().to_string()]
    }
}

/// A cluster of Evenkeel's servers.
#[derive(Debug)]
pub(super) struct ClusterFleet {
    // In the order in which they should go.
    fleet: Fleet,
    _actuator: Actuator,
}

impl ClusterFleet {
    pub(super) fn start(servers: usize) -> anyhow::Result<ClusterFleet> {
        let actuator = Actuator::new(true)?;
        let fleet = Fleet::start(&FleetPlan {
            servers,
            smallness: Smallness::of_capacity(CAPACITY),
            proxies: 2,
            pool: Pool::Cluster {
                hot_keys: HotKeysMode::On,
                plans: PlanMode::Automatic,
            },
            coordinator_flags: actuator.flags().into(),
            ..FleetPlan::default()
        })?;
        fs::write(actuator.url(), fleet.coordinator_url()?).context("writing an address")?;
        Ok(ClusterFleet {
            fleet,
            _actuator: actuator,
        })
    }
}

impl ScaledFleet for ClusterFleet {
    fn targets(&self) -> Vec<Target> {
        self.fleet.targets().collect()
    }

    fn set_scale(&self, settings: &ScaleSettings) -> anyhow::Result<()> {
        self.fleet.set_scale(settings)
    }

    fn scales(&self) -> anyhow::Result<ScalesView> {
        self.fleet.scales()
    }
}

/// A ring, whose newcomers are servers without a cluster.
#[derive(Debug)]
pub(super) struct ScaledRing {
    fleet: RingFleet,
    _actuator: Actuator,
}

impl ScaledRing {
    pub(super) fn start(servers: usize) -> anyhow::Result<ScaledRing> {
        let actuator = Actuator::new(false)?;
        let fleet = RingFleet::start_with(servers, CAPACITY, &actuator.flags())?;
        fleet.set(RingMode::Automatic, WARMING)?;
        fleet.copy(COPIED)?;
        Ok(ScaledRing {
            fleet,
            _actuator: actuator,
        })
    }
}

impl ScaledFleet for ScaledRing {
    fn targets(&self) -> Vec<Target> {
        self.fleet.targets()
    }

    fn set_scale(&self, settings: &ScaleSettings) -> anyhow::Result<()> {
        self.fleet.api().set_scale(POOL, settings)?;
        Ok(())
    }

    fn scales(&self) -> anyhow::Result<ScalesView> {
        Ok(self.fleet.api().scales()?)
    }
}
