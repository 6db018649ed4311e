//! Why a server is not reached, and what operators are told of it.

use core::fmt;
use std::sync::Arc;

/// Why a connection to a server failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its name has no address.
    NoSuchHost,
    /// Nobody listens there.
    Refused,
    /// No way leads there.
    Unreachable,
    /// The server reset the connection.
    Reset,
    /// The server closed the connection.
    Closed,
    /// TLS came to nothing, and why.
    Tls(Arc<str>),
    /// What else the machine says.
    Other(Arc<str>),
    /// Connecting took longer than the connect timeout.
    ConnectTimeout,
    /// It is connected to, and does not say that it is there.
    Silent,
    /// Answers took longer than the request timeout.
    RequestTimeout,
    /// It does not take the name and the password.
    LoginRefused,
    /// It does not store what the pool has to store.
    MarksRefused,
    /// Its answers are none.
    Nonsense,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::NoSuchHost => "no such host",
            Cause::Refused => "connection refused",
            Cause::Unreachable => "host unreachable",
            Cause::Reset => "connection reset",
            Cause::Closed => "connection closed",
            Cause::Tls(why) => return write!(f, "TLS failed: {why}"),
            Cause::Other(why) => why,
            Cause::ConnectTimeout => "connect timeout",
            Cause::Silent => "no answer to the health check",
            Cause::RequestTimeout => "request timeout",
            Cause::LoginRefused => "login refused",
            Cause::MarksRefused => "marks refused",
            Cause::Nonsense => "answers make no sense",
        })
    }
}

/// What is known of a server's failures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outage {
    /// Of the newest failure.
    cause: Option<Cause>,
    /// The pool in whose name that was told.
    told: Option<Arc<str>>,
    /// Requests that were not asked since then.
    not_asked: u64,
}

impl Outage {
    /// The connection failed.
    pub fn failed(&mut self, cause: Cause) {
        self.cause = Some(cause);
    }

    /// A request was not asked, because it is down.
    pub fn refused_one(&mut self) {
        self.not_asked += 1;
    }

    /// Of the newest failure.
    pub fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    /// It is out of use from now on.
    pub fn begin(&mut self) {
        self.not_asked = 0;
    }

    /// It came into use or went out of it, in a pool of this name: what others are told.
    pub fn changed(&mut self, is_in_use: bool, pool: &Arc<str>) -> Option<StateChange> {
        if is_in_use {
            self.told = None;
            return Some(StateChange::Up {
                not_asked: self.not_asked,
            });
        }
        self.told = Some(Arc::clone(pool));
        Some(StateChange::Down {
            cause: self.cause.clone()?,
        })
    }

    /// It is forgotten: the pool whose operators were told that it is out of use, if they were.
    pub fn forget(&mut self) -> Option<Arc<str>> {
        self.told.take()
    }
}

/// A server came into use or went out of it, as one worker of the proxy sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerState {
    /// Its pool.
    pub pool: Arc<str>,
    /// How error messages call it.
    pub server: String,
    /// What has happened.
    pub change: StateChange,
}

/// What has happened to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateChange {
    /// It is out of use.
    Down {
        /// Why.
        cause: Cause,
    },
    /// It is in use again.
    Up {
        /// Requests that were not asked meanwhile.
        not_asked: u64,
    },
    /// It was out of use, and is not in its pool any more.
    Left,
}
