//! What a proxy worker is told when it is made, and again when its configuration changes.

use crate::bundles::Bundles;
use crate::limits::{CONNECT_TIMEOUT, FAILOVER_TTL, OUT_CLOSE, REQUEST_TIMEOUT, REQUESTS_PER_TURN};
use crate::racks::Racks;
use crate::routes::RouteTable;
use crate::server_list::ServerList;
use core::fmt;
use core::time::Duration;
use evenkeel_hotkeys::plain::PlainConfig;
use evenkeel_profile::Head;
use evenkeel_protocol::Limits;
use evenkeel_protocol::auth::{AuthMode, Credentials};
use evenkeel_schemes::generation::PREFIX_LEN;
use evenkeel_schemes::locality::topology::RackId;
use evenkeel_types::UnixSeconds;
use std::sync::Arc;

/// Name of the pool that the command line makes; a configuration file may have one of that name too.
/// Its servers go by their own names in statistics and errors, those of others by `POOL/SERVER`.
pub const DEFAULT_POOL: &str = "default";

/// What a get is answered when its server cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDown {
    /// A miss, as a cache may: the application turns to its database.
    #[default]
    Miss,
    /// `SERVER_ERROR`, as for writes.
    Error,
}

/// Where the keys of a server go while it is out of use, in a pool of any memcached servers. With
/// nowhere to go they are answered as [`OnDown`] says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Failover {
    /// Nowhere.
    #[default]
    None,
    /// To the next server that is in use, in the order that the distribution gives each key.
    Next,
    /// To the servers of another pool of any memcached servers, of this name.
    Gutter(Arc<str>),
}

/// Settings of a proxy worker; the same for all workers of a process.
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    /// What applications and servers may make the proxy buffer.
    pub limits: Limits,
    /// Requests of one connection executed before others have their turn; at least 1.
    pub requests_per_turn: u32,
    /// What `version` answers.
    pub version: String,
    /// The pools, each with a name of its own.
    pub pools: Vec<PoolConfig>,
    /// Which of them a request goes to.
    pub routes: Arc<RouteTable>,
    /// Which configuration this is.
    pub revision: Revision,
    /// Who is let in.
    pub access: Access,
    /// Whether the first key of a multi-get may be a limit.
    pub limit_keys: bool,
    /// Which racks there are, and who is in which.
    pub racks: Arc<Racks>,
    /// Which requests are logged; none without it.
    pub request_log: Option<RequestLogConfig>,
    /// Which requests are recorded; none without it.
    pub profile: Option<ProfileConfig>,
    /// What begins the key by which an application says which page it makes, before `PAGE:SESSION`. `None` where none is kept free.
    pub profile_key: Option<Box<[u8]>>,
}

/// What applications must do before they are heard.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// In which way they authenticate. A connection keeps the way that it began with.
    pub mode: AuthMode,
    /// Who may come in, where they have to.
    pub credentials: Option<Arc<Credentials>>,
}

impl Access {
    /// Whether these are the name and the password of somebody.
    pub fn admits(&self, user: &[u8], password: &[u8]) -> bool {
        let credentials = self.credentials.as_ref();
        credentials.is_some_and(|credentials| credentials.check(user, password))
    }
}

/// Tells configurations apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// 1 for the one that the process was started with; one more with each that took its place, be it
    /// for another file or for other servers.
    pub generation: u64,
    /// Fingerprint of the file, or empty without one.
    pub digest: String,
    /// When it was made, as wall-clock time; later ones have later times.
    pub made_at: UnixSeconds,
}

impl Default for Revision {
    fn default() -> Self {
        Revision {
            generation: 1,
            digest: String::new(),
            made_at: 1,
        }
    }
}

/// A pool: servers that share the keys of some routes.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Its name, of its own among the pools.
    pub name: Arc<str>,
    /// What its servers are, and how keys are distributed to them.
    pub kind: PoolKind,
    /// The rest.
    pub settings: PoolSettings,
    /// The copies of its items, in a pool with a list of servers: those that are kept, or would be.
    pub bundles: Option<Arc<Bundles>>,
    /// The racks one of which holds each item, in a pool whose servers are those of the proxy's own rack.
    pub holding: Option<Arc<Holding>>,
}

/// Racks one of which [holds](evenkeel_schemes::locality::holder) each item: the one in which it was written last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// How the rack is found that holds an item.
    pub by: HoldingBy,
    /// The proxy's own rack.
    pub own: RackId,
    /// The other racks, each with the name of the pool that its servers are.
    pub others: Vec<(RackId, Arc<str>)>,
    /// How the own rack copies what other racks hold, if it does.
    pub copying: Option<LocalCopying>,
}

/// How a rack [copies](evenkeel_schemes::locality::local_copies) what others hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalCopying {
    /// How old a copy may be that is shown.
    pub ttl: Duration,
    /// Copies are kept and shown. Without it only what they would save is counted.
    pub keeps: bool,
}

/// How the rack is found that holds an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldingBy {
    /// By notes in all other racks (Snoop).
    Snoop,
    /// By a note in the pool of this name (Dir).
    Directory(Arc<str>),
}

impl PoolConfig {
    /// Whether marks stand at its servers for its own sake, under the names of applications' items or of copies.
    pub(crate) fn has_marks(&self) -> bool {
        self.settings.has_marks() || self.keeps_copies() || self.holding.is_some()
    }

    /// Whether copies of its items are kept.
    pub(crate) fn keeps_copies(&self) -> bool {
        let bundles = self.bundles.as_ref();
        bundles.is_some_and(|bundles| bundles.keeping().is_some())
    }
}

/// What the servers of a pool are.
#[derive(Clone, Debug)]
pub enum PoolKind {
    /// Evenkeel servers, placed by the map that this source gives. Until there is one, requests are
    /// answered with errors.
    Evenkeel(MapSource),
    /// Any memcached servers.
    Memcached(Arc<ServerList>),
}

/// Where the map of a pool of Evenkeel servers comes from: a number that the driver gives each
/// cluster it follows, and no other cluster while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MapSource(pub u32);

/// How TLS is spoken with the servers of a pool: a number that the driver gives each way, and no
/// other way while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TlsId(pub u32);

/// What servers are told that ask for authentication in the text protocol (`-Y`).
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// Name; no spaces.
    pub user: String,
    /// Password; no spaces.
    pub password: String,
}

impl fmt::Debug for Login {
    // The password is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({})", self.user)
    }
}

/// Settings of one pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSettings {
    /// How long connecting and greeting may take together.
    pub connect_timeout: Duration,
    /// How long an answer may take. A request that has to be put to a second place because its key
    /// moves is given up after this time, too.
    pub request_timeout: Duration,
    /// What a get is answered when its server cannot be asked.
    pub on_down: OnDown,
    /// How TLS is spoken with its servers; `None` for plain connections.
    pub tls: Option<TlsId>,
    /// Who the proxy says it is; `None` where nobody asks.
    pub login: Option<Arc<Login>>,
    /// Whether `flush_all` is passed on to all servers of this pool.
    pub allow_flush: bool,
    /// Where keys go while their server is out of use.
    pub failover: Failover,
    /// How long an item lives at most that is stored there, in whole seconds, at least one.
    pub failover_ttl: Duration,
    /// Whether a server that has missed more writes than can be remembered is emptied before it is
    /// used again.
    pub flush_on_return: bool,
    /// Whether identical gets that wait to be sent become one.
    pub collapse: bool,
    /// Whether hot keys of a pool of any memcached servers are looked for, and what is done about them.
    pub hot_keys: PlainConfig,
    /// The pool of any memcached servers that holds what is not here yet.
    pub warm_from: Option<Arc<str>>,
    /// Whether what is not here is still brought from there. Writes delete there in any case. Says nothing where a coordinator leads.
    pub warm_fill: bool,
    /// The coordinator that leads the pool's way from there, stage by stage, if one does, or its ring.
    pub follows: Option<MapSource>,
    /// Whether its hash space follows the load: keys are distributed by a ring that its coordinator leads. Its list says only which servers
    /// there are until that has told a ring.
    pub adaptive: bool,
    /// What stands before the key in the names of its items, where its list's servers know them by [names](evenkeel_schemes::generation) of
    /// its own. A ring has others.
    pub name_prefix: Option<[u8; PREFIX_LEN]>,
}

impl Default for PoolSettings {
    fn default() -> Self {
        PoolSettings {
            connect_timeout: CONNECT_TIMEOUT,
            request_timeout: REQUEST_TIMEOUT,
            on_down: OnDown::Miss,
            tls: None,
            login: None,
            allow_flush: false,
            failover: Failover::None,
            failover_ttl: FAILOVER_TTL,
            flush_on_return: false,
            collapse: true,
            hot_keys: PlainConfig::default(),
            warm_from: None,
            warm_fill: true,
            follows: None,
            adaptive: false,
            name_prefix: None,
        }
    }
}

impl PoolSettings {
    /// Whether items of ours may stand in the place of applications' items, to be told by their [flags](evenkeel_schemes::mark).
    pub(crate) fn has_marks(&self) -> bool {
        self.warm_from.is_some() || self.adaptive || self.name_prefix.is_some()
    }
}

impl Holding {
    /// Whether a pool of this name is another rack, or the directory.
    fn uses(&self, name: &str) -> bool {
        let is_directory =
            matches!(&self.by, HoldingBy::Directory(directory) if **directory == *name);
        is_directory || self.others.iter().any(|(_, other)| **other == *name)
    }
}

impl ProxyConfig {
    /// Whether marks stand at the servers of one of its pools, also for the sake of others.
    pub(crate) fn has_marks(&self, pool: &PoolConfig) -> bool {
        let mut holdings = self.pools.iter().filter_map(|pool| pool.holding.as_ref());
        pool.has_marks() || holdings.any(|holding| holding.uses(&pool.name))
    }

    /// Bytes of unread answers from which on an application's connection is closed.
    #[inline]
    pub(crate) fn unread_max(&self) -> usize {
        let items = self.limits.item_size_max.saturating_mul(2);
        items.max(OUT_CLOSE)
    }

    /// What servers may make us buffer: values that an application's output has room for, so that a
    /// server with a larger item size than ours is not taken for a broken one.
    pub(crate) fn reply_limits(&self) -> Limits {
        Limits {
            item_size_max: self.limits.item_size_max.max(OUT_CLOSE),
            ..self.limits
        }
    }

    /// One pool for all keys and commands, and the rest as usual.
    pub fn of_pool(kind: PoolKind, settings: PoolSettings) -> Self {
        ProxyConfig {
            limits: Limits {
                nul_refused: true,
                ..Limits::default()
            },
            requests_per_turn: REQUESTS_PER_TURN,
            version: String::from(evenkeel_types::VERSION),
            pools: vec![PoolConfig {
                name: Arc::from(DEFAULT_POOL),
                kind,
                settings,
                bundles: None,
                holding: None,
            }],
            routes: Arc::new(RouteTable::all_to_first()),
            revision: Revision::default(),
            access: Access::default(),
            limit_keys: false,
            racks: Arc::default(),
            request_log: None,
            profile: None,
            profile_key: None,
        }
    }
}

/// What is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLogConfig {
    /// One of this many requests, on average; 0 for none by chance.
    pub sample: u32,
    /// Each that took this long or longer, within [`SLOW_LOGGED_PER_SECOND_MAX`](crate::SLOW_LOGGED_PER_SECOND_MAX).
    pub slow: Option<Duration>,
    /// Keys are not told, but their hashes.
    pub hash_keys: bool,
}

/// What is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileConfig {
    /// What the file begins with: the sampling and the pools are those by which requests are recorded.
    pub head: Arc<Head>,
    /// The proxy's own rack, by its position in the head.
    pub own_rack: u8,
}
