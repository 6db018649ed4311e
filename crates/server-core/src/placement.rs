//! Where a key lives, as one server sees it.
//!
//! The cluster map names a home for every key. A client that knows the map goes there. To a client
//! that knows nothing of it a server answers for the keys that it owns, and refuses others: a copy of its own, kept
//! for that client, would be reached by no write and no delete that goes to the home. What a server stops owning is forgotten.
//!
//! A server without a coordinator owns every key, and nobody else needs to know where it keeps one.
//! So it spreads them by the hash of its tables, which each command computes anyway.
//!
//! The map also says which of its workers a server is to keep a cachelet at: its *home worker*. The server
//! may have another worker carry it for a while, the *host worker*; see [`handover`](crate::ownership::handovers).

use crate::shard::engine::At;
use crate::shard::time::TimeBase;
use evenkeel_hotkeys::server::Reader;
use evenkeel_storage::{Store, TableHash};
use evenkeel_types::Now;
#[cfg(doc)]
use evenkeel_types::map::MapDocument;
use evenkeel_types::map::{ClusterMap, VIRTUAL_NODES};
use evenkeel_types::{CacheletId, Epoch, KeyHash, ServerId};
use std::collections::BTreeMap;

/// Cachelets of each worker of a server that has no coordinator.
pub const STANDALONE_CACHELETS_PER_WORKER: u16 = 16;

/// The cachelet of keys that are kept at no worker of this server; a map may not number that many.
const NO_CACHELET: CacheletId = CacheletId(u16::MAX);

/// Who holds a key, as one worker sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The worker of this server with this index.
    Worker(u16),
    /// Its cachelet changes its worker: commands of this worker's connections wait, because earlier ones are still on
    /// their way to the former host.
    Changing,
    /// Nobody at present: the server owns the key and has no lease to serve what it owns.
    NoLease,
    /// Another server, or none yet.
    Elsewhere,
}

/// A [`Holder`] as one number: each look-up of a key compares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Host(u16);

impl Host {
    /// No worker has these numbers.
    const CHANGING: Host = Host(u16::MAX);
    const NO_LEASE: Host = Host(u16::MAX - 1);
    const ELSEWHERE: Host = Host(u16::MAX - 2);

    fn of(holder: Holder) -> Self {
        match holder {
            Holder::Worker(worker) => Host(worker),
            Holder::Changing => Host::CHANGING,
            Holder::NoLease => Host::NO_LEASE,
            Holder::Elsewhere => Host::ELSEWHERE,
        }
    }

    #[inline]
    fn holder(self) -> Holder {
        match self {
            Host::CHANGING => Holder::Changing,
            Host::NO_LEASE => Holder::NoLease,
            Host::ELSEWHERE => Holder::Elsewhere,
            Host(worker) => Holder::Worker(worker),
        }
    }
}

/// Where this server keeps one virtual node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    /// Its cachelet.
    cachelet: CacheletId,
    /// Who hosts the cachelet; never [`Holder::NoLease`]. It is this server's by the map unless it is elsewhere.
    host: Host,
    /// Its home worker; of no meaning elsewhere.
    home: u16,
    /// Epoch from which on its contents have gone on without a break.
    since: Epoch,
    /// Names its stay here: see [`MapDocument::stay`].
    stay: Epoch,
}

impl Node {
    /// One of which the keys belong elsewhere.
    const ELSEWHERE: Node = Node {
        cachelet: NO_CACHELET,
        host: Host::ELSEWHERE,
        home: 0,
        since: Epoch(0),
        stay: Epoch(0),
    };

    #[inline]
    fn is_owned(&self) -> bool {
        self.host != Host::ELSEWHERE
    }
}

/// Where to execute a command on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalPlace {
    /// Cachelet of this server that holds the key.
    pub cachelet: CacheletId,
    /// Who hosts the cachelet.
    host: Host,
    /// Epoch from which on its contents have gone on without a break. Who routes by an older map may know
    /// of writes that another home acknowledged in between, and must learn of the newer map first.
    pub since: Epoch,
}

impl LocalPlace {
    /// Who holds the key.
    #[inline]
    pub fn holder(&self) -> Holder {
        self.host.holder()
    }

    /// Whether that is the worker with this index.
    #[inline]
    pub fn is_at(&self, worker: u16) -> bool {
        self.host == Host(worker)
    }

    /// False where the key's home is another server, or unknown.
    #[inline]
    pub fn is_owned(&self) -> bool {
        self.host != Host::ELSEWHERE
    }
}

/// The virtual nodes of the hash space as one server keeps them. Cheap to look up, O(nodes) to make.
#[derive(Clone, Debug)]
pub struct LocalPlacement {
    epoch: Epoch,
    by: By,
    /// A hash shifted right by this many bits is an index into `nodes`.
    shift: u32,
    /// What the server owns is not served at present.
    is_closed: bool,
    nodes: Vec<Node>,
}

/// Which hash of a key leads to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The one that servers and clients agree on.
    Placement,
    /// The one that only this server knows.
    Table,
}

impl By {
    /// The hash that only this server knows, as bits of which the highest choose a node.
    #[inline]
    fn spread(table: TableHash) -> u64 {
        u64::from(table.spread()) << (u64::BITS - u16::BITS)
    }
}

/// The shift that turns a 64-bit hash into one of `nodes` (a power of two above one).
fn shift_for(nodes: usize) -> u32 {
    64 - nodes.trailing_zeros()
}

impl LocalPlacement {
    /// A server that no coordinator told anything: it owns every key.
    pub fn standalone(workers: u16) -> Self {
        let cachelets = workers * STANDALONE_CACHELETS_PER_WORKER;
        let nodes = (0..VIRTUAL_NODES)
            .map(|node| {
                let cachelet = (node % usize::from(cachelets)) as u16;
                Node {
                    cachelet: CacheletId(cachelet),
                    host: Host(cachelet % workers),
                    home: cachelet % workers,
                    since: Epoch(0),
                    stay: Epoch(0),
                }
            })
            .collect();
        LocalPlacement {
            epoch: Epoch(0),
            by: By::Table,
            shift: shift_for(VIRTUAL_NODES),
            is_closed: false,
            nodes,
        }
    }

    /// A server that waits for its first map: it owns no key.
    pub fn unmapped() -> Self {
        let nodes = vec![Node::ELSEWHERE; VIRTUAL_NODES];
        LocalPlacement {
            epoch: Epoch(0),
            by: By::Placement,
            shift: shift_for(VIRTUAL_NODES),
            is_closed: false,
            nodes,
        }
    }

    /// The cluster map as server `me` with `workers` workers keeps it, after this one. What it goes on to own stays with its
    /// host worker.
    ///
    /// # Errors
    /// Says why, when the map numbers more cachelets than there may be, or gives
    /// this server a worker that it does not have.
    pub fn updated(
        &self,
        map: &ClusterMap,
        me: ServerId,
        workers: u16,
    ) -> Result<Self, &'static str> {
        let document = map.document();
        let count = document.virtual_nodes.len();
        if document.cachelets.len() > usize::from(NO_CACHELET.0) {
            return Err("the map has more cachelets than a server can tell apart");
        }
        let mut nodes = Vec::with_capacity(count);
        for (index, &cachelet) in document.virtual_nodes.iter().enumerate() {
            let owner = document.cachelets[usize::from(cachelet.0)];
            let local = owner.filter(|owner| owner.server == me);
            if local.is_some_and(|owner| owner.worker >= workers) {
                return Err("the map gives this server a worker that it does not have");
            }
            nodes.push(match local {
                Some(owner) => {
                    let at = usize::from(cachelet.0);
                    let said = document.since.get(at).copied();
                    let said = said.zip(document.stay.get(at).copied());
                    let held = self.nodes.get(index).filter(|node| {
                        self.nodes.len() == count
                            && self.by == By::Placement
                            && node.is_owned()
                            && node.cachelet == cachelet
                            && node.home == owner.worker
                            && said.is_none_or(|said| said == (node.since, node.stay))
                    });
                    let held_since = held.map(|node| (node.since, node.stay));
                    let anew = (document.epoch, document.epoch);
                    let (since, stay) = said.or(held_since).unwrap_or(anew);
                    Node {
                        cachelet,
                        host: held.map_or(Host(owner.worker), |node| node.host),
                        home: owner.worker,
                        since,
                        stay,
                    }
                }
                None => Node::ELSEWHERE,
            });
        }
        if nodes.len() < 2 {
            nodes.resize(2, nodes[0]);
        }
        Ok(LocalPlacement {
            epoch: document.epoch,
            by: By::Placement,
            shift: shift_for(nodes.len()),
            is_closed: self.is_closed,
            nodes,
        })
    }

    /// Where this server keeps a key.
    // Each plain request comes by here: the place goes into registers.
    #[inline(always)]
    pub(crate) fn locate(&self, store: &Store, key: &[u8]) -> Located {
        let table = store.hash(key);
        let (place, placement) = match self.by {
            By::Table => (self.place_of(By::spread(table)), None),
            By::Placement => {
                let hash = KeyHash::of(key);
                (self.place_of(hash.0), Some(hash))
            }
        };
        Located {
            table,
            placement,
            place,
        }
    }

    /// Where this server keeps a key that another worker has located, without a look at the key. `None` when that one
    /// went by another kind of placement.
    #[inline]
    pub(crate) fn locate_again(&self, located: &Located) -> Option<Located> {
        let place = match (self.by, located.placement) {
            (By::Placement, Some(hash)) => self.place_of(hash.0),
            (By::Table, None) => self.place_of(By::spread(located.table)),
            _ => return None,
        };
        Some(Located { place, ..*located })
    }

    #[inline]
    fn place_of(&self, hash: u64) -> LocalPlace {
        let node = self.nodes[(hash >> self.shift) as usize];
        LocalPlace {
            cachelet: node.cachelet,
            host: match self.is_closed & node.is_owned() {
                true => Host::NO_LEASE,
                false => node.host,
            },
            since: node.since,
        }
    }

    /// Whether what the server owns is not served from now on.
    pub fn set_closed(&mut self, is_closed: bool) {
        self.is_closed = is_closed;
    }

    /// Whether keys were placed by a hash that no map knows, so that what is held is of no use under
    /// the first one.
    pub fn is_private(&self) -> bool {
        self.by == By::Table
    }

    /// Epoch of the map it was made from; 0 without one.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Where a cachelet is that this server owns; `None` for others. O(nodes).
    pub fn seat(&self, cachelet: CacheletId) -> Option<Seat> {
        let mut nodes = self.nodes.iter();
        let its = nodes.find(|node| node.is_owned() && node.cachelet == cachelet);
        its.map(Seat::of)
    }

    /// Every cachelet that this server owns, each once, ascending, and where it is. O(nodes).
    pub fn seats(&self) -> BTreeMap<CacheletId, Seat> {
        let owned = self.nodes.iter().filter(|node| node.is_owned());
        owned.map(|node| (node.cachelet, Seat::of(node))).collect()
    }

    /// A cachelet of this server has passed to another server, which the map does not say yet. O(nodes).
    pub fn let_go(&mut self, cachelet: CacheletId) {
        for node in &mut self.nodes {
            if node.is_owned() && node.cachelet == cachelet {
                *node = Node::ELSEWHERE;
            }
        }
    }

    /// A cachelet of that map has come to a worker of this server, which the map does not say yet. O(nodes).
    pub fn take_in(
        &mut self,
        map: &ClusterMap,
        cachelet: CacheletId,
        worker: u16,
        (since, stay): (Epoch, Epoch),
    ) {
        let of_map = &map.document().virtual_nodes;
        // The smallest map has one node, of which there are two here.
        let both = self.nodes.iter_mut().zip(of_map.iter().cycle());
        for (node, _) in both.filter(|(_, its)| **its == cachelet) {
            *node = Node {
                cachelet,
                host: Host(worker),
                home: worker,
                since,
                stay,
            };
        }
    }

    /// From now on a cachelet of this server is at another worker, or changes. O(nodes).
    pub fn set_host(&mut self, cachelet: CacheletId, holder: Holder) {
        for node in &mut self.nodes {
            if node.cachelet == cachelet {
                node.host = Host::of(holder);
            }
        }
    }
}

/// Where a cachelet is that this server owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The worker that the map names.
    pub home: u16,
    /// Who hosts it.
    pub holder: Holder,
    /// Epoch from which on its contents have gone on without a break.
    pub since: Epoch,
    /// Names its stay at this server: see [`MapDocument::stay`].
    pub stay: Epoch,
}

impl Seat {
    fn of(node: &Node) -> Self {
        Seat {
            home: node.home,
            holder: node.host.holder(),
            since: node.since,
            stay: node.stay,
        }
    }
}

/// A key's hashes, and where they lead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located {
    pub table: TableHash,
    pub placement: Option<KeyHash>,
    pub place: LocalPlace,
}

impl Located {
    /// The same for a command that is executed here.
    #[inline]
    pub fn at(&self, now: Now, reader: Reader) -> At {
        At {
            now,
            seconds: TimeBase::seconds(now),
            cachelet: self.place.cachelet,
            table: self.table,
            placement: self.placement,
            reader,
            owned: self.place.is_owned(),
            since: self.place.since,
        }
    }
}
