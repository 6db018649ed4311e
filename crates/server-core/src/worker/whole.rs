//! Commands about the whole server: every worker does its share, and the one whose connection asked adds the
//! shares up.

use crate::mesh::message::{Message, Task};
use crate::session::address::ReturnAddress;
use crate::session::listing::list_share;
use crate::session::{ConnectionId, Session};
use crate::shard::classes::ClassStats;
use crate::shard::counters::Counters;
use crate::shard::share::Share;
use crate::shard::time::TimeBase;
use crate::stats;
use crate::worker::core::WorkerCore;
use evenkeel_protocol::text;
use evenkeel_types::Now;

impl WorkerCore {
    /// Asks another worker for its share of a command about the whole server.
    pub(crate) fn send_whole(&mut self, worker: u16, to: Option<ReturnAddress>, task: Task) {
        self.engine.counters.forwarded_out += 1;
        self.outbox.push(worker, Message::Whole { to, task });
    }

    /// Starts a command to which every worker contributes, this one at once.
    pub(crate) fn whole(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        task: Task,
        noreply: bool,
    ) {
        let to = (!noreply).then(|| self.expect(id, session, self.config.workers));
        let me = self.config.index;
        for worker in (0..self.config.workers).filter(|worker| *worker != me) {
            self.send_whole(worker, to, task);
        }
        let (to, task, share) = self.do_share(now, me, to, task);
        if let Some(to) = to {
            self.add_share(now, session, to, task, share);
        }
    }

    /// Does this worker's share of a command about the whole server, of a connection at worker `asker`. Gives
    /// back whom to answer, unless that must wait, the task as it is to go on (a list says where it has come to), and the share.
    pub(crate) fn do_share(
        &mut self,
        now: Now,
        asker: u16,
        to: Option<ReturnAddress>,
        task: Task,
    ) -> (Option<ReturnAddress>, Task, Share) {
        let mut lines = Vec::new();
        let share = match task {
            Task::List(step) => {
                let task = Task::List(list_share(&self.engine, step, now, &mut lines));
                return (to, task, Share::Lines(lines));
            }
            Task::Flush { at_s: None } => {
                self.flush(now);
                return (self.finish_flush(now, asker, to), task, Share::Done);
            }
            Task::Stats(_) => Share::Counters(Box::new(self.counts())),
            Task::Classes(_) => {
                Share::Classes(Box::new((self.engine.classes(now), self.engine.counts())))
            }
            Task::Prefixes => Share::Prefixes(self.observers.prefixes().clone()),
            Task::Connections => {
                self.connection_lines(now, &mut lines);
                Share::Lines(lines)
            }
            Task::Lines(view) => {
                self.lines(view, now, &mut lines);
                Share::Lines(lines)
            }
            _ => {
                self.carry_out_task(now, task);
                Share::Done
            }
        };
        (to, task, share)
    }

    /// Carries out a task of which nothing is told but that it was done.
    fn carry_out_task(&mut self, now: Now, task: Task) {
        match task {
            Task::Detail(on) => self.observers.set_detail(on),
            Task::Watch { .. } => self.take_watched(task),
            Task::Verbosity(level) => self.verbosity = Some(level),
            Task::DebugTime(change) => self.debug_clock.change(change),
            Task::Flush { at_s } => self.flush_at = at_s,
            Task::ResetStats => self.reset_stats(now),
            Task::List(_)
            | Task::Stats(_)
            | Task::Classes(_)
            | Task::Prefixes
            | Task::Connections
            | Task::Lines(_) => {}
        }
    }

    /// What this worker has counted, with what is counted only when somebody asks.
    pub fn counts(&self) -> Counters {
        let (written, dropped, prefixes_overflowed) = self.observers.counts();
        let mut counts = Counters {
            log_worker_written: written,
            log_worker_dropped: dropped,
            log_watchers: self.observers.watchers_here(),
            prefixes_overflowed,
            read_buf_count: self.input_held.0,
            read_buf_bytes: self.input_held.1,
            ..self.engine.counts()
        };
        for (_, session) in self.connections.iter() {
            let bytes = session.waiting_bytes() as u64;
            counts.response_obj_count += u64::from(bytes > 0);
            counts.response_obj_bytes += bytes;
        }
        counts
    }

    /// What is held and was evicted at this worker, by size.
    pub fn classes(&self, now: Now) -> ClassStats {
        self.engine.classes(now)
    }

    /// Another worker's share of an answer arrived for a connection of this one.
    pub(crate) fn take_share(&mut self, now: Now, to: ReturnAddress, task: Task, share: Share) {
        let Some(mut session) = self.connections.take(to.connection) else {
            return;
        };
        self.add_share(now, &mut session, to, task, share);
        self.connections.give_back(to.connection, session);
        self.connections.touch(to.connection);
    }

    pub(crate) fn add_share(
        &mut self,
        now: Now,
        session: &mut Session,
        to: ReturnAddress,
        task: Task,
        mut share: Share,
    ) {
        if let Task::List(step) = task {
            session.release();
            if let Some(listing) = session.list.as_deref_mut() {
                share = Share::Lines(listing.advance(step, share.lines()).to_vec());
            }
        }
        let facts = &self.facts;
        let finish = |sum: Share| match (task, sum) {
            (Task::Stats(view), Share::Counters(sum)) => stats::compose(view, &sum, facts, now),
            (Task::Classes(view), Share::Classes(sum)) => stats::compose_classes(view, &sum),
            (Task::Prefixes, Share::Prefixes(sum)) => [&sum.dump(), text::END].concat(),
            (Task::List(_), sum) => sum.into_lines(),
            (Task::Lines(_) | Task::Connections, sum) => [sum.lines(), text::END].concat(),
            (Task::ResetStats, _) => text::RESET.to_vec(),
            _ => text::OK.to_vec(),
        };
        session.answer_arrived(to.ticket, share, finish);
    }

    pub(crate) fn flush_all(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        delay: Option<i64>,
        noreply: bool,
    ) {
        if !self.config.allow_flush {
            return reply(session, text::FLUSH_NOT_ALLOWED, noreply);
        }
        self.engine.counters.cmd_flush += 1;
        let at_s = delay
            .filter(|delay| *delay > 0)
            .map(|delay| self.engine.time.expiry(now, delay))
            .filter(|at| *at > TimeBase::seconds(now));
        let task = Task::Flush { at_s };
        if session.agreed {
            // An agreed client says it to every worker itself. A worker that passed it on would flush
            // the others a second time, and with that what the client stored there meanwhile.
            let is_far = at_s.is_none() && self.has_given_lately(now);
            let to = (is_far && !noreply).then(|| self.expect(id, session, 1));
            self.do_share(now, self.config.index, to, task);
            if to.is_some() {
                return;
            }
            let before = session.sink().len();
            reply(session, text::OK, noreply);
            if at_s.is_none() && self.engine.hot.is_careful() {
                self.hold_for_all(id, session, before);
            }
            return;
        }
        self.whole(now, id, session, task, noreply);
    }
}

fn reply(session: &mut Session, bytes: &[u8], noreply: bool) {
    if !noreply {
        session.sink().extend_from_slice(bytes);
    }
}
