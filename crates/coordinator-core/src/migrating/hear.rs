//! What servers say of their migrations, and what follows from it.

use evenkeel_types::{CacheletId, Epoch, Instant, ServerId};

use super::view::MigrationEnd;
use super::{Cause, Change, CoordinatorCore, MigrationReport, MigrationState, Moving, Slot, note};

impl CoordinatorCore {
    /// Takes in what a server that works by a map of that epoch says of its migrations.
    pub(crate) fn hear_of_migrations(
        &mut self,
        now: Instant,
        (server, epoch): (ServerId, Epoch),
        reports: &[MigrationReport],
        changes: &mut Vec<Change>,
    ) {
        for report in reports {
            let cachelet = report.cachelet;
            let moving = self.moving(cachelet).filter(|m| m.began == report.began);
            let spoken_for = moving.map(|moving| match report.state {
                MigrationState::Copying | MigrationState::Moved | MigrationState::Aborted => {
                    moving.from.server
                }
                MigrationState::Staged | MigrationState::Live => moving.to.server,
            });
            if spoken_for != Some(server) {
                self.migrations.counts.odd_reports += 1;
                continue;
            }
            if let Some(progress) = self.migrations.under_way.get_mut(&cachelet) {
                progress.is_heard_of = true;
                progress.items = progress.items.max(report.items);
                progress.bytes = progress.bytes.max(report.bytes);
            }
            match report.state {
                MigrationState::Copying => {}
                MigrationState::Staged => self.target_takes_part(now, cachelet, changes),
                MigrationState::Live => {
                    self.target_takes_part(now, cachelet, changes);
                    self.end(now, cachelet, MigrationEnd::Moved, changes);
                }
                MigrationState::Moved => self.source_has_decided(now, cachelet, changes),
                MigrationState::Aborted => {
                    self.end(now, cachelet, MigrationEnd::Aborted, changes);
                }
            }
        }
        self.settle_doubts(now, server, epoch, changes);
    }

    /// The source says that a cachelet has passed. If its target has begun a new life meanwhile, it is asked first whether
    /// it has the contents: a source speaks to one life of its target only, but to which is not known here.
    fn source_has_decided(
        &mut self,
        now: Instant,
        cachelet: CacheletId,
        changes: &mut Vec<Change>,
    ) {
        let next = self.next_epoch();
        match &mut self.slots[usize::from(cachelet.0)] {
            Slot::Moving(moving) if moving.target_restarted => {
                if moving.doubted_from.is_none() {
                    moving.doubted_from = Some(next);
                    let ends = [moving.from.server, moving.to.server];
                    note(changes, Cause::MigrationsDoubted, ends);
                }
            }
            _ => self.end(now, cachelet, MigrationEnd::Moved, changes),
        }
    }

    /// The target's present life has contents of a cachelet: so it is the one that the source speaks to.
    fn target_takes_part(&mut self, now: Instant, cachelet: CacheletId, changes: &mut Vec<Change>) {
        if let Slot::Moving(moving) = &mut self.slots[usize::from(cachelet.0)] {
            moving.target_restarted = false;
            if moving.doubted_from.is_some() {
                self.end(now, cachelet, MigrationEnd::Moved, changes);
            }
        }
    }

    /// What has passed to a former life of this server, and it does not have now, is lost.
    fn settle_doubts(
        &mut self,
        now: Instant,
        server: ServerId,
        epoch: Epoch,
        changes: &mut Vec<Change>,
    ) {
        let is_lost = |moving: &Moving| {
            let is_asked = moving.doubted_from.is_some_and(|asked| epoch >= asked);
            moving.to.server == server && is_asked
        };
        let cachelets = self.migrations.under_way.keys().copied();
        let lost = |&cachelet: &CacheletId| self.moving(cachelet).is_some_and(|m| is_lost(&m));
        let lost: Vec<_> = cachelets.filter(lost).collect();
        for cachelet in lost {
            self.end(now, cachelet, MigrationEnd::Moved, changes);
        }
    }

    /// What has passed to a server that was to say whether it has it, and died before: it begins anew, as all that the server
    /// owned. O(migrations).
    pub(super) fn end_hopeless_doubts(&mut self, now: Instant, changes: &mut Vec<Change>) {
        let is_lost = |moving: &Moving| {
            let target = &self.servers[usize::from(moving.to.server.0)];
            moving.doubted_from.is_some() && target.has_ceased(now)
        };
        let cachelets = self.migrations.under_way.keys().copied();
        let lost = |&cachelet: &CacheletId| self.moving(cachelet).is_some_and(|m| is_lost(&m));
        let lost: Vec<_> = cachelets.filter(lost).collect();
        for cachelet in lost {
            self.end(now, cachelet, MigrationEnd::Moved, changes);
        }
    }

    /// A server of which migrations know has begun a new life, with so many workers.
    pub(crate) fn migrations_meet_new_life(
        &mut self,
        now: Instant,
        server: ServerId,
        workers: usize,
        changes: &mut Vec<Change>,
    ) {
        let cachelets: Vec<_> = self.migrations.under_way.keys().copied().collect();
        for cachelet in cachelets {
            let Some(mut moving) = self.moving(cachelet) else {
                continue;
            };
            if moving.from.server == server {
                self.end(now, cachelet, MigrationEnd::SourceLost, changes);
            } else if moving.to.server == server {
                moving.target_restarted = true;
                moving.doubted_from = None;
                // WORKERS_MAX fits u16, and a server has a worker. Should the cachelet have passed, then some
                // worker of the new life owns it.
                moving.to.worker %= workers as u16;
                self.slots[usize::from(cachelet.0)] = Slot::Moving(moving);
                self.cancel(cachelet, changes);
            }
        }
    }
}
