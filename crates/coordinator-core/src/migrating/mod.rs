//! Cachelets on their way from one server to another, with their contents.
//!
//! The coordinator orders a migration by putting it into the map, and learns what came of it from the heartbeats
//! of the two servers. In between the cachelet belongs to the source, and the source alone decides when that
//! ends: it knows what has arrived. So the coordinator never guesses; all it can do is wish that a migration be
//! given up (*cancel*), and the answer says whether that came in time.
//!
//! ```text
//!              begin               source: Moved, or target: Live
//!   Owned(S) ─────────> Moving S→T ───────────────────────────────> Owned(T), contents go on
//!      ^                   │   │
//!      └── source: Aborted ┘   └── source in a new life ──> Released by T ──let go──> granted to somebody
//! ```
//!
//! When the source begins a new life nobody can say whether it had decided. The target may serve the cachelet, by
//! the word of the former life; it is treated as a former owner, and nobody gets the cachelet before it has
//! confirmed a map without the migration. When the target begins a new life the source will notice, and abort; if it
//! says that the cachelet has passed, the target is asked whether that was to its present life. If not, the contents
//! are lost.
//!
//! Reports are repeated until the map has changed, and a migration is named by its cachelet and the epoch in which
//! it began, so that late and repeated reports do no harm.

mod reports;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use evenkeel_types::map::{MIGRATIONS_MAX, Migration};
use evenkeel_types::{CacheletId, Epoch, Instant, ServerId, WorkerRef};

use crate::duration::seconds;
use crate::event::Cause;
use crate::limits;
use crate::map_draft::MapDraft;
use crate::members::Members;
use crate::placing::{Moving, Purpose, Slot};

pub use view::{
    EndedMigration, MigrationCounts, MigrationEnd, MigrationRefusal, MigrationRequest,
    MigrationStage, MigrationView, MigrationsView,
};

/// What is known of migrations beside the slots.
#[derive(Debug)]
pub(crate) struct Migrations {
    /// Exactly those of the slots.
    under_way: BTreeMap<CacheletId, Progress>,
    /// How often in a row cachelets were to move for the sake of even shares and did not.
    failed: BTreeMap<CacheletId, u32>,
    /// The last ones that are over, to be shown.
    ended: VecDeque<EndedMigration>,
    /// What has ended since that was last [asked](Migrations::take_ends) for.
    ends: Vec<End>,
    counts: MigrationCounts,
}

/// What is to move where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) cachelet: CacheletId,
    pub(crate) to: WorkerRef,
    /// What is copied at most; 0 for no limit.
    pub(crate) bytes_per_second: u64,
    pub(crate) purpose: Purpose,
}

/// What came of a migration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) cachelet: CacheletId,
    /// First map that told of it.
    pub(crate) began: Epoch,
    pub(crate) end: MigrationEnd,
}

/// What was told of a migration.
#[derive(Clone, Copy, Debug)]
struct Progress {
    since: Instant,
    is_heard_of: bool,
    items: u64,
    bytes: u64,
}

impl Progress {
    fn new(since: Instant) -> Self {
        Progress {
            since,
            is_heard_of: false,
            items: 0,
            bytes: 0,
        }
    }
}

impl Default for Migrations {
    fn default() -> Self {
        Migrations {
            under_way: BTreeMap::new(),
            failed: BTreeMap::new(),
            ended: VecDeque::new(),
            ends: Vec::new(),
            counts: MigrationCounts {
                begun: 0,
                ended: MigrationEnd::ALL.into_iter().map(|end| (end, 0)).collect(),
                items: 0,
                bytes: 0,
                odd_reports: 0,
            },
        }
    }
}

impl Migrations {
    /// Those that a former coordinator has ordered.
    pub(crate) fn restore(now: Instant, slots: &[Slot]) -> Self {
        let is_moving = |slot: &Slot| matches!(slot, Slot::Moving(_));
        let moving = (0u16..).zip(slots).filter(|(_, slot)| is_moving(slot));
        Migrations {
            under_way: moving
                .map(|(cachelet, _)| (CacheletId(cachelet), Progress::new(now)))
                .collect(),
            ..Migrations::default()
        }
    }

    /// Cachelets that are to be released instead of moved.
    pub(crate) fn immovable(&self) -> BTreeSet<CacheletId> {
        let often = |(_, times): &(&CacheletId, &u32)| **times >= limits::SHARE_MIGRATIONS_MAX;
        let failed = self.failed.iter().filter(often);
        failed.map(|(cachelet, _)| *cachelet).collect()
    }

    /// A cachelet did not move for the sake of even shares, and it is no use to try again.
    pub(crate) fn note_failure(&mut self, cachelet: CacheletId) {
        self.failed.insert(cachelet, limits::SHARE_MIGRATIONS_MAX);
    }

    /// A cachelet has a new owner and may be moved again.
    pub(crate) fn forget_failure(&mut self, cachelet: CacheletId) {
        self.failed.remove(&cachelet);
    }

    /// Migrations under way, and the last ones that are over.
    pub(crate) fn views(
        &self,
        now: Instant,
        members: &Members,
        draft: &MapDraft,
    ) -> MigrationsView {
        let under_way = self.under_way.keys();
        MigrationsView {
            epoch: draft.epoch(),
            migrations: under_way
                .filter_map(|&cachelet| self.view(now, cachelet, members, draft))
                .collect(),
            ended: self.ended.iter().cloned().collect(),
        }
    }

    /// How many migrations are under way.
    pub(crate) fn count(&self) -> usize {
        self.under_way.len()
    }

    /// Counts since the process started.
    pub(crate) fn counts(&self) -> &MigrationCounts {
        &self.counts
    }

    /// Whether a server is one end of a migration. O(migrations).
    pub(crate) fn concern(&self, server: ServerId, draft: &MapDraft) -> bool {
        self.servers(draft).any(|end| end == server)
    }

    /// The source and the target of each migration.
    pub(crate) fn servers(&self, draft: &MapDraft) -> impl Iterator<Item = ServerId> {
        let under_way = self.under_way.keys();
        let moving = under_way.filter_map(|&cachelet| draft.moving(cachelet));
        moving.flat_map(|moving| [moving.from.server, moving.to.server])
    }

    /// Servers that are up and can pass cachelets on, and in how many more migrations each may take part, if each may be in
    /// this many.
    pub(crate) fn room(
        &self,
        most: usize,
        members: &Members,
        draft: &MapDraft,
    ) -> BTreeMap<ServerId, usize> {
        let able = members.up().filter(|server| server.migrates);
        let mut room: BTreeMap<_, _> = able.map(|server| (server.entry.id, most)).collect();
        for end in self.servers(draft) {
            if let Some(left) = room.get_mut(&end) {
                *left = left.saturating_sub(1);
            }
        }
        room
    }

    /// Puts a migration into the next map.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        order: &Order,
        members: &Members,
        draft: &mut MapDraft,
    ) -> Result<Migration, MigrationRefusal> {
        let cachelet = order.cachelet;
        let from = self.may_begin(cachelet, order.to, members, draft)?;
        let moving = Moving {
            from,
            to: order.to,
            began: draft.next_epoch(),
            cancelled: false,
            bytes_per_second: order.bytes_per_second,
            purpose: order.purpose,
            target_restarted: false,
            doubted_from: None,
        };
        let slot = Slot::Moving(moving);
        draft.set_slot(cachelet, slot);
        self.under_way.insert(cachelet, Progress::new(now));
        self.counts.begun += 1;
        draft.note_migration(Cause::MigrationsBegun, &moving);
        Ok(slot.migration(cachelet).expect("it is moving from now on"))
    }

    /// The source, if this cachelet may begin to move there.
    fn may_begin(
        &self,
        cachelet: CacheletId,
        to: WorkerRef,
        members: &Members,
        draft: &MapDraft,
    ) -> Result<WorkerRef, MigrationRefusal> {
        let from = match draft.slot(cachelet) {
            None => return Err(MigrationRefusal::UnknownCachelet { cachelet }),
            Some(Slot::Released { .. } | Slot::Quarantined { .. }) => {
                return Err(MigrationRefusal::NobodyOwns { cachelet });
            }
            Some(Slot::Moving(_)) => return Err(MigrationRefusal::Moving { cachelet }),
            Some(Slot::Owned(from)) => *from,
        };
        if draft.is_just_placed(cachelet) {
            return Err(MigrationRefusal::JustPlaced { cachelet });
        }
        let target = members.servers().get(usize::from(to.server.0));
        let target = target
            .filter(|target| usize::from(to.worker) < target.entry.worker_ports.len())
            .ok_or_else(|| MigrationRefusal::UnknownWorker {
                worker: to.to_string(),
            })?;
        if from.server == to.server {
            return Err(MigrationRefusal::SameServer { cachelet });
        }
        let source = members.server(from.server);
        if let Some(down) = [source, target].into_iter().find(|s| !s.entry.up) {
            let server = down.entry.name.clone();
            return Err(MigrationRefusal::Down { server });
        }
        if target.drain.is_some() {
            let server = target.entry.name.clone();
            return Err(MigrationRefusal::Drained { server });
        }
        if self.under_way.len() == MIGRATIONS_MAX {
            return Err(MigrationRefusal::TooMany);
        }
        Ok(from)
    }

    /// Gives up what has little hope, or is not wanted any more: one of the ends is not heard of, or the
    /// target is to be emptied. O(migrations).
    pub(crate) fn tend(&mut self, now: Instant, members: &mut Members, draft: &mut MapDraft) {
        self.end_hopeless_doubts(now, members, draft);
        let is_hopeless = |moving: &Moving| {
            let (source, target) = (
                members.server(moving.from.server),
                members.server(moving.to.server),
            );
            !source.entry.up || !target.entry.up || target.drain.is_some()
        };
        for cachelet in self.those(draft, is_hopeless) {
            cancel(cachelet, draft);
        }
    }

    /// The cachelets whose migrations are such.
    fn those(&self, draft: &MapDraft, is_such: impl Fn(&Moving) -> bool) -> Vec<CacheletId> {
        let cachelets = self.under_way.keys().copied();
        let are = |cachelet: &CacheletId| draft.moving(*cachelet).is_some_and(|it| is_such(&it));
        cachelets.filter(are).collect()
    }

    /// The only place where a migration ends. Nothing happens to a cachelet that is not moving.
    pub(crate) fn end(
        &mut self,
        now: Instant,
        (cachelet, end): (CacheletId, MigrationEnd),
        members: &mut Members,
        draft: &mut MapDraft,
    ) {
        let Some(moving) = draft.moving(cachelet) else {
            return;
        };
        let next = draft.next_epoch();
        match end {
            MigrationEnd::Moved => {
                draft.complete_move(cachelet, &moving);
                members.own_again(moving.to.server);
                self.failed.remove(&cachelet);
            }
            MigrationEnd::Aborted => {
                draft.set_slot(cachelet, Slot::Owned(moving.from));
                if moving.purpose == Purpose::Share && !moving.cancelled {
                    *self.failed.entry(cachelet).or_default() += 1;
                }
            }
            MigrationEnd::SourceLost => {
                let (by, epoch) = (moving.to.server, next);
                draft.set_slot(cachelet, Slot::Released { by, epoch });
            }
        }
        draft.note_migration(end.cause(), &moving);
        let progress = self.under_way.remove(&cachelet);
        let progress = progress.unwrap_or_else(|| Progress::new(now));
        let began = moving.began;
        self.ends.push(End {
            cachelet,
            began,
            end,
        });
        if self.ended.len() == limits::ENDED_MIGRATIONS_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(EndedMigration {
            cachelet,
            began,
            ended: next,
            from: members.name_of(moving.from),
            to: members.name_of(moving.to),
            end,
            items: progress.items,
            bytes: progress.bytes,
            seconds: seconds(now.since(progress.since)),
        });
        let counts = &mut self.counts;
        *counts.ended.entry(end).or_default() += 1;
        // What servers tell is as large as they like.
        counts.items = counts.items.saturating_add(progress.items);
        counts.bytes = counts.bytes.saturating_add(progress.bytes);
    }

    /// What has ended since this was last asked.
    pub(crate) fn take_ends(&mut self) -> Vec<End> {
        core::mem::take(&mut self.ends)
    }

    pub(crate) fn view(
        &self,
        now: Instant,
        cachelet: CacheletId,
        members: &Members,
        draft: &MapDraft,
    ) -> Option<MigrationView> {
        let moving = draft.moving(cachelet)?;
        let progress = self.under_way.get(&cachelet)?;
        Some(MigrationView {
            cachelet,
            began: moving.began,
            from: members.name_of(moving.from),
            to: members.name_of(moving.to),
            stage: match (moving.cancelled, progress.is_heard_of) {
                (true, _) => MigrationStage::Cancelling,
                (false, true) => MigrationStage::Copying,
                (false, false) => MigrationStage::Ordered,
            },
            items: progress.items,
            bytes: progress.bytes,
            bytes_per_second_max: moving.bytes_per_second,
            seconds: seconds(now.since(progress.since)),
        })
    }
}

/// Wishes that a migration be given up. Nothing happens to a cachelet that is not moving.
pub(crate) fn cancel(cachelet: CacheletId, draft: &mut MapDraft) {
    if let Some(moving) = draft.moving_mut(cachelet)
        && !moving.cancelled
    {
        moving.cancelled = true;
        let moving = *moving;
        draft.note_migration(Cause::MigrationsCancelled, &moving);
    }
}
