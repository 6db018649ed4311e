//! Cachelets that migrate between servers because somebody wants them to, and what becomes of keys then.

use super::World;
use evenkeel_server_core::MigrationStep;
use evenkeel_types::map::Migration;
use evenkeel_types::{CacheletId, ServerId, WorkerRef};

/// What is copied in a second at most, by turns; 0 for no limit. Slow ones are caught in the middle.
const RATES: [u64; 4] = [0, 0, 60, 600];

impl World {
    /// Some cachelets go to other servers.
    pub(super) fn migrate_some(&mut self) -> bool {
        (0..3).filter(|_| self.migrate_one()).count() > 0
    }

    fn migrate_one(&mut self) -> bool {
        let Some((cachelet, owner)) = self.some_cachelet() else {
            return false;
        };
        let Some(source) = self.server_of(owner.server) else {
            return false;
        };
        let target = self.random.index(self.servers.len());
        self.migrate_to(cachelet, source, target)
    }

    /// Orders a cachelet to some worker of another server. False when that is not possible.
    pub(super) fn migrate_to(
        &mut self,
        cachelet: CacheletId,
        source: usize,
        target: usize,
    ) -> bool {
        let Some(server) = self.servers[target].id.filter(|_| target != source) else {
            return false;
        };
        let worker = self.random.below(u64::from(self.workers_per_server)) as u16;
        let to = WorkerRef { server, worker };
        let rate = RATES[self.random.index(RATES.len())];
        let now = self.coordinator.process.now(self.time);
        let core = &mut self.coordinator.core;
        if core.begin_migration(now, cachelet, to, rate).is_err() {
            return false;
        }
        self.report.tell("migrations begun", 1);
        self.narrate(&[source, target], || {
            format!("cachelet {cachelet} is to migrate to {to}")
        });
        self.note_new_maps();
        true
    }

    /// Slow ones would go on until after the end.
    pub(super) fn give_up_migrations(&mut self) {
        let Some(map) = self.coordinator.core.map().cloned() else {
            return;
        };
        let now = self.coordinator.process.now(self.time);
        for migration in &map.document().migrations {
            // It may have ended with the one before.
            let _ = self
                .coordinator
                .core
                .cancel_migration(now, migration.cachelet);
        }
    }

    /// The server of that id.
    pub(super) fn server_of(&self, id: ServerId) -> Option<usize> {
        self.servers.iter().position(|s| s.id == Some(id))
    }

    /// A worker flushes, and with the rest what has come to it and its source has not decided about.
    pub(super) fn note_flush(&mut self, server: usize, worker: u16) {
        let core = &self.servers[server].workers[usize::from(worker)];
        let active = core
            .migration_steps()
            .filter(|(_, step)| *step == MigrationStep::Active);
        let active: Vec<CacheletId> = active.map(|(cachelet, _)| cachelet).collect();
        let reports = core.migration_reports().into_iter();
        let flushed = reports.filter(|report| active.contains(&report.cachelet));
        self.flushed_early
            .extend(flushed.map(|report| (report.cachelet, report.began)));
    }

    /// A source has heard an answer: where it has decided, its target holds what it held.
    pub(super) fn note_decisions(&mut self, server: usize, worker: u16) {
        let core = &self.servers[server].workers[usize::from(worker)];
        let moved = core
            .migration_steps()
            .filter(|(_, step)| *step == MigrationStep::Moved);
        let moved: Vec<CacheletId> = moved.map(|(cachelet, _)| cachelet).collect();
        for cachelet in moved {
            let map = self
                .maps
                .values()
                .rev()
                .find_map(|map| map.migration(cachelet).copied());
            if let Some(migration) = map {
                self.pass_over(server, &migration);
            }
        }
    }

    fn pass_over(&mut self, source: usize, migration: &Migration) {
        let Some(target) = self.server_of(migration.to.server) else {
            return;
        };
        let cachelet = migration.cachelet;
        let s = &self.servers[target];
        let core = s.workers.get(usize::from(migration.to.worker));
        // It may have died after it said that it has everything.
        let is_there = s.process.alive && core.is_some_and(|core| core.keeps_cachelet(cachelet));
        if !self.carry_over(source, cachelet, target, migration.to.worker) {
            return;
        }
        self.report.tell("cachelets given to other servers", 1);
        if !is_there || self.flushed_early.contains(&(cachelet, migration.began)) {
            self.lose_migrated(target, migration.to.worker, cachelet);
        }
    }
}
