//! A thread of load: one event loop over its connections.
//!
//! A turn of the loop is: send what is due, wait for the sockets, take in answers, refill the
//! connections they came on. Twenty times a second it also looks after connections that are down or
//! silent, and ten times it publishes its figures. An open loop sleeps on a timer of the
//! kernel with nanosecond resolution instead of the millisecond timeout of `epoll_wait`.

use super::answer::Request;
use super::connection::{Connection, Loss};
use super::encode::Route;
use super::feed::Feed;
use super::stats::{LoadStats, Mailbox};
use crate::target::Socket;
use crate::timer::Timer;
use crate::{BadUsage, LoadPlan, value};
use evenkeel_protocol::{ITEM_OVERHEAD, Limits};
use evenkeel_types::KeyHash;
use evenkeel_types::limits::{ITEM_SIZE_DEFAULT, KEY_LEN_MAX};
use evenkeel_workload::{Operation, Schedule};
use mio::{Events, Interest, Poll, Token};
use rustix::thread::CpuSet;
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest sleep, and distance of the looks at silent connections.
const TICK: Duration = Duration::from_millis(50);

/// Distance at which figures are published.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(100);

/// Wait before a lost connection is opened anew.
const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// Longest wait for the last answers when a load ends.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Most events of one turn.
const EVENTS_MAX: usize = 1024;

/// Values of a trace are cut to what a memcached with default limits takes under the longest key.
const TRACE_VALUE_LEN_MAX: usize = ITEM_SIZE_DEFAULT - ITEM_OVERHEAD - KEY_LEN_MAX;

/// Requests drawn for the connections of other workers that wait for their turn. More are forgotten:
/// draws do not depend on each other, so those that are left have the same popularity.
const WAITING_MAX: usize = 1024;

/// The token of the timer; connections have theirs from 0.
const TIMER: Token = Token(usize::MAX);

/// What the owner of a load tells its threads.
#[derive(Debug, Default)]
pub(crate) struct Control {
    pub(crate) stop: AtomicBool,
    /// Which keys are hot.
    pub(crate) generation: AtomicU64,
}

/// What a thread leaves behind.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// From the end of the warm-up to the last answer.
    pub(crate) elapsed: Duration,
    /// Processor time of the thread, from the end of the warm-up.
    pub(crate) cpu: Duration,
    /// What ended the load before its time.
    pub(crate) fault: Option<anyhow::Error>,
    /// The first error of any kind, in words.
    pub(crate) first_error: Option<String>,
}

/// What requests that were sent and answered together have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Alike {
    is_read: bool,
    latency_ns: u64,
}

/// Everything of a thread but its connections: where requests come from and where they end.
pub(crate) struct Work {
    pub(crate) plan: Arc<LoadPlan>,
    pub(crate) stats: Box<LoadStats>,
    feed: Feed,
    /// Requests that may still be drawn.
    quota: Option<u64>,
    ended: bool,
    /// Requests out of use, with their buffers: what sets after misses are made in.
    pool: Vec<Request>,
    /// Drawn and unsent, by the worker that they are for; empty where the load knows no workers.
    waiting: Vec<VecDeque<Request>>,
    /// The last of the requests that are finished and not booked, and how many of them are like it.
    alike: Alike,
    alike_count: u64,
    version: u64,
    /// The value being written.
    value: Vec<u8>,
    /// What the target may make us buffer.
    pub(crate) limits: Limits,
    clock: Instant,
    last_answer_ns: u64,
    /// The first loss of a connection since the last answer.
    lost_since_ns: Option<u64>,
    fault: Option<anyhow::Error>,
    first_error: Option<String>,
}

impl Work {
    /// Nanoseconds since the start of the load.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// The value of the next write, with a version that no other write has.
    pub(crate) fn next_value(&mut self, request: &Request) -> &[u8] {
        match request.operation {
            // Counters are apart from values, and begin here.
            _ if request.begins_counter => return b"0",
            // A value grows by nothing, so that it can still be checked and does not fill the server.
            Operation::Append | Operation::Prepend => return b"",
            _ => {}
        }
        let hash = KeyHash::of(request.keys.get(0));
        let len = match request.value_len {
            Some(len) => (len as usize).min(TRACE_VALUE_LEN_MAX),
            None => self.plan.value_sizes.of(hash.0) as usize,
        };
        self.version += 1;
        self.value.clear();
        value::write(hash, self.version, len, &mut self.value);
        &self.value
    }

    /// Time to live of the next write of this key.
    pub(crate) fn ttl_s(&self, key: &[u8], told: Option<u32>) -> u32 {
        match told {
            Some(ttl_s) => ttl_s,
            None if self.plan.ttls.max() == 0 => 0,
            None => self.plan.ttls.of(KeyHash::of(key).0),
        }
    }

    /// Makes the next request, meant to be sent at `intended_ns`; false when there are no more.
    pub(crate) fn draw(&mut self, intended_ns: u64, request: &mut Request) -> bool {
        if self.ended {
            return false;
        }
        request.reset(intended_ns);
        let drawn = match self.quota {
            Some(0) => Ok(None),
            _ => self.feed.next(intended_ns, &mut request.keys),
        };
        match drawn {
            Ok(Some(draw)) => {
                request.operation = draw.operation;
                request.value_len = draw.value_len;
                request.ttl_s = draw.ttl_s;
                self.quota = self.quota.map(|quota| quota - 1);
                return true;
            }
            Ok(None) => {}
            // The user's own file is at fault.
            Err(error) => self.fault = Some(BadUsage(error.to_string()).into()),
        }
        self.ended = true;
        false
    }

    /// Makes the next request for the connections of a worker; of all draws where the load knows none. False when
    /// there are no more.
    pub(crate) fn draw_for(&mut self, worker: usize, now_ns: u64, request: &mut Request) -> bool {
        if !self.ended
            && let Some(waiting) = self.waiting.get_mut(worker).and_then(VecDeque::pop_front)
        {
            self.pool.push(mem::replace(request, waiting));
            request.intended_ns = now_ns;
            return true;
        }
        loop {
            if !self.draw(now_ns, request) {
                return false;
            }
            let Some(cluster) = &self.plan.cluster else {
                return true;
            };
            let Some((owner, cachelet)) = cluster.owner(request.keys.get(0)) else {
                self.fault = Some(anyhow::anyhow!("the map gives some keys to nobody"));
                self.ended = true;
                return false;
            };
            request.cachelet = Some(cachelet);
            if owner == worker {
                return true;
            }
            if self.waiting[owner].len() < WAITING_MAX {
                let spare = self.pool.pop().unwrap_or_default();
                self.waiting[owner].push_back(mem::replace(request, spare));
            }
        }
    }

    /// By what the worker was chosen that this request goes to.
    #[inline]
    pub(crate) fn route(&self, request: &Request) -> Route {
        let cluster = self.plan.cluster.as_ref()?;
        Some((cluster.epoch(), request.cachelet?))
    }

    /// Books an answered request; its misses become sets where the plan says so.
    pub(crate) fn finish(
        &mut self,
        request: &Request,
        now_ns: u64,
        refills: &mut VecDeque<Request>,
    ) {
        self.last_answer_ns = now_ns;
        self.lost_since_ns = None;
        self.stats.counters.requests += 1;
        let alike = Alike {
            is_read: matches!(
                request.operation,
                Operation::Get | Operation::ReadModifyWrite
            ),
            latency_ns: now_ns.saturating_sub(request.intended_ns),
        };
        if self.alike != alike {
            self.book();
            self.alike = alike;
        }
        self.alike_count += 1;
        if self.plan.cache_aside {
            for key in request.missed() {
                let mut refill = self.pool.pop().unwrap_or_default();
                refill.become_refill(key, request, now_ns);
                refills.push_back(refill);
            }
        }
        if let Some(operation) = request.follow_up() {
            let mut next = self.pool.pop().unwrap_or_default();
            next.become_follow_up(operation, request, now_ns);
            refills.push_back(next);
        }
    }

    /// Books the latencies of what was finished: once for all that were sent and answered together. Has to be
    /// called when the answers at hand are taken in.
    pub(crate) fn book(&mut self) {
        let latency = if self.alike.is_read {
            &mut self.stats.get_latency
        } else {
            &mut self.stats.set_latency
        };
        if self.alike_count > 0 {
            latency.saturating_record_n(self.alike.latency_ns, mem::take(&mut self.alike_count));
        }
    }

    /// Counts a request that will never be answered.
    pub(crate) fn abandon(&mut self) {
        self.stats.counters.errors += 1;
        self.stats.counters.unanswered += 1;
    }

    /// Takes a request that is out of use.
    pub(crate) fn recycle(&mut self, request: Request) {
        self.pool.push(request);
    }

    /// Remembers the first error for the report.
    pub(crate) fn note_error(&mut self, describe: impl FnOnce() -> String) {
        if self.first_error.is_none() {
            self.first_error = Some(describe());
        }
    }
}

/// A thread of load, ready to run.
pub(crate) struct LoadThread {
    index: usize,
    work: Work,
    connections: Vec<Connection>,
    schedule: Option<Schedule>,
    timer: Option<Timer>,
    poll: Poll,
    control: Arc<Control>,
    mailbox: Arc<Mutex<Mailbox>>,
    /// Where the search for a free connection goes on.
    turn: usize,
    /// Connections that the schedule has put requests on.
    unflushed: Vec<usize>,
}

impl LoadThread {
    /// Thread `index` of the plan, over connections that are open already.
    pub(crate) fn new(
        index: usize,
        plan: Arc<LoadPlan>,
        feed: Feed,
        sockets: Vec<Socket>,
        control: Arc<Control>,
        mailbox: Arc<Mutex<Mailbox>>,
        clock: Instant,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        let mut connections = Vec::with_capacity(sockets.len());
        let workers = plan.cluster.as_ref().map_or(0, |cluster| cluster.workers());
        for (token, mut socket) in sockets.into_iter().enumerate() {
            poll.registry()
                .register(&mut socket, Token(token), interest)?;
            let worker = token.checked_rem(workers).unwrap_or(0);
            connections.push(Connection::new(socket, worker, plan.pipeline));
        }
        let schedule = Schedule::new(plan.pace, index, plan.threads, plan.seed);
        let timer = schedule
            .as_ref()
            .map(|_| Timer::new(&poll, TIMER))
            .transpose()?;
        // The remainder goes to the first threads.
        let quota = plan.stop.requests.map(|requests| {
            let (threads, index) = (plan.threads as u64, index as u64);
            requests / threads + u64::from(index < requests % threads)
        });
        Ok(LoadThread {
            index,
            work: Work {
                stats: Box::default(),
                feed,
                quota,
                ended: false,
                pool: Vec::new(),
                waiting: (0..workers).map(|_| VecDeque::new()).collect(),
                alike: Alike::default(),
                alike_count: 0,
                // 2^40 writes of each thread before two share a version.
                version: (index as u64) << 40,
                value: Vec::new(),
                limits: Limits::default(),
                clock,
                last_answer_ns: 0,
                lost_since_ns: None,
                fault: None,
                first_error: None,
                plan,
            },
            connections,
            schedule,
            timer,
            poll,
            control,
            mailbox,
            turn: 0,
            unflushed: Vec::new(),
        })
    }

    /// Runs until the plan or the owner ends it.
    pub(crate) fn run(mut self) -> Outcome {
        if let Err(error) = self.pin() {
            self.work.fault = Some(anyhow::Error::msg(error));
        }
        let warm_up_ns = self.work.plan.warm_up.as_nanos() as u64;
        let mut measured_from_ns = self.work.now_ns();
        let mut cpu_from = cpu_time();
        if let Err(error) = self.turns(warm_up_ns, &mut measured_from_ns, &mut cpu_from) {
            self.work.fault = Some(anyhow::Error::new(error).context("running the event loop"));
        }
        // A load that ended while it warmed up has measured nothing.
        if self.work.now_ns() < warm_up_ns {
            self.work.stats.clear();
        }
        let work = self.work;
        self.mailbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .leave(work.stats);
        Outcome {
            elapsed: Duration::from_nanos(work.last_answer_ns.saturating_sub(measured_from_ns)),
            cpu: cpu_time().saturating_sub(cpu_from),
            fault: work.fault,
            first_error: work.first_error,
        }
    }

    fn turns(
        &mut self,
        warm_up_ns: u64,
        measured_from_ns: &mut u64,
        cpu_from: &mut Duration,
    ) -> io::Result<()> {
        let stop = self.work.plan.stop;
        let end_ns = stop
            .after
            .map_or(u64::MAX, |after| warm_up_ns + after.as_nanos() as u64);
        let drain = self.work.plan.answer_timeout.min(DRAIN_MAX).as_nanos() as u64;
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut warming = warm_up_ns > 0;
        let mut drain_until_ns = None;
        let mut generation = 0;
        let mut next_tick_ns = 0;
        let mut next_publish_ns = PUBLISH_INTERVAL.as_nanos() as u64;

        let now_ns = self.work.now_ns();
        for index in 0..self.connections.len() {
            self.fill_and_flush(index, now_ns);
        }
        loop {
            let now_ns = self.work.now_ns();
            if warming && now_ns >= warm_up_ns {
                warming = false;
                self.work.stats.clear();
                (*measured_from_ns, *cpu_from) = (now_ns, cpu_time());
            }
            let asked_for = self.control.generation.load(Ordering::Relaxed);
            if generation != asked_for {
                generation = asked_for;
                self.work.feed.switch_to(generation);
            }
            let stopped = self.control.stop.load(Ordering::Relaxed) || now_ns >= end_ns;
            if self.work.fault.is_some() {
                // A load that lost one thread is not the load that was asked for.
                self.control.stop.store(true, Ordering::Relaxed);
            }
            if drain_until_ns.is_none() && (stopped || self.work.ended || self.work.fault.is_some())
            {
                drain_until_ns = Some(now_ns + drain);
                if !self.work.ended
                    && let Some(schedule) = &mut self.schedule
                {
                    self.work.stats.counters.unsent += schedule.drain_until(now_ns.min(end_ns));
                }
                self.work.ended = true;
            }
            if let Some(until) = drain_until_ns
                && (now_ns >= until || self.connections.iter().all(Connection::is_idle))
            {
                for connection in &mut self.connections {
                    connection.close(&mut self.work, u64::MAX);
                }
                return Ok(());
            }
            self.send_due(now_ns)?;
            if now_ns >= next_tick_ns {
                next_tick_ns = now_ns + TICK.as_nanos() as u64;
                self.tick(now_ns);
            }
            if now_ns >= next_publish_ns && !warming {
                next_publish_ns = now_ns + PUBLISH_INTERVAL.as_nanos() as u64;
                self.publish();
            }
            match self.poll.poll(&mut events, Some(TICK)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                let Token(index) = event.token();
                if event.token() != TIMER {
                    if event.is_readable() || event.is_error() {
                        self.receive(index);
                    }
                    let now_ns = self.work.now_ns();
                    self.fill_and_flush(index, now_ns);
                }
            }
        }
    }

    /// Sends what the schedule says is due, while a connection has room, and sets the timer for the
    /// rest.
    fn send_due(&mut self, now_ns: u64) -> io::Result<()> {
        let Some(schedule) = &mut self.schedule else {
            return Ok(());
        };
        let pipeline = self.work.plan.pipeline;
        while schedule.next_ns() <= now_ns && !self.work.ended {
            let count = self.connections.len();
            let free = (0..count)
                .map(|step| (self.turn + step) % count)
                .find(|&index| self.connections[index].has_room(pipeline));
            let Some(index) = free else { break };
            let due_ns = schedule.next_ns();
            if !self.work.draw(due_ns, self.connections[index].next()) {
                break;
            }
            self.work.stats.send_lag.saturating_record(now_ns - due_ns);
            self.connections[index].send(&mut self.work, now_ns);
            schedule.advance();
            self.turn = (index + 1) % count;
            self.unflushed.push(index);
        }
        let due_ns = schedule.next_ns();
        while let Some(index) = self.unflushed.pop() {
            self.flush(index);
        }
        if due_ns > now_ns
            && !self.work.ended
            && let Some(timer) = &mut self.timer
        {
            timer.arm(due_ns, now_ns)?;
        }
        Ok(())
    }

    fn fill_and_flush(&mut self, index: usize, now_ns: u64) {
        let fresh = self.schedule.is_none();
        self.connections[index].fill(&mut self.work, now_ns, fresh);
        self.flush(index);
    }

    fn flush(&mut self, index: usize) {
        if let Err(loss) = self.connections[index].flush(&mut self.work) {
            self.lose(index, &loss);
        }
    }

    fn receive(&mut self, index: usize) {
        if let Err(loss) = self.connections[index].receive(&mut self.work) {
            self.lose(index, &loss);
        }
    }

    fn lose(&mut self, index: usize, loss: &Loss) {
        let now_ns = self.work.now_ns();
        self.work.note_error(|| format!("connection lost: {loss}"));
        self.work.lost_since_ns.get_or_insert(now_ns);
        if self.work.plan.cluster.is_some() && !self.work.ended {
            self.work.fault = Some(anyhow::anyhow!("a worker closed a connection: {loss}"));
        }
        let retry_at_ns = now_ns + RECONNECT_DELAY.as_nanos() as u64;
        self.connections[index].close(&mut self.work, retry_at_ns);
    }

    /// Closes silent connections, opens closed ones, gives up on a target that is gone.
    fn tick(&mut self, now_ns: u64) {
        let timeout_ns = self.work.plan.answer_timeout.as_nanos() as u64;
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            if connection.waits_since_before(now_ns.saturating_sub(timeout_ns)) {
                let silence = io::Error::from(io::ErrorKind::TimedOut);
                self.lose(index, &silence);
            } else if connection.socket.is_none()
                && connection.retry_at_ns <= now_ns
                && !self.work.ended
            {
                self.reconnect(index, now_ns);
            }
        }
        if let (Some(since), Some(patience)) =
            (self.work.lost_since_ns, self.work.plan.give_up_after)
            && now_ns.saturating_sub(since) > patience.as_nanos() as u64
        {
            let error = self.work.first_error.as_deref().unwrap_or("no answer");
            self.work.fault = Some(anyhow::anyhow!(
                "{} is gone: {error}",
                self.work.plan.target
            ));
        }
    }

    fn reconnect(&mut self, index: usize, now_ns: u64) {
        let opened = self
            .work
            .plan
            .target
            .begin_connect()
            .and_then(|mut socket| {
                let interest = Interest::READABLE | Interest::WRITABLE;
                self.poll
                    .registry()
                    .register(&mut socket, Token(index), interest)?;
                Ok(socket)
            });
        match opened {
            Ok(socket) => {
                self.work.stats.counters.reconnects += 1;
                self.connections[index].socket = Some(socket);
                self.fill_and_flush(index, now_ns);
            }
            Err(loss) => self.lose(index, &loss),
        }
    }

    fn publish(&mut self) {
        // A thread that panicked here left pointers in place.
        let mut mailbox = self.mailbox.lock().unwrap_or_else(PoisonError::into_inner);
        mailbox.offer(&mut self.work.stats);
    }

    fn pin(&self) -> Result<(), String> {
        let cores = &self.work.plan.pin;
        match cores.get(self.index % cores.len().max(1)) {
            Some(&core) => pin_thread(core),
            None => Ok(()),
        }
    }
}

/// Keeps the calling thread on a core.
pub(crate) fn pin_thread(core: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|error| format!("pinning a thread to core {core}: {error}"))
}

/// Processor time of the calling thread.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32)
}
