//! The world in which a case begins, and changes of its configuration.
//!
//! ```text
//! servers 2 OPTION…           Evenkeel servers 1 and 2, and the map of epoch 1, by which cachelet n is at server n % 2 + 1;
//!                             without any map by the option `no_map`.
//! memcached 2 OPTION…         A pool of any memcached servers.
//! pool b s11 s12 OPTION…      Another one, at ports 111 and 112.
//! route b: to b OPTION…       Keys that begin with `b:` go to that pool; `*` stands for all. Without a route for
//!                             all keys, the others go to the first pool, which is called `default`.
//! route no: denied
//! racks snoop b c             The first pool is rack `a`, in which the proxy is, and the pools `b` and `c` are racks of their names; behind `dir=d` the
//!                             directory is the pool `d`.
//! racks snoop old: b=s c=t    The same of the pool `old`, whose other racks are the pools `s` and `t`.
//! local_copies on             The first pool, which has racks, copies what it reads of others, for a second; or `observe`.
//! list s2 s3                  Other servers for the first pool (of a memcached).
//! ```
//!
//! Options of the first pool, or of the pool that they stand with: `on_down=error`, `allow_flush`, `flush_on_return`, `collapse=off`,
//! `failover=next` or `=POOL`, `warm_from=POOL`, `warm_fill=off`, `follows`, `adaptive`, `generation=N` (of the names of its items; `{gN:k}`), `observe=COPIES`, `copies=COPIES` (`loose_copies`: a write is answered though a copy may be left), behind it `near=SERVER` (each server in a rack of its own, the
//! proxy in that of this one), `request_timeout=MS`, `login=NAME:PASSWORD`; of the proxy `version=TEXT`, `limit_keys`, `auth=text:NAME:PASSWORD` or
//! `auth=sasl:…`; of a route `reads`, `writes`, `read_only`, `strip`, `add=PREFIX`, `ttl=MIN..MAX`, `limit=50%,5ms`.
//!
//! Later `now` goes before what changes: `now list s2 s3`, `now allow_flush`.

use super::keys::{INCARNATION, Keys, rack_named};
use crate::tests::world::{SOURCE, World, map, memcached};
use crate::*;
use core::time::Duration;
use evenkeel_protocol::auth::{AuthMode, Credentials};
use evenkeel_schemes::generation::name_prefix;
use evenkeel_schemes::locality::topology::{Rack, Topology};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A world that is being described.
#[derive(Default)]
pub struct Setup {
    config: Option<ProxyConfig>,
    servers: u16,
    by_map: bool,
    is_without_map: bool,
    routes: Vec<RouteConfig>,
}

impl Setup {
    /// Takes a line if it is about the world's beginning.
    pub fn takes(&mut self, line: &str) -> Result<bool, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(config) = &mut self.config else {
            let [kind, count, options @ ..] = &words[..] else {
                return Err("first comes the world".to_owned());
            };
            self.servers = count.parse().map_err(|_| "how many servers?")?;
            self.by_map = *kind == "servers";
            let pool = match *kind {
                "servers" => PoolKind::Evenkeel(SOURCE),
                "memcached" => memcached(101..=100 + self.servers),
                other => return Err(format!("what are {other}?")),
            };
            let mut config = ProxyConfig::of_pool(pool, PoolSettings::default());
            for option in options {
                match *option {
                    "no_map" => self.is_without_map = true,
                    option => set(&mut config, 0, option)?,
                }
            }
            self.config = Some(config);
            return Ok(true);
        };
        match words[0] {
            "pool" | "list" | "racks" | "local_copies" => change(config, &words).map(|()| true),
            "route" => {
                self.routes.push(route(config, &words[1..])?);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The world, and what its keys are called.
    pub fn build(self) -> (World, Keys) {
        let (servers, by_map) = (self.servers, self.by_map);
        let mut config = self.config.expect("the world comes first");
        let mut routes = self.routes;
        if routes.iter().all(|route| !route.prefix.is_empty()) {
            routes.insert(0, RouteConfig::to_pool(0));
        }
        let table = RouteTable::new(routes, config.pools.len());
        config.routes = Arc::new(table.expect("routes that go together"));
        let mut world = World::new(config);
        if by_map {
            world.workers(servers);
        }
        if by_map && !self.is_without_map {
            world.set_map(&map(1, servers, |cachelet| cachelet % servers + 1));
        }
        (world, Keys { servers, by_map })
    }
}

/// Changes a configuration by one line.
pub fn change(config: &mut ProxyConfig, words: &[&str]) -> Result<(), String> {
    match words {
        ["list", servers @ ..] => {
            let ports: Result<Vec<u16>, String> = servers.iter().map(|name| port(name)).collect();
            config.pools[0].kind = memcached(ports?);
        }
        ["pool", name, words @ ..] => {
            let (servers, options): (Vec<&str>, Vec<&str>) =
                words.iter().partition(|word| port(word).is_ok());
            let ports: Result<Vec<u16>, String> = servers.into_iter().map(port).collect();
            config.pools.push(PoolConfig {
                name: Arc::from(*name),
                kind: memcached(ports?),
                settings: PoolSettings::default(),
                bundles: None,
                holding: None,
            });
            let last = config.pools.len() - 1;
            options
                .into_iter()
                .try_for_each(|option| set(config, last, option))?;
        }
        ["racks", by, others @ ..] => {
            let by = match by.split_once('=') {
                Some((_, directory)) => HoldingBy::Directory(Arc::from(directory)),
                None => HoldingBy::Snoop,
            };
            let (pool, others) = match others {
                [first, others @ ..] if first.ends_with(':') => {
                    let mut pools = config.pools.iter();
                    let pool = pools.position(|pool| first.strip_suffix(':') == Some(&*pool.name));
                    (pool.ok_or("there is no such pool")?, others)
                }
                others => (0, others),
            };
            let others = others
                .iter()
                .map(|other| other.split_once('=').unwrap_or((*other, *other)));
            let names = ["a"]
                .into_iter()
                .chain(others.clone().map(|(rack, _)| rack));
            let racks = names.map(rack_named).collect();
            let topology = Topology::new(racks).map_err(|error| error.to_string())?;
            let named = |name: &str| topology.named(name).ok_or("there is no such rack");
            let others = others.map(|(rack, pool)| Ok((named(rack)?, Arc::from(pool))));
            let (own, others) = (named("a")?, others.collect::<Result<_, &str>>()?);
            config.pools[pool].holding = Some(Arc::new(Holding {
                by,
                own,
                others,
                copying: None,
            }));
            config.racks = Arc::new(Racks::new(topology, Some(own), BTreeMap::new()));
        }
        ["local_copies", mode] => {
            let holding = config.pools[0].holding.as_mut().ok_or("no racks")?;
            Arc::make_mut(holding).copying = Some(LocalCopying {
                ttl: Duration::from_secs(1),
                keeps: *mode == "on",
            });
        }
        options => options
            .iter()
            .try_for_each(|option| set(config, 0, option))?,
    }
    Ok(())
}

fn set(config: &mut ProxyConfig, pool: usize, option: &str) -> Result<(), String> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    let number = || {
        value
            .parse::<u32>()
            .map_err(|_| format!("{option}: how many?"))
    };
    let settings = &mut config.pools[pool].settings;
    match (name, value) {
        ("on_down", "error") => settings.on_down = OnDown::Error,
        ("allow_flush", "") => settings.allow_flush = true,
        ("flush_on_return", "") => settings.flush_on_return = true,
        ("collapse", "on") => settings.collapse = true,
        ("collapse", "off") => settings.collapse = false,
        ("failover", "next") => settings.failover = Failover::Next,
        ("generation", _) => {
            settings.name_prefix = name_prefix(INCARNATION, number()?.into());
        }
        ("warm_fill", "off") => settings.warm_fill = false,
        ("follows", "") => settings.follows = Some(SOURCE),
        ("adaptive", "") => {
            settings.follows = Some(SOURCE);
            settings.adaptive = true;
        }
        ("warm_from", "") => settings.warm_from = None,
        ("warm_from", pool) => settings.warm_from = Some(Arc::from(pool)),
        ("failover", pool) => settings.failover = Failover::Gutter(Arc::from(pool)),
        ("request_timeout", _) => {
            settings.request_timeout = Duration::from_millis(number()?.into())
        }
        ("login", who) => {
            let (user, password) = who.split_once(':').ok_or("login=NAME:PASSWORD")?;
            let (user, password) = (user.to_owned(), password.to_owned());
            settings.login = Some(Arc::new(Login { user, password }));
        }
        ("auth", users) => {
            let (mode, users) = users.split_once(':').ok_or("auth=HOW:NAME:PASSWORD")?;
            let credentials = Credentials::parse(users.as_bytes());
            let credentials = credentials.map_err(|_| "which users?")?;
            config.access = Access {
                mode: match mode {
                    "text" => AuthMode::Text,
                    _ => AuthMode::Sasl,
                },
                credentials: Some(Arc::new(credentials)),
            };
        }
        ("observe" | "copies" | "loose_copies", _) => {
            let PoolKind::Memcached(list) = &config.pools[pool].kind else {
                return Err("only items of a list of servers have copies".to_owned());
            };
            let copies = u8::try_from(number()?).map_err(|_| "how many copies?")?;
            let list = Arc::clone(list);
            let keeping = (name != "observe").then(|| Keeping {
                strict: name == "copies",
                ..Keeping::default()
            });
            let follows = keeping.map(|_| SOURCE);
            config.pools[pool].settings.follows = follows;
            let bundles = Bundles::new(&list, copies, keeping, None);
            let is_named = config.pools[pool].settings.name_prefix.is_some();
            config.pools[pool].bundles = Some(Arc::new(bundles.of_named(is_named)));
        }
        ("near", _) => {
            let PoolKind::Memcached(list) = &config.pools[pool].kind else {
                return Err("racks are lists of servers".to_owned());
            };
            let before = config.pools[pool].bundles.clone();
            let before = before.ok_or("near=SERVER goes behind copies=COPIES")?;
            let racks = rack_of_each(list, number()?)?;
            let (copies, keeping) = (before.wish().copies, before.keeping());
            let bundles = Bundles::new(list, copies, keeping, Some(&racks));
            let is_named = config.pools[pool].settings.name_prefix.is_some();
            config.pools[pool].bundles = Some(Arc::new(bundles.of_named(is_named)));
        }
        ("limit_keys", "") => config.limit_keys = true,
        ("version", version) => version.clone_into(&mut config.version),
        _ => return Err(format!("what is the option {option}?")),
    }
    Ok(())
}

/// Each server in a rack of its own, and the proxy in that of one.
fn rack_of_each(list: &ServerList, own: u32) -> Result<Racks, String> {
    let rack = |number: usize| Rack {
        name: (number + 1).to_string(),
        networks: Vec::new(),
        is_central: false,
    };
    let servers = list.servers();
    let topology = Topology::new((0..servers.len()).map(rack).collect());
    let topology = topology.map_err(|error| error.to_string())?;
    let named = |name: String| topology.named(&name).ok_or("there is no such rack");
    let given = servers.iter().enumerate().map(|(number, server)| {
        let place = (server.host.clone(), server.port);
        Ok((place, named((number + 1).to_string())?))
    });
    let given = given.collect::<Result<_, &str>>()?;
    let own = named(own.to_string())?;
    Ok(Racks::new(topology, Some(own), given))
}

fn route(config: &ProxyConfig, words: &[&str]) -> Result<RouteConfig, String> {
    let mut route = RouteConfig::to_pool(0);
    let mut words = words.iter();
    let prefix = words.next().filter(|prefix| **prefix != "*");
    route.prefix = prefix.map_or(Box::default(), |prefix| prefix.as_bytes().into());
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "to" => {
                let mut pools = config.pools.iter();
                let name = words.next().ok_or("to which pool?")?;
                let place = pools.position(|pool| &*pool.name == *name);
                route.target = RouteTarget::Pool(place.ok_or("there is no such pool")?);
            }
            "denied" => route.target = RouteTarget::Deny,
            "reads" => route.commands = Commands::READS,
            "writes" => route.commands = Commands::WRITES,
            "read_only" => route.read_only = true,
            "strip" => route.strip_prefix = true,
            "add" => route.add_prefix = value.as_bytes().into(),
            "limit" => route.limit = Limit::parse(format!("limit:{value}").as_bytes()),
            "ttl" => {
                let (min, max) = value.split_once("..").ok_or("ttl=MIN..MAX")?;
                let seconds = |text: &str| text.parse().map_err(|_| format!("{text} seconds?"));
                (route.ttl.min, route.ttl.max) = (seconds(min)?, seconds(max)?);
            }
            _ => return Err(format!("what is {word} of a route?")),
        }
    }
    Ok(route)
}

/// The port of a server by its name.
pub fn port(name: &str) -> Result<u16, String> {
    let number = name
        .strip_prefix('s')
        .and_then(|number| number.parse::<u16>().ok());
    number
        .map(|number| 100 + number)
        .ok_or(format!("{name:?} is no server"))
}
