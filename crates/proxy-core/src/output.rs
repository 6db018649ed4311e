//! What a core wants done: the queue of outputs, and the next deadline.

use crate::config::{MapSource, TlsId};
use crate::ids::{BackendId, ClientId};
use crate::logged::LoggedRequest;
use crate::outage::ServerState;
use crate::profile::ProfileChunk;
use crate::stats::listing::StatsKind;
use evenkeel_types::{Epoch, Instant};
use std::collections::VecDeque;
use std::sync::Arc;

/// Something for the driver to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// There is something in [`ProxyCore::client_output`](crate::ProxyCore::client_output).
    WriteClient(ClientId),
    /// Give the client's input again, even if it is empty, and go on reading.
    FeedClient(ClientId),
    /// Close the client's connection. The core has forgotten it.
    CloseClient(ClientId),
    /// Connect to a server, then say [`ProxyCore::backend_connected`](crate::ProxyCore::backend_connected) or
    /// [`ProxyCore::backend_lost`](crate::ProxyCore::backend_lost).
    Connect {
        /// The connection's name from now on.
        id: BackendId,
        /// Host name or IP address.
        host: String,
        /// Port.
        port: u16,
        /// How to speak TLS; `None` for a plain connection.
        tls: Option<TlsId>,
    },
    /// There is something in [`ProxyCore::backend_output`](crate::ProxyCore::backend_output).
    WriteBackend(BackendId),
    /// Close the connection to a server, and forget what it sent.
    CloseBackend(BackendId),
    /// A server knows this newer map: ask the coordinator for it now.
    WantMap {
        /// Whose map.
        source: MapSource,
        /// Its epoch.
        epoch: Epoch,
    },
    /// Tell the coordinator that nothing is under way here any more which was begun before this version of a pool's step.
    Acknowledged {
        /// Whose step.
        source: MapSource,
        /// The pool.
        pool: Arc<str>,
        /// The step's number.
        version: u64,
    },
    /// Tell the coordinator which servers of a pool's ring are out of use here.
    Unreached {
        /// Whose ring.
        source: MapSource,
        /// The pool.
        pool: Arc<str>,
        /// Number of the plan that lists them.
        plan: u64,
        /// Their places in its list.
        servers: Vec<u16>,
    },
    /// Add up the workers' counters and say [`ProxyCore::answer_stats`](crate::ProxyCore::answer_stats).
    Stats(StatsTicket),
    /// Say where this client reaches the proxy, by [`ProxyCore::answer_own_address`](crate::ProxyCore::answer_own_address).
    OwnAddress(AddressTicket),
    /// Say [`ProxyCore::reset_stats`](crate::ProxyCore::reset_stats) to the core of every worker.
    ResetStats,
    /// Say that a server came into use or went out of it.
    ServerState(Box<ServerState>),
    /// Log this request.
    Log(Box<LoggedRequest>),
    /// Write these records.
    Profile(Box<ProfileChunk>),
}

/// A `stats` command that awaits its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsTicket {
    pub(crate) client: ClientId,
    pub(crate) slot: u64,
    pub(crate) kind: StatsKind,
}

/// A `config get cluster` that awaits its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressTicket {
    /// Who asked.
    pub client: ClientId,
    pub(crate) slot: u64,
}

/// What is to be done, in order, and when the worker wants to look at the time again.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    outputs: VecDeque<Output>,
    /// Not later than the first deadline; earlier ones have passed into nothing.
    next_deadline: Option<Instant>,
}

impl Outbox {
    #[inline]
    pub fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Something is to be done at this time, if nothing happens before.
    #[inline]
    pub fn due_at(&mut self, at: Instant) {
        self.next_deadline = Some(self.next_deadline.map_or(at, |next| next.min(at)));
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.next_deadline
    }

    /// All deadlines were looked at: this is the first of those to come.
    pub fn set_deadline(&mut self, first: Option<Instant>) {
        self.next_deadline = first;
    }
}
