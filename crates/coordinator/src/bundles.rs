//! The calls about copies of pools' items.

use axum::extract::rejection::JsonRejection;
use axum::extract::{Json, State};
use axum::response::Response;

use crate::answer::{Shared, respond};
use crate::changes::{PoolName, order};
use evenkeel_coordinator_core::{BundleSwitchRequest, CoordinatorCore};

pub(crate) async fn list(State(shared): Shared) -> Response {
    respond(shared.look(|core, now| core.bundles(now.monotonic)).await)
}

pub(crate) async fn switch_on(
    State(shared): Shared,
    pool: PoolName,
    body: Result<Json<BundleSwitchRequest>, JsonRejection>,
) -> Response {
    order(shared, pool, body, CoordinatorCore::switch_bundle_on).await
}

pub(crate) async fn switch_off(
    State(shared): Shared,
    pool: PoolName,
    body: Result<Json<BundleSwitchRequest>, JsonRejection>,
) -> Response {
    order(shared, pool, body, CoordinatorCore::switch_bundle_off).await
}
