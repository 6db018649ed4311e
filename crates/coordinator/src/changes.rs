//! The calls about changes of pools, which pass from former servers to their own in steps.

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Json, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::sync::Arc;

use crate::answer::{Shared, bad_body, error, respond, unsaved};
use crate::shared_core::{SharedCore, Unsaved};
use evenkeel_coordinator_core::{BeginRequest, ChangeEventsBody, ChangeRefusal, CoordinatorCore};
use evenkeel_types::Now;

pub(crate) async fn list(State(shared): Shared) -> Response {
    respond(shared.look(|core, now| core.changes(now.monotonic)).await)
}

pub(crate) async fn events(State(shared): Shared) -> Response {
    let events = |core: &CoordinatorCore, _| ChangeEventsBody {
        events: core.change_events().iter().cloned().collect(),
    };
    respond(shared.look(events).await)
}

pub(crate) async fn begin(
    State(shared): Shared,
    pool: Result<Path<String>, PathRejection>,
    body: Result<Json<BeginRequest>, JsonRejection>,
) -> Response {
    let Ok(Path(pool)) = pool else {
        return bad_name();
    };
    let request = match body {
        Ok(Json(request)) => request,
        Err(rejection) => return bad_body(&shared, &rejection),
    };
    let begun = shared.decide(|core, now| core.begin_change(now, &pool, &request));
    answer(begun.await)
}

pub(crate) async fn withdraw(
    State(shared): Shared,
    pool: Result<Path<String>, PathRejection>,
) -> Response {
    let Ok(Path(pool)) = pool else {
        return bad_name();
    };
    answer(
        shared
            .decide(|core, now| core.withdraw_change(now, &pool))
            .await,
    )
}

pub(crate) async fn forget(
    State(shared): Shared,
    pool: Result<Path<String>, PathRejection>,
) -> Response {
    let Ok(Path(pool)) = pool else {
        return bad_name();
    };
    answer(
        shared
            .decide(|core, now| core.forget_change(now, &pool))
            .await,
    )
}

/// The pool that a path names.
pub(crate) type PoolName = Result<Path<String>, PathRejection>;

/// Executes what an operator orders of a pool's plans.
pub(crate) async fn order<T, V: Serialize>(
    shared: Arc<SharedCore>,
    pool: PoolName,
    body: Result<Json<T>, JsonRejection>,
    apply: impl FnOnce(&mut CoordinatorCore, Now, &str, &T) -> Result<V, ChangeRefusal>,
) -> Response {
    let Ok(Path(pool)) = pool else {
        return bad_name();
    };
    let request = match body {
        Ok(Json(request)) => request,
        Err(rejection) => return bad_body(&shared, &rejection),
    };
    answer(
        shared
            .decide(|core, now| apply(core, now, &pool, &request))
            .await,
    )
}

pub(crate) fn bad_name() -> Response {
    let text = "the path should name a pool";
    error(StatusCode::BAD_REQUEST, "bad_name", text.to_owned())
}

pub(crate) fn answer<T: Serialize>(done: Result<Result<T, ChangeRefusal>, Unsaved>) -> Response {
    match done {
        Ok(Ok(view)) => Json(view).into_response(),
        Ok(Err(refusal)) => refused(&refusal),
        Err(Unsaved) => unsaved(),
    }
}

fn refused(refusal: &ChangeRefusal) -> Response {
    let (status, reason) = match refusal {
        ChangeRefusal::UnknownPool { .. } => (StatusCode::NOT_FOUND, "unknown_pool"),
        ChangeRefusal::BadGoal { .. } => (StatusCode::BAD_REQUEST, "bad_goal"),
        ChangeRefusal::BadWarming => (StatusCode::BAD_REQUEST, "bad_warming"),
        ChangeRefusal::NoProxies => (StatusCode::BAD_REQUEST, "no_proxies"),
        ChangeRefusal::Reached { .. } => (StatusCode::CONFLICT, "reached"),
        ChangeRefusal::OtherCount { .. } => (StatusCode::CONFLICT, "other_count"),
        ChangeRefusal::PastReturn { .. } => (StatusCode::CONFLICT, "past_return"),
        ChangeRefusal::Unconfirmed { .. } => (StatusCode::CONFLICT, "unconfirmed"),
        ChangeRefusal::HasRing { .. } => (StatusCode::CONFLICT, "has_ring"),
        ChangeRefusal::NoRing { .. } => (StatusCode::CONFLICT, "no_ring"),
        ChangeRefusal::PlanUnderWay { .. } => (StatusCode::CONFLICT, "plan_under_way"),
        ChangeRefusal::Stranger { .. } => (StatusCode::CONFLICT, "stranger"),
        ChangeRefusal::BadSettings { .. } => (StatusCode::BAD_REQUEST, "bad_settings"),
        ChangeRefusal::BadMoves { .. } => (StatusCode::BAD_REQUEST, "bad_moves"),
        ChangeRefusal::HasBundle { .. } => (StatusCode::CONFLICT, "has_bundle"),
        ChangeRefusal::NoBundle { .. } => (StatusCode::CONFLICT, "no_bundle"),
        ChangeRefusal::Switched { .. } => (StatusCode::CONFLICT, "switched"),
        ChangeRefusal::SwitchingOff { .. } => (StatusCode::CONFLICT, "switching_off"),
        ChangeRefusal::Behind { .. } => (StatusCode::CONFLICT, "behind"),
        ChangeRefusal::OtherWishes { .. } => (StatusCode::CONFLICT, "other_wishes"),
        ChangeRefusal::NothingToApprove { .. } => (StatusCode::CONFLICT, "nothing_to_approve"),
        ChangeRefusal::StillFollowed { .. } => (StatusCode::CONFLICT, "still_followed"),
    };
    error(status, reason, refusal.to_string())
}
