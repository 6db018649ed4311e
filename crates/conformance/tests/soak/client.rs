//! A client of the soak: its connection, its random stream, what it has seen.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use evenkeel_conformance::exchange::next_random;

/// Longest wait for an answer. The machine may be busy; a server that hangs is found all the same.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Keys that all threads share.
const KEYS: u64 = 2000;

/// What a client has seen.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Connections made.
    pub connections: u64,
    /// Keys asked for in answered gets.
    pub gets: u64,
    /// Sets that were acknowledged.
    pub sets: u64,
    /// Visits that ended because the server closed the connection.
    pub sent_away: u64,
    /// Visits by their manner.
    pub visits: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.connections += other.connections;
        self.gets += other.gets;
        self.sets += other.sets;
        self.sent_away += other.sent_away;
        for (manner, count) in &other.visits {
            *self.visits.entry(manner).or_default() += count;
        }
    }
}

/// Why a visit ends early: the server has closed the connection. It may, while memory is short, of one that holds much and hardly
/// moves, as any client does whose thread is not run for a second; it counts all that it closes.
pub struct SentAway;

/// Ends the visit.
fn sent_away() -> ! {
    std::panic::resume_unwind(Box::new(SentAway))
}

/// Whether this error says that the server has closed the connection.
fn is_close(error: &std::io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// One thread's client.
pub struct Visitor {
    address: SocketAddr,
    random: u64,
    /// Whether the server speaks the binary protocol.
    pub binary: bool,
    pub tally: Tally,
}

impl Visitor {
    pub fn new(address: SocketAddr, seed: u64, thread: u64, binary: bool) -> Self {
        let mut random = seed ^ thread.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        next_random(&mut random);
        Visitor {
            address,
            random,
            binary,
            tally: Tally::default(),
        }
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        next_random(&mut self.random) % bound
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of the keys that all threads share.
    pub fn key(&mut self) -> String {
        let n = self.below(KEYS);
        // Some are as long as a key can be.
        if n.is_multiple_of(50) {
            format!("soak:{n:0245}")
        } else {
            format!("soak:{n}")
        }
    }

    /// The length of a value: mostly small, sometimes nearly as large as an item can be.
    pub fn value_len(&mut self) -> usize {
        match self.below(100) {
            0 => 1_000_000 + self.below(48_000) as usize,
            1..=5 => self.below(200_000) as usize,
            6..=30 => self.below(8000) as usize,
            _ => self.below(300) as usize,
        }
    }

    /// A new connection.
    pub fn connect(&mut self) -> Peer {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE)
            .expect("the server accepts connections");
        stream.set_nodelay(true).expect("a socket takes options");
        stream.set_read_timeout(Some(PATIENCE)).expect("likewise");
        stream.set_write_timeout(Some(PATIENCE)).expect("likewise");
        self.tally.connections += 1;
        Peer {
            reader: BufReader::new(stream),
        }
    }
}

/// The value that a write of this key stores: it names its key and has its length in its bytes, so
/// that a reader can tell whether it is whole and whose it is.
pub fn value(key: &str, len: usize) -> Vec<u8> {
    let pattern = format!("<{key}#{len}>");
    pattern.bytes().cycle().take(len).collect()
}

/// A connection.
pub struct Peer {
    reader: BufReader<TcpStream>,
}

impl Peer {
    pub fn send(&mut self, bytes: &[u8]) {
        match self.try_send(bytes) {
            Err(error) if is_close(&error) => sent_away(),
            sent => sent.expect("the server reads what is sent"),
        }
    }

    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// The next line without its end.
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        match self.reader.read_until(b'\n', &mut line) {
            Ok(_) if !line.ends_with(b"\n") => sent_away(),
            Err(error) if is_close(&error) => sent_away(),
            read => read.expect("the server answers"),
        };
        assert!(line.ends_with(b"\r\n"), "no whole line: {line:?}");
        line.truncate(line.len() - 2);
        String::from_utf8_lossy(&line).into_owned()
    }

    /// A data block and its line end.
    pub fn block(&mut self, len: usize) -> Vec<u8> {
        let mut block = self.bytes(len + 2);
        assert!(block.ends_with(b"\r\n"), "a data block has its line end");
        block.truncate(len);
        block
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        match self.reader.read_exact(&mut bytes) {
            Err(error) if is_close(&error) => sent_away(),
            read => read.expect("the server sends what it announced"),
        }
        bytes
    }

    /// The rest until the server closes; a reset is a close too.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                panic!("the server neither answers nor closes")
            }
            _ => rest,
        }
    }

    /// Reads what comes until `enough` bytes are there, the server closes, or nothing comes for this
    /// long. Returns how many came.
    pub fn sip(&mut self, enough: usize, patience: Duration) -> usize {
        let stream = self.reader.get_mut();
        stream.set_read_timeout(Some(patience)).expect("an option");
        let mut buffer = [0; 4096];
        let mut seen = 0;
        while seen < enough {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(count) => seen += count,
            }
        }
        stream.set_read_timeout(Some(PATIENCE)).expect("an option");
        seen
    }

    pub fn socket(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// Reads the answer to a `get` or `gat`: values of keys that were asked for, in their order.
    pub fn values(&mut self, keys: &[String]) {
        let mut open = keys.iter();
        loop {
            let line = self.line();
            if line == "END" {
                return;
            }
            let words: Vec<&str> = line.split(' ').collect();
            assert!(words[0] == "VALUE" && words.len() >= 4, "{line}");
            assert!(
                open.any(|key| key == words[1]),
                "{} was not asked for, or out of turn",
                words[1]
            );
            let len = words[3].parse().expect("a length");
            let data = self.block(len);
            check(words[1], &data);
        }
    }
}

/// A value must be one that somebody stored under its key.
pub fn check(key: &str, data: &[u8]) {
    assert!(
        data == value(key, data.len()),
        "a wrong value of {key}, {} bytes",
        data.len()
    );
}

/// Whether the server at this address answers a binary noop as one.
pub fn speaks_binary(address: SocketAddr) -> bool {
    let mut visitor = Visitor::new(address, 0, 0, false);
    let mut peer = visitor.connect();
    let mut noop = [0; 24];
    (noop[0], noop[1]) = (0x80, 0x0a);
    peer.send(&noop);
    // An ASCII server waits for the end of a line.
    peer.send(b"\r\n");
    let mut first = [0];
    matches!(peer.reader.read(&mut first), Ok(1)) && first[0] == 0x81
}
