//! How a cachelet passes from one server to another while both serve (MBal, section 3.4).
//!
//! The coordinator puts the wish into the map ([`Migration`]). The *source* is the worker that hosts the cachelet
//! at its owner, the *target* the worker that the map names. The source copies over an ordered connection of its own:
//!
//! ```text
//!  client            source                          target                 coordinator
//!    │ get, set ──────>│── begin ────────────────────>│ makes room (Staged)      │
//!    │<────────────────│── items, one by one ────────>│                          │
//!    │ set ───────────>│── the same key again ───────>│                          │
//!    │                 │   … until little is left     │                          │
//!    │ waits           │── what is left, activate ───>│ (Active)                 │
//!    │                 │<──────────────── OK ─────────│                          │
//!    │ <── MOVED ──────│── confirm ──────────────────>│ (Live) ── heartbeat ────>│ owner: target
//!    │ ─────────────────────────────────────────────>│                          │
//! ```
//!
//! **The source alone decides.** Until it has the target's answer to `activate` it may take the cachelet back at any
//! time, because it has sent nobody to the target; from then on it never serves it again. So there is one
//! server that serves the cachelet at any moment, whatever becomes of connections, of either server and of the
//! coordinator, which only writes down afterwards what has happened. The target serves when it is *confirmed*: by the
//! source, or by a client that only the source can have sent. What was staged and never confirmed is forgotten
//! with the first map that does not have the migration.
//!
//! **Writes go behind.** A key that is written while its cachelet is copied is sent again, as it is when its turn comes
//! ([`Rewritten`]); what is gone is sent as gone. The link keeps the order, so the target ends with what the source has.
//! The paper invalidates what is written during a migration and has clients ask twice; here reads keep hitting.
//!
//! **Contents go on.** Versions (CAS uniques), flags, times to live and the marks of recaching are sent with the items, the target's
//! next version is newer than all of the source's, and `since` of the cachelet stays. So a client with any map that named the
//! source without a break may ask the target.
//!
//! **`flush_all` ends migrations** of which anything was sent, at either end, because it reaches the two at different times: an
//! item that the source had still to send would survive it. A target begins none within [`FLUSH_REACH`] of one.
//!
//! **Hot keys** have leases that the source granted before; they end by themselves, as when a cachelet changes its
//! worker. With atomic writes the source waits until its keys have no replicas.

mod copying;
mod pace;
mod rewritten;
mod source;
mod target;

use super::handover::FLUSH_REACH;
use super::links::LinkRequest;
use super::placement::LocalPlacement;
use super::session::ConnectionId;
use super::worker::WorkerCore;
use evenkeel_control::{MigrationReport, MigrationState};
use evenkeel_types::map::{ClusterMap, Migration};
use evenkeel_types::{CacheletId, Epoch, Instant, KeyHash, Now, WorkerRef};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub use rewritten::Rewritten;
pub use source::TARGET_TIMEOUT;
use source::{Outgoing, Stage};
use target::{Incoming, Staged};

/// The migrations that a worker takes part in.
#[derive(Debug, Default)]
pub(super) struct Migrations {
    outgoing: BTreeMap<CacheletId, Outgoing>,
    incoming: BTreeMap<CacheletId, Incoming>,
    /// Connections over which sources copy. What they say is about their migration, or about nothing.
    sources: BTreeMap<ConnectionId, CacheletId>,
    /// The outgoing one that is being copied: one at a time.
    active: Option<CacheletId>,
    /// What the driver should do about links.
    requests: VecDeque<LinkRequest>,
    /// How many links there have been.
    links_made: u64,
    /// When this worker last carried out a `flush_all`.
    flushed_at: Option<Instant>,
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
    fn has_begun(&self, cachelet: CacheletId) -> bool {
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

impl WorkerCore {
    /// The migrations that this worker takes part in and how far each has come.
    pub fn migration_steps(&self) -> impl Iterator<Item = (CacheletId, MigrationStep)> + '_ {
        let outgoing = self.migrations.outgoing.iter().map(|(cachelet, outgoing)| {
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
        let incoming = self
            .migrations
            .incoming
            .iter()
            .filter_map(|(cachelet, incoming)| {
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

    /// Whether this worker hosts a cachelet, or has all of one that came from another server.
    pub fn keeps_cachelet(&self, cachelet: CacheletId) -> bool {
        let incoming = self.migrations.incoming.get(&cachelet);
        let is_whole = incoming
            .is_some_and(|incoming| matches!(incoming.staged, Staged::Active | Staged::Live));
        is_whole || self.hosts_cachelet(cachelet)
    }

    /// As [`keeps_cachelet`](Self::keeps_cachelet), of a key's cachelet.
    pub fn keeps_key(&self, key: &[u8]) -> bool {
        let map = self.map.as_ref();
        map.is_some_and(|map| self.keeps_cachelet(map.locate(KeyHash::of(key)).cachelet))
    }

    /// Whether this worker takes part in migrations.
    pub fn has_migrations(&self) -> bool {
        self.migrations.is_any()
    }

    /// How far the migrations have come that this worker takes part in.
    pub fn migration_reports(&self) -> Vec<MigrationReport> {
        let report = self.migration_steps().map(|(cachelet, step)| {
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
            let (began, volume) = self.migrations.facts(cachelet);
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

    /// Whether a cachelet of this server is ordered to another one, or has come from one that the map
    /// still names as the owner. It must not change its worker.
    pub(super) fn is_between_servers(&self, cachelet: CacheletId) -> bool {
        let by_map = self.map.as_ref().and_then(|map| map.migration(cachelet));
        by_map.is_some() || self.migrations.incoming.contains_key(&cachelet)
    }

    /// A new map: ends what it does not have any more, and has `placement`, made from it, follow what it does not say
    /// yet. What came here and is this server's now needs no more.
    pub(super) fn revise_migrations(
        &mut self,
        now: Now,
        map: &Arc<ClusterMap>,
        placement: &mut LocalPlacement,
    ) {
        let ids: Vec<_> = self.migrations.outgoing.keys().copied().collect();
        for cachelet in ids {
            self.revise_outgoing(now, map, placement, cachelet);
        }
        let ids: Vec<_> = self.migrations.incoming.keys().copied().collect();
        for cachelet in ids {
            self.revise_incoming(map, placement, cachelet);
        }
    }

    /// Looks for migrations of the map whose source is this worker. To be called when there is a new map, or a cachelet
    /// has come.
    pub(super) fn find_migrations(&mut self, now: Now) {
        let Some(map) = self.map.clone() else {
            return;
        };
        for order in &map.document().migrations {
            let cachelet = order.cachelet;
            let is_known = self.migrations.outgoing.contains_key(&cachelet);
            let is_mine = map
                .owner(cachelet)
                .is_some_and(|owner| owner.server == self.server);
            let is_open = self.handovers.is_open(cachelet, order.began);
            if is_mine && !is_known && is_open && self.hosts_cachelet(cachelet) {
                self.engine.counters.migrations_ordered += 1;
                let outgoing = Outgoing::new(*order, now.monotonic);
                self.migrations.outgoing.insert(cachelet, outgoing);
            }
        }
        self.migrate(now);
    }

    /// A `flush_all` was carried out here.
    pub(super) fn flush_ends_migrations(&mut self, now: Now) {
        self.migrations.flushed_at = Some(now.monotonic);
        let active = self.migrations.active;
        if let Some(cachelet) = active.filter(|cachelet| self.migrations.has_begun(*cachelet)) {
            self.abort(now, cachelet);
        }
        self.flush_ends_incoming();
    }

    /// Whether a `flush_all` was so lately that its other parts may still be on their way.
    fn has_flushed_lately(&self, now: Instant) -> bool {
        let at = self.migrations.flushed_at;
        at.is_some_and(|at| now.since(at) < FLUSH_REACH)
    }
}

/// Items and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Volume {
    items: u64,
    bytes: u64,
}

/// Whether the map still has this very migration.
fn stands(map: &ClusterMap, cachelet: CacheletId, began: Epoch) -> Option<&Migration> {
    map.migration(cachelet)
        .filter(|migration| migration.began == began)
}
