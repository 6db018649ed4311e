//! The calls about cachelets that move between servers.

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Json, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use evenkeel_types::CacheletId;

use crate::answer::{Shared, bad_body, error, respond, unsaved};
use crate::shared_core::Unsaved;
use evenkeel_coordinator_core::{MigrationRefusal, MigrationRequest};

pub(crate) async fn list(State(shared): Shared) -> Response {
    respond(
        shared
            .look(|core, now| core.migrations(now.monotonic))
            .await,
    )
}

pub(crate) async fn begin(
    State(shared): Shared,
    body: Result<Json<MigrationRequest>, JsonRejection>,
) -> Response {
    let request = match body {
        Ok(Json(request)) => request,
        Err(rejection) => return bad_body(&shared, &rejection),
    };
    let begun = shared
        .decide(|core, now| core.handle_migration(now, &request))
        .await;
    match begun {
        Ok(Ok(view)) => Json(view).into_response(),
        Ok(Err(refusal)) => refused(&refusal),
        Err(Unsaved) => unsaved(),
    }
}

/// Answers with all migrations: the one that was cancelled is among them until its source has agreed.
pub(crate) async fn cancel(
    State(shared): Shared,
    cachelet: Result<Path<CacheletId>, PathRejection>,
) -> Response {
    let cachelet = match cachelet {
        Ok(Path(cachelet)) => cachelet,
        Err(rejection) => {
            return error(
                StatusCode::BAD_REQUEST,
                "bad_cachelet",
                rejection.body_text(),
            );
        }
    };
    let cancelled = shared.decide(|core, now| {
        core.cancel_migration(now, cachelet)?;
        Ok(core.migrations(now.monotonic))
    });
    match cancelled.await {
        Ok(Ok(view)) => Json(view).into_response(),
        Ok(Err(refusal)) => refused(&refusal),
        Err(Unsaved) => unsaved(),
    }
}

fn refused(refusal: &MigrationRefusal) -> Response {
    let (status, reason) = match refusal {
        MigrationRefusal::UnknownCachelet { .. } => (StatusCode::NOT_FOUND, "unknown_cachelet"),
        MigrationRefusal::UnknownWorker { .. } => (StatusCode::NOT_FOUND, "unknown_worker"),
        MigrationRefusal::NotMoving { .. } => (StatusCode::NOT_FOUND, "not_moving"),
        MigrationRefusal::NobodyOwns { .. } => (StatusCode::CONFLICT, "nobody_owns"),
        MigrationRefusal::JustPlaced { .. } => (StatusCode::CONFLICT, "just_placed"),
        MigrationRefusal::Moving { .. } => (StatusCode::CONFLICT, "moving"),
        MigrationRefusal::SameServer { .. } => (StatusCode::CONFLICT, "same_server"),
        MigrationRefusal::Down { .. } => (StatusCode::CONFLICT, "server_down"),
        MigrationRefusal::Drained { .. } => (StatusCode::CONFLICT, "server_drained"),
        MigrationRefusal::TooMany => (StatusCode::SERVICE_UNAVAILABLE, "too_many_migrations"),
    };
    error(status, reason, refusal.to_string())
}
