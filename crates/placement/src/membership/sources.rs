//! From what a file or the name service says to a list of servers. The same answer in another order
//! must be the same list, or proxies would disagree about where keys live.

use crate::config::Server;
use core::net::{IpAddr, Ipv6Addr};
use std::collections::BTreeMap;

/// A line of a list that names no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BadLine {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: &'static str,
}

/// A record of a service (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceRecord {
    /// Those with the lowest are asked for first.
    pub priority: u16,
    /// Share among those of equal priority.
    pub weight: u16,
    /// Port.
    pub port: u16,
    /// Host name.
    pub target: String,
}

/// Reads a list, one server a line in the order of the file: `HOST:PORT`, `HOST:PORT WEIGHT` as
/// libketama has it, or `HOST:PORT:WEIGHT NAME` as twemproxy does; port 11211 and weight 1 unless said.
/// Empty lines and what follows a `#` at the beginning of a line or behind a space are left out.
///
/// # Errors
/// The first line that names no server.
pub fn parse_list(text: &str) -> Result<Vec<Server>, BadLine> {
    let mut servers = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words = line.split_ascii_whitespace();
        let words: Vec<&str> = words.take_while(|word| !word.starts_with('#')).collect();
        let bad = |what| BadLine {
            line: index + 1,
            what,
        };
        let server = match *words.as_slice() {
            [] => continue,
            [place] => place.parse::<Server>(),
            [place, second] if has_weight(place) => format!("{place} {second}").parse(),
            [place, second] => place.parse().and_then(|server| match second.parse() {
                Ok(weight) => Ok(Server { weight, ..server }),
                Err(_) => format!("{place} {second}").parse(),
            }),
            _ => return Err(bad("more than a server and its weight or name")),
        };
        // Not the line itself: this is told to others, and the file may be another than was meant.
        servers.push(server.map_err(|_| bad(NO_SERVER))?);
    }
    Ok(servers)
}

/// What a line may be.
const NO_SERVER: &str =
    "this is no server; a line is HOST:PORT, HOST:PORT WEIGHT or HOST:PORT:WEIGHT NAME";

/// Whether a server's text has all its numbers, so that what follows is a name.
fn has_weight(place: &str) -> bool {
    let takes_a_number = format!("{place}:1").parse::<Server>().is_ok();
    !takes_a_number && place.parse::<Ipv6Addr>().is_err()
}

/// A server for each address, all with the same port, ascending.
pub fn of_addresses(addresses: impl IntoIterator<Item = IpAddr>, port: u16) -> Vec<Server> {
    let mut addresses: Vec<IpAddr> = addresses.into_iter().collect();
    addresses.sort_unstable();
    addresses.dedup();
    let servers = addresses.into_iter();
    servers
        .map(|address| Server::new(address.to_string(), port))
        .collect()
}

/// The servers of a service, ascending by host and port: those of the lowest priority that there is.
///
/// Weights are only taken over where they differ, so that distributions which know none can be used,
/// and a server keeps its weight when another comes. Among others a weight of 0, "hardly ever", is 1.
pub fn of_services(records: impl IntoIterator<Item = ServiceRecord>) -> Vec<Server> {
    let records: Vec<ServiceRecord> = records.into_iter().collect();
    let lowest = records.iter().map(|record| record.priority).min();
    let records = records
        .into_iter()
        .filter(|record| Some(record.priority) == lowest && record.target != ".");
    let mut weights = BTreeMap::new();
    for record in records {
        let host = record.target.trim_end_matches('.').to_ascii_lowercase();
        let weight = weights.entry((host, record.port)).or_insert(0);
        *weight = record.weight.max(*weight);
    }
    let first = weights.values().next().copied();
    let are_equal = weights.values().all(|weight| Some(*weight) == first);
    let servers = weights.into_iter();
    servers
        .map(|((host, port), weight)| Server {
            weight: if are_equal { 1 } else { weight.max(1).into() },
            ..Server::new(host, port)
        })
        .collect()
}
