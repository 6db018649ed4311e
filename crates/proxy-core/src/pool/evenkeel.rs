//! Where keys live in a pool of Evenkeel servers: key → cachelet → worker, by the coordinator's map.
//!
//! The map is turned into one table from cachelet to backend when it arrives, so that finding the
//! home of a key is a shift and two lookups. Shadow workers are found by renaming, once for each hot key and
//! map; only reads of hot keys under a lease need them.

use crate::config::MapSource;
use crate::failure::Failure;
use crate::ids::BackendId;
use evenkeel_placement::renaming::shadows;
use evenkeel_types::limits::GAMMA_MAX;
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, Epoch, KeyHash, WorkerRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Hot keys whose shadow workers are known at a time; with one more all are found anew. As many as are hot at 16 workers at
/// once, in 4 MiB at most.
const COPIES_KEPT: usize = 1024;

/// The map and the connections that belong to it.
#[derive(Debug)]
pub(crate) struct EvenkeelPool {
    source: MapSource,
    map: Option<Arc<ClusterMap>>,
    /// Counts what voids leases: maps, and changes of the configuration.
    era: Epoch,
    /// Newest map that the driver was asked for.
    pub wanted: Epoch,
    /// The backend of each cachelet's owner, by cachelet: of the worker that hosts it, where that is known to
    /// be another one than the map says.
    homes: Vec<Option<BackendId>>,
    /// What requests for some cachelets must carry at a backend, because others were not executed there.
    marks: BTreeMap<CacheletId, (BackendId, u64)>,
    /// Every worker of the map, ascending.
    workers: Vec<(WorkerRef, BackendId)>,
    /// The backends of hot keys' shadow workers by this map, by hash and by suffix, from 1.
    copies: BTreeMap<KeyHash, Box<[Option<BackendId>]>>,
}

impl EvenkeelPool {
    /// A pool that has no map yet.
    pub fn new(source: MapSource) -> Self {
        EvenkeelPool {
            source,
            map: None,
            era: Epoch(0),
            wanted: Epoch(0),
            homes: Vec::new(),
            marks: BTreeMap::new(),
            workers: Vec::new(),
            copies: BTreeMap::new(),
        }
    }

    /// Where its map comes from.
    pub fn source(&self) -> MapSource {
        self.source
    }

    /// The map.
    pub fn map(&self) -> Option<&ClusterMap> {
        self.map.as_deref()
    }

    /// What leases belong to, as [`ClientLeases`] wants to be told it: the map, and the
    /// configuration by which keys come here.
    ///
    /// [`ClientLeases`]: evenkeel_hotkeys::client::ClientLeases
    #[inline]
    pub fn era(&self) -> Epoch {
        self.era
    }

    /// Voids all leases.
    pub fn begin_era(&mut self) {
        self.era.0 += 1;
    }

    /// Epoch of the map, 0 before the first.
    #[inline]
    pub fn epoch(&self) -> Epoch {
        self.map.as_ref().map_or(Epoch(0), |map| map.epoch())
    }

    /// Takes over a map; `workers` are its workers with their backends, ascending.
    pub fn install(&mut self, map: Arc<ClusterMap>, workers: Vec<(WorkerRef, BackendId)>) {
        debug_assert!(workers.is_sorted_by(|a, b| a.0 < b.0));
        self.workers = workers;
        let owners = &map.document().cachelets;
        self.homes = owners
            .iter()
            .map(|owner| owner.and_then(|owner| self.backend(owner)))
            .collect();
        self.map = Some(map);
        self.copies.clear();
        self.begin_era();
    }

    /// A server says that another of its workers hosts the cachelet of a key now, or that the cachelet has passed to where
    /// this map has it migrate. True if that is news. It holds until the next map, or until that worker says
    /// otherwise.
    pub fn learn_host(&mut self, hash: KeyHash, worker: WorkerRef) -> bool {
        let Some(map) = &self.map else {
            return false;
        };
        let place = map.locate(hash);
        let host = self.backend(worker);
        let is_of_home = place
            .worker
            .is_some_and(|home| home.server == worker.server);
        let migration = map.migration(place.cachelet);
        let may = is_of_home || migration.is_some_and(|migration| migration.to == worker);
        match self.homes.get_mut(usize::from(place.cachelet.0)) {
            Some(home) if may && host.is_some() && *home != host => {
                *home = host;
                true
            }
            _ => false,
        }
    }

    /// A backend has not executed a request for a key, and wants this mark on those that come now. True if that is
    /// news.
    pub fn learn_mark(&mut self, hash: KeyHash, backend: BackendId, mark: u64) -> bool {
        let Some(cachelet) = self.map.as_ref().map(|map| map.locate(hash).cachelet) else {
            return false;
        };
        mark > 0 && self.marks.insert(cachelet, (backend, mark)) != Some((backend, mark))
    }

    /// The connection to a backend has ended. The next one counts its marks anew, so that a former mark could pass for one
    /// of those.
    pub fn forget_marks(&mut self, backend: BackendId) {
        self.marks.retain(|_, (at, _)| *at != backend);
    }

    /// The mark that a request for a cachelet carries at a backend; 0 for none.
    #[inline]
    pub fn mark(&self, cachelet: CacheletId, backend: Option<BackendId>) -> u64 {
        if self.marks.is_empty() {
            return 0;
        }
        let learnt = self.marks.get(&cachelet);
        let here = learnt.filter(|(at, _)| Some(*at) == backend);
        here.map_or(0, |(_, mark)| *mark)
    }

    /// The cachelet of a key and, unless nobody owns it, the backend of its home. `None` without a
    /// map.
    #[inline]
    pub fn home(&self, hash: KeyHash) -> Option<(CacheletId, Option<BackendId>)> {
        let place = self.map.as_ref()?.locate(hash);
        let home = self
            .homes
            .get(usize::from(place.cachelet.0))
            .copied()
            .flatten();
        Some((place.cachelet, home))
    }

    /// Why a key has no home.
    #[cold]
    pub fn why_homeless(&self, hash: KeyHash) -> Failure {
        let Some(map) = &self.map else {
            return Failure::NoMap;
        };
        let cachelet = map.locate(hash).cachelet;
        match map.is_quarantined(cachelet) {
            true => Failure::Quarantined(cachelet),
            false => Failure::NoOwner,
        }
    }

    /// The backend of the shadow worker of that suffix, from 1. `None` when the map has none. O(log keys), but O(γ²) for a key
    /// that is not known.
    pub fn shadow(&mut self, key: &[u8], hash: KeyHash, suffix: u8) -> Option<BackendId> {
        if !self.copies.contains_key(&hash) {
            self.find_copies(key, hash)?;
        }
        let copies = self.copies.get(&hash)?;
        copies.get(usize::from(suffix) - 1).copied().flatten()
    }

    #[cold]
    fn find_copies(&mut self, key: &[u8], hash: KeyHash) -> Option<()> {
        let map = self.map.as_ref()?;
        let home = map.locate(hash).worker?;
        let workers = shadows(map, key, home.server, GAMMA_MAX);
        let copies = workers.into_iter().map(|worker| self.backend(worker));
        let copies = copies.collect();
        if self.copies.len() >= COPIES_KEPT {
            self.copies.clear();
        }
        self.copies.insert(hash, copies);
        Some(())
    }

    /// The backend of a worker. O(log workers).
    pub fn backend(&self, worker: WorkerRef) -> Option<BackendId> {
        let at = self
            .workers
            .binary_search_by_key(&worker, |(worker, _)| *worker)
            .ok()?;
        Some(self.workers[at].1)
    }

    /// The backends of all workers.
    pub fn backends(&self) -> &[(WorkerRef, BackendId)] {
        &self.workers
    }

    /// The backends that may hold anything: those of servers that are up or own cachelets, or to which some are on the way.
    pub fn holders(&self) -> Vec<BackendId> {
        let Some(map) = &self.map else {
            return Vec::new();
        };
        let holds = |(worker, _): &&(WorkerRef, BackendId)| {
            let migrations = &map.document().migrations;
            map.is_up(worker.server)
                || map.cachelets_of(*worker).next().is_some()
                || migrations.iter().any(|migration| migration.to == *worker)
        };
        self.workers
            .iter()
            .filter(holds)
            .map(|(_, backend)| *backend)
            .collect()
    }
}
