//! Memory that is used again for each request.

use crate::ids::{BackendId, PoolId, RouteId};
use crate::routes::{RenameId, Renamed};
use evenkeel_placement::cover::Cover;
use evenkeel_protocol::KeyAt;
use evenkeel_schemes::generation::PREFIX_LEN;

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
    /// What stands before those of them that have a name of a ring, in their order.
    pub prefixes: Vec<[u8; PREFIX_LEN]>,
    /// Which servers a multi-get asks that has a limit or whose keys have copies, or would ask if they had.
    pub cover: Cover,
    /// The homes of the keys that it covers, by their places in the list, in the order of the request, and each of them once.
    pub covered_homes: Vec<u32>,
    pub plain_homes: Vec<u32>,
    /// By which it chooses between servers that hold equally many, by the positions of their connections.
    pub seeds: Vec<u64>,
}

/// Where a key of a `get` goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHome {
    pub pool: PoolId,
    pub to: BackendId,
    /// By which it was distributed, as far as a ring looks at it.
    pub hash: u32,
    pub rename: RenameId,
    pub route: RouteId,
    /// It goes by a name of a ring.
    pub is_named: bool,
}
