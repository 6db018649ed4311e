//! Everything that a person looks at, of one moment: what the coordinator's page is told each second.
//!
//! It is made of what the calls of the API tell, so that no figure is computed twice; what is too long to be told each second (cachelets,
//! old events, the history) is left to them.

use evenkeel_hotkeys::settings::Settings;
use evenkeel_types::{Now, UnixSeconds};
use serde::{Deserialize, Serialize};

use crate::cluster_hot_keys::{ClusterEventView, ClusterHotKeysView};
use crate::cluster_loads::{ClusterLoadsView, LoadOrder};
use crate::core::CoordinatorCore;
use crate::event::MapEvent;
use crate::heat::{HeatView, Measure, Step, WantedHeat};
use crate::limits::{SNAPSHOT_EVENTS_MAX, SNAPSHOT_PLANS_MAX};
use crate::members::DrainView;
use crate::plans::PlansView;
use crate::recent::Recent;
use crate::scale::{ScaleEvent, ScaleView};
use crate::settings::SettingsEvent;
use crate::view::{ProxiesView, ServersView};

/// A moment of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When, in seconds since 1970.
    pub unix_s: UnixSeconds,
    /// All servers together.
    pub totals: Totals,
    /// As `/api/v1/servers`.
    pub servers: ServersView,
    /// As `/api/v1/cachelets`, without the cachelets.
    pub loads: ClusterLoadsView,
    /// As `/api/v1/proxies`.
    pub proxies: ProxiesView,
    /// As `/api/v1/hotkeys`.
    pub hot_keys: ClusterHotKeysView,
    /// As `/api/v1/settings`.
    pub settings: Settings,
    /// The newest, oldest first.
    pub settings_events: Vec<SettingsEvent>,
    /// The newest of `/api/v1/events`, oldest first.
    pub events: Vec<MapEvent>,
    /// The newest of `/api/v1/hotkeys/events`, oldest first.
    pub hot_key_events: Vec<ClusterEventView>,
    /// The newest of `/api/v1/plans`.
    pub plans: PlansView,
    /// As `/api/v1/drains`.
    pub drains: Vec<DrainView>,
    /// The pools of `/api/v1/scale`.
    #[serde(default)]
    pub scale: Vec<ScaleView>,
    /// The newest of `/api/v1/scale/events`, oldest first.
    #[serde(default)]
    pub scale_events: Vec<ScaleEvent>,
    /// The newest column of `/api/v1/heat`, of each measure.
    pub heat: Vec<HeatView>,
}

/// What all servers that are up told last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Small requests a second, replicas included.
    pub load: f64,
    /// Reads a second.
    pub reads_per_s: f64,
    /// Reads a second that found an item.
    pub hits_per_s: f64,
    /// Writes a second.
    pub writes_per_s: f64,
    /// Bytes of values read and written a second.
    pub bytes_per_s: f64,
    /// Items.
    pub items: u64,
    /// Bytes of the memory limit that are held.
    pub memory_bytes: u64,
    /// The memory limit.
    pub memory_limit_bytes: u64,
}

impl CoordinatorCore {
    /// What there is to be seen at this moment. O(cachelets × log cachelets).
    pub fn snapshot(&self, now: Now) -> Snapshot {
        let mut loads = self.cluster_loads(now.monotonic, LoadOrder::Place, usize::MAX);
        let totals = Totals::of(&loads);
        loads.cachelets.clear();
        let heat = Measure::ALL.map(|of| {
            let wanted = WantedHeat {
                of,
                step: Step::Second,
                columns: 1,
            };
            self.heat(now.monotonic, wanted)
        });
        Snapshot {
            unix_s: now.unix,
            totals,
            servers: self.servers(now.monotonic),
            loads,
            proxies: self.proxies(now.monotonic),
            hot_keys: self.cluster_hot_keys(),
            settings: self.settings(),
            settings_events: self.settings_events().iter().cloned().collect(),
            events: newest(self.events()),
            hot_key_events: newest(self.hot_key_events()),
            plans: self.plans(SNAPSHOT_PLANS_MAX),
            drains: self.drains(now.monotonic).drains,
            scale: self.scales(now.monotonic).pools,
            scale_events: newest(self.scale_events()),
            heat: heat.into(),
        }
    }
}

/// The last [`SNAPSHOT_EVENTS_MAX`], oldest first.
fn newest<E: Clone, const MOST: usize>(events: &Recent<E, MOST>) -> Vec<E> {
    let surplus = events.iter().len().saturating_sub(SNAPSHOT_EVENTS_MAX);
    events.iter().skip(surplus).cloned().collect()
}

impl Totals {
    fn of(loads: &ClusterLoadsView) -> Totals {
        let mut totals = Totals::default();
        for server in &loads.servers {
            totals.memory_bytes += server.memory_bytes;
            totals.memory_limit_bytes += server.memory_limit_bytes;
        }
        for worker in &loads.workers {
            totals.load += worker.load + worker.replica_load;
        }
        for cachelet in &loads.cachelets {
            totals.reads_per_s += cachelet.reads_per_s;
            totals.hits_per_s += cachelet.hits_per_s;
            totals.writes_per_s += cachelet.writes_per_s;
            totals.bytes_per_s += cachelet.bytes_in_per_s + cachelet.bytes_out_per_s;
            totals.items += cachelet.items;
        }
        totals
    }
}
