//! What stands in a configuration file: the process, its pools, its routes. `docs/proxy.md` lists
//! every key.

use super::adaptive::ring;
use super::architecture::{architecture, directory};
use super::bundles::copies;
use super::diagnostic::{Problem, Rejection, did_you_mean, foreign};
use super::front::{FRONT_KEYS, Front, front};
use super::generation::generation;
use super::hot_keys::hot_keys;
use super::local_copies::local_copies;
use super::others::{Led, Others, check_led, failover, leader, warm_from};
use super::pools::{HoldingPlan, PoolPlan};
use super::profile::{PROFILE_KEYS, ProfilePlan, profile};
use super::reader::{At, Reader, Section};
use super::request_log::{LOG_KEYS, LogPlan, request_log};
use super::secure::{login, tls};
use super::servers::servers;
use super::topology::{RackPlan, topology};
use crate::limits::{
    CONN_LIMIT_MAX, THREADS_MAX, buffer_memory, gone_after, item_size, nameserver, timeout,
};
use evenkeel_proxy_core::limits::FAILOVER_TTL_MAX;
use evenkeel_proxy_core::{
    CommandClass, Commands, Enough, Failover, Limit, OnDown, PoolSettings, RouteConfig, RouteError,
    RouteTable, RouteTarget, TTL_BOUND_MAX, TtlBounds,
};
use evenkeel_runtime::parse_permissions;
use evenkeel_schemes::locality::model::Architecture;
use evenkeel_schemes::locality::topology::RackId;
use md5::{Digest, Md5};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Largest configuration file, in bytes: 4,096 routes and as many servers need a quarter of it.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// Most pools of a file: each worker keeps connections for each.
pub const POOLS_MAX: usize = 1024;

const PROCESS_KEYS: [&str; 14] = [
    "unix_socket",
    "unix_mask",
    "threads",
    "conn_limit",
    "listen_backlog",
    "max_item_size",
    "max_reqs_per_event",
    "buffer_memory",
    "limit_keys",
    "gone_after",
    "name",
    "advertise",
    "rack",
    "nameservers",
];

const POOL_KEYS: &[&str] = &[
    "servers",
    "servers_file",
    "dns",
    "srv",
    "refresh",
    "family",
    "tls",
    "tls_ca",
    "tls_server_name",
    "tls_cert",
    "tls_key",
    "auth_file",
    "distribution",
    "hash",
    "hash_tag",
    "start",
    "generation",
    "coordinator",
    "cluster",
    "connect_timeout",
    "request_timeout",
    "on_down",
    "allow_flush",
    "warm_from",
    "warm_fill",
    "pool_coordinator",
    "failover",
    "gutter",
    "failover_ttl",
    "flush_on_return",
    "collapse",
    "hot_keys",
    "hot_keys_lease",
    "hot_keys_replicas",
    "architecture",
    "rack_copies",
    "directory",
    "local_copies",
    "local_copies_ttl",
    "bundle",
    "copies",
    "copies_ttl",
    "copies_value_max",
    "copies_fill_share",
    "copies_strict",
];

const ROUTE_KEYS: &[&str] = &[
    "prefix",
    "commands",
    "pool",
    "deny",
    "read_only",
    "strip_prefix",
    "add_prefix",
    "ttl_min",
    "ttl_max",
    "ttl_jitter",
    "get_at_least",
    "get_within",
];

/// A file that can be used.
#[derive(Clone, Debug)]
pub struct File {
    pub process: Process,
    pub pools: Vec<PoolPlan>,
    pub routes: Arc<RouteTable>,
    pub racks: RackPlan,
    /// MD5 of the file, in hexadecimal: what `md5sum` says.
    pub digest: String,
}

impl Default for File {
    /// No pools.
    fn default() -> Self {
        File {
            process: Process::default(),
            pools: Vec::new(),
            routes: Arc::new(RouteTable::all_to_first()),
            racks: RackPlan::default(),
            digest: String::new(),
        }
    }
}

/// The section `[proxy]`: what stands there.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pub front: Front,
    pub request_log: LogPlan,
    pub profile: ProfilePlan,
    pub unix_socket: Option<PathBuf>,
    pub unix_mask: Option<u32>,
    pub threads: Option<u16>,
    pub conn_limit: Option<usize>,
    pub listen_backlog: Option<u32>,
    pub max_item_size: Option<usize>,
    pub max_reqs_per_event: Option<u32>,
    pub buffer_memory: Option<usize>,
    pub limit_keys: bool,
    pub gone_after: Option<Duration>,
    pub name: Option<String>,
    pub advertise: Option<String>,
    pub rack: Option<RackId>,
    pub nameservers: Option<Vec<SocketAddr>>,
}

/// Reads a file.
///
/// # Errors
/// Everything that is wrong in it.
#[allow(
    clippy::disallowed_methods,
    reason = "at the start, and on the thread that reloads"
)]
pub fn read(path: &Path) -> Result<File, Rejection> {
    let unreadable = |what: String| Rejection::unreadable(path, what);
    let length = std::fs::metadata(path)
        .map_err(|error| unreadable(error.to_string()))?
        .len();
    if length > FILE_BYTES_MAX {
        return Err(unreadable("too large for a configuration file".into()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    read_text(path, text)
}

/// Reads what stands in a file, or is to stand there.
///
/// # Errors
/// Everything that is wrong in it.
pub fn read_text(path: &Path, text: String) -> Result<File, Rejection> {
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    understand(&text, folder).map_err(|(problems, unsaid)| Rejection {
        file: path.display().to_string(),
        text,
        problems,
        unsaid,
    })
}

/// The fingerprint that a file would have if it were read now.
///
/// # Errors
/// Why it cannot be read. What takes its place and is no ordinary file is left alone, for a pipe may keep its reader waiting.
#[allow(
    clippy::disallowed_methods,
    reason = "at the start, and on the thread that reloads"
)]
pub fn fingerprint(path: &Path) -> Result<String, String> {
    let named = |what: String| format!("{}: {what}", path.display());
    let read = || -> io::Result<Vec<u8>> {
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("no ordinary file"));
        }
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path)?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error| named(error.to_string()))?;
    Ok(digest(&bytes))
}

/// The file, or what is wrong in the order of the text, and how much more.
fn understand(text: &str, folder: PathBuf) -> Result<File, (Vec<Problem>, usize)> {
    let root = DeTable::parse(text).map_err(|error| {
        let problem = Problem {
            span: error.span().unwrap_or(0..0),
            what: foreign(text).unwrap_or_else(|| error.message().to_owned()),
        };
        (vec![problem], 0)
    })?;
    let mut reader = Reader::new(folder);
    let root = root.get_ref();
    reader.keys("the file", root, &["proxy", "topology", "pools", "routes"]);
    let find = |name: &str| root.iter().find(|(key, _)| key.get_ref() == name);
    let racks = find("topology").map(|(_, value)| topology(&mut reader, value));
    let mut racks = racks.unwrap_or_default();
    let process = find("proxy").map(|(_, value)| process(&mut reader, value, &racks));
    let pools = find("pools").map(|(_, value)| pools(&mut reader, value, &mut racks));
    let (pools, names, led) = pools.unwrap_or_default();
    if names.is_empty() && reader.problems.is_empty() {
        reader.fail(0..0, "there is no pool: add a table [pools.NAME]");
    }
    let routes = find("routes").map(|(_, value)| value);
    let routes = routes_of(&mut reader, routes, &names);
    if let Some(routes) = &routes {
        check_led(&mut reader, &led, routes, &names);
    }
    match routes {
        Some(routes) if reader.problems.is_empty() => Ok(File {
            process: process.unwrap_or_default(),
            pools,
            routes: Arc::new(routes),
            racks,
            digest: digest(text.as_bytes()),
        }),
        _ => Err(reader.sorted()),
    }
}

fn digest(text: &[u8]) -> String {
    let digest = Md5::digest(text);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn process(reader: &mut Reader, value: &Spanned<DeValue<'_>>, racks: &RackPlan) -> Process {
    let known = [&FRONT_KEYS[..], &LOG_KEYS, &PROFILE_KEYS, &PROCESS_KEYS].concat();
    let Some(section) = reader.section("[proxy]", value, &known) else {
        return Process::default();
    };
    let section = &section;
    let u16_of = |at: At<u64>| u16::try_from(at.value).unwrap_or(u16::MAX);
    let u32_of = |at: At<u64>| u32::try_from(at.value).unwrap_or(u32::MAX);
    let threads = reader.number(section, "threads", 1..=THREADS_MAX.into());
    let conn_limit = reader.number(section, "conn_limit", 1..=CONN_LIMIT_MAX as u64);
    let listen_backlog = reader.number(section, "listen_backlog", 1..=u32::MAX.into());
    let requests = reader.number(section, "max_reqs_per_event", 1..=u32::MAX.into());
    Process {
        front: front(reader, section),
        request_log: request_log(reader, section),
        profile: profile(reader, section),
        unix_socket: reader.path(section, "unix_socket").map(|at| at.value),
        unix_mask: reader
            .parsed(section, "unix_mask", parse_permissions)
            .map(|at| at.value),
        threads: threads.map(u16_of),
        conn_limit: conn_limit.and_then(|at| usize::try_from(at.value).ok()),
        listen_backlog: listen_backlog.map(u32_of),
        max_item_size: reader
            .parsed(section, "max_item_size", item_size)
            .map(|at| at.value),
        max_reqs_per_event: requests.map(u32_of),
        buffer_memory: reader
            .parsed(section, "buffer_memory", buffer_memory)
            .map(|at| at.value),
        limit_keys: reader.flag_or(section, "limit_keys", false),
        gone_after: reader
            .parsed(section, "gone_after", gone_after)
            .map(|at| at.value),
        name: reader.text(section, "name").map(|at| at.value),
        advertise: reader.text(section, "advertise").map(|at| at.value),
        rack: reader
            .parsed(section, "rack", |name| racks.named(name))
            .map(|at| at.value),
        nameservers: nameservers(reader, section),
    }
}

fn nameservers(reader: &mut Reader, section: &Section<'_>) -> Option<Vec<SocketAddr>> {
    let texts = reader.texts(section, "nameservers")?;
    let mut addresses = Vec::new();
    for text in texts {
        match nameserver(&text.value) {
            Ok(address) => addresses.push(address),
            Err(error) => reader.fail(text.span, format!("nameservers: {error}")),
        }
    }
    Some(addresses)
}

/// The pools that can be used and the names of all, both in the order of the file, and those whose change is led.
fn pools(
    reader: &mut Reader,
    value: &Spanned<DeValue<'_>>,
    racks: &mut RackPlan,
) -> (Vec<PoolPlan>, Vec<String>, Vec<Led>) {
    let Some(table) = value.get_ref().as_table() else {
        let kind = value.get_ref().type_str();
        reader.fail(
            value.span(),
            format!("pools is a table of tables, not a {kind}"),
        );
        return Default::default();
    };
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    if entries.len() > POOLS_MAX {
        let what = format!("{} pools are more than {POOLS_MAX}", entries.len());
        reader.fail(value.span(), what);
    }
    let mut plans = Vec::new();
    let mut names = Vec::new();
    let mut others = Others::default();
    for (key, value) in entries {
        let name = key.get_ref().to_string();
        let is_word = |c: char| c.is_ascii_graphic() && c != '/' && c != ':';
        if name.is_empty() || !name.chars().all(is_word) {
            let what = "a pool's name is of letters, digits and signs other than / and :";
            reader.fail(key.span(), what);
        }
        plans.extend(pool(reader, &name, value, &mut others, racks));
        names.push(name);
    }
    let led = others.check(reader, &plans, &names);
    (plans, names, led)
}

fn pool(
    reader: &mut Reader,
    name: &str,
    value: &Spanned<DeValue<'_>>,
    others: &mut Others,
    racks: &mut RackPlan,
) -> Option<PoolPlan> {
    let section = &reader.section(&format!("pool \"{name}\""), value, POOL_KEYS)?;
    let connect_timeout = reader.parsed(section, "connect_timeout", timeout);
    let request_timeout = reader.parsed(section, "request_timeout", timeout);
    let on_down = reader.parsed(section, "on_down", |text| match text {
        "miss" => Ok(OnDown::Miss),
        "error" => Ok(OnDown::Error),
        _ => Err("use \"miss\" or \"error\""),
    });
    let failover = failover(reader, section);
    if let (Failover::Gutter(gutter), true) = (&failover, section.has("gutter")) {
        let span = section.place_of("gutter");
        let value = gutter.to_string();
        others.note_gutter(name, At { value, span });
    }
    let warm_from = warm_from(reader, section);
    if let Some(former) = &warm_from {
        others.note_former(name, former.clone());
    }
    let follows = leader(reader, section);
    if let (Some(former), Some(_)) = (&warm_from, &follows) {
        let span = section.place_of("pool_coordinator");
        others.note_led(name, &former.value, span);
    }
    let failover_ttl_max = u32::try_from(FAILOVER_TTL_MAX.as_secs()).unwrap_or(u32::MAX);
    let failover_ttl = reader.seconds(section, "failover_ttl", failover_ttl_max);
    let default = PoolSettings::default();
    let settings = PoolSettings {
        connect_timeout: connect_timeout.map_or(default.connect_timeout, |at| at.value),
        request_timeout: request_timeout.map_or(default.request_timeout, |at| at.value),
        on_down: on_down.map_or(default.on_down, |at| at.value),
        allow_flush: reader.flag(section, "allow_flush"),
        failover,
        failover_ttl: failover_ttl.map_or(default.failover_ttl, |at| {
            Duration::from_secs(at.value.into())
        }),
        flush_on_return: reader.flag(section, "flush_on_return"),
        collapse: reader.flag_or(section, "collapse", default.collapse),
        hot_keys: hot_keys(reader, section),
        login: login(reader, section),
        warm_fill: reader.flag_or(section, "warm_fill", default.warm_fill),
        warm_from: warm_from.map(|at| Arc::from(at.value)),
        ..default
    };
    let tls = tls(reader, section);
    let servers = servers(reader, name, section, racks)?;
    let ring = ring(reader, section, &servers);
    let name_prefix = generation(reader, name, section, &servers);
    let copies = copies(reader, section, &servers);
    let architecture = architecture(reader, section, &servers, racks);
    let directory = directory(reader, section);
    if let Some(directory) = &directory {
        others.note_directory(name, directory.clone());
    }
    let is_held = matches!(architecture, Some(Architecture::Snoop | Architecture::Dir));
    let copying = local_copies(reader, section, is_held);
    let holding = is_held.then(|| HoldingPlan {
        directory: directory.map(|at| Arc::from(at.value)),
        copying,
        own: None,
        others: Vec::new(),
    });
    Some(PoolPlan {
        name: Arc::from(name),
        servers,
        follows,
        tls,
        settings: PoolSettings {
            adaptive: ring.is_some(),
            name_prefix,
            ..settings
        },
        ring,
        copies,
        holding,
    })
}

/// The table of the routes. A file with one pool and no routes takes everything to that pool.
fn routes_of(
    reader: &mut Reader,
    value: Option<&Spanned<DeValue<'_>>>,
    pools: &[String],
) -> Option<RouteTable> {
    let Some(value) = value else {
        if pools.len() > 1 {
            let what = "several pools need routes: add a table [[routes]] for each";
            reader.fail(0..0, what);
        }
        return Some(RouteTable::all_to_first());
    };
    let Some(array) = value.get_ref().as_array() else {
        let kind = value.get_ref().type_str();
        let what = format!("routes is a list of tables, [[routes]], not a {kind}");
        reader.fail(value.span(), what);
        return None;
    };
    let before = reader.problems.len();
    let mut routes = Vec::new();
    let mut places = Vec::new();
    for value in array {
        let Some(section) = reader.section("a route", value, ROUTE_KEYS) else {
            continue;
        };
        routes.extend(route(reader, &section, pools));
        places.push(section);
    }
    if reader.problems.len() > before {
        return None;
    }
    match RouteTable::new(routes, pools.len()) {
        Ok(table) => Some(table),
        Err(error) => {
            let first = places.first().map_or(0..0, |section| section.span.clone());
            reader.fail(
                place_of(&error, &places).unwrap_or(first),
                error.to_string(),
            );
            None
        }
    }
}

/// Where the fault of a table stands.
fn place_of(error: &RouteError, places: &[Section<'_>]) -> Option<Range<usize>> {
    let (route, key) = match error {
        RouteError::TooMany { .. } | RouteError::NoDefault { .. } => return None,
        RouteError::Duplicate { route, .. } | RouteError::BadPrefix { route } => (route, "prefix"),
        RouteError::NoPool { route } => (route, "pool"),
        RouteError::BadAddPrefix { route } => (route, "add_prefix"),
        RouteError::NothingToStrip { route } => (route, "strip_prefix"),
        RouteError::NoCommands { route } => (route, "commands"),
    };
    Some(places.get(*route)?.place_of(key))
}

fn route(reader: &mut Reader, section: &Section<'_>, pools: &[String]) -> Option<RouteConfig> {
    let bytes = |at: Option<At<String>>| -> Box<[u8]> {
        at.map_or_else(Box::default, |at| at.value.into_bytes().into())
    };
    let prefix = bytes(reader.text(section, "prefix"));
    let commands = reader.texts(section, "commands").map(|words| {
        let mut commands = Commands::NONE;
        for word in words {
            let known = || CommandClass::ALL.into_iter();
            match known().find(|class| class.name() == word.value) {
                Some(class) => commands = commands.with(class),
                None => {
                    let names: Vec<_> = known().map(CommandClass::name).collect();
                    let suggestion = did_you_mean(&word.value, names.iter().copied());
                    let names = names.join(", ");
                    let what = format!(
                        "there are no commands \"{}\"{suggestion} (there are {names})",
                        word.value
                    );
                    reader.fail(word.span, what);
                }
            }
        }
        commands
    });
    let denies = reader.flag(section, "deny");
    let target = match (reader.text(section, "pool"), denies) {
        (Some(name), false) => match pools.iter().position(|pool| *pool == name.value) {
            Some(pool) => Some(RouteTarget::Pool(pool)),
            None => {
                let suggestion = did_you_mean(&name.value, pools.iter().map(String::as_str));
                let known = pools.join(", ");
                let what = format!(
                    "there is no pool \"{}\"{suggestion} (there are {known})",
                    name.value
                );
                reader.fail(name.span, what);
                None
            }
        },
        (Some(name), true) => {
            reader.fail(name.span, "a route that denies leads to no pool");
            None
        }
        (None, true) => Some(RouteTarget::Deny),
        (None, false) => {
            reader.fail(section.span.clone(), "a route needs a pool, or deny = true");
            None
        }
    };
    let min = reader.seconds(section, "ttl_min", TTL_BOUND_MAX);
    let max = reader.seconds(section, "ttl_max", TTL_BOUND_MAX);
    if let (Some(min), Some(max)) = (&min, &max)
        && min.value > max.value
    {
        reader.fail(min.span.clone(), "ttl_min is above ttl_max");
    }
    let jitter = reader.fraction(section, "ttl_jitter", 0.0..=1.0);
    Some(RouteConfig {
        prefix,
        commands: commands.unwrap_or(Commands::ALL),
        target: target?,
        read_only: reader.flag(section, "read_only"),
        strip_prefix: reader.flag(section, "strip_prefix"),
        add_prefix: bytes(reader.text(section, "add_prefix")),
        ttl: TtlBounds {
            min: min.map_or(0, |at| at.value),
            max: max.map_or(0, |at| at.value),
            jitter: jitter.map_or(0, TtlBounds::jitter_of),
        },
        limit: limit(reader, section),
    })
}

/// How much of a multi-get is enough.
fn limit(reader: &mut Reader, section: &Section<'_>) -> Option<Limit> {
    let percent = |text: &str| {
        let percent = text.strip_suffix('%').and_then(|of| of.parse().ok());
        let percent = percent.filter(|it| (1..=100).contains(it));
        percent.ok_or_else(|| format!("{text:?} is not \"1%\" to \"100%\""))
    };
    let percent = reader.parsed(section, "get_at_least", percent);
    let within = reader.parsed(section, "get_within", timeout);
    let enough = percent.map(|at| Enough::Percent(at.value));
    let within = within.map(|at| at.value);
    (enough.is_some() || within.is_some()).then_some(Limit { enough, within })
}
