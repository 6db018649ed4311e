//! What a cluster on one machine consists of, and the flags that say so.

use evenkeel_bench::OutputFormat;
use evenkeel_coordinator_core::Mode;
use evenkeel_runtime::UsageError;
use evenkeel_workload::ValueSizes;
use std::net::SocketAddr;

/// Most servers of one machine's cluster.
const SERVERS_MAX: usize = 64;

/// What a worker of the demo serves in a second: it sleeps for a millisecond for each key. So a few servers, and a load that overloads
/// one of them, have room on a small machine.
const DEMO_WORKER_RPS: u32 = 1000;
/// The demo's load, as a part of what its servers can do together.
const DEMO_LOAD: f64 = 0.7;
const DEMO_TOLL: &str = "--test-toll=1000000";
const TOLL_FLAG: &str = "--test-toll";

/// Connections that the proxy has room for besides those of the demo's load: memcached's default.
const CONNECTIONS: usize = 1024;

/// Starts a coordinator, servers and a proxy on this machine; Ctrl-C stops everything.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Servers [default: 4, with --demo 6]
    #[arg(
        long,
        default_value = "4",
        default_value_if("demo", "true", "6"),
        hide_default_value = true,
        value_name = "N"
    )]
    pub servers: usize,

    /// Workers (threads) of each server [default: 2, with --demo 1]
    #[arg(
        short = 't',
        long,
        default_value = "2",
        default_value_if("demo", "true", "1"),
        hide_default_value = true,
        value_name = "N"
    )]
    pub threads: u16,

    /// Memory of each server, in megabytes
    #[arg(short = 'm', long, default_value_t = 64, value_name = "MEGABYTES")]
    pub memory_limit: usize,

    /// How long a client may read a replica before it asks the home again: the bound of staleness,
    /// in milliseconds
    #[arg(long, default_value_t = 1000, value_name = "MS")]
    pub lease_ms: u32,

    /// Address of the proxy; port 0 takes a free one
    #[arg(short = 'l', long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub listen: SocketAddr,

    /// Address of the coordinator; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub coordinator_listen: SocketAddr,

    /// One more flag for every server, such as --server-arg=--balance-workers=off; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub server_arg: Vec<String>,

    /// Drive a skewed workload, first as through memcached, then with balancing, and compare. The servers are small: each worker serves
    /// 1,000 keys a second (--server-arg=--test-toll=0 for as many as it can)
    #[arg(long)]
    pub demo: bool,

    #[command(flatten)]
    pub of_demo: DemoArgs,
}

impl Args {
    /// What servers are told besides what every cluster needs.
    pub fn server_arguments(&self) -> Vec<String> {
        let mut arguments = self.server_arg.clone();
        let is_said = |argument: &String| argument.starts_with(TOLL_FLAG);
        if self.demo && !arguments.iter().any(is_said) {
            arguments.push(DEMO_TOLL.to_owned());
        }
        arguments
    }

    /// Requests a second of the demo's load.
    pub fn demo_rate(&self) -> f64 {
        let workers = self.servers as f64 * f64::from(self.threads);
        let rate = workers * f64::from(DEMO_WORKER_RPS) * DEMO_LOAD;
        self.of_demo.rate.unwrap_or(rate)
    }

    /// Connections that the proxy must have room for.
    pub fn connections(&self) -> usize {
        match self.demo {
            true => CONNECTIONS + self.of_demo.connections,
            false => CONNECTIONS,
        }
    }

    /// Whether hot keys are replicated from the start.
    pub fn balancing(&self) -> Mode {
        match self.demo {
            true => Mode::Off,
            false => Mode::On,
        }
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// Says which flag is wrong.
    pub fn check(&self) -> Result<(), UsageError> {
        match self.servers {
            1..=SERVERS_MAX => Ok(()),
            servers => Err(UsageError(format!(
                "--servers {servers}: use 1 to {SERVERS_MAX}"
            ))),
        }
    }
}

/// Flags of the demo.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "With --demo")]
pub struct DemoArgs {
    /// Seconds with balancing off
    #[arg(
        long,
        default_value_t = 15.0,
        value_name = "SECONDS",
        requires = "demo"
    )]
    pub off_seconds: f64,

    /// Seconds with balancing on; half way other keys become hot
    #[arg(
        long,
        default_value_t = 30.0,
        value_name = "SECONDS",
        requires = "demo"
    )]
    pub on_seconds: f64,

    /// Connections of the load; each is a client with leases of its own
    #[arg(long, default_value_t = 128, value_name = "N", requires = "demo")]
    pub connections: usize,

    /// Requests a second [default: 70 % of what the servers can do together]
    #[arg(long, value_name = "PER_SECOND", requires = "demo")]
    pub rate: Option<f64>,

    /// Number of generated keys
    #[arg(long, default_value_t = 20_000, value_name = "N", requires = "demo")]
    pub keys: u64,

    /// Exponent of the generated keys' popularity
    #[arg(
        long,
        default_value_t = 1.1,
        value_name = "EXPONENT",
        requires = "demo"
    )]
    pub zipf: f64,

    /// Share of the requests that are gets, 0 to 1; the rest are sets
    #[arg(long, default_value_t = 0.95, value_name = "SHARE", requires = "demo")]
    pub get_share: f64,

    /// Size of values: BYTES, or MIN..MAX
    #[arg(long, default_value = "100", value_name = "BYTES", requires = "demo")]
    pub value_size: ValueSizes,

    /// Fixes keys, mix and arrivals
    #[arg(long, default_value_t = 1, value_name = "N", requires = "demo")]
    pub seed: u64,

    /// How the result is printed; with json, progress goes to standard error
    #[arg(long, value_enum, default_value_t, requires = "demo")]
    pub format: OutputFormat,
}
