//! What the servers say about themselves, over memcached's own `stats` command.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest wait for a server's answer. A server that is down or stalled must not hold up the view
/// of the others.
const TIMEOUT: Duration = Duration::from_millis(250);

/// Longest answer that is read, in lines: more than all statistics of the largest server.
const LINES_MAX: usize = 100_000;

/// The general statistics that count requests for keys: each key asked for, each value stored.
/// Replica reads are not among memcached's; they are work for clients all the same, and count for
/// the server that did it.
const REQUEST_COUNTERS: [&str; 4] = ["cmd_get", "cmd_set", "replica_hits", "replica_misses"];

/// A key that its server replicates.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// The key, with unprintable bytes escaped.
    pub key: String,
    /// `HOT`, `HOT_PENDING` or `COLD_PENDING`.
    pub state: String,
    /// Reads a second at all copies together, as its home estimates.
    pub requests_per_second: f64,
    /// Copies besides the home's.
    pub replicas: usize,
}

/// One answer of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerStats {
    /// Requests for keys since the server started, replica reads included.
    pub requests: u64,
    /// Keys with replicas.
    pub hot_keys: Vec<HotKey>,
}

/// Asks one server again and again over one connection.
#[derive(Debug)]
pub struct Watch {
    address: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
    last_requests: Option<u64>,
}

impl Watch {
    /// Does not connect yet.
    pub fn new(address: SocketAddr) -> Self {
        Watch {
            address,
            connection: None,
            last_requests: None,
        }
    }

    /// Requests that the server has answered since the last look that succeeded, and its hot keys;
    /// nothing when it does not answer.
    pub fn look(&mut self) -> Option<ServerStats> {
        let stats = self.ask().ok();
        let Some(mut stats) = stats else {
            // The next look connects anew: this connection may be in the middle of an answer.
            self.connection = None;
            return None;
        };
        let since = self.last_requests.replace(stats.requests);
        // A smaller number is that of a new life, which started at 0.
        stats.requests = match since {
            Some(last) if last <= stats.requests => stats.requests - last,
            Some(_) => stats.requests,
            None => 0,
        };
        Some(stats)
    }

    fn ask(&mut self) -> io::Result<ServerStats> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                let stream = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                none.insert(BufReader::new(stream))
            }
        };
        connection
            .get_mut()
            .write_all(b"stats\r\nstats evenkeel\r\nstats hotkeys\r\n")?;
        let mut stats = ServerStats::default();
        for _ in 0..2 {
            read_list(connection, |name, value| {
                if REQUEST_COUNTERS.contains(&name) {
                    stats.requests += value.parse::<u64>().unwrap_or(0);
                }
            })?;
        }
        read_list(connection, |key, facts| {
            stats.hot_keys.extend(parse_hot_key(key, facts));
        })?;
        Ok(stats)
    }
}

/// Reads `STAT name value` lines up to `END`.
fn read_list(reader: &mut impl BufRead, mut take: impl FnMut(&str, &str)) -> io::Result<()> {
    let mut line = String::new();
    for _ in 0..LINES_MAX {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.trim_end();
        if text == "END" {
            return Ok(());
        }
        let fields = text
            .strip_prefix("STAT ")
            .and_then(|rest| rest.split_once(' '));
        match fields {
            Some((name, value)) => take(name, value),
            None => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// `state=HOT rps=812 gamma=3 shadows=1/0,2/1,3/0`; nothing for a key without replicas.
fn parse_hot_key(key: &str, facts: &str) -> Option<HotKey> {
    let mut hot = HotKey {
        key: key.to_owned(),
        state: String::new(),
        requests_per_second: 0.0,
        replicas: 0,
    };
    for (name, value) in facts.split(' ').filter_map(|fact| fact.split_once('=')) {
        match name {
            "state" => value.clone_into(&mut hot.state),
            "rps" => hot.requests_per_second = value.parse().ok()?,
            "gamma" => hot.replicas = value.parse().ok()?,
            _ => {}
        }
    }
    (hot.replicas > 0).then_some(hot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn hot_keys_are_those_with_replicas() {
        let hot = parse_hot_key("a%20b", "state=HOT rps=812 gamma=3 shadows=1/0,2/1,3/0").unwrap();
        assert_eq!((hot.key.as_str(), hot.state.as_str()), ("a%20b", "HOT"));
        assert_eq!((hot.requests_per_second, hot.replicas), (812.0, 3));
        assert_eq!(
            parse_hot_key("k", "state=COLD rps=1 gamma=0 shadows="),
            None
        );
    }

    /// A server that gives each connection one answer of `requests` requests.
    fn answer(listener: &TcpListener, requests: u64) {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; 38];
        stream.read_exact(&mut asked).unwrap();
        assert_eq!(&asked[..7], b"stats\r\n");
        write!(
            stream,
            "STAT cmd_get {}\r\nSTAT cmd_touch 7\r\nEND\r\nSTAT replica_hits 2\r\nEND\r\nEND\r\n",
            requests - 2
        )
        .unwrap();
    }

    #[test]
    fn counts_are_differences_and_survive_a_restart() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut watch = Watch::new(listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            for requests in [100, 150, 30] {
                answer(&listener, requests);
            }
        });
        let mut looks = Vec::new();
        while looks.len() < 3 {
            // Every connection ends after its answer, so every second look finds it closed.
            if let Some(stats) = watch.look() {
                looks.push(stats.requests);
            }
        }
        assert_eq!(looks, [0, 50, 30]);
        server.join().unwrap();
        assert_eq!(watch.look(), None);
    }
}
