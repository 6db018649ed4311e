//! The calls about rings of pools whose hash space follows the load.

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Json, Path, State};
use axum::response::Response;
use std::sync::Arc;

use crate::answer::{Shared, bad_body, told};
use crate::changes::{answer, bad_name};
use crate::desk::Desk;
use evenkeel_coordinator_core::{
    ChangeRefusal, CoordinatorCore, RingMoveRequest, RingServerRequest, RingSettingsRequest,
    RingView,
};
use evenkeel_types::Now;

pub(crate) async fn list(State(desk): Shared) -> Response {
    told(desk.look(|core, now| core.rings(now.monotonic)).await)
}

pub(crate) async fn plan(State(desk): Shared, pool: PoolName) -> Response {
    let Ok(Path(pool)) = pool else {
        return bad_name();
    };
    answer(desk.look(|core, _| core.ring_plan(&pool)).await)
}

pub(crate) async fn begin_move(
    State(desk): Shared,
    pool: PoolName,
    body: Result<Json<RingMoveRequest>, JsonRejection>,
) -> Response {
    order(desk, pool, body, CoordinatorCore::begin_ring_move).await
}

pub(crate) async fn begin_server(
    State(desk): Shared,
    pool: PoolName,
    body: Result<Json<RingServerRequest>, JsonRejection>,
) -> Response {
    order(desk, pool, body, CoordinatorCore::begin_ring_server).await
}

pub(crate) async fn set(
    State(desk): Shared,
    pool: PoolName,
    body: Result<Json<RingSettingsRequest>, JsonRejection>,
) -> Response {
    order(desk, pool, body, CoordinatorCore::set_ring).await
}

type PoolName = Result<Path<String>, PathRejection>;

/// Carries out what an operator orders of a pool's ring.
async fn order<T>(
    desk: Arc<Desk>,
    pool: PoolName,
    body: Result<Json<T>, JsonRejection>,
    carry_out: impl FnOnce(&mut CoordinatorCore, Now, &str, &T) -> Result<RingView, ChangeRefusal>,
) -> Response {
    let Ok(Path(pool)) = pool else {
        return bad_name();
    };
    let request = match body {
        Ok(Json(request)) => request,
        Err(rejection) => return bad_body(&desk, &rejection),
    };
    answer(
        desk.decide(|core, now| carry_out(core, now, &pool, &request))
            .await,
    )
}
