//! What a placement is made of: servers, and by which rule keys are distributed to them.
//!
//! Names are those of libmemcached's and twemproxy's documentation, so that a setting can be carried
//! over word by word. [`PlacementConfig::check`] refuses what cannot be meant, and says which server
//! or setting is at fault: a pool that silently places keys elsewhere than its neighbour is a cold
//! cache.

use core::net::Ipv6Addr;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::hash::Hash;
pub use super::name::UnknownName;

/// Most servers of a pool: tables name a server in 16 bits.
pub const SERVERS_MAX: usize = 1 << 16;

/// Port of a server that names none, which is left out of its identity (libmemcached's
/// `MEMCACHED_DEFAULT_PORT`, twemproxy's `CONF_DEFAULT_KETAMA_PORT`).
pub const PORT_DEFAULT: u16 = 11211;

/// A server of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Host name or address, exactly as other clients are given it: its spelling decides where keys
    /// live.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What the server is called in the placement instead of host and port, so that it can move to
    /// another address and keep its keys; twemproxy's `host:port:weight name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its share of the keys, relative to the others.
    #[serde(default = "one")]
    pub weight: u32,
}

fn one() -> u32 {
    1
}

impl Server {
    /// A server of weight 1 that is known by its address.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Server {
            host: host.into(),
            port,
            name: None,
            weight: 1,
        }
    }

    /// What the placement knows the server by: its name, else `host:port`, else `host` if the port is
    /// 11211. libmemcached and twemproxy agree on this.
    pub fn identity(&self) -> String {
        match (&self.name, self.port) {
            (Some(name), _) => name.clone(),
            (None, PORT_DEFAULT) => self.host.clone(),
            (None, port) => format!("{}:{port}", self.host),
        }
    }
}

impl FromStr for Server {
    type Err = BadServer;

    /// Reads `HOST`, `HOST:PORT` or `HOST:PORT:WEIGHT`, and a name behind a space. An IPv6 address stands
    /// in brackets unless nothing follows it.
    fn from_str(text: &str) -> Result<Self, BadServer> {
        let bad = || BadServer(text.to_owned());
        let (place, name) = match text.split_once(' ') {
            None => (text, None),
            Some((place, name)) => (place, Some(name)),
        };
        let (host, rest) = match place.strip_prefix('[') {
            Some(inside) => inside.split_once(']').ok_or_else(bad)?,
            None if place.parse::<Ipv6Addr>().is_ok() => (place, ""),
            None => place.split_at(place.find(':').unwrap_or(place.len())),
        };
        let mut numbers = rest.split(':');
        let before = numbers.next().unwrap_or_default();
        let port = numbers.next().map_or(Ok(PORT_DEFAULT), str::parse);
        let weight = numbers.next().map_or(Ok(1), str::parse);
        let (Ok(port @ 1..), Ok(weight), None) = (port, weight, numbers.next()) else {
            return Err(bad());
        };
        let printable = |word: &str| {
            let odd = |c: char| c.is_whitespace() || c.is_control();
            !word.is_empty() && !word.contains(odd)
        };
        if !before.is_empty() || !printable(host) || !name.is_none_or(printable) {
            return Err(bad());
        }
        Ok(Server {
            host: host.to_owned(),
            port,
            name: name.map(str::to_owned),
            weight,
        })
    }
}

/// A server that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "server {0:?}: give HOST, HOST:PORT or HOST:PORT:WEIGHT, and a name behind a space if need be"
)]
pub struct BadServer(String);

/// By which rule keys are distributed to servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Distribution {
    /// libmemcached's `MEMCACHED_BEHAVIOR_KETAMA`: 100 points a server, placed by the same hash as the
    /// keys; knows no weights.
    Ketama,
    /// libmemcached's `MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED`, also for servers of equal weight: 160
    /// points a server on average, placed by MD5.
    #[default]
    KetamaWeighted,
    /// twemproxy's `ketama`: the points of [`Distribution::KetamaWeighted`], keys by FNV-1a.
    TwemproxyKetama,
    /// libmemcached's default: the hash modulo the number of servers; knows no weights.
    Modula,
    /// twemproxy's `modula`: by weight, with the servers in the order of their names.
    TwemproxyModula,
    /// Jump consistent hash: servers come and go at the end of the list only; knows no weights.
    Jump,
    /// Weighted rendezvous hashing: exact shares, fewest moves, and a look at each server for each key.
    Rendezvous,
}

impl Distribution {
    /// All of them.
    pub const ALL: &[Distribution] = &[
        Distribution::Ketama,
        Distribution::KetamaWeighted,
        Distribution::TwemproxyKetama,
        Distribution::Modula,
        Distribution::TwemproxyModula,
        Distribution::Jump,
        Distribution::Rendezvous,
    ];

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Distribution::Ketama => "ketama",
            Distribution::KetamaWeighted => "ketama_weighted",
            Distribution::TwemproxyKetama => "twemproxy_ketama",
            Distribution::Modula => "modula",
            Distribution::TwemproxyModula => "twemproxy_modula",
            Distribution::Jump => "jump",
            Distribution::Rendezvous => "rendezvous",
        }
    }

    /// The hash of keys where none is chosen: what the program that the rule comes from uses then.
    pub fn default_hash(self) -> Hash {
        match self {
            Distribution::Ketama | Distribution::Modula => Hash::OneAtATime,
            Distribution::KetamaWeighted => Hash::Md5,
            Distribution::TwemproxyKetama | Distribution::TwemproxyModula => Hash::Fnv1a64,
            Distribution::Jump | Distribution::Rendezvous => Hash::Xxh3,
        }
    }

    /// Whether servers may differ in weight.
    pub(super) fn knows_weights(self) -> bool {
        match self {
            Distribution::Ketama | Distribution::Modula | Distribution::Jump => false,
            Distribution::KetamaWeighted
            | Distribution::TwemproxyKetama
            | Distribution::TwemproxyModula
            | Distribution::Rendezvous => true,
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Distribution> for &'static str {
    fn from(distribution: Distribution) -> Self {
        distribution.name()
    }
}

impl FromStr for Distribution {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let known = Self::ALL.iter().copied();
        known
            .clone()
            .find(|distribution| distribution.name() == text)
            .ok_or_else(|| UnknownName::new("distribution", text, known.map(Self::name)))
    }
}

impl TryFrom<String> for Distribution {
    type Error = UnknownName;

    fn try_from(text: String) -> Result<Self, UnknownName> {
        text.parse()
    }
}

/// Two characters around the part of a key that decides where it lives, such as `{}`: keys with equal
/// parts live together (twemproxy's `hash_tag`).
///
/// The part begins behind the first opening character and ends before the first closing one after
/// that. If either is missing or nothing stands between them, the whole key decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HashTag {
    open: u8,
    close: u8,
}

impl HashTag {
    /// The part of a key that decides.
    #[inline]
    pub fn part<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        let Some(open) = key.iter().position(|&byte| byte == self.open) else {
            return key;
        };
        let behind = &key[open + 1..];
        match behind.iter().position(|&byte| byte == self.close) {
            Some(len) if len > 0 => &behind[..len],
            _ => key,
        }
    }
}

impl FromStr for HashTag {
    type Err = BadHashTag;

    fn from_str(text: &str) -> Result<Self, BadHashTag> {
        match *text.as_bytes() {
            [open, close] if open.is_ascii_graphic() && close.is_ascii_graphic() => {
                Ok(HashTag { open, close })
            }
            _ => Err(BadHashTag(text.to_owned())),
        }
    }
}

impl TryFrom<String> for HashTag {
    type Error = BadHashTag;

    fn try_from(text: String) -> Result<Self, BadHashTag> {
        text.parse()
    }
}

impl From<HashTag> for String {
    fn from(tag: HashTag) -> Self {
        String::from_utf8_lossy(&[tag.open, tag.close]).into_owned()
    }
}

/// A hash tag that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hash tag {0:?} is not two characters that may stand in a key, such as \"{{}}\"")]
pub struct BadHashTag(String);

/// What a placement is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacementConfig {
    /// The rule.
    pub distribution: Distribution,
    /// How keys are hashed; `None` for [`Distribution::default_hash`].
    pub hash: Option<Hash>,
    /// The servers, in the order that other clients are given.
    pub servers: Vec<Server>,
    /// Which part of a key is hashed; `None` for all of it.
    pub hash_tag: Option<HashTag>,
}

impl PlacementConfig {
    /// How keys are hashed.
    pub fn hash(&self) -> Hash {
        self.hash.unwrap_or(self.distribution.default_hash())
    }

    /// Says whether a placement can be made of this.
    ///
    /// # Errors
    ///
    /// See [`PlacementError`].
    pub fn check(&self) -> Result<(), PlacementError> {
        let count = self.servers.len();
        if count == 0 {
            return Err(PlacementError::NoServers);
        }
        if count > SERVERS_MAX {
            return Err(PlacementError::TooManyServers { count });
        }
        let mut identities = BTreeSet::new();
        for server in &self.servers {
            let identity = server.identity();
            if server.weight == 0 {
                return Err(PlacementError::WeightZero { server: identity });
            }
            if server.weight != 1 && !self.distribution.knows_weights() {
                return Err(PlacementError::WeightUnused {
                    server: identity,
                    weight: server.weight,
                    distribution: self.distribution,
                });
            }
            if let Some(server) = identities.replace(identity) {
                return Err(PlacementError::Duplicate { server });
            }
        }
        Ok(())
    }
}

/// Why there is no placement. The configuration is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// There is nobody to send a key to.
    #[error("a pool without servers holds no keys")]
    NoServers,
    /// More than [`SERVERS_MAX`].
    #[error("{count} servers are more than {SERVERS_MAX}")]
    TooManyServers {
        /// How many there are.
        count: usize,
    },
    /// A server would get no key.
    #[error("the weight of server {server} is 0; leave the server out, or give it a weight from 1")]
    WeightZero {
        /// What it is known by.
        server: String,
    },
    /// A weight that would change nothing.
    #[error(
        "server {server} has weight {weight}, but the distribution {distribution} treats all servers alike"
    )]
    WeightUnused {
        /// What it is known by.
        server: String,
        /// Its weight.
        weight: u32,
        /// The distribution.
        distribution: Distribution,
    },
    /// Two servers have the same name, or the same address and no name.
    #[error("server {server} is listed twice; give one of them another name if that is meant")]
    Duplicate {
        /// What both are known by.
        server: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(servers: &[&str]) -> PlacementConfig {
        let servers = servers.iter().map(|host| Server::new(*host, 1)).collect();
        PlacementConfig {
            servers,
            ..PlacementConfig::default()
        }
    }

    #[test]
    fn a_server_is_known_by_its_name_or_address() {
        let mut server = Server::new("10.0.0.1", 11211);
        assert_eq!(server.identity(), "10.0.0.1");
        server.port = 11212;
        assert_eq!(server.identity(), "10.0.0.1:11212");
        server.name = Some("a".into());
        assert_eq!(server.identity(), "a");
    }

    #[test]
    fn servers_are_read_as_in_other_configurations() {
        let read = |text: &str| {
            let server = text.parse::<Server>().unwrap();
            (server.host, server.port, server.weight, server.name)
        };
        let named = Some("n1".to_owned());
        for (text, host, port, weight, name) in [
            ("a", "a", 11211, 1, None),
            ("a:7", "a", 7, 1, None),
            ("10.0.0.1:7:3", "10.0.0.1", 7, 3, None),
            ("a:7:0 n1", "a", 7, 0, named.clone()),
            ("::1", "::1", 11211, 1, None),
            ("fe80::1:2", "fe80::1:2", 11211, 1, None),
            ("[::1]", "::1", 11211, 1, None),
            ("[::1]:7:2 n1", "::1", 7, 2, named),
        ] {
            assert_eq!(read(text), (host.into(), port, weight, name), "{text}");
        }
        for bad in [
            "",
            ":",
            "a:",
            "a:0",
            "a:x",
            "a:1:",
            "a:1:x",
            "a:1:-1",
            "a:1:2:3",
            "a:65536",
            "[::1",
            "[::1]x",
            "[::1]x:1",
            "[]:1",
            "a ",
            "a  n",
            "a n m",
            " a",
            "a\t",
            "a:1:4294967296",
        ] {
            let error = bad.parse::<Server>().unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
    }

    #[test]
    fn the_part_between_the_first_pair_decides() {
        let braces: HashTag = "{}".parse().unwrap();
        for (key, part) in [
            ("user:{7}:name", "7"),
            ("{a}{b}", "a"),
            ("}x{y}", "y"),
            ("{{a}}", "{a"),
            ("a{}b{c}", "a{}b{c}"),
            ("{", "{"),
            ("a}", "a}"),
            ("{a", "{a"),
            ("", ""),
        ] {
            assert_eq!(braces.part(key.as_bytes()), part.as_bytes(), "{key}");
        }
        let bars: HashTag = "||".parse().unwrap();
        assert_eq!(bars.part(b"a|b|c|"), b"b");
        for bad in ["", "{", "{}}", "{ ", "é"] {
            let error = bad.parse::<HashTag>().unwrap_err().to_string();
            assert!(error.contains(bad), "{error}");
        }
    }

    #[test]
    fn names_are_read_and_written_alike() {
        for &distribution in Distribution::ALL {
            let json = serde_json::to_string(&distribution).unwrap();
            assert_eq!(json, format!("\"{distribution}\""));
            let read: Distribution = serde_json::from_str(&json).unwrap();
            assert_eq!(read, distribution);
        }
        let error = serde_json::from_str::<Distribution>("\"maglev\"").unwrap_err();
        let expected = "distribution \"maglev\" is not one of ketama, ketama_weighted, tw";
        assert!(error.to_string().starts_with(expected), "{error}");
        let tag: HashTag = serde_json::from_str("\"{}\"").unwrap();
        assert_eq!(serde_json::to_string(&tag).unwrap(), "\"{}\"");
        let server: Server = serde_json::from_str("{\"host\":\"a\",\"port\":1}").unwrap();
        assert_eq!(server, Server::new("a", 1));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_server() {
        assert_eq!(config(&["a", "b"]).check(), Ok(()));
        assert_eq!(config(&[]).check(), Err(PlacementError::NoServers));
        let mut wrong = config(&["a", "b"]);
        wrong.servers[1].weight = 0;
        let error = wrong.check().unwrap_err().to_string();
        assert!(error.contains("weight of server b:1 is 0"), "{error}");
        wrong.servers[1].weight = 3;
        assert_eq!(wrong.check(), Ok(()));
        wrong.distribution = Distribution::Ketama;
        let error = wrong.check().unwrap_err().to_string();
        assert!(error.contains("server b:1 has weight 3"), "{error}");
        assert!(error.contains("distribution ketama "), "{error}");
        let mut twice = config(&["a", "b", "a"]);
        let error = twice.check().unwrap_err().to_string();
        assert!(error.contains("server a:1 is listed twice"), "{error}");
        twice.servers[2].name = Some("c".into());
        assert_eq!(twice.check(), Ok(()));
        let many = PlacementConfig {
            servers: vec![Server::new("a", 1); SERVERS_MAX + 1],
            ..PlacementConfig::default()
        };
        let count = SERVERS_MAX + 1;
        assert_eq!(many.check(), Err(PlacementError::TooManyServers { count }));
    }
}
