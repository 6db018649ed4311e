//! Sizes, durations and addresses as people write them on a command line.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
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

/// Reads an address to listen on: `IP`, `IP:PORT`, `[V6]`, `[V6]:PORT` or a bare V6, where `localhost`
/// is 127.0.0.1 and `*` every address. `None` when it is no such thing.
pub fn listen_address(text: &str, default_port: u16) -> Option<SocketAddr> {
    let (host, port) = split_port(text)?;
    let ip = match host {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        _ => host.parse().ok()?,
    };
    Some(SocketAddr::new(ip, port.unwrap_or(default_port)))
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
    fn durations_name_their_unit() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("2s"), Ok(Duration::from_secs(2)));
        for text in ["", "250", "s", "-1s", "1.5s", "1h", "18446744073709551615s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
