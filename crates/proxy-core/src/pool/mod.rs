//! A pool: servers, and how keys are dealt out to them.
//!
//! A core has several. Each has connections of its own, also where two name the same server: their
//! timeouts differ, and one's slow answers are not in the way of the other's.

pub(crate) mod elsewhere;
mod evenkeel;
pub(crate) mod hot;
mod left;
mod plain;
pub(crate) mod pools;
pub(crate) mod sent;

pub(crate) use evenkeel::EvenkeelPool;
pub(crate) use left::LeftServers;
pub(crate) use plain::MemcachedPool;

use crate::config::{DEFAULT_POOL, MapSource, PoolSettings};
use crate::ids::{BackendId, PoolId};
use crate::places::Places;
use crate::stats::listing::PoolFacts;
use core::time::Duration;
use evenkeel_hotkeys::client::ClientLeases;
use evenkeel_hotkeys::plain::{PlainHotKeys, PlainMode};
use evenkeel_schemes::Scheme;
use evenkeel_schemes::stage::{Stage, Step};
use evenkeel_types::Epoch;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Pool {
    pub name: Arc<str>,
    pub settings: PoolSettings,
    pub servers: Servers,
    /// What this worker may read of replicas, and what it has shown of such keys.
    pub leases: ClientLeases,
    /// How many reads were answered with others' answers or by replicas, of which the homes were not told.
    pub untold: Places<1024>,
    /// Its hot keys, if they are looked for: only in pools of plain servers.
    pub hot: Option<Box<PlainHotKeys>>,
    /// The pool that keys go to while their server is out of use, where that is another one.
    pub gutter: Option<PoolId>,
    /// Whose place it takes, if it does.
    pub former: Option<Former>,
    /// The change from it to another one is led, stage by stage.
    pub is_led_from: bool,
    /// Servers that it has had.
    pub left: LeftServers,
    /// No longer configured: kept until nothing that was asked of it is under way.
    pub leaving: bool,
}

/// The pool whose place another one takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Former {
    pub pool: PoolId,
    /// How far that is; `None` until a coordinator has said so.
    pub step: Option<Step>,
    /// The newest version of a coordinator's before which nothing is under way here. 0 for none.
    pub acknowledged: u64,
}

impl Former {
    /// Where commands go. Nobody is asked before that is known.
    #[inline]
    pub fn stage(&self) -> Stage {
        self.step.map_or(Stage::Quiesced, |step| step.stage)
    }

    /// Its number.
    pub fn version(&self) -> u64 {
        self.step.map_or(0, |step| step.version)
    }
}

/// What the servers of a pool are.
#[derive(Debug)]
pub(crate) enum Servers {
    Evenkeel(EvenkeelPool),
    Memcached(MemcachedPool),
}

impl Pool {
    /// Epoch of the map; a pool without one stays at 0.
    #[inline]
    pub fn epoch(&self) -> Epoch {
        match &self.servers {
            Servers::Evenkeel(pool) => pool.epoch(),
            Servers::Memcached(_) => Epoch(0),
        }
    }

    /// Where its map comes from.
    pub fn source(&self) -> Option<MapSource> {
        match &self.servers {
            Servers::Evenkeel(pool) => Some(pool.source()),
            Servers::Memcached(_) => None,
        }
    }

    /// How long leases of its map last, if that says so. Servers grant none to requests that name another map; so what they told when they
    /// were connected to counts only where maps say nothing.
    pub fn promised_lease(&self) -> Option<Duration> {
        match &self.servers {
            Servers::Evenkeel(pool) => Some(pool.map()?.promise()?.lease()),
            Servers::Memcached(_) => None,
        }
    }

    /// Whether its servers are any memcached servers.
    pub fn is_plain(&self) -> bool {
        matches!(self.servers, Servers::Memcached(_))
    }

    /// All its backends.
    pub fn backends(&self) -> Vec<BackendId> {
        match &self.servers {
            Servers::Evenkeel(pool) => pool.backends().iter().map(|(_, id)| *id).collect(),
            Servers::Memcached(pool) => pool.backends().to_vec(),
        }
    }

    /// The backends that may hold anything.
    pub fn holders(&self) -> Vec<BackendId> {
        match &self.servers {
            Servers::Evenkeel(pool) => pool.holders(),
            Servers::Memcached(pool) => pool.backends().to_vec(),
        }
    }

    /// What statistics show of it.
    pub fn facts(&self) -> PoolFacts<'_> {
        PoolFacts {
            name: &self.name,
            kind: self.kind(),
            epoch: self.epoch().0,
            servers: self.backends().len(),
            settings: &self.settings,
            leaving: self.leaving,
        }
    }

    /// What is done with its keys.
    pub fn scheme(&self) -> Scheme {
        let has_replicas = self.settings.hot_keys.mode == PlainMode::On;
        match &self.servers {
            Servers::Evenkeel(_) => Scheme::CLUSTER,
            Servers::Memcached(_) if has_replicas => Scheme::LIST_WITH_HOT_KEYS,
            Servers::Memcached(_) => Scheme::LIST,
        }
    }

    /// One word for statistics.
    pub fn kind(&self) -> &'static str {
        match &self.servers {
            Servers::Evenkeel(_) => "evenkeel",
            Servers::Memcached(_) => "memcached",
        }
    }
}

/// How statistics and errors call a server of a pool.
pub(crate) fn server_name(pool: &str, server: &str) -> String {
    match pool {
        DEFAULT_POOL => server.to_owned(),
        pool => format!("{pool}/{server}"),
    }
}

/// What leases of a pool belong to. A pool that is gone has none.
#[inline]
pub(crate) fn lease_era(pool: Option<&Pool>, era: u64) -> Epoch {
    match pool.map(|pool| &pool.servers) {
        Some(Servers::Evenkeel(pool)) => pool.era(),
        Some(Servers::Memcached(_)) | None => Epoch(era),
    }
}
