//! A pool: servers, and how keys are distributed to them.
//!
//! A core has several. Each has connections of its own, also where two name the same server: their
//! timeouts differ, and one's slow answers are not in the way of the other's.

pub(crate) mod bundled;
pub(crate) mod elsewhere;
mod evenkeel;
mod followed;
pub(crate) mod grain_counts;
pub(crate) mod hot;
mod left;
pub(crate) mod local;
mod plain;
pub(crate) mod pools;
pub(crate) mod racks;
pub(crate) mod sent;
pub(crate) mod steady;

use bundled::Bundled;
pub(crate) use evenkeel::EvenkeelPool;
pub(crate) use followed::Followed;
use grain_counts::GrainCounts;
use local::LocalPool;
use racks::PoolRacks;
use steady::SteadyPool;

pub(crate) use left::LeftServers;
pub(crate) use plain::MemcachedPool;

use crate::config::{DEFAULT_POOL, MapSource, PoolSettings};
use crate::failure::Failure;
use crate::ids::{BackendId, PoolId};
use crate::places::Places;
use crate::ring::{PlannedRing, named};
use crate::route_flags::RouteFlags;
use crate::stats::listing::PoolFacts;
use core::time::Duration;
use evenkeel_hotkeys::client::ClientLeases;
use evenkeel_hotkeys::plain::{PlainHotKeys, PlainMode};
use evenkeel_schemes::Scheme;
use evenkeel_schemes::generation::{PREFIX_LEN, taken_apart};
use evenkeel_schemes::locality::holder::Kind;
use evenkeel_schemes::stage::{Stage, Step};
use evenkeel_types::{Epoch, Instant, KeyHash};
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
    /// Reads that it answered, as long as this worker has the pool.
    pub former_hits: u64,
    /// The change from it to another one is led, stage by stage.
    pub is_led_from: bool,
    /// What grains of its ring carry.
    pub grains: Option<GrainCounts>,
    /// The copies of its items, where there are any, or are supposed.
    pub bundled: Option<Bundled>,
    /// The racks of which one holds each item, where its servers are those of one of them.
    pub racks: Option<Arc<PoolRacks>>,
    /// What the own rack copies of what other racks hold, where it does.
    pub local: Option<LocalPool>,
    /// Servers that it has had.
    pub left: LeftServers,
    /// No longer configured: kept until nothing that was asked of it is under way.
    pub leaving: bool,
}

/// The pool whose place another one takes; itself, where parts of its ring change hands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Former {
    pub pool: PoolId,
    /// What stands before the key in the names of that one's items, if anything does.
    pub name_prefix: Option<[u8; PREFIX_LEN]>,
    pub at: Followed,
}

impl Former {
    /// Where commands go. Nobody is asked before that is known.
    #[inline]
    pub fn stage(&self) -> Stage {
        self.at.step.map_or(Stage::Quiesced, |step| step.stage)
    }

    /// Its number.
    pub fn version(&self) -> u64 {
        self.at.version()
    }
}

/// What the servers of a pool are.
#[derive(Debug)]
pub(crate) enum Servers {
    Evenkeel(EvenkeelPool),
    Memcached(MemcachedPool),
}

impl Servers {
    /// Those of a cluster, to be changed.
    pub fn cluster_mut(&mut self) -> Option<&mut EvenkeelPool> {
        match self {
            Servers::Evenkeel(pool) => Some(pool),
            Servers::Memcached(_) => None,
        }
    }
}

impl Pool {
    /// Epoch of the map; a pool without one stays at 0.
    #[inline]
    pub fn epoch(&self) -> Epoch {
        self.cluster().map_or(Epoch(0), EvenkeelPool::epoch)
    }

    /// Where its map comes from.
    pub fn source(&self) -> Option<MapSource> {
        self.cluster().map(EvenkeelPool::source)
    }

    /// How long leases of its map last, if that says so. Servers grant none to requests that name another map; so what they told when they
    /// were connected to counts only where maps say nothing.
    pub fn promised_lease(&self) -> Option<Duration> {
        Some(self.cluster()?.map()?.promise()?.lease())
    }

    /// The ring by which its keys are distributed, where their hash space follows the load and a coordinator has told how.
    #[inline]
    pub fn ring(&self) -> Option<&Arc<PlannedRing>> {
        self.list()?.ring()
    }

    /// The step of a coordinator by which it works, where one leads it and has told it one.
    pub fn step(&self) -> Option<Step> {
        self.followed()?.step.filter(|step| step.version > 0)
    }

    /// How far the change is that it follows, if it follows one.
    pub fn followed(&self) -> Option<Followed> {
        let kept = self.bundled.as_ref().and_then(|bundled| bundled.kept);
        let of_copies = kept.map(|kept| kept.at);
        self.former.map(|former| former.at).or(of_copies)
    }

    /// The same, to be changed.
    pub fn followed_mut(&mut self) -> Option<&mut Followed> {
        let kept = self.bundled.as_mut().and_then(|it| it.kept.as_mut());
        let of_copies = kept.map(|kept| &mut kept.at);
        let of_former = self.former.as_mut().map(|former| &mut former.at);
        of_former.or(of_copies)
    }

    /// At which stage a key is, by the name that servers know, on its way from one place to another; `None` for one that stays where it is.
    #[inline]
    pub fn stage(&self, key: &[u8]) -> Option<Stage> {
        let former = self.former?;
        if !self.settings.adaptive {
            return Some(former.stage());
        }
        let Some(ring) = self.ring().filter(|_| former.at.step.is_some()) else {
            return Some(Stage::Quiesced);
        };
        match former.stage() {
            // The name says where it is.
            Stage::Former | Stage::Done => None,
            stage => ring.moves(key).then_some(stage),
        }
    }

    /// Whether copies are kept of its items, whether they are on or not.
    pub fn keeps_copies(&self) -> bool {
        let bundled = self.bundled.as_ref();
        bundled.is_some_and(|bundled| bundled.kept.is_some())
    }

    /// Whether the nearest copy of an item is read.
    pub fn reads_near(&self) -> bool {
        let bundled = self.bundled.as_ref();
        bundled.is_some_and(|bundled| bundled.by.reads_near())
    }

    /// Whether its writes wait until its coordinator has said how far its copies are switched on.
    pub fn awaits_switch(&self) -> bool {
        let kept = self.bundled.as_ref().and_then(|bundled| bundled.kept);
        kept.is_some_and(|kept| kept.switch().is_none())
    }

    /// What the item of a key is called: what stands before the key, if anything does.
    #[inline]
    pub fn name_prefix(&self, key: &[u8]) -> Option<[u8; PREFIX_LEN]> {
        match self.ring() {
            Some(ring) => ring.name_prefix(key, self.former?.stage() >= Stage::Warming),
            None => self.list_prefix(),
        }
    }

    /// The same of all keys of a list: as long as the former servers alone are asked, theirs.
    fn list_prefix(&self) -> Option<[u8; PREFIX_LEN]> {
        let former = self.former.as_ref();
        match former.filter(|former| former.stage() < Stage::Warming) {
            Some(former) => former.name_prefix,
            None => self.settings.name_prefix,
        }
    }

    /// Whether what items are called depends on how far the pool is.
    pub fn renames(&self) -> bool {
        let former = self.former.as_ref();
        let is_other = |former: &Former| former.name_prefix != self.settings.name_prefix;
        self.settings.adaptive || former.is_some_and(is_other)
    }

    /// What the item of this name is called at its former place, if it has another name there.
    pub fn former_name(&self, name: &[u8]) -> Option<Vec<u8>> {
        let former = match self.ring() {
            Some(ring) => ring.name(name, false),
            None => named(self.former?.name_prefix, taken_apart(name).1),
        };
        (former != name).then_some(former)
    }

    /// What the item of this name is called at present, if it has another name now.
    pub fn present_name(&self, name: &[u8]) -> Option<Vec<u8>> {
        let present = match self.ring() {
            Some(ring) => ring.name(name, self.former?.stage() >= Stage::Warming),
            None => named(self.list_prefix(), taken_apart(name).1),
        };
        (present != name).then_some(present)
    }

    /// Counts by the grains of the present ring from now on, if it is another one.
    pub fn count_by_ring(&mut self, now: Instant) {
        let has_moved = self
            .former
            .is_some_and(|former| former.stage() >= Stage::Warming);
        let ring = self.ring().cloned();
        let is_same = |ring: &Arc<PlannedRing>| {
            let counts = self.grains.as_ref();
            counts.is_some_and(|counts| counts.is_of(ring, has_moved))
        };
        if !ring.as_ref().is_some_and(is_same) {
            self.grains = ring.map(|ring| GrainCounts::new(ring, has_moved, now));
        }
    }

    /// Its servers for keys that stay where they are. `None` where nobody is asked at present, or no list says where keys are.
    #[inline]
    pub fn steady(&self) -> Option<SteadyPool<'_>> {
        let servers = self.list()?;
        if !self.settings.adaptive {
            let prefix = self.settings.name_prefix.as_ref();
            let stays = self.former.is_none();
            return stays.then_some(SteadyPool::new(servers, None, prefix));
        }
        let stage = self.former?.at.step?.stage;
        Some(SteadyPool::new(
            servers,
            Some(servers.ring()?.steady(stage)),
            None,
        ))
    }

    /// Whether its servers are any memcached servers.
    pub fn is_plain(&self) -> bool {
        self.list().is_some()
    }

    /// The list of its servers, where it has one.
    #[inline]
    pub fn list(&self) -> Option<&MemcachedPool> {
        match &self.servers {
            Servers::Memcached(pool) => Some(pool),
            Servers::Evenkeel(_) => None,
        }
    }

    /// The servers of its cluster, where they are of one.
    #[inline]
    pub fn cluster(&self) -> Option<&EvenkeelPool> {
        match &self.servers {
            Servers::Evenkeel(pool) => Some(pool),
            Servers::Memcached(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn cluster_mut(&mut self) -> Option<&mut EvenkeelPool> {
        self.servers.cluster_mut()
    }

    /// The server that has a key, and what a request for it carries there.
    pub fn place(&self, key: &[u8]) -> (Result<BackendId, Failure>, RouteFlags) {
        let none = RouteFlags::default();
        let pool = match &self.servers {
            Servers::Memcached(pool) => return (Ok(pool.home(key)), none),
            Servers::Evenkeel(pool) => pool,
        };
        let hash = KeyHash::of(key);
        let Some((cachelet, home)) = pool.home(hash) else {
            return (Err(Failure::NoMap), none);
        };
        let flags = RouteFlags::new(pool.epoch(), false, pool.mark(cachelet, home));
        (home.ok_or_else(|| pool.why_homeless(hash)), flags)
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
            Servers::Memcached(pool) => {
                let stage = self.former.map_or(Stage::Done, |former| former.stage());
                pool.holders(stage)
            }
        }
    }

    /// What statistics show of it.
    pub fn facts(&self) -> PoolFacts<'_> {
        PoolFacts {
            name: &self.name,
            kind: self.kind(),
            epoch: self.epoch().0,
            step: self.step(),
            plan: self.ring().map(|ring| ring.number()),
            servers: self.backends().len(),
            settings: &self.settings,
            leaving: self.leaving,
        }
    }

    /// What is done with its keys.
    pub fn scheme(&self) -> Scheme {
        let has_replicas = self.settings.hot_keys.mode == PlainMode::On;
        if let Some(racks) = &self.racks {
            return match racks.kind {
                Kind::Snoop => Scheme::LIST_WITH_NOTES,
                Kind::Directory => Scheme::LIST_WITH_DIRECTORY,
            };
        }
        match &self.servers {
            Servers::Evenkeel(_) => Scheme::CLUSTER,
            Servers::Memcached(_) if self.settings.adaptive => Scheme::RING,
            Servers::Memcached(_) if has_replicas => Scheme::LIST_WITH_HOT_KEYS,
            Servers::Memcached(_) if self.keeps_copies() => match self.reads_near() {
                true => Scheme::LIST_IN_RACKS,
                false => Scheme::LIST_WITH_COPIES,
            },
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
    let cluster = pool.and_then(Pool::cluster);
    cluster.map_or(Epoch(era), EvenkeelPool::era)
}
