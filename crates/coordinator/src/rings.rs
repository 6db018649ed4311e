//! The calls about rings of pools whose hash space follows the load.

use axum::extract::rejection::JsonRejection;
use axum::extract::{Json, State};
use axum::response::Response;

use crate::answer::{Shared, respond};
use crate::changes::{PoolName, order};
use evenkeel_coordinator_core::{
    CoordinatorCore, RingMoveRequest, RingServerRequest, RingSettingsRequest,
};

pub(crate) async fn list(State(shared): Shared) -> Response {
    respond(shared.look(|core, now| core.rings(now.monotonic)).await)
}

pub(crate) async fn begin_move(
    State(shared): Shared,
    pool: PoolName,
    body: Result<Json<RingMoveRequest>, JsonRejection>,
) -> Response {
    order(shared, pool, body, CoordinatorCore::begin_ring_move).await
}

pub(crate) async fn begin_server(
    State(shared): Shared,
    pool: PoolName,
    body: Result<Json<RingServerRequest>, JsonRejection>,
) -> Response {
    order(shared, pool, body, CoordinatorCore::begin_ring_server).await
}

pub(crate) async fn set(
    State(shared): Shared,
    pool: PoolName,
    body: Result<Json<RingSettingsRequest>, JsonRejection>,
) -> Response {
    order(shared, pool, body, CoordinatorCore::set_ring).await
}
