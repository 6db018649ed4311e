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

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use core::fmt;
use core::time::Duration;
use evenkeel_policy::placement::map::{MIGRATIONS_MAX, Migration};
use evenkeel_types::{CacheletId, Epoch, Instant, Now, ServerId, WorkerRef};
use serde::{Deserialize, Serialize};

use super::event::Cause;
use super::message::{MigrationReport, MigrationState};
use super::placing::{Moving, Purpose, Slot};
use super::{Change, CoordinatorCore, limits, millis};

/// An operator's wish to move a cachelet to another server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigrationRequest {
    /// Which.
    pub cachelet: CacheletId,
    /// The worker that is to own it.
    pub to: WorkerName,
    /// What is copied at most, in bytes per second; 0 for no limit.
    #[serde(default = "default_rate")]
    pub bytes_per_second: u64,
}

fn default_rate() -> u64 {
    limits::MIGRATION_BYTES_PER_SECOND
}

/// A worker as people name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerName {
    /// The name of its server.
    pub server: String,
    /// Which of the server's workers.
    pub worker: u16,
}

impl fmt::Display for WorkerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.worker)
    }
}

/// Why a migration is not begun, or not given up. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MigrationRefusal {
    /// There is no such cachelet.
    #[error("there is no cachelet {cachelet}")]
    UnknownCachelet {
        /// The number.
        cachelet: CacheletId,
    },
    /// There is no such worker.
    #[error("there is no worker {worker}")]
    UnknownWorker {
        /// Its name, or its number where it has none.
        worker: String,
    },
    /// Nobody owns it now.
    #[error("nobody owns cachelet {cachelet} now, because it is changing hands")]
    NobodyOwns {
        /// The cachelet.
        cachelet: CacheletId,
    },
    /// It gets its owner, or begins anew, with the next map. A migration that began with the same map would give the
    /// target's stay the name of the source's.
    #[error("cachelet {cachelet} has just got its owner; ask again")]
    JustPlaced {
        /// The cachelet.
        cachelet: CacheletId,
    },
    /// It is moving already.
    #[error("cachelet {cachelet} is moving already")]
    Moving {
        /// The cachelet.
        cachelet: CacheletId,
    },
    /// It is not moving.
    #[error("cachelet {cachelet} is not moving")]
    NotMoving {
        /// The cachelet.
        cachelet: CacheletId,
    },
    /// Both ends are one server, which decides itself which of its workers has what.
    #[error("cachelet {cachelet} is of that server already")]
    SameServer {
        /// The cachelet.
        cachelet: CacheletId,
    },
    /// One of the ends is down.
    #[error("server {server:?} is down")]
    Down {
        /// Its name.
        server: String,
    },
    /// The target gets nothing any more.
    #[error("server {server:?} is drained: it gets no cachelets")]
    Drained {
        /// Its name.
        server: String,
    },
    /// More do not fit a map.
    #[error("{MIGRATIONS_MAX} cachelets are moving already")]
    TooMany,
}

/// How far a migration has come, as far as its servers have told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MigrationStage {
    /// Neither server has said anything of it.
    Ordered,
    /// The source copies.
    Copying,
    /// It is to be given up, and the source has not said yet whether it is.
    Cancelling,
}

impl MigrationStage {
    /// Its name everywhere; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            MigrationStage::Ordered => "ordered",
            MigrationStage::Copying => "copying",
            MigrationStage::Cancelling => "cancelling",
        }
    }
}

/// What came of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MigrationEnd {
    /// The cachelet has passed to the target.
    Moved,
    /// The source kept it.
    Aborted,
    /// The source began a new life, and nobody knows: the cachelet is released.
    SourceLost,
}

impl MigrationEnd {
    /// All of them, in order.
    pub const ALL: [MigrationEnd; 3] = [
        MigrationEnd::Moved,
        MigrationEnd::Aborted,
        MigrationEnd::SourceLost,
    ];

    /// Its name in metrics and answers; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            MigrationEnd::Moved => "moved",
            MigrationEnd::Aborted => "aborted",
            MigrationEnd::SourceLost => "source_lost",
        }
    }

    const fn cause(self) -> Cause {
        match self {
            MigrationEnd::Moved => Cause::CacheletsMigrated,
            MigrationEnd::Aborted => Cause::MigrationsAborted,
            MigrationEnd::SourceLost => Cause::MigrationsLost,
        }
    }
}

/// A migration, to be shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MigrationView {
    /// Which cachelet.
    pub cachelet: CacheletId,
    /// First map that told of it.
    pub began: Epoch,
    /// The source.
    pub from: WorkerName,
    /// The target.
    pub to: WorkerName,
    /// How far it has come.
    pub stage: MigrationStage,
    /// Items that were sent or taken so far, those written meanwhile included.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is copied at most, in bytes per second; 0 for no limit.
    pub bytes_per_second_max: u64,
    /// Seconds since it was ordered, or since this coordinator took over.
    pub seconds: f64,
}

/// A migration that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedMigration {
    /// Which cachelet.
    pub cachelet: CacheletId,
    /// First map that told of it.
    pub began: Epoch,
    /// First map without it.
    pub ended: Epoch,
    /// The source.
    pub from: WorkerName,
    /// The target.
    pub to: WorkerName,
    /// What came of it.
    pub end: MigrationEnd,
    /// Items that were sent or taken, as far as told.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Seconds that it took, as far as this coordinator has seen.
    pub seconds: f64,
}

/// All migrations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MigrationsView {
    /// Epoch of the newest map.
    pub epoch: Epoch,
    /// Those under way, by cachelet.
    pub migrations: Vec<MigrationView>,
    /// The last [`limits::ENDED_MIGRATIONS_MAX`] that are over, oldest first; those of a former coordinator
    /// are not among them.
    pub ended: Vec<EndedMigration>,
}

/// Counts since the process started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationCounts {
    /// Ordered.
    pub begun: u64,
    /// Over, each end present.
    pub ended: BTreeMap<MigrationEnd, u64>,
    /// Items of those that are over.
    pub items: u64,
    /// Bytes of those that are over.
    pub bytes: u64,
    /// Reports on migrations that are not under way, or from a server that is not the end it speaks for. Late
    /// reports are among them.
    pub odd_reports: u64,
}

/// What is known of migrations beside the slots.
#[derive(Debug)]
pub(super) struct Migrations {
    /// Exactly those of the slots.
    under_way: BTreeMap<CacheletId, Progress>,
    /// Cachelets that were to move for the sake of even shares and did not: they are released instead.
    failed: BTreeSet<CacheletId>,
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
            failed: BTreeSet::new(),
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
    pub(super) fn restore(now: Instant, slots: &[Slot]) -> Self {
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
    pub(super) fn failed(&self) -> &BTreeSet<CacheletId> {
        &self.failed
    }

    /// A cachelet has a new owner and may be moved again.
    pub(super) fn forget_failure(&mut self, cachelet: CacheletId) {
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

    /// The same, of a worker that is named.
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
        self.begin_migration(now, request.cachelet, to, request.bytes_per_second)?;
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
    pub(super) fn migrates(&self, server: ServerId) -> bool {
        self.migration_ends().any(|end| end == server)
    }

    /// The source and the target of each migration.
    pub(super) fn migration_ends(&self) -> impl Iterator<Item = ServerId> {
        let under_way = self.migrations.under_way.keys();
        let moving = under_way.filter_map(|&cachelet| self.moving(cachelet));
        moving.flat_map(|moving| [moving.from.server, moving.to.server])
    }

    /// Whether the stay of a cachelet with its owner begins with the map that this call will make.
    pub(super) fn is_just_placed(&self, cachelet: CacheletId) -> bool {
        self.stay.get(usize::from(cachelet.0)) == Some(&self.next_epoch())
    }

    /// Servers that are up and can pass cachelets on, and in how many more migrations each may take part.
    pub(super) fn room_for_migrations(&self) -> BTreeMap<ServerId, usize> {
        let most = self.plan_settings().migrations_per_server_max;
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
    pub(super) fn migrations_left(&self) -> usize {
        let most = self.plan_settings().migrations_max;
        most.saturating_sub(self.migrations_under_way())
    }

    /// Begins to move cachelets for the sake of even shares.
    pub(super) fn begin_share_moves(
        &mut self,
        now: Instant,
        moves: &[(usize, WorkerRef)],
        changes: &mut Vec<Change>,
    ) {
        let rate = self.plan_settings().bytes_per_second;
        for &(cachelet, to) in moves {
            // CACHELETS_MAX positions fit u16.
            let cachelet = CacheletId(cachelet as u16);
            let from = self.owner_of(cachelet);
            match self.begin(now, cachelet, to, rate, Purpose::Share, changes) {
                Ok(_) => {
                    let source = from.map(|from| &mut self.servers[usize::from(from.server.0)]);
                    if let Some(drain) = source.and_then(|source| source.drain.as_mut()) {
                        drain.take(1);
                    }
                }
                // With a later map it may go.
                Err(MigrationRefusal::JustPlaced { .. }) => self.has_wishes = true,
                Err(_) => drop(self.migrations.failed.insert(cachelet)),
            }
        }
    }

    /// The migration that a cachelet is in.
    fn moving(&self, cachelet: CacheletId) -> Option<Moving> {
        match self.slots.get(usize::from(cachelet.0)) {
            Some(Slot::Moving(moving)) => Some(*moving),
            _ => None,
        }
    }

    pub(super) fn begin(
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
            None | Some(Slot::Merged) => {
                return Err(MigrationRefusal::UnknownCachelet { cachelet });
            }
            Some(Slot::Released { .. }) => return Err(MigrationRefusal::NobodyOwns { cachelet }),
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

    /// Takes in what a server that works by a map of that epoch says of its migrations.
    pub(super) fn hear_of_migrations(
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

    /// A server of which migrations know has begun a new life, with so many workers.
    pub(super) fn migrations_meet_new_life(
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

    /// Gives up what has little hope, or is not wanted any more: one of the ends is not heard of, or the
    /// target is to be emptied. O(migrations).
    pub(super) fn tend_migrations(&mut self, changes: &mut Vec<Change>) {
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

    pub(super) fn cancel(&mut self, cachelet: CacheletId, changes: &mut Vec<Change>) {
        if let Some(Slot::Moving(moving)) = self.slots.get_mut(usize::from(cachelet.0))
            && !moving.cancelled
        {
            moving.cancelled = true;
            let ends = [moving.from.server, moving.to.server];
            note(changes, Cause::MigrationsCancelled, ends);
        }
    }

    /// The only place where a migration ends. Nothing happens to a cachelet that is not moving.
    pub(super) fn end(
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
            self.migrations.failed.insert(cachelet);
        }
        if end == MigrationEnd::Moved {
            let target = &mut self.servers[usize::from(moving.to.server.0)];
            target.fence.own_again();
            self.migrations.failed.remove(&cachelet);
            self.since[position] = self.since[position].max(self.unite_histories(position));
            self.stay[position] = moving.began;
            if moving.target_restarted {
                self.begin_anew(position);
            }
            if moving.purpose == Purpose::Share {
                self.weights.remove(&cachelet);
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
        counts.items += progress.items;
        counts.bytes += progress.bytes;
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
    pub(super) fn worker_named(&self, name: &WorkerName) -> Option<WorkerRef> {
        let named = |server: &&super::Server| server.entry.name == name.server;
        let server = self.servers.iter().find(named)?;
        let is_there = usize::from(name.worker) < server.entry.worker_ports.len();
        is_there.then_some(WorkerRef {
            server: server.entry.id,
            worker: name.worker,
        })
    }

    pub(super) fn name_of(&self, worker: WorkerRef) -> WorkerName {
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
