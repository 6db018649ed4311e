//! On the way from an application's command to a question: which route it takes, what that makes of
//! its key and of its exptime, and what is said where a route refuses it.

use crate::client::{Answered, Show, Slot, State};
use crate::config::ProxyConfig;
use crate::pool::PoolId;
use crate::routes::{
    CommandClass, Commands, Rename, RenameId, Renames, RouteConfig, RouteTarget, TtlBounds,
};
use crate::show::Tally;
use crate::stats::per_route::{PerRoute, RouteId};
use crate::{BackendId, ClientId, ProxyCore};
use core::mem;
use evenkeel_protocol::KeyScratch;
use evenkeel_protocol::SentKey;
use evenkeel_protocol::text;
use evenkeel_types::Instant;

/// What a request is answered whose route denies it.
pub(crate) const DENIED: &[u8] =
    b"CLIENT_ERROR denied: no route of the proxy takes this command for this key\r\n";

/// What a request that changes something is answered where it may not.
pub(crate) const READ_ONLY: &[u8] =
    b"CLIENT_ERROR read-only: the proxy's route for this key takes no writes\r\n";

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

impl ProxyCore {
    /// Finds the route of a command about a key and goes on with `ask`, or puts a refusal where the
    /// answer was to go.
    #[inline]
    pub(crate) fn on_way(
        &mut self,
        now: Instant,
        id: ClientId,
        key: SentKey<'_>,
        class: CommandClass,
        show: Show,
        ask: impl FnOnce(&mut Self, &WayTo, WayKey<'_>),
    ) {
        let mut scratch;
        let stored = if key.base64 {
            scratch = KeyScratch::default();
            key.decode(&mut scratch)
        } else {
            key.text
        };
        let way = self.ways[self.routes.find(stored, class)];
        if way.denies(class) {
            self.stats.proxy_requests_denied += 1;
            self.per_route.count_denied(way.route());
            return self.refuse(now, id, show, way.denial());
        }
        if way.to.rename == RenameId::NONE {
            let mut to = way.to;
            if self.has_outage {
                self.look_elsewhere(now, &mut to, stored, class);
            }
            return ask(self, &to, WayKey { stored, sent: key });
        }
        let mut renamed = mem::take(&mut self.renamed);
        let rename = self.renames.get(way.to.rename);
        if rename.is_some_and(|rename| rename.to_inside(stored, key.base64, &mut renamed)) {
            let key = WayKey {
                stored: renamed.stored(),
                sent: renamed.sent(key.base64),
            };
            let mut to = way.to;
            if self.has_outage {
                self.look_elsewhere(now, &mut to, key.stored, class);
            }
            ask(self, &to, key);
        } else {
            self.stats.proxy_keys_refused += 1;
            self.per_route.count_error(way.route());
            self.refuse(now, id, show, text::BAD_FORMAT);
        }
        self.renamed = renamed;
    }

    /// The exptime to send for one of the application's.
    #[inline]
    pub(crate) fn bounded(&mut self, way: &WayTo, exptime: i64) -> i64 {
        if way.ttl.is_none() {
            return exptime;
        }
        let bounded = way.ttl.apply(exptime, self.unix, self.random_u32());
        self.stats.proxy_ttls_changed += u64::from(bounded != exptime);
        bounded
    }

    /// Answers a request without asking anybody.
    pub(crate) fn refuse(&mut self, now: Instant, id: ClientId, show: Show, words: &'static [u8]) {
        match show {
            Show::Nothing => {}
            Show::Value { .. } => {
                let Some(client) = self.clients.get_mut(id.0) else {
                    return;
                };
                // Takes the place of the `END` behind the keys that have values.
                let state = State::Done(Answered {
                    tally: Tally::Nothing,
                    ..Answered::error(words.to_vec())
                });
                client.push(Slot::new(show, state));
                self.release(now, id);
            }
            Show::Binary(echo) => self.refuse_in_binary(id, echo, words),
            _ => self.say(id, words),
        }
    }
}

/// The ways of a configuration whose pools are these; there is one at least.
pub(crate) fn ways_of(
    config: &ProxyConfig,
    pools: &[(PoolId, bool)],
    renames: &mut Renames,
    per_route: &mut PerRoute,
) -> Vec<Way> {
    let routes = config.routes.routes().iter().enumerate();
    let ways = routes.map(|(position, route)| {
        let (pool, name) = match route.target {
            RouteTarget::Pool(pool) => (pool, Some(&config.pools[pool].name)),
            // Nothing comes so far on it.
            RouteTarget::Deny => (0, None),
        };
        let number = per_route.number(position, route, name);
        Way::new(route, pools[pool], renames, number)
    });
    ways.collect()
}
