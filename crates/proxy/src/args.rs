//! The command line of `evenkeel proxy`.

use crate::discovery::{DiscoverySpec, Source};
use crate::limits::{
    THREADS_MAX, buffer_memory, item_size, listener, nameserver, profile_max, refresh, timeout,
};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use evenkeel_member::access::AccessArgs;
use evenkeel_placement::config::{BadServer, Distribution, HashTag, PORT_DEFAULT, PlacementConfig};
use evenkeel_placement::hash::Hash;
use evenkeel_runtime::names::Family;
use evenkeel_runtime::{
    GivenOption, ListenSpec, LogOptions, TlsOptions, UsageError, parse_http_address,
    parse_permissions,
};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The flags that describe one pool, where no file describes any.
const ONE_POOL: [&str; 16] = [
    "servers",
    "servers_file",
    "dns",
    "srv",
    "refresh",
    "coordinator",
    "cluster",
    "distribution",
    "hash",
    "hash_tag",
    "connect_timeout",
    "request_timeout",
    "on_down",
    "allow_flush",
    "failover",
    "no_collapse",
];

/// A proxy that makes a pool of servers look like one memcached.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// What to do instead of serving
    #[command(subcommand)]
    pub command: Option<Command>,

    /// What is logged on standard error
    #[command(flatten)]
    pub log: LogOptions,

    /// TOML file with pools and routes; a change is taken over within seconds, and on SIGHUP at once. Flags and
    /// environment variables go before what it says of the process
    #[arg(
        long,
        value_name = "FILE",
        env = "EVENKEEL_PROXY_CONFIG",
        conflicts_with_all = ONE_POOL
    )]
    pub config: Option<PathBuf>,

    /// Addresses to listen on, separated by commas: HOST, HOST:PORT; port 0 takes a free one and
    /// prints it. Before one may stand notls:, btls: or mtls: [default: 127.0.0.1:11211]
    #[arg(
        short = 'l',
        long,
        value_name = "ADDR[,ADDR]",
        env = "EVENKEEL_PROXY_LISTEN"
    )]
    pub listen: Option<String>,

    /// Port of those addresses of -l that name none; without -l that of 127.0.0.1 [default: 11211]
    #[arg(short = 'p', long, value_name = "PORT")]
    pub port: Option<u16>,

    /// Unix socket to listen on besides
    #[arg(long, value_name = "FILE", env = "EVENKEEL_PROXY_UNIX_SOCKET")]
    pub unix_socket: Option<PathBuf>,

    /// Permissions of the unix socket, in octal [default: 700]
    #[arg(long, value_parser = parse_permissions)]
    pub unix_mask: Option<u32>,

    /// Servers of a pool of any memcached servers: HOST, HOST:PORT or HOST:PORT:WEIGHT, separated by
    /// commas; a name behind a space stands for the address when keys are placed
    #[arg(
        short = 's',
        long,
        value_name = "SERVER[,SERVER]",
        env = "EVENKEEL_PROXY_SERVERS",
        value_delimiter = ',',
        conflicts_with = "coordinator"
    )]
    pub servers: Vec<String>,

    /// File with the servers, one a line: HOST:PORT, or HOST:PORT WEIGHT; a change is taken over within
    /// seconds
    #[arg(long, value_name = "FILE", env = "EVENKEEL_PROXY_SERVERS_FILE")]
    pub servers_file: Option<PathBuf>,

    /// Name whose addresses are the servers
    #[arg(long, value_name = "NAME[:PORT]", env = "EVENKEEL_PROXY_DNS")]
    pub dns: Option<String>,

    /// Name whose SRV records are the servers, with ports and weights
    #[arg(long, value_name = "NAME", env = "EVENKEEL_PROXY_SRV")]
    pub srv: Option<String>,

    /// Longest time between two looks for other servers [default: 30s for names, 1s for a file]
    #[arg(long, value_parser = refresh, env = "EVENKEEL_PROXY_REFRESH")]
    pub refresh: Option<Duration>,

    /// Name servers to ask instead of the machine's
    #[arg(
        long = "nameserver",
        value_name = "IP[:PORT]",
        env = "EVENKEEL_PROXY_NAMESERVERS",
        value_delimiter = ',',
        value_parser = nameserver
    )]
    pub nameservers: Vec<SocketAddr>,

    /// How keys are distributed to the servers of -s [default: ketama_weighted, as libmemcached does it]
    #[arg(long, value_name = "NAME", env = "EVENKEEL_PROXY_DISTRIBUTION")]
    pub distribution: Option<Distribution>,

    /// How keys are hashed for it [default: as is usual with the distribution]
    #[arg(long, value_name = "NAME", env = "EVENKEEL_PROXY_HASH")]
    pub hash: Option<Hash>,

    /// Two characters around the part of a key that decides where it lives, such as "{}"
    #[arg(long, value_name = "PAIR", env = "EVENKEEL_PROXY_HASH_TAG")]
    pub hash_tag: Option<HashTag>,

    /// Coordinators of a pool of Evenkeel servers
    #[arg(
        long,
        value_name = "URL[,URL]",
        env = "EVENKEEL_COORDINATOR",
        value_delimiter = ','
    )]
    pub coordinator: Vec<String>,

    /// How coordinators let this proxy in
    #[command(flatten)]
    pub coordinator_access: AccessArgs,

    /// Name of the cluster [default: evenkeel]
    #[arg(long, env = "EVENKEEL_CLUSTER")]
    pub cluster: Option<String>,

    /// Name in the cluster [default: HOST:PORT]
    #[arg(long, env = "EVENKEEL_NAME")]
    pub name: Option<String>,

    /// Host name or address to report to the coordinator [default: the first -l address], and to clients that ask for the
    /// servers [default: the address they have come to]
    #[arg(long, value_name = "HOST", env = "EVENKEEL_ADVERTISE")]
    pub advertise: Option<String>,

    /// Rack that the proxy stands in, one of [topology.racks] [default: the one that has the address of --advertise]
    #[arg(long, value_name = "NAME", env = "EVENKEEL_PROXY_RACK")]
    pub rack: Option<String>,

    /// Address of an HTTP port for a web page at /, /metrics, /healthz and /readyz; without it there is none
    #[arg(long, value_name = "IP:PORT", value_parser = parse_http_address, env = "EVENKEEL_PROXY_ADMIN")]
    pub admin: Option<SocketAddr>,

    /// File for a log of requests, one JSON object a line; - for standard output. SIGHUP opens it anew
    #[arg(long, value_name = "FILE", env = "EVENKEEL_PROXY_REQUEST_LOG")]
    pub request_log: Option<PathBuf>,

    /// Log one of this many requests, on average; 0 for none by chance [default: 1000]
    #[arg(long, value_name = "N", env = "EVENKEEL_PROXY_REQUEST_LOG_SAMPLE")]
    pub request_log_sample: Option<u32>,

    /// Log each request that takes this long or longer, a hundred a second and worker
    #[arg(long, value_name = "TIME", value_parser = timeout, env = "EVENKEEL_PROXY_REQUEST_LOG_SLOW")]
    pub request_log_slow: Option<Duration>,

    /// Log hashes instead of keys
    #[arg(long)]
    pub request_log_hash_keys: bool,

    /// File for a profile of requests, for `evenkeel profile report`; the one before it is FILE.1
    #[arg(long, value_name = "FILE", env = "EVENKEEL_PROXY_PROFILE")]
    pub profile: Option<PathBuf>,

    /// Record one of this many pages, and one of this many keys [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), env = "EVENKEEL_PROXY_PROFILE_SAMPLE")]
    pub profile_sample: Option<u32>,

    /// Record every request
    #[arg(long)]
    pub profile_full: bool,

    /// Most bytes of the profile and the one before it, or with suffix k, m or g [default: 1g]
    #[arg(long, value_name = "BYTES", value_parser = profile_max, env = "EVENKEEL_PROXY_PROFILE_MAX")]
    pub profile_max: Option<u64>,

    /// Proxy workers (threads) [default: 2]
    #[arg(short = 't', long, env = "EVENKEEL_PROXY_THREADS")]
    pub threads: Option<u16>,

    /// Maximum connections of applications at a time [default: 1024]
    #[arg(short = 'c', long, env = "EVENKEEL_PROXY_CONN_LIMIT")]
    pub conn_limit: Option<usize>,

    /// Requests of one connection executed in a row before others have a turn [default: 20]
    #[arg(short = 'R', long)]
    pub max_reqs_per_event: Option<u32>,

    /// Length of the queue of connections not yet accepted [default: 1024]
    #[arg(short = 'b', long)]
    pub listen_backlog: Option<u32>,

    /// Largest item: bytes, or with suffix k, m or g; as the servers' -I [default: 1m]
    #[arg(short = 'I', long, value_parser = item_size)]
    pub max_item_size: Option<usize>,

    /// Most memory for what applications have sent in part and have not read, all together: bytes, or with
    /// suffix k, m or g [default: 64m]
    #[arg(long, value_name = "SIZE", value_parser = buffer_memory, env = "EVENKEEL_PROXY_BUFFER_MEMORY")]
    pub buffer_memory: Option<usize>,

    /// How long connecting to a server may take [default: 250ms]
    #[arg(long, value_parser = timeout, env = "EVENKEEL_PROXY_CONNECT_TIMEOUT")]
    pub connect_timeout: Option<Duration>,

    /// How long a server's answer may take [default: 1s]
    #[arg(long, value_parser = timeout, env = "EVENKEEL_PROXY_REQUEST_TIMEOUT")]
    pub request_timeout: Option<Duration>,

    /// What a get is answered when its server cannot be asked; writes are always answered an error
    /// [default: miss]
    #[arg(long, value_enum, env = "EVENKEEL_PROXY_ON_DOWN")]
    pub on_down: Option<Down>,

    /// Where the keys of a server of -s go while it is out of use [default: none]
    #[arg(long, value_enum, env = "EVENKEEL_PROXY_FAILOVER")]
    pub failover: Option<Elsewhere>,

    /// Pass flush_all on, to all servers
    #[arg(long)]
    pub allow_flush: bool,

    /// Ask the servers of -s for each get, also for identical ones that wait to be sent
    #[arg(long)]
    pub no_collapse: bool,

    /// Require applications to authenticate by SASL PLAIN; speaks the binary protocol alone
    #[arg(short = 'S', long)]
    pub enable_sasl: bool,

    /// File of user:password lines for -S
    #[arg(long, value_name = "FILE", env = "EVENKEEL_PROXY_SASL_PWDB")]
    pub sasl_pwdb: Option<PathBuf>,

    /// Require applications to authenticate by this file of user:password lines; speaks text
    /// alone
    #[arg(
        short = 'Y',
        long,
        value_name = "FILE",
        env = "EVENKEEL_PROXY_AUTH_FILE"
    )]
    pub auth_file: Option<PathBuf>,

    /// Speak TLS to applications: needs -o ssl_chain_cert=FILE, and ssl_key=FILE unless the key is in
    /// the same file
    #[arg(short = 'Z', long)]
    pub enable_ssl: bool,

    /// memcached's options for TLS, separated by commas: ssl_chain_cert, ssl_key, ssl_ca_cert,
    /// ssl_verify_mode, ssl_min_version, ssl_ciphers, ssl_session_cache
    #[arg(short = 'o', long, value_name = "NAME[=VALUE],…")]
    pub extended: Vec<String>,
}

/// What to do instead of serving.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Says what is wrong in a configuration file, and where
    Check {
        /// The file
        file: PathBuf,

        /// How to say it
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
}

/// How to say what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// What a get is answered when its server cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Down {
    /// A miss.
    Miss,
    /// SERVER_ERROR.
    Error,
}

/// Where the keys of a server go while it is out of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Elsewhere {
    /// Nowhere.
    None,
    /// To the next server that is in use.
    Next,
}

impl Args {
    /// Checks what clap cannot.
    ///
    /// # Errors
    /// One line that says which flag is wrong and what it allows.
    pub fn check(&self) -> Result<(), UsageError> {
        let fail = |message: String| Err(UsageError(message));
        let sources = [
            self.config.is_some(),
            !self.servers.is_empty(),
            self.servers_file.is_some(),
            self.dns.is_some(),
            self.srv.is_some(),
            !self.coordinator.is_empty(),
        ];
        if sources.into_iter().filter(|given| *given).count() != 1 {
            return fail(
                "give one of -s SERVER[,SERVER], --servers-file FILE, --dns NAME and --srv NAME (a \
                 pool of any memcached servers), --coordinator URL (a pool of Evenkeel servers) or \
                 --config FILE"
                    .into(),
            );
        }
        if let Some(threads) = self.threads
            && !(1..=THREADS_MAX).contains(&threads)
        {
            return fail(format!("-t {threads}: use 1 to {THREADS_MAX} threads"));
        }
        if self.max_reqs_per_event == Some(0) {
            return fail("-R 0: at least one request must be executed in a turn".into());
        }
        let discovery = self.discovery()?;
        if self.refresh.is_some() && discovery.is_none() && self.config.is_none() {
            return fail("--refresh goes with --servers-file, --dns and --srv".into());
        }
        if !self.servers.is_empty() {
            self.placement()?;
            return Ok(());
        }
        if discovery.is_some() {
            return Ok(());
        }
        let only_for_servers = [
            ("--distribution", self.distribution.is_some()),
            ("--hash", self.hash.is_some()),
            ("--hash-tag", self.hash_tag.is_some()),
            ("--failover", self.failover.is_some()),
        ];
        match only_for_servers.iter().find(|(_, given)| *given) {
            Some((flag, _)) => fail(format!(
                "{flag} goes with -s: in a pool of Evenkeel servers the map says where keys live"
            )),
            None => Ok(()),
        }
    }

    /// The servers of `-s` and how keys are distributed to them.
    ///
    /// # Errors
    /// Names the server that is none, or why keys cannot be distributed.
    pub fn placement(&self) -> Result<PlacementConfig, UsageError> {
        let servers = self.servers.iter().map(|server| server.trim().parse());
        let servers: Result<_, BadServer> = servers.collect();
        let config = PlacementConfig {
            distribution: self.distribution.unwrap_or_default(),
            hash: self.hash,
            servers: servers.map_err(|error| UsageError(format!("-s: {error}")))?,
            hash_tag: self.hash_tag,
        };
        config
            .check()
            .map_err(|error| UsageError(format!("-s {}: {error}", self.servers.join(","))))?;
        Ok(config)
    }

    /// The servers that are looked for, unless they are listed or a map names them.
    ///
    /// # Errors
    /// Names the flag that names no source.
    pub fn discovery(&self) -> Result<Option<DiscoverySpec>, UsageError> {
        let bad = |flag: &str, error: String| UsageError(format!("{flag}: {error}"));
        let source = if let Some(path) = &self.servers_file {
            Source::File(path.clone())
        } else if let Some(name) = &self.dns {
            Source::addresses(name, Family::All).map_err(|error| bad("--dns", error))?
        } else if let Some(name) = &self.srv {
            Source::services(name).map_err(|error| bad("--srv", error))?
        } else {
            return Ok(None);
        };
        Ok(Some(DiscoverySpec {
            refresh: self.refresh.unwrap_or(source.refresh_default()),
            source,
            placement: PlacementConfig {
                distribution: self.distribution.unwrap_or_default(),
                hash: self.hash,
                servers: Vec::new(),
                hash_tag: self.hash_tag,
            },
        }))
    }

    /// The TCP addresses of `-l`; `None` without it.
    ///
    /// # Errors
    /// Names the address that is none.
    pub fn listeners(&self) -> Result<Option<Vec<ListenSpec>>, UsageError> {
        let port = self.port.unwrap_or(PORT_DEFAULT);
        let Some(listen) = &self.listen else {
            return Ok(self.port.map(|port| vec![ListenSpec::loopback(port)]));
        };
        let specs = listen.split(',').map(|text| listener(text.trim(), port));
        specs.collect::<Result<_, _>>().map(Some)
    }

    /// Takes in what `-o` says of TLS. Returns the warnings to print.
    ///
    /// # Errors
    /// Names the option that is none or has no usable value.
    pub fn tls_options(&self, tls: &mut TlsOptions) -> Result<Vec<String>, UsageError> {
        let mut warnings = Vec::new();
        let options = self.extended.iter().flat_map(|list| list.split(','));
        for option in options.map(str::trim).filter(|option| !option.is_empty()) {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            if !tls.take(&GivenOption { name, value }, &mut warnings)? {
                let known = TlsOptions::NAMES.join(", ");
                return Err(UsageError(format!("-o {name}: use one of {known}")));
            }
        }
        Ok(warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use clap::Parser;
    use evenkeel_proxy_core::PoolSettings;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Program::try_parse_from(["proxy"].into_iter().chain(line.split_whitespace()))
            .map(|program| program.args)
    }

    #[test]
    fn a_pool_of_memcached_servers_needs_nothing_but_its_servers() {
        let args = parse("-s a:11212,b,[::1]:3,10.0.0.1").unwrap();
        args.check().unwrap();
        let pool = args.placement().unwrap();
        assert_eq!(pool.distribution, Distribution::KetamaWeighted);
        let servers = pool.servers;
        let named: Vec<_> = servers.iter().map(|s| (s.host.as_str(), s.port)).collect();
        assert_eq!(
            named,
            [("a", 11212), ("b", 11211), ("::1", 3), ("10.0.0.1", 11211)]
        );
        let settings = Settings::read(&args).unwrap();
        let listen = ListenSpec::at("127.0.0.1:11211".parse().unwrap());
        assert_eq!(settings.listen, [listen]);
        assert_eq!(settings.pools[0].settings, PoolSettings::default());
        assert_eq!((settings.max_reqs_per_event, settings.threads), (20, 2));
    }

    #[test]
    fn how_keys_are_dealt_is_chosen_by_name() {
        let line = "-s a:1,b:1 --distribution ketama --hash fnv1a_64 --hash-tag {}";
        let pool = parse(line).unwrap().placement().unwrap();
        assert_eq!(pool.distribution, Distribution::Ketama);
        assert_eq!(pool.hash, Some(Hash::Fnv1a64));
        assert!(pool.hash_tag.is_some());
        let program = Program::try_parse_from(["proxy", "-s", "a:1:3 one,b"]).map(|p| p.args);
        let servers = program.unwrap().placement().unwrap().servers;
        assert_eq!(
            (servers[0].weight, servers[0].identity()),
            (3, "one".into())
        );
        for line in ["--distribution kettle", "--hash sha1", "--hash-tag {"] {
            let error = parse(&format!("-s a {line}")).err().unwrap().to_string();
            assert!(error.contains(line.split(' ').nth(1).unwrap()), "{error}");
        }
    }

    #[test]
    fn exactly_one_kind_of_pool_is_given() {
        assert!(parse("").unwrap().check().is_err());
        assert!(parse("-s a --coordinator http://c:1").is_err());
        parse("--coordinator http://c:1,http://d:1")
            .unwrap()
            .check()
            .unwrap();
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (line, named) in [
            ("-s a:x", "server \"a:x\""),
            ("-s a:0", "server \"a:0\""),
            ("-s a,,b", "server \"\""),
            ("-s a:1,b:1,a:1", "server a:1 is listed twice"),
            ("-s a:1:0", "the weight of server a:1 is 0"),
            ("-s a:1:2 --distribution ketama", "server a:1 has weight 2"),
            ("--coordinator http://c:1 --hash md5", "--hash goes with -s"),
            ("-s a -t 0", "-t 0"),
            ("-s a -t 257", "-t 257"),
            ("-s a -R 0", "-R 0"),
            ("-s a -l 127.0.0.1:x", "127.0.0.1:x"),
            ("-s a -l proto[ascii]:127.0.0.1", "proto[ascii]"),
            ("-s a -S", "--sasl-pwdb"),
            ("-s a -S --sasl-pwdb f -Y f", "-S and -Y"),
            ("-s a -Z", "ssl_chain_cert"),
            ("-s a -l mtls:127.0.0.1", "mtls:127.0.0.1"),
            ("-s a -o ssl_key=f", "without -Z"),
            ("-s a -o hashpower=20", "hashpower"),
            (
                "-s a -Z -o ssl_chain_cert=f,ssl_verify_mode=4",
                "ssl_verify_mode=4",
            ),
        ] {
            let error = Settings::read(&parse(line).unwrap()).unwrap_err().line();
            assert!(error.contains(named), "{line}: {error}");
        }
        for line in [
            "-s a --request-timeout 5",
            "-s a --request-timeout 0ms",
            "-s a --connect-timeout 61s",
            "-s a -I 1",
            "-s a --config f",
            "--config f --allow-flush",
            "--config f --request-timeout 1s",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        parse("--config f -l 127.0.0.1:0 -t 3")
            .unwrap()
            .check()
            .unwrap();
    }
}
