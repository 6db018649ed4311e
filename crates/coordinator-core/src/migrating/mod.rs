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

mod hear;
mod view;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use evenkeel_types::map::{MIGRATIONS_MAX, Migration};
use evenkeel_types::{CacheletId, Instant, Now, ServerId, WorkerRef};

use super::event::Cause;
use super::placing::{Moving, Purpose, Slot};
use super::{Change, CoordinatorCore, limits, millis};
use evenkeel_control::{MigrationReport, MigrationState};

pub use view::{
    EndedMigration, MigrationCounts, MigrationEnd, MigrationRefusal, MigrationRequest,
    MigrationStage, MigrationView, MigrationsView, WorkerName,
};

/// What is known of migrations beside the slots.
#[derive(Debug)]
pub(crate) struct Migrations {
    /// Exactly those of the slots.
    under_way: BTreeMap<CacheletId, Progress>,
    /// How often in a row cachelets were to move for the sake of even shares and did not.
    failed: BTreeMap<CacheletId, u32>,
    ended: VecDeque<EndedMigration>,
    counts: MigrationCounts,
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
}

impl CoordinatorCore {
    /// Orders that a cachelet pass to a worker of another server, with its contents, of which at most
    /// so many bytes are copied in a second (0: no limit).
    ///
    /// # Errors
    ///
    /// See [`MigrationRefusal`]; then nothing has changed.
    pub fn begin_migration(
        &mut self,
        now: Now,
        cachelet: CacheletId,
        to: WorkerRef,
        bytes_per_second: u64,
    ) -> Result<Migration, MigrationRefusal> {
        self.notice_pause(now.monotonic);
        let mut changes = Vec::new();
        let begun = self.begin(
            now.monotonic,
            cachelet,
            to,
            bytes_per_second,
            Purpose::Load,
            &mut changes,
        );
        self.finish(now, changes);
        begun
    }

    /// The same, of a worker that is named. An order that stands already is answered with its migration: who ordered may not have heard
    /// what became of it, and asks again.
    ///
    /// # Errors
    ///
    /// See [`MigrationRefusal`]; then nothing has changed.
    pub fn handle_migration(
        &mut self,
        now: Now,
        request: &MigrationRequest,
    ) -> Result<MigrationView, MigrationRefusal> {
        let to = self.worker_named(&request.to);
        let to = to.ok_or_else(|| MigrationRefusal::UnknownWorker {
            worker: request.to.to_string(),
        })?;
        let ordered = |moving: &Moving| {
            moving.to == to
                && moving.bytes_per_second == request.bytes_per_second
                && !moving.cancelled
        };
        if !self.moving(request.cachelet).is_some_and(|it| ordered(&it)) {
            self.begin_migration(now, request.cachelet, to, request.bytes_per_second)?;
        }
        let view = self.migration_view(now.monotonic, request.cachelet);
        view.ok_or(MigrationRefusal::NotMoving {
            cachelet: request.cachelet,
        })
    }

    /// Wishes that a migration be given up. Its source says whether that came in time.
    ///
    /// # Errors
    ///
    /// The cachelet is not moving.
    pub fn cancel_migration(
        &mut self,
        now: Now,
        cachelet: CacheletId,
    ) -> Result<(), MigrationRefusal> {
        self.notice_pause(now.monotonic);
        let mut changes = Vec::new();
        let is_moving = self.moving(cachelet).is_some();
        if is_moving {
            self.cancel(cachelet, &mut changes);
        }
        self.finish(now, changes);
        match is_moving {
            true => Ok(()),
            false => Err(MigrationRefusal::NotMoving { cachelet }),
        }
    }

    /// Migrations under way, and the last ones that are over.
    pub fn migrations(&self, now: Instant) -> MigrationsView {
        let under_way = self.migrations.under_way.keys();
        MigrationsView {
            epoch: self.epoch,
            migrations: under_way
                .filter_map(|&cachelet| self.migration_view(now, cachelet))
                .collect(),
            ended: self.migrations.ended.iter().cloned().collect(),
        }
    }

    /// How many migrations are under way.
    pub fn migrations_under_way(&self) -> usize {
        self.migrations.under_way.len()
    }

    /// Counts since the process started.
    pub fn migration_counts(&self) -> &MigrationCounts {
        &self.migrations.counts
    }

    /// Whether a server is one end of a migration. O(migrations).
    pub(crate) fn migrates(&self, server: ServerId) -> bool {
        self.migration_ends().any(|end| end == server)
    }

    /// The source and the target of each migration.
    pub(crate) fn migration_ends(&self) -> impl Iterator<Item = ServerId> {
        let under_way = self.migrations.under_way.keys();
        let moving = under_way.filter_map(|&cachelet| self.moving(cachelet));
        moving.flat_map(|moving| [moving.from.server, moving.to.server])
    }

    /// Whether the stay of a cachelet with its owner begins with the map that this call will make.
    pub(crate) fn is_just_placed(&self, cachelet: CacheletId) -> bool {
        self.stay.get(usize::from(cachelet.0)) == Some(&self.next_epoch())
    }

    /// Servers that are up and can pass cachelets on, and in how many more migrations each may take part.
    pub(crate) fn room_for_migrations(&self) -> BTreeMap<ServerId, usize> {
        let settings = self.plan_settings();
        // Whoever was told to end has little time.
        let mut drains = self.servers.iter().filter_map(|server| server.drain);
        let most = match drains.any(|drain| drain.is_of_its_end()) {
            true => settings.migrations_max,
            false => settings.migrations_per_server_max,
        };
        let able = self.servers.iter().filter(|s| s.entry.up && s.migrates);
        let mut room: BTreeMap<_, _> = able.map(|server| (server.entry.id, most)).collect();
        for end in self.migration_ends() {
            if let Some(left) = room.get_mut(&end) {
                *left = left.saturating_sub(1);
            }
        }
        room
    }

    /// How many more migrations may be begun.
    pub(crate) fn migrations_left(&self) -> usize {
        let most = self.plan_settings().migrations_max;
        most.saturating_sub(self.migrations_under_way())
    }

    /// The migration that a cachelet is in.
    fn moving(&self, cachelet: CacheletId) -> Option<Moving> {
        match self.slots.get(usize::from(cachelet.0)) {
            Some(Slot::Moving(moving)) => Some(*moving),
            _ => None,
        }
    }

    pub(crate) fn begin(
        &mut self,
        now: Instant,
        cachelet: CacheletId,
        to: WorkerRef,
        bytes_per_second: u64,
        purpose: Purpose,
        changes: &mut Vec<Change>,
    ) -> Result<Migration, MigrationRefusal> {
        let from = self.may_begin(cachelet, to)?;
        let slot = Slot::Moving(Moving {
            from,
            to,
            began: self.next_epoch(),
            cancelled: false,
            bytes_per_second,
            purpose,
            target_restarted: false,
            doubted_from: None,
        });
        self.slots[usize::from(cachelet.0)] = slot;
        self.migrations
            .under_way
            .insert(cachelet, Progress::new(now));
        self.migrations.counts.begun += 1;
        note(changes, Cause::MigrationsBegun, [from.server, to.server]);
        Ok(slot.migration(cachelet).expect("it is moving from now on"))
    }

    /// The source, if this cachelet may begin to move there.
    fn may_begin(
        &self,
        cachelet: CacheletId,
        to: WorkerRef,
    ) -> Result<WorkerRef, MigrationRefusal> {
        let from = match self.slots.get(usize::from(cachelet.0)) {
            None => return Err(MigrationRefusal::UnknownCachelet { cachelet }),
            Some(Slot::Released { .. } | Slot::Quarantined { .. }) => {
                return Err(MigrationRefusal::NobodyOwns { cachelet });
            }
            Some(Slot::Moving(_)) => return Err(MigrationRefusal::Moving { cachelet }),
            Some(Slot::Owned(from)) => *from,
        };
        if self.is_just_placed(cachelet) {
            return Err(MigrationRefusal::JustPlaced { cachelet });
        }
        let target = self.servers.get(usize::from(to.server.0));
        let target = target
            .filter(|target| usize::from(to.worker) < target.entry.worker_ports.len())
            .ok_or_else(|| MigrationRefusal::UnknownWorker {
                worker: to.to_string(),
            })?;
        if from.server == to.server {
            return Err(MigrationRefusal::SameServer { cachelet });
        }
        let source = &self.servers[usize::from(from.server.0)];
        if let Some(down) = [source, target].into_iter().find(|s| !s.entry.up) {
            let server = down.entry.name.clone();
            return Err(MigrationRefusal::Down { server });
        }
        if target.drain.is_some() {
            let server = target.entry.name.clone();
            return Err(MigrationRefusal::Drained { server });
        }
        if self.migrations.under_way.len() == MIGRATIONS_MAX {
            return Err(MigrationRefusal::TooMany);
        }
        Ok(from)
    }

    /// Gives up what has little hope, or is not wanted any more: one of the ends is not heard of, or the
    /// target is to be emptied. O(migrations).
    pub(crate) fn tend_migrations(&mut self, now: Instant, changes: &mut Vec<Change>) {
        self.end_hopeless_doubts(now, changes);
        let is_hopeless = |moving: &Moving| {
            let server = |worker: WorkerRef| &self.servers[usize::from(worker.server.0)];
            let (source, target) = (server(moving.from), server(moving.to));
            !source.entry.up || !target.entry.up || target.drain.is_some()
        };
        let cachelets = self.migrations.under_way.keys().copied();
        let hopeless =
            |&cachelet: &CacheletId| self.moving(cachelet).is_some_and(|m| is_hopeless(&m));
        let hopeless: Vec<_> = cachelets.filter(hopeless).collect();
        for cachelet in hopeless {
            self.cancel(cachelet, changes);
        }
    }

    pub(crate) fn cancel(&mut self, cachelet: CacheletId, changes: &mut Vec<Change>) {
        if let Some(Slot::Moving(moving)) = self.slots.get_mut(usize::from(cachelet.0))
            && !moving.cancelled
        {
            moving.cancelled = true;
            let ends = [moving.from.server, moving.to.server];
            note(changes, Cause::MigrationsCancelled, ends);
        }
    }

    /// The only place where a migration ends. Nothing happens to a cachelet that is not moving.
    pub(crate) fn end(
        &mut self,
        now: Instant,
        cachelet: CacheletId,
        end: MigrationEnd,
        changes: &mut Vec<Change>,
    ) {
        let Some(moving) = self.moving(cachelet) else {
            return;
        };
        let next = self.next_epoch();
        let position = usize::from(cachelet.0);
        self.slots[position] = match end {
            MigrationEnd::Moved => Slot::Owned(moving.to),
            MigrationEnd::Aborted => Slot::Owned(moving.from),
            MigrationEnd::SourceLost => Slot::Released {
                by: moving.to.server,
                epoch: next,
            },
        };
        if end == MigrationEnd::Aborted && moving.purpose == Purpose::Share && !moving.cancelled {
            *self.migrations.failed.entry(cachelet).or_default() += 1;
        }
        if end == MigrationEnd::Moved {
            let target = &mut self.servers[usize::from(moving.to.server.0)];
            target.fence.own_again();
            self.migrations.failed.remove(&cachelet);
            self.stay[position] = moving.began;
            if moving.target_restarted {
                self.begin_anew(position);
            }
            self.account_for(cachelet, &moving);
        }
        note(changes, end.cause(), [moving.from.server, moving.to.server]);
        let progress = self.migrations.under_way.remove(&cachelet);
        let progress = progress.unwrap_or_else(|| Progress::new(now));
        let ended = EndedMigration {
            cachelet,
            began: moving.began,
            ended: next,
            from: self.name_of(moving.from),
            to: self.name_of(moving.to),
            end,
            items: progress.items,
            bytes: progress.bytes,
            seconds: seconds(now.since(progress.since)),
        };
        self.plan_hears_end(now, cachelet, moving.began, end);
        let log = &mut self.migrations.ended;
        if log.len() == limits::ENDED_MIGRATIONS_MAX {
            log.pop_front();
        }
        log.push_back(ended);
        let counts = &mut self.migrations.counts;
        *counts.ended.entry(end).or_default() += 1;
        // What servers tell is as large as they like.
        counts.items = counts.items.saturating_add(progress.items);
        counts.bytes = counts.bytes.saturating_add(progress.bytes);
    }

    /// In whose share a cachelet counts that has moved.
    fn account_for(&mut self, cachelet: CacheletId, moving: &Moving) {
        match moving.purpose {
            Purpose::Load => {
                let account = *self.accounts.entry(cachelet).or_insert(moving.from);
                if account == moving.to {
                    self.accounts.remove(&cachelet);
                }
            }
            Purpose::Share => drop(self.accounts.remove(&cachelet)),
        }
    }

    fn migration_view(&self, now: Instant, cachelet: CacheletId) -> Option<MigrationView> {
        let moving = self.moving(cachelet)?;
        let progress = self.migrations.under_way.get(&cachelet)?;
        Some(MigrationView {
            cachelet,
            began: moving.began,
            from: self.name_of(moving.from),
            to: self.name_of(moving.to),
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

    /// The worker of that name, if there is one.
    pub(crate) fn worker_named(&self, name: &WorkerName) -> Option<WorkerRef> {
        let named = |server: &&super::Server| server.entry.name == name.server;
        let server = self.servers.iter().find(named)?;
        let is_there = usize::from(name.worker) < server.entry.worker_ports.len();
        is_there.then_some(WorkerRef {
            server: server.entry.id,
            worker: name.worker,
        })
    }

    pub(crate) fn name_of(&self, worker: WorkerRef) -> WorkerName {
        WorkerName {
            server: self.servers[usize::from(worker.server.0)]
                .entry
                .name
                .clone(),
            worker: worker.worker,
        }
    }
}

/// Adds a cachelet to the changes, which become one event for each cause.
fn note(changes: &mut Vec<Change>, cause: Cause, servers: [ServerId; 2]) {
    let known = changes.iter().position(|change| change.cause == cause);
    let at = known.unwrap_or_else(|| {
        changes.push(Change {
            cause,
            servers: BTreeSet::new(),
            cachelets: 0,
            named: Vec::new(),
        });
        changes.len() - 1
    });
    changes[at].servers.extend(servers);
    changes[at].cachelets += 1;
}

/// To the millisecond: nobody measures better here.
fn seconds(duration: Duration) -> f64 {
    millis(duration) as f64 / 1_000.0
}
