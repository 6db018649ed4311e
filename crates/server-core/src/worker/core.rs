//! [`WorkerCore`]: the parts of a worker, brought together.

use crate::admin::{AdminConfig, DebugClock, ProcessRequests};
use crate::commands::probe::Run;
use crate::links::{Links, Surroundings};
use crate::mesh::held::HeldAnswers;
use crate::mesh::outbox::Outbox;
use crate::observe::Observers;
use crate::ownership::homes::Homes;
use crate::ownership::hosting::Hosting;
use crate::placement::{LocalPlacement, Located};
use crate::session::ConnectionId;
use crate::session::connections::Connections;
use crate::shard::counters::Counters;
use crate::shard::engine::{Engine, EngineConfig, first_version};
use crate::shard::replicas::Replicas;
use crate::shard::time::Seconds;
use crate::stats::process::ProcessState;
use evenkeel_hotkeys::config::{ConfigError, HotKeysConfig};
use evenkeel_hotkeys::server::HotKeys;
use evenkeel_protocol::Limits;
use evenkeel_protocol::auth::{AuthMode, Credentials};
use evenkeel_schemes::name;
use evenkeel_storage::{SegmentPool, Store, StoreConfig};
use evenkeel_types::{BootId, Now, Version};
use std::sync::Arc;

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
    /// Whether `flush_all` is executed (`-F` forbids it).
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
    /// The first of this many workers of a server that is started now and is memcached's in all else: without a coordinator,
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
    pub(super) config: WorkerConfig,
    pub(super) engine: Engine,
    /// Which cachelets it serves.
    pub(super) hosting: Hosting,
    pub(super) connections: Connections,
    /// Messages on their way to each worker.
    pub(super) outbox: Outbox,
    /// Room for the keys of plain reads.
    pub(super) run: Run,
    /// Connections to the shadows of its hot keys.
    pub(super) links: Links,
    /// The homes whose replicas it holds.
    pub(super) homes: Homes,
    /// A delayed `flush_all`.
    pub(super) flush_at: Option<Seconds>,
    /// Who may come in; nobody until they are set, where authentication is on.
    pub(super) credentials: Option<Arc<Credentials>>,
    /// Answers that wait until copies of their keys cannot be read.
    pub(super) held: HeldAnswers,
    /// Who looks on.
    pub(super) observers: Observers,
    /// What statistics tell of the process.
    pub(super) process: ProcessState,
    /// What the process is asked for.
    pub(super) process_requests: ProcessRequests,
    pub(super) debug_clock: DebugClock,
    /// The time when it was last told by the driver.
    pub(super) now: Now,
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
            is_copy: name::is_copy,
        };
        let replica_bytes =
            pool.limit_bytes() / REPLICA_SHARE_DIVISOR / usize::from(config.workers.max(1));
        let replica_config = StoreConfig {
            hash_seed: config.seed,
            evict: true,
            bytes_max: Some(replica_bytes),
            ..StoreConfig::default()
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
        let engine_config = EngineConfig {
            start: config.start,
            limits: config.limits,
            first_version: config.first_version,
            cas_shown: config.cas_shown,
            life: [config.seed ^ config.boot.0, u64::from(config.index)],
        };
        Ok(WorkerCore {
            engine: Engine::new(store, replicas, hot, &engine_config),
            hosting: Hosting::new(config.index, config.workers, placement),
            connections: Connections::default(),
            outbox: Outbox::new(config.index, config.workers),
            run: Run::default(),
            links: Links::default(),
            homes: Homes::default(),
            flush_at: None,
            credentials: None,
            held: HeldAnswers::default(),
            observers: Observers::new(config.index, config.workers, config.start, &config.admin),
            process: ProcessState::new(config.index, config.workers, pool.clone()),
            process_requests: ProcessRequests::new(),
            debug_clock: DebugClock::default(),
            now: config.start,
            config,
        })
    }

    /// Where a key is kept.
    #[inline]
    pub(super) fn locate(&self, key: &[u8]) -> Located {
        self.hosting.placement.locate(&self.engine.store, key)
    }

    /// What this worker has counted, with what is counted only when somebody asks.
    pub fn counts(&self) -> Counters {
        let (written, dropped, prefixes_overflowed) = self.observers.counts();
        let mut counts = Counters {
            log_worker_written: written,
            log_worker_dropped: dropped,
            log_watchers: self.observers.watchers_here(),
            prefixes_overflowed,
            read_buf_count: self.connections.input_held.0,
            read_buf_bytes: self.connections.input_held.1,
            ..self.engine.counts()
        };
        for (_, session) in self.connections.iter() {
            let bytes = session.waiting_bytes() as u64;
            counts.response_obj_count += u64::from(bytes > 0);
            counts.response_obj_bytes += bytes;
        }
        counts
    }

    /// Whose commands follow: a connection of worker `of`, or nobody's.
    #[inline]
    pub(super) fn note_asking(&mut self, of: u16, connection: Option<ConnectionId>) {
        if self.observers.is_on() {
            let number = connection.map(|id| self.process.connection_number(of, id));
            self.observers.set_asking(number.unwrap_or(0));
        }
    }

    /// Executes what the hot keys decided.
    #[inline]
    pub(super) fn execute_replication(&mut self, now: Now) {
        if self.engine.hot.has_output() {
            self.execute_links(now);
        }
    }

    fn execute_links(&mut self, now: Now) {
        let here = Surroundings {
            me: self.hosting.me,
            map: self.hosting.map.as_deref(),
            placement: &self.hosting.placement,
        };
        self.links.execute(&mut self.engine, now, here);
    }

    /// Lets answers go that need not be held any longer.
    pub(super) fn release_held(&mut self) {
        (self.held).release(&mut self.engine, &mut self.outbox, &mut self.connections);
    }
}
