//! Connections, and what their ends have received.

use evenkeel_proxy_core::{BackendId, ClientId};
use evenkeel_server_core::{ConnectionId, LinkId};

/// Two ends of a connection.
pub(super) const INITIATOR: usize = 0;
pub(super) const ACCEPTOR: usize = 1;

/// Most spare buffers.
pub(super) const SPARE_MAX: usize = 1024;

/// Who holds an end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who {
    Client(usize),
    ProxyClient(usize, ClientId),
    Backend(usize, BackendId),
    /// A worker's link to a worker of another server.
    Link(usize, LinkId),
    Session(usize, ConnectionId),
    Gone,
}

/// What a connection passes, which decides what bytes take from one end to the other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// From an application to its proxy.
    Local,
    /// To a server.
    Network,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub ends: [Who; 2],
    /// What each end received.
    pub input: [Input; 2],
    /// Waits for a turn of its worker already.
    pub waits: bool,
    /// Whether it is an application's with its proxy, or one with a server.
    pub way: Way,
}

/// What an end received and has not consumed.
#[derive(Debug, Default)]
pub(super) struct Input {
    pub bytes: Vec<u8>,
    /// This many of them are consumed. Invariant: at most half, so that none is moved more than once on
    /// average.
    pub consumed: usize,
}

impl Input {
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.consumed..]
    }

    /// This many bytes at the front are done with.
    pub fn consume(&mut self, count: usize) {
        self.consumed += count;
        if self.consumed == self.bytes.len() {
            self.bytes.clear();
            self.consumed = 0;
        } else if self.consumed > self.bytes.len() / 2 {
            self.bytes.drain(..self.consumed);
            self.consumed = 0;
        }
    }

    /// Bytes arrive. Gives a buffer that is not needed any more.
    pub fn receive(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        if self.bytes.is_empty() {
            return core::mem::replace(&mut self.bytes, bytes);
        }
        self.bytes.extend_from_slice(&bytes);
        bytes
    }
}

/// Every connection there ever was.
#[derive(Debug, Default)]
pub(super) struct Network {
    pub connections: Vec<Connection>,
    /// Buffers to be used again.
    pub spare: Vec<Vec<u8>>,
}

impl Network {
    pub fn connect(&mut self, from: Who, to: Who, way: Way) -> usize {
        self.connections.push(Connection {
            ends: [from, to],
            input: [Input::default(), Input::default()],
            waits: false,
            way,
        });
        self.connections.len() - 1
    }

    /// An empty buffer.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// A buffer is not needed any more.
    pub fn give_back(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_consumed_in_order() {
        let mut input = Input::default();
        assert_eq!(input.receive(b"abcdef".to_vec()), b"");
        input.consume(2);
        assert_eq!(input.rest(), b"cdef");
        assert_eq!(input.receive(b"gh".to_vec()), b"gh");
        assert_eq!((input.rest(), input.consumed), (&b"cdefgh"[..], 2));
        input.consume(3);
        assert_eq!((input.rest(), input.consumed), (&b"fgh"[..], 0));
        input.consume(3);
        assert_eq!(input.rest(), b"");
        assert_eq!(input.receive(b"i".to_vec()), b"");
        assert_eq!(input.rest(), b"i");
    }
}
