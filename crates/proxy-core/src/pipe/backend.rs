//! One connection to a backend: is it there, what was asked of it, and what is still unanswered.
//!
//! Requests are put into one queue of bytes. They stay there until their *answers* have come, not
//! only until they are written, so that a read whose key has moved, whose connection broke or whose
//! replica was gone can be asked again without having been copied in advance:
//!
//! ```text
//!      first            sent                 end
//!        │  awaited      │   not yet written   │
//!        ▼               ▼                     ▼
//!   ─────[ request ][ request ][ request ][ request ]
//! ```
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
//! `health.rs`) has to answer several, and is told what it has missed (`missed.rs`) before anything
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
use crate::ids::{ClientId, PoolId, RouteId};
use crate::limits::{
    BACKEND_BYTES_MAX, BACKEND_REQUESTS_MAX, RECONNECT_PAUSE_MAX, RECONNECT_PAUSE_MIN,
};
use crate::pipe::backlog::Backlog;
use crate::pipe::health::{Health, Sign, TRIAL_GREETINGS};
use crate::pipe::in_flight::{InFlight, Progress, Question, Tag, words};
use crate::pipe::missed::Missed;
use crate::pipe::paced::{PACE_DIVISOR, Paced};
use crate::pipe::speech::Speech;
use crate::pipe::streaming::Streaming;
use crate::pipe::window::Window;
use crate::places::Places;
use crate::stats::counters::{BackendCounters, Tally};
use crate::stats::per_route::PerRoute;
use crate::stats::process::BackendStats;
use crate::stats::stopwatch::{Finished, Stopwatch};
use core::time::Duration;
use evenkeel_hotkeys::burden::{RecentRequests, burden};
use evenkeel_types::{Instant, WorkerRef};
use std::collections::VecDeque;
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

/// How far the peer knows who we are, on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoginStanding {
    /// Nothing was said.
    Unsaid,
    /// It was said; the answer is to come.
    Said,
    /// The peer has agreed.
    Known,
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
    standing_of_login: LoginStanding,
    pub link: Link,
    /// What it understands, where it is any memcached.
    pub speech: Speech,
    /// How long connecting and greeting may take together.
    pub connect_timeout: Duration,
    /// How long an answer may take.
    pub request_timeout: Duration,
    /// Whether identical gets that wait to be sent become one.
    pub collapses: bool,
    pub health: Health,
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
    pub missed: Missed,
    /// Whether this connection has answered a request.
    has_answered: bool,
    /// The greeting, while it is not answered.
    greeting: ByteQueue,
    queue: ByteQueue,
    /// Absolute position of the first byte in `queue`.
    first: u64,
    /// Absolute position of the first byte that is not written. Invariant: within the queue.
    sent: u64,
    in_flight: VecDeque<InFlight>,
    /// What was lately put into the queue.
    recent: RecentRequests,
    /// Requests that were taken out of it, so that those in it have numbers.
    taken: u64,
    /// The number behind the last one that is no read, or was asked again.
    behind_unjoinable: u64,
    /// Where the gets stand that may be joined.
    joinable: Places<64>,
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
            standing_of_login: LoginStanding::Unsaid,
            link: Link::Idle,
            speech: Speech::Unknown,
            connect_timeout: settings.connect_timeout,
            request_timeout: settings.request_timeout,
            collapses: settings.collapse,
            health: Health::new(match peer {
                // Whoever it is says so in its greeting, and the map says whether it is alive.
                Peer::Worker(_) => 1,
                Peer::Memcached => TRIAL_GREETINGS,
            }),
            missed: Missed::default(),
            stopwatch: Stopwatch::default(),
            window: Window::default(),
            paced: Paced::default(),
            backlog: Backlog::default(),
            request_timeout_ns: nanoseconds(settings.request_timeout),
            measured_from: 0,
            has_answered: false,
            greeting: ByteQueue::default(),
            queue: ByteQueue::default(),
            first: 0,
            sent: 0,
            in_flight: VecDeque::new(),
            recent: RecentRequests::default(),
            taken: 0,
            behind_unjoinable: 0,
            joinable: Places::default(),
            streaming: None,
            need: 0,
            lease: Duration::ZERO,
            retired: false,
            write_queued: false,
            counters: BackendCounters::default(),
        }
    }

    /// Whether requests may be queued now; those for an idle backend wait for the connection.
    #[inline]
    pub fn admit(&mut self, len: usize) -> Result<(), Refused> {
        if !self.takes_requests() {
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
        self.queue.len() + len <= BACKEND_BYTES_MAX && self.in_flight.len() < BACKEND_REQUESTS_MAX
    }

    /// Whether requests may be queued as far as its connection is concerned.
    #[inline]
    pub fn takes_requests(&self) -> bool {
        let waits_for_greeting = self.health.failures() > 0 && self.link != Link::Ready;
        !waits_for_greeting && !self.retired
    }

    /// Where the next request is to be written; [`Backend::push`] must follow.
    #[inline]
    pub fn tail(&mut self) -> &mut Vec<u8> {
        self.queue.tail()
    }

    /// The routes of what is queued or awaited.
    pub fn routes_under_way(&self) -> impl Iterator<Item = RouteId> {
        self.in_flight.iter().map(|request| request.tag.route)
    }

    /// The requests of a client that are queued or awaited.
    pub fn questions_of(&self, client: ClientId) -> impl Iterator<Item = &[u8]> {
        let bytes = self.queue.as_slice();
        let of_client = self
            .in_flight
            .iter()
            .filter(move |r| r.tag.client == client);
        of_client.map(move |request| {
            let at = (request.start - self.first) as usize;
            &bytes[at..at + request.len]
        })
    }

    /// Bytes in the queue, to be compared before and after writing a request.
    #[inline]
    pub fn queued_bytes(&self) -> usize {
        self.queue.len()
    }

    /// How bad a place it is for one more read; `None` if it takes no requests.
    pub fn burden(&self, now: Instant) -> Option<usize> {
        let burden = burden(self.recent.sum(now), self.in_flight.len());
        self.takes_requests().then_some(burden)
    }

    /// Requests queued or awaited.
    pub fn queued_requests(&self) -> usize {
        self.in_flight.len()
    }

    /// The bytes appended since `before` ([`Backend::queued_bytes`]) are a request.
    #[inline]
    pub fn push(&mut self, before: usize, deadline: Instant, tag: Tag, progress: Progress) {
        let start = self.first + before as u64;
        let len = self.queue.len() - before;
        self.counters.requests += 1;
        let asked = deadline.0.saturating_sub(self.request_timeout_ns);
        self.recent.add(Instant(asked));
        // One that cannot be joined itself is seen by its client before what that asks next, which must not join one before it: that
        // could be answered with something older.
        let number = self.taken + self.in_flight.len() as u64;
        match (tag.join_hash(), self.peer) {
            (Some(hash), _) => self.joinable.note(hash, number),
            (None, Peer::Worker(_)) if tag.has_key() => self.joinable.forget(tag.hash.0),
            (None, Peer::Memcached) if tag.is_of_copy() => {}
            // Which keys it is about is not looked at.
            (None, Peer::Worker(_) | Peer::Memcached) => self.behind_unjoinable = number + 1,
        }
        self.in_flight.push_back(InFlight {
            tag,
            start,
            len,
            deadline,
            progress,
            answer_bytes: 0,
            outcome: Tally::Nothing,
            joined: 0,
        });
        self.window.holds(self.in_flight.len());
    }

    /// Lets a get of the key in this line, whose hash is given, join an identical one. False if there is
    /// none that may be joined.
    #[inline]
    pub fn join(&mut self, line: &[u8], hash: u64, client: ClientId, slot: u64) -> bool {
        let Some((bytes, request)) = self.joinable_request(hash) else {
            return false;
        };
        bytes[..request.len].strip_prefix(line) == Some(b"\r\n") && request.join(client, slot)
    }

    /// The bytes appended since `before` are a read: takes them out again if an identical one waits to be sent, whose answer is then for
    /// both.
    #[inline]
    pub fn join_last(&mut self, before: usize, hash: u64, tag: &Tag) -> bool {
        let len = self.queue.len() - before;
        let Some((bytes, request)) = self.joinable_request(hash) else {
            return false;
        };
        let (first, last) = (&bytes[..request.len], &bytes[bytes.len() - len..]);
        let is_same = words(first, &request.tag) == words(last, tag);
        let joins = is_same && request.join(tag.client, tag.slot);
        if joins {
            self.queue.truncate(before);
        }
        joins
    }

    /// The latest request for a key of this hash, if it may be joined, and the queue from its first byte on.
    #[inline]
    fn joinable_request(&mut self, hash: u64) -> Option<(&[u8], &mut InFlight)> {
        let number = self.joinable.find(hash)?;
        if number < self.behind_unjoinable {
            return None;
        }
        let index = number.checked_sub(self.taken)? as usize;
        let request = self.in_flight.get_mut(index)?;
        let may_join = request.start >= self.sent && request.tag.retries == 0;
        let at = (request.start - self.first) as usize;
        may_join.then(|| (&self.queue.as_slice()[at..], request))
    }

    /// The request whose answer comes next, and its bytes.
    #[inline]
    pub fn awaited(&mut self) -> Option<(&[u8], &mut InFlight)> {
        let request = self.in_flight.front_mut()?;
        Some((&self.queue.as_slice()[..request.len], request))
    }

    /// The awaited request is answered, or given up: its bytes are dropped.
    pub fn pop(&mut self) -> Option<InFlight> {
        let request = self.in_flight.pop_front()?;
        self.taken += 1;
        debug_assert_eq!(
            request.start, self.first,
            "requests are answered in the order asked"
        );
        self.queue.consume(request.len);
        self.first += request.len as u64;
        // Answered before it was written: only when the connection is given up.
        self.sent = self.sent.max(self.first);
        Some(request)
    }

    /// [`Backend::pop`] of a request that was written, for nobody to look at.
    #[inline]
    pub fn drop_awaited(&mut self) {
        if let Some(request) = self.in_flight.pop_front() {
            self.taken += 1;
            self.queue.consume(request.len);
            self.first += request.len as u64;
            debug_assert!(self.sent >= self.first, "it is answered");
        }
    }

    /// The awaited request is answered, whole: measures how long that took.
    #[inline]
    pub fn measure(&mut self, now: Instant, routes: &mut PerRoute) {
        let Some(request) = self.in_flight.front() else {
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
        let request = self.in_flight.front()?;
        (request.start >= self.measured_from).then(|| self.asked_at(request))
    }

    /// How long the awaited request has taken, if that is known.
    #[inline]
    pub fn took(&self, now: Instant) -> Option<Duration> {
        self.asked().map(|asked| now.since(asked))
    }

    /// When the awaited request was written, if it was.
    pub fn written(&mut self) -> Option<Instant> {
        let request = self.in_flight.front()?;
        self.stopwatch.written(request.start + request.len as u64)
    }

    /// How long an answer may take from now on.
    pub fn set_request_timeout(&mut self, timeout: Duration) {
        if self.request_timeout != timeout {
            self.request_timeout = timeout;
            self.request_timeout_ns = nanoseconds(timeout);
            self.measured_from = self.first + self.queue.len() as u64;
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
    /// them were written; if not, the peer cannot have carried it out.
    pub fn pop_question(&mut self) -> Option<(Question, bool)> {
        let (bytes, _) = self.awaited()?;
        let bytes = bytes.to_vec();
        let is_written = self.sent >= self.first + bytes.len() as u64;
        let request = self.pop()?;
        Some((
            Question {
                tag: request.tag,
                bytes,
                progress: request.progress,
            },
            is_written,
        ))
    }

    /// How many requests are written, in whole or in part.
    fn written_requests(&self) -> usize {
        self.in_flight
            .partition_point(|request| request.start < self.sent)
    }

    /// How many requests the window keeps back, and since when the first of them waits, if any does.
    pub fn waiting(&self) -> (usize, Option<Instant>) {
        if self.window.is_open() || self.link != Link::Ready {
            return (0, None);
        }
        let written = self.written_requests();
        let first = self.in_flight.get(written);
        let since = first.map(|first| self.asked_at(first));
        (self.in_flight.len() - written, since)
    }

    /// Whether applications should wait before they ask for more: what is kept back waits for longer than a part of the request timeout, or
    /// nobody knows for how long.
    pub fn is_far_behind(&self, now: Instant) -> bool {
        // Also before it is connected.
        let waiting = self.in_flight.len().saturating_sub(self.window.size());
        if waiting == 0 {
            return false;
        }
        let (_, since) = self.waiting();
        let waited = since.map_or(Duration::ZERO, |since| now.since(since));
        let way = Duration::from_micros(self.stopwatch.round_trip_us().unwrap_or(0));
        let expected = self.window.time_of(waiting, way);
        let limit = self.request_timeout / PACE_DIVISOR;
        expected.is_none_or(|expected| expected.max(waited) > limit)
    }

    /// When a request that is queued was asked.
    #[inline]
    fn asked_at(&self, request: &InFlight) -> Instant {
        Instant(request.deadline.0.saturating_sub(self.request_timeout_ns))
    }

    /// Takes out the requests that wait to be written and of which `may_go` says so, given for how long they have waited, in their
    /// order. It is asked once of each. O(requests that wait), and copies those behind the first that goes.
    pub fn take_waiting(
        &mut self,
        now: Instant,
        mut may_go: impl FnMut(&Tag, Duration) -> bool,
    ) -> Vec<Question> {
        let mut goes = |backend: &Backend, request: &InFlight| {
            may_go(&request.tag, now.since(backend.asked_at(request)))
        };
        let mut waiting = self.written_requests()..self.in_flight.len();
        let Some(first) = waiting.find(|&index| goes(self, &self.in_flight[index])) else {
            return Vec::new();
        };
        let mut start = self.in_flight[first].start;
        let at = (start - self.first) as usize;
        let requests = self.in_flight.split_off(first);
        let bytes = self.queue.as_slice()[at..].to_vec();
        self.queue.truncate(at);
        let (mut taken, mut rest) = (Vec::new(), &bytes[..]);
        for mut request in requests {
            let (question, behind) = rest.split_at(request.len);
            rest = behind;
            if taken.is_empty() || goes(self, &request) {
                taken.push(Question {
                    tag: request.tag,
                    bytes: question.to_vec(),
                    progress: request.progress,
                });
                continue;
            }
            request.start = start;
            start += request.len as u64;
            self.queue.tail().extend_from_slice(question);
            self.in_flight.push_back(request);
        }
        self.measured_from = self.measured_from.min(start);
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
            Link::Ready => {
                let bytes = match self.in_flight.get(self.window.size()) {
                    Some(kept) => ..(kept.start.max(self.sent) - self.first) as usize,
                    None => ..self.queue.len(),
                };
                &self.queue.as_slice()[bytes][(self.sent - self.first) as usize..]
            }
            Link::Idle | Link::Connecting { .. } | Link::Unready { .. } | Link::Down { .. } => &[],
        }
    }

    /// The driver wrote `count` bytes of [`Backend::output`].
    pub fn wrote(&mut self, now: Instant, count: usize) {
        match self.link {
            Link::Greeting { .. } => self.greeting.consume(count),
            Link::Ready => {
                self.sent += count as u64;
                assert!(
                    self.sent - self.first <= self.queue.len() as u64,
                    "wrote more bytes than there are"
                );
                let awaited = self
                    .in_flight
                    .front()
                    .map_or(0, |request| request.len as u64);
                self.stopwatch.wrote(now, self.sent, self.first + awaited);
                self.window.wrote(now, self.sent, self.in_flight.len());
            }
            Link::Idle | Link::Connecting { .. } | Link::Unready { .. } | Link::Down { .. } => {}
        }
    }

    /// The driver is told to connect.
    pub fn connecting(&mut self, until: Instant) {
        debug_assert!(matches!(self.link, Link::Idle | Link::Down { .. }));
        self.link = Link::Connecting { until };
        self.standing_of_login = LoginStanding::Unsaid;
    }

    /// Who to say we are before the greeting. Once on each connection: whoever knows us would store it.
    pub fn login_to_say(&mut self) -> Option<Arc<Login>> {
        if self.standing_of_login != LoginStanding::Unsaid {
            return None;
        }
        let login = self.login.clone()?;
        self.standing_of_login = LoginStanding::Said;
        Some(login)
    }

    /// Whether the peer has yet to say that it knows us.
    pub fn awaits_login(&self) -> bool {
        self.standing_of_login == LoginStanding::Said
    }

    /// The peer knows us.
    pub fn is_known(&mut self) {
        self.standing_of_login = LoginStanding::Known;
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
        self.has_answered = false;
        self.counters.connects += 1;
    }

    /// The peer closed the connection. What was awaited is still in the queue; the caller takes it
    /// out with [`Backend::pop`].
    ///
    /// A peer that answered on this connection may have been restarted or may have closed an idle
    /// connection, so a new one is tried without a pause. Otherwise it has failed. True if that took it
    /// out of use.
    pub fn closed_by_peer(&mut self, now: Instant, jitter: f64) -> bool {
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
        self.failed(now, jitter, sign)
    }

    /// The connection is given up, or could not be made. What was awaited is still in the queue; the
    /// caller takes it out with [`Backend::pop`]. Tried again after a pause that `jitter` (0..=1)
    /// shortens. True if this took it out of use.
    pub fn failed(&mut self, now: Instant, jitter: f64, sign: Sign) -> bool {
        let doublings = self.health.failures().min(16);
        let longest = (RECONNECT_PAUSE_MIN * (1 << doublings)).min(RECONNECT_PAUSE_MAX);
        let has_changed = self.health.see(now, sign);
        self.counters.failures += 1;
        self.counters.outages += u64::from(has_changed);
        self.greeting.clear();
        self.need = 0;
        let pause = longest.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0);
        self.link = Link::Down { until: now + pause };
        has_changed
    }

    /// Nothing awaited remains after a failure: the next connection starts with an empty queue.
    pub fn reset_queue(&mut self) {
        assert!(self.in_flight.is_empty(), "requests are taken out before");
        self.queue.clear();
        self.sent = self.first;
        self.stopwatch.restart();
        self.window.restart();
    }

    /// When the next answer is late.
    pub fn answer_due(&self) -> Option<Instant> {
        self.in_flight.front().map(|request| request.deadline)
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

    /// Its name in statistics: with the worker's number where there are several.
    pub fn full_name(&self) -> String {
        match self.peer {
            Peer::Worker(worker) => format!("{}/{}", self.name, worker.worker),
            Peer::Memcached => self.name.clone(),
        }
    }

    /// What statistics show of it; `pool` is the name of its pool.
    pub fn stats(&self, pool: String) -> BackendStats {
        BackendStats {
            name: self.full_name(),
            pool,
            host: self.host.clone(),
            port: self.port,
            state: self.state(),
            queued_requests: self.queued_requests() as u64,
            queued_bytes: self.queued_bytes() as u64,
            counters: self.counters,
            latency: self.stopwatch.latency(),
            round_trip_us: self.stopwatch.round_trip_us(),
            window: (!self.window.is_open()).then(|| self.window.size() as u64),
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
