//! A closed loop that does next to nothing: it writes bytes that were made beforehand, reads bytes, and counts
//! them. No generator can do less, so it says what the sockets and the server leave of a core.
//!
//! Requests are of one length, and so are their answers: this many bytes read are this many answers, and as many
//! requests follow. Nothing is compared; what server it is put on must be known to answer right.

use super::ground::ANSWER_TIMEOUT;
use super::rows::Traffic;
use crate::echo::Shape;
use crate::engine::thread::pin_thread;
use anyhow::{Context, bail, ensure};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Bytes read at a time.
const READ_LEN: usize = 64 << 10;

const EVENTS_MAX: usize = 1024;

/// Requests one behind the other, to be sent round and round, and the length of their answers.
pub(super) struct MinimalLoop<'r> {
    requests: &'r [u8],
    request_len: usize,
    answer_len: usize,
    connections: Vec<Connection>,
    poll: Poll,
    input: Vec<u8>,
}

struct Connection {
    socket: TcpStream,
    /// Where in the requests the next bytes to send begin.
    next: usize,
    /// Bytes to send.
    due: usize,
    /// Bytes of an answer whose end has not come.
    partial: usize,
}

impl<'r> MinimalLoop<'r> {
    /// Opens the connections of a load on a server that answers in this shape.
    pub(super) fn new(
        server: SocketAddr,
        traffic: &Traffic,
        shape: &Shape,
        requests: &'r [u8],
    ) -> anyhow::Result<Self> {
        let (request_len, answer_len) = (shape.request_len, shape.answer.len());
        let count = requests.len() / request_len;
        ensure!(
            count > 0 && requests.len() == count * request_len,
            "requests are not of {request_len} bytes each"
        );
        let poll = Poll::new().context("making an event queue")?;
        let mut connections = Vec::with_capacity(traffic.connections);
        for index in 0..traffic.connections {
            let socket = std::net::TcpStream::connect_timeout(&server, ANSWER_TIMEOUT)
                .with_context(|| format!("connecting to {server}"))?;
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
            let mut socket = TcpStream::from_std(socket);
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry()
                .register(&mut socket, Token(index), interest)?;
            connections.push(Connection {
                socket,
                next: count * index / traffic.connections * request_len,
                due: traffic.pipeline * request_len,
                partial: 0,
            });
        }
        Ok(MinimalLoop {
            requests,
            request_len,
            answer_len,
            connections,
            poll,
            input: vec![0; READ_LEN],
        })
    }

    /// Runs for this long on a core, and says how many requests were answered a second.
    pub(super) fn run(mut self, core: usize, time: Duration) -> anyhow::Result<f64> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                pin_thread(core).map_err(anyhow::Error::msg)?;
                self.turns(time)
            });
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn turns(&mut self, time: Duration) -> anyhow::Result<f64> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let begun = Instant::now();
        let mut answered = 0;
        for connection in &mut self.connections {
            connection.write(self.requests)?;
        }
        loop {
            match self.poll.poll(&mut events, Some(ANSWER_TIMEOUT)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            ensure!(!events.is_empty(), "no answer for {ANSWER_TIMEOUT:?}");
            for event in &events {
                let Token(index) = event.token();
                let connection = &mut self.connections[index];
                let bytes = connection.partial + connection.read(&mut self.input)?;
                let count = bytes / self.answer_len;
                connection.partial = bytes % self.answer_len;
                connection.due += count * self.request_len;
                answered += count;
                connection.write(self.requests)?;
            }
            let elapsed = begun.elapsed();
            if elapsed >= time {
                return Ok(answered as f64 / elapsed.as_secs_f64());
            }
        }
    }
}

impl Connection {
    /// Reads all that is there; how many bytes it was.
    fn read(&mut self, input: &mut [u8]) -> anyhow::Result<usize> {
        let mut bytes = 0;
        loop {
            match self.socket.read(input) {
                Ok(0) => bail!("closed by the server"),
                Ok(count) => {
                    bytes += count;
                    // A short read has emptied the socket: the next bytes raise a new event.
                    if count < input.len() {
                        return Ok(bytes);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(bytes),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes what is due, as far as the socket takes it.
    fn write(&mut self, requests: &[u8]) -> anyhow::Result<()> {
        while self.due > 0 {
            let end = requests.len().min(self.next + self.due);
            match self.socket.write(&requests[self.next..end]) {
                Ok(0) => bail!("the socket takes nothing"),
                Ok(count) => {
                    self.due -= count;
                    self.next = (self.next + count) % requests.len();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
