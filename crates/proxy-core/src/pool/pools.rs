//! The pools of one core.

use crate::bundles::Keeping;
use crate::config::MapSource;
use crate::failure::Failure;
use crate::ids::{BackendId, PoolId};
use crate::output::{Outbox, Output};
use crate::pipe::in_flight::{Asker, Tag};
use crate::pool::bundled::Bundled;
use crate::pool::grain_counts::GrainCounts;
use crate::pool::local::LocalPool;
use crate::pool::racks::PoolRacks;
use crate::pool::steady::SteadyPool;
use crate::pool::{EvenkeelPool, Followed, MemcachedPool, Pool, Servers};
use crate::ring::unique_mask;
use crate::route_flags::RouteFlags;
use crate::routes::way::Way;
use crate::slab::Slab;
use crate::stats::counters::ProxyStats;
use crate::stats::process::PoolStats;
use evenkeel_hotkeys::ages::Ages;
use evenkeel_hotkeys::client::ReadTicket;
use evenkeel_schemes::generation::PREFIX_LEN;
use evenkeel_schemes::stage::{FORMER_UNIQUES, Stage};
use evenkeel_types::{Epoch, Instant, KeyHash};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The pools, by name.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    slab: Slab<Pool>,
    /// Whether hot keys of a pool of plain servers are looked for.
    watches: bool,
    /// Whether a pool takes the place of another.
    warms: bool,
    /// Items of some pool have names of ours.
    names: bool,
    /// Items of some pool have copies, or are supposed to.
    bundles: bool,
    /// Items of some pool are held by one of several racks.
    crosses: bool,
    /// A pool may have been told a step that is not acknowledged.
    may_be_behind: bool,
}

impl Pools {
    pub fn insert(&mut self, pool: Pool) -> PoolId {
        PoolId(self.slab.insert(pool))
    }

    pub fn remove(&mut self, id: PoolId) -> Option<Pool> {
        self.slab.remove(id.0)
    }

    #[inline]
    pub fn get(&self, id: PoolId) -> Option<&Pool> {
        self.slab.get(id.0)
    }

    #[inline]
    pub fn get_mut(&mut self, id: PoolId) -> Option<&mut Pool> {
        self.slab.get_mut(id.0)
    }

    /// The list of a pool's servers, where it has one.
    #[inline]
    pub fn list(&self, pool: PoolId) -> Option<&MemcachedPool> {
        self.get(pool)?.list()
    }

    /// The servers of a pool's cluster, where they are of one.
    #[inline]
    pub fn cluster_mut(&mut self, pool: PoolId) -> Option<&mut EvenkeelPool> {
        self.get_mut(pool)?.cluster_mut()
    }

    /// Its servers for keys that stay where they are: see [`Pool::steady`].
    #[inline]
    pub fn steady(&self, pool: PoolId) -> Option<SteadyPool<'_>> {
        self.get(pool)?.steady()
    }

    /// What grains of a pool's ring carry, where it has one.
    #[inline]
    pub fn grains_of(&mut self, pool: PoolId) -> Option<&mut GrainCounts> {
        if !self.warms {
            return None;
        }
        self.get_mut(pool)?.grains.as_mut()
    }

    /// The server that has a key in a pool, and what a request for it carries there. A pool that is gone has none.
    pub fn place(&self, pool: PoolId, key: &[u8]) -> (Result<BackendId, Failure>, RouteFlags) {
        match self.get(pool) {
            Some(pool) => pool.place(key),
            None => (Err(Failure::Former), RouteFlags::default()),
        }
    }

    /// All of them, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (PoolId, &Pool)> {
        self.slab.iter().map(|(key, pool)| (PoolId(key), pool))
    }

    /// The names of all of them.
    pub fn ids(&self) -> Vec<PoolId> {
        self.slab.keys().into_iter().map(PoolId).collect()
    }

    /// Whether items of ours stand beside the application's in a pool.
    pub fn use_names(&self, pool: PoolId) -> bool {
        self.get(pool)
            .is_some_and(|pool| pool.scheme().uses_names())
    }

    /// Whether hot keys of a pool of plain servers are looked for.
    #[inline]
    pub fn watches(&self) -> bool {
        self.watches
    }

    /// How far a pool is with some keys at least, on the way from one place to another.
    pub fn stage_of_some(&self, pool: PoolId) -> Option<Stage> {
        let former = self.get(pool)?.former?;
        Some(former.stage())
    }

    /// At which stage a key is, by the name that servers know, on its way from one place to another; `None` for one that stays where it is.
    #[inline]
    pub fn stage(&self, pool: PoolId, key: &[u8]) -> Option<Stage> {
        if !self.warms {
            return None;
        }
        self.get(pool)?.stage(key)
    }

    /// What the item of a key is called: what stands before the key, if anything does.
    #[inline]
    pub fn name_prefix(&self, pool: PoolId, key: &[u8]) -> Option<[u8; PREFIX_LEN]> {
        if !self.names {
            return None;
        }
        self.get(pool)?.name_prefix(key)
    }

    /// Whether keys of a pool are distributed by a ring that follows the load.
    #[inline]
    pub fn is_adaptive(&self, pool: PoolId) -> bool {
        self.warms && self.get(pool).is_some_and(|pool| pool.settings.adaptive)
    }

    /// Whether items of a pool have names of ours. Between racks uniques do not depend on these alone: see [`PoolRacks::unique_mask`].
    #[inline]
    pub fn is_named(&self, pool: PoolId) -> bool {
        self.names
            && self.get(pool).is_some_and(|pool| {
                let settings = &pool.settings;
                let is_listed = settings.name_prefix.is_some() && pool.racks.is_none();
                settings.adaptive || is_listed
            })
    }

    /// Whether what moves in a pool's ring is taken from a server that is not asked any more.
    pub fn is_loss(&self, pool: PoolId) -> bool {
        let ring = self.get(pool).and_then(Pool::ring);
        ring.is_some_and(|ring| ring.is_loss())
    }

    /// What uniques of an item with this name are combined with where applications see them; 0 for nothing.
    #[inline]
    pub fn unique_mask(&self, pool: PoolId, name: &[u8]) -> u64 {
        match self.is_named(pool) {
            true => unique_mask(name),
            false => 0,
        }
    }

    /// The same for the unique that a request is to meet, at whatever pool is asked at present.
    #[inline]
    pub fn condition_mask(&self, pool: PoolId, name: &[u8]) -> u64 {
        match self.names {
            true => self.unique_mask(self.asked_for(pool), name),
            false => 0,
        }
    }

    /// Whether commands that may change something take several steps, with some keys at least.
    pub fn takes_steps(&self, pool: PoolId) -> bool {
        self.stage_of_some(pool).is_some_and(Stage::takes_steps)
    }

    /// Whether writes of a pool waited for reads because they take several steps, or did before it was configured anew.
    pub fn has_former_or_list(&self, pool: PoolId) -> bool {
        let pool = self.get(pool);
        pool.is_some_and(|pool| pool.former.is_some() || pool.is_plain())
    }

    /// Whether any pool takes the place of another one.
    #[inline]
    pub fn warms(&self) -> bool {
        self.warms
    }

    /// The pools that these are warmed from, of those whose commands take several steps.
    pub fn former_of(&self, pools: &BTreeSet<PoolId>) -> BTreeSet<PoolId> {
        let found = pools.iter().filter_map(|&id| self.get(id)?.former);
        let warmed = found.filter(|former| former.stage().takes_steps());
        warmed.flat_map(|former| self.parts(former.pool)).collect()
    }

    /// The pools whose servers are those of a pool: one for each rack, where it has several.
    fn parts(&self, pool: PoolId) -> Vec<PoolId> {
        match self.racks(pool) {
            Some(racks) => racks.pools().collect(),
            None => vec![pool],
        }
    }

    /// The pool whose servers are asked: the former one as long as it alone is.
    pub fn asked_for(&self, pool: PoolId) -> PoolId {
        let former = self.get(pool).and_then(|pool| pool.former);
        let former = former.filter(|former| former.stage() == Stage::Former);
        former.map_or(pool, |former| former.pool)
    }

    /// Whether a key is brought from its former place that is not here.
    pub fn fills(&self, pool: PoolId, key: &[u8]) -> bool {
        self.stage(pool, key).is_some_and(Stage::fills)
    }

    /// Whether that is so of some keys of a pool.
    pub fn fills_some(&self, pool: PoolId) -> bool {
        self.stage_of_some(pool).is_some_and(Stage::fills)
    }

    /// Whether notes may be met where a pool's items are, which are told by their values: one of several racks holds each item, or did in the
    /// pool that it is warmed from.
    pub fn reads_notes(&self, pool: PoolId) -> bool {
        let former = self.get(pool).and_then(|pool| Some(pool.former?.pool));
        self.racks(pool).is_some() || former.is_some_and(|former| self.racks(former).is_some())
    }

    /// What uniques of a pool's servers are combined with (exclusive or), besides what else is, where they are shown as those of
    /// [former servers](FORMER_UNIQUES).
    #[inline]
    pub fn shown_as(&self, pool: PoolId) -> u64 {
        match self.get(pool).is_some_and(|pool| pool.is_led_from) {
            true => FORMER_UNIQUES,
            false => 0,
        }
    }

    /// Looks whether any pool takes the place of another.
    pub fn look_for_former_pools(&mut self) {
        let warms = self.iter().any(|(_, pool)| pool.former.is_some());
        self.warms = warms;
        let names = |pool: &Pool| pool.settings.adaptive || pool.settings.name_prefix.is_some();
        let names = self.iter().any(|(_, pool)| names(pool));
        self.names = names;
        let bundles = self.iter().any(|(_, pool)| pool.bundled.is_some());
        self.bundles = bundles;
        let crosses = self.iter().any(|(_, pool)| pool.racks.is_some());
        self.crosses = crosses;
        self.may_be_behind = warms || bundles;
    }

    /// Whether items of some pool have copies, or are supposed to.
    #[inline]
    pub fn bundles(&self) -> bool {
        self.bundles
    }

    /// Whether items of some pool are held by one of several racks.
    #[inline]
    pub fn crosses(&self) -> bool {
        self.crosses
    }

    /// The racks of a pool of which one holds each item.
    #[inline]
    pub fn racks(&self, id: PoolId) -> Option<&Arc<PoolRacks>> {
        match self.crosses {
            true => self.get(id)?.racks.as_ref(),
            false => None,
        }
    }

    /// What the own rack of a pool copies of what other racks hold, where it does.
    #[inline]
    pub fn local(&mut self, id: PoolId) -> Option<&mut LocalPool> {
        match self.crosses {
            true => self.get_mut(id)?.local.as_mut(),
            false => None,
        }
    }

    /// The former pool of this one has answered a read.
    pub fn count_former_hit(&mut self, id: PoolId, stats: &mut ProxyStats) {
        stats.former_hits += 1;
        if let Some(pool) = self.get_mut(id) {
            pool.former_hits += 1;
        }
    }

    /// The copies of a pool's items, and its servers.
    pub fn bundled(&mut self, id: PoolId) -> Option<(&mut Bundled, &MemcachedPool)> {
        let pool = self.get_mut(id)?;
        match &pool.servers {
            Servers::Memcached(servers) => Some((pool.bundled.as_mut()?, servers)),
            Servers::Evenkeel(_) => None,
        }
    }

    /// How copies of a pool's items are kept, if they are.
    pub fn keeping(&self, id: PoolId) -> Option<Keeping> {
        self.get(id)?.bundled.as_ref()?.by.keeping()
    }

    /// Whether copies are deleted behind what an application has asked.
    #[inline]
    pub fn deletes_behind(&self, tag: &Tag) -> bool {
        self.bundles
            && !tag.is_read
            && tag.asker == Asker::Client
            && (self.get(tag.pool))
                .is_some_and(|pool| pool.bundled.as_ref().is_some_and(Bundled::is_cleared))
    }

    /// Whether copies are kept of a pool's items, whether they are on or not.
    #[inline]
    pub fn keeps_copies(&self, id: PoolId) -> bool {
        self.bundles && self.get(id).is_some_and(Pool::keeps_copies)
    }

    /// Whether writes of a pool wait until its coordinator has said how far its copies are switched on.
    #[inline]
    pub fn awaits_switch(&self, id: PoolId) -> bool {
        self.bundles && self.get(id).is_some_and(Pool::awaits_switch)
    }

    /// A pool has been told a step.
    pub fn step_told(&mut self) {
        self.may_be_behind = true;
    }

    /// Whether there may be steps to acknowledge.
    #[inline]
    pub fn may_be_behind(&self) -> bool {
        self.may_be_behind
    }

    /// The pool of this name that a coordinator leads.
    pub fn follower(&self, source: MapSource, name: &str) -> Option<PoolId> {
        let mut pools = self.iter().filter(|(_, pool)| !pool.leaving);
        let found =
            pools.find(|(_, pool)| pool.settings.follows == Some(source) && *pool.name == *name);
        found.map(|(id, _)| id)
    }

    /// Pools that have been told a step which is not acknowledged, and what it is.
    pub fn unacknowledged(&mut self) -> Vec<(PoolId, Followed)> {
        let behind = |(_, at): &(PoolId, Followed)| at.acknowledged < at.version();
        let pools = self
            .iter()
            .filter_map(|(id, pool)| Some((id, pool.followed()?)));
        let found: Vec<_> = pools.filter(behind).collect();
        self.may_be_behind = !found.is_empty();
        found
    }

    /// Looks whether any pool looks for hot keys.
    pub fn look_for_hot_keys(&mut self) -> bool {
        let watches = self.iter().any(|(_, pool)| pool.hot.is_some());
        self.watches = watches;
        watches
    }

    /// Whether reads may go to copies, as long as a lease lasts.
    #[inline]
    pub fn hold_leases(&self) -> bool {
        self.iter().any(|(_, pool)| !pool.leases.is_empty())
    }

    /// How old leases were when replicas were asked under them.
    pub fn lease_ages(&self) -> Ages {
        let mut ages = Ages::default();
        for (_, pool) in self.iter() {
            ages.add(pool.leases.lease_ages());
        }
        ages
    }

    /// Epoch of the map of a source that is worked by; 0 without one.
    pub fn epoch(&self, source: MapSource) -> Epoch {
        let mut pools = self.iter().map(|(_, pool)| pool);
        let follower = pools.find(|pool| pool.source() == Some(source) && !pool.leaving);
        follower.map_or(Epoch(0), Pool::epoch)
    }

    /// The home of a key in an Evenkeel pool.
    pub fn home(&self, pool: PoolId, hash: KeyHash) -> Result<BackendId, Failure> {
        let cluster = self.get(pool).and_then(Pool::cluster);
        let pool = cluster.ok_or(Failure::NoOwner)?;
        let (_, home) = pool.home(hash).ok_or(Failure::NoMap)?;
        home.ok_or_else(|| pool.why_homeless(hash))
    }

    /// A peer knows a newer map.
    pub fn want_map(&mut self, outbox: &mut Outbox, pool: PoolId, epoch: Epoch) {
        let Some(pool) = self.cluster_mut(pool) else {
            return;
        };
        if epoch > pool.epoch() && epoch > pool.wanted {
            pool.wanted = epoch;
            let source = pool.source();
            outbox.push(Output::WantMap { source, epoch });
        }
    }

    /// Whether a request that failed so can wait for a newer map, which is there. One for a replica goes to its home instead.
    pub fn may_wait_for_map(&self, tag: &Tag, failure: &Failure) -> bool {
        let cluster = self.get(tag.pool).and_then(Pool::cluster);
        let awaits_map = cluster.is_some_and(|pool| pool.wanted > pool.epoch());
        awaits_map && !tag.is_replica && matches!(failure, Failure::Unavailable(..))
    }

    /// Whether the key's home, as far as is known now, is not the one that was asked.
    pub fn has_other_home(&self, tag: &Tag, asked: Option<BackendId>) -> bool {
        let home = self.home(tag.pool, tag.hash).ok();
        !tag.is_replica && home.is_some() && asked.is_some() && home != asked
    }

    /// A write has come to an end, and nobody knows the version of what it stored.
    pub fn write_ended(&mut self, tag: &Tag) {
        if let Some(write) = tag.write
            && let Some(pool) = self.get_mut(tag.pool)
        {
            pool.leases.write_ended(tag.hash, write);
        }
    }

    /// The answer to a read, if any comes, is compared with nothing.
    pub fn abandon(&mut self, now: Instant, pool: PoolId, ticket: ReadTicket) {
        if let Some(pool) = self.get_mut(pool) {
            pool.leases.abandon(now, ticket);
        }
    }

    /// The pools that allow to be flushed and that some way takes writes to, or those whose servers are asked for them.
    pub fn to_flush(&self, ways: &[Way]) -> BTreeSet<PoolId> {
        let written = ways.iter().filter_map(Way::writes_to);
        let allows = |pool: &PoolId| {
            let pool = self.get(*pool);
            pool.is_some_and(|pool| pool.settings.allow_flush)
        };
        let allowed = written
            .filter(allows)
            .flat_map(|pool| self.parts(self.asked_for(pool)));
        allowed.collect()
    }

    /// The servers that may hold a part of these pools.
    pub fn holders(&self, pools: &BTreeSet<PoolId>) -> Vec<(PoolId, BackendId)> {
        let found = pools.iter().filter_map(|&id| {
            let pool = self.get(id)?;
            Some(pool.holders().into_iter().map(move |holder| (id, holder)))
        });
        found.flatten().collect()
    }

    /// The pools of the configuration, for statistics.
    pub fn stats(&self) -> Vec<PoolStats> {
        let pools = self.iter().filter(|(_, pool)| !pool.leaving);
        let stats = pools.map(|(_, pool)| PoolStats {
            name: Arc::clone(&pool.name),
            map_epoch: pool.source().map(|_| pool.epoch().0),
            step: pool.step().map(|step| step.version),
            plan: pool.ring().map(|ring| ring.number()),
            servers: pool.backends().len() as u64,
            watches: pool.hot.is_some(),
            bundles: pool.bundled.as_ref().map(|bundled| bundled.counts),
        });
        stats.collect()
    }
}
