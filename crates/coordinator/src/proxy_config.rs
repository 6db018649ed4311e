//! The calls that are about configurations of proxies: texts, not JSON, so that `curl` and an editor will do.
//!
//! A text is judged before it is kept, on a thread of its own and one at a time: members' heartbeats do not
//! wait for it. Who waits for another configuration is answered when there is one, after it was saved.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::rejection::{BytesRejection, JsonRejection, QueryRejection};
use axum::extract::{Json, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::api::ProxyConfigEntry;
use crate::api::proxy_config::{
    Expected, PROXY_CONFIG_NAME, ProxyConfigRefusal, ProxyConfigReport, ProxyConfigText,
};
use crate::desk::{BadRequest, Unsaved};
use crate::http::{Shared, bad_body, error, error_with, unsaved};

/// Header of an answer with the [lineage](crate::api::CoordinatorCore::lineage) that its revision belongs to.
pub(crate) const LINEAGE_HEADER: &str = "evenkeel-lineage";

/// Most problems of a text that are told.
pub(crate) const PROBLEMS_MAX: usize = 20;

/// Says what is wrong with the text of a configuration of proxies.
pub type ProxyConfigCheck = fn(&str) -> Result<(), Vec<ConfigProblem>>;

/// Something that is wrong in a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigProblem {
    /// Line, from 1.
    pub line: usize,
    /// Character of the line, from 1.
    pub column: usize,
    /// What is wrong, and what is allowed.
    pub message: String,
}

/// Judges texts, one at a time.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    check: ProxyConfigCheck,
    turn: Arc<Semaphore>,
}

impl Judge {
    pub(crate) fn new(check: ProxyConfigCheck) -> Self {
        Judge {
            check,
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    async fn judge(self, text: Arc<str>) -> Result<(), Vec<ConfigProblem>> {
        let turn = self.turn.acquire_owned().await;
        let check = self.check;
        let judged = tokio::task::spawn_blocking(move || {
            let found = check(&text);
            // Held to the end also when nobody waits for it any longer.
            drop(turn);
            found
        });
        // A judge that panics has found nothing usable.
        judged.await.unwrap_or_else(|_| {
            let message = "it could not be judged".to_owned();
            let (line, column) = (1, 1);
            Err(vec![ConfigProblem {
                line,
                column,
                message,
            }])
        })
    }
}

/// Which configuration, and whether it is only to be judged.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    #[serde(default = "unnamed")]
    name: String,
    #[serde(default)]
    dry_run: bool,
}

fn unnamed() -> String {
    PROXY_CONFIG_NAME.to_owned()
}

type WhichResult = Result<Query<Which>, QueryRejection>;

/// `GET /api/v1/proxy-configs`.
pub(crate) async fn list(State(desk): Shared) -> Response {
    match desk.decide(|core, _| core.proxy_configs()).await {
        Ok(configs) => Json(configs).into_response(),
        Err(Unsaved) => unsaved(),
    }
}

/// `GET /api/v1/proxy-config`.
pub(crate) async fn show(State(desk): Shared, which: WhichResult) -> Response {
    let Query(which) = match which {
        Ok(which) => which,
        Err(rejection) => return bad_query(&rejection),
    };
    let kept = desk
        .decide(|core, _| (core.proxy_config(&which.name).cloned(), core.lineage()))
        .await;
    match kept {
        Ok((Some(ProxyConfigText { revision, text }), lineage)) => {
            let headers = [
                (header::CONTENT_TYPE, "application/toml".to_owned()),
                (header::ETAG, format!("\"{revision}\"")),
            ];
            // Many may read it at once: they share the one copy.
            let body = Body::from(Bytes::from_owner(SharedText(text)));
            let mut response = (headers, body).into_response();
            response
                .headers_mut()
                .insert(LINEAGE_HEADER, lineage.into());
            response
        }
        Ok((None, _)) => refused(&ProxyConfigRefusal::Missing),
        Err(Unsaved) => unsaved(),
    }
}

/// `PUT /api/v1/proxy-config`.
pub(crate) async fn put(
    judge: Judge,
    State(desk): Shared,
    which: WhichResult,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let Query(Which { name, dry_run }) = match which {
        Ok(which) => which,
        Err(rejection) => return bad_query(&rejection),
    };
    let expected = match expected(&headers) {
        Ok(expected) => expected,
        Err(message) => return error(StatusCode::BAD_REQUEST, "bad_condition", message),
    };
    let body = match body {
        Ok(body) => body,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            desk.count(BadRequest::TooLong);
            return refused(&ProxyConfigRefusal::TooLong);
        }
        Err(rejection) => {
            return error(rejection.status(), "bad_body", rejection.body_text());
        }
    };
    // Before the work of judging it.
    match desk
        .decide(|core, _| core.may_put_proxy_config(&name, body.len(), expected))
        .await
    {
        Ok(Ok(())) => {}
        Ok(Err(refusal)) => return refused(&refusal),
        Err(Unsaved) => return unsaved(),
    }
    let text: Arc<str> = match std::str::from_utf8(&body) {
        Ok(text) => text.into(),
        Err(error) => {
            let before = &body[..error.valid_up_to()];
            desk.count_unusable_config();
            return unusable(vec![ConfigProblem {
                line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
                column: 1,
                message: "there is something in this line that is no UTF-8".to_owned(),
            }]);
        }
    };
    if let Err(problems) = judge.judge(Arc::clone(&text)).await {
        desk.count_unusable_config();
        return unusable(problems);
    }
    let put = desk
        .decide(|core, _| match dry_run {
            true => Ok(core.proxy_config(&name).map_or(0, |kept| kept.revision)),
            false => core.put_proxy_config(&name, &text, expected),
        })
        .await;
    match put {
        Ok(Ok(revision)) => {
            if !dry_run {
                desk.tell_proxy_config();
            }
            let bytes = text.len();
            changed(ProxyConfigEntry {
                name,
                revision,
                bytes,
            })
        }
        Ok(Err(refusal)) => refused(&refusal),
        Err(Unsaved) => unsaved(),
    }
}

/// `DELETE /api/v1/proxy-config`.
pub(crate) async fn remove(
    State(desk): Shared,
    which: WhichResult,
    headers: HeaderMap,
) -> Response {
    let Query(Which { name, .. }) = match which {
        Ok(which) => which,
        Err(rejection) => return bad_query(&rejection),
    };
    let expected = match expected(&headers) {
        Ok(expected) => expected,
        Err(message) => return error(StatusCode::BAD_REQUEST, "bad_condition", message),
    };
    match desk
        .decide(|core, _| core.remove_proxy_config(&name, expected))
        .await
    {
        Ok(Ok(())) => changed(ProxyConfigEntry {
            name,
            revision: 0,
            bytes: 0,
        }),
        Ok(Err(refusal)) => refused(&refusal),
        Err(Unsaved) => unsaved(),
    }
}

/// `POST /api/v1/proxy-config/follow`: answered when there is something that the proxy has not seen, or
/// after its wait.
pub(crate) async fn follow(
    State(desk): Shared,
    body: Result<Json<ProxyConfigReport>, JsonRejection>,
) -> Response {
    let mut report = match body {
        Ok(Json(report)) => report,
        Err(rejection) => return bad_body(&desk, &rejection),
    };
    let mut news = desk.proxy_config_news();
    let mut until = None;
    loop {
        // Whatever comes between this and the wait is seen.
        news.mark_unchanged();
        let heard = desk
            .decide(|core, now| core.handle_proxy_config_report(now.monotonic, &report))
            .await;
        let (answer, wait) = match heard {
            Ok(Ok(heard)) => heard,
            Ok(Err(refusal)) => return refused(&refusal),
            Err(Unsaved) => return unsaved(),
        };
        if wait.is_zero() {
            return Json(answer).into_response();
        }
        let until = *until.get_or_insert_with(|| Instant::now() + wait);
        match tokio::time::timeout_at(until, news.changed()).await {
            Ok(Ok(())) => {
                let left = until.saturating_duration_since(Instant::now());
                report.wait_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            }
            Ok(Err(_)) | Err(_) => return Json(answer).into_response(),
        }
    }
}

/// A text that several answers share.
struct SharedText(Arc<str>);

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// What `If-Match` and `If-None-Match` ask for.
fn expected(headers: &HeaderMap) -> Result<Expected, String> {
    let given = |name| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    match (given(header::IF_MATCH), given(header::IF_NONE_MATCH)) {
        (None, None) => Ok(Expected::Anything),
        (None, Some("*")) => Ok(Expected::Nothing),
        (Some(tag), None) => tag
            .trim_matches('"')
            .parse()
            .map(Expected::Revision)
            .map_err(|_| "If-Match: give the revision as an ETag, such as \"17\"".to_owned()),
        _ => Err("give If-Match with a revision, If-None-Match: *, or neither".to_owned()),
    }
}

fn changed(entry: ProxyConfigEntry) -> Response {
    let tag = [(header::ETAG, format!("\"{}\"", entry.revision))];
    (tag, Json(entry)).into_response()
}

fn unusable(mut problems: Vec<ConfigProblem>) -> Response {
    let count = problems.len();
    problems.truncate(PROBLEMS_MAX);
    for problem in &mut problems {
        problem.message = crate::endpoint::shortened(&problem.message);
    }
    let mut message = problems.first().map_or_else(String::new, |problem| {
        let ConfigProblem {
            line,
            column,
            message,
        } = problem;
        format!("{line}:{column}: {message}")
    });
    if count > 1 {
        message += &format!(" (and {} more)", count - 1);
    }
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    error_with(status, "bad_proxy_config", message, problems)
}

fn refused(refusal: &ProxyConfigRefusal) -> Response {
    use ProxyConfigRefusal as R;
    let (status, reason) = match refusal {
        R::BadName => (StatusCode::BAD_REQUEST, "bad_name"),
        R::BadReport(_) => (StatusCode::BAD_REQUEST, "bad_report"),
        R::TooLong => (StatusCode::PAYLOAD_TOO_LARGE, "too_long"),
        R::Missing => (StatusCode::NOT_FOUND, "no_proxy_config"),
        R::Changed { .. } => (StatusCode::PRECONDITION_FAILED, "changed"),
        R::TooMany => (StatusCode::SERVICE_UNAVAILABLE, "too_many_proxy_configs"),
        R::TooManyProxies => (StatusCode::SERVICE_UNAVAILABLE, "too_many_proxies"),
    };
    error(status, reason, refusal.to_string())
}

pub(crate) fn bad_query(rejection: &QueryRejection) -> Response {
    let message = crate::endpoint::shortened(&rejection.body_text());
    error(StatusCode::BAD_REQUEST, "bad_query", message)
}
