//! A small blocking client that never hides a byte.
//!
//! Tests of a protocol must not go through a library that mends what it reads. This client sends
//! what it is given and returns what came, with a few helpers for the commands that most tests need.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// How long one read or write may take. A server that answers nothing for this long hangs, on a busy machine too.
pub const IO_TIMEOUT: Duration = Duration::from_secs(60);

/// A value as a `get` or `gets` returned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The key of the `VALUE` line.
    pub key: String,
    /// The client's flags.
    pub flags: u32,
    /// The bytes.
    pub data: Vec<u8>,
    /// The CAS unique, of `gets` alone.
    pub cas: Option<u64>,
}

/// The answer to one meta command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaReply {
    /// `HD`, `VA`, `EN`, …
    pub status: String,
    /// The return flags, as sent.
    pub flags: Vec<String>,
    /// The value of a `VA`.
    pub data: Option<Vec<u8>>,
}

impl MetaReply {
    /// The token of a return flag: `Some("5")` for `t5` asked by `'t'`.
    pub fn flag(&self, letter: char) -> Option<&str> {
        self.flags.iter().find_map(|flag| flag.strip_prefix(letter))
    }
}

/// One connection.
pub struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    /// Connects, or panics.
    pub fn connect(address: SocketAddr) -> Client {
        Client::try_connect(address)
            .unwrap_or_else(|error| panic!("failed to connect to {address}: {error}"))
    }

    /// Connects.
    pub fn try_connect(address: SocketAddr) -> std::io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, IO_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(IO_TIMEOUT))?;
        stream.set_write_timeout(Some(IO_TIMEOUT))?;
        Ok(Client {
            reader: BufReader::new(stream),
        })
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes)
            .expect("the server reads what it is sent");
    }

    /// Sends bytes, where the peer may be gone.
    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// The next line without its CR LF.
    ///
    /// # Panics
    /// When the connection ends or stays silent for [`IO_TIMEOUT`].
    pub fn line(&mut self) -> String {
        self.try_line().expect("the server answers with a line")
    }

    /// The next line without its CR LF, where the peer may be gone.
    pub fn try_line(&mut self) -> std::io::Result<String> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        self.try_bytes(len)
            .expect("the server sends what it announced")
    }

    fn try_bytes(&mut self, len: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Sends a line and returns the line that answers it.
    pub fn command(&mut self, line: &str) -> String {
        self.try_command(line)
            .expect("the server answers a command")
    }

    /// Sends a line and returns the line that answers it, where the peer may be gone.
    pub fn try_command(&mut self, line: &str) -> std::io::Result<String> {
        self.try_send(format!("{line}\r\n").as_bytes())?;
        self.try_line()
    }

    /// `set` without flags or expiry; returns the answer line.
    pub fn set(&mut self, key: &str, value: &[u8]) -> String {
        self.set_with(key, 0, 0, value)
    }

    /// `set`; returns the answer line.
    pub fn set_with(&mut self, key: &str, flags: u32, exptime: i64, value: &[u8]) -> String {
        self.try_set(key, flags, exptime, value)
            .expect("the server answers a set")
    }

    /// `set`, where the peer may be gone; returns the answer line.
    pub fn try_set(
        &mut self,
        key: &str,
        flags: u32,
        exptime: i64,
        value: &[u8],
    ) -> std::io::Result<String> {
        let mut request = format!("set {key} {flags} {exptime} {}\r\n", value.len()).into_bytes();
        request.extend_from_slice(value);
        request.extend_from_slice(b"\r\n");
        self.try_send(&request)?;
        self.try_line()
    }

    /// `get` of one key; `None` is a miss.
    ///
    /// # Panics
    /// On any answer that is neither a value nor a miss.
    pub fn get(&mut self, key: &str) -> Option<Value> {
        self.read_many("get", &[key]).pop()
    }

    /// `get` of one key, where the peer may be gone or answer an error.
    pub fn try_get(&mut self, key: &str) -> std::io::Result<Option<Value>> {
        Ok(self.try_read_many("get", &[key])?.pop())
    }

    /// `gets` of one key: with the CAS unique.
    pub fn gets(&mut self, key: &str) -> Option<Value> {
        self.read_many("gets", &[key]).pop()
    }

    /// `get` of many keys: the values in the order they came.
    pub fn get_many(&mut self, keys: &[&str]) -> Vec<Value> {
        self.read_many("get", keys)
    }

    fn read_many(&mut self, verb: &str, keys: &[&str]) -> Vec<Value> {
        self.try_read_many(verb, keys)
            .expect("the server answers a get with values and END")
    }

    fn try_read_many(&mut self, verb: &str, keys: &[&str]) -> std::io::Result<Vec<Value>> {
        self.try_send(format!("{verb} {}\r\n", keys.join(" ")).as_bytes())?;
        let mut values = Vec::new();
        loop {
            let line = self.try_line()?;
            if line == "END" {
                return Ok(values);
            }
            let Some((mut value, len)) = parse_value_line(&line) else {
                return Err(std::io::Error::other(format!(
                    "`{line}` in answer to {verb}"
                )));
            };
            value.data = self.try_bytes(len)?;
            if self.try_bytes(2)? != b"\r\n" {
                return Err(std::io::Error::other("no CR LF after a value"));
            }
            values.push(value);
        }
    }

    /// `delete`; returns the answer line.
    pub fn delete(&mut self, key: &str) -> String {
        self.command(&format!("delete {key}"))
    }

    /// `incr`; returns the answer line.
    pub fn incr(&mut self, key: &str, delta: u64) -> String {
        self.command(&format!("incr {key} {delta}"))
    }

    /// `stats` with an argument (may be empty), as a map.
    ///
    /// # Panics
    /// As [`line`](Self::line) does.
    pub fn stats(&mut self, argument: &str) -> BTreeMap<String, String> {
        self.try_stats(argument)
            .expect("the server answers to stats")
    }

    /// `stats` with an argument (may be empty), as a map, where the peer may be gone or close the connection: a server
    /// whose serving lease has ended does so with every connection that it may have answered too late.
    pub fn try_stats(&mut self, argument: &str) -> std::io::Result<BTreeMap<String, String>> {
        self.try_send(format!("stats {argument}").trim_end().as_bytes())?;
        self.try_send(b"\r\n")?;
        let mut stats = BTreeMap::new();
        loop {
            let line = self.try_line()?;
            if line == "END" {
                return Ok(stats);
            }
            let (name, value) = line
                .strip_prefix("STAT ")
                .map(|rest| rest.split_once(' ').unwrap_or((rest, "")))
                .unwrap_or_else(|| panic!("`{line}` in answer to stats"));
            stats.insert(name.to_owned(), value.to_owned());
        }
    }

    /// A meta command without a value (`mg k v`, `md k`, `mn`).
    pub fn meta(&mut self, line: &str) -> MetaReply {
        self.send(format!("{line}\r\n").as_bytes());
        self.meta_reply()
    }

    /// `ms` with a value; `flags` as in `T30 c`, or empty.
    pub fn meta_set(&mut self, key: &str, value: &[u8], flags: &str) -> MetaReply {
        let line = format!("ms {key} {} {flags}", value.len());
        let mut request = line.trim_end().as_bytes().to_vec();
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(value);
        request.extend_from_slice(b"\r\n");
        self.send(&request);
        self.meta_reply()
    }

    /// Reads one meta answer.
    pub fn meta_reply(&mut self) -> MetaReply {
        let line = self.line();
        let mut words = line.split(' ').map(str::to_owned);
        let status = words.next().expect("split yields at least one word");
        let mut flags: Vec<String> = words.filter(|word| !word.is_empty()).collect();
        let data = (status == "VA").then(|| {
            let len = flags.remove(0).parse().expect("VA has a length");
            let data = self.bytes(len);
            assert_eq!(self.bytes(2), b"\r\n", "CR LF after a value");
            data
        });
        MetaReply {
            status,
            flags,
            data,
        }
    }

    /// True when the peer closed and everything it had sent was read.
    pub fn closed(&mut self) -> bool {
        loop {
            match self.reader.fill_buf() {
                Ok(bytes) => return bytes.is_empty(),
                // Of a process that was stopped and goes on, where reads have a timeout.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
            }
        }
    }

    /// Says that nothing more will be sent; answers still come.
    pub fn half_close(&mut self) {
        // Fails only when the peer is gone, which the next read reports.
        let _ = self.reader.get_mut().shutdown(Shutdown::Write);
    }

    /// Sends `bytes`, half-closes and returns everything that came until the peer closed.
    pub fn finish(mut self, bytes: &[u8]) -> Vec<u8> {
        self.send(bytes);
        self.half_close();
        let mut answer = Vec::new();
        self.reader
            .read_to_end(&mut answer)
            .expect("the server closes after its answers");
        answer
    }
}

/// `VALUE <key> <flags> <len> [<cas>]`.
fn parse_value_line(line: &str) -> Option<(Value, usize)> {
    let mut words = line.strip_prefix("VALUE ")?.split(' ');
    let key = words.next()?.to_owned();
    let flags = words.next()?.parse().ok()?;
    let len = words.next()?.parse().ok()?;
    let cas = words.next().map(str::parse).transpose().ok()?;
    Some((
        Value {
            key,
            flags,
            data: Vec::new(),
            cas,
        },
        len,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memcached;

    #[test]
    fn value_lines() {
        let (value, len) = parse_value_line("VALUE k 7 3 99").unwrap();
        assert_eq!(
            (value.key.as_str(), value.flags, len, value.cas),
            ("k", 7, 3, Some(99))
        );
        assert_eq!(parse_value_line("VALUE k 7 3").unwrap().0.cas, None);
        assert!(parse_value_line("SERVER_ERROR timeout").is_none());
        assert!(parse_value_line("VALUE k x 3").is_none());
    }

    #[test]
    fn classic_and_meta_helpers_speak_to_memcached() {
        let memcached = Memcached::spawn(&[]);
        let mut client = memcached.client();
        assert_eq!(client.set_with("n", 5, 0, b"41"), "STORED");
        assert_eq!(client.incr("n", 1), "42");
        let value = client.gets("n").unwrap();
        assert_eq!((value.flags, value.data.as_slice()), (5, &b"42"[..]));
        assert!(value.cas.is_some());
        assert_eq!(client.get_many(&["x", "n", "y"]).len(), 1);
        let reply = client.meta("mg n v f");
        assert_eq!((reply.status.as_str(), reply.flag('f')), ("VA", Some("5")));
        assert_eq!(reply.data, Some(b"42".to_vec()));
        assert_eq!(client.meta("mg none v").status, "EN");
        assert_eq!(client.meta_set("m", b"", "").status, "HD");
        assert_eq!(client.delete("n"), "DELETED");
        client.send(b"quit\r\n");
        assert!(client.closed());
        assert_eq!(
            memcached.client().finish(b"get a\r\nget b\r\n"),
            b"END\r\nEND\r\n"
        );
    }
}
