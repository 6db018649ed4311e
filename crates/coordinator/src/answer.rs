//! What every call answers alike: what was seen, and errors.
//!
//! Every error has the same shape, `{"error":{"reason":"…","message":"…"}}`: `reason` is one of a
//! fixed set of words for programs, `message` one line for people.

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::shared_core::{BadRequest, SharedCore, Unsaved};
use evenkeel_control::http::{ErrorBody, ErrorDetail, shortened};

/// What every call is given.
pub(crate) type Shared = State<Arc<SharedCore>>;

/// What was seen, as JSON.
pub(crate) fn respond<T: Serialize>(seen: Result<T, Unsaved>) -> Response {
    match seen {
        Ok(seen) => Json(seen).into_response(),
        Err(Unsaved) => unsaved(),
    }
}

pub(crate) fn bad_body(shared: &SharedCore, rejection: &JsonRejection) -> Response {
    let (status, kind) = match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => (StatusCode::PAYLOAD_TOO_LARGE, BadRequest::TooLong),
        _ => (StatusCode::BAD_REQUEST, BadRequest::BadJson),
    };
    shared.count(kind);
    error(status, kind.as_str(), rejection.body_text())
}

pub(crate) fn unsaved() -> Response {
    let message = "the state cannot be saved, so nothing new is told".to_owned();
    error(StatusCode::SERVICE_UNAVAILABLE, "unsaved", message)
}

pub(crate) fn bad_query(rejection: &QueryRejection) -> Response {
    let message = shortened(&rejection.body_text());
    error(StatusCode::BAD_REQUEST, "bad_query", message)
}

pub(crate) fn error(status: StatusCode, reason: &str, message: String) -> Response {
    let error = ErrorDetail {
        reason: reason.to_owned(),
        message,
        leader: None,
    };
    (status, Json(ErrorBody { error })).into_response()
}
