//! One connection: bytes out and bytes in; what they mean is [`Drawn`]'s or [`Prepared`]'s.

use super::drawn::Drawn;
use super::prepared::Prepared;
use super::wire::{Loss, Taken, is_not_now};
use super::work::Work;
use crate::target::Socket;
use std::io::{self, ErrorKind, Read};
use std::mem;

/// Bytes read at a time, into memory that a thread's connections share. Larger answers grow a buffer of their
/// connection's own.
pub(crate) const INPUT_LEN: usize = 64 << 10;

/// The requests on a connection.
pub(crate) enum Traffic {
    Drawn(Drawn),
    Prepared(Prepared),
}

/// A connection to the target.
pub(crate) struct Connection {
    /// `None`: down, until `retry_at_ns`.
    pub(crate) socket: Option<Socket>,
    pub(crate) retry_at_ns: u64,
    /// The beginning of an answer whose end has not come, in the first `kept` bytes.
    partial: Vec<u8>,
    kept: usize,
    /// Bytes that the parser wants to see before it is asked again.
    wanted: usize,
    traffic: Traffic,
}

impl Connection {
    pub(crate) fn new(socket: Socket, traffic: Traffic) -> Self {
        Connection {
            socket: Some(socket),
            retry_at_ns: 0,
            partial: Vec::new(),
            kept: 0,
            wanted: 0,
            traffic,
        }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        match &self.traffic {
            Traffic::Drawn(drawn) => drawn.is_idle(),
            Traffic::Prepared(prepared) => prepared.is_idle(),
        }
    }

    /// Whether the oldest request was sent before this.
    pub(crate) fn waits_since_before(&self, ns: u64) -> bool {
        let since = match &self.traffic {
            Traffic::Drawn(drawn) => drawn.waits_since(),
            Traffic::Prepared(prepared) => prepared.waits_since(),
        };
        since.is_some_and(|since_ns| since_ns < ns)
    }

    /// Where a request that is due can be made; nothing where there is no room for it.
    pub(crate) fn takes_due(&mut self, pipeline: usize) -> Option<&mut Drawn> {
        match &mut self.traffic {
            Traffic::Drawn(drawn) if self.socket.is_some() && drawn.has_room(pipeline) => {
                Some(drawn)
            }
            _ => None,
        }
    }

    /// Sends requests while there is room: what follows answers first, then, where `fresh`, new ones.
    pub(crate) fn send(&mut self, work: &mut Work, now_ns: u64, fresh: bool) -> Result<(), Loss> {
        let Some(socket) = &mut self.socket else {
            return Ok(());
        };
        match &mut self.traffic {
            Traffic::Drawn(drawn) => {
                drawn.fill(work, now_ns, fresh);
                drawn.flush(socket, work)
            }
            Traffic::Prepared(prepared) => prepared.send(socket, work, now_ns),
        }
    }

    /// Reads and takes in every answer that is there. `input` is memory to read into.
    pub(crate) fn receive(&mut self, work: &mut Work, input: &mut [u8]) -> Result<(), Loss> {
        loop {
            let Some(socket) = &mut self.socket else {
                return Ok(());
            };
            let is_large = self.wanted > input.len();
            let buffer = if is_large {
                // The parser refuses answers above its limits, so this ends there.
                let len = self.wanted.max(2 * self.kept).max(self.partial.len());
                self.partial.resize(len, 0);
                &mut self.partial[..]
            } else {
                input[..self.kept].copy_from_slice(&self.partial[..self.kept]);
                &mut *input
            };
            let count = match socket.read(&mut buffer[self.kept..]) {
                Ok(0) => {
                    return Err(io::Error::new(
                        ErrorKind::UnexpectedEof,
                        "closed by the server",
                    ));
                }
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if is_not_now(&error) => return Ok(()),
                Err(error) => return Err(error),
            };
            work.stats.counters.received_bytes += count as u64;
            let filled = self.kept + count;
            // A short read has emptied the socket: the next bytes raise a new event.
            let emptied = filled < buffer.len();
            if is_large {
                self.kept = filled;
                if filled >= self.wanted {
                    let mut bytes = mem::take(&mut self.partial);
                    let taken = self.take_answers(&bytes[..filled], work)?;
                    bytes.copy_within(taken..filled, 0);
                    self.partial = bytes;
                    self.kept = filled - taken;
                }
            } else {
                let bytes = &input[..filled];
                let taken = match filled >= self.wanted {
                    true => self.take_answers(bytes, work)?,
                    false => 0,
                };
                self.kept = filled - taken;
                self.partial.clear();
                self.partial.extend_from_slice(&bytes[taken..]);
            }
            if emptied {
                return Ok(());
            }
        }
    }

    /// Takes in the answers that are there; how many bytes they were.
    fn take_answers(&mut self, bytes: &[u8], work: &mut Work) -> Result<usize, Loss> {
        let now_ns = work.now_ns();
        let Taken { taken, wanted } = match &mut self.traffic {
            Traffic::Drawn(drawn) => drawn.take_answers(bytes, work, now_ns)?,
            Traffic::Prepared(prepared) => prepared.take_answers(bytes, work, now_ns)?,
        };
        self.wanted = wanted;
        Ok(taken)
    }

    /// Closes the connection and gives up what was under way.
    pub(crate) fn close(&mut self, work: &mut Work, retry_at_ns: u64) {
        self.socket = None;
        self.retry_at_ns = retry_at_ns;
        self.kept = 0;
        self.wanted = 0;
        work.book();
        let lost = match &mut self.traffic {
            Traffic::Drawn(drawn) => drawn.close(work),
            Traffic::Prepared(prepared) => prepared.close(),
        };
        (0..lost).for_each(|_| work.abandon());
    }
}
