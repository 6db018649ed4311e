//! No web page but the coordinator's own may change a cluster, or read what it is: an operator's browser reaches coordinators that strangers do
//! not.
//!
//! A page of any site can make a browser send requests of *simple* content types, without a body too, anywhere. So whatever
//! changes something has to be sent as `application/json`, for which a browser asks first and is refused. A page whose name was made
//! to point here (DNS rebinding) needs not ask; but browsers tell with each request that changes something which page
//! it comes from, in `Origin`. No program that speaks to a coordinator sends that; the coordinator's own page has the name there by which it
//! was asked, which has to be an address or a name that this coordinator was given.
//!
//! What such a page only reads has no `Origin`, but the page's name as its `Host`. Where anyone who can connect may read, with neither
//! token nor certificate, that is taken from programs of Evenkeel alone, which say so in a header that no page can set, and else only
//! where the host is an address or a name that this coordinator was given. No member can be shut out by that, whatever
//! name it was told: members change things, and say what they are.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use evenkeel_control::access::AccessLevel;

use crate::answer::error;
use crate::guard::Guard;
use crate::shared_core::{BadRequest, SharedCore};
use evenkeel_control::http::{JSON, NO_PAGE, is_own_name};

/// Lets only those requests on that no foreign web page can have made.
pub(crate) async fn keep_out(
    State((guard, shared)): State<(Arc<Guard>, Arc<SharedCore>)>,
    request: Request,
    next: Next,
) -> Response {
    let refuse = |status, why: BadRequest, message: &str| {
        shared.count(why);
        error(status, why.as_str(), message.to_owned())
    };
    if !is_of_own_page(request.headers(), &guard) {
        let message = "a web page that is not this coordinator's has made this request (it has another Origin header): those are not taken; the \
                       coordinator's own page has to be asked for by an address, or by a name of --listen";
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
    let headers = request.headers();
    let needs_nothing = AccessLevel::needed(request.method().as_str(), request.uri().path())
        == AccessLevel::Anybody;
    let is_guarded = needs_nothing || guard.asks() || headers.contains_key(NO_PAGE);
    let is_own = |host: &HeaderValue| is_own_name(host.as_bytes(), guard.names());
    if !is_guarded && !changes && !headers.get_all(header::HOST).iter().all(is_own) {
        let message = "this coordinator does not know the name that it was asked by (the Host header), which a web page could have \
                       chosen: ask by its address, or by a name of --listen, or give the coordinator tokens";
        return refuse(StatusCode::FORBIDDEN, BadRequest::ForeignHost, message);
    }
    next.run(request).await
}

/// Whether no page has made a request, or the page that this coordinator shows: one that was loaded by the same name as the request, which
/// cannot be made to point here by others.
fn is_of_own_page(headers: &HeaderMap, guard: &Guard) -> bool {
    let scheme = if guard.is_secure() { "https" } else { "http" };
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
    let host = host.unwrap_or_default();
    let is_own = |origin: &HeaderValue| {
        let name = origin.as_bytes().strip_prefix(scheme.as_bytes());
        name.and_then(|name| name.strip_prefix(b"://")) == Some(host)
            && is_own_name(host, guard.names())
    };
    headers.get_all(header::ORIGIN).iter().all(is_own)
}

/// Whether the content type is JSON, whatever parameters stand behind it.
fn is_json(headers: &HeaderMap) -> bool {
    let said = headers.get(header::CONTENT_TYPE);
    let said = said.and_then(|said| said.to_str().ok()).unwrap_or_default();
    let essence = said.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(JSON)
}
