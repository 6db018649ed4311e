//! The newest loads of each server's workers and cachelets. Nothing here is saved: every heartbeat tells
//! them anew. News that make no sense are left aside, counted and shown; the loads of that server are
//! unknown then, and its heartbeat is good all the same, because a server is not dead whose numbers are wrong.

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use evenkeel_balance::cachelet_load::{CacheletLoad, WorkerLoad};
use evenkeel_types::{CacheletId, Epoch, Instant, ServerId};
use serde::{Deserialize, Serialize};

use crate::duration::millis;
use crate::map_draft::MapDraft;
use crate::members::Members;
use crate::quarantine::{QuarantinedView, quarantined};
use evenkeel_control::loads::{BadLoadNews, LeftOut, LoadNews};

/// The loads of a server that is up.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerLoad {
    /// Which server.
    pub server: ServerId,
    /// How long ago it told them.
    pub age: Duration,
    /// The memory limit of the server.
    pub memory_limit_bytes: u64,
    /// Its workers, each with those of its cachelets that the newest map gives to the server, and with what
    /// it had no room to tell of.
    pub workers: Vec<(WorkerLoad, LeftOut)>,
}

/// The loads of all servers that are up, to be shown. Loads are in small requests a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterLoadsView {
    /// Epoch of the newest map.
    pub epoch: Epoch,
    /// By name.
    pub servers: Vec<ServerLoadView>,
    /// By server and number, or the most loaded first.
    pub workers: Vec<WorkerLoadView>,
    /// By server, worker and number, or the most loaded first.
    pub cachelets: Vec<CacheletLoadView>,
    /// Those that nobody owns until an operator says so, by number.
    #[serde(default)]
    pub quarantined: Vec<QuarantinedView>,
}

/// A server, and what is known of its load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerLoadView {
    /// Its name.
    pub server: String,
    /// Milliseconds since it told of its loads; absent if it did not, or not so that it makes sense.
    pub age_ms: Option<u64>,
    /// What is wrong with what it told last.
    pub unusable: Option<String>,
    /// Its memory limit; 0 where nothing is known, as below.
    pub memory_limit_bytes: u64,
    /// Bytes of it that its workers hold.
    pub memory_bytes: u64,
    /// What its workers serve of their own cachelets.
    pub load: f64,
    /// Reads of its own cachelets a second.
    #[serde(default)]
    pub reads_per_s: f64,
    /// Those of them that found an item.
    #[serde(default)]
    pub hits_per_s: f64,
}

/// A worker; see [`WorkerLoad`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerLoadView {
    /// The name of its server.
    pub server: String,
    /// Which of the server's workers.
    pub worker: u16,
    /// What it serves of its own cachelets.
    pub load: f64,
    /// What it serves of replicas for others.
    pub replica_load: f64,
    /// What others serve of its hot keys.
    pub diverted_load: f64,
    /// Part of its time that it does not sleep.
    pub busy: f64,
    /// Bytes that it holds of the memory limit.
    pub memory_bytes: u64,
    /// Cachelets that it told of.
    pub cachelets: usize,
    /// Cachelets that it had no room to tell of.
    pub left_out: u64,
    /// The sum of their loads.
    pub left_out_load: f64,
    /// The sum of their memory.
    pub left_out_bytes: u64,
}

/// A cachelet; see [`CacheletLoad`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheletLoadView {
    /// Which.
    pub cachelet: CacheletId,
    /// The name of the server that has it.
    pub server: String,
    /// The worker that has it now.
    pub worker: u16,
    /// The worker that the map gives it to.
    pub home_worker: u16,
    /// In small requests a second.
    pub load: f64,
    /// Reads a second.
    pub reads_per_s: f64,
    /// Reads a second that found an item.
    pub hits_per_s: f64,
    /// Writes a second.
    pub writes_per_s: f64,
    /// Bytes of values written a second.
    pub bytes_in_per_s: f64,
    /// Bytes of values read a second.
    pub bytes_out_per_s: f64,
    /// Part of its worker's time.
    pub busy: f64,
    /// Bytes of the memory limit.
    pub memory_bytes: u64,
    /// Items in it.
    pub items: u64,
}

/// In which order loads are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadOrder {
    /// By server, worker, cachelet.
    #[default]
    Place,
    /// The most loaded first.
    Load,
}

/// Counts of what servers told of their loads, since the coordinator started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadNewsCounts {
    /// News that were used.
    pub heard: u64,
    /// News left aside because they make no sense.
    pub unusable: u64,
}

/// What was heard.
#[derive(Debug, Default)]
pub(crate) struct ClusterLoads {
    servers: BTreeMap<ServerId, (Instant, Result<LoadNews, BadLoadNews>)>,
    counts: LoadNewsCounts,
}

impl ClusterLoads {
    /// Takes in what a server with this many workers tells, in a cluster of this many cachelets; nothing
    /// from one that does not measure.
    pub(crate) fn handle(
        &mut self,
        now: Instant,
        (server, workers, cachelets): (ServerId, usize, usize),
        news: Option<&LoadNews>,
    ) {
        let Some(news) = news else {
            self.servers.remove(&server);
            return;
        };
        let told = match news.validate(workers, cachelets) {
            Ok(()) => {
                self.counts.heard += 1;
                Ok(news.clone())
            }
            Err(bad) => {
                self.counts.unusable += 1;
                Err(bad)
            }
        };
        self.servers.insert(server, (now, told));
    }

    /// What servers that are up told last of their loads, as far as it makes sense. A cachelet is told of
    /// at most once: by the server that has it by the newest map.
    pub(crate) fn of_servers(
        &self,
        now: Instant,
        members: &Members,
        draft: &MapDraft,
    ) -> Vec<ServerLoad> {
        let loads = members.up().filter_map(|server| {
            let server = server.entry.id;
            let (at, told) = self.servers.get(&server)?;
            let news = told.as_ref().ok()?;
            let mut workers = news.workers();
            for (worker, _) in &mut workers {
                let is_of_server = |load: &CacheletLoad| {
                    let owner = draft.owner_of(load.cachelet);
                    owner.is_some_and(|owner| owner.server == server)
                };
                worker.cachelets.retain(is_of_server);
            }
            Some(ServerLoad {
                server,
                age: now.since(*at),
                memory_limit_bytes: news.memory_limit_bytes,
                workers,
            })
        });
        loads.collect()
    }

    /// The loads of all servers that are up, to be shown; of workers and cachelets at most this many each.
    pub(crate) fn view(
        &self,
        now: Instant,
        (order, most): (LoadOrder, usize),
        members: &Members,
        draft: &MapDraft,
    ) -> ClusterLoadsView {
        let mut view = ClusterLoadsView {
            epoch: draft.epoch(),
            servers: Vec::new(),
            workers: Vec::new(),
            cachelets: Vec::new(),
            quarantined: quarantined(draft, members),
        };
        let mut known: BTreeMap<_, _> = (self.of_servers(now, members, draft).into_iter())
            .map(|load| (load.server, load))
            .collect();
        for server in members.up() {
            let (id, name) = (server.entry.id, &server.entry.name);
            let load = known.remove(&id);
            let told = self.servers.get(&id);
            let unusable = told.and_then(|(_, told)| told.as_ref().err());
            let workers = load.as_ref().map_or(&[][..], |load| &load.workers);
            view.servers.push(ServerLoadView {
                server: name.clone(),
                age_ms: load.as_ref().map(|load| millis(load.age)),
                unusable: unusable.map(ToString::to_string),
                memory_limit_bytes: load.as_ref().map_or(0, |load| load.memory_limit_bytes),
                memory_bytes: workers.iter().map(|(worker, _)| worker.memory_bytes).sum(),
                load: workers.iter().map(|(worker, _)| worker.load).sum(),
                reads_per_s: sum_of(workers, |cachelet| cachelet.reads_per_s),
                hits_per_s: sum_of(workers, |cachelet| cachelet.hits_per_s),
            });
            for (worker, left_out) in workers {
                view.workers.push(worker_view(name, worker, left_out));
                let cachelets = worker.cachelets.iter().map(|load| {
                    let home = draft.owner_of(load.cachelet);
                    let home_worker = home.map_or(worker.worker, |home| home.worker);
                    cachelet_view(name, worker.worker, home_worker, load)
                });
                view.cachelets.extend(cachelets);
            }
        }
        view.servers.sort_by(|a, b| a.server.cmp(&b.server));
        match order {
            LoadOrder::Place => {
                let place = |w: &WorkerLoadView| (w.server.clone(), w.worker);
                view.workers.sort_by_cached_key(place);
                let place = |c: &CacheletLoadView| (c.server.clone(), c.worker, c.cachelet);
                view.cachelets.sort_by_cached_key(place);
            }
            LoadOrder::Load => {
                view.workers.sort_by_key(|w| Reverse(whole(w.load)));
                view.cachelets.sort_by_key(|c| Reverse(whole(c.load)));
            }
        }
        view.workers.truncate(most);
        view.cachelets.truncate(most);
        view
    }

    /// Counts of what servers told of their loads.
    pub(crate) fn counts(&self) -> LoadNewsCounts {
        self.counts
    }

    /// Loads of the cachelets of drained servers that are up, as far as told. Empty at once where there are none.
    pub(crate) fn of_drained(
        &self,
        now: Instant,
        members: &Members,
        draft: &MapDraft,
    ) -> BTreeMap<CacheletId, f64> {
        let mut servers = members.servers().iter();
        if servers.all(|server| server.drain.is_none()) {
            return BTreeMap::new();
        }
        let loads = self.of_servers(now, members, draft).into_iter();
        let workers = loads
            .filter(|load| members.server(load.server).drain.is_some())
            .flat_map(|load| load.workers);
        let cachelets = workers.flat_map(|(worker, _)| worker.cachelets);
        cachelets.map(|load| (load.cachelet, load.load)).collect()
    }
}

fn sum_of(workers: &[(WorkerLoad, LeftOut)], figure: fn(&CacheletLoad) -> f64) -> f64 {
    let cachelets = workers.iter().flat_map(|(worker, _)| &worker.cachelets);
    cachelets.map(figure).sum()
}

/// Loads are told in whole numbers.
fn whole(load: f64) -> u64 {
    load as u64
}

fn worker_view(server: &str, load: &WorkerLoad, left_out: &LeftOut) -> WorkerLoadView {
    WorkerLoadView {
        server: server.to_owned(),
        worker: load.worker,
        load: load.load,
        replica_load: load.replica_load,
        diverted_load: load.diverted_load,
        busy: load.busy,
        memory_bytes: load.memory_bytes,
        cachelets: load.cachelets.len(),
        left_out: left_out.count,
        left_out_load: left_out.load,
        left_out_bytes: left_out.memory_bytes,
    }
}

fn cachelet_view(
    server: &str,
    worker: u16,
    home_worker: u16,
    load: &CacheletLoad,
) -> CacheletLoadView {
    CacheletLoadView {
        cachelet: load.cachelet,
        server: server.to_owned(),
        worker,
        home_worker,
        load: load.load,
        reads_per_s: load.reads_per_s,
        hits_per_s: load.hits_per_s,
        writes_per_s: load.writes_per_s,
        bytes_in_per_s: load.bytes_in_per_s,
        bytes_out_per_s: load.bytes_out_per_s,
        busy: load.busy,
        memory_bytes: load.memory_bytes,
        items: load.items,
    }
}
