//! What the driver asks a worker for: messages, links, deadlines, and how things stand.

use crate::admin::ProcessRequest;
use crate::links::{LinkId, LinkPurpose, LinkRequest};
use crate::mesh::forwarded::Commands;
use crate::mesh::message::Message;
use crate::ownership::migration::MigrationStep;
use crate::session::ConnectionId;
use crate::shard::classes::ClassStats;
use crate::shard::counters::Counters;
use crate::stats::lists;
use crate::worker::core::WorkerCore;
use evenkeel_balance::cachelet_load::WorkerLoad;
use evenkeel_control::MigrationReport;
use evenkeel_control::hot_keys::{ReplicaView, WorkerHotKeys};
use evenkeel_types::{CacheletId, Epoch, Instant, KeyHash, Now};

impl WorkerCore {
    /// Hands waiting messages to `send` until it gives one back because a queue is full.
    pub fn flush_outbox(&mut self, send: impl FnMut(u16, Message) -> Result<(), Message>) {
        self.outbox.flush(send);
    }

    /// Whether messages wait for room in a queue.
    pub fn has_outbox(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Bytes that messages carry which wait for room in a queue; see [`Message::weight`].
    #[inline]
    pub fn outbox_bytes(&self) -> usize {
        self.outbox.bytes()
    }

    /// The connection of this worker whose commands these are, where another worker has passed them on because their keys
    /// have come here: their answers are added to what that connection has unread.
    pub fn passed_back(&self, commands: &Commands) -> Option<ConnectionId> {
        let is_own = commands.whose.asker == Some(self.config.index);
        commands.connection().filter(|_| is_own)
    }

    /// What another worker has sent, which waited for a cachelet: it is to be handed in before anything that comes from that
    /// worker later. There may be some after any word to this worker.
    pub fn poll_released(&mut self) -> Option<(u16, Message)> {
        let (from, commands) = self.hosting.migrations.released.pop_front()?;
        Some((from, Message::Commands(commands)))
    }

    /// What a client asks of the process.
    pub fn poll_process_request(&mut self) -> Option<ProcessRequest> {
        self.process_requests.pop_front()
    }

    /// Whether a link's driver has anything to do besides moving bytes.
    #[inline]
    pub fn has_link_requests(&self) -> bool {
        self.links.has_requests() || self.hosting.migrations.has_requests()
    }

    /// What a link's driver should do next.
    pub fn poll_link_request(&mut self) -> Option<LinkRequest> {
        let of_replicas = self.links.poll_request();
        of_replicas.or_else(|| self.hosting.migrations.poll_request())
    }

    /// Bytes to be written to a link; the driver removes what it wrote.
    pub fn link_out(&mut self, link: LinkId) -> Option<&mut Vec<u8>> {
        match link.purpose {
            LinkPurpose::Replicas => self.links.out(link),
            LinkPurpose::Migration(_) => self.hosting.migrations.link_out(link),
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next needed.
    pub fn poll_deadline(&self) -> Instant {
        let own = (self.engine.hot.poll_deadline()).min(self.engine.meter.poll_deadline());
        let due = [
            self.links.deadline(),
            self.hosting.handovers.deadline(),
            self.hosting.migrations.deadline(),
        ];
        due.into_iter().flatten().fold(own, Instant::min)
    }

    /// Whether what was received is to come with a reading of the clock that is not from before; see
    /// [`HotKeys::wants_clock`](evenkeel_hotkeys::server::HotKeys::wants_clock).
    #[inline]
    pub fn wants_clock(&self) -> bool {
        self.engine.hot.wants_clock()
    }

    /// What was executed in this turn must be answered before this time, as a later reading of the clock shows it.
    #[inline]
    pub fn lease_end(&self) -> Option<Instant> {
        self.hosting.lease_end()
    }

    /// Epoch of the map in use; 0 without one.
    pub fn epoch(&self) -> Epoch {
        self.hosting.placement.epoch()
    }

    /// The cachelet in which a key is here.
    pub fn cachelet_of(&self, key: &[u8]) -> CacheletId {
        self.locate(key).place.cachelet
    }

    /// Whether this worker hosts a cachelet.
    pub fn hosts_cachelet(&self, cachelet: CacheletId) -> bool {
        self.hosting.hosts_cachelet(&self.engine.store, cachelet)
    }

    /// Whether this worker hosts a cachelet, or has all of one that came from another server.
    pub fn keeps_cachelet(&self, cachelet: CacheletId) -> bool {
        self.hosting.migrations.has_whole(cachelet) || self.hosts_cachelet(cachelet)
    }

    /// As [`keeps_cachelet`](Self::keeps_cachelet), of a key's cachelet.
    pub fn keeps_key(&self, key: &[u8]) -> bool {
        let map = self.hosting.map.as_ref();
        map.is_some_and(|map| self.keeps_cachelet(map.locate(KeyHash::of(key)).cachelet))
    }

    /// The migrations that this worker takes part in and how far each has come.
    pub fn migration_steps(&self) -> impl Iterator<Item = (CacheletId, MigrationStep)> + '_ {
        self.hosting.migrations.steps()
    }

    /// Whether this worker takes part in migrations.
    pub fn has_migrations(&self) -> bool {
        self.hosting.migrations.is_any()
    }

    /// How far the migrations have come that this worker takes part in.
    pub fn migration_reports(&self) -> Vec<MigrationReport> {
        self.hosting.migrations.reports()
    }

    /// The load of this worker and of its cachelets, of which rates are as the last interval left them.
    /// Takes time in proportion to the cachelets.
    pub fn cachelet_loads(&self) -> WorkerLoad {
        self.engine.cachelet_loads(self.config.index)
    }

    /// What this worker knows of its hot keys: of all tracked keys, or only of those that have
    /// replicas or would have them.
    pub fn hot_keys_view(&self, now: Now, only_spread: bool) -> WorkerHotKeys {
        lists::hot_keys_view(&self.engine, self.config.index, now, only_spread)
    }

    /// Some of the replicas that this worker holds for other homes.
    pub fn replica_views(&self, now: Now) -> Vec<ReplicaView> {
        lists::replica_views(&self.engine, &self.hosting, now)
    }

    /// Undiverted load in requests per second: what it would serve if nothing were replicated.
    pub fn load(&self) -> f64 {
        self.engine.hot.load()
    }

    /// Whether there is anything to tell of hot keys: something was asked lately, some have replicas or would have them, or the log
    /// says what became of such.
    pub fn has_hot_keys(&self) -> bool {
        let hot = &self.engine.hot;
        !self.engine.hottest.is_quiet()
            || hot.replicated_count() + hot.proposed_count() + hot.log().entries().len() > 0
    }

    /// Whether a client without a map has asked for another server's key since the start or `stats reset`.
    pub fn has_refused_keys(&self) -> bool {
        self.engine.counters.keys_of_others > 0
    }

    /// What this worker has counted.
    pub fn counters(&mut self) -> &mut Counters {
        &mut self.engine.counters
    }

    /// What is held and was evicted at this worker, by size.
    pub fn classes(&self, now: Now) -> ClassStats {
        self.engine.classes(now)
    }
}
