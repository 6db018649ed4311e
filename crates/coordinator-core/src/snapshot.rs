//! Everything that a person looks at, of one moment: what the coordinator's page is told each second.
//!
//! It is made of what the calls of the API tell, so that no figure is computed twice; what is too long to be told each second (cachelets,
//! old events, the history, most workers of a large cluster) is left to them.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_hotkeys::settings::Settings;
use evenkeel_types::{Now, ServerId, UnixSeconds};
use serde::{Deserialize, Serialize};

use crate::cluster_hot_keys::{ClusterEventView, ClusterHotKeysView};
use crate::cluster_loads::{ClusterLoadsView, LoadOrder, WorkerLoadView};
use crate::core::CoordinatorCore;
use crate::event::MapEvent;
use crate::heat::{HeatView, Step, WantedHeat};
use crate::limits::{
    SNAPSHOT_EVENTS_MAX, SNAPSHOT_PLANS_MAX, SNAPSHOT_WORKERS_FEW, SNAPSHOT_WORKERS_MAX,
    WORKER_FULL,
};
use crate::measure::Measure;
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
    /// As `/api/v1/servers`, without what those say of single workers. Where there are more than [`SNAPSHOT_WORKERS_MAX`] workers, those that are
    /// down, are drained, or ask for moves, that have copies of keys that are told, and that `loads` tells of.
    pub servers: ServersView,
    /// As `/api/v1/cachelets`, without the cachelets. Where there are more than [`SNAPSHOT_WORKERS_MAX`] workers, with
    /// [`SNAPSHOT_WORKERS_FEW`] of them: those of the servers whose fullest or most loaded worker stands out. Other servers are left out, too, but
    /// those whose loads are [unusable](crate::ServerLoadView::unusable).
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
    /// The newest column of `/api/v1/heat`, of each measure. Rows and owners are the same of all, and stand in the first alone.
    pub heat: Vec<HeatView>,
}

/// What all servers that are up told last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Servers that are known.
    #[serde(default)]
    pub servers: usize,
    /// Those that are taken to be alive.
    #[serde(default)]
    pub servers_up: usize,
    /// Workers.
    #[serde(default)]
    pub workers: usize,
    /// Those that do not sleep for [`WORKER_FULL`] of their time.
    #[serde(default)]
    pub workers_full: usize,
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

impl Snapshot {
    /// What there is to be seen at this moment. O(cachelets × log cachelets).
    pub fn of(core: &CoordinatorCore, now: Now) -> Snapshot {
        let mut loads = core.cluster_loads(now.monotonic, LoadOrder::Place, usize::MAX);
        let mut servers = core.servers(now.monotonic);
        let hot_keys = core.cluster_hot_keys();
        let totals = Totals::of(&servers, &loads);
        loads.cachelets.clear();
        for server in &mut servers.servers {
            server.worker_ports.clear();
            server.requests_per_second.clear();
        }
        leave_few(&mut loads, &mut servers, &have_copies(&hot_keys));
        let mut heat = Measure::ALL.map(|of| {
            let wanted = WantedHeat {
                of,
                step: Step::Second,
                columns: 1,
            };
            core.heat(now.monotonic, wanted)
        });
        for other in &mut heat[1..] {
            other.workers.clear();
            other
                .columns
                .iter_mut()
                .for_each(|column| column.owners.clear());
        }
        Snapshot {
            unix_s: now.unix,
            totals,
            servers,
            loads,
            proxies: core.proxies(now.monotonic),
            hot_keys,
            settings: core.settings(),
            settings_events: core.settings_events().iter().cloned().collect(),
            events: newest(core.events()),
            hot_key_events: newest(core.hot_key_events()),
            plans: core.plans(SNAPSHOT_PLANS_MAX),
            drains: core.drains(now.monotonic).drains,
            scale: core.scales(now.monotonic).pools,
            scale_events: newest(core.scale_events()),
            heat: heat.into(),
        }
    }
}

/// The last [`SNAPSHOT_EVENTS_MAX`], oldest first.
fn newest<E: Clone, const MOST: usize>(events: &Recent<E, MOST>) -> Vec<E> {
    let surplus = events.iter().len().saturating_sub(SNAPSHOT_EVENTS_MAX);
    events.iter().skip(surplus).cloned().collect()
}

/// Leaves what a [`Snapshot`] of a large cluster tells, in its order; of another one everything. O(workers × log workers).
fn leave_few(
    loads: &mut ClusterLoadsView,
    servers: &mut ServersView,
    have_copies: &BTreeSet<ServerId>,
) {
    if loads.workers.len() > SNAPSHOT_WORKERS_MAX {
        leave_few_workers(loads);
        leave_few_servers(servers, loads, have_copies);
    }
}

fn leave_few_workers(loads: &mut ClusterLoadsView) {
    let served = |worker: &WorkerLoadView| worker.load + worker.replica_load;
    let most = loads.workers.iter().map(served).fold(1.0, f64::max);
    // By server: how much it stands out, and its workers.
    let mut ranks: BTreeMap<String, (f64, usize)> = BTreeMap::new();
    for worker in &loads.workers {
        let (rank, workers) = ranks.entry(worker.server.clone()).or_default();
        *rank = rank.max(worker.busy).max(served(worker) / most);
        *workers += 1;
    }
    let mut servers: Vec<_> = ranks.into_iter().collect();
    servers.sort_by(|(_, (a, _)), (_, (b, _))| b.total_cmp(a));
    let (mut shown, mut told) = (BTreeSet::new(), 0);
    for (server, (_, workers)) in servers {
        told += workers;
        // One is told, however many workers it has.
        if told > SNAPSHOT_WORKERS_FEW && !shown.is_empty() {
            break;
        }
        shown.insert(server);
    }
    let is_shown = |server: &String| shown.contains(server);
    loads.workers.retain(|worker| is_shown(&worker.server));
    let servers = &mut loads.servers;
    servers.retain(|server| server.unusable.is_some() || is_shown(&server.server));
}

/// Leaves those that something is to be said of.
fn leave_few_servers(
    servers: &mut ServersView,
    loads: &ClusterLoadsView,
    have_copies: &BTreeSet<ServerId>,
) {
    let of_loads = loads.servers.iter().map(|server| server.server.as_str());
    let of_loads: BTreeSet<&str> = of_loads.collect();
    servers.servers.retain(|server| {
        !server.up
            || server.draining
            || server.asks_for_moves
            || have_copies.contains(&server.id)
            || of_loads.contains(server.name.as_str())
    });
}

/// The servers that have copies of keys, or would have some.
fn have_copies(hot_keys: &ClusterHotKeysView) -> BTreeSet<ServerId> {
    let keys = hot_keys.keys.iter().map(|key| &key.key);
    let copies = keys.flat_map(|key| key.shadows.iter().chain(&key.proposed));
    copies.map(|copy| copy.server).collect()
}

impl Totals {
    fn of(servers: &ServersView, loads: &ClusterLoadsView) -> Totals {
        let mut totals = Totals {
            servers: servers.servers.len(),
            servers_up: servers.servers.iter().filter(|server| server.up).count(),
            ..Totals::default()
        };
        for server in &loads.servers {
            totals.memory_bytes += server.memory_bytes;
            totals.memory_limit_bytes += server.memory_limit_bytes;
        }
        for worker in &loads.workers {
            totals.workers += 1;
            totals.workers_full += usize::from(worker.busy >= WORKER_FULL);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_loads::ServerLoadView;
    use crate::view::ServerView;
    use evenkeel_types::{BootId, Epoch};

    fn server_load(server: &str) -> ServerLoadView {
        ServerLoadView {
            server: server.into(),
            age_ms: None,
            unusable: None,
            memory_limit_bytes: 0,
            memory_bytes: 0,
            load: 0.0,
            reads_per_s: 0.0,
            hits_per_s: 0.0,
        }
    }

    #[test]
    fn of_too_many_workers_those_of_the_servers_that_stand_out_are_told_in_their_order() {
        let workers = |servers: usize| {
            let worker = |n: usize| WorkerLoadView {
                server: format!("s{:04}", n / 16),
                worker: (n % 16) as u16,
                load: 10.0,
                busy: 0.1,
                ..WorkerLoadView::default()
            };
            ClusterLoadsView {
                workers: (0..16 * servers).map(worker).collect(),
                ..ClusterLoadsView::default()
            }
        };
        let server = |n: u16| ServerView {
            id: ServerId(n),
            name: format!("s{n:04}"),
            host: String::new(),
            port: 0,
            worker_ports: Vec::new(),
            rack: None,
            boot: BootId(0),
            up: n != 5,
            epoch: Epoch(3),
            cachelets: 0,
            released: 0,
            draining: n == 7,
            asks_for_moves: n == 9,
            requests_per_second: Vec::new(),
            silent_ms: 0,
        };
        let all = ServersView {
            epoch: Epoch(3),
            servers: (0..65).map(server).collect(),
        };
        let copies = BTreeSet::from([ServerId(11)]);
        let few = workers(SNAPSHOT_WORKERS_MAX / 16);
        let (mut told, mut servers) = (few.clone(), all.clone());
        leave_few(&mut told, &mut servers, &copies);
        assert_eq!((&told, &servers), (&few, &all));

        let mut many = workers(SNAPSHOT_WORKERS_MAX / 16 + 1);
        // The fullest worker, and one that serves more than all others.
        many.workers[16 * 63 + 5].busy = 0.95;
        many.workers[16 * 60].replica_load = 500.0;
        many.servers = vec![server_load("s0060"), server_load("s0061")];
        let totals = Totals::of(&servers, &many);
        assert_eq!((totals.servers, totals.servers_up), (65, 64));
        leave_few(&mut many, &mut servers, &copies);
        assert_eq!(many.workers.len(), SNAPSHOT_WORKERS_FEW);
        for server in ["s0060", "s0063"] {
            let of_server = many.workers.iter().filter(|it| it.server == server);
            assert_eq!(of_server.count(), 16, "{server}");
        }
        assert!(many.workers.is_sorted_by_key(|it| (&it.server, it.worker)));

        // Of servers those of these workers, and others that something is to be said of.
        let told: Vec<u16> = servers.servers.iter().map(|it| it.id.0).collect();
        assert_eq!(told, [5, 7, 9, 11, 60]);

        // One server that has more than that.
        let mut one = workers(SNAPSHOT_WORKERS_MAX / 16 + 1);
        one.workers[17].busy = 0.95;
        for worker in &mut one.workers[..2 * SNAPSHOT_WORKERS_FEW] {
            worker.server = "large".into();
        }
        leave_few_workers(&mut one);
        assert_eq!(one.workers.len(), 2 * SNAPSHOT_WORKERS_FEW);
        assert!(one.workers.iter().all(|it| it.server == "large"));
    }
}
