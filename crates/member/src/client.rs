//! The coordinator's API for programs that look on: blocking, one call at a time.

use std::time::Duration;

use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, Epoch};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::access::Access;
use crate::endpoint::{BadEndpoint, Endpoint};
use crate::line::{CallError, Line, REQUEST_TIMEOUT};
use crate::member::REDIRECTS_MAX;
use evenkeel_coordinator_core::EventsBody;
use evenkeel_coordinator_core::plans::{Plan, PlanSettings, PlansExplained, PlansView};
use evenkeel_coordinator_core::scale::ScaleSettings;
use evenkeel_coordinator_core::{
    BeginRequest, BundleSwitchRequest, BundleView, BundlesView, ChangeEvent, ChangeEventsBody,
    ChangeView, ChangesView, ClusterLoadsView, DrainRequest, DrainView, DrainsView,
    ForgottenPoolView, HeatView, LoadOrder, MapEvent, MigrationRequest, MigrationView,
    MigrationsView, ProxiesView, ReleasedView, RemovedProxyView, RemovedView, RingMoveRequest,
    RingServerRequest, RingSettingsRequest, RingView, RingsView, ScaleEvent, ScaleEventsBody,
    ScaleTryView, ScaleView, ScalesView, ServerView, ServersView, Settings, Snapshot,
};

/// A client of one coordinator. Every call takes at most a second.
#[derive(Debug)]
pub struct ApiClient {
    endpoint: Endpoint,
    access: Access,
    line: Line,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Nobody answered in time. May work later.
    #[error("coordinator {endpoint} cannot be reached: {cause}")]
    Unreachable {
        /// Who was asked.
        endpoint: String,
        /// What went wrong.
        cause: String,
    },
    /// The coordinator answered with an error.
    #[error("coordinator {endpoint} refuses: {message} ({reason})")]
    Refused {
        /// Who was asked.
        endpoint: String,
        /// HTTP status.
        status: u16,
        /// One of the API's words.
        reason: String,
        /// One line for people.
        message: String,
    },
    /// The answer makes no sense: it is no coordinator, or one of another version.
    #[error("coordinator {endpoint} gave an answer that makes no sense: {cause}")]
    BadAnswer {
        /// Who was asked.
        endpoint: String,
        /// What is wrong with it.
        cause: String,
    },
}

/// Why a call has no result, or nothing.
pub type ClientResult<T> = Result<T, ClientError>;

/// Whether a coordinator can be at an address. Whether it can be spoken to depends on what a program shows, too.
///
/// # Errors
///
/// The text is no address.
pub fn check_address(text: &str) -> Result<(), BadEndpoint> {
    Endpoint::parse(text).map(|_| ())
}

/// The autoscaling of a pool.
fn scale_path(pool: &str) -> String {
    format!(
        "/api/v1/scale/{}",
        utf8_percent_encode(pool, NON_ALPHANUMERIC)
    )
}

/// What is asked of a pool that is led: of its change, its ring or its copies.
fn pool_path(of: &str, pool: &str, what: &str) -> String {
    let pool = utf8_percent_encode(pool, NON_ALPHANUMERIC);
    format!("/api/v1/{of}/{pool}/{what}")
}

impl ApiClient {
    /// A client of the coordinator at `host:port` or `http://host:port` that asks for no token. Does not connect yet.
    ///
    /// # Errors
    ///
    /// The text is no address.
    pub fn new(address: &str) -> Result<Self, BadEndpoint> {
        ApiClient::with_access(address, &Access::default())
    }

    /// A client that is let in by this. Does not connect yet.
    ///
    /// # Errors
    ///
    /// The text is no address, or its scheme does not go with the certificates.
    pub fn with_access(address: &str, access: &Access) -> Result<Self, BadEndpoint> {
        Ok(ApiClient {
            endpoint: access.endpoint(address)?,
            access: access.clone(),
            line: Line::new(access, REQUEST_TIMEOUT),
        })
    }

    /// The same client, but for calls that take at most this long where a second is usual.
    pub fn with_timeout(mut self, limit: Duration) -> Self {
        self.line = Line::new(&self.access, limit);
        self
    }

    /// Whether a map has been made and saved. An error says why not.
    ///
    /// # Errors
    ///
    /// It cannot be reached, or has no map yet (`no_map`).
    pub fn ready(&self) -> ClientResult<()> {
        // The map is there exactly when /readyz says so, and its absence has the same words.
        self.get::<ClusterMap>("/api/v1/map").map(|_| ())
    }

    /// Whether there is a map, and so many servers that all know their places in it: a proxy that asks earlier
    /// finds servers that turn it away, and leaves them alone for a while. False also when nobody answers.
    pub fn all_work_by_the_map(&self, servers: usize) -> bool {
        self.servers().is_ok_and(|view| {
            let placed = |server: &ServerView| server.up && server.epoch == view.epoch;
            view.epoch > Epoch(0)
                && view.servers.len() == servers
                && view.servers.iter().all(placed)
        })
    }

    /// The newest map.
    ///
    /// # Errors
    ///
    /// It cannot be reached, or has no map yet (`no_map`).
    pub fn map(&self) -> ClientResult<ClusterMap> {
        self.get("/api/v1/map")
    }

    /// All servers that are known.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn servers(&self) -> ClientResult<ServersView> {
        self.get("/api/v1/servers")
    }

    /// The loads of servers, workers and cachelets; of the last two at most this many each.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn cachelets(&self, order: LoadOrder, most: usize) -> ClientResult<ClusterLoadsView> {
        let sort = match order {
            LoadOrder::Place => "place",
            LoadOrder::Load => "load",
        };
        self.get(&format!("/api/v1/cachelets?sort={sort}&limit={most}"))
    }

    /// The loads of the last seconds, a column each, at most this many.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn heat(&self, columns: usize) -> ClientResult<HeatView> {
        self.get(&format!("/api/v1/heat?columns={columns}"))
    }

    /// Everything that a person looks at, of this moment.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn snapshot(&self) -> ClientResult<Snapshot> {
        self.get("/api/v1/snapshot")
    }

    /// All proxies that are members.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn proxies(&self) -> ClientResult<ProxiesView> {
        self.get("/api/v1/proxies")
    }

    /// Forgets a proxy whose process has ended; tells which pools it followed.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save that, knows no such proxy (`unknown_proxy`), or heard it a moment ago
    /// (`still_heard`).
    pub fn remove_proxy(&self, name: &str) -> ClientResult<RemovedProxyView> {
        let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
        self.post(&format!("/api/v1/proxies/{name}/remove"), &())
    }

    /// The changes of all pools that proxies follow.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn changes(&self) -> ClientResult<ChangesView> {
        self.get("/api/v1/changes")
    }

    /// The last events of these, oldest first.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn change_events(&self) -> ClientResult<Vec<ChangeEvent>> {
        Ok(self
            .get::<ChangeEventsBody>("/api/v1/changes/events")?
            .events)
    }

    /// Lets the change of a pool go on; returns it as it is then, which is before anybody has followed.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save the wish, knows no such pool (`unknown_pool`), or cannot go there: see
    /// [`ChangeRefusal`](evenkeel_coordinator_core::ChangeRefusal).
    pub fn begin_change(&self, pool: &str, request: &BeginRequest) -> ClientResult<ChangeView> {
        self.post(&pool_path("changes", pool, "begin"), request)
    }

    /// Takes the change of a pool back; returns it as it is then.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save the wish, knows no such pool (`unknown_pool`), or there is no way back
    /// (`past_return`, `unconfirmed`).
    pub fn withdraw_change(&self, pool: &str) -> ClientResult<ChangeView> {
        self.post(&pool_path("changes", pool, "withdraw"), &())
    }

    /// Forgets the change of a pool that nobody follows any more.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save that, knows no such pool (`unknown_pool`), or somebody follows it
    /// (`still_followed`).
    pub fn forget_change(&self, pool: &str) -> ClientResult<ForgottenPoolView> {
        self.post(&pool_path("changes", pool, "forget"), &())
    }

    /// The rings of all pools whose hash space follows the load.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn rings(&self) -> ClientResult<RingsView> {
        self.get("/api/v1/rings")
    }

    /// Lets parts of a pool's ring change hands; returns it as it is then, which is before anybody has followed. To take it back,
    /// [withdraw](Self::withdraw_change) the pool's change.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save the order, knows no such pool (`unknown_pool`), or cannot move so: see
    /// [`ChangeRefusal`](evenkeel_coordinator_core::ChangeRefusal).
    pub fn begin_ring_move(&self, pool: &str, request: &RingMoveRequest) -> ClientResult<RingView> {
        self.post(&pool_path("rings", pool, "moves"), request)
    }

    /// Lets a server of a pool's ring come or go; returns it as it is then, which is before anybody has followed.
    ///
    /// # Errors
    ///
    /// As of [`begin_ring_move`](Self::begin_ring_move).
    pub fn begin_ring_server(
        &self,
        pool: &str,
        request: &RingServerRequest,
    ) -> ClientResult<RingView> {
        self.post(&pool_path("rings", pool, "servers"), request)
    }

    /// Changes how a pool's ring follows its load; returns it as it is then.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save that, knows no such pool (`unknown_pool`), or a setting is out of its range.
    pub fn set_ring(&self, pool: &str, request: &RingSettingsRequest) -> ClientResult<RingView> {
        let (path, body) = (pool_path("rings", pool, "settings"), self.body(request)?);
        self.call(|endpoint| self.line.put(endpoint, &path, &body))
    }

    /// How the numbers of servers of rings follow what is measured.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn scales(&self) -> ClientResult<ScalesView> {
        self.get("/api/v1/scale")
    }

    /// What was decided about numbers of servers lately, oldest first.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn scale_events(&self) -> ClientResult<Vec<ScaleEvent>> {
        let body: ScaleEventsBody = self.get("/api/v1/scale/events")?;
        Ok(body.events)
    }

    /// Changes how the number of servers of a pool's ring follows what is measured; returns how it stands then.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save that, knows no such pool (`unknown_pool`) or no ring of it (`no_ring`), or a setting is out of its
    /// range.
    pub fn set_scale(&self, pool: &str, settings: &ScaleSettings) -> ClientResult<ScaleView> {
        let (path, body) = (scale_path(pool), self.body(settings)?);
        self.call(|endpoint| self.line.put(endpoint, &path, &body))
    }

    /// What would be decided of a pool at this moment by settings that are not set.
    ///
    /// # Errors
    ///
    /// As of [`set_scale`](Self::set_scale).
    pub fn try_scale(&self, pool: &str, settings: &ScaleSettings) -> ClientResult<ScaleTryView> {
        self.post(&pool_path("scale", pool, "try"), settings)
    }

    /// Lets autoscaling do what it asks for; returns how it stands then.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save that, or nothing waits for approval (`nothing_to_approve`).
    pub fn approve_scale(&self, pool: &str) -> ClientResult<ScaleView> {
        self.post(&pool_path("scale", pool, "approve"), &())
    }

    /// The pools that keep copies.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn bundles(&self) -> ClientResult<BundlesView> {
        self.get("/api/v1/bundles")
    }

    /// Switches copies of a pool on; returns them as they are then, which is before anybody has followed.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save the order, knows no such pool (`unknown_pool`), or cannot go there: see
    /// [`ChangeRefusal`](evenkeel_coordinator_core::ChangeRefusal).
    pub fn switch_bundle_on(
        &self,
        pool: &str,
        request: &BundleSwitchRequest,
    ) -> ClientResult<BundleView> {
        self.post(&pool_path("bundles", pool, "on"), request)
    }

    /// Likewise off.
    ///
    /// # Errors
    ///
    /// As of [`switch_bundle_on`](Self::switch_bundle_on).
    pub fn switch_bundle_off(
        &self,
        pool: &str,
        request: &BundleSwitchRequest,
    ) -> ClientResult<BundleView> {
        self.post(&pool_path("bundles", pool, "off"), request)
    }

    /// The last map changes, oldest first.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn events(&self) -> ClientResult<Vec<MapEvent>> {
        Ok(self.get::<EventsBody>("/api/v1/events")?.events)
    }

    /// The operator's choices.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn settings(&self) -> ClientResult<Settings> {
        self.get("/api/v1/settings")
    }

    /// Changes some of the operator's choices, by name; returns what holds from now on. Members learn it with their
    /// next heartbeats.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save the change, or a choice cannot be made (`bad_settings`).
    pub fn change_settings(&self, change: &serde_json::Value) -> ClientResult<Settings> {
        let body = self.body(change)?;
        self.call(|endpoint| self.line.put(endpoint, "/api/v1/settings", &body))
    }

    /// Begins or ends the drain of a server; returns how far it has come.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save the wish, knows no such server (`unknown_server`), or nobody else
    /// could take the cachelets (`nobody_else`).
    pub fn drain(&self, request: &DrainRequest) -> ClientResult<DrainView> {
        self.post("/api/v1/drain", request)
    }

    /// How far all drains have come.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn drains(&self) -> ClientResult<DrainsView> {
        self.get("/api/v1/drains")
    }

    /// How far the drain of a server has come; nothing where it is not drained.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn drain_of(&self, server: &str) -> ClientResult<Option<DrainView>> {
        let drains = self.drains()?.drains;
        Ok(drains.into_iter().find(|drain| drain.server == server))
    }

    /// Forgets a server whose process has ended; tells how many cachelets go from it to others.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save that, knows no such server (`unknown_server`), or the server is up
    /// (`still_up`), or nobody could take its cachelets (`nobody_else`).
    pub fn remove_server(&self, name: &str) -> ClientResult<RemovedView> {
        let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
        let path = format!("/api/v1/servers/{name}");
        self.call(|endpoint| self.line.delete(endpoint, &path))
    }

    /// Cachelets that move between servers, and the last that did.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn migrations(&self) -> ClientResult<MigrationsView> {
        self.get("/api/v1/migrations")
    }

    /// Orders that a cachelet move to another server.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save the order, or the cachelet cannot move there.
    pub fn begin_migration(&self, request: &MigrationRequest) -> ClientResult<MigrationView> {
        self.post("/api/v1/migrations", request)
    }

    /// Lets a quarantined cachelet have an owner again.
    ///
    /// # Errors
    /// See [`ClientError`]; among others it is not quarantined (`not_quarantined`).
    pub fn release_cachelet(&self, cachelet: CacheletId) -> ClientResult<ReleasedView> {
        self.post(&format!("/api/v1/cachelets/{cachelet}/release"), &())
    }

    /// Wishes that a migration be given up; its source says whether that comes in time.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save the wish, or the cachelet is not moving (`not_moving`).
    pub fn cancel_migration(&self, cachelet: CacheletId) -> ClientResult<MigrationsView> {
        let path = format!("/api/v1/migrations/{cachelet}");
        self.call(|endpoint| self.line.delete(endpoint, &path))
    }

    /// What the coordinator thinks of the loads, and its newest plans, at most this many.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn plans(&self, most: usize) -> ClientResult<PlansView> {
        self.get(&format!("/api/v1/plans?limit={most}"))
    }

    /// What the coordinator thinks of the loads, and why nothing moves, if nothing does.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn explain_plans(&self) -> ClientResult<PlansExplained> {
        self.get("/api/v1/plans/explain")
    }

    /// A plan with its moves.
    ///
    /// # Errors
    ///
    /// It cannot be reached, or has no such plan (`unknown_plan`).
    pub fn plan(&self, id: u64) -> ClientResult<Plan> {
        self.get(&format!("/api/v1/plans/{id}"))
    }

    /// Lets a plan be executed; returns it as it is then.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save the wish, has no such plan, or it is not proposed (`wrong_state`).
    pub fn approve_plan(&self, id: u64) -> ClientResult<Plan> {
        self.post(&format!("/api/v1/plans/{id}/approve"), &())
    }

    /// Gives a plan up; returns it as it is then.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save the wish, has no such plan, or it is over (`wrong_state`).
    pub fn cancel_plan(&self, id: u64) -> ClientResult<Plan> {
        self.post(&format!("/api/v1/plans/{id}/cancel"), &())
    }

    /// What the operator has chosen about plans.
    ///
    /// # Errors
    ///
    /// It cannot be reached.
    pub fn plan_settings(&self) -> ClientResult<PlanSettings> {
        self.get("/api/v1/plan-settings")
    }

    /// Changes that; returns what holds from now on.
    ///
    /// # Errors
    ///
    /// It cannot be reached or cannot save the change, or a value is out of range (`bad_settings`).
    pub fn put_plan_settings(&self, settings: PlanSettings) -> ClientResult<PlanSettings> {
        let body = self.body(&settings)?;
        self.call(|endpoint| self.line.put(endpoint, "/api/v1/plan-settings", &body))
    }

    fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> ClientResult<T> {
        self.call(|endpoint| self.line.get(endpoint, path))
    }

    fn post<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        said: &impl serde::Serialize,
    ) -> ClientResult<T> {
        let body = self.body(said)?;
        self.call(|endpoint| self.line.post(endpoint, path, &body))
    }

    fn body(&self, said: &impl serde::Serialize) -> ClientResult<Vec<u8>> {
        serde_json::to_vec(said)
            .map_err(|error| self.error(CallError::BadAnswer(error.to_string())))
    }

    /// Asks the coordinator, or the leader that it names.
    fn call<T>(&self, ask: impl Fn(&Endpoint) -> Result<T, CallError>) -> ClientResult<T> {
        let mut answer = ask(&self.endpoint);
        for _ in 0..REDIRECTS_MAX {
            let leader = match &answer {
                Err(CallError::Refused { leader, .. }) => leader.as_deref(),
                _ => None,
            };
            let Some(leader) = leader.and_then(|leader| self.endpoint.leader(leader)) else {
                break;
            };
            answer = ask(&leader);
        }
        answer.map_err(|error| self.error(error))
    }

    fn error(&self, error: CallError) -> ClientError {
        let endpoint = self.endpoint.to_string();
        match error {
            CallError::Unreachable(cause) => ClientError::Unreachable { endpoint, cause },
            untrusted @ CallError::Untrusted(_) => ClientError::Unreachable {
                endpoint,
                cause: untrusted.to_string(),
            },
            CallError::BadAnswer(cause) => ClientError::BadAnswer { endpoint, cause },
            CallError::Refused {
                status,
                reason,
                message,
                leader: _,
            } => ClientError::Refused {
                endpoint,
                status,
                reason,
                message,
            },
        }
    }
}
