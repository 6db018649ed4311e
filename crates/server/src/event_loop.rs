//! A worker's thread: reads events, feeds the core, executes what it decides.
//!
//! Every step of a turn is bounded, so that no client, no other worker and no housekeeping can keep
//! the rest waiting for long:
//!
//! ```text
//!  poll ─> events mark connections ─> control, new connections, messages ─> serve marked
//!   ^      connections ─> links ─> messages out, wake their receivers ─> timers ────┐
//!   └───────────────────────────────────────────────────────────────────────────────┘
//! ```

mod arrivals;
mod endings;
mod idle_sampler;
mod link_table;
mod links;
mod process;
mod serving;
mod shortage;
mod weight;

use crate::budget::{Held, Share};
use crate::connection::{Connection, Demand};
use crate::control::{Control, Gauges, WorkerHandle};
use crate::egress::EgressGate;
use crate::listeners::ListenerKind;
use crate::transport::{Socket, Transport};
use evenkeel_member::Hurrier;
use evenkeel_runtime::budget::Level;
use evenkeel_runtime::names::Resolver;
use evenkeel_runtime::watchdog::{Step, TurnMark};
use evenkeel_runtime::{
    Arrival, Attention, Certificates, Clock, ConnectionCount, Listener, MeshPort, TurnClock,
};
use evenkeel_server_core::{ConnectionId, Deferred, Message, ReturnAddress, WorkerCore};
use evenkeel_types::{Instant, Now};
use idle_sampler::IdleSampler;
use link_table::Links;
use mio::event::Event;
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use weight::weigh;

/// What a connection's input is read into; shared by all connections of a worker.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Events taken from one poll.
const EVENTS_PER_TURN: usize = 512;

/// Messages taken from one other worker in a turn.
const MESSAGES_PER_TURN: usize = 256;

/// Bytes of answers that messages of other workers may bring or ask for in a turn, and what the last of them takes: a millisecond or two.
const MESSAGE_BYTES_PER_TURN: usize = 4 << 20;

/// A worker with nothing to do looks around this often.
const IDLE_LOOK: Duration = Duration::from_millis(500);

/// Housekeeping of the store is looked at this often when there is none left over.
const MAINTENANCE_LOOK: Duration = Duration::from_millis(1);

/// How often connections are checked for a lack of progress.
const STALL_LOOK: Duration = Duration::from_secs(1);

/// How long a stopping worker goes on answering clients that do not pause.
pub const STOP_LIMIT: Duration = Duration::from_millis(200);

/// How long a draining worker waits for clients to finish what they have begun.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// A stopping worker looks this often whether it may end; it may when it has heard nothing for this long, so that what was on
/// its way when it was told to stop is answered.
const STOP_LOOK: Duration = Duration::from_millis(5);

const WAKE: Token = Token(0);
const LISTENER: Token = Token(1);
const FIRST_CONNECTION: usize = 16;
const FIRST_LINK: usize = 1 << 40;

/// What a worker is made of.
#[derive(Debug)]
pub struct Parts {
    /// The worker's core.
    pub core: WorkerCore,
    /// Its poll; the waker is registered already.
    pub poll: Poll,
    /// What moves its clients' bytes.
    pub transport: Transport,
    /// What its connections hold of the memory for all of them.
    pub share: Share,
    /// What wakes it.
    pub attention: Attention,
    /// Who asks the coordinator, once the server has joined a cluster.
    pub membership: Arc<OnceLock<Hurrier>>,
    /// Its own port, for aware clients and other servers, if it has one.
    pub listener: Option<Listener>,
    /// Connections from the acceptor.
    pub incoming: Receiver<Arrival>,
    /// What the listeners say of their connections; the last is for the worker's own port.
    pub kinds: Arc<[ListenerKind]>,
    /// Certificates, when any listener speaks TLS.
    pub certificates: Option<Arc<Certificates>>,
    /// Words from the process.
    pub control: Receiver<Control>,
    /// How it is reached, for answers that it waits for.
    pub me: WorkerHandle,
    /// Finds the addresses of other servers.
    pub resolver: Resolver,
    /// Queues to and from the other workers.
    pub mesh: MeshPort<Message>,
    /// All connections of the process.
    pub connections: Arc<ConnectionCount>,
    /// What it shows.
    pub gauges: Arc<Gauges>,
    /// The process's clock.
    pub clock: Clock,
    /// Where it says what it does.
    pub mark: TurnMark,
    /// What its answers pass before they leave.
    pub egress: EgressGate,
    /// `-o idle_timeout`; zero for never.
    pub idle_timeout: Duration,
    /// A connection inside a command, or with unread answers, that does not move for this long is
    /// closed; zero for never.
    pub progress_timeout: Duration,
}

/// The token under which the waker of a worker's poll must be registered.
pub const WAKE_TOKEN: Token = WAKE;

/// A client's connection and its socket.
struct Client {
    connection: Connection,
    socket: Socket,
    /// It is in a list of connections to serve.
    queued: bool,
    demand: Demand,
    /// It is in the list of connections whose next command waits for memory for its answer.
    held_back: bool,
    /// What the worker's share counts for it.
    counted: Held,
}

struct Worker {
    parts: Parts,
    clients: Vec<Option<Client>>,
    /// Connections to serve in the next turn.
    ready: VecDeque<ConnectionId>,
    /// Those that are served after them: see [`serving`].
    newcomers: VecDeque<ConnectionId>,
    heavy: VecDeque<ConnectionId>,
    heavy_first: bool,
    /// Connections whose TLS handshake is to go on, which is served after all others.
    opening: VecDeque<ConnectionId>,
    /// More connections wait to be taken than fit the last turn.
    arrivals_left: bool,
    links: Links,
    /// Who wants the certificates read again, in turn; the first one's are being read.
    refreshes: VecDeque<ReturnAddress>,
    scratch: Box<[u8]>,
    next_stall_look: Instant,
    next_maintenance: Instant,
    /// Somebody waits to be accepted for whom there was no descriptor.
    accept_again: Option<Instant>,
    stopping: Option<Instant>,
    /// While stopping, connections may finish what they have begun.
    draining: bool,
    /// The core has housekeeping left.
    unmaintained: bool,
    /// Messages were left in a queue for the next turn.
    messages_left: bool,
    /// See [`MESSAGE_BYTES_PER_TURN`].
    message_bytes: usize,
    /// How much of the memory for input, and for answers, is taken; of the beginning of the turn or
    /// later.
    levels: Held<Level>,
    idle_sampler: IdleSampler,
    /// Connections that hold input.
    input_holders: usize,
    /// Connections that wait for room for their input.
    waiters: VecDeque<(ConnectionId, Instant)>,
    /// The command that was let in beyond the limit: its connection, and since when it is judged.
    let_in: Option<(ConnectionId, Instant)>,
    /// Connections whose next command waits until there is memory for its answer, in line.
    held_back: VecDeque<ConnectionId>,
    /// What is left of other workers' messages and waits until there is memory for answers.
    deferred: Deferred,
    /// How many wait here, as far as other workers were told.
    told_waiting: Held,
    next_shortage_look: Instant,
}

/// Runs a worker until it is told to stop.
///
/// # Errors
/// Only when the poll itself fails.
pub fn run(mut parts: Parts) -> io::Result<()> {
    let registry = parts.poll.registry();
    if let Some(listener) = &mut parts.listener {
        registry.register(listener, LISTENER, Interest::READABLE)?;
    }
    parts.transport.start(registry)?;
    parts.egress.begin();
    parts.mark.begin();
    let mut worker = Worker {
        idle_sampler: IdleSampler::new(parts.clock.now().monotonic),
        parts,
        clients: Vec::new(),
        ready: VecDeque::new(),
        newcomers: VecDeque::new(),
        heavy: VecDeque::new(),
        heavy_first: false,
        opening: VecDeque::new(),
        arrivals_left: false,
        links: Links::default(),
        refreshes: VecDeque::new(),
        scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
        next_stall_look: Instant::default() + STALL_LOOK,
        next_maintenance: Instant::default(),
        accept_again: None,
        stopping: None,
        draining: false,
        unmaintained: true,
        messages_left: false,
        message_bytes: 0,
        levels: Held::default(),
        input_holders: 0,
        waiters: VecDeque::new(),
        let_in: None,
        held_back: VecDeque::new(),
        deferred: Deferred::default(),
        told_waiting: Held::default(),
        next_shortage_look: Instant::default(),
    };
    let mut events = Events::with_capacity(EVENTS_PER_TURN);
    let mut clock = TurnClock::new(worker.parts.clock);
    let mut now = worker.parts.core.now(clock.now());
    loop {
        // By the time of the last turn: that is late by the length of a turn at most.
        let wait = worker.wait(now.monotonic);
        let sampled = worker.idle_sampler.begin(wait, || clock.now().monotonic);
        let parts = &mut worker.parts;
        parts.mark.rest();
        match parts.transport.wait(&mut parts.poll, &mut events, wait) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        worker.parts.mark.turn();
        worker.message_bytes = 0;
        let read = clock.now();
        now = worker.parts.core.now(read);
        if let Some(sampled) = sampled {
            worker.idle_sampler.end(sampled, now.monotonic);
        }
        let is_quiet = !worker.take_completions() && events.is_empty();
        for event in &events {
            worker.take_event(now, event);
        }
        if worker.parts.attention.is_called() {
            worker.parts.mark.step(Step::Words);
            worker.take_words(now, read.monotonic);
            worker.arrivals_left = true;
            worker.messages_left = true;
        }
        if worker.arrivals_left {
            worker.parts.mark.step(Step::Connections);
            worker.take_incoming(now);
        }
        worker.look_at_lease(read.monotonic);
        if worker.messages_left || !worker.deferred.is_empty() {
            worker.parts.mark.step(Step::Messages);
            worker.take_messages(now);
        }
        worker.count_connections();
        worker.parts.mark.step(Step::Serving);
        worker.serve_ready(now);
        worker.serve_others(now);
        worker.serve_opening(now, read.monotonic);
        worker.ask_process()?;
        worker.serve_links(now);
        worker.send_messages()?;
        worker.parts.mark.step(Step::Housekeeping);
        worker.keep_time(now);
        worker.take_touched();
        if worker
            .stopping
            .is_some_and(|until| now.monotonic >= until || is_quiet && worker.is_drained())
        {
            return Ok(());
        }
    }
}

impl Worker {
    /// How long the poll may sleep.
    fn wait(&mut self, now: Instant) -> Duration {
        let busy = self.has_work()
            || self.parts.core.has_outbox()
            || self.unmaintained
            || self.messages_left;
        if busy || !self.parts.attention.may_sleep() {
            return Duration::ZERO;
        }
        if self.stopping.is_some() {
            return STOP_LOOK;
        }
        let core = self.parts.core.poll_deadline();
        let next = self.accept_again.map_or(core, |again| again.min(core));
        next.since(now).min(self.shortage_look()).min(IDLE_LOOK)
    }

    /// Tells connections what has completed. False if nothing has.
    fn take_completions(&mut self) -> bool {
        let mut has_any = false;
        while let Some(completion) = self.parts.transport.next_completion() {
            has_any = true;
            let slot = completion.tag() as usize;
            if let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) {
                client.socket.note(completion);
                let id = client.connection.id();
                self.enqueue(id);
            }
        }
        self.parts.core.counters().receives_starved += self.parts.transport.take_starved();
        has_any
    }

    fn take_event(&mut self, now: Now, event: &Event) {
        match event.token() {
            WAKE => {}
            LISTENER => self.accept(now),
            Token(link) if link >= FIRST_LINK => self.serve_link(now, link),
            Token(connection) => {
                let slot = connection - FIRST_CONNECTION;
                if let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) {
                    client.socket.note_readiness(event);
                    let id = client.connection.id();
                    self.enqueue(id);
                }
            }
        }
    }

    /// Three plain loads a turn, so that `stats` is exact.
    fn count_connections(&mut self) {
        let connections = &self.parts.connections;
        let (total, refused) = (connections.total(), connections.refused());
        self.parts
            .core
            .set_connections(connections.open() as u64, total, refused);
    }

    fn client(&mut self, id: ConnectionId) -> Option<&mut Client> {
        let client = self.clients.get_mut(id.slot as usize)?.as_mut();
        client.filter(|client| client.connection.id() == id)
    }

    /// `read` is what the machine's own clock shows.
    fn take_words(&mut self, now: Now, read: Instant) {
        while let Ok(word) = self.parts.control.try_recv() {
            match word {
                Control::Map(map, server) => {
                    if self.parts.core.handle_map(now, &map, server) {
                        self.parts.gauges.set_epoch(map.epoch());
                    }
                }
                Control::Lease(lease) => {
                    let late = self.parts.core.handle_lease(read, lease);
                    self.close_late(late);
                }
                Control::ClusterLoad(mean) => self.parts.core.handle_cluster_load(mean),
                Control::Settings(settings) => self.parts.core.handle_settings(now, &settings),
                Control::Credentials(credentials) => self.parts.core.set_credentials(credentials),
                Control::Facts(facts) => self.parts.core.set_process_facts(*facts),
                Control::Count(asker) => {
                    let core = &self.parts.core;
                    // Anyone who asked may have given up waiting.
                    let _ = asker.send((core.counts(), core.classes(now)));
                }
                Control::DescribeHotKeys { only_spread, to } => {
                    let _ = to.send(self.parts.core.hot_keys_view(now, only_spread));
                }
                Control::DescribeCachelets(to) => {
                    let _ = to.send(self.parts.core.cachelet_loads());
                }
                Control::DescribeMigrations(to) => {
                    let _ = to.send(self.parts.core.migration_reports());
                }
                Control::Give { cachelet, to } => self.parts.core.order_move(now, cachelet, to),
                Control::Refreshed(read) => self.refreshed(read),
                Control::Resolved(link, address) => self.resolved(now, link, address),
                Control::Sampling(ratio) => self.parts.core.set_sampling_ratio(ratio),
                Control::DescribeReplicas(to) => {
                    let _ = to.send(self.parts.core.replica_views(now));
                }
                Control::Stop => {
                    self.parts.listener = None;
                    self.stopping = Some(now.monotonic + STOP_LIMIT);
                }
                Control::Drain => {
                    self.draining = true;
                    self.parts.listener = None;
                    self.stopping = Some(now.monotonic + DRAIN_LIMIT);
                }
            }
        }
    }

    fn take_messages(&mut self, now: Now) {
        self.messages_left = false;
        self.take_deferred(now);
        for from in 0..self.parts.mesh.workers() {
            for taken in 0.. {
                if taken == MESSAGES_PER_TURN || self.has_moved_enough() {
                    // Nobody will wake this worker again for the rest.
                    self.messages_left = true;
                    break;
                }
                let Some(message) = self.parts.mesh.receive(from) else {
                    break;
                };
                let now = self.parts.egress.now(&mut self.parts.core, now);
                self.take_released(now);
                self.take_message(now, from as u16, message);
            }
        }
        self.take_touched();
    }

    /// Whether messages have had their share of this turn.
    fn has_moved_enough(&self) -> bool {
        self.message_bytes >= MESSAGE_BYTES_PER_TURN
    }

    /// Takes up connections whose output grew by other means than their own input.
    fn take_touched(&mut self) {
        while let Some(id) = self.parts.core.poll_touched() {
            self.enqueue(id);
        }
    }

    fn send_messages(&mut self) -> io::Result<()> {
        if !self.parts.core.has_outbox() {
            return Ok(());
        }
        self.parts.mark.step(Step::Output);
        let (mesh, budget) = (&mut self.parts.mesh, self.parts.share.budget());
        self.parts.core.flush_outbox(|to, message| {
            let (pool, weight) = weigh(budget, &message);
            if weight > 0 {
                pool.take(weight);
            }
            let sent = mesh.send(usize::from(to), message);
            if weight > 0 && sent.is_err() {
                pool.give_back(weight);
            }
            sent
        });
        mesh.notify()
    }

    fn keep_time(&mut self, now: Now) {
        if now.monotonic >= self.parts.core.poll_deadline() {
            if let Some(idle) = self
                .idle_sampler
                .take(now.monotonic, self.parts.gauges.network())
            {
                self.parts.core.handle_slept(idle);
            }
            self.parts.core.handle_timeout(now);
            let (core, gauges) = (&self.parts.core, &self.parts.gauges);
            gauges.set_load(core.load());
            gauges.set_has_hot_keys(core.has_hot_keys());
            gauges.set_has_migrations(core.has_migrations());
            gauges.set_refuses_keys(core.has_refused_keys());
        }
        if self.unmaintained || now.monotonic >= self.next_maintenance {
            self.unmaintained = self.parts.core.maintain(now);
            self.next_maintenance = now.monotonic + MAINTENANCE_LOOK;
        }
        if self
            .accept_again
            .is_some_and(|again| again <= now.monotonic)
        {
            self.accept(now);
        }
        self.relieve(now);
        if now.monotonic >= self.next_stall_look {
            self.next_stall_look = now.monotonic + STALL_LOOK;
            self.close_stalled(now);
        }
    }
}
