//! Flags and environment of `evenkeel coordinator`. A flag wins over its environment variable.

use std::path::PathBuf;
use std::time::Duration;

use crate::guard::GuardArgs;
use evenkeel_coordinator_core::plans::PlanMode;
use evenkeel_coordinator_core::{CoordinatorConfig, limits};
use evenkeel_member::DEFAULT_CLUSTER;
use evenkeel_runtime::LogOptions;

/// Where a coordinator listens unless told otherwise: next to memcached's port, on loopback alone.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:11210";

/// Flags of `evenkeel coordinator`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR", env = "EVENKEEL_COORDINATOR_LISTEN", default_value = DEFAULT_LISTEN)]
    pub listen: String,
    /// Listen beyond this machine without --api-token-file or --tls-client-ca: anyone who can connect can change the cluster
    #[arg(long, env = "EVENKEEL_COORDINATOR_INSECURE")]
    pub insecure: bool,
    /// File that keeps ids, epochs and owners over restarts. Where none is given it is coordinator-CLUSTER.state in
    /// /var/lib/evenkeel for root and in ~/.local/state/evenkeel for others ($STATE_DIRECTORY and $XDG_STATE_HOME are
    /// heeded); a coordinator on a free port (port 0) keeps them in memory alone
    #[arg(long, value_name = "FILE", env = "EVENKEEL_COORDINATOR_STATE")]
    pub state: Option<PathBuf>,
    /// Servers to wait for before the first map is made
    #[arg(
        long,
        value_name = "N",
        env = "EVENKEEL_COORDINATOR_INITIAL_SERVERS",
        default_value_t = 1
    )]
    pub initial_servers: usize,
    /// Cachelets for each worker of the first map; without it, one for each 4 MiB of its memory, 16 to 64
    #[arg(
        long,
        value_name = "N",
        env = "EVENKEEL_COORDINATOR_CACHELETS_PER_WORKER"
    )]
    pub cachelets_per_worker: Option<usize>,
    /// Name of the cluster; members of another are refused
    #[arg(long, value_name = "NAME", env = "EVENKEEL_COORDINATOR_CLUSTER", default_value = DEFAULT_CLUSTER)]
    pub cluster: String,
    /// A member that is silent for this many milliseconds is taken to be down
    #[arg(
        long,
        value_name = "MS",
        env = "EVENKEEL_COORDINATOR_SILENT_MS",
        default_value_t = limits::SERVER_SILENT.as_millis() as u64
    )]
    pub silent_ms: u64,
    /// What becomes of plans to even out load between servers in a new cluster: automatic executes them, approve waits
    /// for an operator, observe shows them. Later `evenkeel plans mode` counts
    #[arg(
        long,
        value_name = "MODE",
        env = "EVENKEEL_COORDINATOR_PLANS",
        default_value_t = PlanMode::default()
    )]
    pub plans: PlanMode,
    /// File that says what starts and stops servers of the cluster, and of pools whose rings follow their load; see docs/scaling.md
    #[arg(long, value_name = "FILE", env = "EVENKEEL_COORDINATOR_SCALER")]
    pub scaler: Option<PathBuf>,
    /// What is logged on standard error.
    #[command(flatten)]
    pub log: LogOptions,
    /// What is asked of callers.
    #[command(flatten)]
    pub guard: GuardArgs,
    /// Where several coordinators keep the state together.
    #[command(flatten)]
    pub etcd: crate::etcd::EtcdArgs,
}

impl Default for Args {
    /// The values of the flags that are not given, without a look at the environment.
    fn default() -> Self {
        Args {
            listen: DEFAULT_LISTEN.to_owned(),
            insecure: false,
            state: None,
            initial_servers: 1,
            cachelets_per_worker: None,
            cluster: DEFAULT_CLUSTER.to_owned(),
            silent_ms: limits::SERVER_SILENT.as_millis() as u64,
            plans: PlanMode::default(),
            scaler: None,
            log: LogOptions::default(),
            guard: GuardArgs::default(),
            etcd: crate::etcd::EtcdArgs::default(),
        }
    }
}

impl Args {
    /// What the core is told.
    pub(crate) fn config(&self) -> CoordinatorConfig {
        CoordinatorConfig {
            cluster: self.cluster.clone(),
            initial_servers: self.initial_servers,
            cachelets_per_worker: self.cachelets_per_worker,
            silent: Duration::from_millis(self.silent_ms),
            plan_mode: self.plans,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn the_defaults_of_flags_and_of_the_type_are_the_same() {
        let parsed = Command::try_parse_from(["coordinator"]).unwrap().args;
        assert_eq!(format!("{parsed:?}"), format!("{:?}", Args::default()));
        assert_eq!(parsed.config().validate(), Ok(()));
    }

    #[test]
    fn flags_are_named_as_documented() {
        let parsed = Command::try_parse_from([
            "coordinator",
            "--listen=[::1]:0",
            "--state=/tmp/s",
            "--initial-servers=4",
            "--cachelets-per-worker=8",
            "--cluster=blue",
            "--silent-ms=900",
            "--plans=automatic",
        ]);
        let config = parsed.unwrap().args.config();
        let expected = CoordinatorConfig {
            cluster: "blue".into(),
            initial_servers: 4,
            cachelets_per_worker: Some(8),
            silent: Duration::from_millis(900),
            plan_mode: PlanMode::Automatic,
        };
        assert_eq!(config, expected);
        assert!(Command::try_parse_from(["coordinator", "--silent=1"]).is_err());
    }
}
