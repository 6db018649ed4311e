//! Addresses of coordinators.

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
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.base)
    }
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
}
