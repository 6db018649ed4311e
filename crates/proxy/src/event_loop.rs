//! A proxy worker's thread: reads events, feeds the core, executes what it decides.
//!
//! ```text
//!  poll ─> events mark sockets ─> words, new connections ─> read marked sockets ─> timers ─> carry
//!   ^      out what the core says: write each socket once, connect, close ──────────────────┐
//!   └───────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Whatever came in during a turn leaves in one write for each socket.

mod arrivals;
mod link;
mod links;
mod question;
mod shortage;
mod stats;
mod words;

use crate::application::{Application, Served};
use crate::clusters::Clusters;
use crate::control::{Control, Gauges, WorkerHandle};
use crate::facts::Facts;
use crate::fence::Fence;
use crate::outages::Outages;
use crate::recorder::{Entry, Sink};
use crate::server_link::{ServerLink, cause_of};
use evenkeel_proxy_core::{
    AddressTicket, BackendId, ClientId, LoggedRequest, MapSource, Output, PoolUpdate, ProfileChunk,
    ProxyConfig, ProxyCore, ProxyStats,
};
use evenkeel_runtime::budget::{Level, Pool, Portion};
use evenkeel_runtime::names::Resolver;
use evenkeel_runtime::watchdog::{Step as TurnStep, TurnMark};
use evenkeel_runtime::{
    Arrival, Attention, Certificates, Clock, ConnectionCount, TlsFailure, TlsKind, TurnClock,
};
use evenkeel_types::Instant;
use evenkeel_types::map::ClusterMap;
use link::Link;
use mio::event::Event;
use mio::{Events, Poll, Token};
use question::StatsQuestion;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;
use tracing::debug;

/// What sockets are read into; shared by all sockets of a worker.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Events taken from one poll.
const EVENTS_PER_TURN: usize = 512;

/// Outputs of the core executed before sockets are read again.
const OUTPUTS_PER_TURN: usize = 16 * 1024;

/// How often applications are checked for a lack of progress, and connections to servers for the round trip
/// that the kernel has measured; a worker with nothing to do wakes for it.
const LOOK: Duration = Duration::from_secs(1);

/// An application in the middle of a request, or with unread answers, that does not move for this
/// long is closed: a slow or dead client must not hold memory for ever.
pub const STALL_LIMIT: Duration = Duration::from_secs(30);

/// How long a stopping worker goes on answering what was asked.
const STOP_DRAIN: Duration = Duration::from_millis(200);

/// How often a stopping worker looks whether it is done.
const STOP_LOOK: Duration = Duration::from_millis(5);

/// The token under which the waker of a worker's poll must be registered.
pub const WAKE_TOKEN: Token = Token(0);
const FIRST_SOCKET: usize = 16;

/// What a worker is made of.
#[derive(Debug)]
pub struct Parts {
    /// Its place among the workers.
    pub index: usize,
    /// The worker's core.
    pub core: ProxyCore,
    /// Its poll; the waker is registered already.
    pub poll: Poll,
    /// What wakes it.
    pub attention: Attention,
    /// Connections from the acceptor.
    pub incoming: Receiver<Arrival>,
    /// Words from the process and from other workers.
    pub control: Receiver<Control>,
    /// All workers, this one included.
    pub workers: Arc<[WorkerHandle]>,
    /// Looks names up.
    pub resolver: Resolver,
    /// The clusters whose maps it works by.
    pub clusters: Clusters,
    /// Ends the process when it counts as gone there.
    pub fence: Fence,
    /// Says that its gauges show something new.
    pub news: SyncSender<()>,
    /// All connections of the process.
    pub connections: Arc<ConnectionCount>,
    /// The memory for what applications have sent in part and have not read.
    pub buffers: Arc<Pool>,
    /// What the process knows of itself.
    pub facts: Facts,
    /// For each listener what is asked of clients that speak TLS there; `None` for plain bytes.
    pub tls: Arc<[Option<TlsKind>]>,
    /// Certificates, when any listener speaks TLS.
    pub certificates: Option<Arc<Certificates>>,
    /// The servers that are out of use.
    pub outages: Outages,
    /// What it shows.
    pub gauges: Arc<Gauges>,
    /// The process's clock.
    pub clock: Clock,
    /// Where it says what it does.
    pub mark: TurnMark,
    /// Where requests are logged and recorded; `None` where none are.
    pub recorder: Option<Sink>,
    /// The host by which clients reach the proxy, where the operator has named one, and its first address.
    pub own_address: Arc<(Option<String>, SocketAddr)>,
}

struct Worker {
    parts: Parts,
    applications: Vec<Option<Application>>,
    links: Vec<Option<Link>>,
    /// Sockets to read in the next turn.
    ready: VecDeque<Ready>,
    /// Applications that are served [after all others](Application::comes_last).
    last: VecDeque<ClientId>,
    /// More connections wait to be taken than fit the last turn.
    arrivals_left: bool,
    /// The newest map of each cluster.
    maps: BTreeMap<MapSource, Arc<ClusterMap>>,
    /// The configuration to work by once all workers have stopped to begin requests, and when to do so at the latest.
    prepared: Option<(Arc<ProxyConfig>, Instant)>,
    /// Applications that are to be served then.
    held: Vec<ClientId>,
    /// What coordinators have said last of pools whose change they lead.
    steps: BTreeMap<(MapSource, Arc<str>), PoolUpdate>,
    questions: BTreeMap<u64, StatsQuestion>,
    next_question: u64,
    scratch: Box<[u8]>,
    next_look: Instant,
    next_sweep: Instant,
    /// How often as much as a turn allows was read from a server since then.
    unswept: u32,
    /// What this worker's applications hold of the memory for all of them.
    portion: Portion,
    /// How much of that is taken, as of the last look.
    level: Level,
    stopping: Option<Instant>,
    /// There was more to execute than fits a turn.
    unfinished: bool,
}

#[derive(Clone, Copy, Debug)]
enum Ready {
    Application(ClientId),
    Link(BackendId),
}

/// Runs a worker until it is told to stop.
///
/// # Errors
/// Only when the poll itself fails.
pub fn run(parts: Parts) -> io::Result<()> {
    let mut worker = Worker {
        parts,
        applications: Vec::new(),
        links: Vec::new(),
        ready: VecDeque::new(),
        last: VecDeque::new(),
        arrivals_left: false,
        maps: BTreeMap::new(),
        prepared: None,
        held: Vec::new(),
        steps: BTreeMap::new(),
        questions: BTreeMap::new(),
        next_question: 0,
        scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
        next_look: Instant::default() + LOOK,
        next_sweep: Instant::default(),
        unswept: 0,
        portion: Portion::default(),
        level: Level::Easy,
        stopping: None,
        unfinished: false,
    };
    worker.parts.mark.begin();
    let mut events = Events::with_capacity(EVENTS_PER_TURN);
    let mut clock = TurnClock::new(worker.parts.clock);
    let mut now = clock.now().monotonic;
    loop {
        // By the time of the last turn: that is late by the length of a turn at most.
        let wait = worker.wait(now);
        worker.parts.mark.rest();
        match worker.parts.poll.poll(&mut events, Some(wait)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        worker.parts.mark.turn();
        worker.parts.fence.check();
        let read = clock.now();
        now = read.monotonic;
        worker.parts.core.set_unix_time(read.unix);
        worker.parts.core.begin_turn(now);
        for event in &events {
            worker.take_event(now, event);
        }
        if worker.parts.attention.is_called() {
            worker.parts.mark.step(TurnStep::Words);
            worker.take_words(now);
            worker.arrivals_left = true;
        }
        if worker.arrivals_left {
            worker.parts.mark.step(TurnStep::Connections);
            worker.take_incoming();
        }
        worker.parts.mark.step(TurnStep::Serving);
        worker.serve_ready(now);
        worker.serve_last(now, read.monotonic);
        worker.parts.mark.step(TurnStep::Housekeeping);
        worker.keep_time(now);
        worker.parts.mark.step(TurnStep::Output);
        worker.parts.core.end_turn();
        worker.handle_outputs(now);
        if worker
            .stopping
            .is_some_and(|until| now >= until || worker.is_drained())
        {
            worker.write_last_records();
            return Ok(());
        }
    }
}

impl Worker {
    /// How long the poll may sleep.
    fn wait(&mut self, now: Instant) -> Duration {
        let busy = !self.ready.is_empty()
            || !self.last.is_empty()
            || self.arrivals_left
            || self.unfinished;
        if busy || !self.parts.attention.may_sleep() {
            return Duration::ZERO;
        }
        let look = match self.level {
            Level::Easy => self.next_look.since(now),
            _ => self.next_sweep.since(now),
        };
        let due = self
            .parts
            .core
            .poll_deadline()
            .map_or(look, |at| at.since(now).min(look));
        let due = match &self.prepared {
            Some((_, until)) => due.min(until.since(now)),
            None => due,
        };
        match self.stopping {
            Some(_) => due.min(STOP_LOOK),
            None => due,
        }
    }

    fn take_event(&mut self, now: Instant, event: &Event) {
        if event.token() == WAKE_TOKEN {
            return;
        }
        let index = event.token().0 - FIRST_SOCKET;
        let ends = event.is_read_closed() || event.is_error();
        let is_readable = event.is_readable() || ends;
        let slot = index / 2;
        if index.is_multiple_of(2) {
            let Some(Some(application)) = self.applications.get_mut(slot) else {
                return;
            };
            let id = application.id;
            if event.is_writable() && application.mark_writable() {
                self.flush_application(now, id);
            }
            if is_readable {
                self.mark_application(id, ends);
            }
        } else {
            let Some(Some(Link::Socket(link))) = self.links.get_mut(slot) else {
                return;
            };
            let id = link.id;
            let result = match event.is_writable() || event.is_error() {
                true => link.mark_writable(&mut self.parts.core),
                false => Ok(false),
            };
            if is_readable {
                link.mark_readable(ends);
            }
            match result {
                Ok(true) => self.flush_link(now, id),
                Ok(false) => {}
                Err(error) => return self.link_over(now, id, cause_of(&error)),
            }
            if is_readable {
                self.enqueue_link(id);
            }
        }
    }

    fn mark_application(&mut self, id: ClientId, ends: bool) {
        if let Some(Some(application)) = self.applications.get_mut(id.0.slot as usize) {
            application.mark_readable(ends);
        }
        self.enqueue_application(id);
    }

    fn enqueue_application(&mut self, id: ClientId) {
        let place = self.applications.get_mut(id.0.slot as usize);
        if let Some(application) = place.and_then(Option::as_mut).filter(|a| a.id == id)
            && !std::mem::replace(&mut application.queued, true)
        {
            match application.comes_last() {
                true => self.last.push_back(id),
                false => self.ready.push_back(Ready::Application(id)),
            }
        }
    }

    fn enqueue_link(&mut self, id: BackendId) {
        if let Some(link) = self.link(id)
            && !std::mem::replace(&mut link.queued, true)
        {
            self.ready.push_back(Ready::Link(id));
        }
    }

    fn link(&mut self, id: BackendId) -> Option<&mut ServerLink> {
        match self.links.get_mut(id.0.slot as usize)? {
            Some(Link::Socket(link)) if link.id == id => Some(link),
            _ => None,
        }
    }

    /// Reads each socket in the list once.
    fn serve_ready(&mut self, now: Instant) {
        for _ in 0..self.ready.len() {
            match self.ready.pop_front() {
                Some(Ready::Application(id)) => self.serve_application(now, id),
                Some(Ready::Link(id)) => self.serve_link(now, id),
                None => return,
            }
        }
    }

    fn serve_application(&mut self, now: Instant, id: ClientId) {
        let place = self.applications.get_mut(id.0.slot as usize);
        let Some(application) = place.and_then(Option::as_mut).filter(|a| a.id == id) else {
            return;
        };
        if self.prepared.is_some() {
            return self.held.push(id);
        }
        application.queued = false;
        // A lease is judged by a time at which the request was there. This process may have been stopped
        // since the turn began, so that leases have ended which the request came behind.
        let clock = self.parts.clock;
        let time = |core: &ProxyCore| match core.holds_leases() {
            true => clock.monotonic(),
            false => now,
        };
        let served = application.serve(&mut self.parts.core, time, &mut self.scratch);
        if application.holds_any() {
            self.account(now, id);
        }
        match served {
            Served::Idle => {}
            Served::More => self.enqueue_application(id),
            Served::Closed => self.application_over(id),
        }
    }

    /// The application's connection has ended by itself.
    fn application_over(&mut self, id: ClientId) {
        if self.forget_application(id) {
            self.parts.core.client_closed(id);
        }
    }

    fn forget_application(&mut self, id: ClientId) -> bool {
        let place = self.applications.get_mut(id.0.slot as usize);
        let Some(place) = place.filter(|place| place.as_ref().is_some_and(|a| a.id == id)) else {
            return false;
        };
        let Some(mut application) = place.take() else {
            return false;
        };
        debug!(connection = id.0.slot, "client closed");
        self.release(application.counted);
        if let Some(failure) = application.finish() {
            let in_handshake = failure == TlsFailure::Handshake;
            self.parts.core.client_broke_tls(in_handshake);
        }
        self.parts.connections.closed();
        true
    }

    fn keep_time(&mut self, now: Instant) {
        if self
            .prepared
            .as_ref()
            .is_some_and(|(_, until)| *until <= now)
        {
            self.turn_over(now);
        }
        if self
            .parts
            .core
            .poll_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            self.parts.core.handle_timeout(now);
        }
        if now >= self.next_sweep || self.unswept >= shortage::SWEEP_READS {
            self.next_sweep = now + shortage::SWEEP;
            self.unswept = 0;
            self.sweep(now);
        }
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK;
        self.parts.outages.remind(now);
        for application in self.applications.iter_mut().flatten() {
            application.forget_half(now);
        }
        let stats = self.parts.core.stats();
        self.parts.gauges.set_requests(requests(stats));
        for link in self.links.iter().flatten() {
            if let Link::Socket(link) = link {
                link.tell_round_trip(&mut self.parts.core);
            }
        }
        let core = &self.parts.core;
        let stalled: Vec<ClientId> = self
            .applications
            .iter_mut()
            .flatten()
            .filter_map(|a| (a.stalled_for(core, now) >= STALL_LIMIT).then_some(a.id))
            .collect();
        for id in stalled {
            if self.forget_application(id) {
                self.parts.core.client_stalled(id);
            }
        }
    }

    fn handle_outputs(&mut self, now: Instant) {
        for _ in 0..OUTPUTS_PER_TURN {
            let Some(output) = self.parts.core.poll_output() else {
                self.unfinished = false;
                return;
            };
            match output {
                Output::WriteClient(id) => self.flush_application(now, id),
                Output::FeedClient(id) => self.enqueue_application(id),
                Output::CloseClient(id) => {
                    self.forget_application(id);
                }
                Output::Connect {
                    id,
                    host,
                    port,
                    tls,
                } => self.connect(now, id, host, port, tls),
                Output::WriteBackend(id) => self.flush_link(now, id),
                Output::CloseBackend(id) => self.forget_link(id),
                Output::WantMap { source, .. } => self.parts.clusters.hurry(source),
                Output::Acknowledged {
                    source,
                    pool,
                    version,
                } => {
                    let gauges = &self.parts.gauges;
                    gauges.set_acknowledged(source, pool, version);
                    self.parts.clusters.hurry(source);
                }
                Output::Unreached {
                    source,
                    pool,
                    plan,
                    servers,
                } => {
                    let gauges = &self.parts.gauges;
                    gauges.set_unreached(source, pool, plan, servers);
                }
                Output::Stats(ticket) => self.ask_stats(now, ticket),
                Output::OwnAddress(ticket) => self.tell_own_address(now, ticket),
                Output::ResetStats => {
                    for worker in self.parts.workers.iter() {
                        worker.say(Control::ResetStats);
                    }
                }
                Output::ServerState(state) => self.parts.outages.handle(now, &state),
                Output::Log(request) => self.log(request),
                Output::Profile(chunk) => self.write_records(chunk),
            }
        }
        self.unfinished = true;
    }

    #[cold]
    fn write_records(&self, chunk: Box<ProfileChunk>) {
        if let Some(sink) = &self.parts.recorder {
            sink.offer_records(chunk);
        }
    }

    /// Nothing else is executed any more. (A second call of `handle_outputs` would keep it from standing in the loop.)
    #[cold]
    fn write_last_records(&mut self) {
        self.parts.core.end_profile();
        while let Some(output) = self.parts.core.poll_output() {
            if let Output::Profile(chunk) = output {
                self.write_records(chunk);
            }
        }
    }

    /// A client is told to come where it has come, at the host that the operator has named if there is one.
    fn tell_own_address(&mut self, now: Instant, ticket: AddressTicket) {
        let place = self.applications.get(ticket.client.0.slot as usize);
        let application = place.and_then(Option::as_ref);
        let application = application.filter(|a| a.id == ticket.client);
        let reached = application.and_then(Application::reached);
        let (host, address) = &*self.parts.own_address;
        // What came by a unix socket is told the first address.
        let address = reached.unwrap_or(*address);
        let host = match host {
            Some(host) => host.clone(),
            None => address.ip().to_canonical().to_string(),
        };
        let core = &mut self.parts.core;
        core.answer_own_address(now, ticket, &host, address.port());
    }

    fn log(&self, request: Box<LoggedRequest>) {
        let Some(sink) = &self.parts.recorder else {
            return;
        };
        let id = request.client;
        let place = self.applications.get(id.0.slot as usize);
        let application = place.and_then(Option::as_ref).filter(|a| a.id == id);
        sink.offer(Entry {
            unix_ms: self.parts.clock.unix_millis(),
            client: application.and_then(Application::peer),
            request,
        });
    }

    fn flush_application(&mut self, now: Instant, id: ClientId) {
        let place = self.applications.get_mut(id.0.slot as usize);
        let Some(application) = place.and_then(Option::as_mut).filter(|a| a.id == id) else {
            return;
        };
        match application.flush(&mut self.parts.core) {
            Ok(true) if !application.holds_any() => {}
            Ok(_) => self.account(now, id),
            Err(_) => self.application_over(id),
        }
    }

    /// Whether a stopping worker has answered everything.
    fn is_drained(&self) -> bool {
        let core = &self.parts.core;
        self.ready.is_empty()
            && self.last.is_empty()
            && !self.arrivals_left
            && !self.unfinished
            && self
                .applications
                .iter()
                .flatten()
                .all(|a| core.client_is_answered(a.id))
    }
}

/// What an application would call requests.
fn requests(stats: &ProxyStats) -> u64 {
    stats.cmd_get
        + stats.cmd_set
        + stats.cmd_touch
        + stats.cmd_flush
        + stats.delete_hits
        + stats.delete_misses
        + stats.incr_hits
        + stats.incr_misses
        + stats.decr_hits
        + stats.decr_misses
}
