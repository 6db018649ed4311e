//! A thread of load: one event loop over its connections.
//!
//! A turn of the loop is: send what is due, wait for the sockets, take in answers, refill the
//! connections they came on. Twenty times a second it also looks after connections that are down or
//! silent, and ten times it publishes its figures. An open loop sleeps on a timer of the
//! kernel with nanosecond resolution instead of the millisecond timeout of `epoll_wait`.

use super::connection::{Connection, INPUT_LEN};

use super::feed::Feed;
use super::stats::Mailbox;
use super::wire::Loss;
use super::work::Work;
use crate::timer::Timer;
use crate::{LoadPlan, Source};
use evenkeel_workload::Schedule;
use mio::{Events, Interest, Poll, Token};
use rustix::thread::CpuSet;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest sleep, and distance of the looks at silent connections.
const TICK: Duration = Duration::from_millis(50);

/// Distance at which figures are published.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(100);

/// Wait before a lost connection is opened anew.
const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// Most events of one turn.
const EVENTS_MAX: usize = 1024;

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

/// A thread of load, ready to run.
pub(crate) struct LoadThread {
    index: usize,
    work: Work,
    connections: Vec<Connection>,
    /// What answers are read into, one connection's at a time.
    input: Vec<u8>,
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
        mut connections: Vec<Connection>,
        control: Arc<Control>,
        mailbox: Arc<Mutex<Mailbox>>,
        clock: Instant,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        for (token, connection) in connections.iter_mut().enumerate() {
            if let Some(socket) = &mut connection.socket {
                poll.registry().register(socket, Token(token), interest)?;
            }
        }
        let schedule = Schedule::new(plan.pace, index, plan.threads, plan.seed);
        let timer = schedule
            .as_ref()
            .map(|_| Timer::new(&poll, TIMER))
            .transpose()?;
        Ok(LoadThread {
            index,
            work: Work::new(index, plan, feed, clock),
            connections,
            input: vec![0; INPUT_LEN],
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
        let answer_timeout = self.work.plan.answer_timeout;
        let drain = match self.work.plan.source {
            // Nothing is measured: the last answers may take as long as any.
            Source::Fill(_) => answer_timeout,
            _ => self.work.plan.drain.min(answer_timeout),
        };
        let drain_ns = drain.as_nanos() as u64;
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut warming = warm_up_ns > 0;
        let mut drain_until_ns = None;
        let mut generation = 0;
        let mut next_tick_ns = 0;
        let mut next_publish_ns = PUBLISH_INTERVAL.as_nanos() as u64;

        let now_ns = self.work.now_ns();
        for index in 0..self.connections.len() {
            self.send(index, now_ns);
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
                drain_until_ns = Some(now_ns + drain_ns);
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
                if !self.connections.iter().all(Connection::is_idle) {
                    self.work.note_error(|| {
                        format!("no answer within {drain:?} of the end of the load")
                    });
                }
                for connection in &mut self.connections {
                    connection.close(&mut self.work, u64::MAX);
                }
                return Ok(());
            }
            self.send_due(now_ns)?;
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
                    self.send(index, now_ns);
                }
            }
            // What had come by then is taken: a generator that did not run for a while takes no connection for silent.
            if now_ns >= next_tick_ns {
                next_tick_ns = now_ns + TICK.as_nanos() as u64;
                self.tick(now_ns);
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
            let mut turns = (0..count).map(|step| (self.turn + step) % count);
            let free = turns.find(|&index| self.connections[index].takes_due(pipeline).is_some());
            let Some(index) = free else { break };
            let Some(drawn) = self.connections[index].takes_due(pipeline) else {
                break;
            };
            let due_ns = schedule.next_ns();
            if !self.work.draw(due_ns, drawn.next()) {
                break;
            }
            self.work.stats.send_lag.saturating_record(now_ns - due_ns);
            drawn.encode(&mut self.work, now_ns);
            schedule.advance();
            self.turn = (index + 1) % count;
            self.unflushed.push(index);
        }
        let due_ns = schedule.next_ns();
        while let Some(index) = self.unflushed.pop() {
            self.send(index, now_ns);
        }
        if due_ns > now_ns
            && !self.work.ended
            && let Some(timer) = &mut self.timer
        {
            timer.arm(due_ns, now_ns)?;
        }
        Ok(())
    }

    /// Sends what a connection has room for and writes what waits.
    fn send(&mut self, index: usize, now_ns: u64) {
        let fresh = self.schedule.is_none();
        if let Err(loss) = self.connections[index].send(&mut self.work, now_ns, fresh) {
            self.lose(index, &loss);
        }
    }

    fn receive(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if let Err(loss) = connection.receive(&mut self.work, &mut self.input) {
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
                self.send(index, now_ns);
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
