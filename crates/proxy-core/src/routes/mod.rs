//! Which pool a request goes to, and what is done to it on the way.
//!
//! A route applies to keys that begin with its prefix and to some classes of commands. Of the routes
//! that apply, the one with the longest prefix is taken; the empty prefix is the default, and there
//! is one for every class, so that every request has a route.
//!
//! # The model
//!
//! Prefixes stand sorted. Of a key and the prefixes that are not above it in that order, the last
//! one either begins the key or shares its beginning with the prefix that does: so each prefix knows
//! the longest other one that begins *it*, and the search goes up from there. Which route a class
//! takes is worked out in advance for each prefix. With nothing but default routes, finding one is
//! a look at an empty list and one at a table.
//!
//! A trie was rejected: it is quicker only with thousands of prefixes, and keys of real
//! applications have tens.

pub(crate) mod limit;
mod rename;
pub(crate) mod routing;
#[cfg(test)]
mod tests;
mod ttl;
pub(crate) mod way;

pub use limit::{Enough, Limit};
pub(crate) use rename::{Rename, RenameId, Renamed, Renames};
pub use ttl::{TTL_BOUND_MAX, TtlBounds};

use evenkeel_protocol::KEY_LEN_MAX;

/// Most routes of a configuration. Each costs a few dozen bytes in every worker; the bound keeps
/// positions in 16 bits.
pub const ROUTES_MAX: usize = 4096;

/// Longest prefix that can be put before keys: it must leave room for a key.
pub const ADD_PREFIX_LEN_MAX: usize = KEY_LEN_MAX - 1;

/// What a command does with its key, as far as routes are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandClass {
    /// `get`, `gets`, `mg` unless it changes the item, `me`.
    Get,
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`, `ms`.
    Set,
    /// `delete`, `md`.
    Delete,
    /// `incr`, `decr`, `ma`.
    Arithmetic,
    /// `touch`, `gat`, `gats`, and `mg` with flag `T` or `N`, which sets an exptime.
    Touch,
}

impl CommandClass {
    /// How many there are.
    pub const COUNT: usize = 5;

    /// All of them.
    pub const ALL: [CommandClass; Self::COUNT] = [
        CommandClass::Get,
        CommandClass::Set,
        CommandClass::Delete,
        CommandClass::Arithmetic,
        CommandClass::Touch,
    ];

    /// Whether a value is another one behind such a command. A touch changes none.
    pub(crate) fn changes_value(self) -> bool {
        matches!(
            self,
            CommandClass::Set | CommandClass::Delete | CommandClass::Arithmetic
        )
    }

    /// Its word in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            CommandClass::Get => "get",
            CommandClass::Set => "set",
            CommandClass::Delete => "delete",
            CommandClass::Arithmetic => "arithmetic",
            CommandClass::Touch => "touch",
        }
    }
}

/// A set of classes of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commands(u8);

impl Commands {
    /// No class.
    pub const NONE: Commands = Commands(0);
    /// Every class.
    pub const ALL: Commands = Commands((1 << CommandClass::COUNT) - 1);
    /// What changes nothing.
    pub const READS: Commands = Commands(1 << CommandClass::Get as u8);
    /// What changes something.
    pub const WRITES: Commands = Commands(Self::ALL.0 & !Self::READS.0);

    /// This set and the class.
    #[must_use]
    pub fn with(self, class: CommandClass) -> Self {
        Commands(self.0 | 1 << class as u8)
    }

    /// Whether the class is among them.
    #[inline]
    pub fn contains(self, class: CommandClass) -> bool {
        self.0 & (1 << class as u8) != 0
    }

    /// The classes that are in both.
    #[must_use]
    pub fn and(self, other: Commands) -> Self {
        Commands(self.0 & other.0)
    }

    /// Whether no class is among them.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The classes, in the order of [`CommandClass::ALL`].
    pub fn iter(self) -> impl Iterator<Item = CommandClass> {
        let all = CommandClass::ALL.into_iter();
        all.filter(move |class| self.contains(*class))
    }
}

/// A route as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteConfig {
    /// What the keys begin with; empty for all keys that no longer prefix is for.
    pub prefix: Box<[u8]>,
    /// Which commands it is for.
    pub commands: Commands,
    /// Where they go.
    pub target: RouteTarget,
    /// Commands that change something are refused.
    pub read_only: bool,
    /// The prefix is taken off before the key is sent.
    pub strip_prefix: bool,
    /// This is put before the key that is sent.
    pub add_prefix: Box<[u8]>,
    /// Bounds of the time that items live.
    pub ttl: TtlBounds,
    /// What is enough of a `get` or `gets` whose first key takes it, where that says nothing of its own.
    pub limit: Option<Limit>,
}

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteTarget {
    /// To the pool of this position in the configuration.
    Pool(usize),
    /// Nowhere: requests are refused.
    Deny,
}

impl RouteConfig {
    /// All keys and commands to one pool, unchanged.
    pub fn to_pool(pool: usize) -> Self {
        RouteConfig {
            prefix: Box::default(),
            commands: Commands::ALL,
            target: RouteTarget::Pool(pool),
            read_only: false,
            strip_prefix: false,
            add_prefix: Box::default(),
            ttl: TtlBounds::NONE,
            limit: None,
        }
    }

    /// The commands that it refuses.
    pub fn denied(&self) -> Commands {
        match self.target {
            RouteTarget::Deny => Commands::ALL,
            RouteTarget::Pool(_) if self.read_only => Commands::WRITES,
            RouteTarget::Pool(_) => Commands::NONE,
        }
    }
}

/// Why there is no table of these routes. Routes and pools are named by their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// More than [`ROUTES_MAX`].
    #[error("{count} routes are more than {ROUTES_MAX}")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// Some requests would have no route.
    #[error(
        "there is no default route for {}: add a route without a prefix for it",
        class.name()
    )]
    NoDefault {
        /// The commands without one.
        class: CommandClass,
    },
    /// Two routes would be equally good.
    #[error("this prefix has a route for {} already", class.name())]
    Duplicate {
        /// The later one.
        route: usize,
        /// The earlier one.
        earlier: usize,
        /// For these commands.
        class: CommandClass,
    },
    /// The configuration has no such pool.
    #[error("there is no such pool")]
    NoPool {
        /// The route that names it.
        route: usize,
    },
    /// No key could begin with it.
    #[error("a prefix has at most {KEY_LEN_MAX} bytes, without spaces and control characters")]
    BadPrefix {
        /// The route.
        route: usize,
    },
    /// No key could be put behind it.
    #[error(
        "a prefix to add has at most {ADD_PREFIX_LEN_MAX} bytes, without spaces and control characters"
    )]
    BadAddPrefix {
        /// The route.
        route: usize,
    },
    /// There is nothing to take off.
    #[error("a route without a prefix has nothing to strip")]
    NothingToStrip {
        /// The route.
        route: usize,
    },
    /// It is for no command.
    #[error("a route is for one command at least")]
    NoCommands {
        /// The route.
        route: usize,
    },
}

/// For each class of commands, the position of its route.
type Choice = [u16; CommandClass::COUNT];

/// Finds the route of a request.
#[derive(Clone, Debug)]
pub struct RouteTable {
    routes: Vec<RouteConfig>,
    /// The prefixes that are not empty, ascending.
    nodes: Vec<Node>,
    /// For keys that begin with none of them.
    default: Choice,
}

#[derive(Clone, Debug)]
struct Node {
    prefix: Box<[u8]>,
    /// The longest other prefix that begins this one.
    parent: Option<u16>,
    choice: Choice,
}

impl RouteTable {
    /// Makes the table for a configuration of this many pools. O(n log n + n × length of prefixes).
    ///
    /// # Errors
    /// See [`RouteError`]; the first that is found.
    pub fn new(routes: Vec<RouteConfig>, pools: usize) -> Result<Self, RouteError> {
        if routes.len() > ROUTES_MAX {
            let count = routes.len();
            return Err(RouteError::TooMany { count });
        }
        for (index, route) in routes.iter().enumerate() {
            check(index, route, pools)?;
        }
        let mut order: Vec<u16> = (0..).take(routes.len()).collect();
        // Stable: of one prefix's routes, the earlier comes first.
        order.sort_by_key(|&route| &routes[usize::from(route)].prefix);
        let mut groups = order
            .chunk_by(|&a, &b| routes[usize::from(a)].prefix == routes[usize::from(b)].prefix)
            .peekable();
        let is_default = |group: &&[u16]| routes[usize::from(group[0])].prefix.is_empty();
        let defaults = groups.next_if(is_default).unwrap_or_default();
        let mut default = [None; CommandClass::COUNT];
        assign(&mut default, &routes, defaults)?;
        let default = complete(default)?;
        let mut nodes: Vec<Node> = Vec::new();
        for group in groups {
            let prefix = routes[usize::from(group[0])].prefix.clone();
            // The path from the node before this one to the root holds every prefix that begins this
            // one: whatever is between them in the order begins alike.
            let mut parent = nodes.len().checked_sub(1);
            while let Some(at) = parent.filter(|&at| !prefix.starts_with(&nodes[at].prefix)) {
                parent = nodes[at].parent.map(usize::from);
            }
            let inherited = parent.map_or(default, |at| nodes[at].choice);
            let mut own = [None; CommandClass::COUNT];
            assign(&mut own, &routes, group)?;
            let mut choice = inherited;
            for (place, route) in choice.iter_mut().zip(own) {
                *place = route.unwrap_or(*place);
            }
            nodes.push(Node {
                prefix,
                parent: parent.and_then(|at| u16::try_from(at).ok()),
                choice,
            });
        }
        Ok(RouteTable {
            routes,
            nodes,
            default,
        })
    }

    /// Every request to the first pool.
    pub fn all_to_first() -> Self {
        RouteTable {
            routes: vec![RouteConfig::to_pool(0)],
            nodes: Vec::new(),
            default: [0; CommandClass::COUNT],
        }
    }

    /// The routes in the order configured.
    pub fn routes(&self) -> &[RouteConfig] {
        &self.routes
    }

    /// Position of the route for a command of this class about this key.
    /// O(log prefixes) comparisons, and as many as there are prefixes that begin each other.
    #[inline]
    pub fn find(&self, key: &[u8], class: CommandClass) -> usize {
        if self.nodes.is_empty() {
            return usize::from(self.default[class as usize]);
        }
        usize::from(self.choice(key)[class as usize])
    }

    fn choice(&self, key: &[u8]) -> &Choice {
        let above = self.nodes.partition_point(|node| *node.prefix <= *key);
        let mut at = above.checked_sub(1);
        while let Some(index) = at {
            let node = &self.nodes[index];
            if key.starts_with(&node.prefix) {
                return &node.choice;
            }
            at = node.parent.map(usize::from);
        }
        &self.default
    }
}

fn check(index: usize, route: &RouteConfig, pools: usize) -> Result<(), RouteError> {
    let is_key = |text: &[u8]| text.iter().all(|&byte| byte > b' ' && byte != 0x7f);
    if route.prefix.len() > KEY_LEN_MAX || !is_key(&route.prefix) {
        return Err(RouteError::BadPrefix { route: index });
    }
    if route.add_prefix.len() > ADD_PREFIX_LEN_MAX || !is_key(&route.add_prefix) {
        return Err(RouteError::BadAddPrefix { route: index });
    }
    if route.strip_prefix && route.prefix.is_empty() {
        return Err(RouteError::NothingToStrip { route: index });
    }
    if route.commands.is_empty() {
        return Err(RouteError::NoCommands { route: index });
    }
    if let RouteTarget::Pool(pool) = route.target
        && pool >= pools
    {
        return Err(RouteError::NoPool { route: index });
    }
    Ok(())
}

/// Notes the routes of one prefix for their classes.
fn assign(
    own: &mut [Option<u16>; CommandClass::COUNT],
    routes: &[RouteConfig],
    group: &[u16],
) -> Result<(), RouteError> {
    for &route in group {
        for class in routes[usize::from(route)].commands.iter() {
            if let Some(earlier) = own[class as usize].replace(route) {
                return Err(RouteError::Duplicate {
                    route: route.into(),
                    earlier: earlier.into(),
                    class,
                });
            }
        }
    }
    Ok(())
}

fn complete(own: [Option<u16>; CommandClass::COUNT]) -> Result<Choice, RouteError> {
    let mut choice = Choice::default();
    for class in CommandClass::ALL {
        choice[class as usize] = own[class as usize].ok_or(RouteError::NoDefault { class })?;
    }
    Ok(choice)
}

const _: () = assert!(ROUTES_MAX <= u16::MAX as usize);
