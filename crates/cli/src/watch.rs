//! What the servers say about themselves, over memcached's own `stats` command.

use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest wait for a server's answer. A server that is down or stalled must not hold up the view
/// of the others.
const TIMEOUT: Duration = Duration::from_millis(250);

/// Longest answer that is read, in lines: more than all statistics of the largest server.
const LINES_MAX: usize = 100_000;

/// The lists that are asked for. Servers that are not Evenkeel's know the first alone and say so of the others.
const QUESTIONS: &[u8] = b"stats\r\nstats evenkeel\r\nstats hotkeys\r\n";

/// A key that its server replicates, or one that gets much and is not replicated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HotKey {
    /// The key, with unprintable bytes escaped.
    pub key: String,
    /// Name of its home, where somebody has said which server this is; of what a proxy tells the pool.
    pub home: String,
    /// `HOT`, `HOT_PENDING` or `COLD_PENDING`; `COLD` for one without replicas.
    pub state: String,
    /// Reads a second at all copies together, as its home estimates; of one without replicas reads and writes.
    pub requests_per_second: f64,
    /// Copies besides the home's.
    pub replicas: usize,
    /// Why nothing is done about one without replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What a server has counted since it started, or between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys read and values stored. Replica reads are not among memcached's; they are work for clients all the
    /// same, and count for the server that did it.
    pub requests: u64,
    /// Keys read at their home, and those that were there.
    pub gets: u64,
    pub hits: u64,
    /// Keys read as a replica.
    pub replica_reads: u64,
    /// Items evicted.
    pub evictions: u64,
}

/// This many in this many seconds, a second; 0 in no time.
pub fn rate(count: u64, seconds: f64) -> f64 {
    match seconds > 0.0 {
        true => count as f64 / seconds,
        false => 0.0,
    }
}

/// What a server has at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holdings {
    pub items: u64,
    pub memory_bytes: u64,
    pub memory_limit_bytes: u64,
    pub connections: u64,
}

/// One look at a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerStats {
    /// Since the last look that succeeded; all zero at the first.
    pub counts: Counts,
    /// Now.
    pub holdings: Holdings,
    /// Keys with replicas.
    pub hot_keys: Vec<HotKey>,
}

/// All numbers of some lists of statistics by name.
#[derive(Clone, Debug, Default)]
pub struct Numbers(BTreeMap<String, u64>);

impl Numbers {
    /// Takes in one of the statistics, if it is a number.
    pub fn take(&mut self, name: &str, value: &str) {
        if let Ok(value) = value.parse() {
            self.0.insert(name.to_owned(), value);
        }
    }

    /// The number of that name; 0 where there is none.
    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

impl Counts {
    fn of(numbers: &Numbers) -> Counts {
        let gets = numbers.of("cmd_get");
        let replica_reads = numbers.of("replica_hits") + numbers.of("replica_misses");
        Counts {
            requests: gets + numbers.of("cmd_set") + replica_reads,
            gets,
            hits: numbers.of("get_hits"),
            replica_reads,
            evictions: numbers.of("evictions"),
        }
    }

    /// What was counted since `last`. Smaller numbers are those of a new life, which started at 0.
    fn since(self, last: Counts) -> Counts {
        if self.requests < last.requests {
            return self;
        }
        Counts {
            requests: self.requests - last.requests,
            gets: self.gets.saturating_sub(last.gets),
            hits: self.hits.saturating_sub(last.hits),
            replica_reads: self.replica_reads.saturating_sub(last.replica_reads),
            evictions: self.evictions.saturating_sub(last.evictions),
        }
    }
}

/// Asks one address for lists of statistics again and again over one connection.
#[derive(Debug)]
pub struct Asker {
    address: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
}

impl Asker {
    /// Does not connect yet.
    pub fn new(address: SocketAddr) -> Self {
        Asker {
            address,
            connection: None,
        }
    }

    /// Asks, and reads the answers by `read`.
    ///
    /// # Errors
    /// There are none in time, or others.
    pub fn ask<T>(
        &mut self,
        questions: &[u8],
        read: impl FnOnce(&mut BufReader<TcpStream>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(self.address)?,
        };
        connection.get_mut().write_all(questions)?;
        let answer = read(&mut connection)?;
        // The next look connects anew where this one failed: the connection may be in the middle of an answer.
        self.connection = Some(connection);
        Ok(answer)
    }
}

fn connect(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(BufReader::new(stream))
}

/// Asks one server again and again.
#[derive(Debug)]
pub struct Watch {
    asker: Asker,
    last: Option<Counts>,
}

impl Watch {
    /// Does not connect yet.
    pub fn new(address: SocketAddr) -> Self {
        Watch {
            asker: Asker::new(address),
            last: None,
        }
    }

    /// Where the server is.
    pub fn address(&self) -> SocketAddr {
        self.asker.address
    }

    /// What the server did since the last look that succeeded, what it holds, and its hot keys.
    ///
    /// # Errors
    /// It does not answer.
    pub fn look(&mut self) -> io::Result<ServerStats> {
        let mut stats = self.asker.ask(QUESTIONS, read_stats)?;
        let counts = stats.counts;
        stats.counts = match self.last.replace(counts) {
            Some(last) => counts.since(last),
            None => Counts::default(),
        };
        Ok(stats)
    }
}

fn read_stats(answers: &mut BufReader<TcpStream>) -> io::Result<ServerStats> {
    let mut numbers = Numbers::default();
    for _ in 0..2 {
        read_list(answers, |name, value| numbers.take(name, value))?;
    }
    let mut hot_keys = Vec::new();
    read_list(answers, |key, facts| {
        hot_keys.extend(parse_hot_key(key, facts));
    })?;
    Ok(ServerStats {
        counts: Counts::of(&numbers),
        holdings: Holdings {
            items: numbers.of("curr_items"),
            memory_bytes: numbers.of("bytes"),
            memory_limit_bytes: numbers.of("limit_maxbytes"),
            connections: numbers.of("curr_connections"),
        },
        hot_keys,
    })
}

/// Reads `STAT name value` lines up to `END`; nothing where the server has no such list.
///
/// # Errors
/// When the connection fails, or something else is said.
pub fn read_list(reader: &mut impl BufRead, mut take: impl FnMut(&str, &str)) -> io::Result<()> {
    let mut line = String::new();
    for _ in 0..LINES_MAX {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.trim_end();
        // memcached answers an error to a list that it does not have.
        if text == "END" || text == "ERROR" {
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

/// `state=HOT rps=812 gamma=3 shadows=1/0,2/1,3/0` of a key with replicas, `state=COLD gets=40 sets=2 … why=…` of one that gets much. A
/// proxy has `pool=` before that.
pub fn parse_hot_key(key: &str, facts: &str) -> Option<HotKey> {
    let mut hot = HotKey {
        key: key.to_owned(),
        home: String::new(),
        state: String::new(),
        requests_per_second: 0.0,
        replicas: 0,
        why: None,
    };
    let (facts, why) = match facts.split_once(" why=") {
        Some((facts, why)) => (facts, Some(why.to_owned())),
        None => (facts, None),
    };
    hot.why = why;
    for (name, value) in facts.split(' ').filter_map(|fact| fact.split_once('=')) {
        match name {
            "state" => value.clone_into(&mut hot.state),
            "pool" => value.clone_into(&mut hot.home),
            "rps" => hot.requests_per_second = value.parse().ok()?,
            "gets" | "sets" => hot.requests_per_second += value.parse::<f64>().ok()?,
            "gamma" => hot.replicas = value.parse().ok()?,
            _ => {}
        }
    }
    (hot.replicas > 0 || hot.why.is_some()).then_some(hot)
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
        let why = "its worker is 4 % busy, and looks from 30 %";
        let facts = format!("state=COLD gets=40 sets=2 bytes=9 share=0.1 why={why}");
        let cold = parse_hot_key("k", &format!("pool=main {facts}")).unwrap();
        assert_eq!(cold.home, "main");
        assert_eq!((cold.requests_per_second, cold.replicas), (42.0, 0));
        assert_eq!(cold.why.as_deref(), Some(why));
    }

    /// A server that gives each connection one answer of `requests` requests.
    fn answer(listener: &TcpListener, requests: u64) {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; QUESTIONS.len()];
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
            if let Ok(stats) = watch.look() {
                looks.push(stats.counts.requests);
            }
        }
        assert_eq!(looks, [0, 50, 30]);
        server.join().unwrap();
        // The first of these may find the end of the last connection.
        watch.look().expect_err("nobody is there");
        let error = watch.look().expect_err("nobody is there");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
