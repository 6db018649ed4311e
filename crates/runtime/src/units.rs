//! Sizes, durations and addresses as people write them on a command line.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// Reads a size in bytes: a number, with suffix `k`, `m` or `g` (or `KiB`, `MiB`, `GiB`) for powers
/// of 1024.
///
/// # Errors
/// What to write instead.
pub fn parse_size(text: &str) -> Result<usize, String> {
    let (number, unit) = split_unit(text);
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" => Some(1),
        "k" | "kib" => Some(1 << 10),
        "m" | "mib" => Some(1 << 20),
        "g" | "gib" => Some(1 << 30),
        _ => None,
    };
    unit.zip(number.parse::<usize>().ok())
        .and_then(|(unit, number)| number.checked_mul(unit))
        .ok_or_else(|| "give a number, with suffix k, m or g if you like".into())
}

/// Reads a size in megabytes of 1024 × 1024 bytes: a number alone, as memcached's `-m`, or one with a suffix as [`parse_size`].
///
/// # Errors
/// What to write instead.
pub fn parse_megabytes(text: &str) -> Result<usize, String> {
    let told = || "give megabytes, as in 1024, or a size, as in 1g".to_owned();
    let megabytes = match text.parse::<usize>() {
        Ok(megabytes) => megabytes,
        Err(_) => match parse_size(text) {
            Ok(bytes) if bytes % (1 << 20) == 0 => bytes >> 20,
            _ => return Err(told()),
        },
    };
    // In bytes it is a number, too.
    let is_size = megabytes <= usize::MAX >> 20;
    is_size.then_some(megabytes).ok_or_else(told)
}

/// memcached's port, and so that of a server whose port nobody gives.
const SERVER_PORT: u16 = 11211;

/// Reads the address of an HTTP port of this machine: `IP:PORT`, where `localhost` is 127.0.0.1 and `*` every address. An address has
/// to be given: nobody opens such a port to the network by a slip.
///
/// # Errors
/// What to write instead.
pub fn parse_http_address(text: &str) -> Result<SocketAddr, String> {
    let address = split_port(text).and_then(|(host, port)| {
        let ip = match host {
            "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
            "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            _ => host.parse().ok()?,
        };
        Some(SocketAddr::new(ip, port?))
    });
    address.ok_or_else(
        || match text.strip_prefix(':').unwrap_or(text).parse::<u16>() {
            Ok(port) => {
                format!(
                    "give IP:PORT: 127.0.0.1:{port} for this machine alone, 0.0.0.0:{port} for all"
                )
            }
            Err(_) => "give IP:PORT, such as 127.0.0.1:9150".into(),
        },
    )
}

/// Finds the address of a server: `HOST` or `HOST:PORT`, port 11211 unless given. As [`resolve`].
///
/// # Errors
/// What is wrong with it, or why nobody knows the name.
pub fn resolve_server(text: &str) -> Result<SocketAddr, String> {
    let (host, port) = match split_port(text) {
        Some((host, port)) if !host.is_empty() => (host, port),
        _ => return Err(format!("{text} is no server: give HOST or HOST:PORT")),
    };
    if let Some(hint) = port_alone(host) {
        return Err(format!("{text} is no server: {hint}"));
    }
    resolve(host, port.unwrap_or(SERVER_PORT))
}

/// The address of a host by its name or address, with brackets or without. Of several the first of IPv4. May take time.
///
/// # Errors
/// Why nobody knows the name.
#[allow(
    clippy::disallowed_methods,
    reason = "for commands of their own, which wait for the answer"
)]
pub fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let addresses = (bare, port)
        .to_socket_addrs()
        .map_err(|error| format!("no address of {host} is found: {error}"))?;
    addresses
        .min_by_key(SocketAddr::is_ipv6)
        .ok_or_else(|| format!("{host} has no address"))
}

/// What to write instead of a number where an address belongs, which the resolver takes for an IPv4 address.
pub(crate) fn port_alone(host: &str) -> Option<String> {
    let port: u16 = host.parse().ok()?;
    Some(format!("{port} looks like a port; give HOST:{port}"))
}

/// Host and port of `HOST`, `HOST:PORT`, `[V6]`, `[V6]:PORT` or a bare V6.
pub fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        return match port.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None => port.is_empty().then_some((host, None)),
        };
    }
    match text.split_once(':') {
        None => Some((text, None)),
        Some((_, rest)) if rest.contains(':') => Some((text, None)),
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
    }
}

/// Reads the permissions of a file in octal, as in `chmod`.
///
/// # Errors
/// What to write instead.
pub fn parse_permissions(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("give permissions in octal, 0 to 777".into()),
    }
}

/// Reads a duration: a whole number with suffix `ms` or `s`.
///
/// # Errors
/// What to write instead.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_unit(text);
    let unit = match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        _ => None,
    };
    unit.zip(number.parse::<u64>().ok())
        .and_then(|(unit, number)| number.checked_mul(unit))
        .map(Duration::from_millis)
        .ok_or_else(|| "give a number with suffix ms or s, as in 250ms".into())
}

fn split_unit(text: &str) -> (&str, &str) {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    (number, &text[number.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, size) in [
            ("17", 17),
            ("1k", 1024),
            ("64MiB", 64 << 20),
            ("2g", 2 << 30),
        ] {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
        for text in [
            "",
            "k",
            "-1",
            "1.5m",
            "1x",
            "99999999999999999999",
            "17179869184g",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn memory_is_in_megabytes_unless_a_suffix_says_otherwise() {
        for (text, megabytes) in [("64", 64), ("1024m", 1024), ("1g", 1024), ("2048k", 2)] {
            assert_eq!(parse_megabytes(text), Ok(megabytes), "{text}");
        }
        for text in ["", "1gb", "-1", "5k", "17592186044416"] {
            let error = parse_megabytes(text).expect_err(text);
            assert!(error.contains("as in 1024"), "{error}");
        }
    }

    #[test]
    fn an_http_port_has_an_address() {
        for (text, address) in [
            ("127.0.0.1:9150", "127.0.0.1:9150"),
            ("localhost:0", "127.0.0.1:0"),
            ("*:9150", "0.0.0.0:9150"),
            ("[::1]:9150", "[::1]:9150"),
        ] {
            let read = parse_http_address(text).map(|at| at.to_string());
            assert_eq!(read.as_deref(), Ok(address), "{text}");
        }
        for text in ["9150", ":9150"] {
            let error = parse_http_address(text).expect_err(text);
            assert!(error.contains("127.0.0.1:9150 for this machine"), "{error}");
        }
        for text in ["", "127.0.0.1", "a.example:9150", "127.0.0.1:x", "::1"] {
            let error = parse_http_address(text).expect_err(text);
            assert!(error.contains("such as"), "{error}");
        }
    }

    #[test]
    fn a_server_has_memcacheds_port_unless_another_is_given() {
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1:11211"),
            ("127.0.0.1:5", "127.0.0.1:5"),
            ("[::1]", "[::1]:11211"),
            ("::1", "[::1]:11211"),
            ("[::1]:5", "[::1]:5"),
        ] {
            let found = resolve_server(text).map(|at| at.to_string());
            assert_eq!(found.as_deref(), Ok(address), "{text}");
        }
        for (text, words) in [
            ("22121", "give HOST:22121"),
            (":22121", "HOST or HOST:PORT"),
            ("", "HOST or HOST:PORT"),
            ("h:x", "HOST or HOST:PORT"),
            ("no such host", "no address of no such host"),
        ] {
            let error = resolve_server(text).expect_err(text);
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn durations_name_their_unit() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("2s"), Ok(Duration::from_secs(2)));
        for text in ["", "250", "s", "-1s", "1.5s", "1h", "18446744073709551615s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
