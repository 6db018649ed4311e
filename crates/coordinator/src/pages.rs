//! No web page may change a cluster: an operator's browser reaches coordinators that strangers do not.
//!
//! A page of any site can make a browser send requests of *simple* content types, without a body too, anywhere. So whatever
//! changes something has to be sent as `application/json`, for which a browser asks first and is refused. A page whose name was made
//! to point here (DNS rebinding) needs not ask; but browsers tell with each request that changes something which page
//! it comes from, in `Origin`. No program that speaks to a coordinator sends that.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::desk::{BadRequest, Desk};
use crate::http::error;

/// What a request that changes something has to be sent as.
pub(crate) const JSON: &str = "application/json";

/// Lets only those requests on that no web page can have made.
pub(crate) async fn keep_out(
    State(desk): State<Arc<Desk>>,
    request: Request,
    next: Next,
) -> Response {
    let refuse = |status, why: BadRequest, message: &str| {
        desk.count(why);
        error(status, why.as_str(), message.to_owned())
    };
    if request.headers().contains_key(header::ORIGIN) {
        let message =
            "a web page has made this request (it has an Origin header): those are not taken";
        return refuse(StatusCode::FORBIDDEN, BadRequest::FromPage, message);
    }
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    if changes && !is_json(request.headers()) {
        let message = "send it with the header content-type: application/json, without a body too";
        return refuse(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            BadRequest::NotJson,
            message,
        );
    }
    next.run(request).await
}

/// Whether the content type is JSON, whatever parameters stand behind it.
fn is_json(headers: &HeaderMap) -> bool {
    let said = headers.get(header::CONTENT_TYPE);
    let said = said.and_then(|said| said.to_str().ok()).unwrap_or_default();
    let essence = said.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(JSON)
}
