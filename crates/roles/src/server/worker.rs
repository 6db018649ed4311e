//! [`WorkerCore`]: connections, messages, links, map and time, brought together.

use super::admin::{AdminConfig, DebugClock, ProcessRequests};
use super::auth::{AuthMode, Credentials, Dialect};
use super::counters::Counters;
use super::engine::{At, Engine};
use super::links::{LinkRequest, Links, Surroundings};
use super::message::{Message, ReturnAddress, Task};
use super::observe::{CloseReason, ObserverConfig, Observers};
use super::outbox::Outbox;
use super::placement::{LocalPlace, LocalPlacement};
use super::plain::Run;
use super::replicas::Replicas;
use super::session::{ConnectionId, OUT_PAUSE, Peer, Session, awaited_limit};
use super::stats::ProcessFacts;
use super::time::{Seconds, TimeBase};
use evenkeel_policy::hot_keys::config::{ConfigError, HotKeysConfig, Mode};
use evenkeel_policy::hot_keys::server::{HotKeys, Reader};
use evenkeel_policy::placement::map::ClusterMap;
use evenkeel_protocol::{Limits, RequestOutcome, parse_request};
use evenkeel_storage::{SegmentPool, Store, StoreConfig, TableHash};
use evenkeel_types::{BootId, Epoch, Instant, KeyHash, Now, ServerId, Version, WorkerRef};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Bounded work on expiry and index growth per turn, in items.
const MAINTENANCE_STEP: usize = 64;

/// Share of the memory limit that replicas of other servers' keys may take, as a divisor. Hot keys
/// are fewer than one item in ten thousand (SPORE, section 5.2); the share is a bound, not a need.
pub const REPLICA_SHARE_DIVISOR: usize = 16;

/// An emptied output larger than this, in bytes, is not kept for the next connection. Twice what a
/// connection may have unread, so that answers with large items find room without asking for it.
const SPARE_MAX: usize = 2 * OUT_PAUSE;

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
    /// Version before the first one; see [`first_version`](super::first_version).
    pub first_version: Version,
}

/// How far a connection's input was carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of input that are done with.
    pub consumed: usize,
    /// Complete commands are left for the next turn: the connection had its share of this one.
    pub more: bool,
}

/// A key's hashes, and where they lead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located {
    pub table: TableHash,
    pub placement: Option<KeyHash>,
    pub place: LocalPlace,
}

impl Located {
    /// The same for a command that is carried out here.
    #[inline]
    pub fn at(&self, now: Now, reader: Reader) -> At {
        At {
            now,
            seconds: TimeBase::seconds(now),
            cachelet: self.place.cachelet,
            table: self.table,
            placement: self.placement,
            reader,
            owned: self.place.owned,
            since: self.place.since,
        }
    }
}

/// What became of one command.
enum Step {
    /// It is done with, and is so long.
    Done(usize),
    /// It is to be shown again: at once after others had their turn, or when something has come.
    Waits { more: bool },
}

/// One worker of a server, without its thread and sockets.
#[derive(Debug)]
pub struct WorkerCore {
    pub(super) config: WorkerConfig,
    pub(super) engine: Engine,
    pub(super) placement: LocalPlacement,
    pub(super) map: Option<Arc<ClusterMap>>,
    pub(super) server: ServerId,
    pub(super) facts: ProcessFacts,
    sessions: Vec<Slot>,
    free: Vec<u32>,
    pub(super) touched: VecDeque<ConnectionId>,
    /// Messages on their way to each worker.
    pub(super) outbox: Outbox,
    /// Room for the keys of plain reads.
    pub(super) run: Run,
    /// An emptied output, for the next connection that has something to say: idle ones hold none.
    spare: Vec<u8>,
    /// The second of the last round of housekeeping, and whether that round is over.
    round: (Seconds, bool),
    links: Links,
    /// The newest connection of each home that sends replicas here.
    pub(super) home_links: BTreeMap<WorkerRef, ConnectionId>,
    /// A delayed `flush_all`.
    pub(super) flush_at: Option<Seconds>,
    /// Who may come in; nobody until they are set, where authentication is on.
    pub(super) credentials: Option<Arc<Credentials>>,
    /// Who looks on.
    pub(super) observers: Observers,
    /// The memory that all workers share.
    pub(super) pool: Arc<SegmentPool>,
    /// What the process is asked for.
    pub(super) process_requests: ProcessRequests,
    pub(super) debug_clock: DebugClock,
    /// The time when it was last told by the driver.
    pub(super) now: Now,
    /// What `stats conns` says of the connection that asks for it.
    pub(super) asking_lines: Vec<u8>,
    /// What `verbosity` was set to.
    pub(super) verbosity: Option<u32>,
    /// Connections admitted and refused before the last `stats reset`.
    connections_before_reset: (u64, u64),
    /// See [`WorkerCore::set_input_held`].
    pub(super) input_held: (u64, u64),
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    /// Boxed, so that it can be taken out while a command works on it, and put back, by pointer.
    session: Option<Box<Session>>,
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
            ..StoreConfig::default()
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
            LocalPlacement::unmapped(config.workers)
        } else {
            LocalPlacement::standalone(config.workers)
        };
        for id in placement.cachelets_of(config.index) {
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
        Ok(WorkerCore {
            engine,
            placement,
            map: None,
            server: ServerId::default(),
            facts: ProcessFacts::default(),
            sessions: Vec::new(),
            free: Vec::new(),
            touched: VecDeque::new(),
            outbox: Outbox::new(config.workers),
            run: Run::default(),
            spare: Vec::new(),
            round: (0, true),
            links: Links::default(),
            home_links: BTreeMap::new(),
            flush_at: None,
            credentials: None,
            observers: Observers::new(&ObserverConfig {
                worker: config.index,
                workers: config.workers,
                start: config.start,
                detail: config.admin.detail,
                delimiter: config.admin.prefix_delimiter,
                watcher_bytes_max: config.admin.watcher_log_bytes,
                worker_bytes_max: config.admin.worker_log_bytes,
            }),
            pool: pool.clone(),
            process_requests: ProcessRequests::new(),
            debug_clock: DebugClock::default(),
            now: config.start,
            asking_lines: Vec::new(),
            verbosity: None,
            connections_before_reset: (0, 0),
            input_held: (0, 0),
            config,
        })
    }

    /// A connection was made.
    pub fn open(&mut self, peer: Peer) -> ConnectionId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.sessions.push(Slot::default());
            (self.sessions.len() - 1) as u32
        });
        let entry = &mut self.sessions[slot as usize];
        let limit = awaited_limit(self.config.limits.item_size_max);
        let mut session = Session::new(peer, limit);
        session.begin(self.config.auth);
        session.heard_at = self.now.monotonic;
        entry.session = Some(Box::new(session));
        let id = ConnectionId {
            slot,
            generation: entry.generation,
        };
        if self.observers.is_on() {
            self.observe_open(id);
        }
        id
    }

    /// The number of a connection in statistics and logs: like a descriptor's, it is unique in the
    /// process while the connection stands.
    pub(super) fn connection_number(&self, id: ConnectionId) -> u32 {
        self.number_at(self.config.index, id)
    }

    /// As [`connection_number`](Self::connection_number), of a connection of any worker. The first
    /// numbers are those of the process's listeners.
    fn number_at(&self, worker: u16, id: ConnectionId) -> u32 {
        let listeners = self.facts.listeners.len() as u32;
        listeners + id.slot * u32::from(self.config.workers) + u32::from(worker) + 1
    }

    /// Who may come in from now on; connections that are known already stay so, as with memcached.
    pub fn set_credentials(&mut self, credentials: Arc<Credentials>) {
        self.credentials = Some(credentials);
    }

    /// A connection is gone. Answers that are still on their way to it will be ignored.
    pub fn close(&mut self, id: ConnectionId) {
        self.close_for(id, CloseReason::Normal);
    }

    /// As [`close`](Self::close), for another reason than that the client is done.
    pub fn close_for(&mut self, id: ConnectionId, reason: CloseReason) {
        if self.session(id).is_none() {
            return;
        }
        if self.observers.is_on() {
            self.observe_close(id, reason);
            self.forget_watcher(id);
        }
        let entry = &mut self.sessions[id.slot as usize];
        entry.session = None;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(id.slot);
        self.home_links.retain(|_, link| *link != id);
    }

    /// A connection's state, if it still stands.
    pub fn session(&mut self, id: ConnectionId) -> Option<&mut Session> {
        let slot = self.sessions.get_mut(id.slot as usize)?;
        slot.session
            .as_deref_mut()
            .filter(|_| slot.generation == id.generation)
    }

    /// The connections that stand, with their names.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (ConnectionId, &Session)> {
        self.sessions
            .iter()
            .enumerate()
            .filter_map(|(slot, entry)| {
                let id = ConnectionId {
                    slot: slot as u32,
                    generation: entry.generation,
                };
                Some((id, entry.session.as_deref()?))
            })
    }

    /// Takes a connection's state out, so that commands can borrow it beside the rest of the worker.
    /// Whoever takes it gives it back with [`WorkerCore::return_session`].
    pub(super) fn take_session(&mut self, id: ConnectionId) -> Option<Box<Session>> {
        let slot = self.sessions.get_mut(id.slot as usize)?;
        if slot.generation == id.generation {
            slot.session.take()
        } else {
            None
        }
    }

    /// Gives a connection's state back. No command opens or closes connections, so its place is free.
    pub(super) fn return_session(&mut self, id: ConnectionId, session: Box<Session>) {
        self.sessions[id.slot as usize].session = Some(session);
    }

    /// Carries out the commands at the front of a connection's input. `input` is everything not yet
    /// consumed; answers go to the session's output.
    pub fn handle_input(&mut self, now: Now, id: ConnectionId, input: &[u8]) -> Progress {
        let Some(mut session) = self.take_session(id) else {
            return Progress {
                consumed: input.len(),
                more: false,
            };
        };
        if session.out.capacity() == 0 {
            session.out = core::mem::take(&mut self.spare);
        }
        session.heard_at = now.monotonic;
        if self.observers.is_on() {
            let number = self.connection_number(id);
            self.observers.set_asking(number);
        }
        let progress = match session.dialect {
            Dialect::Text => self.work_through(now, id, &mut session, input),
            _ => self.work_through_dialect(now, id, &mut session, input),
        };
        if session.out.is_empty() {
            self.take_back(&mut session.out);
        }
        self.return_session(id, session);
        self.carry_out_replication(now);
        progress
    }

    /// The driver wrote the first `count` bytes of a connection's output.
    pub fn wrote(&mut self, id: ConnectionId, count: usize) {
        self.engine.counters.bytes_written += count as u64;
        let Some(session) = self.session(id) else {
            return;
        };
        session.written(count);
        if session.out.is_empty() {
            let mut emptied = core::mem::take(&mut session.out);
            self.take_back(&mut emptied);
        }
    }

    /// Keeps the larger of two emptied outputs for the next connection, and drops the other.
    fn take_back(&mut self, emptied: &mut Vec<u8>) {
        let emptied = core::mem::take(emptied);
        if emptied.capacity() > self.spare.capacity() && emptied.capacity() <= SPARE_MAX {
            self.spare = emptied;
        }
    }

    pub(super) fn work_through(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        input: &[u8],
    ) -> Progress {
        let mut consumed = 0;
        let mut commands = 0;
        loop {
            let dropped = session.swallow.min(input.len() - consumed);
            session.swallow -= dropped;
            consumed += dropped;
            if session.closing {
                return Progress {
                    consumed: input.len(),
                    more: false,
                };
            }
            let rest = &input[consumed..];
            if rest.is_empty() || rest.len() < session.need || session.is_paused() {
                return Progress {
                    consumed,
                    more: false,
                };
            }
            if commands == self.config.requests_per_turn || self.outbox.is_full() {
                self.engine.counters.conn_yields += 1;
                return Progress {
                    consumed,
                    more: true,
                };
            }
            session.need = 0;
            let left = self.config.requests_per_turn - commands;
            if rest[0] == b's' {
                if let Some((length, taken)) = self.plain_sets(now, session, rest, left) {
                    consumed += length;
                    commands += taken;
                    continue;
                }
            } else if session.keys_done == 0
                && let Some((progress, taken)) = self.plain_reads(now, id, session, rest, left)
            {
                consumed += progress.consumed;
                commands += taken;
                if session.keys_done > 0 || progress.more {
                    return Progress {
                        consumed,
                        more: progress.more,
                    };
                }
                continue;
            }
            commands += 1;
            match self.one_request(now, id, session, rest) {
                Step::Done(length) => consumed += length,
                Step::Waits { more } => return Progress { consumed, more },
            }
        }
    }

    /// Carries out the command at the front of the input, whatever it is.
    // Not inlined: plain requests should not pay for what it needs of the stack.
    #[inline(never)]
    fn one_request(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        input: &[u8],
    ) -> Step {
        match parse_request(input, &self.config.limits) {
            RequestOutcome::Request { request, consumed } => {
                if self.dispatch(now, id, session, &request, &input[..consumed]) {
                    Step::Done(consumed)
                } else {
                    // A multi-get or a list that waits for room, or has had its share of the turn; it
                    // goes on where it stopped.
                    Step::Waits {
                        more: !session.is_paused(),
                    }
                }
            }
            RequestOutcome::Incomplete { total } => {
                session.need = total;
                Step::Waits { more: false }
            }
            RequestOutcome::Refused {
                refusal,
                consumed,
                swallow,
            } => {
                self.refuse(now, session, &refusal);
                session.swallow = swallow;
                Step::Done(consumed)
            }
            RequestOutcome::Close { reply } => {
                self.engine.counters.protocol_errors += 1;
                session.sink().extend_from_slice(reply);
                session.closing = true;
                Step::Done(0)
            }
        }
    }

    /// A message from another worker arrived.
    pub fn handle_message(&mut self, now: Now, from: u16, message: Message) {
        match message {
            Message::Command { to, frame, part } => {
                self.engine.counters.forwarded_in += 1;
                if self.observers.is_on() {
                    let number = to.map_or(0, |to| self.number_at(from, to.connection));
                    self.observers.set_asking(number);
                }
                let bytes = self.carry_out_forwarded(now, &frame, part, to.is_some());
                self.answer(from, to, Task::OneKey, bytes);
            }
            Message::Whole { to, task } => {
                let mut bytes = Vec::new();
                let task = self.do_share(now, task, &mut bytes);
                self.answer(from, to, task, bytes);
            }
            Message::Answer { to, task, bytes } => self.take_answer(now, to, task, &bytes),
            Message::Log(lines) => {
                self.write_to_watchers(&lines);
                self.outbox.push(from, Message::LogTaken);
            }
            Message::LogTaken => self.lines_taken(from),
        }
        self.carry_out_replication(now);
    }

    fn answer(&mut self, to_worker: u16, to: Option<ReturnAddress>, task: Task, bytes: Vec<u8>) {
        if let Some(to) = to {
            self.outbox
                .push(to_worker, Message::Answer { to, task, bytes });
        }
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

    /// A connection whose output grew or that is to be closed, by other means than its own input.
    pub fn poll_touched(&mut self) -> Option<ConnectionId> {
        if self.observers.is_on() {
            self.send_lines();
        }
        self.touched.pop_front()
    }

    /// The coordinator's map. Contents of cachelets that it gives to others are forgotten before
    /// this returns, so that the caller may report the epoch. False when the map cannot be used.
    pub fn handle_map(&mut self, now: Now, map: &Arc<ClusterMap>, server: ServerId) -> bool {
        let made = self.placement.updated(map, server, self.config.workers);
        let Ok(placement) = made else {
            self.engine.counters.maps_refused += 1;
            return false;
        };
        let wanted: BTreeSet<_> = placement
            .cachelets_of(self.config.index)
            .into_iter()
            .collect();
        let mut held: BTreeSet<_> = self.engine.store.cachelet_ids().collect();
        if self.placement.is_private() {
            for id in core::mem::take(&mut held) {
                self.engine.store.drop_cachelet(id);
            }
        }
        for id in held.difference(&wanted) {
            self.engine.store.drop_cachelet(*id);
        }
        for id in wanted.difference(&held) {
            self.engine.store.create_cachelet(*id);
        }
        self.placement = placement;
        self.server = server;
        self.map = Some(map.clone());
        self.update_cluster_config();
        let me = self.me();
        self.engine.hot.handle_map(now.monotonic, map.clone(), me);
        self.carry_out_replication(now);
        true
    }

    /// Mean load of the cluster's workers, in requests per second.
    pub fn handle_cluster_load(&mut self, mean: f64) {
        self.engine.hot.handle_cluster_load(mean);
    }

    /// Switches hot-key replication.
    pub fn set_hot_keys(&mut self, now: Now, mode: Mode) {
        self.engine.hot.set_mode(now.monotonic, mode);
        self.carry_out_replication(now);
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
        self.links.has_requests()
    }

    /// What a link's driver should do next.
    pub fn poll_link_request(&mut self) -> Option<LinkRequest> {
        self.links.poll_request()
    }

    /// A link stands.
    pub fn link_up(&mut self, now: Now, worker: WorkerRef) {
        self.engine.hot.handle_link_up(worker);
        self.carry_out_replication(now);
    }

    /// A link broke or could not be made.
    pub fn link_lost(&mut self, now: Now, worker: WorkerRef) {
        self.links.lost(&mut self.engine, now.monotonic, worker);
        self.carry_out_replication(now);
    }

    /// Bytes arrived on a link. Gives the number consumed.
    pub fn link_input(&mut self, now: Now, worker: WorkerRef, input: &[u8]) -> usize {
        let consumed = self
            .links
            .input(&mut self.engine, now.monotonic, worker, input);
        self.carry_out_replication(now);
        consumed
    }

    /// Bytes to be written to a link; the driver removes what it wrote.
    pub fn link_out(&mut self, worker: WorkerRef) -> Option<&mut Vec<u8>> {
        self.links.out(worker)
    }

    /// Time passed: expiry, delayed flush, hot keys, links that do not answer.
    pub fn handle_timeout(&mut self, now: Now) {
        let seconds = TimeBase::seconds(now);
        if self.flush_at.is_some_and(|at| at <= seconds) {
            self.flush_at = None;
            self.flush(now);
        }
        self.engine.hot.handle_timeout(now.monotonic);
        self.links.handle_timeout(&mut self.engine, now.monotonic);
        self.carry_out_replication(now);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next needed.
    pub fn poll_deadline(&self) -> Instant {
        let hot = self.engine.hot.poll_deadline();
        self.links.deadline().map_or(hot, |links| links.min(hot))
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

    /// Undiverted load in requests per second: what it would serve if nothing were replicated.
    pub fn load(&self) -> f64 {
        self.engine.hot.load()
    }

    /// What this worker has counted.
    pub fn counters(&mut self) -> &mut Counters {
        &mut self.engine.counters
    }

    /// Epoch of the map in use; 0 without one.
    pub fn epoch(&self) -> Epoch {
        self.placement.epoch()
    }

    pub(super) fn me(&self) -> WorkerRef {
        WorkerRef {
            server: self.server,
            worker: self.config.index,
        }
    }

    /// Counts from here on.
    pub(super) fn reset_stats(&mut self, now: Now) {
        self.engine.reset_counts(now);
        self.observers.reset();
        let facts = &mut self.facts;
        let (total, refused) = &mut self.connections_before_reset;
        *total += core::mem::take(&mut facts.connections_total);
        *refused += core::mem::take(&mut facts.connections_refused);
    }

    pub(super) fn flush(&mut self, now: Now) {
        self.engine.store.flush();
        self.engine.replicas.flush();
        // Newer than everything that is gone, as after a delete.
        self.engine.next_version();
        self.engine.hot.handle_flush(now.monotonic);
    }

    /// Where a key is kept, for a command that is carried out here, and by which worker.
    #[inline]
    pub(super) fn at(&self, now: Now, key: &[u8], reader: Reader) -> (At, u16) {
        let located = self.locate(key);
        (located.at(now, reader), located.place.worker)
    }

    /// Where a key is kept.
    #[inline]
    pub(super) fn locate(&self, key: &[u8]) -> Located {
        let table = self.engine.store.hash(key);
        let (place, placement) = self.placement.locate(key, table);
        Located {
            table,
            placement,
            place,
        }
    }

    #[inline]
    pub(super) fn carry_out_replication(&mut self, now: Now) {
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
