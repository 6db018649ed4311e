//! What the command line and configuration files allow alike.

use evenkeel_control::gone::GONE_AFTER;
use evenkeel_runtime::names::Family;
use evenkeel_runtime::{ListenSpec, UsageError, parse_duration, parse_size, split_port};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Most proxy workers of one process.
pub const THREADS_MAX: u16 = 256;

/// Maximum connections of applications: what a machine has ports and memory for many times over.
pub const CONN_LIMIT_MAX: usize = 10_000_000;

/// Smallest and largest item, in bytes (memcached's limits of `-I`).
pub const ITEM_SIZE_RANGE: RangeInclusive<usize> = 1024..=1024 * 1024 * 1024;

/// Shortest and longest timeout: below, a pause of the scheduler is a failure; above, an application
/// waits longer than any has patience.
pub const TIMEOUT_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(60);

/// Shortest and longest time between two questions for a pool's servers: below, a name service gets
/// more questions than it should; above, a changed list is noticed so late that nobody would look here.
pub const REFRESH_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3600);

/// Port of a name server that names none (RFC 1035).
const NAMESERVER_PORT: u16 = 53;

/// What applications may send in part and leave unread in all, unless configured: as much as sixty of them hold that
/// read values of the largest ordinary size at the same time, and less than machines with a proxy beside the application miss.
pub const BUFFER_MEMORY: usize = 64 << 20;

/// Least and most of it: below, a few values of the ordinary size fill it; above, no machine has this much.
pub const BUFFER_MEMORY_RANGE: RangeInclusive<usize> = 8 << 20..=1 << 40;

/// Reads how much applications may send in part and leave unread in all.
pub fn buffer_memory(text: &str) -> Result<usize, String> {
    let size = parse_size(text)?;
    if BUFFER_MEMORY_RANGE.contains(&size) {
        Ok(size)
    } else {
        Err("use 8m to 1024g".into())
    }
}

/// Fewest and most bytes of a profile: below, the head of each file is a large part of it; above, nobody reads it.
pub const PROFILE_MAX_RANGE: RangeInclusive<u64> = 1 << 20..=1 << 40;

/// Reads how many bytes a profile may have.
pub fn profile_max(text: &str) -> Result<u64, String> {
    let size = parse_size(text)? as u64;
    if PROFILE_MAX_RANGE.contains(&size) {
        Ok(size)
    } else {
        Err("use 1m to 1024g".into())
    }
}

/// Reads the size of the largest item.
pub fn item_size(text: &str) -> Result<usize, String> {
    let size = parse_size(text)?;
    if ITEM_SIZE_RANGE.contains(&size) {
        Ok(size)
    } else {
        Err("use 1k to 1g".into())
    }
}

/// Reads how long a proxy must not have been heard to count as gone.
pub fn gone_after(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    if GONE_AFTER.contains(&time) {
        Ok(time)
    } else {
        Err("use 5s to 3600s".into())
    }
}

/// Reads a timeout.
pub fn timeout(text: &str) -> Result<Duration, String> {
    let timeout = parse_duration(text)?;
    if TIMEOUT_RANGE.contains(&timeout) {
        Ok(timeout)
    } else {
        Err("use 1ms to 60s".into())
    }
}

/// Reads the time between two questions for a pool's servers.
pub fn refresh(text: &str) -> Result<Duration, String> {
    let refresh = parse_duration(text)?;
    if REFRESH_RANGE.contains(&refresh) {
        Ok(refresh)
    } else {
        Err("use 100ms to 3600s".into())
    }
}

/// Reads which addresses of a name are servers.
pub fn family(text: &str) -> Result<Family, String> {
    match text {
        "all" => Ok(Family::All),
        "ipv4" => Ok(Family::Ipv4),
        "ipv6" => Ok(Family::Ipv6),
        _ => Err("use \"all\", \"ipv4\" or \"ipv6\"".into()),
    }
}

/// Reads the address of a name server.
pub fn nameserver(text: &str) -> Result<SocketAddr, String> {
    let split = split_port(text).and_then(|(host, port)| {
        let ip = host.parse().ok()?;
        Some(SocketAddr::new(ip, port.unwrap_or(NAMESERVER_PORT)))
    });
    split.ok_or_else(|| "give the IP address of a name server, or IP:PORT".into())
}

/// An address of `-l` or `listen`, at this port unless it names another.
///
/// # Errors
/// `-l TEXT: what`.
pub fn listener(text: &str, port: u16) -> Result<ListenSpec, UsageError> {
    let spec = ListenSpec::parse(text, port)?;
    if spec.protocol.is_some() || spec.tagged {
        return Err(UsageError(format!(
            "-l {text}: proto[…]: and tag[…]: are for servers; of the proxy, each connection speaks \
             what it begins with"
        )));
    }
    Ok(spec)
}
