//! The migrations that a worker takes part in, at either end.

use super::incoming::Incoming;
use super::outgoing::{Outgoing, Stage};
use super::volume::Volume;
use crate::links::LinkRequest;
use crate::session::ConnectionId;
use evenkeel_types::{CacheletId, Epoch, Instant, WorkerRef};
use std::collections::{BTreeMap, VecDeque};

/// The migrations that a worker takes part in.
#[derive(Debug, Default)]
pub(crate) struct Migrations {
    pub(crate) outgoing: BTreeMap<CacheletId, Outgoing>,
    pub(crate) incoming: BTreeMap<CacheletId, Incoming>,
    /// Connections over which sources copy. What they say is about their migration, or about nothing.
    pub(crate) sources: BTreeMap<ConnectionId, CacheletId>,
    /// The outgoing one that is being copied: one at a time.
    pub(crate) active: Option<CacheletId>,
    /// What the driver should do about links.
    pub(crate) requests: VecDeque<LinkRequest>,
    /// How many links there have been.
    pub(crate) links_made: u64,
    /// When this worker last carried out a `flush_all`.
    pub(crate) flushed_at: Option<Instant>,
}

impl Migrations {
    /// Whether the driver has anything to do about links.
    #[inline]
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// What the driver should do next about links.
    pub fn poll_request(&mut self) -> Option<LinkRequest> {
        self.requests.pop_front()
    }

    /// Whether the worker takes part in any, at either end.
    pub fn is_any(&self) -> bool {
        !self.outgoing.is_empty() || !self.incoming.is_empty()
    }

    /// Whether items of an outgoing cachelet may be on their way.
    pub(crate) fn has_begun(&self, cachelet: CacheletId) -> bool {
        let outgoing = self.outgoing.get(&cachelet);
        outgoing.is_some_and(|it| matches!(it.stage, Stage::Copying | Stage::Passing { .. }))
    }

    /// Where a cachelet of this server has gone, if the map does not say so yet.
    pub fn gone_to(&self, cachelet: CacheletId) -> Option<WorkerRef> {
        let outgoing = self.outgoing.get(&cachelet)?;
        matches!(outgoing.stage, Stage::Moved).then_some(outgoing.order.to)
    }

    /// Cachelets of which contents are here that the map does not give to this server.
    pub fn staged(&self) -> impl Iterator<Item = CacheletId> + '_ {
        let with_contents = self
            .incoming
            .iter()
            .filter(|(_, incoming)| incoming.has_contents());
        with_contents.map(|(cachelet, _)| *cachelet)
    }

    /// Which migration a cachelet is in, and what was sent or taken.
    pub(crate) fn facts(&self, cachelet: CacheletId) -> (Epoch, Volume) {
        if let Some(outgoing) = self.outgoing.get(&cachelet) {
            return (outgoing.order.began, outgoing.sent);
        }
        let incoming = self.incoming.get(&cachelet);
        incoming.map_or_else(Default::default, |incoming| {
            (incoming.began, incoming.taken)
        })
    }
}

/// How far a migration has come at one end, as exactly as that end knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MigrationStep {
    /// Source: its turn has not come.
    Waiting,
    /// Source: the target was asked whether it takes part.
    Beginning,
    /// Source: items are sent.
    Copying,
    /// Source: nobody serves the cachelet; the target was asked to.
    Passing,
    /// Source: the target serves it.
    Moved,
    /// Source: nothing came of it.
    Aborted,
    /// Target: some of it is there.
    Partly,
    /// Target: all of it is there.
    Active,
    /// Target: it is served.
    Live,
}

impl Migrations {
    /// When the worker should look at its migrations.
    pub fn deadline(&self) -> Option<Instant> {
        let active = self.active?;
        self.outgoing.get(&active)?.deadline()
    }
}
