//! What the driver tells a worker, and asks it.

use crate::answer::input::take_answers;
use crate::answer::lost::{Loss, backend_due, lose};
use crate::client::Client;
use crate::config::{MapSource, ProxyConfig};
use crate::configure::{configure, forget_left_pools, take_over};
use crate::ids::{BackendId, ClientId};
use crate::limits;
use crate::map::set_map;
use crate::outage::Cause;
use crate::output::{AddressTicket, Output, StatsTicket};
use crate::pipe::backend::{Backend, Link};
use crate::pool::grain_counts::RingCounted;
use crate::request::input::take_input;
use crate::request::whole::{answer_own_address, answer_stats};
use crate::ring::PoolUpdate;
use crate::stats::process::ProcessStats;
use crate::steps::set_step;
use crate::under_way::deletions::go_on_with_deletions;
use crate::under_way::flush::go_on_with_flushes;
use crate::under_way::inner::go_on_with_steps;
use crate::under_way::limited::go_on_with_limited;
use crate::under_way::profile::{begin_visit, hand_over_all};
use crate::under_way::reach::look_at_idle;
use crate::under_way::retry::retry_parked;
use crate::under_way::say::{forget_client, resume};
use crate::under_way::stages::acknowledge_steps;
use crate::worker::ProxyCore;
use core::net::IpAddr;
use core::time::Duration;
use evenkeel_control::times::Histogram;
use evenkeel_protocol::auth::{Protocols, opening};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::rooms::Rooms;
use evenkeel_types::{Instant, UnixSeconds};
use std::sync::Arc;

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
        let mut core = ProxyCore::unconfigured(config, seed);
        take_over(&mut core, Instant::default(), config);
        core
    }

    /// From now on requests are executed by this configuration; those under way are finished by
    /// the one they were begun by.
    ///
    /// # Panics
    /// As [`ProxyCore::new`].
    pub fn configure(&mut self, now: Instant, config: &Arc<ProxyConfig>) {
        configure(self, now, config);
    }

    /// The coordinator of this source has a map. One that is not newer, or that no pool follows, is
    /// ignored.
    pub fn set_map(&mut self, now: Instant, source: MapSource, map: &Arc<ClusterMap>) {
        set_map(self, now, source, map);
    }

    /// A coordinator has said how far a pool is on its way from its former servers, or with the moves of a ring; or, without a step, that it
    /// does not lead this proxy any more. A step that is not newer, or that no pool follows, is ignored. The ring is the one of the plan that
    /// the step is of.
    pub fn set_step(
        &mut self,
        now: Instant,
        source: MapSource,
        pool: &str,
        told: Option<PoolUpdate>,
    ) {
        set_step(self, now, source, pool, told);
    }

    /// What this worker has counted of the ring of a pool that follows this source.
    pub fn ring_counted(&self, now: Instant, source: MapSource, pool: &str) -> Option<RingCounted> {
        let pool = self.pools.get(self.pools.follower(source, pool)?)?;
        let backends = (0..).zip(pool.list()?.backends());
        let down = backends.filter(|(_, id)| !self.backends.is_in_use(**id));
        let down = down.map(|(server, _)| server).collect();
        let mut answers = Histogram::default();
        let backends = pool.list()?.backends().iter();
        for backend in backends.filter_map(|id| self.backends.get(*id)) {
            answers.add(&backend.stopwatch.latency().answer);
        }
        Some(pool.grains.as_ref()?.counted(now, down, answers))
    }

    /// A turn is over: acknowledges steps before which nothing is under way any more, and hands over records that are due.
    #[inline]
    pub fn end_turn(&mut self) {
        if let Some(profiler) = &self.counts.profiler
            && profiler.is_due()
        {
            hand_over_all(self);
        }
        if self.pools.may_be_behind() {
            acknowledge_steps(self);
        }
    }

    /// A turn of the event loop begins. All that follows happens at this time, as far as it is measured.
    pub fn begin_turn(&mut self, now: Instant) {
        self.now = now;
        if let Some(profiler) = &mut self.counts.profiler {
            profiler.now = now;
        }
    }

    /// Tells the wall clock's time at `Instant(0)`, in microseconds since 1970, for what is recorded.
    pub fn set_clock_origin(&mut self, unix_us: u64) {
        self.origin_unix_us = unix_us;
        if let Some(profiler) = &mut self.counts.profiler {
            profiler.origin_us = unix_us;
        }
    }

    /// Hands over all that is recorded, for nothing will follow.
    pub fn end_profile(&mut self) {
        hand_over_all(self);
    }

    /// Whether requests are recorded.
    pub fn records(&self) -> bool {
        self.counts.profiler.is_some()
    }

    /// Tells where a connection of an application comes from, without its port. Only what comes from somewhere is recorded: to be told of each
    /// connection that is accepted, and of those that are there when requests begin to be [recorded](ProxyCore::records).
    pub fn client_comes_from(&mut self, id: ClientId, from: &[u8]) {
        begin_visit(self, id, from);
    }

    /// Whether reads may go to copies, as long as a lease lasts: then the time that comes with input of an
    /// application must not be earlier than the input was there.
    #[inline]
    pub fn holds_leases(&self) -> bool {
        self.pools.hold_leases()
    }

    /// Tells the wall clock's time, by which exptimes that are Unix times are read. To be told from
    /// time to time, at least once a second.
    pub fn set_unix_time(&mut self, unix: UnixSeconds) {
        self.unix = unix;
    }

    /// Next thing for the driver to do. Call until `None`.
    #[inline]
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outbox.pop()?;
        match output {
            Output::WriteClient(id) => self.clients.written_by_driver(id),
            Output::FeedClient(id) => self.clients.fed_by_driver(id),
            Output::WriteBackend(id) => self.backends.written_by_driver(id),
            _ => {}
        }
        Some(output)
    }

    /// When [`handle_timeout`](Self::handle_timeout) should next be called, at the latest.
    pub fn poll_deadline(&self) -> Option<Instant> {
        self.outbox.deadline()
    }

    /// Tells that the deadline has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        retry_parked(self, now);
        go_on_with_flushes(self, now);
        forget_left_pools(self, now);
        look_at_idle(self, now);
        for id in self.backends.ids() {
            let due = self.backends.get(id).and_then(Backend::deadline);
            if due.is_some_and(|due| due <= now) {
                backend_due(self, now, id);
            }
        }
        go_on_with_steps(self, now);
        go_on_with_deletions(self, now);
        go_on_with_limited(self, now);
        let slot_end = if self.pools.watches() {
            self.pools.judge_hot_keys(now, &mut self.counts.stats)
        } else {
            None
        };
        let backends = self.backends.iter().filter_map(Backend::deadline);
        let others = self.parking.deadline().into_iter();
        let others = others.chain(self.flushes.deadline());
        let others = others.chain(self.limited_due.deadline());
        let others = others.chain(self.deletions.deadline());
        let others = others.chain(self.crossings.deadline());
        let others = others.chain(self.leaving_look).chain(self.idle_look);
        let others = others.chain(slot_end);
        let first = backends.chain(others).min();
        self.outbox.set_deadline(first);
    }

    /// A connection of an application was accepted.
    pub fn client_opened(&mut self) -> ClientId {
        let (dialect, sasl) = opening(self.config.access.mode, Protocols::Any)
            .expect("whatever is asked for, some protocol has it");
        self.clients.insert(Client::new(dialect, sasl))
    }

    /// The application sent something: `input` is everything of it that was not consumed before.
    /// Returns how many bytes of it are done with. A closed client consumes everything.
    pub fn client_input(&mut self, now: Instant, id: ClientId, input: &[u8]) -> usize {
        self.counts.hottest.roll(now);
        take_input(self, now, id, input)
    }

    /// A connection of an application is gone. What it asked for and has not been executed yet is
    /// executed all the same.
    pub fn client_closed(&mut self, id: ClientId) {
        forget_client(self, id);
    }

    /// The driver closes a connection of an application because nothing has moved for too long.
    pub fn client_stalled(&mut self, id: ClientId) {
        if forget_client(self, id) {
            self.counts.stats.clients_closed_stalled += 1;
        }
    }

    /// The driver closes a connection of an application because it holds memory that others need, and hardly moves.
    pub fn client_too_slow(&mut self, id: ClientId) {
        if forget_client(self, id) {
            self.counts.stats.clients_closed_memory += 1;
        }
    }

    /// Bytes of memory that hold answers which the application has not read.
    #[inline]
    pub fn client_held(&self, id: ClientId) -> usize {
        self.clients.get(id).map_or(0, Client::held_bytes)
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
        if short {
            self.rooms.clear();
        }
        self.out_pause = match short {
            true => limits::OUT_PAUSE_SHORT,
            false => limits::OUT_PAUSE,
        };
    }

    /// Emptied memory of large values, for the next ones.
    pub fn rooms(&mut self) -> &mut Rooms {
        &mut self.rooms
    }

    /// The TLS of an application's connection failed, while it was agreed on or later.
    pub fn client_broke_tls(&mut self, in_handshake: bool) {
        self.counts.stats.ssl_handshake_errors += u64::from(in_handshake);
        self.counts.stats.ssl_proto_errors += u64::from(!in_handshake);
    }

    /// The application will send no more. Give the input that is left once more after this.
    pub fn client_ended(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id) {
            client.ended = true;
        }
    }

    /// What is to be written to the application.
    pub fn client_output(&self, id: ClientId) -> &[u8] {
        self.clients.get(id).map_or(&[], Client::output)
    }

    /// This many bytes of [`client_output`](Self::client_output) were written.
    pub fn client_wrote(&mut self, id: ClientId, count: usize) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        client.wrote(count, &mut self.rooms);
        self.counts.stats.bytes_written += count as u64;
        resume(self, id);
    }

    /// Whether the driver should read from the application's connection. False while its answers
    /// are too many or unread.
    pub fn client_wants_input(&self, id: ClientId) -> bool {
        self.clients.get(id).is_some_and(|client| {
            !(client.stalled || client.feed_queued || client.refuses_input || client.ended)
        })
    }

    /// Whether the application has its answers to everything it asked for.
    pub fn client_is_answered(&self, id: ClientId) -> bool {
        let client = self.clients.get(id);
        client.is_none_or(|client| client.is_idle() && client.output().is_empty())
    }

    /// What is to be written to the server.
    #[inline]
    pub fn backend_output(&self, id: BackendId) -> &[u8] {
        self.backends.get(id).map_or(&[], Backend::output)
    }

    /// This many bytes of [`backend_output`](Self::backend_output) were written.
    pub fn backend_wrote(&mut self, id: BackendId, count: usize) {
        if let Some(backend) = self.backends.get_mut(id) {
            backend.wrote(self.now, count);
        }
    }

    /// The kernel's measurement of the way to a server and back, the shortest that it knows. To be told when
    /// a connection stands, and from time to time.
    pub fn backend_round_trip(&mut self, id: BackendId, shortest: Duration) {
        if let Some(backend) = self.backends.get_mut(id) {
            backend
                .stopwatch
                .round_trip(shortest, &mut self.counts.routes);
        }
    }

    /// The connection stands; `address` is where it goes, if that is known.
    pub fn backend_connected(&mut self, id: BackendId, address: Option<IpAddr>) {
        if let Some(backend) = self.backends.get_mut(id) {
            backend.address = address.or(backend.address);
            backend.find_rack(&self.config.racks);
        }
        let backend = self.backends.get(id);
        if let Some(Link::Connecting { until }) = backend.map(|backend| backend.link) {
            self.greet(id, until);
        }
    }

    /// A server sent something: `input` is everything of it that was not consumed before. Returns
    /// how many bytes of it are done with. A connection that was given up consumes everything.
    pub fn backend_input(&mut self, now: Instant, id: BackendId, input: &[u8]) -> usize {
        take_answers(self, now, id, input)
    }

    /// The connection was closed by the server, or could not be made, and why.
    pub fn backend_lost(&mut self, now: Instant, id: BackendId, cause: Cause) {
        lose(self, now, id, Loss::Gone(cause));
    }

    /// Answers `stats`.
    pub fn answer_stats(&mut self, now: Instant, ticket: StatsTicket, process: &ProcessStats) {
        answer_stats(self, now, ticket, process);
    }

    /// Answers `config get cluster`: where the client reaches this proxy.
    pub fn answer_own_address(
        &mut self,
        now: Instant,
        ticket: AddressTicket,
        host: &str,
        port: u16,
    ) {
        answer_own_address(self, now, ticket, host, port);
    }
}
