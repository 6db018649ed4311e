//! What the driver does with connections: it opens, feeds and closes them.

use crate::mesh::message::Message;
use crate::observe::CloseReason;
use crate::session::connections::Progress;
use crate::session::{ConnectionId, Peer, Session, awaited_limit};
use crate::worker::binary::work_through_dialect;
use crate::worker::core::WorkerCore;
use crate::worker::text::work_through;
use crate::worker::watch::{forget_watcher, send_lines};
use evenkeel_protocol::auth::Dialect;
use evenkeel_types::Now;
use evenkeel_types::rooms::Rooms;

impl WorkerCore {
    /// A connection was made.
    pub fn open(&mut self, peer: Peer) -> ConnectionId {
        let limit = awaited_limit(self.config.limits.item_size_max);
        let mut session = Session::new(peer, limit);
        session.begin(self.config.auth);
        session.heard_at = self.now.monotonic;
        let id = self.connections.open(session);
        if let Some(session) = self.connections.get(id) {
            let number = self.process.number_of(session);
            (self.observers).saw_connection(self.now, &session.peer, None, number);
        }
        id
    }

    /// A connection is gone. Answers that are still on their way to it will be ignored.
    pub fn close(&mut self, id: ConnectionId) {
        self.close_for(id, CloseReason::Normal);
    }

    /// As [`close`](Self::close), for another reason than that the client is done.
    pub fn close_for(&mut self, id: ConnectionId, reason: CloseReason) {
        let Some(session) = self.connections.get(id) else {
            return;
        };
        if session.awaits() {
            self.outbox.push_to_others(|| Message::Gone(id));
        }
        let number = self.process.number_of(session);
        (self.observers).saw_connection(self.now, &session.peer, Some(reason), number);
        forget_watcher(self, id);
        self.connections.close(id);
        self.homes.forget(id);
        self.hosting.migrations.source_lost(&mut self.engine, id);
    }

    /// A connection's state, if it still stands.
    pub fn session(&mut self, id: ConnectionId) -> Option<&mut Session> {
        self.connections.get(id)
    }

    /// Executes the commands at the front of a connection's input. `input` is everything not yet
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
            Dialect::Text => work_through(self, now, &mut session, input),
            _ => work_through_dialect(self, now, &mut session, input),
        };
        if session.out.is_empty() {
            self.connections.keep_spare(&mut session.out);
        }
        self.connections.give_back(session);
        self.execute_replication(now);
        progress
    }

    /// Emptied memory of large commands, for the next ones.
    pub fn rooms(&mut self) -> &mut Rooms {
        &mut self.connections.rooms
    }

    /// The driver wrote the first `count` bytes of a connection's output.
    pub fn wrote(&mut self, id: ConnectionId, count: usize) {
        self.engine.counters.bytes_written += count as u64;
        let Some(session) = self.connections.get(id) else {
            return;
        };
        let mut emptied = session.written(count);
        self.connections.keep_spare(&mut emptied);
    }

    /// A connection whose output grew or that is to be closed, by other means than its own input.
    pub fn poll_touched(&mut self) -> Option<ConnectionId> {
        if self.observers.is_on() {
            send_lines(self);
        }
        self.connections.poll_touched()
    }
}
