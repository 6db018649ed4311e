//! Where keys live in a pool of any memcached servers: where its other clients place them, so that a
//! warm cache stays warm when the proxy is put in front of it.

use super::BackendId;
use evenkeel_policy::placement::pool::Placement;

/// The placement and the connections to its servers.
#[derive(Debug)]
pub(super) struct MemcachedPool {
    placement: Placement,
    /// By position in the list that the placement was made of.
    backends: Vec<BackendId>,
}

impl MemcachedPool {
    pub fn new(placement: Placement, backends: Vec<BackendId>) -> Self {
        MemcachedPool {
            placement,
            backends,
        }
    }

    /// Position of the server that a key lives on.
    #[inline]
    pub fn position(&self, key: &[u8]) -> usize {
        self.placement.server(key)
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
