//! What requests to the coordinator's API and its errors look like.

use core::net::IpAddr;
use serde::{Deserialize, Serialize};

/// What a request that changes something has to be sent as.
pub const JSON: &str = "application/json";

/// By which programs of Evenkeel show that they are no web page: pages cannot set headers that begin with `sec-`
/// (forbidden request-headers of the Fetch standard).
pub const NO_PAGE: &str = "sec-evenkeel";

/// An error as the API tells it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What is wrong.
    pub error: ErrorDetail,
}

/// What is wrong, for programs and people.
#[derive(Debug, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// One of a fixed set of words.
    pub reason: String,
    /// One line for people.
    pub message: String,
    /// Address of the coordinator that leads, from one that does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
}

/// Reason of every error of a coordinator that does not lead.
pub const NOT_LEADER: &str = "not_leader";

/// Longest text of a peer's error that is repeated to people, in characters.
pub const SHOWN_ERROR_LEN: usize = 300;

/// One line of bounded length, whatever a peer sent.
pub fn shortened(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(SHOWN_ERROR_LEN).map(printable).collect()
}

/// The name by which each machine knows itself.
const LOCALHOST: &str = "localhost";

/// Whether the `Host` of a request is an address, this machine's name for itself, or one of these names. A page that a foreign name leads to
/// (DNS rebinding) was asked for by none of them.
pub fn is_own_name(host: &[u8], names: &[String]) -> bool {
    let Ok(host) = core::str::from_utf8(host) else {
        return false;
    };
    let name = without_port(host);
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    bare.unwrap_or(name).parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case(LOCALHOST)
        || names.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// The host of `HOST:PORT`, or of `HOST` alone.
pub fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_own_and_a_name_only_where_it_was_given() {
        let names = ["coordinator.cache".to_owned()];
        let is_own = |host: &str| is_own_name(host.as_bytes(), &names);
        for own in [
            "127.0.0.1:11210",
            "127.0.0.1",
            "10.0.2.1:80",
            "[::1]:11210",
            "[fe80::1]",
            "localhost:11210",
            "LocalHost",
            "coordinator.cache:11210",
            "Coordinator.Cache",
        ] {
            assert!(is_own(own), "{own}");
        }
        for foreign in [
            "evil.example",
            "evil.example:11210",
            "127.0.0.1.evil.example:11210",
            "localhost.evil.example",
            "coordinator.cache.evil.example",
            "cache",
            "",
            ":11210",
            "[::1].evil.example",
            "127.0.0.1@evil.example",
        ] {
            assert!(!is_own(foreign), "{foreign}");
        }
        assert!(!is_own_name(b"\xff\xfe", &names));
    }
}
