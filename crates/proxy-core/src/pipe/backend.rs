//! One connection to a backend: is it there, what was asked of it, and what is still unanswered.
//!
//! Requests are put into one queue of bytes (`queue.rs`).
//!
//! Every request has exactly one answer (`noreply` and quiet flags are taken off), so answers belong
//! to requests by their order alone. That order is also why one answer that does not come in time
//! closes the connection: everything behind it would be late, and a late answer would be taken for
//! the next one.
//!
//! A backend that failed is *down*: requests are refused at once while attempts to reach it go on by
//! themselves, with growing, jittered pauses. Only a backend with nothing against it makes requests
//! wait for the connection. A connection counts as up when the peer has answered a greeting: the
//! kernel of a stopped process still accepts connections. A memcached that was out of use (see
//! `health.rs`) has to answer several, and is told what it has missed (`invalidation_log.rs`) before anything
//! else.
//!
//! ```text
//!            connect           connected             greeted
//!   Idle ─────────────> Connecting ──────> Greeting ───────> Ready
//!                          │  ▲              │  ▲ └> Unready   │
//!                          │  └── pause ──┐  │  └─ pause ┘     │  lost, late, malformed
//!                          └────────────> Down <───────────────┘
//! ```

use crate::bytes::ByteQueue;
use crate::config::{Login, PoolSettings, TlsId};
use crate::failure::Failure;
use crate::ids::{PoolId, RouteId};
use crate::limits::{
    BACKEND_BYTES_MAX, BACKEND_REQUESTS_MAX, RECONNECT_PAUSE_MAX, RECONNECT_PAUSE_MIN,
};
use crate::outage::{Cause, Outage};
use crate::pipe::backlog::Backlog;
use crate::pipe::capability::Capability;
use crate::pipe::handshake::Handshake;
use crate::pipe::health::{Health, Sign, TRIAL_GREETINGS};
use crate::pipe::in_flight::{Asker, InFlight, Progress, Question, Tag};
use crate::pipe::invalidation_log::InvalidationLog;
use crate::pipe::paced::{PACE_DIVISOR, Paced};
use crate::pipe::queue::Queue;
use crate::pipe::room::Room;
use crate::pipe::streaming::Streaming;
use crate::pipe::window::Window;
use crate::racks::Racks;
use crate::stats::counters::BackendCounters;
use crate::stats::per_route::PerRoute;
use crate::stats::process::BackendStats;
use crate::stats::stopwatch::{Finished, Stopwatch};
use core::mem;
use core::net::IpAddr;
use core::time::Duration;
use evenkeel_hotkeys::burden::{RecentRequests, burden};
use evenkeel_schemes::locality::topology::RackId;
use evenkeel_types::rooms::Rooms;
use evenkeel_types::{Instant, WorkerRef};
use std::sync::Arc;

/// What is known of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Not connected, and nothing speaks against it.
    Idle,
    /// Under way since the driver was told.
    Connecting { until: Instant },
    /// Connected; the greeting is not answered yet.
    Greeting { until: Instant },
    /// Connected to a worker that has no map yet, or to a memcached on trial: it is greeted again.
    Unready { until: Instant },
    /// Agreed.
    Ready,
    /// Failed. Tried again by itself.
    Down { until: Instant },
}

/// How to find out who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// An Evenkeel worker: the extension's hello.
    Worker(WorkerRef),
    /// Any memcached: `version`.
    Memcached,
}

/// Why a backend does not take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is down.
    Down,
    /// Its queue is full.
    Full,
}

#[derive(Debug)]
pub(crate) struct Backend {
    pub pool: PoolId,
    /// How statistics and error messages call it.
    pub name: String,
    pub host: String,
    pub port: u16,
    pub peer: Peer,
    /// How TLS is spoken with it.
    pub tls: Option<TlsId>,
    /// Who we say we are.
    pub login: Option<Arc<Login>>,
    /// What was said of it on this connection, if it was.
    login_handshake: Handshake,
    /// Whether its pool has marks, which it has to be able to hold.
    pub has_marks: bool,
    /// Whether that was tried on this connection.
    trial_handshake: Handshake,
    /// How much of its memory copies may take, where its pool keeps some.
    pub room: Option<Room>,
    pub link: Link,
    /// What it understands, where it is any memcached.
    pub capability: Capability,
    /// How long connecting and greeting may take together.
    pub connect_timeout: Duration,
    /// How long an answer may take.
    pub request_timeout: Duration,
    /// Whether identical gets that wait to be sent become one.
    pub collapses: bool,
    pub health: Health,
    pub outage: Outage,
    /// How long its requests take.
    pub stopwatch: Stopwatch,
    /// The request timeout, in nanoseconds.
    request_timeout_ns: u64,
    /// How many requests may be under way.
    pub window: Window,
    pub paced: Paced,
    /// Whether too much waits for it.
    pub backlog: Backlog,
    /// Requests that begin before this position are not measured.
    measured_from: u64,
    /// What it must forget before it is asked anything.
    pub invalidations: InvalidationLog,
    /// How many connections came before this one, or before the next.
    connection: u64,
    /// Whether the greeting of this connection was answered.
    has_agreed: bool,
    /// Whether this connection has answered a request.
    has_answered: bool,
    /// How many answers there were when it was last looked whether it is still there.
    answers_seen: u64,
    /// The greeting, while it is not answered.
    greeting: ByteQueue,
    queue: Queue,
    /// What was lately put into the queue.
    recent: RecentRequests,
    /// The value that is being passed on as it comes.
    pub streaming: Option<Streaming>,
    /// Do not parse before this many bytes of an answer are there.
    pub need: usize,
    /// How long a lease of this worker lasts.
    pub lease: Duration,
    /// No longer in the map: closed once nothing is awaited.
    pub retired: bool,
    /// Whether the driver has been told that there is something to write.
    pub write_queued: bool,
    pub counters: BackendCounters,
    /// Where its connections go, once one stood.
    pub address: Option<IpAddr>,
    /// The rack that it stands in, if that is known.
    pub rack: Option<RackId>,
}

impl Backend {
    pub fn new(
        pool: PoolId,
        name: String,
        host: String,
        port: u16,
        peer: Peer,
        settings: &PoolSettings,
    ) -> Self {
        Backend {
            pool,
            name,
            host,
            port,
            peer,
            tls: settings.tls,
            login: settings.login.clone(),
            login_handshake: Handshake::default(),
            has_marks: settings.has_marks() && peer == Peer::Memcached,
            trial_handshake: Handshake::default(),
            room: None,
            link: Link::Idle,
            capability: Capability::Unknown,
            connect_timeout: settings.connect_timeout,
            request_timeout: settings.request_timeout,
            collapses: settings.collapse,
            health: Health::new(match peer {
                // The peer says so in its greeting, and the map says whether it is alive.
                Peer::Worker(_) => 1,
                Peer::Memcached => TRIAL_GREETINGS,
            }),
            outage: Outage::default(),
            invalidations: InvalidationLog::default(),
            stopwatch: Stopwatch::default(),
            window: Window::default(),
            paced: Paced::default(),
            backlog: Backlog::default(),
            request_timeout_ns: nanoseconds(settings.request_timeout),
            measured_from: 0,
            connection: 0,
            has_agreed: false,
            has_answered: false,
            answers_seen: 0,
            greeting: ByteQueue::default(),
            queue: Queue::default(),
            recent: RecentRequests::default(),
            streaming: None,
            need: 0,
            lease: Duration::ZERO,
            retired: false,
            write_queued: false,
            counters: BackendCounters::default(),
            address: None,
            rack: None,
        }
    }

    /// Whether requests may be queued now; those for an idle backend wait for the connection.
    #[inline]
    pub fn admit(&mut self, len: usize) -> Result<(), Refused> {
        if !self.takes_requests() {
            self.outage.refused_one();
            return Err(Refused::Down);
        }
        if !self.has_room(len) {
            self.counters.refused_full += 1;
            return Err(Refused::Full);
        }
        Ok(())
    }

    /// Whether the queue has room for a request of that many bytes.
    #[inline]
    pub fn has_room(&self, len: usize) -> bool {
        self.queue.len_bytes() + len <= BACKEND_BYTES_MAX && self.queue.len() < BACKEND_REQUESTS_MAX
    }

    /// Whether requests may be queued as far as its connection is concerned.
    #[inline]
    pub fn takes_requests(&self) -> bool {
        let waits_for_greeting = self.health.failures() > 0 && self.link != Link::Ready;
        !waits_for_greeting && !self.retired
    }

    /// Gives memory away that is not needed now.
    #[inline]
    pub fn give_back(&mut self, rooms: &mut Rooms) {
        self.queue.give_back(rooms);
    }

    /// Where the next request is to be written; [`Backend::push`] must follow.
    #[inline]
    pub fn tail(&mut self) -> &mut Vec<u8> {
        self.queue.tail()
    }

    /// The routes of what is queued or awaited.
    pub fn routes_under_way(&self) -> impl Iterator<Item = RouteId> {
        self.queue.requests().map(|request| request.tag.route)
    }

    /// Whether all is answered that was asked until then. O(1): what is queued stands in the order in which it was asked.
    pub fn has_answered_until(&self, then: Instant) -> bool {
        self.queue.len() == 0 || self.asked().is_some_and(|asked| asked > then)
    }

    /// The deletes of what it had missed that are queued or awaited.
    pub fn catch_ups(&self) -> impl Iterator<Item = &[u8]> {
        self.queue.questions_of(Asker::CatchUp)
    }

    /// Bytes in the queue, to be compared before and after writing a request.
    #[inline]
    pub fn queued_bytes(&self) -> usize {
        self.queue.len_bytes()
    }

    /// How bad a place it is for one more read; `None` if it takes no requests.
    pub fn burden(&self, now: Instant) -> Option<usize> {
        let burden = burden(self.recent.sum(now), self.queue.len());
        self.takes_requests().then_some(burden)
    }

    /// Requests queued or awaited.
    pub fn queued_requests(&self) -> usize {
        self.queue.len()
    }

    /// The bytes appended since `before` ([`Backend::queued_bytes`]) are a request.
    #[inline]
    pub fn push(&mut self, before: usize, deadline: Instant, tag: Tag, progress: Progress) {
        self.counters.requests += 1;
        let asked = deadline.0.saturating_sub(self.request_timeout_ns);
        self.recent.add(Instant(asked));
        let of_worker = self.peer != Peer::Memcached;
        self.queue.push(before, of_worker, deadline, tag, progress);
        self.window.holds(self.queue.len());
    }

    /// The bytes appended since `before` are a read: takes them out again if an identical one waits to be sent, or was asked after
    /// `asked_after`, whose answer is then for both.
    #[inline]
    pub fn join_last(
        &mut self,
        before: usize,
        hash: u64,
        tag: &Tag,
        asked_after: Option<Instant>,
    ) -> bool {
        let due = asked_after.map(|asked| asked + self.request_timeout);
        self.queue.join_last(before, hash, tag, due)
    }

    /// The request whose answer comes next, and its bytes.
    #[inline]
    pub fn awaited(&mut self) -> Option<(&[u8], &mut InFlight)> {
        self.queue.awaited()
    }

    /// The awaited request is answered, or given up: its bytes are dropped.
    pub fn pop(&mut self) -> Option<InFlight> {
        self.queue.pop()
    }

    /// [`Backend::pop`] of a request that was written, for nobody to look at.
    #[inline]
    pub fn drop_awaited(&mut self) {
        self.queue.drop_awaited();
    }

    /// The awaited request is answered, whole: measures how long that took.
    #[inline]
    pub fn measure(&mut self, now: Instant, routes: &mut PerRoute) {
        let Some(request) = self.queue.front() else {
            return;
        };
        let finished = Finished {
            asked: self.asked(),
            end: request.start + request.len as u64,
            len: request.len as u64,
            route: request.tag.route,
        };
        let way = self.stopwatch.round_trip_us();
        let shrunk = self.window.answered(now, finished.end, way, self.lease);
        self.counters.window_shrunk += u64::from(shrunk);
        self.stopwatch.answered(now, &finished, routes);
    }

    /// When the awaited request was asked, if that is known.
    #[inline]
    pub fn asked(&self) -> Option<Instant> {
        let request = self.queue.front()?;
        (request.start >= self.measured_from).then(|| self.asked_at(request))
    }

    /// How long the awaited request has taken, if that is known.
    #[inline]
    pub fn took(&self, now: Instant) -> Option<Duration> {
        self.asked().map(|asked| now.since(asked))
    }

    /// When the awaited request was written, if it was.
    pub fn written(&mut self) -> Option<Instant> {
        let request = self.queue.front()?;
        self.stopwatch.written(request.start + request.len as u64)
    }

    /// How long an answer may take from now on.
    pub fn set_request_timeout(&mut self, timeout: Duration) {
        if self.request_timeout != timeout {
            self.request_timeout = timeout;
            self.request_timeout_ns = nanoseconds(timeout);
            self.measured_from = self.queue.end();
        }
    }

    /// A request was answered: the backend is well.
    #[inline]
    pub fn answered(&mut self) {
        self.health.answered();
        self.has_answered = true;
        self.counters.answers += 1;
    }

    /// Takes out the request whose answer comes next together with its bytes, and whether all of
    /// them were written; if not, the peer cannot have executed it.
    pub fn pop_question(&mut self) -> Option<(Question, bool)> {
        self.queue.pop_question()
    }

    /// How many requests the window keeps back, and since when the first of them waits, if any does.
    pub fn waiting(&self) -> (usize, Option<Instant>) {
        if self.window.is_open() || self.link != Link::Ready {
            return (0, None);
        }
        let written = self.queue.written();
        let first = self.queue.get(written);
        let since = first.map(|first| self.asked_at(first));
        (self.queue.len() - written, since)
    }

    /// Whether applications should wait before they ask for more: what is kept back waits for longer than a part of the request timeout, or
    /// nobody knows for how long.
    pub fn is_far_behind(&self, now: Instant) -> bool {
        // Also before it is connected.
        let waiting = self.queue.len().saturating_sub(self.window.size());
        if waiting == 0 {
            return false;
        }
        let (_, since) = self.waiting();
        let waited = since.map_or(Duration::ZERO, |since| now.since(since));
        let way = self.stopwatch.round_trip_us();
        let expected = self.window.time_of(now, waiting, way);
        let limit = self.request_timeout / PACE_DIVISOR;
        expected.is_none_or(|expected| expected.max(waited) > limit)
    }

    /// When a request that is queued was asked.
    #[inline]
    fn asked_at(&self, request: &InFlight) -> Instant {
        asked_at(request, self.request_timeout_ns)
    }

    /// Takes out the requests that wait to be written and of which `may_go` says so, given for how long they have waited, in their
    /// order. It is asked once of each. O(requests that wait), and copies those behind the first that goes.
    pub fn take_waiting(
        &mut self,
        now: Instant,
        mut may_go: impl FnMut(&Tag, Duration) -> bool,
    ) -> Vec<Question> {
        let timeout_ns = self.request_timeout_ns;
        let taken = self
            .queue
            .take_waiting(|request| may_go(&request.tag, now.since(asked_at(request, timeout_ns))));
        let Some((taken, end)) = taken else {
            return Vec::new();
        };
        self.measured_from = self.measured_from.min(end);
        self.counters.shed += taken.len() as u64;
        taken
    }

    /// Whether requests that had to wait may be written now.
    pub fn lets_through(&self) -> bool {
        !self.window.is_open() && self.link == Link::Ready && !self.output().is_empty()
    }

    /// What the driver should write now: what is not written of the requests that may be under way.
    #[inline]
    pub fn output(&self) -> &[u8] {
        match self.link {
            Link::Greeting { .. } => self.greeting.as_slice(),
            Link::Ready => self.queue.unwritten(self.window.size()),
            Link::Idle | Link::Connecting { .. } | Link::Unready { .. } | Link::Down { .. } => &[],
        }
    }

    /// The driver wrote `count` bytes of [`Backend::output`].
    pub fn wrote(&mut self, now: Instant, count: usize) {
        self.counters.sends += 1;
        self.counters.sent_bytes += count as u64;
        match self.link {
            Link::Greeting { .. } => self.greeting.consume(count),
            Link::Ready => {
                let (sent, awaited_end) = self.queue.wrote(count);
                self.stopwatch.wrote(now, sent, awaited_end);
                self.window.wrote(now, sent, self.queue.len());
            }
            Link::Idle | Link::Connecting { .. } | Link::Unready { .. } | Link::Down { .. } => {}
        }
    }

    /// The driver is told to connect.
    pub fn connecting(&mut self, until: Instant) {
        debug_assert!(matches!(self.link, Link::Idle | Link::Down { .. }));
        self.link = Link::Connecting { until };
        self.has_agreed = false;
        self.login_handshake = Handshake::default();
        self.trial_handshake = Handshake::default();
        if let Some(room) = &mut self.room {
            room.begin_anew();
        }
    }

    /// Who to say we are before the greeting. Once on each connection: anyone who knows us would store it.
    pub fn login_to_say(&mut self) -> Option<Arc<Login>> {
        let login = self.login.clone()?;
        self.login_handshake.say().then_some(login)
    }

    /// Whether the peer has yet to say that it knows us.
    pub fn awaits_login(&self) -> bool {
        self.login_handshake.is_said()
    }

    /// The peer knows us.
    pub fn is_known(&mut self) {
        self.login_handshake.answered();
    }

    /// Whether to try before the greeting that it can hold marks. Once on each connection.
    pub fn is_to_be_tried(&mut self) -> bool {
        self.has_marks && self.trial_handshake.say()
    }

    /// Whether the peer has yet to show that it can hold marks.
    pub fn awaits_trial(&self) -> bool {
        self.trial_handshake.is_said()
    }

    /// The peer can hold marks.
    pub fn holds_marks(&mut self) {
        self.trial_handshake.answered();
    }

    /// Connected: greet.
    pub fn greet(&mut self, until: Instant, greeting: impl FnOnce(&mut Vec<u8>)) {
        self.link = Link::Greeting { until };
        self.greeting.clear();
        greeting(self.greeting.tail());
    }

    /// The peer is who it should be.
    pub fn agreed(&mut self) {
        self.link = Link::Ready;
        if !mem::replace(&mut self.has_agreed, true) {
            self.has_answered = false;
            self.counters.connects += 1;
        }
    }

    /// Looks whether nothing was asked since the last look, and nothing is: then only a greeting shows whether it is still there.
    pub fn look_whether_idle(&mut self) -> bool {
        let answers = mem::replace(&mut self.answers_seen, self.counters.answers);
        answers == self.counters.answers && self.link == Link::Ready && self.queue.len() == 0
    }

    /// The peer closed the connection. What was awaited is still in the queue; the caller takes it
    /// out with [`Backend::pop`].
    ///
    /// A peer that answered on this connection may have been restarted or may have closed an idle
    /// connection, so a new one is tried without a pause. Otherwise it has failed. True if that took it
    /// out of use.
    pub fn closed_by_peer(&mut self, now: Instant, jitter: f64, cause: Cause) -> bool {
        if self.link == Link::Ready && self.has_answered {
            self.counters.failures += 1;
            self.need = 0;
            self.link = Link::Idle;
            return false;
        }
        let sign = match self.link {
            Link::Ready => Sign::Late,
            _ => Sign::Broken,
        };
        self.failed(now, jitter, sign, cause)
    }

    /// The connection is given up, or could not be made. What was awaited is still in the queue; the
    /// caller takes it out with [`Backend::pop`]. Tried again after a pause that `jitter` (0..=1)
    /// shortens. True if this took it out of use.
    pub fn failed(&mut self, now: Instant, jitter: f64, sign: Sign, cause: Cause) -> bool {
        let doublings = self.health.failures().min(16);
        let longest = (RECONNECT_PAUSE_MIN * (1 << doublings)).min(RECONNECT_PAUSE_MAX);
        let has_changed = self.health.see(now, sign);
        self.counters.failures += 1;
        self.outage.failed(cause);
        if has_changed {
            self.counters.outages += 1;
            self.outage.begin();
        }
        self.greeting.clear();
        self.need = 0;
        let pause = longest.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0);
        self.link = Link::Down { until: now + pause };
        has_changed
    }

    /// Why it was not reached, while it has not answered since.
    pub fn cause(&self) -> Option<&Cause> {
        (self.outage.cause()).filter(|_| self.health.failures() > 0)
    }

    /// What a request is answered that it is not asked.
    pub fn unavailable(&self) -> Failure {
        Failure::Unavailable(self.name.clone(), self.cause().cloned())
    }

    /// Why what it was to do until now was not done in time.
    pub fn cause_of_lateness(&self) -> Cause {
        match self.link {
            Link::Idle | Link::Connecting { .. } | Link::Down { .. } => Cause::ConnectTimeout,
            Link::Greeting { .. } | Link::Unready { .. } => Cause::Silent,
            Link::Ready => Cause::RequestTimeout,
        }
    }

    /// Why what it has answered is of no use.
    pub fn cause_of_nonsense(&self) -> Cause {
        let is_greeting = matches!(self.link, Link::Greeting { .. });
        match is_greeting {
            true if self.awaits_login() => Cause::LoginRefused,
            true if self.awaits_trial() => Cause::MarksRefused,
            _ => Cause::Nonsense,
        }
    }

    /// Tells its connections apart.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// Nothing awaited remains after a failure: the next connection starts with an empty queue.
    pub fn reset_queue(&mut self) {
        self.connection += 1;
        self.queue.restart();
        self.stopwatch.restart();
        self.window.restart();
    }

    /// When the next answer is late.
    pub fn answer_due(&self) -> Option<Instant> {
        self.queue.front().map(|request| request.deadline)
    }

    /// When something must be done unless something happens before.
    pub fn deadline(&self) -> Option<Instant> {
        let of_link = match self.link {
            Link::Idle | Link::Ready => None,
            Link::Connecting { until }
            | Link::Greeting { until }
            | Link::Unready { until }
            | Link::Down { until } => Some(until),
        };
        match (of_link, self.answer_due()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Looks where it stands.
    pub fn find_rack(&mut self, racks: &Racks) {
        self.rack = racks.of_server(&self.host, self.port, self.address);
    }

    /// Its name in statistics: with the worker's number where there are several.
    pub fn full_name(&self) -> String {
        match self.peer {
            Peer::Worker(worker) => format!("{}/{}", self.name, worker.worker),
            Peer::Memcached => self.name.clone(),
        }
    }

    /// What statistics show of it now; `pool` is the name of its pool.
    pub fn stats(&self, now: Instant, pool: String, racks: &Racks) -> BackendStats {
        let window = (!self.window.is_open()).then(|| self.window.size() as u64);
        let counters = BackendCounters {
            connections_up: u64::from(self.state() == "up"),
            queued_requests: self.queued_requests() as u64,
            queued_bytes: self.queued_bytes() as u64,
            window: window.unwrap_or(0),
            ..self.counters
        };
        BackendStats {
            name: self.full_name(),
            pool,
            host: self.host.clone(),
            port: self.port,
            state: self.state(),
            cause: self.cause().map(ToString::to_string),
            counters,
            latency: self.stopwatch.latency(),
            round_trip_us: self.stopwatch.round_trip_us(),
            rack: racks.name(self.rack).to_owned(),
            distance_us: self.stopwatch.distance_us(now),
        }
    }

    /// One word for statistics.
    pub fn state(&self) -> &'static str {
        match self.link {
            Link::Idle => "idle",
            Link::Connecting { .. } | Link::Greeting { .. } | Link::Unready { .. } => {
                if self.health.failures() > 0 {
                    "down"
                } else {
                    "connecting"
                }
            }
            Link::Ready => "up",
            Link::Down { .. } => "down",
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// When a request was asked whose answer may take this long.
#[inline]
fn asked_at(request: &InFlight, request_timeout_ns: u64) -> Instant {
    Instant(request.deadline.0.saturating_sub(request_timeout_ns))
}
