//! A closed loop that costs next to nothing: requests made beforehand, answers of one length.
//!
//! A server under pipelines answers more requests than a generator can draw, encode, parse and book
//! one by one, which [`crate::Driver`] does for loads of every kind. Here all answers are hits of one
//! size, so it is known beforehand where each begins, and what must stand where: the key that was
//! asked for, the lengths, the line ends. All of that is compared; the values are not (a checked load
//! has read them before). One read takes in many answers, and one write sends as many requests.

use super::ground::KEY_LEN;
use super::rows::Traffic;
use crate::echo::Shape;
use crate::engine::thread::{cpu_time, pin_thread};
use crate::value;
use anyhow::{Context, bail, ensure};
use evenkeel_protocol::compose::request;
use evenkeel_protocol::{Store, StoreVerb};
use evenkeel_types::KeyHash;
use evenkeel_workload::{Operation, WorkloadSpec};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Bytes of requests that are made beforehand. Far more than a processor's caches, so that the keys
/// in them are as good as drawn afresh each time.
const REQUESTS_BYTES: usize = 32 << 20;

/// Bytes read at a time.
const READ_LEN: usize = 256 << 10;

const EVENTS_MAX: usize = 1024;

/// Longest wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The requests of a load and what answers them.
pub(super) struct Exchange {
    shape: Shape,
    /// Requests of one length, one behind the other.
    requests: Vec<u8>,
    count: usize,
    /// What follows a key in the answer to a get.
    facts: Vec<u8>,
}

/// What came of a load.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exchanged {
    /// Requests answered within the time.
    pub(super) in_time: u64,
    /// Requests answered, those after the end that were under way included.
    pub(super) requests: u64,
    /// The time, the longest of all threads.
    pub(super) elapsed: Duration,
    /// The largest share of a processor that a thread used.
    pub(super) cpu_share: f64,
}

impl Exchange {
    /// The requests of a load on the keys of a workload, one a draw, all alike.
    pub(super) fn new(
        load: &Traffic,
        keys: &WorkloadSpec,
        value_len: usize,
    ) -> anyhow::Result<Exchange> {
        let shape = Shape::new(load.echo_request(), load.multiget, KEY_LEN, value_len)?;
        let workload = keys.build()?;
        let mut stream = workload.stream(0, 1);
        let count = (REQUESTS_BYTES / shape.request_len).max(2 * load.pipeline);
        let mut requests = Vec::with_capacity(count * shape.request_len);
        let (mut ids, mut names, mut value) = (Vec::new(), Vec::new(), Vec::new());
        for version in 0..count {
            names.clear();
            ids.clear();
            (0..load.multiget).for_each(|_| {
                stream.draw(0, &mut ids);
            });
            ids.iter()
                .for_each(|&id| workload.write_key(id, &mut names));
            let key = &names[..KEY_LEN];
            match load.operation {
                Operation::Get => request::get(&mut requests, names.chunks(KEY_LEN), false),
                _ => {
                    value.clear();
                    value::write(KeyHash::of(key), version as u64, value_len, &mut value);
                    let store = Store {
                        verb: StoreVerb::Set,
                        key,
                        flags: 0,
                        exptime: 0,
                        value: &value,
                        noreply: false,
                    };
                    request::store(&mut requests, &store);
                }
            }
        }
        ensure!(
            requests.len() == count * shape.request_len,
            "requests are not of one length"
        );
        Ok(Exchange {
            shape,
            requests,
            count,
            facts: format!(" 0 {value_len}\r\n").into_bytes(),
        })
    }

    /// Puts the load on a server for so long, with a thread on each core.
    pub(super) fn run(
        &self,
        server: SocketAddr,
        load: &Traffic,
        cores: &[usize],
        time: Duration,
    ) -> anyhow::Result<Exchanged> {
        let cores = &cores[..cores.len().min(load.connections)];
        let results: Vec<anyhow::Result<Exchanged>> = std::thread::scope(|scope| {
            let share = |index: usize| load.connections * index / cores.len();
            let threads: Vec<_> = (0..cores.len())
                .map(|index| {
                    let connections = share(index + 1) - share(index);
                    scope.spawn(move || {
                        pin_thread(cores[index]).map_err(anyhow::Error::msg)?;
                        // Threads begin at different requests.
                        let first = self.count * index / cores.len();
                        Loop::new(self, server, connections, load.pipeline, first)?.run(time)
                    })
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<_>| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().map(join).collect()
        });
        let mut sum = Exchanged::default();
        for result in results {
            let result = result?;
            sum.in_time += result.in_time;
            sum.requests += result.requests;
            sum.elapsed = sum.elapsed.max(result.elapsed);
            sum.cpu_share = sum.cpu_share.max(result.cpu_share);
        }
        Ok(sum)
    }

    fn request(&self, index: usize) -> &[u8] {
        &self.requests[index * self.shape.request_len..][..self.shape.request_len]
    }

    /// Whether this is the answer to a request, whatever its values are.
    #[inline]
    fn answers(&self, answer: &[u8], index: usize) -> bool {
        let shape = &self.shape;
        if shape.keys.is_empty() {
            return answer == shape.answer;
        }
        let request = self.request(index);
        let right = |&(from, to): &(usize, usize)| {
            let line = &answer[to - VALUE.len()..];
            let (word, line) = line.split_at(VALUE.len());
            let (key, line) = line.split_at(shape.key_len);
            word == VALUE
                && key == &request[from..from + shape.key_len]
                && line.starts_with(&self.facts)
        };
        shape.keys.iter().all(right) && answer.ends_with(b"\r\nEND\r\n")
    }
}

const VALUE: &[u8] = b"VALUE ";

/// One thread's connections.
struct Loop<'e> {
    exchange: &'e Exchange,
    connections: Vec<Connection>,
    poll: Poll,
    input: Vec<u8>,
}

struct Connection {
    socket: TcpStream,
    /// Index of the oldest request that is unanswered.
    oldest: usize,
    /// Index of the next request to send.
    next: usize,
    /// The beginning of an answer whose end has not come.
    partial: Vec<u8>,
    /// What the socket did not take yet.
    unwritten: Vec<u8>,
}

impl<'e> Loop<'e> {
    fn new(
        exchange: &'e Exchange,
        server: SocketAddr,
        connections: usize,
        pipeline: usize,
        first: usize,
    ) -> anyhow::Result<Self> {
        let poll = Poll::new().context("making an event queue")?;
        let mut all = Vec::with_capacity(connections);
        for index in 0..connections {
            let socket = std::net::TcpStream::connect_timeout(&server, ANSWER_TIMEOUT)
                .with_context(|| format!("connecting to {server}"))?;
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
            let mut socket = TcpStream::from_std(socket);
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry()
                .register(&mut socket, Token(index), interest)?;
            let start = (first + exchange.count * index / connections) % exchange.count;
            all.push(Connection {
                socket,
                oldest: start,
                next: start,
                partial: Vec::new(),
                unwritten: Vec::new(),
            });
        }
        for connection in &mut all {
            connection.send(exchange, pipeline)?;
        }
        Ok(Loop {
            exchange,
            connections: all,
            poll,
            input: vec![0; READ_LEN.max(2 * exchange.shape.answer.len())],
        })
    }

    fn run(mut self, time: Duration) -> anyhow::Result<Exchanged> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let (begun, cpu_begun) = (Instant::now(), cpu_time());
        let mut result = Exchanged::default();
        let mut ended = false;
        let mut heard = begun;
        while !ended || self.connections.iter().any(|c| c.oldest != c.next) {
            match self.poll.poll(&mut events, Some(ANSWER_TIMEOUT)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            let before = result.requests;
            for event in &events {
                let Token(index) = event.token();
                let connection = &mut self.connections[index];
                let served = connection.serve(self.exchange, &mut self.input, ended);
                result.requests += served.with_context(|| format!("connection {index}"))?;
            }
            let now = Instant::now();
            if result.requests > before {
                heard = now;
            }
            ensure!(
                now < heard + ANSWER_TIMEOUT,
                "no answer for {ANSWER_TIMEOUT:?}"
            );
            if !ended && now >= begun + time {
                ended = true;
                result.in_time = result.requests;
                result.elapsed = now - begun;
                let cpu = cpu_time().saturating_sub(cpu_begun);
                result.cpu_share = cpu.as_secs_f64() / result.elapsed.as_secs_f64();
            }
        }
        Ok(result)
    }
}

impl Connection {
    /// Takes in the answers that are there and sends as many requests, unless it is the end. How many
    /// requests were answered.
    fn serve(&mut self, exchange: &Exchange, input: &mut [u8], ended: bool) -> anyhow::Result<u64> {
        let rest = std::mem::take(&mut self.unwritten);
        self.write(&rest)?;
        let answer_len = exchange.shape.answer.len();
        let mut answered = 0;
        loop {
            let kept = self.partial.len();
            input[..kept].copy_from_slice(&self.partial);
            let read = match self.socket.read(&mut input[kept..]) {
                Ok(0) => bail!("closed by the server"),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(answered),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let filled = kept + read;
            let answers = input[..filled].chunks_exact(answer_len);
            let partial = answers.remainder();
            self.partial.clear();
            self.partial.extend_from_slice(partial);
            let mut count = 0;
            for answer in answers {
                ensure!(
                    self.oldest != self.next && exchange.answers(answer, self.oldest),
                    "'{}' in answer to '{}'",
                    beginning(answer),
                    beginning(exchange.request(self.oldest))
                );
                self.oldest = (self.oldest + 1) % exchange.count;
                count += 1;
            }
            answered += count as u64;
            if !ended {
                self.send(exchange, count)?;
            }
            // A short read has emptied the socket: the next bytes raise a new event.
            if filled < input.len() {
                return Ok(answered);
            }
        }
    }

    /// Sends the next requests.
    fn send(&mut self, exchange: &Exchange, mut count: usize) -> io::Result<()> {
        let len = exchange.shape.request_len;
        while count > 0 {
            let now = count.min(exchange.count - self.next);
            self.write(&exchange.requests[self.next * len..(self.next + now) * len])?;
            self.next = (self.next + now) % exchange.count;
            count -= now;
        }
        Ok(())
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        // What waits goes first.
        while !bytes.is_empty() && self.unwritten.is_empty() {
            match self.socket.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.unwritten.extend_from_slice(bytes);
        Ok(())
    }
}

/// The first bytes for a message.
fn beginning(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::rows::LOADS;
    use super::*;
    use evenkeel_protocol::{Limits, Reply, ReplyOutcome, parse_reply};

    #[test]
    fn an_answer_is_right_when_a_parser_says_so() {
        let keys: WorkloadSpec = format!("keys=100 key-size={KEY_LEN} mix=mix(get=1)")
            .parse()
            .unwrap();
        let load = LOADS
            .map(|load| load.traffic)
            .into_iter()
            .find(|load| load.multiget == 10);
        let load = &load.unwrap();
        let exchange = Exchange::new(load, &keys, 20).unwrap();
        let mut answer = exchange.shape.answer.clone();
        for &(from, to) in &exchange.shape.keys {
            let key = exchange.request(3)[from..from + KEY_LEN].to_owned();
            answer[to..to + KEY_LEN].copy_from_slice(&key);
        }
        assert!(exchange.answers(&answer, 3));
        // The keys that the parser sees, as long as it sees ten values of 20 bytes and the end.
        let parsed = |answer: &[u8]| {
            let (mut keys, mut at) = (Vec::new(), 0);
            loop {
                match parse_reply(&answer[at..], &Limits::default()) {
                    ReplyOutcome::Reply { reply, consumed } => {
                        at += consumed;
                        match reply {
                            Reply::Value(v) if v.data.len() == 20 => keys.push(v.key.to_owned()),
                            Reply::End if at == answer.len() => return Some(keys),
                            _ => return None,
                        }
                    }
                    _ => return None,
                }
            }
        };
        let right = parsed(&answer).unwrap();
        assert_eq!(right.len(), 10);
        for byte in 0..answer.len() {
            let mut wrong = answer.clone();
            wrong[byte] ^= 1;
            if parsed(&wrong).as_ref() != Some(&right) {
                // Flags and the line ends behind values are left to the parser's own tests.
                let seen = !exchange.answers(&wrong, 3);
                let between = answer[byte] == b'\r' || answer[byte] == b'\n';
                assert!(seen || between, "byte {byte}");
            }
        }
        assert!(!exchange.answers(&answer, 4), "other keys were asked for");
    }
}
