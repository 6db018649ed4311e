//! What the rest of the process says to a proxy worker, and what a worker lets the rest see.

use evenkeel_control::times::Histogram;
use evenkeel_proxy_core::{
    BackendId, MapSource, PoolUpdate, ProxyConfig, RingCounted, WorkerCounts,
};
use evenkeel_schemes::warmth::Found;
use evenkeel_types::Epoch;
use evenkeel_types::map::ClusterMap;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A word to a worker.
#[derive(Clone, Debug)]
pub enum Control {
    /// The map of a cluster's coordinator.
    Map(MapSource, Arc<ClusterMap>),
    /// How far a pool is on its way from its former servers, or with its ring, as its coordinator says, or that it does not lead this proxy
    /// any more.
    Step(MapSource, Arc<str>, Option<PoolUpdate>),
    /// What grains of a pool's ring have carried is wanted, for this slot.
    CountRing(MapSource, Arc<str>, u64),
    /// What reads of a pool have found is wanted.
    CountFound(MapSource, Arc<str>),
    /// How long requests take is wanted, and how many are refused because of overload.
    CountServed,
    /// The configuration to work by as soon as all workers have stopped to begin requests by the former one.
    Configure(Arc<ProxyConfig>, Turnover),
    /// All have, of the configuration of this generation.
    TurnOver(u64),
    /// Where a server is, or that its name has no address.
    Resolved(BackendId, Option<SocketAddr>),
    /// Another worker answers `stats` and wants this one's counts.
    CountsWanted {
        /// The worker that asks.
        by: usize,
        /// Its question.
        question: u64,
    },
    /// The counts that this worker asked for.
    Counts {
        /// The question.
        question: u64,
        /// What another worker has counted.
        counts: Box<WorkerCounts>,
    },
    /// A scraper wants this worker's counts.
    Count(Sender<WorkerCounts>),
    /// `stats reset`.
    ResetStats,
    /// Finish.
    Stop,
}

/// Workers that have yet to stop to begin requests by the former configuration. The last one tells all to go on by the new one: no two
/// of them place keys by two configurations at the same time, so that what one has stored another finds.
#[derive(Clone, Debug)]
pub struct Turnover(Arc<AtomicUsize>);

impl Turnover {
    /// All of this many workers.
    pub fn of(workers: usize) -> Self {
        Turnover(Arc::new(AtomicUsize::new(workers)))
    }

    /// A worker has stopped. Whether it is the last one.
    pub fn arrive(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// Characters of a refusal that statistics show: a path, a place and a sentence.
const REFUSAL_LEN_MAX: usize = 500;

/// What became of configurations since the start; all workers show it.
#[derive(Debug, Default)]
pub struct ReloadCounts {
    /// Configurations taken over.
    pub reloads: AtomicU64,
    /// Configurations refused.
    pub failures: AtomicU64,
    /// Why the newest was refused, in a line; empty when it is in force.
    refusal: Mutex<String>,
}

impl ReloadCounts {
    /// The newest configuration is refused for this reason; for none, it is in force. Whether that is news.
    pub fn set_refusal(&self, why: &str) -> bool {
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        let line: String = why.chars().take(REFUSAL_LEN_MAX).map(printable).collect();
        let mut refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = *refusal != line;
        *refusal = line;
        is_news
    }

    /// Why the newest configuration was refused; empty when it is in force.
    pub fn refusal(&self) -> String {
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        refusal.clone()
    }
}

/// A pool that a coordinator leads: by the cluster of that, and by its name.
type Led = (MapSource, Arc<str>);

/// What a worker says of such a pool.
#[derive(Debug, Default)]
struct LedGauges {
    /// The newest version before which nothing is under way.
    acknowledged: u64,
    /// What grains of its ring have carried, and for which slot that was wanted.
    counted: Option<(u64, RingCounted)>,
    /// What its reads have found; `None` before that was asked for.
    found: Option<Found>,
    /// The plan of its ring, and the servers of its list that the worker does not reach.
    unreached: Option<(u64, BTreeSet<u16>)>,
}

/// What a worker lets others read without asking it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Gauges {
    /// Requests since the start; written once a turn at most.
    requests: AtomicU64,
    /// Epochs of the newest maps that the worker has; written when one changes.
    epochs: Mutex<BTreeMap<MapSource, Epoch>>,
    /// Of the pools that coordinators lead.
    led: Mutex<BTreeMap<Led, LedGauges>>,
    /// How long requests took since the start, and how many were refused because of overload, as it was asked for last.
    served: Mutex<(Histogram, u64)>,
    /// Generation of the configuration that the worker works by.
    generation: AtomicU64,
}

impl Gauges {
    /// The worker works by the configuration of this generation.
    pub fn set_generation(&self, generation: u64) {
        self.generation.store(generation, Ordering::Release);
    }

    /// Generation of the configuration that the worker works by, 0 before the second one.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The worker has the map of this epoch, and works by it where a pool follows it.
    pub fn set_epoch(&self, source: MapSource, epoch: Epoch) {
        let mut epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        epochs.insert(source, epoch);
    }

    /// Epoch of the newest map that the worker has, 0 for none.
    pub fn epoch(&self, source: MapSource) -> Epoch {
        let epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        epochs.get(&source).copied().unwrap_or(Epoch(0))
    }

    /// Nothing is under way that was begun before this version of a pool's step.
    pub fn set_acknowledged(&self, source: MapSource, pool: Arc<str>, version: u64) {
        self.led().entry((source, pool)).or_default().acknowledged = version;
    }

    /// Forgets what was said of pools that are not led any more: another change of theirs has versions of its own.
    pub fn keep_led(&self, is_led: impl Fn(MapSource, &Arc<str>) -> bool) {
        self.led().retain(|(source, pool), _| is_led(*source, pool));
    }

    /// The newest version of a pool's step before which nothing is under way, 0 for none.
    pub fn acknowledged(&self, source: MapSource, pool: &Arc<str>) -> u64 {
        let led = self.led();
        let found = led.get(&(source, Arc::clone(pool)));
        found.map_or(0, |gauges| gauges.acknowledged)
    }

    /// What grains of a pool's ring have carried, for this slot.
    pub fn set_ring_counted(
        &self,
        source: MapSource,
        pool: Arc<str>,
        slot: u64,
        counted: RingCounted,
    ) {
        self.led().entry((source, pool)).or_default().counted = Some((slot, counted));
    }

    /// The same, if it was counted for this slot.
    pub fn ring_counted(
        &self,
        source: MapSource,
        pool: &Arc<str>,
        slot: u64,
    ) -> Option<RingCounted> {
        let led = self.led();
        let (of, counted) = led.get(&(source, Arc::clone(pool)))?.counted.as_ref()?;
        (*of == slot).then(|| counted.clone())
    }

    /// What reads of a pool have found.
    pub fn set_found(&self, source: MapSource, pool: Arc<str>, found: Found) {
        self.led().entry((source, pool)).or_default().found = Some(found);
    }

    /// The same, as it was told last; `None` before. What is not known is not nothing: all that was found since the start would count as new.
    pub fn found(&self, source: MapSource, pool: &Arc<str>) -> Option<Found> {
        self.led().get(&(source, Arc::clone(pool)))?.found
    }

    /// How long requests took since the start, and how many were refused because of overload.
    pub fn set_served(&self, served: (Histogram, u64)) {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) = served;
    }

    /// The same, as it was asked for last; nothing before.
    pub fn served(&self) -> (Histogram, u64) {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.clone()
    }

    /// The worker does not reach these servers, by their places in the list of this plan.
    pub fn set_unreached(&self, source: MapSource, pool: Arc<str>, plan: u64, servers: Vec<u16>) {
        let unreached = (plan, servers.into_iter().collect());
        self.led().entry((source, pool)).or_default().unreached = Some(unreached);
    }

    /// The servers of this plan's list that the worker does not reach; `None` as long as it works by another.
    pub fn unreached(
        &self,
        source: MapSource,
        pool: &Arc<str>,
        plan: u64,
    ) -> Option<BTreeSet<u16>> {
        let led = self.led();
        let (of, servers) = led.get(&(source, Arc::clone(pool)))?.unreached.as_ref()?;
        (*of == plan).then(|| servers.clone())
    }

    fn led(&self) -> MutexGuard<'_, BTreeMap<Led, LedGauges>> {
        self.led.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker has been asked this much since its start.
    pub fn set_requests(&self, requests: u64) {
        self.requests.store(requests, Ordering::Relaxed);
    }

    /// Requests since the start.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

/// How to reach a worker.
pub type WorkerHandle = evenkeel_runtime::WorkerHandle<Control, Gauges>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_of_a_pool_is_forgotten_with_it() {
        let (gauges, source) = (Gauges::default(), MapSource(1));
        let pools: [Arc<str>; 2] = ["a".into(), "b".into()];
        for pool in &pools {
            gauges.set_acknowledged(source, Arc::clone(pool), 5);
        }
        gauges.keep_led(|_, pool| **pool == *"b");
        let acknowledged = pools.map(|pool| gauges.acknowledged(source, &pool));
        assert_eq!(acknowledged, [0, 5]);
    }

    #[test]
    fn what_reads_have_found_is_not_known_before_it_is_told() {
        let (gauges, source, pool): (_, _, Arc<str>) =
            (Gauges::default(), MapSource(1), "a".into());
        assert_eq!(gauges.found(source, &pool), None);
        gauges.set_acknowledged(source, Arc::clone(&pool), 5);
        assert_eq!(gauges.found(source, &pool), None);
        let found = Found { hits: 7, former: 2 };
        gauges.set_found(source, Arc::clone(&pool), found);
        assert_eq!(gauges.found(source, &pool), Some(found));
    }

    #[test]
    fn the_last_worker_that_stops_tells_all_to_go_on() {
        let turnover = Turnover::of(3);
        let others = turnover.clone();
        assert!(!turnover.arrive() && !others.arrive());
        assert!(others.arrive());
        assert!(Turnover::of(1).arrive());
    }
}
