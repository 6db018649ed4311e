//! An application, and what it awaits.

use super::connection::ConnectionNumber;
use super::proxy::REQUEST_TIMEOUT;
use crate::history::{Nanos, WriteId};
use std::collections::VecDeque;

/// How long the answer to a command may take when nothing goes wrong any more: the time-out of the
/// proxy for a first and a second place, and what may have been queued before it.
pub(super) const PATIENCE: Nanos = 3 * REQUEST_TIMEOUT;

/// What an application awaits an answer to.
#[derive(Debug)]
pub(super) struct Pending {
    pub kind: Kind,
    /// Its operations in the history, one for each key, in the order asked.
    pub operations: Vec<usize>,
}

/// How its answer looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Get,
    MetaGet,
    Store,
    Increase,
    Delete,
    Flush,
}

/// One connection of an application, and the connections before it.
#[derive(Debug)]
pub(super) struct Application {
    pub proxy: usize,
    pub connection: Option<ConnectionNumber>,
    pub connected: bool,
    /// Its name in the history; each connection has another.
    pub client: u32,
    pub pending: VecDeque<Pending>,
    pub pipeline_max: usize,
    /// Mean pause between commands.
    pub pause: Nanos,
    /// A version that it was shown of each key, to be swapped: mostly the newest.
    pub versions: Vec<Option<(WriteId, u64)>>,
}

impl Application {
    pub fn new(proxy: usize, keys: usize, pipeline_max: usize, pause: Nanos) -> Self {
        Application {
            proxy,
            connection: None,
            connected: false,
            client: 0,
            pending: VecDeque::new(),
            pipeline_max,
            pause,
            versions: vec![None; keys],
        }
    }

    /// The operation that has waited longest for its answer.
    pub fn oldest_pending(&self) -> Option<usize> {
        self.pending.front()?.operations.first().copied()
    }
}
