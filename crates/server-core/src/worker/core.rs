//! [`WorkerCore`]: connections, messages, links, map and time, brought together.

use crate::admin::{AdminConfig, DebugClock, ProcessRequests};
use crate::commands::probe::Run;
use crate::links::{LinkId, LinkPurpose, LinkRequest, Links, Surroundings};
use crate::mesh::held::HeldAnswers;
use crate::mesh::message::Message;
use crate::mesh::outbox::Outbox;
use crate::observe::{ObserverConfig, Observers};
use crate::ownership::early::Early;
use crate::ownership::handovers::Handovers;
use crate::ownership::migration::Migrations;
use crate::ownership::serving_lease::Leave;
use crate::placement::Located;
use crate::placement::{Holder, LocalPlace, LocalPlacement};
use crate::session::connections::Connections;
use crate::session::{ConnectionId, LARGE_ANSWER};
use crate::shard::counters::Counters;
use crate::shard::engine::{At, Engine, first_version};
use crate::shard::replicas::Replicas;
use crate::shard::time::{Seconds, TimeBase};
use crate::stats::ProcessFacts;
use core::time::Duration;
use evenkeel_balance::cachelet_load::LoadMeter;
use evenkeel_hotkeys::config::{ConfigError, HotKeysConfig};
use evenkeel_hotkeys::server::HotKeys;
use evenkeel_hotkeys::settings::Settings;
use evenkeel_protocol::Limits;
use evenkeel_protocol::auth::{AuthMode, Credentials};
use evenkeel_storage::{SegmentPool, Store, StoreConfig};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{BootId, Epoch, Instant, KeyHash, Now, ServerId, Version, WorkerRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bounded work on expiry and index growth per turn, in items.
const MAINTENANCE_STEP: usize = 64;

/// Share of the memory limit that replicas of other servers' keys may take, as a divisor. Hot keys
/// are fewer than one item in ten thousand (SPORE, section 5.2); the share is a bound, not a need.
pub const REPLICA_SHARE_DIVISOR: usize = 16;

/// Settings of a worker.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Which of the server's workers this is.
    pub index: u16,
    /// How many there are.
    pub workers: u16,
    /// What the protocol allows.
    pub limits: Limits,
    /// Commands of one connection in a row before others have a turn (`-R`).
    pub requests_per_turn: u32,
    /// Whether `flush_all` is carried out (`-F` forbids it).
    pub allow_flush: bool,
    /// Whether clients are shown CAS uniques (`-C` hides them).
    pub cas_shown: bool,
    /// What clients must do before they are heard (`-S`, `-Y`).
    pub auth: AuthMode,
    /// What operators may do and see.
    pub admin: AdminConfig,
    /// Whether to evict when memory is full (`-M` forbids it).
    pub evict: bool,
    /// Whether a coordinator will send a map. Without one the server owns every key.
    pub clustered: bool,
    /// Hot-key settings.
    pub hot_keys: HotKeysConfig,
    /// Secret seed: of the tables' hash and of sampling. The same for all workers of a server.
    pub seed: u64,
    /// This life of the process.
    pub boot: BootId,
    /// The first reading of the clocks.
    pub start: Now,
    /// Version before the first one; see [`first_version`](crate::first_version).
    pub first_version: Version,
}

impl WorkerConfig {
    /// The first of so many workers of a server that is started now and is memcached's in all else: without a coordinator,
    /// everything allowed.
    pub fn new(workers: u16, start: Now, seed: u64) -> Self {
        WorkerConfig {
            index: 0,
            workers,
            limits: Limits::default(),
            requests_per_turn: 20,
            allow_flush: true,
            cas_shown: true,
            auth: AuthMode::Open,
            admin: AdminConfig::default(),
            evict: true,
            clustered: false,
            hot_keys: HotKeysConfig::default(),
            seed,
            boot: BootId(1),
            start,
            first_version: first_version(u64::from(start.unix) * 1000),
        }
    }
}

/// One worker of a server, without its thread and sockets.
#[derive(Debug)]
pub struct WorkerCore {
    pub(crate) config: WorkerConfig,
    pub(crate) engine: Engine,
    pub(crate) placement: LocalPlacement,
    /// Whether it may serve what its server owns.
    pub(crate) leave: Leave,
    pub(crate) map: Option<Arc<ClusterMap>>,
    pub(crate) server: ServerId,
    pub(crate) facts: ProcessFacts,
    pub(crate) connections: Connections,
    /// Messages on their way to each worker.
    pub(crate) outbox: Outbox,
    /// How much each cachelet adds to the load.
    pub(crate) meter: LoadMeter,
    /// Room for the keys of plain reads.
    pub(crate) run: Run,
    /// The second of the last round of housekeeping, and whether that round is over.
    round: (Seconds, bool),
    links: Links,
    /// The newest connection of each home that sends replicas here.
    pub(crate) home_links: BTreeMap<WorkerRef, ConnectionId>,
    /// Orders of homes that know a newer map.
    pub(crate) early: Early,
    /// A delayed `flush_all`.
    pub(crate) flush_at: Option<Seconds>,
    /// Who may come in; nobody until they are set, where authentication is on.
    pub(crate) credentials: Option<Arc<Credentials>>,
    /// Cachelets that are not at their home workers, and how they get from one worker to another.
    pub(crate) handovers: Handovers,
    /// Cachelets on their way to or from another server.
    pub(crate) migrations: Migrations,
    /// Answers that wait until copies of their keys cannot be read.
    pub(crate) held: HeldAnswers,
    /// Who looks on.
    pub(crate) observers: Observers,
    /// The memory that all workers share.
    pub(crate) pool: Arc<SegmentPool>,
    /// What the process is asked for.
    pub(crate) process_requests: ProcessRequests,
    pub(crate) debug_clock: DebugClock,
    /// The time when it was last told by the driver.
    pub(crate) now: Now,
    /// What `stats conns` says of the connection that asks for it.
    pub(crate) asking_lines: Vec<u8>,
    /// What the operator of the cluster has chosen last.
    pub(crate) chosen: Settings,
    /// What `verbosity` was set to.
    pub(crate) verbosity: Option<u32>,
    /// Connections admitted and refused before the last `stats reset`.
    connections_before_reset: (u64, u64),
    /// See [`WorkerCore::set_input_held`].
    pub(crate) input_held: (u64, u64),
    /// See [`WorkerCore::set_scarce`].
    pub(crate) scarce: bool,
}

impl WorkerCore {
    /// A worker without connections and, when clustered, without a map.
    ///
    /// # Errors
    /// When the hot-key settings contradict themselves.
    pub fn new(config: WorkerConfig, pool: &Arc<SegmentPool>) -> Result<Self, ConfigError> {
        let store_config = StoreConfig {
            hash_seed: config.seed,
            evict: config.evict,
            bytes_max: None,
        };
        let replica_bytes =
            pool.limit_bytes() / REPLICA_SHARE_DIVISOR / usize::from(config.workers.max(1));
        let replica_config = StoreConfig {
            hash_seed: config.seed,
            evict: true,
            bytes_max: Some(replica_bytes),
        };
        let mut store = Store::with_config(pool.clone(), store_config);
        let replicas = Replicas::new(Store::with_config(pool.clone(), replica_config));
        let sampling_seed = config.seed.wrapping_add(u64::from(config.index));
        let hot = HotKeys::new(
            config.hot_keys.clone(),
            sampling_seed,
            config.start.monotonic,
        )?;
        let placement = if config.clustered {
            LocalPlacement::unmapped()
        } else {
            LocalPlacement::standalone(config.workers)
        };
        let seats = placement.seats();
        let here = seats.iter().filter(|(_, seat)| seat.home == config.index);
        for id in here.map(|(id, _)| *id) {
            store.create_cachelet(id);
        }
        let engine = Engine::new(
            store,
            replicas,
            hot,
            TimeBase::new(config.start),
            config.limits,
            config.first_version,
            config.cas_shown,
        );
        let mut core = WorkerCore {
            engine,
            placement,
            leave: Leave::Unbound,
            map: None,
            server: ServerId::default(),
            facts: ProcessFacts::default(),
            connections: Connections::default(),
            outbox: Outbox::new(config.workers),
            meter: LoadMeter::new(config.start.monotonic),
            run: Run::default(),
            round: (0, true),
            links: Links::default(),
            home_links: BTreeMap::new(),
            early: Early::default(),
            flush_at: None,
            credentials: None,
            handovers: Handovers::default(),
            migrations: Migrations::default(),
            held: HeldAnswers::default(),
            observers: Observers::new(&ObserverConfig {
                worker: config.index,
                workers: config.workers,
                start: config.start,
                detail: config.admin.detail,
                delimiter: config.admin.prefix_delimiter,
                abort_on: config.admin.test_abort_on.clone(),
                watcher_bytes_max: config.admin.watcher_log_bytes,
                worker_bytes_max: config.admin.worker_log_bytes,
            }),
            pool: pool.clone(),
            process_requests: ProcessRequests::new(),
            debug_clock: DebugClock::default(),
            now: config.start,
            asking_lines: Vec::new(),
            chosen: Settings::default(),
            verbosity: None,
            connections_before_reset: (0, 0),
            input_held: (0, 0),
            scarce: false,
            config,
        };
        core.settle_meters(core.config.start.monotonic);
        Ok(core)
    }

    /// Who may come in from now on; connections that are known already stay so, as with memcached.
    pub fn set_credentials(&mut self, credentials: Arc<Credentials>) {
        self.credentials = Some(credentials);
    }

    /// A message from another worker arrived. Of commands with large answers a part may be left: it is to be handed in
    /// before anything that came later for its connection ([`Message::goes_behind`]), once there is memory for more answers.
    #[must_use = "commands that are left were not carried out"]
    pub fn handle_message(&mut self, now: Now, from: u16, message: Message) -> Option<Message> {
        let mut left = None;
        match message {
            Message::Commands(commands) => {
                left = self
                    .carry_out_commands(now, from, &commands)
                    .map(Message::Commands);
            }
            Message::Answers(answers) => self.take_answers(&answers),
            Message::Gone(_) => {}
            Message::Whole { to, task } => {
                let (to, task, share) = self.do_share(now, from, to, task);
                if let Some(to) = to {
                    self.outbox.push(from, Message::Share { to, task, share });
                }
            }
            Message::Handover(handover) => self.take_handover(now, from, handover),
            Message::Hosted(hosted) => self.take_hosted(now, hosted),
            Message::Follow(follow) => self.take_follow(now, follow),
            Message::Followed(follow) => self.take_followed(now, follow),
            Message::FlushGiven(flush) => self.take_flush_given(now, flush),
            Message::Share { to, task, share } => self.take_share(now, to, task, share),
            Message::Log(lines) => {
                self.write_to_watchers(&lines);
                self.outbox.push(from, Message::LogTaken);
            }
            Message::LogTaken => self.lines_taken(from),
        }
        self.carry_out_replication(now);
        left
    }

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

    /// What the driver holds of input that was not carried out, for `stats`: connections and bytes.
    pub fn set_input_held(&mut self, connections: u64, bytes: u64) {
        self.input_held = (connections, bytes);
    }

    /// Whether there is no memory for the answers of whoever is served next: a connection, or the asker of a message. Until
    /// there is, who is to be answered with a value of more than [`LARGE_ANSWER`] bytes waits, alone: a connection
    /// ([`Session::lacks_room`](crate::Session::lacks_room)), or what is left of a message.
    pub fn set_scarce(&mut self, scarce: bool) {
        self.scarce = scarce;
    }

    /// Whether a read of a key that is here must wait for memory. Leaves no trace.
    #[inline]
    pub(crate) fn is_too_large_now(&self, at: &At, key: &[u8]) -> bool {
        self.scarce && self.is_large(at, key)
    }

    #[cold]
    fn is_large(&self, at: &At, key: &[u8]) -> bool {
        let item = (self.engine.store).peek_hashed(at.cachelet, key, at.table, at.seconds);
        item.is_some_and(|item| item.value().len() > LARGE_ANSWER)
    }

    /// A connection whose output grew or that is to be closed, by other means than its own input.
    pub fn poll_touched(&mut self) -> Option<ConnectionId> {
        if self.observers.is_on() {
            self.send_lines();
        }
        self.connections.poll_touched()
    }

    /// The coordinator's map. All workers of a server are to be given the same maps in the same order. Contents of cachelets that it gives to others are forgotten before
    /// this returns, so that the caller may report the epoch. False when the map cannot be used.
    pub fn handle_map(&mut self, now: Now, map: &Arc<ClusterMap>, server: ServerId) -> bool {
        let made = (self.placement).updated(map, server, self.config.workers);
        let Ok(mut placement) = made else {
            self.engine.counters.maps_refused += 1;
            return false;
        };
        self.revise_migrations(now, map, &mut placement);
        let mut wanted = self.revise_handovers(&placement);
        wanted.extend(self.migrations.staged());
        let mut held: BTreeSet<_> = self.engine.store.cachelet_ids().collect();
        if self.placement.is_private() {
            for id in core::mem::take(&mut held) {
                self.engine.store.drop_cachelet(id);
            }
        }
        // What came to this server anew, after another had it, begins empty.
        held.retain(|id| {
            let (before, after) = (self.placement.seat(*id), placement.seat(*id));
            let begins =
                before.is_some_and(|before| after.is_some_and(|after| after.stay != before.stay));
            if begins || !wanted.contains(id) {
                self.engine.store.drop_cachelet(*id);
            }
            !begins
        });
        let mut begin = wanted.difference(&held).peekable();
        if begin.peek().is_some() && self.placement.epoch() > Epoch(0) {
            // Whoever had them last may have counted on from versions of this worker.
            self.skip_versions(map.epoch());
        }
        for id in begin {
            self.engine.store.create_cachelet(*id);
        }
        self.settle_meters(now.monotonic);
        self.placement = placement;
        self.server = server;
        self.map = Some(map.clone());
        self.update_cluster_config();
        let me = self.me();
        self.engine.hot.handle_map(now.monotonic, map.clone(), me);
        self.take_early(now);
        self.wake_early();
        self.find_migrations(now);
        self.carry_out_replication(now);
        self.release_held(now);
        true
    }

    /// Leaves some versions out, because this worker gets keys that another server had, by that map or migration.
    pub(crate) fn skip_versions(&mut self, reason: Epoch) {
        let life = self.config.seed ^ self.config.boot.0;
        let index = u64::from(self.config.index);
        self.engine.skip_versions([life, index, reason.0]);
    }

    /// Whether a client without a map has asked for another server's key since the start or `stats reset`.
    pub fn has_refused_keys(&self) -> bool {
        self.engine.counters.keys_of_others > 0
    }

    /// Mean load of the cluster's workers, in requests per second.
    pub fn handle_cluster_load(&mut self, mean: f64) {
        self.engine.hot.handle_cluster_load(mean);
    }

    /// What the operator of the cluster has chosen, but for what the map says of it.
    pub fn handle_settings(&mut self, now: Now, settings: &Settings) {
        self.chosen = *settings;
        self.engine.hot.take_settings(now.monotonic, settings);
        self.carry_out_replication(now);
        self.release_held(now);
    }

    /// Samples less for hot keys, in parts of what is sampled normally.
    pub fn set_sampling_ratio(&mut self, ratio: f64) {
        self.engine.hot.set_sampling_ratio(ratio);
    }

    /// What the process knows for `stats`.
    pub fn set_process_facts(&mut self, facts: ProcessFacts) {
        let moved = self.facts.address != facts.address;
        self.facts = facts;
        if moved {
            self.update_cluster_config();
        }
    }

    /// How many connections the process has, for `stats`: open now, admitted and refused so far.
    pub fn set_connections(&mut self, open: u64, total: u64, refused: u64) {
        self.facts.connections_open = open;
        let (total_before, refused_before) = self.connections_before_reset;
        self.facts.connections_total = total.saturating_sub(total_before);
        self.facts.connections_refused = refused.saturating_sub(refused_before);
    }

    /// Whether a link's driver has anything to do besides moving bytes.
    #[inline]
    pub fn has_link_requests(&self) -> bool {
        self.links.has_requests() || self.migrations.has_requests()
    }

    /// What a link's driver should do next.
    pub fn poll_link_request(&mut self) -> Option<LinkRequest> {
        let of_replicas = self.links.poll_request();
        of_replicas.or_else(|| self.migrations.poll_request())
    }

    /// A link stands.
    pub fn link_up(&mut self, now: Now, link: LinkId) {
        if link.purpose == LinkPurpose::Replicas && self.links.stands(link) {
            self.engine.hot.handle_link_up(link.worker);
            self.carry_out_replication(now);
        }
    }

    /// A link broke or could not be made.
    pub fn link_lost(&mut self, now: Now, link: LinkId) {
        if let LinkPurpose::Migration(_) = link.purpose {
            return self.migration_link_lost(now, link);
        }
        self.links.lost(&mut self.engine, now.monotonic, link);
        self.carry_out_replication(now);
    }

    /// Bytes arrived on a link. Gives the number consumed.
    pub fn link_input(&mut self, now: Now, link: LinkId, input: &[u8]) -> usize {
        if let LinkPurpose::Migration(_) = link.purpose {
            return self.migration_link_input(now, link, input);
        }
        let consumed = self
            .links
            .input(&mut self.engine, now.monotonic, link, input);
        self.carry_out_replication(now);
        self.release_held(now);
        consumed
    }

    /// Bytes to be written to a link; the driver removes what it wrote.
    pub fn link_out(&mut self, link: LinkId) -> Option<&mut Vec<u8>> {
        match link.purpose {
            LinkPurpose::Replicas => self.links.out(link),
            LinkPurpose::Migration(_) => self.migration_link_out(link),
        }
    }

    /// Time passed: expiry, delayed flush, hot keys, links that do not answer.
    pub fn handle_timeout(&mut self, now: Now) {
        let seconds = TimeBase::seconds(now);
        if self.flush_at.is_some_and(|at| at <= seconds) {
            self.flush_at = None;
            self.flush(now);
            self.finish_flush(now, self.config.index, None);
        }
        self.carry_out_orders(now);
        self.migrate(now);
        self.engine.hot.handle_timeout(now.monotonic);
        self.measure(now.monotonic);
        self.links.handle_timeout(&mut self.engine, now.monotonic);
        self.carry_out_replication(now);
        self.release_held(now);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next needed.
    pub fn poll_deadline(&self) -> Instant {
        let own = (self.engine.hot.poll_deadline()).min(self.meter.poll_deadline());
        let due = [
            self.links.deadline(),
            self.orders_deadline(),
            self.migrations.deadline(),
        ];
        due.into_iter().flatten().fold(own, Instant::min)
    }

    /// A bounded step of housekeeping. True when there is more to do at once; otherwise call it again
    /// within milliseconds, because other workers may want memory back at any time. Items expire by
    /// the second, so the round that looks for them begins once a second.
    pub fn maintain(&mut self, now: Now) -> bool {
        let seconds = TimeBase::seconds(now);
        let (begun, over) = self.round;
        if over && begun == seconds {
            self.engine.store.maintain(seconds, 0);
            self.engine.replicas.maintain(seconds, 0);
            return false;
        }
        let items = self.engine.store.maintain(seconds, MAINTENANCE_STEP);
        let replicas = self.engine.replicas.maintain(seconds, MAINTENANCE_STEP);
        let over = !(items || replicas);
        self.round = (if over { seconds } else { begun }, over);
        !over
    }

    /// The event loop has slept for so long, because there was nothing to do.
    #[inline]
    pub fn handle_slept(&mut self, time: Duration) {
        self.engine.hot.handle_slept(time);
    }

    /// Undiverted load in requests per second: what it would serve if nothing were replicated.
    pub fn load(&self) -> f64 {
        self.engine.hot.load()
    }

    /// Whether there is anything to tell of hot keys: some have replicas or would have them, or the log
    /// says what became of such.
    pub fn has_hot_keys(&self) -> bool {
        let hot = &self.engine.hot;
        hot.replicated_count() + hot.proposed_count() + hot.log().entries().len() > 0
    }

    /// What this worker has counted.
    pub fn counters(&mut self) -> &mut Counters {
        &mut self.engine.counters
    }

    /// Epoch of the map in use; 0 without one.
    pub fn epoch(&self) -> Epoch {
        self.placement.epoch()
    }

    pub(crate) fn me(&self) -> WorkerRef {
        WorkerRef {
            server: self.server,
            worker: self.config.index,
        }
    }

    /// Counts from here on.
    pub(crate) fn reset_stats(&mut self, now: Now) {
        self.engine.reset_counts(now);
        self.observers.reset();
        let facts = &mut self.facts;
        let (total, refused) = &mut self.connections_before_reset;
        *total += core::mem::take(&mut facts.connections_total);
        *refused += core::mem::take(&mut facts.connections_refused);
    }

    pub(crate) fn flush(&mut self, now: Now) {
        self.engine.store.flush();
        self.engine.replicas.flush();
        // Newer than everything that is gone, as after a delete.
        self.engine.next_version();
        self.engine.hot.handle_flush(now.monotonic);
        self.flush_ends_migrations(now);
    }

    /// Whether this worker hosts a key.
    #[inline]
    pub(crate) fn hosts(&self, place: &LocalPlace) -> bool {
        let me = self.config.index;
        place.is_at(me) || self.handovers.host_of(place) == Holder::Worker(me)
    }

    /// The worker that an aware client should ask for a key. This one itself where nobody owns the key at
    /// the moment: then the client asks again after a pause.
    pub(crate) fn owner_of(&self, located: &Located, hash: KeyHash) -> WorkerRef {
        if located.place.is_owned() {
            let worker = match self.handovers.host_of(&located.place) {
                Holder::Worker(worker) => worker,
                // It is on its way to another server, or not served at present.
                Holder::Changing | Holder::NoLease | Holder::Elsewhere => self.config.index,
            };
            let server = self.server;
            return WorkerRef { server, worker };
        }
        let Some(place) = self.map.as_deref().map(|map| map.locate(hash)) else {
            return self.me();
        };
        let migrated = self.migrations.gone_to(place.cachelet);
        migrated.or(place.worker).unwrap_or(self.me())
    }

    /// Where a key is kept.
    #[inline]
    pub(crate) fn locate(&self, key: &[u8]) -> Located {
        let table = self.engine.store.hash(key);
        let (place, placement) = self.placement.locate(key, table);
        Located {
            table,
            placement,
            place,
        }
    }

    #[inline]
    pub(crate) fn carry_out_replication(&mut self, now: Now) {
        if self.engine.hot.has_output() {
            self.carry_out_links(now);
        }
    }

    fn carry_out_links(&mut self, now: Now) {
        let here = Surroundings {
            me: WorkerRef {
                server: self.server,
                worker: self.config.index,
            },
            map: self.map.as_deref(),
            placement: &self.placement,
        };
        self.links.carry_out(&mut self.engine, now, here);
    }
}
