//! The core of the coordinator: members, heartbeats, the map.
//!
//! The coordinator is the one who writes things down. Servers and proxies report to it twice a
//! second; it remembers who they are, notices who has fallen silent, decides which worker owns
//! which cachelet, and tells everyone in the answers to their reports. It is never asked on the
//! data path: when it is away, everybody goes on with the last map.
//!
//! ```text
//!                    heartbeat                          ┌──────────── server life ───────────┐
//!  server, proxy ───────────────> CoordinatorCore       │  (new name) ──> up <──heard──> down │
//!                <───────────────  │ members            │                 │    ──silent──>     │
//!            id, newer map, load,  │ slots ── placing   │              new boot: restarted     │
//!            settings              │ epoch              └────────────────────────────────────┘
//!                                  └─> SavedState, before anything of it is told
//! ```
//!
//! Rules that hold at all times:
//!
//! - The epoch only grows, over restarts too; each map is immutable.
//! - An id belongs to a server's name until that is forgotten and nothing means it any more (see `names`).
//! - A cachelet has at most one owner in a map, and a new owner only after the former one has
//!   confirmed that it let go (see `placing`), or has ceased to serve for certain (see `fence`).
//! - A name has one holder. Another process gets it when the holder has ended or fallen silent; until then it
//!   is told who holds it. A process that was replaced stays replaced, and is told so.
//! - Only the monotonic clock decides; wall time is shown and nothing else. When the coordinator
//!   itself was asleep, nobody is declared dead for it.
//!
//! The core is pure: it is told the time, answers, and keeps a [`revision`](CoordinatorCore::revision)
//! by which its driver sees that there is something to save *before* an answer leaves.

#![forbid(unsafe_code)]
// See clippy.toml.
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

mod cluster_hot_keys;
mod cluster_loads;
mod config;
mod drain;
pub mod election;
mod event;
mod fence;
pub mod limits;
mod load;
mod members;
mod migrating;
mod names;
mod placing;
pub mod plans;
mod quarantine;
mod settings;
mod sharing;
mod silence;
mod state;
mod takeover;
#[cfg(test)]
mod tests;
mod view;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use evenkeel_types::map::ClusterMap;
use evenkeel_types::serving::SERVING_LEASE;
use evenkeel_types::{CacheletId, Epoch, Instant, Now, ServerId};

use cluster_hot_keys::ClusterHotKeys;
use cluster_loads::ClusterLoads;
use fence::Electorates;
use members::{Proxy, Server};
use migrating::Migrations;
use names::Joins;
use placing::Accounts;
use plans::{Plans, SavedPlans};
use quarantine::Deaths;
use takeover::Takeover;

pub use cluster_hot_keys::{
    Balance, ClusterEventView, ClusterHotKeyEvents, ClusterHotKeysView, ClusterKeyView,
    HotKeyEventCounts,
};
pub use cluster_loads::{
    CacheletLoadView, ClusterLoadsView, LoadNewsCounts, LoadOrder, ServerLoad, ServerLoadView,
    WorkerLoadView,
};
pub use config::{ConfigError, CoordinatorConfig};
pub use drain::{DrainRefusal, DrainRequest, DrainView, DrainsView};
pub use evenkeel_control::{
    Fault, Heartbeat, HeartbeatAnswer, LoadReport, MapOffer, MemberKind, MigrationReport,
    MigrationState, Reason, Refusal,
};
pub use evenkeel_hotkeys::config::Mode;
pub use evenkeel_hotkeys::settings::{SETTINGS, Settings};
pub use evenkeel_types::promise::Consistency;
pub use evenkeel_types::promise::Promise;
pub use event::{Cause, EventsBody, MapEvent};
pub use fence::Electorate;
pub use migrating::{
    EndedMigration, MigrationCounts, MigrationEnd, MigrationRefusal, MigrationRequest,
    MigrationStage, MigrationView, MigrationsView, WorkerName,
};
pub use names::{RemoveRefusal, RemovedView};
pub use placing::{Moving, Purpose, Slot};
pub use quarantine::{DeadLife, QuarantinedView, ReleaseRefusal, ReleasedView, SavedDeath};
pub use settings::SettingsRefusal;
pub use state::{RestoreError, SavedServer, SavedState, StateError};
pub use view::{ProxiesView, ProxyView, ServerView, ServersView};

/// Counts since the process started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Accepted heartbeats of servers.
    pub server_heartbeats: u64,
    /// Accepted heartbeats of proxies.
    pub proxy_heartbeats: u64,
    /// Refused heartbeats, each reason present.
    pub refusals: BTreeMap<Reason, u64>,
    /// Map changes, each cause present.
    pub map_changes: BTreeMap<Cause, u64>,
    /// Times that cachelets whose owners died one after the other were given on all the same, because too many would have been
    /// quarantined.
    pub quarantines_omitted: u64,
    /// Times that the coordinator found itself to have been asleep.
    pub pauses: u64,
    /// Answers of servers that were not heard of, where others reach them.
    pub reached: u64,
}

/// The coordinator's state machine. See the [module](self) for its rules.
#[derive(Debug)]
pub struct CoordinatorCore {
    config: CoordinatorConfig,
    lineage: u64,
    /// See [`HeartbeatAnswer::leader`].
    leader: u64,
    epoch: Epoch,
    settings: Settings,
    /// By id.
    servers: Vec<Server>,
    joins: Joins,
    /// Servers that work by a map of a predecessor, while there is none here.
    takeover: Option<Takeover>,
    /// First map that was made after the map was taken over from servers; 0 where it never was.
    taken_over: Epoch,
    /// By name.
    proxies: BTreeMap<String, Proxy>,
    /// Empty before the first map, as `slots`.
    virtual_nodes: Vec<CacheletId>,
    slots: Vec<Slot>,
    /// See [`SavedState::since`]; as long as `slots`.
    since: Vec<Epoch>,
    /// See [`SavedState::stay`]; as long as `slots`.
    stay: Vec<Epoch>,
    accounts: Accounts,
    migrations: Migrations,
    plans: Plans,
    /// Who was up, by which maps.
    electorates: Electorates,
    /// Who has died lately, and with what.
    deaths: Deaths,
    /// Since it was last found out which servers find no votes, one has confirmed a map or a map was made.
    has_refusal_news: bool,
    map: Option<Arc<ClusterMap>>,
    /// An operator wants cachelets to be placed otherwise, which was not looked at yet.
    has_wishes: bool,
    revision: u64,
    /// When this coordinator began: before a silence has passed since then it knows of no proxy that it is not there.
    began: Instant,
    /// When any `handle_*` was last called.
    last_called: Instant,
    mean_worker_load: f64,
    /// When the mean was last computed.
    mean_at: Option<Instant>,
    events: VecDeque<MapEvent>,
    hot_keys: ClusterHotKeys,
    loads: ClusterLoads,
    counters: Counters,
}

/// A change on its way into the next map.
#[derive(Debug)]
struct Change {
    cause: Cause,
    servers: BTreeSet<ServerId>,
    cachelets: usize,
    /// See [`MapEvent::named`].
    named: Vec<CacheletId>,
}

impl Change {
    fn of_server(cause: Cause, server: ServerId) -> Self {
        Change {
            cause,
            servers: BTreeSet::from([server]),
            cachelets: 0,
            named: Vec::new(),
        }
    }
}

impl CoordinatorCore {
    /// A coordinator that knows nothing. `lineage` must differ from that of every other coordinator
    /// that ever served this cluster.
    ///
    /// # Errors
    ///
    /// See [`CoordinatorConfig::validate`].
    pub fn new(config: CoordinatorConfig, lineage: u64, now: Instant) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut plans = SavedPlans::default();
        plans.settings.mode = config.plan_mode;
        Ok(CoordinatorCore {
            config,
            lineage,
            leader: 0,
            epoch: Epoch(0),
            settings: Settings::default(),
            servers: Vec::new(),
            joins: Joins::default(),
            takeover: None,
            taken_over: Epoch(0),
            proxies: BTreeMap::new(),
            virtual_nodes: Vec::new(),
            slots: Vec::new(),
            since: Vec::new(),
            stay: Vec::new(),
            accounts: Accounts::new(),
            migrations: Migrations::default(),
            plans: Plans::new(plans),
            electorates: Electorates::default(),
            deaths: Deaths::default(),
            has_refusal_news: true,
            map: None,
            has_wishes: false,
            revision: 0,
            began: now,
            last_called: now,
            mean_worker_load: 0.0,
            mean_at: None,
            events: VecDeque::new(),
            hot_keys: ClusterHotKeys::default(),
            loads: ClusterLoads::default(),
            counters: Counters {
                server_heartbeats: 0,
                proxy_heartbeats: 0,
                refusals: Reason::ALL.into_iter().map(|r| (r, 0)).collect(),
                map_changes: Cause::ALL.into_iter().map(|c| (c, 0)).collect(),
                quarantines_omitted: 0,
                pauses: 0,
                reached: 0,
            },
        })
    }

    /// Answers from now on as the leader with this token, see [`election`].
    pub fn lead_as(&mut self, token: u64) {
        self.leader = token;
    }

    /// Takes a member's report and answers it. The answer must not leave before the state of the
    /// present [`revision`](Self::revision) is saved.
    ///
    /// # Errors
    ///
    /// The report is unusable or contradicts what is known; then nothing of it was used.
    pub fn handle_heartbeat(
        &mut self,
        now: Now,
        heartbeat: &Heartbeat,
    ) -> Result<HeartbeatAnswer, Refusal> {
        self.notice_pause(now.monotonic);
        let mut changes = Vec::new();
        let checked = self
            .check_sender(heartbeat)
            .and_then(|()| self.hear_witness(now, heartbeat))
            .and_then(|()| self.check_map(heartbeat));
        let member = checked.and_then(|()| match heartbeat.kind {
            MemberKind::Server => self
                .handle_server(now.monotonic, heartbeat, &mut changes)
                .map(Some),
            MemberKind::Proxy => self.handle_proxy(now.monotonic, heartbeat).map(|()| None),
        });
        self.finish(now, changes);
        match member {
            Ok(server_id) => Ok(self.answer(now.monotonic, heartbeat, server_id)),
            Err(refusal) => {
                self.count_refusal(&refusal);
                Err(refusal)
            }
        }
    }

    /// Counts a heartbeat that is refused, also by who looked whether its process is there.
    pub fn count_refusal(&mut self, refusal: &Refusal) {
        *self.counters.refusals.entry(refusal.reason()).or_default() += 1;
    }

    /// Looks for members that have fallen silent. To be called at [`poll_deadline`](Self::poll_deadline).
    pub fn handle_timeout(&mut self, now: Now) {
        self.notice_pause(now.monotonic);
        self.try_to_take_over(now);
        self.finish(now, Vec::new());
        self.tend_drains(now.monotonic);
    }

    /// When [`handle_timeout`](Self::handle_timeout) should next be called.
    pub fn poll_deadline(&self) -> Instant {
        self.last_called + self.config.silent / limits::TICKS_PER_SILENCE
    }

    /// Grows with every change of what [`saved_state`](Self::saved_state) returns.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The configuration.
    pub fn config(&self) -> &CoordinatorConfig {
        &self.config
    }

    /// Epoch of the newest map; 0 before the first.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The newest map.
    pub fn map(&self) -> Option<&Arc<ClusterMap>> {
        self.map.as_ref()
    }

    /// The last [`limits::EVENTS_MAX`] map changes, oldest first. Those of a former process are not
    /// among them.
    pub fn events(&self) -> impl ExactSizeIterator<Item = &MapEvent> {
        self.events.iter()
    }

    /// Counts since the process started.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Mean load as told to members, in requests per second of a worker.
    pub fn mean_worker_load(&self) -> f64 {
        self.mean_worker_load
    }

    /// Cachelets that nobody owns because they are changing hands.
    pub fn cachelets_in_transit(&self) -> usize {
        self.slots
            .iter()
            .filter(|slot| matches!(slot, Slot::Released { .. }))
            .count()
    }

    /// How many servers are up.
    pub fn servers_up(&self) -> usize {
        self.servers.iter().filter(|server| server.entry.up).count()
    }

    /// Gives everyone a fresh start when the coordinator itself has not run for a while: it cannot
    /// tell who was silent in the meantime.
    fn notice_pause(&mut self, now: Instant) {
        if now.since(self.last_called) > self.config.silent / limits::PAUSE_PER_SILENCE {
            self.counters.pauses += 1;
            self.forget_fences();
            for server in self.servers.iter_mut().filter(|server| server.entry.up) {
                server.last_heard = now;
            }
            for proxy in self.proxies.values_mut() {
                proxy.last_heard = now;
            }
        }
        self.last_called = now;
    }

    /// Everything that follows from a call: who is silent now, which cachelets can move, and one
    /// new map for all of it.
    fn finish(&mut self, now: Now, mut changes: Vec<Change>) {
        self.mark_silent(now.monotonic, &mut changes);
        self.tend_migrations(now.monotonic, &mut changes);
        self.tend_plans(now, &mut changes);
        self.place(now.monotonic, &mut changes);
        self.forget_gone(now.monotonic, &mut changes);
        self.forget_deaths(now.monotonic);
        if changes.is_empty() {
            return;
        }
        self.revision += 1;
        if !self.slots.is_empty() {
            self.publish(now, changes);
        }
    }

    /// Epoch of the map that this call will make, should it make one.
    fn next_epoch(&self) -> Epoch {
        Epoch(self.epoch.0 + 1)
    }

    /// From the next map on nothing is known of what a cachelet contains.
    fn begin_anew(&mut self, cachelet: usize) {
        self.since[cachelet] = self.next_epoch();
        self.stay[cachelet] = self.next_epoch();
    }

    /// The only place where the epoch moves.
    fn publish(&mut self, now: Now, changes: Vec<Change>) {
        self.epoch = self.next_epoch();
        self.note_electorate();
        self.note_empty_servers();
        let document = self.saved_state().document();
        let document = document.expect("the epoch is above 0, so there is a map");
        let map = ClusterMap::new(document)
            .expect("members are checked against the limits of a map, slots name known workers");
        self.map = Some(Arc::new(map));
        for change in changes {
            *self.counters.map_changes.entry(change.cause).or_default() += 1;
            if self.events.len() == limits::EVENTS_MAX {
                self.events.pop_front();
            }
            let name = |id: &ServerId| self.servers[usize::from(id.0)].entry.name.clone();
            self.events.push_back(MapEvent {
                epoch: self.epoch,
                unix_s: now.unix,
                cause: change.cause,
                servers: change.servers.iter().map(name).collect(),
                cachelets: change.cachelets,
                named: change.named,
            });
        }
    }

    fn answer(
        &mut self,
        now: Instant,
        heartbeat: &Heartbeat,
        server_id: Option<ServerId>,
    ) -> HeartbeatAnswer {
        self.refresh_mean(now);
        let hurry = self.slots.is_empty()
            || self.cachelets_in_transit() > 0
            || self.is_fencing(now)
            || self.awaits_followers()
            || server_id.is_some_and(|server| self.migrates(server));
        let interval = match hurry {
            true => self.config.interval().min(limits::INTERVAL_EAGER),
            false => self.config.interval(),
        };
        // A server's lease must not end between two heartbeats.
        let interval = match server_id {
            Some(_) => interval.min(SERVING_LEASE / 2),
            None => interval,
        };
        HeartbeatAnswer {
            server_id,
            epoch: self.epoch,
            lineage: self.lineage,
            leader: self.leader,
            map: self.map.clone().filter(|_| heartbeat.epoch < self.epoch),
            mean_worker_load: self.mean_worker_load,
            may_end: heartbeat.ending && server_id.is_none_or(|id| self.may_end(now, id)),
            settings: self.settings,
            balances: self.plan_settings().mode == plans::PlanMode::Automatic,
            interval_ms: millis(interval),
            lease_ms: server_id.map(|_| millis(SERVING_LEASE)),
        }
    }

    fn refresh_mean(&mut self, now: Instant) {
        let fresh = |at: Instant| now.since(at) < limits::LOAD_REFRESH;
        if self.mean_at.is_some_and(fresh) {
            return;
        }
        let up = self.servers.iter().filter(|server| server.entry.up);
        let mut loads: Vec<f64> = up.flat_map(|server| server.load.iter().copied()).collect();
        self.mean_worker_load = load::clamped_mean(&mut loads);
        self.mean_at = Some(now);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
