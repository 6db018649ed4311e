//! Where keys live in a pool of any memcached servers: where its other clients place them, so that a
//! warm cache stays warm when the proxy is put in front of it.

use crate::ids::BackendId;
use crate::ring::PlannedRing;
use crate::server_list::ServerList;
use evenkeel_schemes::generation::taken_apart;
use evenkeel_schemes::stage::Stage;
use std::sync::Arc;

/// The list and the connections to its servers.
#[derive(Debug)]
pub(crate) struct MemcachedPool {
    list: Arc<ServerList>,
    /// By position in the list.
    backends: Vec<BackendId>,
    /// By which keys are distributed instead, where their hash space follows the load.
    ring: Option<Arc<PlannedRing>>,
    /// Keys have names of ours at its servers.
    is_named: bool,
}

impl MemcachedPool {
    /// The list before there are connections, which must follow before a key is looked for.
    pub fn unconnected(list: &Arc<ServerList>) -> Self {
        MemcachedPool {
            list: Arc::clone(list),
            backends: Vec::new(),
            ring: None,
            is_named: false,
        }
    }

    /// The list and a backend for each of its servers, in the same order; and whether keys have names of ours there.
    pub fn new(list: Arc<ServerList>, backends: Vec<BackendId>, is_named: bool) -> Self {
        debug_assert_eq!(list.servers().len(), backends.len());
        MemcachedPool {
            list,
            backends,
            ring: None,
            is_named,
        }
    }

    /// From now on keys are distributed by this ring, which is of the same servers.
    pub fn set_ring(&mut self, ring: Arc<PlannedRing>) {
        debug_assert_eq!(ring.list().servers().len(), self.backends.len());
        self.ring = Some(ring);
    }

    /// By which keys are distributed, where their hash space follows the load and a coordinator has told how.
    #[inline]
    pub fn ring(&self) -> Option<&Arc<PlannedRing>> {
        self.ring.as_ref()
    }

    /// The backends of servers that give parts of the ring away.
    pub fn sources(&self) -> Vec<BackendId> {
        let sources = self.ring.iter().flat_map(|ring| ring.sources());
        sources.map(|server| self.backends[server]).collect()
    }

    /// The backends that may hold anything, when the plan of its ring is at this stage.
    pub fn holders(&self, stage: Stage) -> Vec<BackendId> {
        match &self.ring {
            None => self.backends.clone(),
            Some(ring) => {
                let holders = ring.holders(stage).into_iter();
                holders.map(|server| self.backends[server]).collect()
            }
        }
    }

    /// The backend of the server that a key lives on, by the name that servers know.
    #[inline]
    pub fn home(&self, key: &[u8]) -> BackendId {
        let server = match &self.ring {
            None => self.list.placement().server(self.key_of(key)),
            Some(ring) => ring.server(key),
        };
        self.backends[server]
    }

    /// The key by which an item is distributed that servers know by this.
    #[inline]
    pub fn key_of<'k>(&self, name: &'k [u8]) -> &'k [u8] {
        match self.is_named || self.ring.is_some() {
            true => taken_apart(name).1,
            false => name,
        }
    }

    /// The same of a list without a ring, and the hash by which the key was distributed.
    #[inline]
    pub fn home_and_hash(&self, key: &[u8]) -> (BackendId, u64) {
        let (server, hash) = self.list.placement().server_and_hash(self.key_of(key));
        (self.backends[server], hash)
    }

    /// The backends of all servers, in the order in which a key should look for another home.
    pub fn candidates(&self, key: &[u8]) -> impl Iterator<Item = BackendId> + use<'_> {
        let walk = self.list.placement().candidates(self.key_of(key));
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
