//! A route as one core takes it.

use crate::failure::{DENIED, READ_ONLY};
use crate::ids::{BackendId, PoolId, RouteId};
use crate::routes::{
    CommandClass, Commands, Limit, Rename, RenameId, Renames, RouteConfig, RouteTarget, TtlBounds,
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
    plain_get: Option<PoolId>,
    /// The same, where all of a multi-get is wanted.
    quick_get: Option<PoolId>,
    /// What is enough of a multi-get.
    limit: Option<Limit>,
}

/// Where a route leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WayTo {
    pub pool: PoolId,
    /// How servers are spoken to.
    pub tongue: Tongue,
    pub rename: RenameId,
    pub route: RouteId,
    /// Where the key goes instead while its server is out of use.
    pub place: Option<BackendId>,
    pub ttl: TtlBounds,
}

/// How the servers of a pool are spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tongue {
    /// In the words of the application.
    AsSent,
    /// In meta commands, so that what is there can be told from a mark of ours.
    Meta {
        /// They know our own flags.
        extended: bool,
        /// Marks of ours may be there.
        marked: bool,
        /// A `get` goes as it came, and its answer may be a mark, or of an item by a name of a ring.
        named: bool,
    },
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
        (pool, tongue): (PoolId, Tongue),
        renames: &mut Renames,
        number: RouteId,
    ) -> Self {
        let outside: &[u8] = if route.strip_prefix {
            &route.prefix
        } else {
            b""
        };
        let renaming = Rename::new(outside, &route.add_prefix);
        let rename = renames.number(match tongue {
            Tongue::Meta { named: true, .. } => renaming.named(),
            Tongue::Meta { .. } | Tongue::AsSent => renaming,
        });
        let denied = route.denied();
        let is_as_sent = match tongue {
            Tongue::AsSent => rename == RenameId::NONE,
            Tongue::Meta { named, .. } => named && rename == RenameId::NAMED,
        };
        let is_plain = is_as_sent && !denied.contains(CommandClass::Get);
        Way {
            denied,
            is_read_only: route.target != RouteTarget::Deny,
            to: WayTo {
                pool,
                tongue,
                rename,
                route: number,
                place: None,
                ttl: route.ttl,
            },
            plain_get: is_plain.then_some(pool),
            quick_get: (is_plain && route.limit.is_none()).then_some(pool),
            limit: route.limit,
        }
    }

    /// The same where more than its one server is to be thought of for a `get`.
    pub fn without_quick_gets(self) -> Self {
        Way {
            quick_get: None,
            ..self
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
    #[inline]
    pub fn rename(&self) -> RenameId {
        self.to.rename
    }

    /// Its number in statistics.
    #[inline]
    pub fn route(&self) -> RouteId {
        self.to.route
    }

    /// The pool that a `get` goes to as it comes: to the one server that has the key, by the same name or behind one of a ring.
    #[inline]
    pub fn plain_get(&self) -> Option<PoolId> {
        self.plain_get
    }

    /// The same, where all of a multi-get is wanted.
    #[inline]
    pub fn quick_get(&self) -> Option<PoolId> {
        self.quick_get
    }

    /// What is enough of a multi-get whose first key goes this way.
    #[inline]
    pub fn limit(&self) -> Option<Limit> {
        self.limit
    }

    /// The pool whose items commands that come this way can change.
    pub fn writes_to(&self) -> Option<PoolId> {
        (self.denied.and(Commands::WRITES) != Commands::WRITES).then_some(self.to.pool)
    }
}

impl WayTo {
    /// Whether servers are asked in meta commands, whatever the application said.
    #[inline]
    pub fn as_meta(&self) -> bool {
        self.tongue != Tongue::AsSent
    }

    /// Whether servers know our own flags.
    #[inline]
    pub fn is_extended(&self) -> bool {
        matches!(self.tongue, Tongue::Meta { extended: true, .. })
    }

    /// Whether marks of ours may be there.
    #[inline]
    pub fn has_marks(&self) -> bool {
        matches!(self.tongue, Tongue::Meta { marked: true, .. })
    }

    /// Whether a `get` goes as it came.
    #[inline]
    pub fn is_named(&self) -> bool {
        matches!(self.tongue, Tongue::Meta { named: true, .. })
    }

    /// Whether exptimes stay as they are.
    #[inline]
    pub fn keeps_exptimes(&self) -> bool {
        self.ttl.is_none()
    }
}
