//! Where keys live in a pool of any memcached servers: where its other clients place them, so that a
//! warm cache stays warm when the proxy is put in front of it.

use crate::ids::BackendId;
use crate::server_list::ServerList;
use std::sync::Arc;

/// The list and the connections to its servers.
#[derive(Debug)]
pub(crate) struct MemcachedPool {
    list: Arc<ServerList>,
    /// By position in the list.
    backends: Vec<BackendId>,
}

impl MemcachedPool {
    /// The list before there are connections, which must follow before a key is looked for.
    pub fn unconnected(list: &Arc<ServerList>) -> Self {
        MemcachedPool {
            list: Arc::clone(list),
            backends: Vec::new(),
        }
    }

    /// The list and a backend for each of its servers, in the same order.
    pub fn new(list: Arc<ServerList>, backends: Vec<BackendId>) -> Self {
        debug_assert_eq!(list.servers().len(), backends.len());
        MemcachedPool { list, backends }
    }

    /// The backend of the server that a key lives on.
    #[inline]
    pub fn home(&self, key: &[u8]) -> BackendId {
        self.backends[self.list.placement().server(key)]
    }

    /// The same, and the hash by which the key was dealt out.
    #[inline]
    pub fn home_and_hash(&self, key: &[u8]) -> (BackendId, u64) {
        let (server, hash) = self.list.placement().server_and_hash(key);
        (self.backends[server], hash)
    }

    /// The backends of all servers, in the order in which a key should look for another home.
    pub fn candidates(&self, key: &[u8]) -> impl Iterator<Item = BackendId> + use<'_> {
        let walk = self.list.placement().candidates(key);
        walk.map(|server| self.backends[server])
    }

    /// The servers.
    pub fn list(&self) -> &ServerList {
        &self.list
    }

    /// All backends, by position.
    pub fn backends(&self) -> &[BackendId] {
        &self.backends
    }
}
