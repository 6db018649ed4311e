//! The web page: files of `web/dist`, which are part of this program. They hold no secret and ask for nothing from elsewhere.

use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::get;
use std::sync::Arc;

use crate::shared_core::SharedCore;

/// Everything comes from here, and nobody may show the page within his own, where a click on its buttons would be another's.
const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Path, content type and bytes of each file.
const FILES: [(&str, &str, &[u8]); 4] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_bytes!("../../../web/dist/index.html"),
    ),
    (
        "/page.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../../../web/dist/page.js"),
    ),
    (
        "/page.css",
        "text/css; charset=utf-8",
        include_bytes!("../../../web/dist/page.css"),
    ),
    (
        "/icon.svg",
        "image/svg+xml",
        include_bytes!("../../../web/dist/icon.svg"),
    ),
];

/// The page's paths.
pub(crate) fn routes(router: Router<Arc<SharedCore>>) -> Router<Arc<SharedCore>> {
    let route = |router: Router<Arc<SharedCore>>,
                 (path, kind, bytes): (&str, &'static str, &'static [u8])| {
        let answer = move || async move { (headers(kind), bytes).into_response() };
        router.route(path, get(answer))
    };
    FILES.into_iter().fold(router, route)
}

fn headers(kind: &'static str) -> [(HeaderName, HeaderValue); 5] {
    [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // Another version may answer next time.
        (header::CACHE_CONTROL, "no-cache"),
    ]
    .map(|(name, value)| (name, HeaderValue::from_static(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_control::access::AccessLevel;

    #[test]
    fn the_page_is_small_and_needs_no_token_to_be_loaded() {
        let bytes: usize = FILES.iter().map(|(_, _, bytes)| bytes.len()).sum();
        assert!(bytes < 300_000, "{bytes}");
        for (path, ..) in FILES {
            assert_eq!(
                AccessLevel::needed("GET", path),
                AccessLevel::Anybody,
                "{path}"
            );
        }
        let index = std::str::from_utf8(FILES[0].2).unwrap();
        for (path, ..) in &FILES[1..] {
            assert!(index.contains(&format!("\"{path}\"")), "{path}");
        }
    }
}
