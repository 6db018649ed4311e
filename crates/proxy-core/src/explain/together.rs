//! Which servers a multi-get asks, and which it would ask without copies.

use crate::bundles::Bundles;
use crate::ids::PoolId;
use crate::pool::MemcachedPool;
use crate::pool::bundled::Bundled;
use crate::routes::CommandClass;
use crate::worker::ProxyCore;
use evenkeel_placement::cover::{Cover, KEYS_MAX};
use evenkeel_types::is_key;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use super::shown;

/// What keys are answered that are none, or are not of one pool.
const NOT_TOGETHER: &[u8] =
    b"CLIENT_ERROR say keys of one pool with a bundle, whose routes leave them as they are\r\n";

/// The servers of a multi-get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Together {
    /// The pool of its keys.
    pub pool: String,
    /// Whether copies are `on`, `off` or `clearing`; `observed` where they are only supposed, `unknown` before a coordinator has said so.
    pub copies: String,
    /// Where each key is asked while copies are on and all are there.
    pub keys: Vec<KeyTogether>,
    /// How many servers these are.
    pub transactions: usize,
    /// How many are asked without copies.
    pub transactions_plain: usize,
}

/// Where a key of a multi-get is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyTogether {
    /// The key; what is no UTF-8 in it is shown as U+FFFD.
    pub key: String,
    /// The server, by name.
    pub server: String,
    /// It is asked for a copy there, and not for the item.
    pub copy: bool,
}

/// Says which servers a multi-get of these keys asks.
///
/// # Errors
/// The error line where something is no key, or not all are of one pool that has copies or is observed.
pub(crate) fn together(core: &ProxyCore, keys: &[&[u8]]) -> Result<Together, &'static [u8]> {
    let (pool, name) = pool_of_all(core, keys).ok_or(NOT_TOGETHER)?;
    let (bundled, servers) = pool;
    let mut cover = Cover::default();
    let mut homes = Vec::new();
    let in_use = |place: u32| core.backends.is_in_use(servers.backends()[place as usize]);
    let distance = |place: u32| {
        let server = servers.backends()[place as usize];
        core.backends.distance_us(core.now, server)
    };
    let into = (&mut cover, &mut homes);
    let by: &Bundles = &bundled.by;
    by.cover(
        into,
        servers.list(),
        keys.iter().copied(),
        keys.len(),
        (in_use, distance),
    );
    let asked = keys.iter().enumerate().map(|(at, key)| {
        let server = cover.server(at).unwrap_or(homes[at]);
        let backend = core.backends.get(servers.backends()[server as usize]);
        KeyTogether {
            key: shown(key),
            server: backend.map_or_else(String::new, |backend| backend.name.clone()),
            copy: server != homes[at],
        }
    });
    let keys = asked.collect();
    let switch = match bundled.kept {
        None => "observed",
        Some(kept) => kept.switch().map_or("unknown", |switch| switch.as_str()),
    };
    Ok(Together {
        pool: name,
        copies: switch.into(),
        keys,
        transactions: cover.transactions(),
        transactions_plain: homes.iter().collect::<BTreeSet<_>>().len(),
    })
}

/// The pool of all keys, if it is one.
fn pool_of_all<'c>(
    core: &'c ProxyCore,
    keys: &[&[u8]],
) -> Option<((&'c Bundled, &'c MemcachedPool), String)> {
    let pool_of = |key: &[u8]| -> Option<PoolId> {
        let way = core.routing.way(key, CommandClass::Get);
        way.plain_get().filter(|_| is_key(key))
    };
    let first = pool_of(keys.first()?)?;
    let is_one = keys.len() <= KEYS_MAX && keys.iter().all(|key| pool_of(key) == Some(first));
    let pool = core.pools.get(first).filter(|_| is_one)?;
    Some((
        (pool.bundled.as_ref()?, pool.list()?),
        pool.name.to_string(),
    ))
}
