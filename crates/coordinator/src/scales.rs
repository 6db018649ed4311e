//! The calls about autoscaling: how the numbers of servers of rings and of the cluster follow what is measured.

use axum::extract::rejection::JsonRejection;
use axum::extract::{Json, Path, State};
use axum::response::Response;

use crate::answer::{Shared, respond};
use crate::changes::{PoolName, answer, bad_name, order};
use evenkeel_coordinator_core::scale::ScaleSettings;
use evenkeel_coordinator_core::{CoordinatorCore, ScaleEventsBody};

pub(crate) async fn list(State(shared): Shared) -> Response {
    respond(shared.look(|core, now| core.scales(now.monotonic)).await)
}

pub(crate) async fn events(State(shared): Shared) -> Response {
    let events = |core: &CoordinatorCore, _| ScaleEventsBody {
        events: core.scale_events().iter().cloned().collect(),
    };
    respond(shared.look(events).await)
}

/// What is not said gets its default.
pub(crate) async fn set(
    State(shared): Shared,
    pool: PoolName,
    body: Result<Json<ScaleSettings>, JsonRejection>,
) -> Response {
    order(shared, pool, body, CoordinatorCore::set_scale).await
}

/// The same of settings that are only tried.
pub(crate) async fn try_settings(
    State(shared): Shared,
    pool: PoolName,
    body: Result<Json<ScaleSettings>, JsonRejection>,
) -> Response {
    order(shared, pool, body, |core, now, pool, settings| {
        core.try_scale(now, pool, settings)
    })
    .await
}

pub(crate) async fn approve(State(shared): Shared, pool: PoolName) -> Response {
    let Ok(Path(pool)) = pool else {
        return bad_name();
    };
    answer(
        shared
            .decide(|core, now| core.approve_scale(now, &pool))
            .await,
    )
}
