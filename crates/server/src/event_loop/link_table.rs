//! The sockets of a worker's links.

use crate::link::LinkSocket;
use evenkeel_server_core::LinkId;
use std::collections::{BTreeMap, BTreeSet};

/// The links of a worker.
#[derive(Debug, Default)]
pub struct Links {
    pub(super) sockets: BTreeMap<usize, LinkSocket>,
    /// How many sockets there have been.
    pub(super) made: usize,
    /// Those whose host is being looked up.
    pub(super) resolving: BTreeSet<LinkId>,
}
