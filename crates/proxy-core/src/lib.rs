//! The proxy's core: what one proxy worker does, without sockets, clocks or threads.
//!
//! To an application it is one memcached. To an Evenkeel server it is an aware client: it knows the
//! map, goes straight to the worker that owns a key, and holds leases on replicas of hot keys for all
//! of the applications' connections. To any other memcached it is an ordinary client that
//! places keys on a ring.
//!
//! ```text
//!  application ─ bytes ─> request.rs ─> way.rs ─── question ──> backend.rs ─ bytes ─> server
//!                 parse,   │             which route: routes/    one queue, answers
//!                 one slot │             where: pool/            in the order asked
//!                 each     ▼
//!  application <─ bytes ─ client.rs <─ answer.rs <─────────────────────── bytes ── server
//!                          answers in the   compose (show/), keep aside,
//!                          order asked      ask again (recovery.rs)
//! ```
//!
//! A connection whose first byte is that of the binary protocol goes by `binary.rs` instead of
//! `request.rs`; servers are asked in text all the same, and `show/binary.rs` words their answers.
//!
//! # How the driver works with it
//!
//! Tell it what happened (`client_*`, `backend_*`, `set_map`, `handle_timeout`), then do what
//! [`ProxyCore::poll_output`] says until it says nothing. Input that is not consumed is given again,
//! from its first unconsumed byte, when more of it has arrived or when the core asks for it.
//!
//! # What is promised
//!
//! - Every request that wants an answer gets exactly one, in order, at the latest after the request
//!   timeout plus the time to try a second place.
//! - A request whose outcome is unknown is answered with an error, and is put to a server again only
//!   if it is a read or was certainly not carried out.
//! - Each application connection reads its own writes and never an older value after a newer one of
//!   the same key. See [`ClientLeases`](evenkeel_hotkeys::client::ClientLeases) for the argument
//!   in an Evenkeel pool, and [`plain`](evenkeel_hotkeys::plain) for that in a pool of any
//!   memcached servers whose hot keys are replicated (`hot/`).
//!
//! # When the map or the configuration changes
//!
//! Each begins a new *era*, and so does a memcached that goes out of use or comes back. Requests that are under way keep the place they were given. A connection
//! with requests under way from an older era sends no further ones until those are answered, so that
//! what it asks of a key's new home cannot overtake what it asked of the former one, be it because
//! that turns a request away and it is sent on, or because the two are simply not equally fast.
//! Leases end too: those of a pool with each of its maps, all of them with each configuration.

#![forbid(unsafe_code)]
// See clippy.toml.
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

mod answer;
mod bytes;
mod client;
mod config;
mod configure;
mod explain;
mod kept;
pub mod limits;
mod map;
mod pipe;
mod pool;
mod request;
mod request_log;
mod routes;
mod show;
mod slab;
mod stats;
#[cfg(test)]
mod tests;
mod under_way;

pub use config::{
    Access, DEFAULT_POOL, Failover, Login, MapSource, OnDown, PoolConfig, PoolKind, PoolSettings,
    ProxyConfig, Revision, TlsId,
};
pub use explain::{
    Destination, Explanation, Exptimes, HealthSeen, HotSeen, KeyWay, PLACES_LISTED_MAX, Placing,
    RouteFound, ServerSeen,
};
pub use pipe::backend::BackendCounters;
pub use pool::ServerList;
pub use request_log::{LoggedRequest, RequestLogConfig, SLOW_LOGGED_PER_SECOND_MAX};
pub use routes::{
    ADD_PREFIX_LEN_MAX, CommandClass, Commands, ROUTES_MAX, RouteConfig, RouteError, RouteTable,
    RouteTarget, TTL_BOUND_MAX, TtlBounds,
};
pub use slab::Key;
pub use stats::hot_keys::HotKeyReport;
pub use stats::latency::{Histogram, Latency};
pub use stats::listing::{BackendStats, DiscoveryStats, ProcessStats, ProxyStats, WorkerCounts};
pub use stats::metrics::render as render_metrics;
pub use stats::per_route::{ROUTES_COUNTED_MAX, RouteCounters};
pub use stats::pool_metrics::PoolStats;
pub use stats::route_stats::{RouteName, RouteStats};

use client::Client;
use core::time::Duration;
use evenkeel_hotkeys::ages::Ages;
use evenkeel_hotkeys::client::Connection;
use evenkeel_protocol::auth::{Protocols, opening};
use evenkeel_protocol::{KeyAt, Limits, compose};
use evenkeel_types::{Epoch, Instant, UnixSeconds};
use pipe::backend::{Backend, Link, Peer};
use pool::{Pool, PoolId};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use request::multi_get::GroupDraft;
use request::quick::KeyHome;
use request::way::Way;
use request_log::RequestLog;
use routes::{Renamed, Renames};
use slab::Slab;
use stats::listing::StatsKind;
use stats::per_route::PerRoute;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use under_way::flush::Flush;
use under_way::park::Parking;

/// Names a connection of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub Key);

impl ClientId {
    /// As leases call it.
    #[inline]
    fn connection(self) -> Connection {
        Connection(u64::from(self.0.slot) << 32 | u64::from(self.0.generation))
    }
}

/// Names a connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendId(pub Key);

/// Something for the driver to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// There is something in [`ProxyCore::client_output`].
    WriteClient(ClientId),
    /// Give the client's input again, even if it is empty, and go on reading.
    FeedClient(ClientId),
    /// Close the client's connection. The core has forgotten it.
    CloseClient(ClientId),
    /// Connect to a server, then say [`ProxyCore::backend_connected`] or
    /// [`ProxyCore::backend_lost`].
    Connect {
        /// The connection's name from now on.
        id: BackendId,
        /// Host name or IP address.
        host: String,
        /// Port.
        port: u16,
        /// How to speak TLS; `None` for a plain connection.
        tls: Option<TlsId>,
    },
    /// There is something in [`ProxyCore::backend_output`].
    WriteBackend(BackendId),
    /// Close the connection to a server, and forget what it sent.
    CloseBackend(BackendId),
    /// A server knows this newer map: ask the coordinator for it now.
    WantMap {
        /// Whose map.
        source: MapSource,
        /// Its epoch.
        epoch: Epoch,
    },
    /// Add up the workers' counters and say [`ProxyCore::answer_stats`].
    Stats(StatsTicket),
    /// Say where this client reaches the proxy, by [`ProxyCore::answer_own_address`].
    OwnAddress(AddressTicket),
    /// Say [`ProxyCore::reset_stats`] to the core of every worker.
    ResetStats,
    /// Log this request.
    Log(Box<LoggedRequest>),
}

/// A `stats` command that awaits its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsTicket {
    client: ClientId,
    slot: u64,
    kind: StatsKind,
}

/// A `config get cluster` that awaits its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressTicket {
    /// Who asked.
    pub client: ClientId,
    slot: u64,
}

/// One proxy worker. See the [module](self) for how to drive it.
#[derive(Debug)]
pub struct ProxyCore {
    config: Arc<ProxyConfig>,
    /// Those of the configuration, for the way of every key.
    routes: Arc<RouteTable>,
    /// Where each route leads, by its position.
    ways: Vec<Way>,
    pools: Slab<Pool>,
    renames: Renames,
    /// Maps and configurations so far, and servers that came into use or went out of it.
    era: u64,
    /// Whether a memcached is out of use.
    has_outage: bool,
    /// Whether hot keys of a pool of plain servers are looked for.
    watches: bool,
    /// When the present turn of the event loop began.
    now: Instant,
    /// The wall clock.
    unix: UnixSeconds,
    clients: Slab<Client>,
    backends: Slab<Backend>,
    parking: Parking,
    /// The `flush_all`s under way, by the application's connection and its answer slot.
    flushes: BTreeMap<(ClientId, u64), Flush>,
    outputs: VecDeque<Output>,
    stats: ProxyStats,
    /// How many bytes of answers an application may have unread before its requests wait.
    out_pause: usize,
    /// See [`ProxyCore::set_room`].
    room: usize,
    per_route: PerRoute,
    /// `None` while no requests are logged.
    log: Option<RequestLog>,
    random: SplitMix64,
    /// Not later than the first deadline; earlier ones have passed into nothing.
    next_deadline: Option<Instant>,
    /// When to look whether a pool can be forgotten; `None` while none is to be.
    leaving_look: Option<Instant>,
    /// Buffers for composed answers that wait for their turn.
    spare: Vec<Vec<u8>>,
    /// The key of the request in hand, where servers know it by another name.
    renamed: Renamed,
    /// The flags of the meta command in hand, where they are not sent as they came.
    flags: Vec<u8>,
    /// The key of the binary request in hand, where it is sent in base64.
    encoded_key: Vec<u8>,
    /// Whether an application has spoken the binary protocol, so that it matters what servers
    /// understand.
    has_binary: bool,
    /// Connections whose first request waits for servers to say who they are.
    await_greetings: Vec<ClientId>,
    /// The lines of a multi-get under construction, by position of the backend.
    drafts: Vec<GroupDraft>,
    /// Which of them have been begun.
    drafted: Vec<(PoolId, BackendId)>,
    /// The keys of the plain `get` in hand.
    keys: Vec<KeyAt>,
    /// Where each of them is, if they are several.
    homes: Vec<KeyHome>,
}

impl ProxyCore {
    /// A proxy worker. Pools of Evenkeel servers answer with errors until
    /// [`set_map`](Self::set_map).
    ///
    /// The seed decides about pauses before reconnecting, about choices among replicas, and about the
    /// jitter of exptimes.
    ///
    /// # Panics
    /// When the configuration has no pool, or a turn no room for a request.
    pub fn new(config: &Arc<ProxyConfig>, seed: u64) -> Self {
        let mut core = ProxyCore {
            config: Arc::clone(config),
            routes: Arc::clone(&config.routes),
            ways: Vec::new(),
            pools: Slab::default(),
            renames: Renames::default(),
            era: 0,
            has_outage: false,
            watches: false,
            now: Instant::default(),
            unix: 0,
            clients: Slab::default(),
            backends: Slab::default(),
            parking: Parking::default(),
            flushes: BTreeMap::new(),
            outputs: VecDeque::new(),
            stats: ProxyStats::default(),
            out_pause: limits::OUT_PAUSE,
            room: usize::MAX,
            per_route: PerRoute::default(),
            log: None,
            random: SplitMix64::seed_from_u64(seed),
            next_deadline: None,
            leaving_look: None,
            spare: Vec::new(),
            renamed: Renamed::default(),
            flags: Vec::new(),
            encoded_key: Vec::new(),
            has_binary: false,
            await_greetings: Vec::new(),
            drafts: Vec::new(),
            drafted: Vec::new(),
            keys: Vec::new(),
            homes: Vec::new(),
        };
        core.take_over(Instant::default(), config);
        core
    }

    /// A turn of the event loop begins. All that follows happens at this time, as far as it is measured.
    pub fn begin_turn(&mut self, now: Instant) {
        self.now = now;
    }

    /// Whether reads may go to copies, as long as a lease lasts: then the time that comes with input of an
    /// application must not be earlier than the input was there.
    #[inline]
    pub fn holds_leases(&self) -> bool {
        self.pools.iter().any(|(_, pool)| !pool.leases.is_empty())
    }

    /// Tells the wall clock's time, by which exptimes that are Unix times are read. To be told from
    /// time to time, at least once a second.
    pub fn set_unix_time(&mut self, unix: UnixSeconds) {
        self.unix = unix;
    }

    /// Next thing for the driver to do. Call until `None`.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front()?;
        match output {
            Output::WriteClient(id) => {
                if let Some(client) = self.clients.get_mut(id.0) {
                    client.write_queued = false;
                }
            }
            Output::FeedClient(id) => {
                if let Some(client) = self.clients.get_mut(id.0) {
                    client.feed_queued = false;
                }
            }
            Output::WriteBackend(id) => {
                if let Some(backend) = self.backends.get_mut(id.0) {
                    backend.write_queued = false;
                }
            }
            _ => {}
        }
        Some(output)
    }

    /// When [`handle_timeout`](Self::handle_timeout) should next be called, at the latest.
    pub fn poll_deadline(&self) -> Option<Instant> {
        self.next_deadline
    }

    /// Tells that the deadline has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.retry_parked(now);
        self.go_on_with_flushes(now);
        self.forget_left_pools(now);
        for key in self.backends.keys() {
            let due = self.backends.get(key).and_then(Backend::deadline);
            if due.is_some_and(|due| due <= now) {
                self.backend_due(now, BackendId(key));
            }
        }
        let slot_end = if self.watches {
            self.judge_hot_keys(now)
        } else {
            None
        };
        let backends = self
            .backends
            .iter()
            .filter_map(|(_, backend)| backend.deadline());
        let others = self.parking.deadline().into_iter();
        let others = others.chain(self.flush_deadline());
        let others = others.chain(self.leaving_look).chain(slot_end);
        self.next_deadline = backends.chain(others).min();
    }

    /// A connection of an application was accepted.
    pub fn client_opened(&mut self) -> ClientId {
        let (dialect, sasl) = opening(self.config.access.mode, Protocols::Any)
            .expect("whatever is asked for, some protocol has it");
        ClientId(self.clients.insert(Client::new(dialect, sasl)))
    }

    /// A connection of an application is gone. What it asked for and has not been carried out yet is
    /// carried out all the same.
    pub fn client_closed(&mut self, id: ClientId) {
        self.forget_client(id);
    }

    /// The driver closes a connection of an application because nothing has moved for too long.
    pub fn client_stalled(&mut self, id: ClientId) {
        if self.forget_client(id) {
            self.stats.proxy_clients_closed_stalled += 1;
        }
    }

    /// The driver closes a connection of an application because it holds memory that others need, and hardly moves.
    pub fn client_too_slow(&mut self, id: ClientId) {
        if self.forget_client(id) {
            self.stats.proxy_clients_closed_memory += 1;
        }
    }

    /// Bytes of memory that hold answers which the application has not read.
    #[inline]
    pub fn client_held(&self, id: ClientId) -> usize {
        self.clients.get(id.0).map_or(0, Client::held_bytes)
    }

    /// How many bytes of memory are left for answers, until somebody would have to be closed.
    #[inline]
    pub fn set_room(&mut self, bytes: usize) {
        self.room = bytes;
    }

    /// How many of them it has not used up.
    #[inline]
    pub fn room(&self) -> usize {
        self.room
    }

    /// Whether the process is short of memory for what applications have not read: then each may have less of it.
    pub fn set_short_of_memory(&mut self, short: bool) {
        self.out_pause = match short {
            true => limits::OUT_PAUSE_SHORT,
            false => limits::OUT_PAUSE,
        };
    }

    /// The TLS of an application's connection failed, while it was agreed on or later.
    pub fn client_broke_tls(&mut self, in_handshake: bool) {
        self.stats.ssl_handshake_errors += u64::from(in_handshake);
        self.stats.ssl_proto_errors += u64::from(!in_handshake);
    }

    /// The application will send no more. Give the input that is left once more after this.
    pub fn client_ended(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id.0) {
            client.ended = true;
        }
    }

    /// What is to be written to the application.
    pub fn client_output(&self, id: ClientId) -> &[u8] {
        self.clients.get(id.0).map_or(&[], Client::output)
    }

    /// So many bytes of [`client_output`](Self::client_output) were written.
    pub fn client_wrote(&mut self, id: ClientId, count: usize) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        client.wrote(count);
        self.stats.bytes_written += count as u64;
        self.resume(id);
    }

    /// Whether the driver should read from the application's connection. False while its answers
    /// are too many or unread.
    pub fn client_wants_input(&self, id: ClientId) -> bool {
        self.clients.get(id.0).is_some_and(|client| {
            !(client.stalled || client.feed_queued || client.refuses_input || client.ended)
        })
    }

    /// Whether the application has its answers to everything it asked for.
    pub fn client_is_answered(&self, id: ClientId) -> bool {
        let client = self.clients.get(id.0);
        client.is_none_or(|client| client.is_idle() && client.output().is_empty())
    }

    /// What is to be written to the server.
    pub fn backend_output(&self, id: BackendId) -> &[u8] {
        self.backends.get(id.0).map_or(&[], Backend::output)
    }

    /// So many bytes of [`backend_output`](Self::backend_output) were written.
    pub fn backend_wrote(&mut self, id: BackendId, count: usize) {
        if let Some(backend) = self.backends.get_mut(id.0) {
            backend.wrote(self.now, count);
        }
    }

    /// The kernel's measurement of the way to a server and back, the shortest that it knows. To be told when
    /// a connection stands, and from time to time.
    pub fn backend_round_trip(&mut self, id: BackendId, shortest: Duration) {
        if let Some(backend) = self.backends.get_mut(id.0) {
            backend.stopwatch.round_trip(shortest, &mut self.per_route);
        }
    }

    /// The connection stands.
    pub fn backend_connected(&mut self, id: BackendId) {
        let backend = self.backends.get(id.0);
        if let Some(Link::Connecting { until }) = backend.map(|backend| backend.link) {
            self.greet(id, until);
        }
    }

    /// Finds out who answers.
    fn greet(&mut self, id: BackendId, until: Instant) {
        let Some(backend) = self.backends.get_mut(id.0) else {
            return;
        };
        let epoch = self.pools.get(backend.pool.0).map_or(Epoch(0), Pool::epoch);
        match backend.peer {
            Peer::Worker(_) => backend.greet(until, |out| compose::request::hello(out, epoch)),
            Peer::Memcached => {
                let login = backend.login_to_say();
                backend.greet(until, |out| {
                    if let Some(login) = login {
                        pipe::login::compose(out, &login);
                    }
                    compose::request::version(out);
                });
            }
        }
        self.write_backend(id);
        self.due_at(until);
    }

    /// Counts of this worker.
    pub fn stats(&self) -> &ProxyStats {
        &self.stats
    }

    /// Sets the counts of this worker to zero.
    pub fn reset_stats(&mut self) {
        self.stats = ProxyStats::default();
        self.settle_runs();
        self.per_route.reset();
    }

    /// Everything that this worker has counted.
    pub fn counts(&self, now: Instant) -> WorkerCounts {
        let mut replica_lease_ages = Ages::default();
        for (_, pool) in self.pools.iter() {
            replica_lease_ages.add(pool.leases.lease_ages());
        }
        WorkerCounts {
            replica_lease_ages,
            totals: self.stats,
            backends: self.backends(),
            routes: self.route_stats(),
            pools: self.pool_stats(),
            hot_keys: self.hot_keys(now),
        }
    }

    /// Counts for each route what was answered last.
    fn settle_runs(&mut self) {
        for key in self.backends.keys() {
            if let Some(backend) = self.backends.get_mut(key) {
                backend.stopwatch.settle(&mut self.per_route);
            }
        }
    }

    /// The connections to servers.
    pub fn backends(&self) -> Vec<BackendStats> {
        let pool_of = |backend: &Backend| self.pools.get(backend.pool.0);
        self.backends
            .iter()
            .map(|(_, backend)| BackendStats::of(backend, pool_of(backend)))
            .collect()
    }

    /// Connections of applications.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Epoch of the map of a source that it works by; 0 without one.
    pub fn epoch(&self, source: MapSource) -> Epoch {
        let mut pools = self.pools.iter().map(|(_, pool)| pool);
        let follower = pools.find(|pool| pool.source() == Some(source) && !pool.leaving);
        follower.map_or(Epoch(0), Pool::epoch)
    }

    /// What servers may make us buffer: values that an application's output has room for, so that a
    /// server with a larger item size than ours is not taken for a broken one.
    fn reply_limits(&self) -> Limits {
        let limits = self.config.limits;
        Limits {
            item_size_max: limits.item_size_max.max(limits::OUT_CLOSE),
            ..limits
        }
    }

    fn write_client(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        if !client.write_queued {
            client.write_queued = true;
            self.outputs.push_back(Output::WriteClient(id));
        }
    }

    fn feed_client(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        if !client.feed_queued {
            client.feed_queued = true;
            self.outputs.push_back(Output::FeedClient(id));
        }
    }

    fn write_backend(&mut self, id: BackendId) {
        let Some(backend) = self.backends.get_mut(id.0) else {
            return;
        };
        if !backend.write_queued {
            backend.write_queued = true;
            self.outputs.push_back(Output::WriteBackend(id));
        }
    }

    /// Answers were written or have arrived: requests that waited may go on, and a connection that
    /// was only waiting for its last answers is closed.
    fn resume(&mut self, id: ClientId) {
        let era = self.era;
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        if client.closing && client.is_idle() && client.output().is_empty() {
            return self.close_client(id);
        }
        if client.stalled && client.may_ask(era, self.out_pause) {
            client.stalled = false;
            self.feed_client(id);
        }
    }

    fn close_client(&mut self, id: ClientId) {
        if self.forget_client(id) {
            self.outputs.push_back(Output::CloseClient(id));
        }
    }

    /// Forgets a connection of an application, and that its reads are in flight. False if it was
    /// forgotten before.
    fn forget_client(&mut self, id: ClientId) -> bool {
        let Some(client) = self.clients.remove(id.0) else {
            return false;
        };
        for (pool, ticket) in client.into_tickets() {
            if let Some(pool) = self.pools.get_mut(pool.0) {
                pool.leases.abandon(self.now, ticket);
            }
        }
        true
    }

    fn due_at(&mut self, at: Instant) {
        self.next_deadline = Some(self.next_deadline.map_or(at, |next| next.min(at)));
    }

    /// A number in 0..1 for pauses.
    fn jitter(&mut self) -> f64 {
        // 53 bits are what an f64 holds exactly.
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn random_u64(&mut self) -> u64 {
        self.random.next_u64()
    }

    fn random_u32(&mut self) -> u32 {
        (self.random.next_u64() >> 32) as u32
    }

    fn spare_buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn keep_buffer(&mut self, buffer: Vec<u8>) {
        bytes::keep_buffer(&mut self.spare, buffer);
    }
}
