//! The calls about rings of pools whose hash space follows the load.

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Json, Path, State};
use axum::response::Response;

use crate::answer::{Shared, bad_body, told};
use crate::changes::{answer, bad_name};
use evenkeel_coordinator_core::{RingMoveRequest, RingSettingsRequest};

pub(crate) async fn list(State(desk): Shared) -> Response {
    told(desk.look(|core, now| core.rings(now.monotonic)).await)
}

pub(crate) async fn begin_move(
    State(desk): Shared,
    pool: Result<Path<String>, PathRejection>,
    body: Result<Json<RingMoveRequest>, JsonRejection>,
) -> Response {
    let Ok(Path(pool)) = pool else {
        return bad_name();
    };
    let request = match body {
        Ok(Json(request)) => request,
        Err(rejection) => return bad_body(&desk, &rejection),
    };
    let begun = desk.decide(|core, now| core.begin_ring_move(now, &pool, &request));
    answer(begun.await)
}

pub(crate) async fn set(
    State(desk): Shared,
    pool: Result<Path<String>, PathRejection>,
    body: Result<Json<RingSettingsRequest>, JsonRejection>,
) -> Response {
    let Ok(Path(pool)) = pool else {
        return bad_name();
    };
    let request = match body {
        Ok(Json(request)) => request,
        Err(rejection) => return bad_body(&desk, &rejection),
    };
    let set = desk.decide(|core, now| core.set_ring(now, &pool, &request));
    answer(set.await)
}
