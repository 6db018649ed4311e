//! The [migrations](crate::ownership::migration) that this worker takes part in: found in the map, revised, reported.

use crate::ownership::handovers::FLUSH_REACH;
use crate::ownership::migration::MigrationStep;
use crate::ownership::migration::incoming::Staged;
use crate::ownership::migration::outgoing::{Outgoing, Stage};
use crate::placement::LocalPlacement;
use crate::worker::core::WorkerCore;
use evenkeel_control::{MigrationReport, MigrationState};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, Instant, KeyHash, Now};
use std::sync::Arc;

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
    pub(crate) fn is_between_servers(&self, cachelet: CacheletId) -> bool {
        let by_map = self.map.as_ref().and_then(|map| map.migration(cachelet));
        by_map.is_some() || self.migrations.incoming.contains_key(&cachelet)
    }

    /// A new map: ends what it does not have any more, and has `placement`, made from it, follow what it does not say
    /// yet. What came here and is this server's now needs no more.
    pub(crate) fn revise_migrations(
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
    pub(crate) fn find_migrations(&mut self, now: Now) {
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
    pub(crate) fn flush_ends_migrations(&mut self, now: Now) {
        self.migrations.flushed_at = Some(now.monotonic);
        let active = self.migrations.active;
        if let Some(cachelet) = active.filter(|cachelet| self.migrations.has_begun(*cachelet)) {
            self.abort(now, cachelet);
        }
        self.flush_ends_incoming();
    }

    /// Whether a `flush_all` was so lately that its other parts may still be on their way.
    pub(crate) fn has_flushed_lately(&self, now: Instant) -> bool {
        let at = self.migrations.flushed_at;
        at.is_some_and(|at| now.since(at) < FLUSH_REACH)
    }
}
