//! The command line of `evenkeel server`: memcached's flags with memcached's meanings, and ours.

mod auth;
#[cfg(test)]
mod documented;
mod extended;
mod files;
mod nearest;

pub use auth::protocols_of;
pub use extended::Extended;
pub use files::file_arguments;

use crate::io::IoArgs;
use clap::Args as ClapArgs;
use evenkeel_hotkeys::config::Mode;
use evenkeel_member::access::AccessArgs;
use evenkeel_runtime::{
    ListenSpec, ListenerProtocol, ListenerTls, LogOptions, TlsOptions, UsageError,
    parse_http_address, parse_megabytes, parse_permissions, parse_size,
};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Most workers of one server.
pub const THREADS_MAX: u16 = 256;

/// Smallest and largest `-I`, in bytes (memcached's limits).
const ITEM_SIZE_RANGE: std::ops::RangeInclusive<usize> = 1024..=1024 * 1024 * 1024;

/// A connection inside a command, or with unread answers, that does not move for this many seconds is
/// closed: a slow or dead client must not hold memory for ever.
pub const PROGRESS_TIMEOUT_S: u32 = 30;

/// Ends the prefix of a key for `stats detail`, unless `-D` says what does.
pub const PREFIX_DELIMITER: u8 = b':';

/// A cache server that speaks the memcached protocol and takes memcached's flags.
#[derive(Clone, Debug, ClapArgs)]
#[command(disable_version_flag = true)]
pub struct Args {
    /// TCP port to listen on; 0 or -1 takes a free one and prints it
    #[arg(
        short = 'p',
        long,
        default_value = "11211",
        value_parser = parse_port,
        allow_negative_numbers = true
    )]
    pub port: u16,

    /// UDP port: 0 only, for there is no UDP here
    #[arg(short = 'U', long, default_value_t = 0, value_name = "PORT")]
    pub udp_port: u16,

    /// Addresses to listen on, separated by commas: HOST or HOST:PORT; * is every address. Before
    /// one may stand notls:, btls: or mtls:, and proto[ascii|binary|negotiating]:
    /// [default: 127.0.0.1]
    #[arg(
        short = 'l',
        long,
        value_name = "ADDR[,ADDR]",
        value_delimiter = ',',
        env = "EVENKEEL_LISTEN"
    )]
    pub listen: Vec<String>,

    /// Unix socket to listen on, instead of TCP
    #[arg(
        short = 's',
        long,
        value_name = "FILE",
        value_parser = parse_path,
        env = "EVENKEEL_UNIX_SOCKET"
    )]
    pub unix_socket: Option<PathBuf>,

    /// Permissions of the unix socket, in octal
    #[arg(short = 'a', long, default_value = "700", value_parser = parse_permissions)]
    pub unix_mask: u32,

    /// Memory for items and their index, in megabytes, or with suffix k, m or g
    #[arg(short = 'm', long, default_value = "64", value_parser = parse_megabytes, env = "EVENKEEL_MEMORY_LIMIT")]
    pub memory_limit: usize,

    /// Answer an error when memory is full instead of evicting
    #[arg(short = 'M', long)]
    pub disable_evictions: bool,

    /// Maximum connections at a time
    #[arg(short = 'c', long, default_value_t = 1024, env = "EVENKEEL_CONN_LIMIT")]
    pub conn_limit: usize,

    /// Workers (threads), each with its own part of the keys
    #[arg(short = 't', long, default_value_t = 4, env = "EVENKEEL_THREADS")]
    pub threads: u16,

    /// Commands of one connection executed in a row before others have a turn
    #[arg(short = 'R', long, default_value_t = 20)]
    pub max_reqs_per_event: u32,

    /// How sockets are served.
    #[command(flatten)]
    pub io: IoArgs,

    /// Length of the queue of connections not yet accepted
    #[arg(short = 'b', long, default_value_t = 1024)]
    pub listen_backlog: u32,

    /// Largest item: bytes, or with suffix k, m or g
    #[arg(short = 'I', long, default_value = "1m", value_parser = parse_size)]
    pub max_item_size: usize,

    /// Enable the shutdown command, with which a client stops the server
    #[arg(short = 'A', long)]
    pub enable_shutdown: bool,

    /// Refuse to list keys: stats cachedump, lru_crawler metadump and mgdump
    #[arg(short = 'X', long)]
    pub disable_dumping: bool,

    /// Refuse watch, by which a client sees what others do
    #[arg(short = 'W', long)]
    pub disable_watch: bool,

    /// Count commands by the prefix of their key, which ends with this character (stats detail)
    #[arg(short = 'D', value_name = "CHAR", value_parser = parse_delimiter)]
    pub prefix_delimiter: Option<u8>,

    /// Execute debugtime, by which a client moves the server's clock; for tests
    #[arg(long, hide = true)]
    pub test_commands: bool,

    /// Abort when a command names this key, as if there were a mistake that it meets; for tests
    #[arg(long, hide = true, value_name = "KEY")]
    pub test_abort_on: Option<String>,

    /// Sleep this long for each key besides the time that it takes, which makes this a small server; for tests
    /// and experiments
    #[arg(long, hide = true, value_name = "NANOSECONDS", default_value_t = 0)]
    pub test_service_time: u64,

    /// Take any serving lease for one without end, as by a coordinator that knows nothing of leases: a stopped process goes on
    /// where it was. For tests in which nobody dies
    #[arg(long, hide = true)]
    pub test_endless_lease: bool,

    /// Refuse flush_all
    #[arg(short = 'F', long)]
    pub disable_flush_all: bool,

    /// Show no CAS uniques to clients
    #[arg(short = 'C', long)]
    pub disable_cas: bool,

    /// What is logged on standard error
    #[command(flatten)]
    pub log: LogOptions,

    /// Protocol: auto, ascii (text and meta commands) or binary; auto takes what each connection
    /// begins with [default: auto, with -S binary, with -Y ascii]
    #[arg(short = 'B', long, value_parser = parse_protocol, value_name = "PROTOCOL")]
    pub protocol: Option<ListenerProtocol>,

    /// Require clients to authenticate by SASL PLAIN; speaks the binary protocol alone
    #[arg(short = 'S', long)]
    pub enable_sasl: bool,

    /// File of user:password lines for -S
    #[arg(long, value_name = "FILE", value_parser = parse_path, env = "MEMCACHED_SASL_PWDB")]
    pub sasl_pwdb: Option<PathBuf>,

    /// Require clients to authenticate by this file of user:password lines; speaks text alone
    #[arg(short = 'Y', long, value_name = "FILE", value_parser = parse_path)]
    pub auth_file: Option<PathBuf>,

    /// Further options of memcached, separated by commas
    #[arg(short = 'o', long, value_name = "NAME[=VALUE],…")]
    pub extended: Vec<String>,

    /// Coordinators to register with: this server becomes part of a cluster
    #[arg(
        long,
        value_name = "URL[,URL]",
        env = "EVENKEEL_COORDINATOR",
        value_delimiter = ','
    )]
    pub coordinator: Vec<String>,

    /// How coordinators let this server in
    #[command(flatten)]
    pub access: AccessArgs,

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

    /// Ports of the workers, for proxies and other servers: the first worker's, the others follow;
    /// 0 takes free ones [default: the ports above -p, or free ones where -p takes a free one]
    #[arg(long, value_name = "PORT")]
    pub worker_port: Option<u16>,

    /// How long a server that is told to end (SIGTERM) hands what it has over to the others, in seconds; 0 ends it at once
    #[arg(
        long,
        default_value_t = 10,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(..=3600),
        env = "EVENKEEL_DRAIN_TIMEOUT"
    )]
    pub drain_timeout: u32,

    /// Whether workers that are overloaded lend cachelets to others of this server: off, observe (say which),
    /// on
    #[arg(
        long,
        default_value_t = Mode::On,
        value_name = "MODE",
        value_parser = parse_mode,
        env = "EVENKEEL_BALANCE_WORKERS"
    )]
    pub balance_workers: Mode,

    /// Pin worker I to core FIRST+I
    #[arg(long, value_name = "FIRST")]
    pub pin: Option<usize>,

    /// Keep transparent huge pages whole: memory goes back to the machine in such pages alone; says whether there are
    /// any, and goes on without
    #[arg(short = 'L', long, alias = "enable-largepages")]
    pub huge_pages: bool,

    /// Run in the background; returns once the server serves
    #[arg(short = 'd', long)]
    pub daemon: bool,

    /// File for the process id, removed at the end
    #[arg(short = 'P', long, value_name = "FILE", value_parser = parse_path)]
    pub pidfile: Option<PathBuf>,

    /// User to run as; required for root (-u root stays root)
    #[arg(short = 'u', long, value_name = "USER")]
    pub user: Option<String>,

    /// Keep all memory from being swapped out
    #[arg(short = 'k', long)]
    pub lock_memory: bool,

    /// Allow core files of any size
    #[arg(short = 'r', long)]
    pub enable_coredumps: bool,

    /// Speak TLS: needs -o ssl_chain_cert=FILE, and ssl_key=FILE unless the key is in the same file
    #[arg(short = 'Z', long)]
    pub enable_ssl: bool,

    /// memcached's own defaults where ours are safer: listen on every address, no progress timeout;
    /// -V says memcached
    #[arg(long)]
    pub compat: bool,

    /// Close a connection that stays inside a command, or does not read its answers, for this many
    /// seconds; 0 never [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub progress_timeout: Option<u32>,

    /// Address of an HTTP port for /metrics, /healthz and /readyz; without it there is none
    #[arg(long, value_name = "IP:PORT", value_parser = parse_http_address, env = "EVENKEEL_ADMIN")]
    pub admin: Option<SocketAddr>,

    /// File of settings in TOML, named as the long flags; flags and the environment win over it
    #[arg(long, value_name = "FILE", env = "EVENKEEL_CONFIG")]
    pub config: Option<PathBuf>,

    /// memcached's own configuration: Debian's /etc/memcached.conf or RHEL's /etc/sysconfig/memcached
    #[arg(long, value_name = "FILE", env = "EVENKEEL_FROM_MEMCACHED_CONF")]
    pub from_memcached_conf: Option<PathBuf>,

    /// Print the licence
    #[arg(short = 'i', long)]
    pub license: bool,

    /// Print the version
    #[arg(short = 'V', long)]
    pub version: bool,

    /// Accepted for memcached's sake; they mean nothing here
    #[command(flatten)]
    pub ignored: Ignored,
}

/// memcached flags that have no meaning here: each is accepted with one warning line.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct Ignored {
    #[arg(short = 'f', long, hide = true)]
    slab_growth_factor: Option<f64>,
    #[arg(short = 'n', long, hide = true)]
    slab_min_size: Option<usize>,
    #[arg(short = 'N', long, hide = true)]
    napi_ids: Option<usize>,
    #[arg(short = 'e', long, hide = true)]
    memory_file: Option<String>,
}

impl Args {
    /// The port on which a worker listens for proxies and other servers: 0 takes a free one. `None` when nobody would come, because
    /// there is no cluster: a port more is a hole more.
    ///
    /// # Errors
    /// When there are no ports left for it.
    pub fn worker_port(&self, index: u16) -> Result<Option<u16>, UsageError> {
        let first = match (self.worker_port, self.port) {
            (None, _) if self.coordinator.is_empty() => return Ok(None),
            (Some(0), _) | (None, 0) => return Ok(Some(0)),
            (Some(first), _) => Some(first),
            (None, port) => port.checked_add(1),
        };
        let port = first.and_then(|first| first.checked_add(index));
        port.map(Some).ok_or_else(|| {
            let (above, workers) = (self.worker_port.unwrap_or(self.port), self.threads);
            UsageError(format!(
                "{workers} workers have no ports above {above}: --worker-port says where theirs begin"
            ))
        })
    }

    /// Checks what clap cannot. Gives what `-o` asks for, and the warnings to print.
    ///
    /// # Errors
    /// One line that says which flag is wrong and what it allows.
    pub fn check(&self) -> Result<(Extended, Vec<String>), UsageError> {
        let fail = |message: String| Err(UsageError(message));
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
            return fail("-R 0: at least one command must be executed in a turn".into());
        }
        if self.udp_port != 0 {
            return fail(format!(
                "-U {}: there is no UDP here, it only serves attackers; leave it out or give 0",
                self.udp_port
            ));
        }
        let (extended, more) = Extended::parse(&self.extended)?;
        let mut warnings = self.ignored.warnings();
        warnings.extend(more);
        self.check_listeners(&extended, &mut warnings)?;
        self.check_auth()?;
        Ok((extended, warnings))
    }

    fn check_listeners(
        &self,
        extended: &Extended,
        warnings: &mut Vec<String>,
    ) -> Result<(), UsageError> {
        let specs = self.listeners()?;
        if specs.iter().any(|spec| spec.tagged) {
            warnings.push("-l tag[…]: is for memcached's own proxy and is ignored".into());
        }
        if self.enable_ssl {
            if extended.tls.chain_cert.is_none() {
                return Err(UsageError(
                    "-Z: give the certificate by -o ssl_chain_cert=FILE".into(),
                ));
            }
            return Ok(());
        }
        if let Some(spec) = specs.iter().find(|spec| spec.tls != ListenerTls::Default) {
            return Err(UsageError(format!(
                "-l {}: this prefix is for use with -Z",
                spec.text
            )));
        }
        if extended.tls != TlsOptions::default() {
            warnings.push("-o ssl_… has no effect without -Z".into());
        }
        Ok(())
    }

    /// The TCP addresses to listen on; empty when only the unix socket is wanted.
    ///
    /// # Errors
    /// Names the address that is none.
    pub fn listeners(&self) -> Result<Vec<ListenSpec>, UsageError> {
        if !self.listen.is_empty() {
            return self
                .listen
                .iter()
                .map(|text| ListenSpec::parse(text.trim(), self.port))
                .collect();
        }
        Ok(match (&self.unix_socket, self.compat) {
            (Some(_), _) => Vec::new(),
            (None, true) => vec![ListenSpec::everywhere(self.port)],
            (None, false) => vec![ListenSpec::loopback(self.port)],
        })
    }

    /// How long a connection may owe progress; zero for ever.
    pub fn progress_timeout(&self) -> Duration {
        let default = if self.compat { 0 } else { PROGRESS_TIMEOUT_S };
        Duration::from_secs(self.progress_timeout.unwrap_or(default).into())
    }
}

fn parse_mode(text: &str) -> Result<Mode, String> {
    let known = Mode::ALL.into_iter().find(|mode| mode.to_string() == text);
    known.ok_or_else(|| "use off, observe or on".to_owned())
}

/// As memcached: the first character counts.
fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [delimiter, ..] if delimiter.is_ascii_graphic() => Ok(*delimiter),
        _ => Err("give one printable character".to_owned()),
    }
}

impl Ignored {
    fn warnings(&self) -> Vec<String> {
        let given = [
            ("-f", self.slab_growth_factor.is_some()),
            ("-n", self.slab_min_size.is_some()),
            ("-N", self.napi_ids.is_some()),
            ("-e", self.memory_file.is_some()),
        ];
        given
            .iter()
            .filter(|(_, given)| *given)
            .map(|(flag, _)| format!("{flag} has no meaning here and is ignored"))
            .collect()
    }
}

/// Reads a port; memcached's -1 is any free one.
fn parse_port(text: &str) -> Result<u16, String> {
    match text {
        "-1" => Ok(0),
        _ => text.parse().map_err(|_| "give a port, 0 to 65535".into()),
    }
}

/// Reads the argument of `-B`.
fn parse_protocol(text: &str) -> Result<ListenerProtocol, String> {
    match text {
        "auto" => Ok(ListenerProtocol::Negotiating),
        "ascii" => Ok(ListenerProtocol::Ascii),
        "binary" => Ok(ListenerProtocol::Binary),
        _ => Err("give auto, ascii or binary".into()),
    }
}

/// Reads a path. It is made absolute, because a process in the background changes its directory.
fn parse_path(text: &str) -> Result<PathBuf, String> {
    std::path::absolute(text).map_err(|error| error.to_string())
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
        assert_eq!(
            (args.memory_limit, args.port, args.log.verbose),
            (64, 11300, 3)
        );
        assert_eq!(
            (args.conn_limit, args.threads, args.max_item_size),
            (2048, 8, 2 << 20)
        );
        assert_eq!(args.check().expect("sound").1, Vec::<String>::new());
        let listeners = args.listeners().expect("addresses");
        let ports: Vec<u16> = listeners.iter().map(|spec| spec.port).collect();
        assert_eq!(ports, [11300, 5]);
        assert_eq!(parse("x -p -1").expect("a free port").port, 0);
    }

    #[test]
    fn huge_pages_go_by_memcacheds_names_and_by_our_own() {
        for line in ["x -L", "x --enable-largepages", "x --huge-pages"] {
            let args = parse(line).expect("flags");
            assert!(args.huge_pages, "{line}");
            assert_eq!(args.check().expect("sound").1, Vec::<String>::new());
        }
        assert!(!parse("x").expect("none").huge_pages);
    }

    #[test]
    fn meaningless_flags_warn_once_each() {
        let args = parse("x -f 1.2 -n 48 -o slab_reassign,hashpower=20").expect("flags");
        assert_eq!(args.check().expect("sound").1.len(), 4);
    }

    #[test]
    fn wrong_values_are_refused_with_the_flag_named() {
        for (line, flag) in [
            ("x -t 0", "-t"),
            ("x -t 999", "-t"),
            ("x -I 2g", "-I"),
            ("x -m 1 -I 1m", "-I"),
            ("x -R 0", "-R"),
            ("x -Z", "ssl_chain_cert"),
            ("x -o bogus", "bogus"),
            ("x -o idle_timeout=x", "idle_timeout"),
            ("x -U 11211", "-U 11211"),
            ("x -l notls:127.0.0.1", "notls:127.0.0.1"),
            ("x -l nowhere:port", "nowhere:port"),
        ] {
            let error = parse(line)
                .expect("clap accepts it")
                .check()
                .expect_err(line);
            assert!(error.0.contains(flag), "{line}: {error}");
        }
        assert!(parse("x -a 999").is_err());
        assert!(parse("x -I 1q").is_err());
    }

    #[test]
    fn without_l_only_this_machine_connects_unless_memcacheds_defaults_are_wanted() {
        let hosts = |line: &str| -> Vec<Option<String>> {
            let args = parse(line).expect("flags");
            let specs = args.listeners().expect("addresses");
            specs.into_iter().map(|spec| spec.host).collect()
        };
        assert_eq!(hosts("x"), [Some("127.0.0.1".to_owned())]);
        assert_eq!(hosts("x --compat"), [None]);
        assert_eq!(hosts("x -s /tmp/socket"), []);
        assert_eq!(hosts("x --compat -l ::1"), [Some("::1".to_owned())]);
        let patience = |line: &str| parse(line).expect("flags").progress_timeout().as_secs();
        assert_eq!(
            (
                patience("x"),
                patience("x --compat"),
                patience("x --compat --progress-timeout 9")
            ),
            (30, 0, 9)
        );
    }

    #[test]
    fn workers_listen_above_the_port_of_a_member() {
        let ports = |line: &str| -> Vec<_> {
            let args = parse(line).expect("arguments");
            let ports = (0..args.threads).map_while(|index| args.worker_port(index).ok());
            ports.collect()
        };
        let member = |rest: &str| ports(&format!("x -t 2 --coordinator c:1 {rest}"));
        assert_eq!(member("-p 11211"), [Some(11212), Some(11213)]);
        assert_eq!(member("-p 0"), [Some(0), Some(0)]);
        assert_eq!(member("-p 11211 --worker-port 0"), [Some(0), Some(0)]);
        let last = [Some(65534), Some(65535)];
        assert_eq!(member("-p 0 --worker-port 65534"), last);
        assert_eq!(member("-p 65534"), [Some(65535)]);
        assert_eq!(ports("x -t 2 -p 11211"), [None, None]);
    }
}
