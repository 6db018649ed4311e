//! The coordinator's [web page](COORDINATOR_PAGE).

use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::get;
use evenkeel_control::page::{COORDINATOR_PAGE, HEADERS, PageFile};
use std::sync::Arc;

use crate::shared_core::SharedCore;

/// The page's paths.
pub(crate) fn routes(router: Router<Arc<SharedCore>>) -> Router<Arc<SharedCore>> {
    let route = |router: Router<Arc<SharedCore>>, file: PageFile| {
        let answer = move || async move { (headers(file.kind), file.text).into_response() };
        router.route(file.path, get(answer))
    };
    COORDINATOR_PAGE.into_iter().fold(router, route)
}

fn headers(kind: &'static str) -> [(HeaderName, HeaderValue); 1 + HEADERS.len()] {
    let [policy, sniffing, referrer, cache] = HEADERS.map(|(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    });
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static(kind));
    [kind, policy, sniffing, referrer, cache]
}
