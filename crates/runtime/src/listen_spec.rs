//! Where to listen: the addresses of `-l` with what memcached lets stand before them.
//!
//! ```text
//!  -l 10.0.0.5,notls:127.0.0.1:11212,mtls:proto[ascii]:[::1]:11213,cache.internal
//!     └ HOST    └ plain, though -Z      └ a certificate wanted, text only  └ all its addresses
//! ```

use crate::listen::{Listener, try_bind_tcp};
use crate::units::port_alone;
use crate::{UsageError, split_port};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// How a listener speaks, and to whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListenerTls {
    /// As `-Z` and `-o ssl_verify_mode` say for all.
    #[default]
    Default,
    /// `notls:` plain text, though the others speak TLS.
    Off,
    /// `btls:` TLS that asks clients for no certificate.
    Basic,
    /// `mtls:` TLS that wants a certificate of each client.
    Mutual,
}

/// The protocol that a listener is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerProtocol {
    /// `proto[negotiating]:` whatever the first byte of a connection says.
    Negotiating,
    /// `proto[ascii]:` text and meta commands.
    Ascii,
    /// `proto[binary]:`.
    Binary,
}

/// One address of `-l`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenSpec {
    /// As it was written, for messages.
    pub text: String,
    /// Host name or address without brackets; `None` for every address.
    pub host: Option<String>,
    /// Port.
    pub port: u16,
    /// TLS or not.
    pub tls: ListenerTls,
    /// Protocol; `None` as `-B` says for all.
    pub protocol: Option<ListenerProtocol>,
    /// `tag[…]:` was given. Tags are for the routes of memcached's own proxy.
    pub tagged: bool,
}

impl ListenSpec {
    /// Reads `[notls:|btls:|mtls:][proto[P]:][tag[T]:]HOST[:PORT]`, the prefixes in any order.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str, default_port: u16) -> Result<ListenSpec, UsageError> {
        let fail = |what: &str| UsageError(format!("-l {text}: {what}"));
        let mut spec = ListenSpec {
            text: text.to_owned(),
            host: None,
            port: default_port,
            tls: ListenerTls::Default,
            protocol: None,
            tagged: false,
        };
        let mut rest = text;
        loop {
            if let Some(after) = rest.strip_prefix("notls:") {
                (spec.tls, rest) = (ListenerTls::Off, after);
            } else if let Some(after) = rest.strip_prefix("btls:") {
                (spec.tls, rest) = (ListenerTls::Basic, after);
            } else if let Some(after) = rest.strip_prefix("mtls:") {
                (spec.tls, rest) = (ListenerTls::Mutual, after);
            } else if let Some(after) = rest.strip_prefix("proto[") {
                let (name, after) = after
                    .split_once("]:")
                    .ok_or_else(|| fail("proto[…] wants `]:` behind it"))?;
                spec.protocol = Some(match name {
                    "ascii" => ListenerProtocol::Ascii,
                    "binary" => ListenerProtocol::Binary,
                    "negotiating" => ListenerProtocol::Negotiating,
                    _ => return Err(fail("proto[…] is ascii, binary or negotiating")),
                });
                rest = after;
            } else if let Some(after) = rest.strip_prefix("tag[") {
                (_, rest) = after
                    .split_once("]:")
                    .ok_or_else(|| fail("tag[…] wants `]:` behind it"))?;
                spec.tagged = true;
            } else {
                break;
            }
        }
        let (host, port) =
            split_port(rest).ok_or_else(|| fail("give HOST or HOST:PORT, and brackets to IPv6"))?;
        spec.port = port.unwrap_or(default_port);
        if host != "*" {
            let named = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
            if host.is_empty() || !host.chars().all(named) {
                return Err(fail("give an IP address or a host name"));
            }
            if let Some(hint) = port_alone(host) {
                return Err(fail(&hint));
            }
            spec.host = Some(host.to_owned());
        }
        Ok(spec)
    }

    /// Every address, of both families, at `port`: memcached's INADDR_ANY.
    pub fn everywhere(port: u16) -> ListenSpec {
        ListenSpec {
            text: "*".to_owned(),
            host: None,
            port,
            tls: ListenerTls::Default,
            protocol: None,
            tagged: false,
        }
    }

    /// This machine alone, at `port`.
    pub fn loopback(port: u16) -> ListenSpec {
        ListenSpec {
            text: Ipv4Addr::LOCALHOST.to_string(),
            host: Some(Ipv4Addr::LOCALHOST.to_string()),
            ..ListenSpec::everywhere(port)
        }
    }

    /// Listens on all its addresses. An address that this machine cannot have, such as IPv6 where
    /// it is switched off, is left out as long as another one works; one that is taken is an error.
    ///
    /// # Errors
    /// Names the address that cannot be listened on.
    pub fn open(&self, backlog: u32) -> Result<Vec<Listener>, UsageError> {
        let mut sockets: Vec<Listener> = Vec::new();
        let mut left_out = None;
        for mut address in self.addresses()? {
            if let Some(first) = sockets.first().and_then(Listener::address) {
                // A free port was taken for the first; the others are to have the same.
                address.set_port(first.port());
            }
            match try_bind_tcp(address, backlog) {
                Ok(socket) => sockets.push(socket),
                Err(error) if is_not_ours(&error) => left_out = Some((address, error)),
                Err(error) => return Err(cannot_listen(address, &error)),
            }
        }
        match left_out {
            Some((address, error)) if sockets.is_empty() => Err(cannot_listen(address, &error)),
            _ => Ok(sockets),
        }
    }

    /// One address.
    pub fn at(address: SocketAddr) -> ListenSpec {
        ListenSpec {
            text: address.to_string(),
            host: Some(address.ip().to_string()),
            ..ListenSpec::everywhere(address.port())
        }
    }

    /// The addresses behind the host, IPv4 first. Asks the resolver for a name, so it may take time.
    ///
    /// # Errors
    /// When nobody knows the name.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, UsageError> {
        let Some(host) = &self.host else {
            let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
            return Ok(any.map(|ip| SocketAddr::new(ip, self.port)).to_vec());
        };
        let found = (host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| UsageError(format!("-l {}: {error}", self.text)))?;
        let mut addresses: Vec<SocketAddr> = found.collect();
        addresses.sort_by_key(SocketAddr::is_ipv6);
        addresses.dedup();
        Ok(addresses)
    }
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> UsageError {
    UsageError(format!("failed to listen on {address}: {error}"))
}

/// Whether this machine lacks the address, or its whole family.
fn is_not_ours(error: &io::Error) -> bool {
    error.kind() == ErrorKind::AddrNotAvailable || error.kind() == ErrorKind::Unsupported
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> ListenSpec {
        ListenSpec::parse(text, 11211).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn hosts_ports_and_prefixes_are_told_apart() {
        let plain = parse("10.0.0.5");
        assert_eq!(
            (plain.host.as_deref(), plain.port),
            (Some("10.0.0.5"), 11211)
        );
        let six = parse("[::1]:5");
        assert_eq!((six.host.as_deref(), six.port), (Some("::1"), 5));
        assert_eq!(parse("::1").host.as_deref(), Some("::1"));
        let all = parse("*:7");
        assert_eq!((all.host, all.port), (None, 7));
        let dressed = parse("mtls:tag[edge]:proto[ascii]:cache.internal:9");
        assert_eq!(dressed.tls, ListenerTls::Mutual);
        assert_eq!(dressed.protocol, Some(ListenerProtocol::Ascii));
        assert!(dressed.tagged);
        assert_eq!(
            (dressed.host.as_deref(), dressed.port),
            (Some("cache.internal"), 9)
        );
        assert_eq!(parse("notls:127.0.0.1").tls, ListenerTls::Off);
        assert_eq!(parse("btls:127.0.0.1").tls, ListenerTls::Basic);
        assert_eq!(
            parse("proto[binary]:notls:127.0.0.1").protocol,
            Some(ListenerProtocol::Binary)
        );
    }

    #[test]
    fn what_is_no_address_is_named() {
        for text in [
            "",
            "nowhere:port",
            "no such host",
            "127.0.0.1:70000",
            "proto[telnet]:127.0.0.1",
            "proto[ascii:127.0.0.1",
            "tag[x:127.0.0.1",
            "[::1",
            "notls:",
            "22121",
        ] {
            let error = ListenSpec::parse(text, 1).expect_err(text);
            assert!(error.0.contains(&format!("-l {text}")), "{text}: {error}");
        }
    }

    #[test]
    fn a_name_stands_for_all_its_addresses() {
        let addresses = parse("localhost:5")
            .addresses()
            .expect("everybody knows it");
        assert!(addresses.contains(&"127.0.0.1:5".parse().expect("an address")));
        let everywhere = ListenSpec::everywhere(5).addresses().expect("no name");
        let texts: Vec<String> = everywhere.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["0.0.0.0:5", "[::]:5"]);
    }
}
