//! What the cluster is at one moment.

use core::fmt;
use core::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::sync::Arc;

use evenkeel_types::{Epoch, Instant, Version};

use super::{Violation, at, worker};
use crate::client::{Answer, Canonical, ClientLeases, Grant, ReadTicket, WriteTicket};
use crate::exhaustive::scopes::{Budget, ClientPlan};
use crate::server::{HotKeys, PropagationTag};
use crate::shadow::NewestHeard;

/// The whole cluster.
#[derive(Clone)]
pub(in super::super) struct State {
    /// True time in milliseconds.
    pub(super) time: u64,
    /// The speeds of clocks in millionths: of all servers, and of all proxies.
    pub(super) speeds: [u64; 2],
    pub(super) servers: Vec<Arc<Server>>,
    pub(super) proxies: Vec<Proxy>,
    pub(super) clients: Vec<Client>,
    /// From server (row) to server.
    pub(super) links: Vec<Link>,
    /// From proxy (row) to server.
    pub(super) wires: Vec<Wire>,
    /// What the key was, one after the other.
    pub(super) history: Vec<Was>,
    /// Owner of the key by each map, from epoch 1.
    pub(super) owners: Vec<Option<usize>>,
    /// Which of the scope's maps comes next.
    pub(super) maps_made: usize,
    pub(super) left: Budget,
    pub(in super::super) violation: Option<Violation>,
}

/// A state of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Was {
    pub(super) since: u64,
    pub(super) is_gone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Item {
    pub(super) version: Version,
    /// In the history.
    pub(super) position: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Replica {
    pub(super) epoch: Epoch,
    pub(super) item: Item,
}

#[derive(Clone)]
pub(super) struct Server {
    /// Which life this is.
    pub(super) life: u8,
    pub(super) epoch: Epoch,
    pub(super) hot: HotKeys,
    pub(super) item: Option<Item>,
    /// The map from which on it is the key's home.
    pub(super) home_since: Option<Epoch>,
    pub(super) replica: Option<Replica>,
    /// The newest version given.
    pub(super) counter: u64,
    /// The newest map by which a home has sent anything here.
    pub(super) newest_heard: NewestHeard,
    /// The newest position that a replica here had in this life.
    pub(super) filled: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Proxy {
    pub(super) epoch: Epoch,
    pub(super) leases: Arc<Canonical>,
    /// True time at which the lease is over at the latest, and which life of which server granted it.
    pub(super) leased_until: u64,
    pub(super) leased_by: (usize, u8),
    /// Where a SPORE client reads for a whole lease, once it has read.
    pub(super) sticks: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) proxy: usize,
    pub(super) ops: VecDeque<Op>,
    pub(super) next: usize,
    /// The newest position shown, or written.
    pub(super) seen: usize,
    /// The newest position written.
    pub(super) wrote: Option<usize>,
    /// What was last shown, for a swap.
    pub(super) shown: Option<Item>,
    pub(super) left: ClientPlan,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Op {
    pub(super) number: usize,
    pub(super) sent_at: u64,
    /// `Some` for a read, but for a moment while it is judged.
    pub(super) ticket: Option<ReadTicket>,
    /// Of a write that may become known, until it is answered.
    pub(super) write: Option<WriteTicket>,
    pub(super) is_read: bool,
    pub(super) asked: Option<usize>,
    pub(super) answer: Option<Reply>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Change {
    Set,
    Delete,
    Swap(Item),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    Read { is_replica: bool, epoch: Epoch },
    Write { change: Change, epoch: Epoch },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) answer: Answer,
    /// What it tells of the key.
    pub(super) position: Option<usize>,
    pub(super) grant: Option<Grant>,
}

pub(super) const FAILED: Reply = Reply {
    answer: Answer::Failed,
    position: None,
    grant: None,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ask {
    pub(super) client: usize,
    pub(super) number: usize,
    pub(super) request: Request,
}

/// Connections from a proxy to a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wire {
    /// The oldest first; the last is the present one, the others were given up.
    pub(super) streams: Vec<VecDeque<Ask>>,
    /// Of the present one.
    pub(super) answers: VecDeque<(usize, usize, Reply)>,
}

impl Default for Wire {
    fn default() -> Self {
        Wire {
            streams: vec![VecDeque::new()],
            answers: VecDeque::new(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    /// `None` removes.
    pub(super) item: Option<Item>,
    pub(super) epoch: Epoch,
    /// Of the item, or the newest of the home.
    pub(super) version: Version,
    pub(super) tag: PropagationTag,
}

/// Connections from a home to a shadow.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    /// The oldest first; the last is the present one if the link is up.
    pub(super) streams: Vec<VecDeque<Message>>,
    pub(super) is_up: bool,
    /// Broken, and its home does not know.
    pub(super) is_broken: bool,
    /// Of the present one.
    pub(super) confirmations: VecDeque<(PropagationTag, bool)>,
}

impl Link {
    /// Whether that stream is the one that its home has.
    pub(super) fn is_present(&self, stream: usize) -> bool {
        self.is_up && stream + 1 == self.streams.len()
    }
}

impl State {
    pub(super) fn server_now(&self) -> Instant {
        at(self.time, self.speeds[0])
    }

    pub(super) fn proxy_now(&self) -> Instant {
        at(self.time, self.speeds[1])
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.owners.len() as u64)
    }

    pub(super) fn owner(&self) -> Option<usize> {
        *self.owners.last().expect("there is always a map")
    }

    /// Of the present state of the key.
    pub(super) fn position(&self) -> usize {
        self.history.len() - 1
    }

    pub(super) fn link(&self, home: usize, shadow: usize) -> &Link {
        &self.links[home * self.servers.len() + shadow]
    }

    pub(super) fn link_mut(&mut self, home: usize, shadow: usize) -> &mut Link {
        let row = home * self.servers.len();
        &mut self.links[row + shadow]
    }

    pub(super) fn wire(&self, proxy: usize, server: usize) -> &Wire {
        &self.wires[proxy * self.servers.len() + server]
    }

    pub(super) fn wire_mut(&mut self, proxy: usize, server: usize) -> &mut Wire {
        let row = proxy * self.servers.len();
        &mut self.wires[row + server]
    }

    pub(super) fn server_mut(&mut self, server: usize) -> &mut Server {
        Arc::make_mut(&mut self.servers[server])
    }

    /// Takes the leases of a proxy back.
    pub(super) fn keep_leases(&mut self, proxy: usize, leases: ClientLeases) {
        let now = self.proxy_now();
        let ours = self
            .clients
            .iter_mut()
            .filter(|client| client.proxy == proxy);
        let ops = ours.flat_map(|client| client.ops.iter_mut());
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for op in ops {
            reads.extend(op.ticket.as_mut());
            writes.extend(op.write.as_mut());
        }
        let canonical = Canonical::new(leases, now, reads.into_iter(), writes.into_iter());
        self.proxies[proxy].leases = Arc::new(canonical);
    }

    fn digest(&self) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one(self)
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.time, &self.proxies, &self.clients, &self.wires).hash(state);
        (&self.history, &self.owners, self.maps_made, &self.left).hash(state);
        self.violation.hash(state);
        let row = self.servers.len();
        for (i, link) in self.links.iter().enumerate() {
            let (home, shadow) = (&self.servers[i / row].hot, worker(i % row));
            (link.is_up, link.is_broken, link.streams.len()).hash(state);
            for (stream, messages) in link.streams.iter().enumerate() {
                messages.len().hash(state);
                for m in messages {
                    // Only what is on the present link is ever confirmed.
                    let is_awaited = link.is_present(stream) && home.awaits(shadow, m.tag);
                    (m.item, m.epoch, m.version, is_awaited).hash(state);
                }
            }
            for &(tag, is_accepted) in &link.confirmations {
                (home.awaits(shadow, tag), is_accepted).hash(state);
            }
        }
        for server in &self.servers {
            (server.life, server.epoch, server.item, server.home_since).hash(state);
            (server.replica, server.counter, server.filled).hash(state);
            server.newest_heard.hash(state);
            server.hot.digest(self.server_now(), state);
        }
    }
}

/// Two states are one if nothing that is hashed tells them apart.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.digest() == other.digest()
    }
}

impl Hash for Reply {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let told = match self.answer {
            Answer::Hit(version) => (0, Some(version)),
            Answer::Miss(version) => (1, version),
            Answer::Failed => (2, None),
        };
        (told, self.position, self.grant).hash(state);
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "state {:016x}", self.digest())
    }
}
