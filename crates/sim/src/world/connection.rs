//! A connection between two hosts, and what is on its way on it.

use crate::history::Nanos;
use evenkeel_proxy_core::{BackendId, ClientId};
use evenkeel_server_core::{ConnectionId, LinkId};
use evenkeel_types::ServerId;
use std::collections::VecDeque;

/// Names a connection; never used again.
pub(super) type ConnectionNumber = usize;

/// A connection's two ends are its initiator and its acceptor.
pub(super) const INITIATOR: usize = 0;
pub(super) const ACCEPTOR: usize = 1;

/// Who holds an end.
#[derive(Clone, Debug)]
pub(super) enum Who {
    Application(usize),
    ProxyClient(Option<ClientId>),
    ProxyBackend(BackendId),
    /// A link to a worker of another server.
    Link {
        worker: u16,
        link: LinkId,
    },
    /// A server's side of a connection to another one, which it asks for its votes.
    Peer(ServerId),
    /// A worker's side of any connection.
    Session {
        worker: u16,
        id: Option<ConnectionId>,
    },
}

#[derive(Debug)]
pub(super) struct End {
    pub who: Who,
    pub host: usize,
    /// Which life of the host's process it belongs to.
    pub life: u32,
    pub open: bool,
    /// Received and not consumed.
    pub input: Vec<u8>,
}

#[derive(Debug)]
pub(super) enum Chunk {
    /// The connection stands.
    Open,
    Bytes(Vec<u8>),
    /// There will be nothing more.
    Closed,
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub chunks: VecDeque<(Nanos, Chunk)>,
    /// When the last one arrives.
    pub busy_until: Nanos,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub ends: [End; 2],
    /// What each end has sent.
    pub lanes: [Lane; 2],
}

/// What arrived at an end.
pub(super) enum Arrival {
    Open,
    Bytes,
    Closed,
}
