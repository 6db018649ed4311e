//! A route as one core takes it.

use crate::failure::{DENIED, READ_ONLY};
use crate::ids::{BackendId, PoolId, RouteId};
use crate::routes::{
    CommandClass, Commands, Rename, RenameId, Renames, RouteConfig, RouteTarget, TtlBounds,
};
use evenkeel_protocol::SentKey;

/// A route as one core takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// Commands that are refused.
    denied: Commands,
    is_read_only: bool,
    to: WayTo,
    /// The pool, if gets go there as they come.
    quick_get: Option<PoolId>,
}

/// Where a route leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WayTo {
    pub pool: PoolId,
    /// Whether servers are asked in meta commands with our own flags.
    pub as_meta: bool,
    pub rename: RenameId,
    pub route: RouteId,
    /// Where the key goes instead while its server is out of use.
    pub place: Option<BackendId>,
    pub ttl: TtlBounds,
}

/// A key by the name that servers know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WayKey<'k> {
    /// As it is stored.
    pub stored: &'k [u8],
    /// As it is sent.
    pub sent: SentKey<'k>,
}

impl Way {
    /// The way of a route, whose pool is this one.
    pub fn new(
        route: &RouteConfig,
        (pool, as_meta): (PoolId, bool),
        renames: &mut Renames,
        number: RouteId,
    ) -> Self {
        let outside: &[u8] = if route.strip_prefix {
            &route.prefix
        } else {
            b""
        };
        let rename = renames.number(Rename::new(outside, &route.add_prefix));
        let denied = route.denied();
        let is_plain = !as_meta && rename == RenameId::NONE && !denied.contains(CommandClass::Get);
        Way {
            denied,
            is_read_only: route.target != RouteTarget::Deny,
            to: WayTo {
                pool,
                as_meta,
                rename,
                route: number,
                place: None,
                ttl: route.ttl,
            },
            quick_get: is_plain.then_some(pool),
        }
    }

    /// Where it leads.
    pub fn to(&self) -> &WayTo {
        &self.to
    }

    /// Whether it refuses these commands.
    #[inline]
    pub fn denies(&self, class: CommandClass) -> bool {
        self.denied.contains(class)
    }

    /// What it answers those.
    pub fn denial(&self) -> &'static [u8] {
        if self.is_read_only { READ_ONLY } else { DENIED }
    }

    /// The renaming of its keys.
    pub fn rename(&self) -> RenameId {
        self.to.rename
    }

    /// Its number in statistics.
    #[inline]
    pub fn route(&self) -> RouteId {
        self.to.route
    }

    /// The pool that a `get` goes to as it comes: to the one server that has the key, by the same name.
    #[inline]
    pub fn quick_get(&self) -> Option<PoolId> {
        self.quick_get
    }

    /// The pool whose items commands that come this way can change.
    pub fn writes_to(&self) -> Option<PoolId> {
        (self.denied.and(Commands::WRITES) != Commands::WRITES).then_some(self.to.pool)
    }
}

impl WayTo {
    /// Whether exptimes stay as they are.
    #[inline]
    pub fn keeps_exptimes(&self) -> bool {
        self.ttl.is_none()
    }
}
