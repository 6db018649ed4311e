//! The calls about proxies: what they are, and removing the name of one that is gone.

use axum::extract::rejection::PathRejection;
use axum::extract::{Json, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::answer::{Shared, error, respond, unsaved};
use crate::shared_core::Unsaved;
use evenkeel_coordinator_core::RemoveProxyRefusal;

pub(crate) async fn list(State(shared): Shared) -> Response {
    respond(shared.look(|core, now| core.proxies(now.monotonic)).await)
}

pub(crate) async fn remove(
    State(shared): Shared,
    name: Result<Path<String>, PathRejection>,
) -> Response {
    let Ok(Path(name)) = name else {
        let text = "the path should name a proxy";
        return error(StatusCode::BAD_REQUEST, "bad_name", text.to_owned());
    };
    let removed = shared.decide(|core, now| core.remove_proxy(now, &name));
    match removed.await {
        Ok(Ok(view)) => Json(view).into_response(),
        Ok(Err(refusal)) => {
            let (status, reason) = match refusal {
                RemoveProxyRefusal::UnknownProxy { .. } => (StatusCode::NOT_FOUND, "unknown_proxy"),
                RemoveProxyRefusal::StillHeard { .. } => (StatusCode::CONFLICT, "still_heard"),
            };
            error(status, reason, refusal.to_string())
        }
        Err(Unsaved) => unsaved(),
    }
}
