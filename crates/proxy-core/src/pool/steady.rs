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
    /// What stands before each key of a list in its name.
    prefix: Option<&'p [u8; PREFIX_LEN]>,
}

/// Where such a key is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPlace<'p> {
    pub to: BackendId,
    /// By which it was distributed.
    pub hash: u64,
    /// What stands before it in its name there.
    pub prefix: Option<&'p [u8; PREFIX_LEN]>,
}

impl<'p> SteadyPool<'p> {
    pub fn new(
        servers: &'p MemcachedPool,
        ring: Option<SteadyRing<'p>>,
        prefix: Option<&'p [u8; PREFIX_LEN]>,
    ) -> Self {
        SteadyPool {
            servers,
            ring,
            prefix,
        }
    }

    /// Where a key of an application is. `None` if it changes hands, or may have no name there.
    #[inline(always)]
    pub fn find(&self, key: &[u8]) -> Option<KeyPlace<'p>> {
        let Some(ring) = &self.ring else {
            let (to, hash) = self.servers.home_and_hash(key);
            let place = KeyPlace {
                to,
                hash,
                prefix: self.prefix,
            };
            let can_have_name = self.prefix.is_none() || can_be_named(key);
            return can_have_name.then_some(place);
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
        let key = match self.ring.is_some() || self.prefix.is_some() {
            true => taken_apart(name).1,
            false => name,
        };
        let place = self.find(key)?;
        Some(KeyPlace {
            prefix: None,
            ..place
        })
    }
}

/// Whether the item of a key can have a name of ours: there is room for it, and it is no such name itself.
fn can_be_named(key: &[u8]) -> bool {
    PREFIX_LEN + key.len() <= KEY_LEN_MAX && !is_reserved(key)
}
