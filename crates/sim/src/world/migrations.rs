//! Cachelets that migrate between servers, and blows that strike at each step of it.

use super::plan::MS;
use super::{Event, World};
use crate::history::Nanos;
use evenkeel_policy::placement::map::Migration;
use evenkeel_roles::server::MigrationStep;
use evenkeel_types::{CacheletId, KeyHash, ServerId, WorkerRef};

/// A blow that waits for a migration to come to a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trap {
    cachelet: CacheletId,
    step: MigrationStep,
    blow: Blow,
    source: usize,
    target: usize,
}

/// What is done to a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    KillSource,
    KillTarget,
    StopSource,
    StopTarget,
    CutLink,
    RestartCoordinator,
    Cancel,
}

const BLOWS: [Blow; 7] = [
    Blow::KillSource,
    Blow::KillTarget,
    Blow::StopSource,
    Blow::StopTarget,
    Blow::CutLink,
    Blow::RestartCoordinator,
    Blow::Cancel,
];

/// Makes the names of all blows at all steps.
macro_rules! blows {
    ($($step:ident: $at:literal),*) => {
        /// The steps at which a blow can strike.
        const STEPS: &[MigrationStep] = &[$(MigrationStep::$step),*];

        fn name(blow: Blow, step: MigrationStep) -> &'static str {
            match (blow, step) {
                $(
                    (Blow::KillSource, MigrationStep::$step) => concat!("migration source killed, ", $at),
                    (Blow::KillTarget, MigrationStep::$step) => concat!("migration target killed, ", $at),
                    (Blow::StopSource, MigrationStep::$step) => concat!("migration source stopped, ", $at),
                    (Blow::StopTarget, MigrationStep::$step) => concat!("migration target stopped, ", $at),
                    (Blow::CutLink, MigrationStep::$step) => concat!("migration link cut, ", $at),
                    (Blow::RestartCoordinator, MigrationStep::$step) => {
                        concat!("coordinator restarted in a migration, ", $at)
                    }
                    (Blow::Cancel, MigrationStep::$step) => concat!("migration cancelled, ", $at),
                )*
                (_, MigrationStep::Waiting | MigrationStep::Aborted) => "migrations struck too late",
            }
        }

        /// What is counted of blows, one name for each at each step.
        pub fn migration_blows() -> Vec<&'static str> {
            let of = |blow: &Blow| STEPS.iter().map(|step| name(*blow, *step)).collect::<Vec<_>>();
            BLOWS.iter().flat_map(of).collect()
        }
    };
}

blows! {
    Beginning: "source beginning",
    Copying: "source copying",
    Passing: "source passing",
    Moved: "source moved",
    Partly: "target partly",
    Active: "target active",
    Live: "target live"
}

impl World {
    /// Some cachelets go to other servers, and a blow may be laid for one.
    pub(super) fn migrate_some(&mut self) -> bool {
        (0..3).filter(|_| self.migrate_one()).count() > 0
    }

    fn migrate_one(&mut self) -> bool {
        let Some(map) = self.coordinator.core.map().cloned() else {
            return false;
        };
        let key = match self.random.below(2) {
            0 => 0,
            _ => self.random.index(self.keys.len()),
        };
        let place = map.locate(KeyHash::of(&self.keys[key]));
        let source = place.worker.and_then(|owner| self.server_of(owner.server));
        let Some(source) = source else {
            return false;
        };
        let target = self.random.index(self.servers.len());
        let Some(server) = self.servers[target].id.filter(|_| target != source) else {
            return false;
        };
        let worker = self.random.below(u64::from(self.workers_per_server)) as u16;
        let to = WorkerRef { server, worker };
        // Slow ones are caught in the middle.
        let rate = [0, 0, 60, 600][self.random.index(4)];
        let now = self.coordinator.process.now(self.time);
        let begun = self
            .coordinator
            .core
            .begin_migration(now, place.cachelet, to, rate);
        if begun.is_err() {
            return false;
        }
        self.report.tell("migrations begun", 1);
        self.narrate(&[source, target], || {
            format!("cachelet {} is to migrate to {to}", place.cachelet)
        });
        // The few keys of a run are copied at once: that step is met least often.
        let step = if self.random.chance(1, 4) {
            MigrationStep::Copying
        } else {
            STEPS[self.random.index(STEPS.len())]
        };
        self.trap = Some(Trap {
            cachelet: place.cachelet,
            step,
            blow: BLOWS[self.random.index(BLOWS.len())],
            source,
            target,
        });
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
    fn server_of(&self, id: ServerId) -> Option<usize> {
        self.servers.iter().position(|s| s.id == Some(id))
    }

    /// Looks whether a blow's time has come.
    pub(super) fn spring_trap(&mut self, server: usize) {
        let Some(trap) = self.trap else { return };
        let is_end = server == trap.source || server == trap.target;
        let awaited = (trap.cachelet, trap.step);
        let mut workers = self.servers[server].workers.iter();
        let is_there =
            is_end && workers.any(|worker| worker.migration_steps().any(|step| step == awaited));
        if is_there && self.time < self.plan.quiet_from() {
            self.trap = None;
            self.at(self.time + 1, Event::Blow(trap));
        }
    }

    pub(super) fn strike_migration(&mut self, trap: Trap) {
        self.report.tell(name(trap.blow, trap.step), 1);
        match trap.blow {
            Blow::KillSource => self.kill_for_a_while(trap.source),
            Blow::KillTarget => self.kill_for_a_while(trap.target),
            Blow::StopSource => self.stop_for_a_while(trap.source),
            Blow::StopTarget => self.stop_for_a_while(trap.target),
            Blow::CutLink => self.cut_migration(trap),
            Blow::RestartCoordinator => self.restart_coordinator(),
            Blow::Cancel => {
                let now = self.coordinator.process.now(self.time);
                // It may be over meanwhile.
                let _ = self.coordinator.core.cancel_migration(now, trap.cachelet);
            }
        }
    }

    fn kill_for_a_while(&mut self, server: usize) {
        if self.servers[server].process.alive {
            self.kill_server(server);
            let back: Nanos = self.time + self.random.between(1, 900) * MS;
            self.at(back, Event::Restart { server });
        }
    }

    fn stop_for_a_while(&mut self, server: usize) {
        let until = (self.time + self.random.between(1, 2_000) * MS).min(self.plan.quiet_from());
        self.stand_still(server, until);
    }

    fn cut_migration(&mut self, trap: Trap) {
        let links: Vec<_> = self.servers[trap.source].links().collect();
        let of_cachelet = links
            .into_iter()
            .filter(|(_, link)| link.migrates() == Some(trap.cachelet));
        for (worker, link) in of_cachelet.collect::<Vec<_>>() {
            if let Some(connection) = self.servers[trap.source].link(worker, link) {
                self.reset(connection);
            }
        }
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
