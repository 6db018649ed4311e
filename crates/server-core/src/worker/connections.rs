//! Connections are opened, fed and closed: how what one of them sends is carried out.

use crate::mesh::message::Message;
use crate::observe::CloseReason;
use crate::session::connections::Progress;
use crate::session::{ConnectionId, Peer, Session, awaited_limit};
use crate::worker::core::WorkerCore;
use core::ops::ControlFlow;
use evenkeel_protocol::auth::Dialect;
use evenkeel_protocol::{RequestOutcome, parse_request};
use evenkeel_types::Now;

/// What became of one command.
enum Step {
    /// It is done with, and is so long.
    Done(usize),
    /// It is to be shown again: at once after others had their turn, or when something has come.
    Waits { more: bool },
}

impl WorkerCore {
    /// A connection was made.
    pub fn open(&mut self, peer: Peer) -> ConnectionId {
        let limit = awaited_limit(self.config.limits.item_size_max);
        let mut session = Session::new(peer, limit);
        session.begin(self.config.auth);
        session.heard_at = self.now.monotonic;
        let id = self.connections.open(session);
        self.observe_open(id);
        id
    }

    /// The number of a connection in statistics and logs: like a descriptor's, it is unique in the
    /// process while the connection stands.
    pub(crate) fn connection_number(&self, id: ConnectionId) -> u32 {
        self.number_at(self.config.index, id)
    }

    /// As [`connection_number`](Self::connection_number), of a connection of any worker. The first
    /// numbers are those of the process's listeners.
    pub(crate) fn number_at(&self, worker: u16, id: ConnectionId) -> u32 {
        let listeners = self.facts.listeners.len() as u32;
        listeners + id.slot * u32::from(self.config.workers) + u32::from(worker) + 1
    }

    /// A connection is gone. Answers that are still on their way to it will be ignored.
    pub fn close(&mut self, id: ConnectionId) {
        self.close_for(id, CloseReason::Normal);
    }

    /// As [`close`](Self::close), for another reason than that the client is done.
    pub fn close_for(&mut self, id: ConnectionId, reason: CloseReason) {
        let Some(session) = self.session(id) else {
            return;
        };
        if session.awaits() {
            let others = (0..self.config.workers).filter(|worker| *worker != self.config.index);
            others.for_each(|worker| self.outbox.push(worker, Message::Gone(id)));
        }
        self.observe_close(id, reason);
        self.forget_watcher(id);
        self.connections.close(id);
        self.home_links.retain(|_, link| *link != id);
        self.early.forget(id);
        self.source_lost(id);
    }

    /// A connection's state, if it still stands.
    pub fn session(&mut self, id: ConnectionId) -> Option<&mut Session> {
        self.connections.get(id)
    }

    /// Carries out the commands at the front of a connection's input. `input` is everything not yet
    /// consumed; answers go to the session's output.
    pub fn handle_input(&mut self, now: Now, id: ConnectionId, input: &[u8]) -> Progress {
        let Some(mut session) = self.connections.take(id) else {
            return Progress {
                consumed: input.len(),
                more: false,
            };
        };
        if session.out.capacity() == 0 {
            session.out = self.connections.take_spare();
        }
        session.heard_at = now.monotonic;
        self.note_asking(self.config.index, Some(id));
        let progress = match session.dialect {
            Dialect::Text => self.work_through(now, id, &mut session, input),
            _ => self.work_through_dialect(now, id, &mut session, input),
        };
        if session.out.is_empty() {
            self.connections.keep_spare(&mut session.out);
        }
        self.connections.give_back(id, session);
        self.carry_out_replication(now);
        progress
    }

    /// The driver wrote the first `count` bytes of a connection's output.
    pub fn wrote(&mut self, id: ConnectionId, count: usize) {
        self.engine.counters.bytes_written += count as u64;
        let Some(session) = self.session(id) else {
            return;
        };
        session.written(count);
        if session.out.is_empty() {
            let mut emptied = core::mem::take(&mut session.out);
            self.connections.keep_spare(&mut emptied);
        }
    }

    /// The input from the next command on, whatever the protocol; or how far the connection has come,
    /// when it is to go no further for now. `consumed` moves past what is left of a refused value.
    #[inline(always)]
    pub(crate) fn next_command<'i>(
        &mut self,
        session: &mut Session,
        input: &'i [u8],
        consumed: &mut usize,
        commands: u32,
    ) -> ControlFlow<Progress, &'i [u8]> {
        let dropped = session.swallow.min(input.len() - *consumed);
        session.swallow -= dropped;
        *consumed += dropped;
        let stop = |consumed, more| ControlFlow::Break(Progress { consumed, more });
        if session.closing {
            return stop(input.len(), false);
        }
        let rest = &input[*consumed..];
        if rest.is_empty() || rest.len() < session.need || session.is_paused() {
            return stop(*consumed, false);
        }
        if commands == self.config.requests_per_turn || self.outbox.is_full() {
            self.engine.counters.conn_yields += 1;
            return stop(*consumed, true);
        }
        session.need = 0;
        ControlFlow::Continue(rest)
    }

    pub(crate) fn work_through(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        input: &[u8],
    ) -> Progress {
        let mut consumed = 0;
        let mut commands = 0;
        loop {
            let rest = match self.next_command(session, input, &mut consumed, commands) {
                ControlFlow::Continue(rest) => rest,
                ControlFlow::Break(progress) => return progress,
            };
            let left = self.config.requests_per_turn - commands;
            if rest[0] == b's' {
                if let Some((length, taken)) = self.plain_sets(now, session, rest, left) {
                    consumed += length;
                    commands += taken;
                    continue;
                }
            } else if session.keys_done == 0
                && let Some((progress, taken)) = self.plain_reads(now, id, session, rest, left)
            {
                consumed += progress.consumed;
                commands += taken;
                if session.keys_done > 0 || progress.more || self.handovers.has_waiting(id) {
                    return Progress {
                        consumed,
                        more: progress.more,
                    };
                }
                continue;
            }
            commands += 1;
            match self.one_request(now, id, session, rest) {
                Step::Done(length) => consumed += length,
                Step::Waits { more } => return Progress { consumed, more },
            }
        }
    }

    /// Carries out the command at the front of the input, whatever it is.
    // Not inlined: plain requests should not pay for what it needs of the stack.
    #[inline(never)]
    fn one_request(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        input: &[u8],
    ) -> Step {
        match parse_request(input, &self.config.limits) {
            RequestOutcome::Request { request, consumed } => {
                if self.dispatch(now, id, session, &request, &input[..consumed]) {
                    Step::Done(consumed)
                } else {
                    // A multi-get or a list that waits for room, or has had its share of the turn, goes on
                    // where it stopped; what waits for a key that moves is shown again when it has, and what waits
                    // for a map when that has come.
                    let waits = self.handovers.has_waiting(id) || self.early.has_waiting(id);
                    Step::Waits {
                        more: !session.is_paused() && !waits,
                    }
                }
            }
            RequestOutcome::Incomplete { total } => {
                session.need = total;
                Step::Waits { more: false }
            }
            RequestOutcome::Refused {
                refusal,
                consumed,
                swallow,
            } => {
                if !self.refuse(now, id, session, &refusal) {
                    return Step::Waits { more: false };
                }
                session.swallow = swallow;
                Step::Done(consumed)
            }
            RequestOutcome::Close { reply } => {
                self.engine.counters.protocol_errors += 1;
                session.sink().extend_from_slice(reply);
                session.closing = true;
                Step::Done(0)
            }
        }
    }
}
