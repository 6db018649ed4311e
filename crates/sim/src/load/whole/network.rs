//! Connections, and bytes on their way.

use super::{Cluster, Event, now_at};
use crate::history::Nanos;
use evenkeel_proxy_core::{BackendId, ClientId};
use evenkeel_server_core::{ConnectionId, LinkId};

/// Two ends of a connection.
pub(super) const INITIATOR: usize = 0;
pub(super) const ACCEPTOR: usize = 1;

/// Most spare buffers.
const SPARE_MAX: usize = 1024;

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
    way: Way,
}

/// What an end received and has not consumed.
#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// So many of them are consumed. Invariant: at most half, so that none is moved more than once on
    /// average.
    consumed: usize,
}

impl Input {
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.consumed..]
    }

    /// So many bytes at the front are done with.
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
    fn receive(&mut self, bytes: Vec<u8>) -> Vec<u8> {
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
    spare: Vec<Vec<u8>>,
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

impl Cluster<'_> {
    /// An end sends bytes at a time.
    pub(super) fn send(&mut self, connection: usize, from: usize, at: Nanos, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return self.network.give_back(bytes);
        }
        let way = self.network.connections[connection].way;
        let delay = match way {
            Way::Local => self.plan.local,
            Way::Network => self.plan.network,
        };
        let event = Event::Bytes(connection, 1 - from, bytes);
        self.queue.push_in_line(way as usize, at + delay, event);
    }

    /// A connection stands, at its initiator.
    pub(super) fn opened(&mut self, connection: usize) {
        let now = now_at(self.time);
        match self.network.connections[connection].ends[INITIATOR] {
            Who::Backend(proxy, id) => self.backend_stands(proxy, id),
            Who::Link(worker, link) => {
                let w = &mut self.workers[worker];
                if let Some((_, stands)) = w.links.get_mut(&link) {
                    *stands = true;
                    w.core.link_up(now, link);
                }
                self.settle_worker(worker, self.time);
            }
            _ => {}
        }
    }

    /// Bytes arrive at an end.
    pub(super) fn arrived(&mut self, connection: usize, end: usize, bytes: Vec<u8>) {
        let input = &mut self.network.connections[connection].input[end];
        let bytes = input.receive(bytes);
        self.network.give_back(bytes);
        let now = now_at(self.time);
        match self.network.connections[connection].ends[end] {
            Who::Client(client) => self.take_answers(client),
            Who::ProxyClient(proxy, id) => {
                if self.proxies[proxy].core.client_wants_input(id) {
                    self.feed_proxy(proxy, id, connection);
                }
                self.settle_proxy(proxy);
            }
            Who::Backend(proxy, id) => {
                let input = &mut self.network.connections[connection].input[INITIATOR];
                let core = &mut self.proxies[proxy].core;
                let consumed = core.backend_input(now.monotonic, id, input.rest());
                input.consume(consumed);
                self.settle_proxy(proxy);
            }
            Who::Link(worker, link) => {
                let input = &mut self.network.connections[connection].input[INITIATOR];
                let core = &mut self.workers[worker].core;
                let consumed = core.link_input(now, link, input.rest());
                input.consume(consumed);
                self.settle_worker(worker, self.time);
            }
            Who::Session(worker, _) => self.input_waits(worker, connection),
            Who::Gone => {}
        }
    }

    /// A connection ends at both ends.
    pub(super) fn hang_up(&mut self, connection: usize) {
        let ends = &mut self.network.connections[connection].ends;
        for end in core::mem::replace(ends, [Who::Gone; 2]) {
            if let Who::Session(worker, id) = end {
                self.workers[worker].close(id);
            }
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
