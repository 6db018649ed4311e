//! What is said of a key's way.

use evenkeel_schemes::stage::Stage;
use serde::{Deserialize, Serialize};

/// Other places of a key that are listed; the rest are counted. Of tens of servers nobody reads on.
pub const PLACES_LISTED_MAX: usize = 8;

/// The ways of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The key; what is no UTF-8 in it is shown as U+FFFD.
    pub key: String,
    /// Generation of the configuration.
    pub config_generation: u64,
    /// Whether a proxy that serves told it, which knows how its servers are. That is the view of the
    /// one worker that was asked; each judges for itself.
    pub running: bool,
    /// One for the commands that share it.
    pub ways: Vec<KeyWay>,
}

/// The way that some commands about a key take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyWay {
    /// Their classes, as configuration files call them.
    pub commands: Vec<String>,
    /// The route that they take.
    pub route: RouteFound,
    /// What they are answered, if they go no further.
    pub refused: Option<String>,
    /// Where they go otherwise.
    pub to: Option<Destination>,
}

/// The route of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteFound {
    /// Its place in the configuration, from 1.
    pub number: usize,
    /// Its prefix.
    pub prefix: String,
    /// Why it is this one.
    pub why: String,
}

/// Where a key goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// The pool.
    pub pool: String,
    /// `evenkeel` or `memcached`.
    pub kind: String,
    /// What the pool does with its keys.
    pub scheme: String,
    /// The key as servers know it.
    pub key_sent: String,
    /// Bounds of exptimes, where the route has some.
    pub exptimes: Option<Exptimes>,
    /// How its place is found.
    pub placing: Placing,
    /// The server that it belongs to. Absent without a map, and while nobody owns its cachelet.
    pub home: Option<ServerSeen>,
    /// With memcached servers, where it goes while its home is out of use, in this order; with Evenkeel
    /// servers, who has replicas of it if it is hot, in the order in which they are made.
    pub others: Vec<ServerSeen>,
    /// How many more there are than are listed.
    pub others_unlisted: usize,
    /// Where it is looked for, and deleted, besides: in a pool that is warmed from another.
    pub former: Option<FormerSeen>,
    /// Where else reads go since it is hot, as far as the worker of the proxy knows that was asked.
    pub hot: Option<HotSeen>,
    /// Where its copies are, in a pool that keeps some.
    pub copies: Option<CopiesSeen>,
    /// Where else it may be, in a pool of which one rack holds each item.
    pub racks: Option<RacksSeen>,
    /// The server that is asked, by name. Absent if none is.
    pub asked: Option<String>,
    /// Why.
    pub why: String,
}

/// The pool that another is warmed from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerSeen {
    /// Its name.
    pub pool: String,
    /// The key's server there.
    pub home: Option<ServerSeen>,
    /// How far the pool is on its way from there.
    pub stage: Stage,
}

/// What a worker of a proxy knows of a key that has replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotSeen {
    /// Replicas besides the home's copy.
    pub replicas: u8,
    /// Names of their servers, as many as are listed.
    pub servers: Vec<String>,
    /// For how many microseconds reads may go to them, unless it is renewed. 0 while the home has granted no lease: then they go home.
    pub leased_us: u64,
    /// Bytes of the newest answer, if it is kept to be shown in the place of an older one.
    pub kept_bytes: Option<usize>,
}

/// The copies of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiesSeen {
    /// `off`, `clearing` or `on`; `unknown` before a coordinator has said so.
    pub switch: String,
    /// What a copy is called, where they are on or clearing.
    pub name: Option<String>,
    /// The servers that have copies, in the order of the walk, without the home.
    pub servers: Vec<ServerSeen>,
}

/// The racks of a pool of which one holds each item. Its home is in the proxy's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RacksSeen {
    /// The key's servers in the other racks.
    pub others: Vec<ServerSeen>,
    /// The server that has its note, where the pool has a directory.
    pub directory: Option<ServerSeen>,
    /// What the note is called there.
    pub note: Option<String>,
}

/// Bounds of exptimes, in seconds, 0 for none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exptimes {
    /// Least.
    pub min_s: u32,
    /// Most.
    pub max_s: u32,
    /// The largest part that is taken off at random, in thousandths.
    pub jitter_permille: u32,
}

/// How the place of a key is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Placing {
    /// By a distribution over a list of servers.
    List {
        /// Its name.
        distribution: String,
        /// Name of the hash function.
        hash: String,
        /// The part of the key that is hashed: all of it, or what a hash tag marks.
        hashed: String,
        /// Its hash, in hexadecimal.
        hash_value: String,
    },
    /// By the ring of a pool whose hash space follows the load.
    Ring {
        /// Number of the plan that it is of.
        plan: u64,
        /// Generation of the slice under which the key's item is stored.
        generation: u64,
        /// Name of the hash function.
        hash: String,
        /// The part of the key that is hashed: all of it, or what a hash tag marks.
        hashed: String,
        /// Its hash, in hexadecimal.
        hash_value: String,
    },
    /// By the map of a cluster.
    Map {
        /// Its epoch.
        epoch: u64,
        /// Placement hash of the key, in hexadecimal.
        hash_value: String,
        /// The piece of the hash space that it is in.
        virtual_node: u16,
        /// The cachelet of that.
        cachelet: u16,
    },
    /// By a map or a ring that is not known yet.
    NoMap,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSeen {
    /// Its name in statistics and errors; with Evenkeel servers that of a worker.
    pub name: String,
    /// Where it is.
    pub address: String,
    /// Its rack, if that is known.
    pub rack: Option<String>,
    /// The shortest time that it took to answer in the last minute, in microseconds.
    pub distance_us: Option<u64>,
    /// How it is, as far as the worker of the proxy knows that was asked.
    pub health: Option<HealthSeen>,
}

/// How a server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthSeen {
    /// `in use`, `out of use` or `on trial`; `up` or `down` for what the map says of an Evenkeel server.
    pub standing: String,
    /// The connection: `idle`, `connecting`, `up` or `down`.
    pub connection: String,
    /// Failures since it last answered a request.
    pub failures: u32,
    /// Why the newest of them.
    #[serde(default)]
    pub cause: Option<String>,
    /// Requests queued or awaited.
    pub queued_requests: usize,
}
