//! What workers tell each other of cachelets that change their worker. [`Handovers`](crate::ownership::handovers::Handovers)
//! has the rules.

use crate::session::address::ReturnAddress;
use evenkeel_balance::cachelet_load::CacheletMeter;
use evenkeel_storage::Cachelet;
use evenkeel_types::{CacheletId, Epoch, Version};

/// A cachelet on its way to its new host.
#[derive(Debug)]
pub struct Handover {
    pub(crate) cachelet: Cachelet,
    pub(crate) stay: Epoch,
    /// Of the map that the former host knows.
    pub(crate) epoch: Epoch,
    /// How often it has moved since then, this time included.
    pub(crate) moves: u32,
    /// The newest version of the former host: the new one's are to be newer.
    pub(crate) newest: Version,
    /// What the former host knew of its load.
    pub(crate) meter: Option<CacheletMeter>,
}

impl Handover {
    /// Which cachelet it is.
    pub fn cachelet(&self) -> CacheletId {
        self.cachelet.id()
    }
}

/// What is said of a cachelet by the worker that hosts it now.
#[derive(Clone, Copy, Debug)]
pub struct Hosted {
    pub(crate) cachelet: CacheletId,
    pub(crate) stay: Epoch,
    /// Of the map that the host knows.
    pub(crate) epoch: Epoch,
    pub(crate) moves: u32,
    pub(crate) host: u16,
}

/// The last word that an asker sends by the way to the former host.
#[derive(Clone, Copy, Debug)]
pub struct Follow {
    pub(crate) cachelet: CacheletId,
    pub(crate) stay: Epoch,
    pub(crate) asker: u16,
}

/// A `flush_all` on its way to cachelets that were given away.
#[derive(Debug)]
pub struct FlushGiven {
    /// What the receiver is to flush.
    pub(crate) cachelets: Vec<CacheletId>,
    /// What is left to do.
    pub(crate) flush_hops: Vec<FlushHop>,
    /// The worker at which somebody waits, and who.
    pub(crate) asker: u16,
    pub(crate) to: Option<ReturnAddress>,
}

impl FlushGiven {
    /// What the receiver is to flush.
    pub fn cachelets(&self) -> &[CacheletId] {
        &self.cachelets
    }
}

/// Who sends a `flush_all` on, to whom, and for which cachelets: it has to come behind them, in the same queue.
#[derive(Debug)]
pub(crate) struct FlushHop {
    pub(crate) by: u16,
    pub(crate) host: u16,
    pub(crate) cachelets: Vec<CacheletId>,
}
