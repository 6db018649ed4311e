//! Where keys live in a pool of any memcached servers: on a ketama ring, as libmemcached and
//! twemproxy place them, so that a warm cache stays warm when the proxy is put in front of it.

use super::BackendId;
use evenkeel_policy::placement::ketama::Ketama;

/// The ring and the connections to its servers.
#[derive(Debug)]
pub(super) struct MemcachedPool {
    ring: Ketama,
    /// By position in the list that the ring was made of.
    backends: Vec<BackendId>,
}

impl MemcachedPool {
    pub fn new(ring: Ketama, backends: Vec<BackendId>) -> Self {
        MemcachedPool { ring, backends }
    }

    /// Position of the server that a key lives on.
    #[inline]
    pub fn position(&self, key: &[u8]) -> usize {
        self.ring.server(key)
    }

    /// The backend at a position.
    #[inline]
    pub fn backend(&self, position: usize) -> BackendId {
        self.backends[position]
    }

    /// All backends, by position.
    pub fn backends(&self) -> &[BackendId] {
        &self.backends
    }
}
