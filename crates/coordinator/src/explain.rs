//! Where a key lives.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Json, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use evenkeel_coordinator_core::KeyExplained;
use evenkeel_types::is_key;
use evenkeel_types::limits::KEY_LEN_MAX;
use serde::Deserialize;

use crate::answer::{Shared, bad_query, error, unsaved};
use crate::shared_core::Unsaved;

/// A key, by its bytes in UTF-8.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainQuery {
    key: String,
}

pub(crate) async fn key(
    State(shared): Shared,
    asked: Result<Query<ExplainQuery>, QueryRejection>,
) -> Response {
    let key = match asked {
        Ok(Query(ExplainQuery { key })) => key,
        Err(rejection) => return bad_query(&rejection),
    };
    if !is_key(key.as_bytes()) {
        let what = format!(
            "a key has 1 to {KEY_LEN_MAX} bytes, and neither spaces nor control characters"
        );
        return error(StatusCode::BAD_REQUEST, "bad_key", what);
    }
    let explained =
        shared.look(move |core, now| KeyExplained::of(core, now.monotonic, key.as_bytes()));
    match explained.await {
        Ok(Some(explained)) => Json(explained).into_response(),
        Ok(None) => {
            let message = "there is no map yet, so that no key has a place".to_owned();
            error(StatusCode::NOT_FOUND, "no_map", message)
        }
        Err(Unsaved) => unsaved(),
    }
}
