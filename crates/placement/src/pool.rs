//! Where keys live in a pool of plain memcached servers: one type for all distributions.

use super::config::{Distribution, HashTag, PlacementConfig, PlacementError, Server};
use super::hash::Hash;
use super::jump;
use super::ketama;
use super::modula::Modula;
use super::points::Points;
use super::rendezvous::Rendezvous;

/// Deals keys to the servers of a pool. Equal configurations deal equally, in every process.
#[derive(Clone, Debug)]
pub struct Placement {
    hash: Hash,
    hash_tag: Option<HashTag>,
    servers: usize,
    table: Table,
}

/// What a distribution works out in advance.
#[derive(Clone, Debug)]
enum Table {
    Ring(Points),
    Modula(Modula),
    Jump { servers: u32 },
    Rendezvous(Rendezvous),
}

impl Placement {
    /// Works out the tables of a distribution.
    ///
    /// # Errors
    ///
    /// See [`PlacementError`].
    pub fn new(config: &PlacementConfig) -> Result<Self, PlacementError> {
        config.check()?;
        let (servers, hash) = (&config.servers[..], config.hash());
        let listed = as_listed(servers);
        let table = match config.distribution {
            Distribution::Ketama => Table::Ring(Points::new(ketama::equal_points(servers, hash))),
            Distribution::KetamaWeighted => {
                Table::Ring(Points::new(ketama::weighted_points(servers, &listed)))
            }
            Distribution::TwemproxyKetama => {
                let order = as_twemproxy_counts(servers);
                Table::Ring(Points::new(ketama::weighted_points(servers, &order)))
            }
            Distribution::Modula => Table::Modula(modula(servers, &listed)),
            Distribution::TwemproxyModula => {
                Table::Modula(modula(servers, &as_twemproxy_counts(servers)))
            }
            Distribution::Jump => Table::Jump {
                servers: servers.len() as u32,
            },
            Distribution::Rendezvous => Table::Rendezvous(Rendezvous::new(servers)),
        };
        Ok(Placement {
            hash,
            hash_tag: config.hash_tag,
            servers: servers.len(),
            table,
        })
    }

    /// The points of a distribution that has a ring.
    pub(super) fn points(&self) -> Option<&Points> {
        match &self.table {
            Table::Ring(points) => Some(points),
            _ => None,
        }
    }

    /// How many servers there are.
    #[allow(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.servers
    }

    /// Position in the list of the server that a key belongs to. Allocates nothing.
    #[inline]
    pub fn server(&self, key: &[u8]) -> usize {
        self.server_and_hash(key).0
    }

    /// The same, and the hash that decides: of the whole key, or of what its tag marks.
    #[inline]
    pub fn server_and_hash(&self, key: &[u8]) -> (usize, u64) {
        let hash = self.hash(key);
        let server = match &self.table {
            Table::Ring(ring) => ring.server(hash as u32),
            Table::Modula(modula) => modula.server(hash),
            Table::Jump { servers } => jump::jump(hash, *servers) as usize,
            Table::Rendezvous(rendezvous) => rendezvous.server(hash),
        };
        (server, hash)
    }

    /// All servers, each once, in the order in which a key should look for another home when those
    /// before cannot be reached; the first is [`Placement::server`].
    ///
    /// | distribution | order |
    /// |---|---|
    /// | ketamas | as their points follow on the ring: where keys go without the servers before |
    /// | modulas | as remainders follow: all keys of a lost server go to its successor |
    /// | jump | the jumps of the hash mixed again and again: spread over all |
    /// | rendezvous | by falling score: where keys go without the servers before |
    ///
    /// Servers that such an order leaves out come last, as they are listed: those without a point on a
    /// ring, and those that no jump hit.
    pub fn candidates<'a>(&'a self, key: &[u8]) -> impl Iterator<Item = usize> + use<'a> {
        let hash = self.hash(key);
        let walk: Box<dyn Iterator<Item = usize> + 'a> = match &self.table {
            Table::Ring(ring) => Box::new(ring.walk(hash as u32)),
            Table::Modula(modula) => Box::new(modula.walk(hash)),
            Table::Jump { servers } => Box::new(jump::walk(hash, *servers)),
            Table::Rendezvous(rendezvous) => Box::new(rendezvous.walk(hash)),
        };
        distinct(walk.chain(0..self.len()), self.len())
    }

    /// The part of a key that decides, and its hash.
    #[inline]
    pub fn hashed<'k>(&self, key: &'k [u8]) -> (&'k [u8], u64) {
        let part = match &self.hash_tag {
            None => key,
            Some(tag) => tag.part(key),
        };
        (part, self.hash.of(part))
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        self.hashed(key).1
    }
}

fn modula(servers: &[Server], order: &[u16]) -> Modula {
    Modula::new(
        order
            .iter()
            .map(|&index| (index, servers[usize::from(index)].weight)),
    )
}

/// The positions of servers in the order of the list.
fn as_listed(servers: &[Server]) -> Vec<u16> {
    (0u16..=u16::MAX).take(servers.len()).collect()
}

/// The positions of servers in the order that twemproxy sorts them into when it looks for duplicates: by
/// the length of the name, then by its bytes.
fn as_twemproxy_counts(servers: &[Server]) -> Vec<u16> {
    let mut order = as_listed(servers);
    order.sort_by_cached_key(|&index| {
        let identity = servers[usize::from(index)].identity();
        (identity.len(), identity)
    });
    order
}

/// Each server the first time that it comes; ends when all have come.
fn distinct<'a>(
    walk: impl Iterator<Item = usize> + 'a,
    servers: usize,
) -> impl Iterator<Item = usize> + 'a {
    let mut seen = vec![false; servers];
    walk.filter(move |&server| !std::mem::replace(&mut seen[server], true))
        .take(servers)
}

#[cfg(test)]
mod tests;
