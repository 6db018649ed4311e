//! Memory that is used again for each request.

use crate::ids::{PoolId, RouteId};
use crate::pool::steady::KeyPlace;
use crate::routes::{RenameId, Renamed};
use evenkeel_protocol::KeyAt;

/// What is at hand for the request in hand, so that none needs memory of its own.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// The key, where servers know it by another name.
    pub renamed: Renamed,
    /// The key behind the name of a ring's generation.
    pub named: Renamed,
    /// The flags of a meta command, where they are not sent as they came.
    pub flags: Vec<u8>,
    /// The key of a binary request, where it is sent in base64.
    pub encoded_key: Vec<u8>,
    /// The keys of a plain `get`.
    pub keys: Vec<KeyAt>,
    /// Where each of them is, if they are several.
    pub homes: Vec<KeyHome>,
}

/// Where a key of a `get` goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHome {
    pub pool: PoolId,
    pub place: KeyPlace,
    pub rename: RenameId,
    pub route: RouteId,
}
