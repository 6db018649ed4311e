//! The calls about servers: what they are, emptying one, and removing the name of one that is gone.

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Json, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::answer::{Shared, bad_body, error, respond, unsaved};
use crate::shared_core::Unsaved;
use evenkeel_coordinator_core::{DrainRefusal, DrainRequest, RemoveRefusal};

pub(crate) async fn list(State(shared): Shared) -> Response {
    respond(shared.look(|core, now| core.servers(now.monotonic)).await)
}

pub(crate) async fn remove(
    State(shared): Shared,
    name: Result<Path<String>, PathRejection>,
) -> Response {
    let Ok(Path(name)) = name else {
        let text = "the path should name a server";
        return error(StatusCode::BAD_REQUEST, "bad_name", text.to_owned());
    };
    let removed = shared.decide(|core, now| core.remove_server(now, &name));
    match removed.await {
        Ok(Ok(view)) => Json(view).into_response(),
        Ok(Err(refusal)) => {
            let (status, reason) = match refusal {
                RemoveRefusal::UnknownServer { .. } => (StatusCode::NOT_FOUND, "unknown_server"),
                RemoveRefusal::StillUp { .. } => (StatusCode::CONFLICT, "still_up"),
                RemoveRefusal::NobodyElse { .. } => (StatusCode::CONFLICT, "nobody_else"),
            };
            error(status, reason, refusal.to_string())
        }
        Err(Unsaved) => unsaved(),
    }
}

pub(crate) async fn drain(
    State(shared): Shared,
    body: Result<Json<DrainRequest>, JsonRejection>,
) -> Response {
    let request = match body {
        Ok(Json(request)) => request,
        Err(rejection) => return bad_body(&shared, &rejection),
    };
    let drained = shared
        .decide(|core, now| core.handle_drain(now, &request))
        .await;
    match drained {
        Ok(Ok(view)) => Json(view).into_response(),
        Ok(Err(refusal)) => {
            let (status, reason) = match refusal {
                DrainRefusal::UnknownServer { .. } => (StatusCode::NOT_FOUND, "unknown_server"),
                DrainRefusal::NobodyElse { .. } => (StatusCode::CONFLICT, "nobody_else"),
                DrainRefusal::BadRate { .. } => (StatusCode::BAD_REQUEST, "bad_rate"),
            };
            error(status, reason, refusal.to_string())
        }
        Err(Unsaved) => unsaved(),
    }
}

pub(crate) async fn drains(State(shared): Shared) -> Response {
    respond(shared.look(|core, now| core.drains(now.monotonic)).await)
}
