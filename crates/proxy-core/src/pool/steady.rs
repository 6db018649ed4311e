//! Keys that stay where they are: the server, and what the key is called there, with one look.
//!
//! That is every key of a list, and of a ring every key whose slice does not change hands at the present stage.

use crate::ids::BackendId;
use crate::pool::MemcachedPool;
use crate::ring::SteadyRing;
use evenkeel_protocol::KEY_LEN_MAX;
use evenkeel_schemes::generation::{PREFIX_LEN, taken_apart};
use evenkeel_schemes::name::is_reserved;

/// The servers of a pool, for such keys.
#[derive(Clone, Copy)]
pub(crate) struct SteadyPool<'p> {
    servers: &'p MemcachedPool,
    ring: Option<SteadyRing<'p>>,
}

/// Where such a key is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPlace<'p> {
    pub to: BackendId,
    /// By which it was dealt out.
    pub hash: u64,
    /// What stands before it in its name there.
    pub prefix: Option<&'p [u8; PREFIX_LEN]>,
}

impl<'p> SteadyPool<'p> {
    pub fn new(servers: &'p MemcachedPool, ring: Option<SteadyRing<'p>>) -> Self {
        SteadyPool { servers, ring }
    }

    /// Where a key of an application is. `None` if it changes hands, or may have no name there.
    #[inline(always)]
    pub fn find(&self, key: &[u8]) -> Option<KeyPlace<'p>> {
        let Some(ring) = &self.ring else {
            let (to, hash) = self.servers.home_and_hash(key);
            return Some(KeyPlace {
                to,
                hash,
                prefix: None,
            });
        };
        let hash = self.servers.list().hashed(key).1;
        let (server, prefix) = ring.find(hash as u32)?;
        let has_name = prefix.is_none() || PREFIX_LEN + key.len() <= KEY_LEN_MAX;
        (has_name && !is_reserved(key)).then(|| KeyPlace {
            to: self.servers.backends()[server],
            hash,
            prefix,
        })
    }

    /// The same of a key by the name that servers know, which stands before it already.
    pub fn find_named(&self, name: &[u8]) -> Option<KeyPlace<'p>> {
        let key = match self.ring {
            Some(_) => taken_apart(name).1,
            None => name,
        };
        let place = self.find(key)?;
        Some(KeyPlace {
            prefix: None,
            ..place
        })
    }
}
