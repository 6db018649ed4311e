//! The migrations that a worker takes part in, at either end.

use super::incoming::{Incoming, Staged};
use super::outgoing::{Outgoing, Stage};
use super::volume::Volume;
use crate::links::{LinkId, LinkPurpose, LinkRequest};
use crate::mesh::forwarded::Commands;
use crate::ownership::handovers::FLUSH_REACH;
use crate::session::ConnectionId;
use evenkeel_control::{MigrationReport, MigrationState};
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
    /// When this worker last executed a `flush_all`.
    pub(crate) flushed_at: Option<Instant>,
    /// Commands of other workers' connections that waited for a cachelet, and no longer do.
    pub(crate) released: VecDeque<(u16, Commands)>,
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

    /// Lets those go on that wait for a cachelet.
    pub(crate) fn release(&mut self, cachelet: CacheletId) {
        if let Some(outgoing) = self.outgoing.get_mut(&cachelet) {
            self.released.extend(outgoing.held.drain(..));
        }
    }

    /// The outgoing cachelet that is being copied, or the next, whose turn has come.
    pub(crate) fn turn(&mut self) -> Option<(CacheletId, &mut Outgoing)> {
        let mut waiting = self.outgoing.iter();
        let mut next = || waiting.find(|(_, it)| matches!(it.stage, Stage::Waiting));
        self.active = self.active.or_else(|| Some(*next()?.0));
        let cachelet = self.active?;
        Some((cachelet, self.outgoing.get_mut(&cachelet)?))
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

    /// Whether all of a cachelet has come from another server.
    pub(crate) fn has_whole(&self, cachelet: CacheletId) -> bool {
        let incoming = self.incoming.get(&cachelet);
        incoming.is_some_and(|it| matches!(it.staged, Staged::Active | Staged::Live))
    }

    /// Cachelets of which contents are here that the map does not give to this server.
    pub fn staged(&self) -> impl Iterator<Item = CacheletId> + '_ {
        let with_contents = self
            .incoming
            .iter()
            .filter(|(_, incoming)| incoming.has_contents());
        with_contents.map(|(cachelet, _)| *cachelet)
    }

    /// The migrations that this worker takes part in and how far each has come.
    pub fn steps(&self) -> impl Iterator<Item = (CacheletId, MigrationStep)> + '_ {
        let outgoing = self.outgoing.iter().map(|(cachelet, outgoing)| {
            let step = match outgoing.stage {
                Stage::Waiting => MigrationStep::Waiting,
                Stage::Beginning { .. } => MigrationStep::Beginning,
                Stage::Copying => MigrationStep::Copying,
                Stage::Passing { .. } => MigrationStep::Passing,
                Stage::Moved => MigrationStep::Moved,
                Stage::Aborted => MigrationStep::Aborted,
            };
            (*cachelet, step)
        });
        let incoming = self.incoming.iter().filter_map(|(cachelet, incoming)| {
            let step = match incoming.staged {
                Staged::Not => return None,
                Staged::Partly => MigrationStep::Partly,
                Staged::Active => MigrationStep::Active,
                Staged::Live => MigrationStep::Live,
            };
            Some((*cachelet, step))
        });
        outgoing.chain(incoming)
    }

    /// How far the migrations have come that this worker takes part in.
    pub fn reports(&self) -> Vec<MigrationReport> {
        let report = self.steps().map(|(cachelet, step)| {
            let state = match step {
                MigrationStep::Waiting
                | MigrationStep::Beginning
                | MigrationStep::Copying
                | MigrationStep::Passing => MigrationState::Copying,
                MigrationStep::Moved => MigrationState::Moved,
                MigrationStep::Aborted => MigrationState::Aborted,
                MigrationStep::Partly | MigrationStep::Active => MigrationState::Staged,
                MigrationStep::Live => MigrationState::Live,
            };
            let (began, volume) = self.facts(cachelet);
            MigrationReport {
                cachelet,
                began,
                state,
                items: volume.items,
                bytes: volume.bytes,
            }
        });
        report.collect()
    }

    /// Whether a `flush_all` was so lately that its other parts may still be on their way.
    pub(crate) fn has_flushed_lately(&self, now: Instant) -> bool {
        let at = self.flushed_at;
        at.is_some_and(|at| now.since(at) < FLUSH_REACH)
    }

    /// When the worker should look at its migrations.
    pub fn deadline(&self) -> Option<Instant> {
        let active = self.active?;
        self.outgoing.get(&active)?.deadline()
    }

    /// The migration whose connection that is.
    pub(crate) fn of_link(&self, id: LinkId) -> Option<CacheletId> {
        let LinkPurpose::Migration(cachelet) = id.purpose else {
            return None;
        };
        let link = self.outgoing.get(&cachelet)?.link.as_ref()?;
        (link.id == id).then_some(cachelet)
    }

    /// Nothing more is said to the target of an outgoing migration.
    pub(crate) fn close_link(&mut self, cachelet: CacheletId) {
        let outgoing = self.outgoing.get_mut(&cachelet);
        if let Some(link) = outgoing.and_then(|outgoing| outgoing.link.take()) {
            self.requests.push_back(LinkRequest::Close(link.id));
        }
    }

    /// Bytes to be written to a target.
    pub(crate) fn link_out(&mut self, id: LinkId) -> Option<&mut Vec<u8>> {
        let cachelet = self.of_link(id)?;
        let link = self.outgoing.get_mut(&cachelet)?.link.as_mut();
        link.map(|link| &mut link.out)
    }

    /// Which migration a cachelet is in, and what was sent or taken.
    fn facts(&self, cachelet: CacheletId) -> (Epoch, Volume) {
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
