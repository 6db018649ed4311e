//! Where a key lives.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Json, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
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
    if let Some(what) = is_no_key(key.as_bytes()) {
        return error(StatusCode::BAD_REQUEST, "bad_key", what);
    }
    let explained = shared.look(move |core, now| core.explain_key(now.monotonic, key.as_bytes()));
    match explained.await {
        Ok(Some(explained)) => Json(explained).into_response(),
        Ok(None) => {
            let message = "there is no map yet, so that no key has a place".to_owned();
            error(StatusCode::NOT_FOUND, "no_map", message)
        }
        Err(Unsaved) => unsaved(),
    }
}

/// What memcached's protocol has against a key.
fn is_no_key(key: &[u8]) -> Option<String> {
    let is_of_key = |byte: &u8| *byte > b' ' && *byte != 0x7f;
    match key.len() {
        0 => Some("a key has a byte at least".to_owned()),
        1..=KEY_LEN_MAX if key.iter().all(is_of_key) => None,
        1..=KEY_LEN_MAX => Some("a key has neither spaces nor control characters".to_owned()),
        len => Some(format!("a key has at most {KEY_LEN_MAX} bytes, not {len}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_key_is_said() {
        let longest = [b'k'; KEY_LEN_MAX];
        for key in [&b"k"[..], &longest, "grün".as_bytes()] {
            assert_eq!(is_no_key(key), None);
        }
        let too_long = [b'k'; KEY_LEN_MAX + 1];
        for key in [&b""[..], b"a b", b"a\n", &too_long] {
            assert!(is_no_key(key).is_some(), "{key:?}");
        }
    }
}
