//! The coordinator itself: its parts, what it is told, and when it has to be asked again.

mod heartbeat;
mod map_making;
mod orders;
mod scaling;
#[cfg(test)]
mod tests;

use crate::recent::Recent;
use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_control::rings::RingPlan;
use evenkeel_control::{MapOffer, Reason};
use evenkeel_hotkeys::settings::Settings;
use evenkeel_types::map::{ClusterMap, ServerEntry};
use evenkeel_types::{BootId, Epoch, Instant, Now, ServerId};

use crate::changes::{
    BundlesView, ChangeCounts, ChangeEvent, Changes, ChangesView, CopyWork, RingsView,
};
use crate::cluster_hot_keys::{
    ClusterEventView, ClusterHotKeys, ClusterHotKeysView, HotKeyEventCounts,
};
use crate::cluster_loads::{ClusterLoads, ClusterLoadsView, LoadNewsCounts, LoadOrder, ServerLoad};
use crate::cluster_scale::ClusterScale;
use crate::config::{ConfigError, CoordinatorConfig};
use crate::event::{Cause, MapEvent};
use crate::heat::{HeatView, WantedHeat};
use crate::history::History;
use crate::limits;
use crate::load::MeanLoad;
use crate::map_draft::MapDraft;
use crate::members::{DrainsView, Members};
use crate::migrating::{MigrationCounts, Migrations, MigrationsView};
use crate::plans::{
    Known, Plan, PlanCounts, PlanRefusal, PlanSettings, Plans, PlansExplained, PlansView,
    SavedPlans,
};
use crate::quarantine::{Deaths, QuarantinedView, quarantined};
use crate::scale::Scaled;
use crate::settings::SettingsEvent;
use crate::state::{RestoreError, SavedState, StateError};
use crate::takeover::Takeover;
use crate::view::{ProxiesView, ServersView};

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

impl Default for Counters {
    fn default() -> Self {
        Counters {
            server_heartbeats: 0,
            proxy_heartbeats: 0,
            refusals: Reason::ALL.into_iter().map(|r| (r, 0)).collect(),
            map_changes: Cause::ALL.into_iter().map(|c| (c, 0)).collect(),
            quarantines_omitted: 0,
            pauses: 0,
            reached: 0,
        }
    }
}

/// The coordinator's state machine. See the [crate] for its rules.
#[derive(Debug)]
pub struct CoordinatorCore {
    config: CoordinatorConfig,
    lineage: u64,
    /// See [`HeartbeatAnswer::leader`](evenkeel_control::HeartbeatAnswer::leader).
    leader: u64,
    settings: Settings,
    members: Members,
    /// The map of a predecessor, while there is none here.
    takeover: Takeover,
    draft: MapDraft,
    migrations: Migrations,
    plans: Plans,
    /// Changes of pools in steps.
    changes: Changes,
    /// The autoscaling of the cluster; that of rings belongs to their changes.
    cluster_scale: ClusterScale,
    /// What all that is scaled has in common.
    scaled: Scaled,
    /// Who has died lately, and with what.
    deaths: Deaths,
    /// The newest one.
    map: Option<Arc<ClusterMap>>,
    /// An operator wants cachelets to be placed otherwise, which was not looked at yet.
    has_wishes: bool,
    revision: u64,
    /// When any `handle_*` was last called.
    last_called: Instant,
    mean_load: MeanLoad,
    events: Recent<MapEvent, { limits::EVENTS_MAX }>,
    hot_keys: ClusterHotKeys,
    loads: ClusterLoads,
    history: History,
    /// What operators have changed lately, oldest first.
    settings_events: Recent<SettingsEvent, { limits::SETTINGS_EVENTS_MAX }>,
    counters: Counters,
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
        Ok(CoordinatorCore {
            lineage,
            leader: 0,
            settings: Settings::default(),
            members: Members::new(config.silent, now),
            changes: Changes::new(config.silent, lineage, now),
            cluster_scale: ClusterScale::default(),
            scaled: Scaled::default(),
            takeover: Takeover::default(),
            draft: MapDraft::default(),
            migrations: Migrations::default(),
            plans: Plans::new(SavedPlans::of_mode(config.plan_mode)),
            deaths: Deaths::default(),
            map: None,
            has_wishes: false,
            revision: 0,
            last_called: now,
            mean_load: MeanLoad::default(),
            events: Recent::default(),
            hot_keys: ClusterHotKeys::default(),
            loads: ClusterLoads::default(),
            history: History::default(),
            settings_events: Recent::default(),
            counters: Counters::default(),
            config,
        })
    }

    /// A coordinator that goes on where a former one has stopped. Servers that were up then get a
    /// whole silence to report again, so that a restart moves nothing.
    ///
    /// # Errors
    ///
    /// The configuration is unusable, or the state is not sound or belongs to another cluster.
    pub fn restore(
        config: CoordinatorConfig,
        state: SavedState,
        now: Instant,
    ) -> Result<Self, RestoreError> {
        state.validate(&config.cluster)?;
        let mut state = state;
        let contents = state.take_contents();
        let mut core = CoordinatorCore::new(config, state.lineage, now)?;
        // What a former coordinator had begun to even out goes on.
        core.has_wishes = true;
        core.settings = state.settings;
        core.migrations = Migrations::restore(now, &contents.slots);
        core.draft = MapDraft::new(contents);
        core.plans = Plans::new(state.plans);
        core.deaths = Deaths::restore(now, state.deaths);
        let silent = core.config.silent;
        core.members = Members::restore(silent, now, state.servers, state.electorates);
        core.changes = Changes::restore(silent, core.lineage, now, state.changes);
        core.cluster_scale = ClusterScale::restore(now, state.scale);
        core.map = match core.saved_state().document() {
            Some(document) => Some(Arc::new(
                ClusterMap::new(document).map_err(StateError::from)?,
            )),
            None => None,
        };
        core.members.note_empty(&core.draft);
        Ok(core)
    }

    /// What must be saved. O(servers + virtual nodes).
    pub fn saved_state(&self) -> SavedState {
        let contents = self.draft.contents().clone();
        SavedState {
            cluster: self.config.cluster.clone(),
            lineage: self.lineage,
            epoch: contents.epoch,
            settings: self.settings,
            servers: self.members.saved_servers(),
            virtual_nodes: contents.virtual_nodes,
            cachelets: contents.slots,
            since: contents.since,
            stay: contents.stay,
            merged: Vec::new(),
            accounts: contents.accounts,
            plans: self.plans.saved().clone(),
            electorates: self.members.saved_electorates(),
            taken_over: contents.taken_over,
            deaths: self.deaths.saved(),
            changes: self.changes.saved(),
            scale: self.cluster_scale.saved(),
        }
    }

    /// Answers from now on as the leader with this token, see [`election`](crate::election).
    pub fn lead_as(&mut self, token: u64) {
        self.leader = token;
    }

    /// Looks for members that have fallen silent. To be called at [`poll_deadline`](Self::poll_deadline).
    pub fn handle_timeout(&mut self, now: Now) {
        self.notice_pause(now.monotonic);
        self.try_to_take_over(now);
        self.changes.look(now.monotonic);
        self.finish(now);
        self.members.tend_drains(now.monotonic, &self.draft);
    }

    /// When [`handle_timeout`](Self::handle_timeout) should next be called.
    pub fn poll_deadline(&self) -> Instant {
        let tick = self.last_called + self.config.silent / limits::TICKS_PER_SILENCE;
        let changes = self.changes.deadline(self.last_called);
        let earlier = changes.into_iter().chain(self.scale_due());
        earlier.fold(tick, Instant::min)
    }

    /// Takes a map that a server offers, if it is to be taken over; whatever else is offered is ignored.
    pub fn handle_map_offer(&mut self, now: Now, offer: &MapOffer) {
        if self.takeover.handle_offer(offer) {
            self.try_to_take_over(now);
        }
    }

    /// Goes on from the map that servers work by, if it is time.
    fn try_to_take_over(&mut self, now: Now) {
        let at = now.monotonic;
        let taken = self.takeover.finish(at, &self.config, &self.settings);
        let Some((state, change)) = taken else {
            return;
        };
        // A map that this coordinator could not have made is not taken over.
        if let Ok(mut core) = CoordinatorCore::restore(self.config.clone(), state, at) {
            core.leader = self.leader;
            core.revision = self.revision + 1;
            core.counters = self.counters.clone();
            core.members.inherit(&mut self.members);
            core::mem::swap(&mut core.changes, &mut self.changes);
            core::mem::swap(&mut core.cluster_scale, &mut self.cluster_scale);
            core::mem::swap(&mut core.scaled, &mut self.scaled);
            core.draft.note_taken_over();
            core.draft.note(change);
            *self = core;
            self.publish(now);
        }
    }

    /// The servers that are up and were not heard of for half of a silence: to be said hello to by all ports of their
    /// workers.
    pub fn unheard(&self, now: Instant) -> impl Iterator<Item = &ServerEntry> {
        self.members.unheard(now)
    }

    /// All workers of that process of a server have answered a hello.
    pub fn handle_reached(&mut self, now: Instant, id: ServerId, boot: BootId) {
        self.counters.reached += u64::from(self.members.handle_reached(now, id, boot));
    }

    /// Gives everyone a fresh start when the coordinator itself has not run for a while: it cannot
    /// tell who was silent in the meantime.
    fn notice_pause(&mut self, now: Instant) {
        if now.since(self.last_called) > self.config.silent / limits::PAUSE_PER_SILENCE {
            self.counters.pauses += 1;
            self.members.notice_pause(now);
            self.changes.notice_pause(now);
            self.cluster_scale.notice_pause(now);
        }
        self.last_called = now;
    }

    /// Grows with every change of what [`saved_state`](Self::saved_state) returns.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The configuration.
    pub fn config(&self) -> &CoordinatorConfig {
        &self.config
    }

    /// The operator's choices.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Epoch of the newest map; 0 before the first.
    pub fn epoch(&self) -> Epoch {
        self.draft.epoch()
    }

    /// The newest map.
    pub fn map(&self) -> Option<&Arc<ClusterMap>> {
        self.map.as_ref()
    }

    /// The last [`limits::EVENTS_MAX`] map changes, oldest first. Those of a former process are not
    /// among them.
    pub fn events(&self) -> &Recent<MapEvent, { limits::EVENTS_MAX }> {
        &self.events
    }

    /// Counts since the process started.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Mean load as told to members, in requests per second of a worker.
    pub fn mean_worker_load(&self) -> f64 {
        self.mean_load.value()
    }

    /// Cachelets that nobody owns because they are changing hands.
    pub fn cachelets_in_transit(&self) -> usize {
        self.draft.cachelets_in_transit()
    }

    /// How many servers are up.
    pub fn servers_up(&self) -> usize {
        self.members.up().count()
    }

    /// All servers, to be shown.
    pub fn servers(&self, now: Instant) -> ServersView {
        ServersView::of(now, &self.members, &self.draft)
    }

    /// All proxies, to be shown.
    pub fn proxies(&self, now: Instant) -> ProxiesView {
        ProxiesView::of(now, &self.members, self.epoch(), self.config.silent)
    }

    /// The changes of all pools that are followed, to be shown.
    pub fn changes(&self, now: Instant) -> ChangesView {
        self.changes.views(now)
    }

    /// The rings of the pools whose hash space follows the load, to be shown.
    pub fn rings(&self, now: Instant) -> RingsView {
        self.changes.rings(now)
    }

    /// The pools that keep copies, to be shown.
    pub fn bundles(&self, now: Instant) -> BundlesView {
        self.changes.bundles(now)
    }

    /// The plan of a pool's ring that was begun last; `None` for a pool that is not known, or has no ring.
    pub fn ring_plan(&self, pool: &str) -> Option<Arc<RingPlan>> {
        self.changes.ring_plan(pool)
    }

    /// Plans of rings whose items are to be copied at present, for who does it and tells by [`handle_copy`](Self::handle_copy) how far that is.
    pub fn copy_work(&self, now: Instant) -> Vec<CopyWork> {
        self.changes.copy_work(now)
    }

    /// The last [`limits::CHANGE_EVENTS_MAX`] events of changes, oldest first. Those of a former process are not among them.
    pub fn change_events(&self) -> &Recent<ChangeEvent, { limits::CHANGE_EVENTS_MAX }> {
        self.changes.events()
    }

    /// Counts since the process started.
    pub fn change_counts(&self) -> ChangeCounts {
        self.changes.counts()
    }

    /// How far all drains have come.
    pub fn drains(&self, now: Instant) -> DrainsView {
        self.members.drains(now, &self.draft)
    }

    /// Cachelets in quarantine, in ascending order. O(cachelets).
    pub fn quarantined(&self) -> Vec<QuarantinedView> {
        quarantined(&self.draft, &self.members)
    }

    /// Migrations under way, and the last ones that are over.
    pub fn migrations(&self, now: Instant) -> MigrationsView {
        self.migrations.views(now, &self.members, &self.draft)
    }

    /// How many migrations are under way.
    pub fn migrations_under_way(&self) -> usize {
        self.migrations.count()
    }

    /// Counts since the process started.
    pub fn migration_counts(&self) -> &MigrationCounts {
        self.migrations.counts()
    }

    /// The open plan and the last [`PLANS_MAX`](limits::PLANS_MAX) that are over, newest first, at most this many.
    pub fn plans(&self, most: usize) -> PlansView {
        self.plans.view(most)
    }

    /// A plan with its moves.
    ///
    /// # Errors
    ///
    /// There is none of that number, or not any more.
    pub fn plan(&self, id: u64) -> Result<&Plan, PlanRefusal> {
        self.plans.find(id)
    }

    /// Why nothing moves, if nothing does.
    pub fn explain_plans(&self, now: Instant) -> PlansExplained {
        let known = Known {
            members: &self.members,
            loads: &self.loads,
            draft: &self.draft,
            migrations: &self.migrations,
        };
        self.plans.explain(now, &known)
    }

    /// Counts since the process started.
    pub fn plan_counts(&self) -> &PlanCounts {
        self.plans.counts()
    }

    /// What the operator has chosen of plans.
    pub fn plan_settings(&self) -> PlanSettings {
        self.plans.settings()
    }

    /// What servers that are up told last of their loads, as far as it makes sense. A cachelet is told of
    /// at most once: by the server that has it by the newest map.
    pub fn server_loads(&self, now: Instant) -> Vec<ServerLoad> {
        self.loads.of_servers(now, &self.members, &self.draft)
    }

    /// The loads of all servers that are up, to be shown; of workers and cachelets at most this many each.
    pub fn cluster_loads(&self, now: Instant, order: LoadOrder, most: usize) -> ClusterLoadsView {
        let loads = &self.loads;
        loads.view(now, (order, most), &self.members, &self.draft)
    }

    /// How the loads of workers and cachelets went.
    pub fn heat(&self, now: Instant, wanted: WantedHeat) -> HeatView {
        HeatView::of(&self.history, now, wanted)
    }

    /// Changes of settings since the process started, oldest first, at most
    /// [`SETTINGS_EVENTS_MAX`](limits::SETTINGS_EVENTS_MAX).
    pub fn settings_events(&self) -> &Recent<SettingsEvent, { limits::SETTINGS_EVENTS_MAX }> {
        &self.settings_events
    }

    /// Counts of what servers told of their loads.
    pub fn load_news_counts(&self) -> LoadNewsCounts {
        self.loads.counts()
    }

    /// The hot keys of all servers that are up, and what their replicas do to the loads.
    pub fn cluster_hot_keys(&self) -> ClusterHotKeysView {
        self.hot_keys.view(self.settings.hot_keys, &self.members)
    }

    /// What was done about hot keys lately.
    pub fn hot_key_events(&self) -> &Recent<ClusterEventView, { limits::HOT_EVENTS_MAX }> {
        self.hot_keys.events()
    }

    /// Counts of these.
    pub fn hot_key_event_counts(&self) -> HotKeyEventCounts {
        self.hot_keys.counts()
    }
}
