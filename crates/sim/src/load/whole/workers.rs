//! Workers of servers, driven as the server's event loop drives them.

use super::network::{ACCEPTOR, INITIATOR, Way, Who};
use super::now::now_at;
use super::{Cluster, Event};
use crate::history::Nanos;
use crate::load::cluster::{worker_at, worker_ref};
use evenkeel_server_core::{LinkRequest, Peer};

/// How often a connection may have another go at once; then others have their turn. As in the server's
/// event loop, so that a worker that is behind answers in small pieces.
const ROUNDS_MAX: u32 = 4;

impl Cluster<'_> {
    /// A connection to a worker is asked for, and stands after a round trip.
    pub(super) fn connect_to_worker(&mut self, from: Who, worker: usize) -> usize {
        let id = self.workers[worker].core.open(Peer::default());
        let to = Who::Session(worker, id);
        let connection = self.network.connect(from, to, Way::Network);
        let key = (id.slot, id.generation);
        self.workers[worker].sessions.insert(key, connection);
        let at = self.time + 2 * self.plan.network;
        self.queue.push(at, Event::Open(connection));
        connection
    }

    /// A connection has input for a worker.
    pub(super) fn input_waits(&mut self, worker: usize, connection: usize) {
        let waits = &mut self.network.connections[connection].waits;
        if !core::mem::replace(waits, true) {
            self.workers[worker].ready.push_back(connection);
        }
        self.take_turn(worker);
    }

    /// A worker is no longer busy.
    pub(super) fn turn_ended(&mut self, worker: usize) {
        self.workers[worker].busy = false;
        self.take_turn(worker);
    }

    /// Whether servers take no time: so it is while they are filled.
    fn is_free(&self) -> bool {
        self.filling > 0 || self.plan.service.is_free()
    }

    /// Serves every connection that has something to say, if the worker is not busy.
    fn take_turn(&mut self, worker: usize) {
        if self.workers[worker].busy {
            return;
        }
        let mut done_at = self.time;
        // Servers that take no time have their next turn at once.
        while done_at == self.time && !self.workers[worker].ready.is_empty() {
            for _ in 0..self.workers[worker].ready.len() {
                if let Some(connection) = self.workers[worker].ready.pop_front() {
                    done_at = self.serve(worker, connection, done_at);
                }
            }
        }
        self.pump_worker(worker, done_at);
        if done_at > self.time {
            self.workers[worker].worked += done_at - self.time;
            self.workers[worker].busy = true;
            self.queue.push(done_at, Event::Turn(worker));
        }
    }

    /// Executes what a connection has said, which is one batch; gives when it is done.
    fn serve(&mut self, worker: usize, connection: usize, from: Nanos) -> Nanos {
        let Who::Session(_, id) = self.network.connections[connection].ends[ACCEPTOR] else {
            return from;
        };
        let mut out = self.network.buffer();
        let connected = &mut self.network.connections[connection];
        let input = &mut connected.input[ACCEPTOR];
        let core = &mut self.workers[worker].core;
        let before = core.counters().keys_served();
        let (mut bytes, mut more) = (0, true);
        for _ in 0..ROUNDS_MAX {
            let progress = core.handle_input(now_at(self.time), id, &input.rest()[bytes..]);
            bytes += progress.consumed;
            if let Some(session) = core.session(id) {
                out.append(&mut session.out);
            }
            more = progress.more && progress.consumed > 0;
            if !more {
                break;
            }
        }
        input.consume(bytes);
        connected.waits = more;
        let keys = core.counters().keys_served() - before;
        if more {
            self.workers[worker].ready.push_back(connection);
        }
        let mut done_at = from;
        if !self.is_free() {
            let moved = (bytes + out.len()) as u64;
            done_at += self.plan.service.cost(keys, moved, 1);
        }
        self.send(connection, ACCEPTOR, done_at, out);
        done_at
    }

    /// Executes what a worker wants after anything that it was told.
    pub(super) fn pump_worker(&mut self, worker: usize, at: Nanos) {
        self.workers[worker].core.handle_released(now_at(at));
        if self.workers[worker].core.has_outbox() {
            self.pass_on(worker, at);
        }
        while let Some(request) = self.workers[worker].core.poll_link_request() {
            self.change_link(worker, request);
        }
        if !self.workers[worker].links.is_empty() {
            self.move_links(worker, at);
        }
        while let Some(id) = self.workers[worker].core.poll_touched() {
            let w = &mut self.workers[worker];
            let connection = w.sessions.get(&(id.slot, id.generation)).copied();
            let out = w
                .core
                .session(id)
                .map(|session| core::mem::take(&mut session.out));
            if let (Some(connection), Some(out)) = (connection, out) {
                self.send(connection, ACCEPTOR, at, out);
            }
        }
    }

    /// What a worker says to the others of its server.
    fn pass_on(&mut self, worker: usize, at: Nanos) {
        let first = worker - usize::from(worker_ref(self.plan, worker).worker);
        let from = (worker - first) as u16;
        let queue = &mut self.queue;
        self.workers[worker].core.flush_outbox(|to, message| {
            let to = first + usize::from(to);
            queue.push(at + 1, Event::Inside(to, from, Box::new(message)));
            Ok(())
        });
    }

    fn change_link(&mut self, worker: usize, request: LinkRequest) {
        match request {
            LinkRequest::Connect { link, host, port } => {
                let target = worker_at(self.plan, &host, port);
                let connection = self.connect_to_worker(Who::Link(worker, link), target);
                self.workers[worker].links.insert(link, (connection, false));
            }
            LinkRequest::Close(link) => {
                if let Some((connection, _)) = self.workers[worker].links.remove(&link) {
                    self.hang_up(connection);
                }
            }
        }
    }

    fn move_links(&mut self, worker: usize, at: Nanos) {
        let w = &mut self.workers[worker];
        let mut sent = Vec::new();
        for (&link, &(connection, stands)) in &w.links {
            if stands && let Some(out) = w.core.link_out(link).filter(|out| !out.is_empty()) {
                sent.push((connection, core::mem::take(out)));
            }
        }
        for (connection, bytes) in sent {
            self.send(connection, INITIATOR, at, bytes);
        }
    }
}
