//! Speaking HTTP to coordinators from a program that blocks.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use evenkeel_control::http::{ErrorBody, ErrorDetail, JSON, NO_PAGE, shortened};
use evenkeel_control::limits::ANSWER_LEN_MAX;
use serde::de::DeserializeOwned;
use ureq::http::HeaderValue;
use ureq::tls::TlsConfig;

use crate::access::{Access, Shown};
use crate::endpoint::Endpoint;

/// Longest wait for one answer, connecting included. A third of the default silence, so that one
/// lost answer is never fatal.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Connections idle for longer are not used again; the coordinator closes them after twice that.
const IDLE_MAX: Duration = Duration::from_secs(5);

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

/// How coordinators are spoken to: connections that are kept for a while, and what is shown on them.
#[derive(Debug)]
pub(crate) struct Line {
    access: Access,
    /// Longest wait for one answer.
    patience: Duration,
    means: Mutex<Means>,
}

/// What one call is made with.
#[derive(Clone, Debug)]
struct Means {
    generation: u64,
    agent: ureq::Agent,
    authorization: Option<HeaderValue>,
}

impl Means {
    fn new(shown: &Shown, patience: Duration) -> Means {
        Means {
            generation: shown.generation,
            agent: agent(patience, shown.tls.clone()),
            authorization: shown.authorization.clone(),
        }
    }

    /// A request that shows the token, and that no web page has made it.
    fn show<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        let request = request.header(NO_PAGE, "1");
        match &self.authorization {
            Some(token) => request.header("authorization", token.clone()),
            None => request,
        }
    }
}

impl Line {
    /// A line on which an answer is awaited for this long at most.
    pub(crate) fn new(access: &Access, patience: Duration) -> Line {
        let means = Means::new(&access.shown(), patience);
        Line {
            access: access.clone(),
            patience,
            means: Mutex::new(means),
        }
    }

    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        endpoint: &Endpoint,
        path: &str,
    ) -> Result<T, CallError> {
        let url = format!("{endpoint}{path}");
        self.call(|means| read(means.show(means.agent.get(&url)).call()))
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        endpoint: &Endpoint,
        path: &str,
        body: &[u8],
    ) -> Result<T, CallError> {
        let url = format!("{endpoint}{path}");
        self.call(|means| {
            let request = means.show(means.agent.post(&url));
            read(request.content_type(JSON).send(body))
        })
    }

    pub(crate) fn put<T: DeserializeOwned>(
        &self,
        endpoint: &Endpoint,
        path: &str,
        body: &[u8],
    ) -> Result<T, CallError> {
        let url = format!("{endpoint}{path}");
        self.call(|means| {
            let request = means.show(means.agent.put(&url));
            read(request.content_type(JSON).send(body))
        })
    }

    pub(crate) fn delete<T: DeserializeOwned>(
        &self,
        endpoint: &Endpoint,
        path: &str,
    ) -> Result<T, CallError> {
        let url = format!("{endpoint}{path}");
        self.call(|means| {
            let request = means.show(means.agent.delete(&url));
            read(request.header("content-type", JSON).call())
        })
    }

    /// Makes a call; once more with what stands in the files by then, if it is not let in.
    fn call<T>(&self, call: impl Fn(&Means) -> Result<T, CallError>) -> Result<T, CallError> {
        let answer = call(&self.means());
        let is_shut_out = matches!(
            answer,
            Err(CallError::Refused {
                status: 401 | 403,
                ..
            } | CallError::Untrusted(_))
        );
        match is_shut_out && self.access.read_again() {
            true => call(&self.means()),
            false => answer,
        }
    }

    /// What to call with now.
    fn means(&self) -> Means {
        let mut means = self.means.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = self.access.shown();
        if means.generation != shown.generation {
            *means = Means::new(&shown, self.patience);
        }
        means.clone()
    }
}

/// An agent that never waits for longer, follows nobody elsewhere, and goes straight to its peer whatever the
/// environment says about proxies.
fn agent(patience: Duration, tls: Option<TlsConfig>) -> ureq::Agent {
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
        ureq::Error::Io(error) => CallError::Unreachable(error.to_string()),
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
    use crate::access::AccessArgs;
    use std::path::Path;

    fn access(dir: &Path, token: &str) -> Access {
        let path = dir.join("token");
        std::fs::write(&path, token).unwrap();
        let args = AccessArgs {
            coordinator_token_file: Some(path),
            ..AccessArgs::default()
        };
        Access::load(&args).unwrap().0
    }

    #[test]
    fn what_stands_in_a_file_now_is_shown_from_the_next_refusal_on() {
        let dir = tempfile::tempdir().unwrap();
        let access = access(dir.path(), "the-first-of-tokens\n");
        let line = Line::new(&access, Duration::from_secs(1));
        let shown = || line.means().authorization.unwrap();
        assert_eq!(shown(), "Bearer the-first-of-tokens");
        std::fs::write(
            dir.path().join("token"),
            "the-second-of-tokens\nthe-first-of-tokens",
        )
        .unwrap();
        assert_eq!(shown(), "Bearer the-first-of-tokens");
        let calls = std::cell::Cell::new(0);
        let answer: Result<(), _> = line.call(|means| {
            calls.set(calls.get() + 1);
            match means.authorization.as_ref().unwrap() == "Bearer the-second-of-tokens" {
                true => Ok(()),
                false => Err(CallError::Untrusted("no".into())),
            }
        });
        assert_eq!((answer, calls.get()), (Ok(()), 2));
        // What cannot be used changes nothing, and is not asked with again.
        std::fs::write(dir.path().join("token"), "short").unwrap();
        let answer: Result<(), _> = line.call(|_| {
            calls.set(calls.get() + 1);
            Err(CallError::Untrusted("no".into()))
        });
        assert_eq!((answer.is_err(), calls.get()), (true, 3));
        assert_eq!(shown(), "Bearer the-second-of-tokens");
    }

    #[test]
    fn secrets_are_not_shown_to_people() {
        let dir = tempfile::tempdir().unwrap();
        let access = access(dir.path(), "a-token-of-sixteen");
        let line = Line::new(&access, Duration::from_secs(1));
        let shown = format!("{access:?} {line:?}");
        assert!(!shown.contains("a-token-of"), "{shown}");
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
