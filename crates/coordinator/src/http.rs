//! The HTTP API: paths, methods and bodies. What they mean is the core's business.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Json, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Extension, Router};
use evenkeel_control::access::Holder;
use evenkeel_runtime::process_metrics;
use evenkeel_types::Now;

use crate::answer::{Shared, bad_body, error, respond, unsaved};
use crate::bundles;
use crate::cachelets;
use crate::changes;
use crate::explain;
use crate::guard::{self, Guard};
use crate::metrics;
use crate::migrations;
use crate::pages;
use crate::plans;
use crate::proxies;
use crate::rings;
use crate::scales;
use crate::servers;
use crate::shared_core::{BadRequest, Leadership, SharedCore, Unsaved};
use crate::stream;
use crate::web;
use evenkeel_control::http::{ErrorBody, ErrorDetail, NOT_LEADER};
use evenkeel_coordinator_core::limits::{ANSWER_LEN_MAX, HEARTBEAT_LEN_MAX};
use evenkeel_coordinator_core::{
    ClusterHotKeyEvents, CoordinatorCore, EventsBody, Fault, Heartbeat, MapOffer, MemberKind,
    Refusal,
};

/// Longest time that a request may take from its headers to its answer. The core needs
/// microseconds and a save milliseconds; a slower request is one that does not send its body.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// All paths.
pub(crate) fn router(shared: Arc<SharedCore>, guard: Arc<Guard>) -> Router {
    web::routes(Router::new())
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .route("/metrics", get(show_metrics))
        .route("/api/v1/heartbeat", post(heartbeat))
        .route(
            "/api/v1/map",
            get(map)
                .post(offer_map)
                .layer(DefaultBodyLimit::max(ANSWER_LEN_MAX)),
        )
        .route("/api/v1/servers", get(servers::list))
        .route("/api/v1/servers/{name}", delete(servers::remove))
        .route("/api/v1/cachelets", get(cachelets::list))
        .route(
            "/api/v1/cachelets/{cachelet}/release",
            post(cachelets::release),
        )
        .route("/api/v1/heat", get(cachelets::heat))
        .route("/api/v1/snapshot", get(stream::snapshot))
        .route("/api/v1/stream", get(stream::snapshots))
        .route("/api/v1/explain", get(explain::key))
        .route("/api/v1/hotkeys", get(cluster_hot_keys))
        .route("/api/v1/hotkeys/events", get(hot_key_events))
        .route("/api/v1/proxies", get(proxies::list))
        .route("/api/v1/proxies/{name}/remove", post(proxies::remove))
        .route("/api/v1/changes", get(changes::list))
        .route("/api/v1/changes/events", get(changes::events))
        .route("/api/v1/changes/{pool}/begin", post(changes::begin))
        .route("/api/v1/changes/{pool}/withdraw", post(changes::withdraw))
        .route("/api/v1/changes/{pool}/forget", post(changes::forget))
        .route("/api/v1/rings", get(rings::list))
        .route("/api/v1/rings/{pool}/moves", post(rings::begin_move))
        .route("/api/v1/rings/{pool}/servers", post(rings::begin_server))
        .route("/api/v1/rings/{pool}/settings", put(rings::set))
        .route("/api/v1/scale", get(scales::list))
        .route("/api/v1/scale/events", get(scales::events))
        .route("/api/v1/scale/{pool}", put(scales::set))
        .route("/api/v1/scale/{pool}/try", post(scales::try_settings))
        .route("/api/v1/scale/{pool}/approve", post(scales::approve))
        .route("/api/v1/bundles", get(bundles::list))
        .route("/api/v1/bundles/{pool}/on", post(bundles::switch_on))
        .route("/api/v1/bundles/{pool}/off", post(bundles::switch_off))
        .route("/api/v1/events", get(events))
        .route("/api/v1/settings", get(settings).put(put_settings))
        .route("/api/v1/drain", post(servers::drain))
        .route("/api/v1/drains", get(servers::drains))
        .route(
            "/api/v1/migrations",
            get(migrations::list).post(migrations::begin),
        )
        .route("/api/v1/migrations/{cachelet}", delete(migrations::cancel))
        .route("/api/v1/plans", get(plans::list))
        .route("/api/v1/plans/explain", get(plans::explain))
        .route("/api/v1/plans/{id}", get(plans::show))
        .route("/api/v1/plans/{id}/approve", post(plans::approve))
        .route("/api/v1/plans/{id}/cancel", post(plans::cancel))
        .route(
            "/api/v1/plan-settings",
            get(plans::settings).put(plans::put_settings),
        )
        .route("/api/v1/election", get(election))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(HEARTBEAT_LEN_MAX))
        .layer(middleware::from_fn_with_state(
            (shared.clone(), Arc::clone(&guard)),
            only_leader,
        ))
        .layer(middleware::from_fn_with_state(
            (Arc::clone(&guard), shared.clone()),
            pages::keep_out,
        ))
        .layer(middleware::from_fn_with_state(
            (guard, shared.clone()),
            guard::let_in,
        ))
        .layer(middleware::from_fn_with_state(shared.clone(), bound_time))
        .with_state(shared)
}

async fn healthy() -> &'static str {
    "ok\n"
}

/// A coordinator of several is ready when calls find their way from here to the leader; the only one is ready
/// when there is a map.
async fn ready(State(shared): Shared) -> Response {
    match shared.leadership() {
        Leadership::Leads(0) => {}
        Leadership::Leads(_) | Leadership::Follows(_) => return "ok\n".into_response(),
        Leadership::Leaderless(why) => return leaderless(why),
    }
    match shared.decide(|core, _| missing_map(core)).await {
        Ok(None) => "ok\n".into_response(),
        Ok(Some(message)) => error(StatusCode::SERVICE_UNAVAILABLE, "no_map", message),
        Err(Unsaved) => unsaved(),
    }
}

/// The core's metrics come from the leader alone.
async fn show_metrics(State(shared): Shared) -> Response {
    let render =
        |core: &CoordinatorCore, now: Now| metrics::render(core, now.monotonic, &shared.tally());
    let text =
        shared.look(render).await.unwrap_or_default() + &metrics::render_doors(&shared.tally());
    let text = match shared.elector() {
        Some(elector) => text + &metrics::render_election(&elector.view()),
        None => text,
    };
    let text = text + &process_metrics("coordinator");
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

async fn election(State(shared): Shared) -> Response {
    if let Some(elector) = shared.elector() {
        return Json(elector.view()).into_response();
    }
    let message = "there is one coordinator, and no election".to_owned();
    error(StatusCode::NOT_FOUND, "no_election", message)
}

async fn heartbeat(
    State(shared): Shared,
    Extension(holder): Extension<Holder>,
    body: Result<Json<Heartbeat>, JsonRejection>,
) -> Response {
    let heartbeat = match body {
        Ok(Json(heartbeat)) => heartbeat,
        Err(rejection) => return bad_body(&shared, &rejection),
    };
    if let Err(denial) = holder.may_speak_as(heartbeat.kind, &heartbeat.name) {
        return guard::denied(&shared, denial);
    }
    match shared.handle(&heartbeat).await {
        Ok(Ok(answer)) => shared.map_text().respond(answer),
        Ok(Err(refusal)) => refused(&refusal),
        Err(Unsaved) => unsaved(),
    }
}

async fn map(State(shared): Shared) -> Response {
    let map = shared
        .decide(|core, _| core.map().cloned().ok_or_else(|| missing_map(core)))
        .await;
    match map {
        Ok(Ok(map)) => Json(map.document()).into_response(),
        Ok(Err(missing)) => error(StatusCode::NOT_FOUND, "no_map", missing.unwrap_or_default()),
        Err(Unsaved) => unsaved(),
    }
}

/// A server that was asked for its map gives it. Says nothing of what becomes of it.
async fn offer_map(
    State(shared): Shared,
    Extension(holder): Extension<Holder>,
    body: Result<Json<MapOffer>, JsonRejection>,
) -> Response {
    let offer = match body {
        Ok(Json(offer)) => offer,
        Err(rejection) => return bad_body(&shared, &rejection),
    };
    if let Err(denial) = holder.may_speak_as(MemberKind::Server, &offer.name) {
        return guard::denied(&shared, denial);
    }
    respond(
        shared
            .decide(|core, now| core.handle_map_offer(now, &offer))
            .await,
    )
}

async fn cluster_hot_keys(State(shared): Shared) -> Response {
    respond(shared.look(|core, _| core.cluster_hot_keys()).await)
}

async fn hot_key_events(State(shared): Shared) -> Response {
    let events = |core: &CoordinatorCore, _| {
        let counts = core.hot_key_event_counts();
        ClusterHotKeyEvents {
            events: core.hot_key_events().iter().cloned().collect(),
            overwritten: counts.overwritten,
            missed: counts.missed,
        }
    };
    respond(shared.look(events).await)
}

async fn events(State(shared): Shared) -> Response {
    let events = |core: &CoordinatorCore, _| EventsBody {
        events: core.events().iter().cloned().collect(),
    };
    respond(shared.look(events).await)
}

async fn settings(State(shared): Shared) -> Response {
    respond(shared.look(|core, _| core.settings()).await)
}

async fn put_settings(
    State(shared): Shared,
    body: Result<Json<serde_json::Map<String, serde_json::Value>>, JsonRejection>,
) -> Response {
    let change = match body {
        Ok(Json(change)) => change,
        Err(rejection) => return bad_body(&shared, &rejection),
    };
    match shared
        .decide(|core, now| core.change_settings(now, &change))
        .await
    {
        Ok(Ok(settings)) => Json(settings).into_response(),
        Ok(Err(refusal)) => error(StatusCode::BAD_REQUEST, "bad_settings", refusal.to_string()),
        Err(Unsaved) => unsaved(),
    }
}

async fn no_such_path(State(shared): Shared, request: Request) -> Response {
    shared.count(BadRequest::NotFound);
    let path: String = request.uri().path().chars().take(SHOWN_PATH_LEN).collect();
    let message = format!("there is nothing at {path}");
    error(
        StatusCode::NOT_FOUND,
        BadRequest::NotFound.as_str(),
        message,
    )
}

async fn no_such_method(State(shared): Shared) -> Response {
    shared.count(BadRequest::BadMethod);
    let message = "this path does not take that method".to_owned();
    error(
        StatusCode::METHOD_NOT_ALLOWED,
        BadRequest::BadMethod.as_str(),
        message,
    )
}

/// Characters of an unknown path that an error repeats.
const SHOWN_PATH_LEN: usize = 100;

/// Cuts off requests that do not come to an end.
async fn bound_time(State(shared): Shared, request: Request, next: Next) -> Response {
    match tokio::time::timeout(REQUEST_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            shared.count(BadRequest::Timeout);
            let message = "the request did not come to an end in time".to_owned();
            error(
                StatusCode::REQUEST_TIMEOUT,
                BadRequest::Timeout.as_str(),
                message,
            )
        }
    }
}

/// What a coordinator that does not lead tells all the same.
const OPEN_PATHS: [&str; 4] = ["/healthz", "/readyz", "/metrics", "/api/v1/election"];

/// Sends everybody to the leader who asks another, and lets no answer out that a leader has made who is none
/// any more.
async fn only_leader(
    State((shared, guard)): State<(Arc<SharedCore>, Arc<Guard>)>,
    request: Request,
    next: Next,
) -> Response {
    if OPEN_PATHS.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let path = request.uri().path_and_query().map(ToString::to_string);
    let path = path.as_deref().unwrap_or("/");
    let led = shared.leadership();
    let Leadership::Leads(_) = led else {
        return elsewhere(led, &guard, path);
    };
    let response = next.run(request).await;
    match shared.leadership() {
        now if now == led => response,
        Leadership::Leads(_) => leaderless("another term has begun; ask again".into()),
        now => elsewhere(now, &guard, path),
    }
}

fn elsewhere(leadership: Leadership, guard: &Guard, path: &str) -> Response {
    match leadership {
        Leadership::Follows(leader) => at_leader(leader, guard.is_secure(), path),
        Leadership::Leaderless(why) => leaderless(why),
        Leadership::Leads(_) => leaderless("a term has just begun; ask again".into()),
    }
}

/// Who can help: 307 to the same path at the leader. All coordinators of a cluster speak TLS, or none does.
fn at_leader(leader: String, is_secure: bool, path: &str) -> Response {
    let scheme = if is_secure { "https" } else { "http" };
    let location = HeaderValue::try_from(format!("{scheme}://{leader}{path}"));
    let message = format!("the coordinator at {leader} leads");
    let Ok(location) = location else {
        return not_leader(StatusCode::SERVICE_UNAVAILABLE, Some(leader), message);
    };
    let mut response = not_leader(StatusCode::TEMPORARY_REDIRECT, Some(leader), message);
    response.headers_mut().insert(header::LOCATION, location);
    response
}

/// Nobody is known to lead.
fn leaderless(why: String) -> Response {
    not_leader(StatusCode::SERVICE_UNAVAILABLE, None, why)
}

fn not_leader(status: StatusCode, leader: Option<String>, message: String) -> Response {
    let error = ErrorDetail {
        reason: NOT_LEADER.to_owned(),
        message,
        leader,
    };
    (status, Json(ErrorBody { error })).into_response()
}

/// Why there is no map yet; `None` when there is one.
fn missing_map(core: &CoordinatorCore) -> Option<String> {
    core.map().is_none().then(|| {
        let (up, wanted) = (core.servers_up(), core.config().initial_servers);
        format!("no map yet: {up} of {wanted} initial servers are up")
    })
}

fn refused(refusal: &Refusal) -> Response {
    let status = match refusal.fault() {
        Fault::Invalid => StatusCode::BAD_REQUEST,
        Fault::Conflict => StatusCode::CONFLICT,
        Fault::Full => StatusCode::SERVICE_UNAVAILABLE,
    };
    error(status, refusal.reason().as_str(), refusal.to_string())
}
