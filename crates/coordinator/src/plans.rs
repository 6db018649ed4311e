//! The calls about plans, by which load is evened out between servers.

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Json, Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use evenkeel_types::Now;
use serde::Deserialize;

use crate::answer::{Shared, bad_body, bad_query, error, respond, unsaved};
use crate::shared_core::Unsaved;
use evenkeel_coordinator_core::CoordinatorCore;
use evenkeel_coordinator_core::plans::{Plan, PlanRefusal, PlanSettings};

/// How many plans are shown where nobody says.
const SHOWN_PLANS: usize = 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    limit: Option<usize>,
}

pub(crate) async fn list(
    State(shared): Shared,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let most = match wanted {
        Ok(Query(wanted)) => wanted.limit.unwrap_or(SHOWN_PLANS),
        Err(rejection) => return bad_query(&rejection),
    };
    respond(shared.look(|core, _| core.plans(most)).await)
}

pub(crate) async fn explain(State(shared): Shared) -> Response {
    respond(
        shared
            .look(|core, now| core.explain_plans(now.monotonic))
            .await,
    )
}

pub(crate) async fn show(State(shared): Shared, id: Result<Path<u64>, PathRejection>) -> Response {
    let id = match id {
        Ok(Path(id)) => id,
        Err(rejection) => return bad_id(&rejection),
    };
    match shared.look(|core, _| core.plan(id).cloned()).await {
        Ok(plan) => answer(plan),
        Err(Unsaved) => unsaved(),
    }
}

pub(crate) async fn approve(
    State(shared): Shared,
    id: Result<Path<u64>, PathRejection>,
) -> Response {
    change(shared, id, CoordinatorCore::approve_plan).await
}

pub(crate) async fn cancel(
    State(shared): Shared,
    id: Result<Path<u64>, PathRejection>,
) -> Response {
    change(shared, id, CoordinatorCore::cancel_plan).await
}

/// Answers with the plan as it is then.
async fn change(
    shared: std::sync::Arc<crate::shared_core::SharedCore>,
    id: Result<Path<u64>, PathRejection>,
    change: impl FnOnce(&mut CoordinatorCore, Now, u64) -> Result<(), PlanRefusal>,
) -> Response {
    let id = match id {
        Ok(Path(id)) => id,
        Err(rejection) => return bad_id(&rejection),
    };
    let changed = shared.decide(|core, now| {
        change(core, now, id)?;
        core.plan(id).cloned()
    });
    match changed.await {
        Ok(plan) => answer(plan),
        Err(Unsaved) => unsaved(),
    }
}

pub(crate) async fn settings(State(shared): Shared) -> Response {
    respond(shared.look(|core, _| core.plan_settings()).await)
}

/// What is not said gets its default.
pub(crate) async fn put_settings(
    State(shared): Shared,
    body: Result<Json<PlanSettings>, JsonRejection>,
) -> Response {
    let settings = match body {
        Ok(Json(settings)) => settings,
        Err(rejection) => return bad_body(&shared, &rejection),
    };
    match shared
        .decide(|core, _| core.set_plan_settings(settings))
        .await
    {
        Ok(Ok(())) => Json(settings).into_response(),
        Ok(Err(refusal)) => refused(&refusal),
        Err(Unsaved) => unsaved(),
    }
}

fn answer(plan: Result<Plan, PlanRefusal>) -> Response {
    match plan {
        Ok(plan) => Json(plan).into_response(),
        Err(refusal) => refused(&refusal),
    }
}

fn bad_id(rejection: &PathRejection) -> Response {
    error(StatusCode::BAD_REQUEST, "bad_plan", rejection.body_text())
}

fn refused(refusal: &PlanRefusal) -> Response {
    let (status, reason) = match refusal {
        PlanRefusal::Unknown { .. } => (StatusCode::NOT_FOUND, "unknown_plan"),
        PlanRefusal::WrongState { .. } => (StatusCode::CONFLICT, "wrong_state"),
        PlanRefusal::BadSettings { .. } => (StatusCode::BAD_REQUEST, "bad_settings"),
    };
    error(status, reason, refusal.to_string())
}
