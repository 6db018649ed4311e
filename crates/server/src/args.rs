//! The command line of `evenkeel server`: memcached's flags with memcached's meanings, and ours.

use clap::{ArgAction, Args as ClapArgs};
use evenkeel_runtime::{UsageError, listen_address, parse_permissions, parse_size};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Most workers of one server.
pub const THREADS_MAX: u16 = 256;

/// Smallest and largest `-I`, in bytes (memcached's limits).
const ITEM_SIZE_RANGE: std::ops::RangeInclusive<usize> = 1024..=1024 * 1024 * 1024;

/// A cache server that speaks the memcached protocol and takes memcached's flags.
#[derive(Clone, Debug, ClapArgs)]
pub struct Args {
    /// TCP port to listen on; 0 takes a free one and prints it
    #[arg(short = 'p', long, default_value_t = 11211, env = "EVENKEEL_PORT")]
    pub port: u16,

    /// Addresses to listen on, separated by commas: HOST or HOST:PORT [default: 127.0.0.1]
    #[arg(short = 'l', long, value_name = "ADDR[,ADDR]", env = "EVENKEEL_LISTEN")]
    pub listen: Option<String>,

    /// Unix socket to listen on, instead of TCP
    #[arg(short = 's', long, value_name = "FILE", env = "EVENKEEL_UNIX_SOCKET")]
    pub unix_socket: Option<PathBuf>,

    /// Permissions of the unix socket, in octal
    #[arg(short = 'a', long, default_value = "700", value_parser = parse_permissions)]
    pub unix_mask: u32,

    /// Memory for items and their index, in megabytes
    #[arg(short = 'm', long, default_value_t = 64, env = "EVENKEEL_MEMORY_LIMIT")]
    pub memory_limit: usize,

    /// Answer an error when memory is full instead of evicting
    #[arg(short = 'M', long)]
    pub disable_evictions: bool,

    /// Most connections at a time
    #[arg(short = 'c', long, default_value_t = 1024, env = "EVENKEEL_CONN_LIMIT")]
    pub conn_limit: usize,

    /// Workers (threads), each with its own part of the keys
    #[arg(short = 't', long, default_value_t = 4, env = "EVENKEEL_THREADS")]
    pub threads: u16,

    /// Commands of one connection carried out in a row before others have a turn
    #[arg(short = 'R', long, default_value_t = 20)]
    pub max_reqs_per_event: u32,

    /// Length of the queue of connections not yet accepted
    #[arg(short = 'b', long, default_value_t = 1024)]
    pub listen_backlog: u32,

    /// Largest item: bytes, or with suffix k, m or g
    #[arg(short = 'I', long, default_value = "1m", value_parser = parse_size)]
    pub max_item_size: usize,

    /// Refuse flush_all
    #[arg(short = 'F', long)]
    pub disable_flush_all: bool,

    /// Show no CAS uniques to clients
    #[arg(short = 'C', long)]
    pub disable_cas: bool,

    /// Say more on standard error; repeat for more
    #[arg(short = 'v', long, action = ArgAction::Count)]
    pub verbose: u8,

    /// Protocol: auto or ascii
    #[arg(short = 'B', long, default_value = "auto", value_parser = ["auto", "ascii", "binary"])]
    pub protocol: String,

    /// Further options of memcached, separated by commas
    #[arg(short = 'o', long, value_name = "NAME[=VALUE],…")]
    pub extended: Vec<String>,

    /// Start even if -o names an option that nobody knows
    #[arg(long)]
    pub compat_ignore_unknown: bool,

    /// Coordinators to register with: this server becomes part of a cluster
    #[arg(
        long,
        value_name = "URL[,URL]",
        env = "EVENKEEL_COORDINATOR",
        value_delimiter = ','
    )]
    pub coordinator: Vec<String>,

    /// Name in the cluster; keeps its server id over restarts [default: HOST:PORT]
    #[arg(long, env = "EVENKEEL_NAME")]
    pub name: Option<String>,

    /// Name of the cluster
    #[arg(long, default_value = "evenkeel", env = "EVENKEEL_CLUSTER")]
    pub cluster: String,

    /// Rack, or another domain of locality
    #[arg(long, env = "EVENKEEL_RACK")]
    pub rack: Option<String>,

    /// Host name or address that others reach this server by [default: the first -l address]
    #[arg(long, value_name = "HOST", env = "EVENKEEL_ADVERTISE")]
    pub advertise: Option<String>,

    /// Ports of the workers, for clients that know the map: the first worker's, the others follow;
    /// 0 takes free ones
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub worker_port: u16,

    /// How long a client may read a replica before it asks the home again, in milliseconds
    #[arg(
        long,
        default_value_t = 1000,
        value_name = "MS",
        env = "EVENKEEL_LEASE_MS"
    )]
    pub lease_ms: u32,

    /// Share of reads that are sampled for hot keys, in per cent
    #[arg(long, default_value_t = 3.0, value_name = "PERCENT")]
    pub hot_sampling: f64,

    /// A key is hot from this share of a worker's load on, in per cent
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT")]
    pub hot_share: f64,

    /// Look for hot keys on a worker that serves this many requests a second
    /// [default: 1.05 times the mean of the cluster]
    #[arg(long, value_name = "RATE")]
    pub hot_trigger_rps: Option<f64>,

    /// Most replicas of a key besides its home copy
    #[arg(long, default_value_t = 15, value_name = "N")]
    pub gamma_max: u8,

    /// Pin worker I to core FIRST+I
    #[arg(long, value_name = "FIRST")]
    pub pin: Option<usize>,

    /// Accepted for memcached's sake; they mean nothing here
    #[command(flatten)]
    pub ignored: Ignored,

    /// Refused, because to ignore them would be unsafe
    #[command(flatten)]
    pub refused: Refused,
}

/// memcached flags that have no meaning here: each is accepted with one warning line.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct Ignored {
    #[arg(short = 'U', long, hide = true, value_name = "PORT")]
    udp_port: Option<u16>,
    #[arg(short = 'd', long, hide = true)]
    daemon: bool,
    #[arg(short = 'u', long, hide = true)]
    user: Option<String>,
    #[arg(short = 'k', long, hide = true)]
    lock_memory: bool,
    #[arg(short = 'P', long, hide = true)]
    pidfile: Option<String>,
    #[arg(short = 'X', long, hide = true)]
    disable_dumping: bool,
    #[arg(short = 'W', long, hide = true)]
    disable_watch: bool,
    #[arg(short = 'D', hide = true)]
    prefix_delimiter: Option<String>,
    #[arg(short = 'L', long, hide = true)]
    enable_largepages: bool,
    #[arg(short = 'f', long, hide = true)]
    slab_growth_factor: Option<f64>,
    #[arg(short = 'n', long, hide = true)]
    slab_min_size: Option<usize>,
    #[arg(short = 'N', long, hide = true)]
    napi_ids: Option<usize>,
    #[arg(short = 'r', long, hide = true)]
    enable_coredumps: bool,
    #[arg(short = 'e', long, hide = true)]
    memory_file: Option<String>,
    #[arg(short = 'A', long, hide = true)]
    enable_shutdown: bool,
}

/// memcached flags that promise a protection which this server does not give.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct Refused {
    #[arg(short = 'S', long, hide = true)]
    enable_sasl: bool,
    #[arg(short = 'Y', long, hide = true, value_name = "FILE")]
    auth_file: Option<String>,
    #[arg(short = 'Z', long, hide = true)]
    enable_ssl: bool,
}

/// What `-o` may carry without effect: options of slabs, LRU lists and external storage.
const IGNORED_OPTIONS: &[&str] = &[
    "hashpower",
    "hash_algorithm",
    "tail_repair_time",
    "modern",
    "no_modern",
    "relaxed_privileges",
    "hot_lru_pct",
    "warm_lru_pct",
    "hot_max_factor",
    "warm_max_factor",
    "temporary_ttl",
    "maxconns_fast",
    "no_maxconns_fast",
    "read_buf_mem_limit",
    "track_sizes",
    "inline_ascii_resp",
    "no_inline_ascii_resp",
    "watcher_logbuf_size",
    "worker_logbuf_size",
    "no_hashexpand",
    "drop_privileges",
    "resp_obj_mem_limit",
    "no_lru_crawler",
    "no_lru_maintainer",
];

/// Prefixes of families of such options.
const IGNORED_PREFIXES: &[&str] = &["slab_", "no_slab_", "lru_", "ext_"];

impl Args {
    /// Checks what clap cannot, and gives the warnings to print.
    ///
    /// # Errors
    /// One line that says which flag is wrong and what it allows.
    pub fn check(&self) -> Result<Vec<String>, UsageError> {
        let fail = |message: String| Err(UsageError(message));
        for (flag, given, what) in [
            ("-S", self.refused.enable_sasl, "SASL authentication"),
            ("-Y", self.refused.auth_file.is_some(), "authentication"),
            ("-Z", self.refused.enable_ssl, "TLS"),
        ] {
            if given {
                return fail(format!(
                    "{flag}: this version has no {what}; refusing to start without it"
                ));
            }
        }
        if self.protocol == "binary" {
            return fail("-B binary: this version speaks the text and meta protocols only".into());
        }
        if self.threads == 0 || self.threads > THREADS_MAX {
            return fail(format!(
                "-t {}: use 1 to {THREADS_MAX} threads",
                self.threads
            ));
        }
        if !ITEM_SIZE_RANGE.contains(&self.max_item_size) {
            return fail(format!("-I {}: use 1k to 1g", self.max_item_size));
        }
        if self.memory_limit == 0 {
            return fail("-m 0: give at least 1 megabyte".into());
        }
        if self.max_item_size > self.memory_limit * 1024 * 1024 / 2 {
            return fail("-I: an item may take at most half of -m".into());
        }
        if self.max_reqs_per_event == 0 {
            return fail("-R 0: at least one command must be carried out in a turn".into());
        }
        if !(0.0..=100.0).contains(&self.hot_sampling) {
            return fail(format!(
                "--hot-sampling {}: use 0 to 100",
                self.hot_sampling
            ));
        }
        if !(0.0..=100.0).contains(&self.hot_share) {
            return fail(format!("--hot-share {}: use 0 to 100", self.hot_share));
        }
        let mut warnings = self.ignored.warnings();
        self.check_extended(&mut warnings)?;
        Ok(warnings)
    }

    fn check_extended(&self, warnings: &mut Vec<String>) -> Result<(), UsageError> {
        let options = self.extended.iter().flat_map(|list| list.split(','));
        for option in options.filter(|option| !option.is_empty()) {
            let (name, value) = option
                .split_once('=')
                .map_or((option, None), |(n, v)| (n, Some(v)));
            match name {
                "idle_timeout" => {
                    self.idle_timeout_s()?;
                    if value.is_none() {
                        return Err(UsageError("-o idle_timeout: give seconds".into()));
                    }
                }
                _ if name.starts_with("ssl_") => {
                    return Err(UsageError(format!("-o {name}: this version has no TLS")));
                }
                _ if IGNORED_OPTIONS.contains(&name)
                    || IGNORED_PREFIXES
                        .iter()
                        .any(|prefix| name.starts_with(prefix)) =>
                {
                    warnings.push(format!("-o {name} has no meaning here and is ignored"));
                }
                _ if self.compat_ignore_unknown => {
                    warnings.push(format!("-o {name} is unknown and ignored"));
                }
                _ => {
                    return Err(UsageError(format!(
                        "-o {name}: unknown option (--compat-ignore-unknown starts all the same)"
                    )));
                }
            }
        }
        Ok(())
    }

    /// `-o idle_timeout`: seconds after which an idle connection is closed; 0 never.
    pub fn idle_timeout_s(&self) -> Result<u32, UsageError> {
        self.extended
            .iter()
            .flat_map(|list| list.split(','))
            .filter_map(|option| option.strip_prefix("idle_timeout="))
            .next_back()
            .map_or(Ok(0), |seconds| {
                seconds.parse().map_err(|_| {
                    UsageError(format!(
                        "-o idle_timeout={seconds}: give a number of seconds"
                    ))
                })
            })
    }

    /// The TCP addresses to listen on; empty when only the unix socket is wanted.
    ///
    /// # Errors
    /// Names the address that is none.
    pub fn tcp_addresses(&self) -> Result<Vec<SocketAddr>, UsageError> {
        match &self.listen {
            None if self.unix_socket.is_some() => Ok(Vec::new()),
            None => Ok(vec![SocketAddr::new(
                IpAddr::V4(Ipv4Addr::LOCALHOST),
                self.port,
            )]),
            Some(list) => list
                .split(',')
                .map(|address| parse_address(address.trim(), self.port))
                .collect(),
        }
    }
}

impl Ignored {
    fn warnings(&self) -> Vec<String> {
        let given = [
            (
                "-U (UDP stays off)",
                self.udp_port.is_some_and(|port| port != 0),
            ),
            ("-d (stays in the foreground)", self.daemon),
            ("-u (stays the user that started it)", self.user.is_some()),
            ("-k", self.lock_memory),
            ("-P (writes no pid file)", self.pidfile.is_some()),
            ("-X (there are no dump commands)", self.disable_dumping),
            ("-W (there is no watch command)", self.disable_watch),
            ("-D", self.prefix_delimiter.is_some()),
            ("-L", self.enable_largepages),
            ("-f", self.slab_growth_factor.is_some()),
            ("-n", self.slab_min_size.is_some()),
            ("-N", self.napi_ids.is_some()),
            ("-r", self.enable_coredumps),
            ("-e", self.memory_file.is_some()),
            ("-A (there is no shutdown command)", self.enable_shutdown),
        ];
        given
            .iter()
            .filter(|(_, given)| *given)
            .map(|(flag, _)| format!("{flag} has no meaning here and is ignored"))
            .collect()
    }
}

/// Reads an address of `-l`.
fn parse_address(text: &str, default_port: u16) -> Result<SocketAddr, UsageError> {
    listen_address(text, default_port).ok_or_else(|| {
        UsageError(format!(
            "-l {text}: give an IP address, with or without a port"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Program::try_parse_from(line.split_whitespace()).map(|program| program.args)
    }

    #[test]
    fn memcached_command_lines_are_understood() {
        let args = parse("x -m64 -p11300 -vvv -c 2048 -t 8 -I 2m -l 127.0.0.1,[::1]:5 -U 0 -R5")
            .expect("flags of memcached");
        assert_eq!((args.memory_limit, args.port, args.verbose), (64, 11300, 3));
        assert_eq!(
            (args.conn_limit, args.threads, args.max_item_size),
            (2048, 8, 2 << 20)
        );
        assert_eq!(args.check().expect("sound"), Vec::<String>::new());
        let addresses = args.tcp_addresses().expect("addresses");
        assert_eq!(addresses[0].to_string(), "127.0.0.1:11300");
        assert_eq!(addresses[1].to_string(), "[::1]:5");
    }

    #[test]
    fn meaningless_flags_warn_once_each() {
        let args =
            parse("x -d -u nobody -f 1.2 -n 48 -o slab_reassign,hashpower=20").expect("flags");
        assert_eq!(args.check().expect("sound").len(), 6);
    }

    #[test]
    fn wrong_values_are_refused_with_the_flag_named() {
        for (line, flag) in [
            ("x -t 0", "-t"),
            ("x -t 999", "-t"),
            ("x -I 2g", "-I"),
            ("x -m 1 -I 1m", "-I"),
            ("x -R 0", "-R"),
            ("x -S", "-S"),
            ("x -Y file", "-Y"),
            ("x -Z", "-Z"),
            ("x -o bogus", "bogus"),
            ("x -o idle_timeout=x", "idle_timeout"),
            ("x -o ssl_key=k", "ssl_key"),
            ("x -B binary", "-B"),
        ] {
            let error = parse(line)
                .expect("clap accepts it")
                .check()
                .expect_err(line);
            assert!(error.0.contains(flag), "{line}: {error}");
        }
        assert!(parse("x -a 999").is_err());
        assert!(parse("x -I 1q").is_err());
        assert!(
            parse("x -l nowhere:port")
                .expect("clap")
                .tcp_addresses()
                .is_err()
        );
        let forgiving = parse("x -o bogus --compat-ignore-unknown").expect("clap");
        assert_eq!(forgiving.check().expect("sound").len(), 1);
    }
}
