//! What a cluster on one machine consists of, and the flags that say so.

use evenkeel_bench::OutputFormat;
use evenkeel_coordinator_core::Mode;
use evenkeel_runtime::UsageError;
use evenkeel_workload::ValueSizes;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Most servers of one machine's cluster.
const SERVERS_MAX: usize = 64;

/// Proxies of one machine's cluster: as many as may lead hot keys.
const PROXIES: std::ops::RangeInclusive<i64> = 1..=16;

/// memcacheds with `--adaptive`. Two carry about the same from the beginning; of more than eight one would carry more than the mean by the hottest key alone, which no ring evens out.
const MEMCACHEDS: std::ops::RangeInclusive<i64> = 3..=8;

/// What a worker of the demo serves in a second: it sleeps for a millisecond for each key. So a few servers, and a load that overloads
/// one of them, have room on a small machine.
const DEMO_WORKER_RPS: u32 = 1000;
/// The demo's load, as a part of what its servers can do together.
const DEMO_LOAD: f64 = 0.7;
const DEMO_SERVICE_TIME: &str = "--test-service-time=1000000";
const SERVICE_TIME_FLAG: &str = "--test-service-time";

/// Connections that the proxy has room for besides those of the demo's load: memcached's default.
const CONNECTIONS: usize = 1024;

/// Starts a coordinator, servers and a proxy on this machine; Ctrl-C stops everything.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("load").args(["demo", "adaptive"]).multiple(true))]
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

    /// Proxies
    #[arg(
        long,
        default_value_t = 1,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(PROXIES),
        conflicts_with = "demo"
    )]
    pub proxies: u16,

    /// Address of the proxy, of several the first; port 0 takes a free one
    #[arg(short = 'l', long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub listen: SocketAddr,

    /// Address of the coordinator; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub coordinator_listen: SocketAddr,

    /// One more flag for every server, such as --server-arg=--balance-workers=off; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub server_arg: Vec<String>,

    /// One more flag for every proxy, such as --proxy-arg=--admin=127.0.0.1:0; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub proxy_arg: Vec<String>,

    /// Write where everything is into this file, as JSON, once the cluster serves
    #[arg(long, value_name = "FILE")]
    pub addresses: Option<PathBuf>,

    /// Drive a skewed workload, first as through memcached, then with balancing, and compare. The servers are small: each worker serves
    /// 1,000 keys a second (--server-arg=--test-service-time=0 for as many as it can)
    #[arg(long)]
    pub demo: bool,

    /// Let the ring of a pool of memcacheds follow a skewed load, and show who carries what: starts memcacheds, two proxies and a
    /// coordinator
    #[arg(
        long,
        conflicts_with_all = ["servers", "threads", "lease_ms", "listen", "server_arg", "proxies", "proxy_arg", "addresses", "open"]
    )]
    pub adaptive: bool,

    /// Open the coordinator's web page in a browser
    #[arg(long)]
    pub open: bool,

    /// How the result is printed; with json, progress goes to standard error
    #[arg(long, value_enum, default_value_t, requires = "load")]
    pub format: OutputFormat,

    #[command(flatten)]
    pub of_demo: DemoArgs,

    #[command(flatten)]
    pub of_adaptive: AdaptiveArgs,
}

impl Args {
    /// What servers are told besides what every cluster needs.
    pub fn server_arguments(&self) -> Vec<String> {
        let mut arguments = self.server_arg.clone();
        let is_said = |argument: &String| argument.starts_with(SERVICE_TIME_FLAG);
        if self.demo && !arguments.iter().any(is_said) {
            arguments.push(DEMO_SERVICE_TIME.to_owned());
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
            // Not told to the parser, which would let one have the other's flags then.
            _ if self.demo && self.adaptive => Err(UsageError(
                "--demo and --adaptive do not go together".into(),
            )),
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
}

/// Flags of what `--adaptive` shows.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "With --adaptive")]
pub struct AdaptiveArgs {
    /// memcacheds, each with a hard capacity of 2,000 keys a second
    #[arg(
        long,
        default_value_t = 5,
        value_parser = clap::value_parser!(u16).range(MEMCACHEDS),
        value_name = "N",
        requires = "adaptive"
    )]
    pub memcached: u16,

    /// Ends after this many seconds of load [default: when it is stopped]
    #[arg(
        long,
        value_parser = clap::value_parser!(u64).range(1..=86_400),
        value_name = "SECONDS",
        requires = "adaptive"
    )]
    pub seconds: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    fn up(line: &str) -> Result<Args, String> {
        let words = ["up"].into_iter().chain(line.split_whitespace());
        let parsed = Program::try_parse_from(words).map_err(|error| error.to_string());
        parsed.map(|program| program.args)
    }

    #[test]
    fn adaptive_needs_no_other_flag() {
        let args = up("--adaptive").expect("sound");
        assert_eq!(
            (args.of_adaptive.memcached, args.of_adaptive.seconds),
            (5, None)
        );
        let args = up("--memcached 3 --adaptive --seconds 60 -m 32 --format json").expect("sound");
        assert_eq!((args.of_adaptive.memcached, args.memory_limit), (3, 32));
        assert_eq!(args.of_adaptive.seconds, Some(60));
    }

    #[test]
    fn what_does_not_go_together_is_refused_by_name() {
        for (line, words) in [
            ("--memcached 5", ["--adaptive", "required"]),
            ("--seconds 5", ["--adaptive", "required"]),
            ("--format json", ["--adaptive", "--demo"]),
            ("--demo --memcached 5", ["--adaptive", "required"]),
            (
                "--adaptive --servers 4",
                ["--servers", "cannot be used with"],
            ),
            ("--adaptive -t 1", ["--threads", "cannot be used with"]),
            ("--adaptive --open", ["--open", "cannot be used with"]),
            ("--demo --proxies 2", ["--proxies", "cannot be used with"]),
            ("--proxies 17", ["--proxies", "1..=16"]),
            (
                "--adaptive -l 127.0.0.1:1",
                ["--listen", "cannot be used with"],
            ),
            ("--adaptive --keys 5", ["--demo", "--keys"]),
            ("--adaptive --memcached 2", ["--memcached", "3..=8"]),
            ("--adaptive --memcached 9", ["--memcached", "3..=8"]),
            ("--adaptive --seconds 0", ["--seconds", "0"]),
        ] {
            let told = up(line).expect_err(line);
            assert!(
                words.iter().all(|word| told.contains(word)),
                "{line}: {told}"
            );
        }
        let both = up("--adaptive --demo").expect("read").check();
        let told = both.expect_err("both").to_string();
        assert!(told.contains("--demo and --adaptive"), "{told}");
    }
}
