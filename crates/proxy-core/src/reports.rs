//! What a worker has counted, and where keys go, for anyone who asks.

use crate::config::MapSource;
use crate::explain::{Explanation, HeldKey, Together, explain, held_key, together};
use crate::ids::RouteId;
use crate::pool::Pool;
use crate::routes::{CommandClass, RouteConfig, RouteTarget};
use crate::stats::counters::ProxyStats;
use crate::stats::hot_keys::{HotKeyReport, HottestReport, HottestReports};
use crate::stats::per_route::ROUTES_COUNTED_MAX;
use crate::stats::process::{BackendStats, PoolStats, WorkerCounts};
use crate::stats::route_stats::{RouteName, RouteStats};
use crate::worker::ProxyCore;
use evenkeel_control::times::Histogram;
use evenkeel_hotkeys::plain::PlainMode;
use evenkeel_schemes::warmth::Found;
use evenkeel_types::{Epoch, Instant};
use std::sync::Arc;

impl ProxyCore {
    /// Counts of this worker.
    pub fn stats(&self) -> &ProxyStats {
        &self.counts.stats
    }

    /// Sets the counts of this worker to zero.
    pub fn reset_stats(&mut self) {
        self.counts.stats = ProxyStats::default();
        self.backends.flush_runs(&mut self.counts.routes);
        self.counts.routes.reset();
    }

    /// How long requests took since the start or the last reset, and how many were refused because of overload.
    pub fn served(&mut self) -> (Histogram, u64) {
        self.backends.flush_runs(&mut self.counts.routes);
        let times = self.counts.routes.times().clone();
        (times, self.counts.stats.requests_shed)
    }

    /// Everything that this worker has counted.
    pub fn counts(&self, now: Instant) -> WorkerCounts {
        WorkerCounts {
            replica_lease_ages: self.pools.lease_ages(),
            totals: self.counts.stats,
            backends: self.backends(),
            routes: self.route_stats(),
            pools: self.pool_stats(),
            hot_keys: self.hot_keys(now),
            hottest: self.hottest(now),
            racks: Arc::clone(&self.config.racks),
        }
    }

    /// The connections to servers.
    pub fn backends(&self) -> Vec<BackendStats> {
        let stats = self.backends.iter().map(|backend| {
            let pool = self.pools.get(backend.pool);
            let pool = pool.map(|pool| pool.name.to_string());
            backend.stats(self.now, pool.unwrap_or_default(), &self.config.racks)
        });
        stats.collect()
    }

    /// Connections of applications.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Epoch of the map of a source that it works by; 0 without one.
    pub fn epoch(&self, source: MapSource) -> Epoch {
        self.pools.epoch(source)
    }

    /// The pools of the configuration.
    pub fn pool_stats(&self) -> Vec<PoolStats> {
        self.pools.stats()
    }

    /// The keys that are read most through this worker, in pools that look for them.
    pub fn hot_keys(&self, now: Instant) -> Vec<HotKeyReport> {
        self.pools.hot_keys(now)
    }

    /// The keys that get most through this worker, in all pools.
    pub fn hottest(&self, now: Instant) -> HottestReports {
        let hottest = &self.counts.hottest;
        let found = hottest.list(now);
        let reports = found.filter_map(|(id, found)| {
            let pool = self.pools.get(id)?;
            let way = self.routing.way(&found.key, CommandClass::Get);
            let list = pool.list().filter(|_| way.plain_get() == Some(id));
            let home = list.and_then(|list| self.backends.get(list.home(&found.key)));
            Some(HottestReport {
                pool: Arc::clone(&pool.name),
                home: home.map(|home| home.name.clone()),
                key: found.key,
                gets_per_second: found.gets,
                sets_per_second: found.sets,
                bytes_per_second: found.bytes,
                load: found.load,
                why: why_nothing(pool),
            })
        });
        HottestReports {
            requests_per_second: hottest.requests_per_second(now),
            keys: reports.collect(),
        }
    }

    /// What this worker has counted of the routes of its configuration, in their order; those behind the
    /// first [`ROUTES_COUNTED_MAX`] are one.
    pub fn route_stats(&self) -> Vec<RouteStats> {
        let (routes, ways) = (self.routing.table().routes(), self.routing.ways());
        let told = routes.iter().zip(ways).enumerate().take(ROUTES_COUNTED_MAX);
        let mut told: Vec<_> = told
            .map(|(position, (route, way))| {
                let pool = match route.target {
                    RouteTarget::Pool(pool) => &*self.config.pools[pool].name,
                    RouteTarget::Deny => "none",
                };
                (way.route(), RouteName::of(position, route, pool))
            })
            .collect();
        if ways.len() > ROUTES_COUNTED_MAX {
            told.push((RouteId::OTHERS, RouteName::others()));
        }
        let told = told.into_iter();
        told.map(|(id, name)| self.stats_of_route(id, name))
            .collect()
    }

    fn stats_of_route(&self, id: RouteId, name: RouteName) -> RouteStats {
        let (counters, latency) = self.counts.routes.of(id);
        let mut stats = RouteStats {
            name,
            counters: *counters,
            latency: latency.clone(),
        };
        let runs = self.backends.iter().map(|backend| backend.stopwatch.run());
        for run in runs.filter(|run| run.route() == id) {
            stats.counters.request_bytes += run.bytes();
            stats.latency.record(&run.spots());
        }
        stats
    }

    /// What reads have found in a pool that follows this source: of the routes that are [told apart](ROUTES_COUNTED_MAX). O(routes).
    pub fn found(&self, source: MapSource, pool: &str) -> Option<Found> {
        let led = self.pools.get(self.pools.follower(source, pool)?)?;
        let (routes, ways) = (self.routing.table().routes(), self.routing.ways());
        let leads_here = |route: &RouteConfig| match route.target {
            RouteTarget::Pool(at) => *self.config.pools[at].name == *pool,
            RouteTarget::Deny => false,
        };
        let told = routes.iter().zip(ways).take(ROUTES_COUNTED_MAX);
        let told = told.filter(|(route, _)| leads_here(route));
        let hits = told.map(|(_, way)| self.counts.routes.of(way.route()).0.get_hits);
        Some(Found {
            hits: hits.sum(),
            former: led.former_hits,
        })
    }

    /// Explains the ways of a key. `running` says whether it is worth telling how servers are.
    ///
    /// # Errors
    /// The error line for what is no key: nothing, more than 250 bytes, spaces, control characters.
    pub fn explain(
        &self,
        now: Instant,
        key: &[u8],
        running: bool,
    ) -> Result<Explanation, &'static [u8]> {
        explain(self, now, key, running)
    }

    /// Which servers a multi-get of these keys asks, and how many it would ask without copies.
    ///
    /// # Errors
    /// The error line where something is no key, or not all are of one pool that has copies or is observed.
    pub fn together(&self, keys: &[&[u8]]) -> Result<Together, &'static [u8]> {
        together(self, keys)
    }

    /// The places of a key of a pool of which one rack holds each item, by the pool's name and the key as the pool has it.
    ///
    /// # Errors
    /// The error line for what is no key, for a key that leaves no room for a name that the pool gives it, and where there is no such pool.
    pub fn held_key(&self, pool: &str, key: &[u8]) -> Result<HeldKey, &'static [u8]> {
        held_key(self, pool, key)
    }
}

/// Why nothing is done here about a key of a pool that it does not report as hot.
fn why_nothing(pool: &Pool) -> &'static str {
    match (pool.is_plain(), pool.settings.hot_keys.mode) {
        (false, _) => "its servers decide: see evenkeel top",
        (true, PlainMode::Off) => "hot_keys is off in this pool",
        (true, _) => "it is not among those that are read much and seldom written",
    }
}
