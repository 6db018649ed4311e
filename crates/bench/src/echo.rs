//! `evenkeel bench echo`: what the sockets allow.
//!
//! A server that takes requests of one fixed length and answers each with bytes of one fixed length:
//! the same bytes in each direction as a cache would move, with next to nothing done between. One
//! thread, one event loop; it reads what has come, answers all of it and writes once. What a cache
//! server reaches of its throughput is what parsing, looking up and composing leave of it.
//!
//! The answers are made before the first request comes. Only the keys are copied from the request
//! into them, so that a client that checks which key it is answered takes the same steps as with a
//! real server. The values are nobody's: clients must not check them (`--no-check`).

use anyhow::Context;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

/// Bytes read at a time.
const READ_LEN: usize = 64 << 10;

/// Most events of one turn.
const EVENTS_MAX: usize = 1024;

/// Longest key, value and most keys of a request that the command line takes.
const KEY_LEN_MAX: usize = 250;
const VALUE_LEN_MAX: usize = 1 << 20;
const KEYS_MAX: usize = 1000;

/// The token of the listener; connections have theirs from 0.
const LISTENER: Token = Token(usize::MAX);

/// Answers requests of one fixed length with bytes of one fixed length: the ceiling that the sockets
/// set for a cache server.
#[derive(Clone, Debug, clap::Args)]
pub struct EchoArgs {
    /// Address to listen on; port 0 takes a free one and prints it.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub listen: SocketAddr,

    /// The only request that is answered.
    #[arg(long, value_enum, default_value_t)]
    pub request: EchoRequest,

    /// Keys of each get.
    #[arg(long, default_value_t = 1, value_name = "KEYS")]
    pub multiget: usize,

    /// Length of every key in bytes.
    #[arg(long, default_value_t = 32, value_name = "BYTES")]
    pub key_size: usize,

    /// Length of every value in bytes.
    #[arg(long, default_value_t = 100, value_name = "BYTES")]
    pub value_size: usize,
}

/// What an echo server answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum EchoRequest {
    /// `get` of one or more keys, each a hit.
    #[default]
    Get,
    /// `set`.
    Set,
}

/// Runs an echo server until it is killed; prints where it listens once it does.
///
/// # Errors
/// [`BadUsage`](crate::BadUsage) when a length is out of its range; others when the machine refuses.
pub fn run_echo(args: &EchoArgs) -> anyhow::Result<()> {
    let shape = Shape::new(args.request, args.multiget, args.key_size, args.value_size)?;
    let mut listener = TcpListener::bind(args.listen)
        .with_context(|| format!("failed to listen on {}", args.listen))?;
    let poll = Poll::new().context("failed to make an event queue")?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    println!(
        "evenkeel bench echo listening on {}",
        listener.local_addr()?
    );
    io::stdout()
        .flush()
        .context("failed to print the address")?;
    Echo::new(shape, listener, poll)
        .run()
        .context("failed to wait for events")
}

/// Runs an echo server as a program: reports errors, returns the exit code (1 failed, 2 bad usage).
pub fn execute_echo(args: &EchoArgs) -> u8 {
    match run_echo(args) {
        Ok(()) => 0,
        Err(error) => crate::run::report_error("echo", &error),
    }
}

/// The bytes of a request and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) request_len: usize,
    pub(crate) key_len: usize,
    /// Where the keys are, in the request and in the answer; empty where the answer has none.
    pub(crate) keys: Vec<(usize, usize)>,
    /// The answer, with stand-ins for keys and values.
    pub(crate) answer: Vec<u8>,
}

impl Shape {
    pub(crate) fn new(
        request: EchoRequest,
        multiget: usize,
        key_len: usize,
        value_len: usize,
    ) -> Result<Self, crate::BadUsage> {
        let within = |what: &str, number: usize, min: usize, max: usize| {
            if (min..=max).contains(&number) {
                return Ok(());
            }
            let message = format!("{what}: {number} is not within {min} and {max}");
            Err(crate::BadUsage(message))
        };
        within("key size", key_len, 1, KEY_LEN_MAX)?;
        within("value size", value_len, 0, VALUE_LEN_MAX)?;
        within("keys of a get", multiget, 1, KEYS_MAX)?;
        let mut shape = Shape {
            request_len: 0,
            key_len,
            keys: Vec::new(),
            answer: Vec::new(),
        };
        match request {
            EchoRequest::Get => {
                for index in 0..multiget {
                    shape.answer.extend_from_slice(b"VALUE ");
                    let key_at = "get ".len() + index * (key_len + 1);
                    shape.keys.push((key_at, shape.answer.len()));
                    shape.answer.resize(shape.answer.len() + key_len, b'k');
                    let facts = format!(" 0 {value_len}\r\n");
                    shape.answer.extend_from_slice(facts.as_bytes());
                    shape.answer.resize(shape.answer.len() + value_len, b'v');
                    shape.answer.extend_from_slice(b"\r\n");
                }
                shape.answer.extend_from_slice(b"END\r\n");
                shape.request_len = "get".len() + multiget * (key_len + 1) + "\r\n".len();
            }
            EchoRequest::Set => {
                let facts = format!("set  0 0 {value_len}\r\n");
                shape.request_len = facts.len() + key_len + value_len + "\r\n".len();
                shape.answer.extend_from_slice(b"STORED\r\n");
            }
        }
        Ok(shape)
    }
}

/// The server: connections by token, and what they share.
struct Echo {
    shape: Shape,
    /// Where requests are read to.
    input: Vec<u8>,
    /// Answers to as many requests as `input` can hold, one behind the other.
    answers: Vec<u8>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    listener: TcpListener,
    poll: Poll,
}

struct Connection {
    socket: TcpStream,
    /// The beginning of a request whose end has not come.
    partial: Vec<u8>,
    /// Answers that the socket did not take yet.
    unwritten: Vec<u8>,
}

impl Echo {
    fn new(shape: Shape, listener: TcpListener, poll: Poll) -> Self {
        let input = vec![0; READ_LEN.max(2 * shape.request_len)];
        let answers = shape.answer.repeat(input.len() / shape.request_len);
        Echo {
            shape,
            input,
            answers,
            connections: Vec::new(),
            free: Vec::new(),
            listener,
            poll,
        }
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    Token(index) => self.serve(index),
                }
            }
        }
    }

    fn accept(&mut self) {
        // Anyone who connects while descriptors are used up stays in the queue of the kernel.
        while let Ok((mut socket, _)) = self.listener.accept() {
            let index = self.free.pop().unwrap_or(self.connections.len());
            let interest = Interest::READABLE | Interest::WRITABLE;
            let registered = self
                .poll
                .registry()
                .register(&mut socket, Token(index), interest);
            if socket.set_nodelay(true).and(registered).is_err() {
                continue;
            }
            let connection = Some(Connection {
                socket,
                partial: Vec::new(),
                unwritten: Vec::new(),
            });
            match self.connections.get_mut(index) {
                Some(place) => *place = connection,
                None => self.connections.push(connection),
            }
        }
    }

    fn serve(&mut self, index: usize) {
        let Some(Some(connection)) = self.connections.get_mut(index) else {
            return;
        };
        let served = connection.serve(&self.shape, &mut self.input, &mut self.answers);
        if served.is_err() {
            self.connections[index] = None;
            self.free.push(index);
        }
    }
}

impl Connection {
    /// Answers until the socket is empty, or takes no more; an error is the connection's end.
    fn serve(&mut self, shape: &Shape, input: &mut [u8], answers: &mut [u8]) -> io::Result<()> {
        if !self.write_rest()? {
            return Ok(());
        }
        loop {
            let kept = self.partial.len();
            input[..kept].copy_from_slice(&self.partial);
            let read = match self.socket.read(&mut input[kept..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let filled = kept + read;
            let requests = input[..filled].chunks_exact(shape.request_len);
            let partial = requests.remainder();
            self.partial.clear();
            self.partial.extend_from_slice(partial);
            let mut answered = 0;
            for request in requests {
                // Another length than was agreed: nothing right can come of it.
                if !request.ends_with(b"\r\n") {
                    return Err(ErrorKind::InvalidData.into());
                }
                for &(from, to) in &shape.keys {
                    answers[answered + to..][..shape.key_len]
                        .copy_from_slice(&request[from..][..shape.key_len]);
                }
                answered += shape.answer.len();
            }
            if !self.write(&answers[..answered])? {
                return Ok(());
            }
            // A short read has emptied the socket: the next bytes raise a new event.
            if filled < input.len() {
                return Ok(());
            }
        }
    }

    /// Writes answers; keeps what the socket does not take. Whether it took everything.
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<bool> {
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.unwritten.extend_from_slice(bytes);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Writes what the socket did not take before. Whether nothing is left.
    fn write_rest(&mut self) -> io::Result<bool> {
        let rest = std::mem::take(&mut self.unwritten);
        self.write(&rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(request: EchoRequest, multiget: usize) -> Shape {
        Shape::new(request, multiget, 4, 3).unwrap()
    }

    #[test]
    fn lengths_and_answers_are_those_of_memcached() {
        let get = shape(EchoRequest::Get, 2);
        assert_eq!(get.request_len, "get abcd efgh\r\n".len());
        assert_eq!(get.keys, [(4, 6), (9, 6 + 4 + 6 + 5 + 6)]);
        assert_eq!(
            String::from_utf8_lossy(&get.answer),
            "VALUE kkkk 0 3\r\nvvv\r\nVALUE kkkk 0 3\r\nvvv\r\nEND\r\n"
        );
        let set = shape(EchoRequest::Set, 1);
        assert_eq!(set.request_len, "set abcd 0 0 3\r\nvvv\r\n".len());
        assert_eq!(set.answer, b"STORED\r\n");
    }
}
