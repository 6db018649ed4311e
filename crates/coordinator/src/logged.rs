//! What has happened to a cluster, as lines of the log: servers and proxies that come and go, hot keys, plans, changes of pools,
//! autoscaling and settings.

use evenkeel_control::hot_keys::EventView;
use evenkeel_coordinator_core::plans::{PlanState, PlanSummary};
use evenkeel_coordinator_core::{
    Cause, ChangeEvent, ChangeNews, ClusterEventView, CoordinatorCore, MapEvent, ScaleEvent,
};
use serde_json::Value;
use tracing::{debug, info, warn};

/// How much of what a core has seen was logged.
#[derive(Debug, Default)]
pub(crate) struct Logged {
    map: u64,
    changes: u64,
    scale: u64,
    settings: u64,
    hot_keys: u64,
    /// The newest plan, and how far it had come.
    plan: Option<(u64, PlanState)>,
}

impl Logged {
    /// Logs what is new.
    pub(crate) fn catch_up(&mut self, core: &CoordinatorCore) {
        let (map, changes, scale) = (core.events(), core.change_events(), core.scale_events());
        map.since(self.map).for_each(of_map);
        changes.since(self.changes).for_each(of_change);
        scale.since(self.scale).for_each(of_scale);
        let settings = core.settings_events();
        for event in settings.since(self.settings) {
            let (from, to) = (plain(&event.from), plain(&event.to));
            info!(setting = event.name, from, to, "a setting was changed");
        }
        let hot_keys = core.hot_key_events();
        hot_keys.since(self.hot_keys).for_each(of_hot_key);
        self.map = map.total();
        self.changes = changes.total();
        self.scale = scale.total();
        self.settings = settings.total();
        self.hot_keys = hot_keys.total();
        if let Some(plan) = core.plans(1).plans.first()
            && self.plan != Some((plan.id, plan.state))
        {
            self.plan = Some((plan.id, plan.state));
            of_plan(plan);
        }
    }
}

/// A value as people write it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn of_map(event: &MapEvent) {
    let MapEvent {
        epoch,
        cause,
        cachelets,
        ..
    } = event;
    let servers = event.servers.join(",");
    let what = cause.as_str().replace('_', " ");
    match cause {
        Cause::MapTakenOver => info!(
            servers,
            %epoch,
            "the map was taken over from servers; settings have their defaults, but for lease_ms and hot_keys_consistency"
        ),
        Cause::ServerSilent
        | Cause::ServerRestarted
        | Cause::ServerFenced
        | Cause::CacheletsQuarantined
        | Cause::MigrationsAborted
        | Cause::MigrationsLost => warn!(servers, cachelets, %epoch, "{what}"),
        Cause::MapCreated
        | Cause::ServerJoined
        | Cause::ServerLeft
        | Cause::ServerReturned
        | Cause::ServerForgotten
        | Cause::DrainBegun
        | Cause::DrainEnded
        | Cause::CacheletsMigrated
        | Cause::QuarantineEnded
        | Cause::SettingsChanged => info!(servers, cachelets, %epoch, "{what}"),
        // Each is told by what it leads to.
        Cause::CacheletsReleased
        | Cause::CacheletsGranted
        | Cause::MigrationsBegun
        | Cause::MigrationsCancelled
        | Cause::MigrationsDoubted => debug!(servers, cachelets, %epoch, "{what}"),
    }
}

fn of_change(event: &ChangeEvent) {
    let ChangeEvent { pool, step, .. } = event;
    let (stage, version) = (step.stage, step.version);
    let proxies = event.proxies.join(",");
    let what = event.what.as_str().replace('_', " ");
    match event.what {
        ChangeNews::WithdrawnUnacknowledged
        | ChangeNews::ServerLost
        | ChangeNews::NewcomerUnreached => {
            warn!(pool, %stage, version, plan = event.plan, proxies, "{what}");
        }
        _ => info!(pool, %stage, version, plan = event.plan, proxies, "{what}"),
    }
}

fn of_scale(event: &ScaleEvent) {
    let (pool, phase, why) = (&event.pool, event.phase.name(), &event.why);
    info!(pool, %phase, why, "autoscaling");
}

fn of_hot_key(event: &ClusterEventView) {
    let EventView {
        key,
        deed,
        cause,
        gamma,
        key_rps,
        key_share,
        worker,
        ..
    } = &event.event;
    let deed = deed.replace('_', " ");
    let server = &event.server;
    info!(
        key,
        server,
        worker,
        replicas = gamma,
        key_rps,
        key_share,
        cause,
        "hot key {deed}"
    );
}

fn of_plan(plan: &PlanSummary) {
    let PlanSummary {
        id,
        state,
        moves,
        moved,
        note,
        ..
    } = plan;
    // The busiest worker's load by the mean.
    let [before, predicted] =
        [&plan.before, &plan.predicted].map(|spread| spread.load_max / spread.load_mean.max(1.0));
    info!(
        plan = id,
        moves, moved, before, predicted, note, "plan {state}"
    );
}
