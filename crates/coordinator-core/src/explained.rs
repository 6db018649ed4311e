//! Where a key of the cluster lives, and what is done about it: what the search box of the page shows.
//!
//! The coordinator is on the path of no request. What a proxy does with the key just now, only that proxy knows: `evenkeel explain --proxy`.

use evenkeel_types::{CacheletId, Epoch, Instant, KeyHash, printable};
use serde::{Deserialize, Serialize};

use crate::cluster_hot_keys::{ClusterHottestView, ClusterKeyView};
use crate::cluster_loads::{CacheletLoadView, LoadOrder};
use crate::core::CoordinatorCore;

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyExplained {
    /// The key; what is not printable, and `%`, as `%XX`.
    pub key: String,
    /// The map that says so.
    pub epoch: Epoch,
    /// The part of the key space that it is in.
    pub cachelet: CacheletId,
    /// The name of the server that owns that; absent while none does.
    pub server: Option<String>,
    /// The worker there.
    pub worker: Option<u16>,
    /// Whether the server is taken to be alive.
    pub server_up: bool,
    /// Whether its cachelet is on its way to another server.
    pub moving: bool,
    /// Whether nobody is to own its cachelet until an operator says so.
    pub quarantined: bool,
    /// The load of its cachelet, where the owner tells it.
    pub load: Option<CacheletLoadView>,
    /// Its replicas, if it has any or would have some.
    pub hot: Option<ClusterKeyView>,
    /// What it gets and why nothing is done about it, if it is one of the keys that get most.
    pub hottest: Option<ClusterHottestView>,
}

impl KeyExplained {
    /// Explains a key by the newest map; nothing while there is none. O(cachelets × log cachelets).
    pub fn of(core: &CoordinatorCore, now: Instant, key: &[u8]) -> Option<Self> {
        let map = core.map()?;
        let place = map.locate(KeyHash::of(key));
        let owner = place.worker.and_then(|owner| {
            let servers = core.servers(now).servers;
            let server = servers.into_iter().find(|it| it.id == owner.server)?;
            Some((server, owner.worker))
        });
        let loads = core.cluster_loads(now, LoadOrder::Place, usize::MAX);
        let mut loads = loads.cachelets.into_iter();
        let hot_keys = core.cluster_hot_keys();
        let key = printable(key);
        Some(KeyExplained {
            epoch: map.epoch(),
            cachelet: place.cachelet,
            server_up: owner.as_ref().is_some_and(|(server, _)| server.up),
            worker: owner.as_ref().map(|(_, worker)| *worker),
            server: owner.map(|(server, _)| server.name),
            moving: map.migration(place.cachelet).is_some(),
            quarantined: map.is_quarantined(place.cachelet),
            load: loads.find(|load| load.cachelet == place.cachelet),
            hot: hot_keys.keys.into_iter().find(|it| it.key.key == key),
            hottest: hot_keys.hottest.into_iter().find(|it| it.key.key == key),
            key,
        })
    }
}
