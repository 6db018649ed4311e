//! The calls that split cachelets, merge them, and release them from quarantine.

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Json, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use evenkeel_types::CacheletId;
use serde::Serialize;

use crate::api::{MergeRequest, PiecesRefusal, ReleaseRefusal};
use crate::desk::Unsaved;
use crate::http::{Shared, bad_body, error, unsaved};

pub(crate) async fn split(
    State(desk): Shared,
    cachelet: Result<Path<CacheletId>, PathRejection>,
) -> Response {
    let Ok(Path(cachelet)) = cachelet else {
        return bad_cachelet();
    };
    answer(
        desk.decide(|core, now| core.split_cachelet(now, cachelet))
            .await,
    )
}

pub(crate) async fn merge(
    State(desk): Shared,
    cachelet: Result<Path<CacheletId>, PathRejection>,
    body: Result<Json<MergeRequest>, JsonRejection>,
) -> Response {
    let Ok(Path(cachelet)) = cachelet else {
        return bad_cachelet();
    };
    let MergeRequest { with } = match body {
        Ok(Json(request)) => request,
        Err(rejection) => return bad_body(&desk, &rejection),
    };
    let merged = desk.decide(|core, now| core.merge_cachelets(now, [cachelet, with]));
    answer(merged.await)
}

pub(crate) async fn release(
    State(desk): Shared,
    cachelet: Result<Path<CacheletId>, PathRejection>,
) -> Response {
    let Ok(Path(cachelet)) = cachelet else {
        return bad_cachelet();
    };
    let released = desk.decide(|core, now| core.release_cachelet(now, cachelet));
    match released.await {
        Ok(Ok(view)) => Json(view).into_response(),
        Ok(Err(refusal)) => {
            let (status, reason) = match refusal {
                ReleaseRefusal::UnknownCachelet { .. } => {
                    (StatusCode::NOT_FOUND, "unknown_cachelet")
                }
                ReleaseRefusal::NotQuarantined { .. } => (StatusCode::CONFLICT, "not_quarantined"),
            };
            error(status, reason, refusal.to_string())
        }
        Err(Unsaved) => unsaved(),
    }
}

fn answer<T: Serialize>(done: Result<Result<T, PiecesRefusal>, Unsaved>) -> Response {
    match done {
        Ok(Ok(view)) => Json(view).into_response(),
        Ok(Err(refusal)) => refused(&refusal),
        Err(Unsaved) => unsaved(),
    }
}

fn bad_cachelet() -> Response {
    let text = "the path should name a cachelet by its number";
    error(StatusCode::BAD_REQUEST, "bad_cachelet", text.to_owned())
}

fn refused(refusal: &PiecesRefusal) -> Response {
    let (status, reason) = match refusal {
        PiecesRefusal::UnknownCachelet { .. } => (StatusCode::NOT_FOUND, "unknown_cachelet"),
        PiecesRefusal::ChangingHands { .. } => (StatusCode::CONFLICT, "changing_hands"),
        PiecesRefusal::Unable { .. } => (StatusCode::CONFLICT, "server_unable"),
        PiecesRefusal::Indivisible { .. } => (StatusCode::CONFLICT, "indivisible"),
        PiecesRefusal::NotOfOneWorker { .. } => (StatusCode::CONFLICT, "not_of_one_worker"),
        PiecesRefusal::TooMany => (StatusCode::SERVICE_UNAVAILABLE, "too_many_cachelets"),
    };
    error(status, reason, refusal.to_string())
}
