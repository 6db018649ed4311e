//! What servers say of their migrations, and what follows from it.

use evenkeel_control::{MigrationReport, MigrationState};
use evenkeel_types::{CacheletId, Epoch, Instant, ServerId};

use super::{MigrationEnd, Migrations, cancel};
use crate::event::Cause;
use crate::map_draft::MapDraft;
use crate::members::Members;
use crate::placing::{Moving, Slot};

impl Migrations {
    /// Takes in what a server that works by a map of that epoch says of its migrations.
    pub(crate) fn handle(
        &mut self,
        now: Instant,
        ((server, epoch), reports): ((ServerId, Epoch), &[MigrationReport]),
        members: &mut Members,
        draft: &mut MapDraft,
    ) {
        for report in reports {
            let cachelet = report.cachelet;
            let moving = draft.moving(cachelet).filter(|m| m.began == report.began);
            let spoken_for = moving.map(|moving| match report.state {
                MigrationState::Copying | MigrationState::Moved | MigrationState::Aborted => {
                    moving.from.server
                }
                MigrationState::Staged | MigrationState::Live => moving.to.server,
            });
            if spoken_for != Some(server) {
                self.counts.odd_reports += 1;
                continue;
            }
            if let Some(progress) = self.under_way.get_mut(&cachelet) {
                progress.is_heard_of = true;
                progress.items = progress.items.max(report.items);
                progress.bytes = progress.bytes.max(report.bytes);
            }
            let end = match report.state {
                MigrationState::Copying => None,
                MigrationState::Staged => target_takes_part(cachelet, draft),
                MigrationState::Live => {
                    target_takes_part(cachelet, draft);
                    Some(MigrationEnd::Moved)
                }
                MigrationState::Moved => source_has_decided(cachelet, draft),
                MigrationState::Aborted => Some(MigrationEnd::Aborted),
            };
            if let Some(end) = end {
                self.end(now, (cachelet, end), members, draft);
            }
        }
        self.resolve_doubts(now, (server, epoch), members, draft);
    }

    /// What has passed to a former life of this server, and it does not have now, is lost.
    fn resolve_doubts(
        &mut self,
        now: Instant,
        (server, epoch): (ServerId, Epoch),
        members: &mut Members,
        draft: &mut MapDraft,
    ) {
        let is_lost = |moving: &Moving| {
            let is_asked = moving.doubted_from.is_some_and(|asked| epoch >= asked);
            moving.to.server == server && is_asked
        };
        for cachelet in self.those(draft, is_lost) {
            self.end(now, (cachelet, MigrationEnd::Moved), members, draft);
        }
    }

    /// What has passed to a server that was to say whether it has it, and died before: it begins anew, as all that the server
    /// owned. O(migrations).
    pub(super) fn end_hopeless_doubts(
        &mut self,
        now: Instant,
        members: &mut Members,
        draft: &mut MapDraft,
    ) {
        let is_lost = |moving: &Moving| {
            let target = members.server(moving.to.server);
            moving.doubted_from.is_some() && target.has_ceased(now)
        };
        for cachelet in self.those(draft, is_lost) {
            self.end(now, (cachelet, MigrationEnd::Moved), members, draft);
        }
    }

    /// A server of which migrations know has begun a new life, with this many workers.
    pub(crate) fn meet_new_life(
        &mut self,
        now: Instant,
        (server, workers): (ServerId, usize),
        members: &mut Members,
        draft: &mut MapDraft,
    ) {
        let cachelets: Vec<_> = self.under_way.keys().copied().collect();
        for cachelet in cachelets {
            let Some(mut moving) = draft.moving(cachelet) else {
                continue;
            };
            if moving.from.server == server {
                self.end(now, (cachelet, MigrationEnd::SourceLost), members, draft);
            } else if moving.to.server == server {
                moving.target_restarted = true;
                moving.doubted_from = None;
                // WORKERS_MAX fits u16, and a server has a worker. Should the cachelet have passed, then some
                // worker of the new life owns it.
                moving.to.worker %= workers as u16;
                draft.set_slot(cachelet, Slot::Moving(moving));
                cancel(cachelet, draft);
            }
        }
    }
}

/// The source says that a cachelet has passed. If its target has begun a new life meanwhile, it is asked first whether
/// it has the contents: a source speaks to one life of its target only, but to which is not known here.
fn source_has_decided(cachelet: CacheletId, draft: &mut MapDraft) -> Option<MigrationEnd> {
    let next = draft.next_epoch();
    let moving = draft.moving_mut(cachelet)?;
    if !moving.target_restarted {
        return Some(MigrationEnd::Moved);
    }
    if moving.doubted_from.is_none() {
        moving.doubted_from = Some(next);
        let moving = *moving;
        draft.note_migration(Cause::MigrationsDoubted, &moving);
    }
    None
}

/// The target's present life has contents of a cachelet: so it is the one that the source speaks to, and has what it says
/// has passed.
fn target_takes_part(cachelet: CacheletId, draft: &mut MapDraft) -> Option<MigrationEnd> {
    let moving = draft.moving_mut(cachelet)?;
    moving.target_restarted = false;
    moving.doubted_from.map(|_| MigrationEnd::Moved)
}
