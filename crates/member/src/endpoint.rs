//! Speaking HTTP to a coordinator from a program that blocks.

use std::time::Duration;

use serde::de::DeserializeOwned;
use ureq::tls::TlsConfig;

use crate::access::Line;
use evenkeel_control::http::JSON;
use evenkeel_control::http::{ErrorBody, ErrorDetail, shortened};
use evenkeel_control::limits::ANSWER_LEN_MAX;

/// Longest wait for one answer, connecting included. A third of the default silence, so that one
/// lost answer is never fatal.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Connections idle for longer are not used again; the coordinator closes them after twice that.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// A coordinator's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `http://host:port` or `https://host:port`, no slash at the end.
    base: String,
}

/// An address that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEndpoint {
    /// It is none.
    #[error(
        "{0:?} is no address of a coordinator; it should look like host:port, http://host:port or https://host:port"
    )]
    NoAddress(String),
    /// `https://`, and nothing is said of whom to trust.
    #[error("{0}: give --coordinator-ca FILE, the certificates by which coordinators are known")]
    NoAuthority(String),
    /// Not `https://`, and it is said whom to trust.
    #[error("{0}: --coordinator-ca is for addresses that begin with https://")]
    Plain(String),
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// Nobody answered, or not in time. May work later.
    #[error("{0}")]
    Unreachable(String),
    /// One of both ends does not trust the other. Works once certificates are right.
    #[error("TLS failed: {0}")]
    Untrusted(String),
    /// The coordinator said no.
    #[error("{message} ({reason}, HTTP {status})")]
    Refused {
        status: u16,
        reason: String,
        message: String,
        /// Who can help instead, if the coordinator says so.
        leader: Option<String>,
    },
    /// The answer makes no sense.
    #[error("the answer makes no sense: {0}")]
    BadAnswer(String),
}

impl Endpoint {
    /// Reads `host:port`, `http://host:port` or `https://host:port`.
    ///
    /// # Errors
    /// [`BadEndpoint::NoAddress`].
    pub fn parse(text: &str) -> Result<Self, BadEndpoint> {
        let bad = || BadEndpoint::NoAddress(text.to_owned());
        let (scheme, authority) = match text.strip_prefix("https://") {
            Some(authority) => ("https", authority),
            None => ("http", text.strip_prefix("http://").unwrap_or(text)),
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let base = format!("{scheme}://{authority}");
        let uri: ureq::http::Uri = base.parse().map_err(|_| bad())?;
        let plain = uri.path() == "/" && uri.query().is_none() && !authority.contains('@');
        match (uri.host(), uri.port_u16()) {
            (Some(host), Some(port)) if plain && !host.is_empty() && port != 0 => {
                Ok(Endpoint { base })
            }
            _ => Err(bad()),
        }
    }

    /// Whether it is spoken to over TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.base.starts_with("https://")
    }

    /// The coordinator that this one names as the leader: where no scheme is said it is spoken to alike, and never
    /// in plain text when this one is not.
    pub(crate) fn leader(&self, address: &str) -> Option<Endpoint> {
        let address = match address.contains("://") {
            false if self.is_secure() => format!("https://{address}"),
            _ => address.to_owned(),
        };
        let leader = Endpoint::parse(&address).ok();
        leader.filter(|leader| leader.is_secure() == self.is_secure())
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, line: &Line, path: &str) -> Result<T, CallError> {
        let url = format!("{}{path}", self.base);
        line.call(|means| read(means.show(means.agent.get(&url)).call()))
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        line: &Line,
        path: &str,
        body: &[u8],
    ) -> Result<T, CallError> {
        let url = format!("{}{path}", self.base);
        line.call(|means| {
            let request = means.show(means.agent.post(&url));
            read(request.content_type(JSON).send(body))
        })
    }

    pub(crate) fn put<T: DeserializeOwned>(
        &self,
        line: &Line,
        path: &str,
        body: &[u8],
    ) -> Result<T, CallError> {
        let url = format!("{}{path}", self.base);
        line.call(|means| {
            let request = means.show(means.agent.put(&url));
            read(request.content_type(JSON).send(body))
        })
    }

    pub(crate) fn delete<T: DeserializeOwned>(
        &self,
        line: &Line,
        path: &str,
    ) -> Result<T, CallError> {
        let url = format!("{}{path}", self.base);
        line.call(|means| {
            let request = means.show(means.agent.delete(&url));
            read(request.header("content-type", JSON).call())
        })
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.base)
    }
}

/// An agent that never waits for longer, follows nobody elsewhere, and goes straight to its peer whatever the
/// environment says about proxies.
pub(crate) fn agent(patience: Duration, tls: Option<TlsConfig>) -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(patience))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .max_idle_age(IDLE_MAX)
        .user_agent(concat!("evenkeel/", env!("CARGO_PKG_VERSION")));
    match tls {
        Some(tls) => config.tls_config(tls),
        None => config,
    }
    .build()
    .new_agent()
}

/// Why there is no answer.
fn unanswered(error: &ureq::Error) -> CallError {
    let is_tls = match error {
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) => true,
        ureq::Error::Io(error) => {
            let inner = error.get_ref();
            inner.is_some_and(|inner| inner.is::<rustls::Error>())
        }
        _ => false,
    };
    match error {
        _ if is_tls => CallError::Untrusted(shortened(&error.to_string())),
        // Where TLS is spoken, a plain question is answered by bytes that are no HTTP.
        ureq::Error::Protocol(_) => CallError::BadAnswer(format!(
            "{}; if it speaks TLS, give its address with https://",
            shortened(&error.to_string())
        )),
        _ => CallError::Unreachable(error.to_string()),
    }
}

fn read<T: DeserializeOwned>(
    response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<T, CallError> {
    let mut response = response.map_err(|error| unanswered(&error))?;
    let status = response.status();
    let mut body = response
        .body_mut()
        .with_config()
        .limit(ANSWER_LEN_MAX as u64);
    if status.is_success() {
        let bytes = body.read_to_vec().map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(limit) => {
                CallError::BadAnswer(format!("it is longer than {limit} bytes"))
            }
            error => CallError::Unreachable(error.to_string()),
        })?;
        return serde_json::from_slice(&bytes)
            .map_err(|error| CallError::BadAnswer(shortened(&error.to_string())));
    }
    body = body.lossy_utf8(true);
    let text = body.read_to_string().unwrap_or_default();
    let error = match serde_json::from_str::<ErrorBody>(&text) {
        Ok(ErrorBody { error }) => error,
        Err(_) => ErrorDetail {
            reason: format!("http_{}", status.as_u16()),
            message: text,
            leader: None,
        },
    };
    Err(CallError::Refused {
        status: status.as_u16(),
        reason: shortened(&error.reason),
        message: shortened(&error.message),
        leader: error.leader,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_a_scheme() {
        for (text, base) in [
            ("127.0.0.1:11210", "http://127.0.0.1:11210"),
            ("http://coordinator.local:80", "http://coordinator.local:80"),
            ("http://[::1]:7/", "http://[::1]:7"),
            (
                "https://coordinator.local:443/",
                "https://coordinator.local:443",
            ),
        ] {
            assert_eq!(Endpoint::parse(text).unwrap().to_string(), base);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_hint() {
        for text in [
            "",
            ":",
            "host",
            "host:",
            ":80",
            "host:0",
            "host:99999",
            "https://host",
            "https://http://host:1",
            "http://https://host:1",
            "ftp://h:1",
            "host:1/path",
            "host:1?x",
            "a b:1",
            "user@host:1",
            "http://",
            "host:1\r\nx: y",
        ] {
            let error = Endpoint::parse(text).unwrap_err().to_string();
            assert!(error.contains("host:port"), "{text:?}: {error}");
        }
    }

    #[test]
    fn nobody_is_sent_on_from_tls_to_plain_text() {
        let plain = Endpoint::parse("a:1").unwrap();
        let secure = Endpoint::parse("https://a:1").unwrap();
        let shown = |at: &Endpoint, leader: &str| at.leader(leader).map(|e| e.to_string());
        assert_eq!(shown(&plain, "b:2").as_deref(), Some("http://b:2"));
        assert_eq!(shown(&secure, "b:2").as_deref(), Some("https://b:2"));
        assert_eq!(
            shown(&secure, "https://b:2").as_deref(),
            Some("https://b:2")
        );
        assert_eq!(shown(&secure, "http://b:2"), None);
        assert_eq!(shown(&plain, "https://b:2"), None);
        assert_eq!(shown(&plain, "no address"), None);
    }

    #[test]
    fn errors_of_peers_are_kept_to_one_short_line() {
        let text = "x\r\n".repeat(1_000);
        let shown = shortened(&text);
        assert_eq!(
            shown.chars().count(),
            evenkeel_control::http::SHOWN_ERROR_LEN
        );
        assert!(!shown.contains(['\r', '\n']));
    }
}
