//! Which worker of a server hosts a key.

use std::collections::BTreeMap;

use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, KeyHash, WorkerRef};

/// What is otherwise at this server than the map says.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Hosts {
    /// Cachelets of which it is known otherwise than by the map whether this worker hosts them.
    moved: BTreeMap<CacheletId, bool>,
}

impl Hosts {
    /// Whether a worker hosts a key.
    pub fn is_host(&self, map: &ClusterMap, me: WorkerRef, hash: KeyHash) -> bool {
        let place = map.locate(hash);
        let moved = self.moved.get(&place.cachelet).copied();
        moved.unwrap_or(place.worker == Some(me))
    }

    /// A cachelet whose `home` this worker is, or not, has it as its `host`, or not.
    pub fn note(&mut self, cachelet: CacheletId, home: bool, host: bool) {
        if home == host {
            self.forget(cachelet);
        } else {
            self.moved.insert(cachelet, host);
        }
    }

    /// The host of a cachelet is the worker that the map names.
    pub fn forget(&mut self, cachelet: CacheletId) {
        self.moved.remove(&cachelet);
    }
}
