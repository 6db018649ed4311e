//! What a proxy worker is told when it is made.

use super::limits::{CONNECT_TIMEOUT, REQUEST_TIMEOUT, REQUESTS_PER_TURN};
use core::time::Duration;
use evenkeel_protocol::Limits;

/// What a get is answered when its server cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDown {
    /// A miss, as a cache may: the application turns to its database.
    #[default]
    Miss,
    /// `SERVER_ERROR`, as for writes.
    Error,
}

/// Settings of a proxy worker; the same for all workers of a process.
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    /// What applications and servers may make the proxy buffer.
    pub limits: Limits,
    /// Requests of one connection executed before others have their turn; at least 1.
    pub requests_per_turn: u32,
    /// How long connecting and greeting may take together.
    pub connect_timeout: Duration,
    /// How long an answer may take. A request that has to be put to a second place because its key
    /// moves is given up after this time, too.
    pub request_timeout: Duration,
    /// What a get is answered when its server cannot be asked.
    pub on_down: OnDown,
    /// Whether `flush_all` is passed on, to all servers.
    pub allow_flush: bool,
    /// What `version` answers.
    pub version: String,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        ProxyConfig {
            limits: Limits::default(),
            requests_per_turn: REQUESTS_PER_TURN,
            connect_timeout: CONNECT_TIMEOUT,
            request_timeout: REQUEST_TIMEOUT,
            on_down: OnDown::Miss,
            allow_flush: false,
            version: String::from(crate::server::VERSION),
        }
    }
}
